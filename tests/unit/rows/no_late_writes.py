"""Rows for no-late-writes; the handover is at +0.5 s unless a row says otherwise."""

from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    WORKSPACE,
    Row,
    changed,
    look_again,
    ns,
    plus,
    row,
    saw,
    stamp,
    story,
    terms,
    without,
    workspace_look,
    wrote,
)
from tests.unit.stories import beside

GONE = story()
WRITES = story(deaths={"leader": 0.2, "deaf-child": None})
SILENT = without(WRITES, "workspace.changed")
SILENT = [one for one in SILENT if not (one.kind == "wrote" and one.at_s > 100.0)]
OWN = saw("workspace", "changed", 1.2, path=f"{WORKSPACE}/result.json", beside=False, what="created", ctime_ns=ns(0.6), writers=[])
NAMESPACE = [
    type(one)(one.at_s, one.witness, one.kind, one.subject, {**one.data, "pid": 7})
    if one.kind == "hello" and one.data["role"] != "leader"
    else one
    for one in without(WRITES, "workspace.changed")
]
ROWS = (
    Row("all dead at the handover is kept", GONE, KEPT, says=["no write of the run after the handover"]),
    Row(
        "writes of a survivor are broken",
        WRITES,
        BROKEN,
        says=[
            "uncooperative-deaf-child.log by pid 4711 (start 1001, deaf-child) (5 lines)",
            "still alive when the run was reported as over",
        ],
    ),
    Row("writes until it is gone are broken", story(deaths={"leader": 0.2, "deaf-child": 5.0}), BROKEN),
    Row("dead exactly at the handover is kept", story(deaths=0.5), KEPT),
    Row("alive, and nothing changed, is kept", SILENT, KEPT),
    Row(
        "the runner's word alone does not accuse, nor is it passed over",
        plus(SILENT, wrote(3.0, "deaf-child", 80)),
        INCONCLUSIVE,
        says=["disagree"],
    ),
    Row("what it writes far from the workspace is not judged here", plus(SILENT, wrote(3.0, "deaf-child", 80, "/elsewhere/log")), KEPT),
    Row("the wrapper's own file after gone is a note", plus(GONE, OWN), KEPT, says=["result.json"]),
    Row("the wrapper's own file beside a survivor is a note", plus(SILENT, OWN), KEPT),
    Row(
        "marks of the dead in a file that was copied are a note", plus(GONE, changed(1.2, what="created", path=f"{WORKSPACE}.old/l")), KEPT
    ),
    Row(
        "a workspace thrown away after the report is kept",
        plus(without(GONE, "workspace.look", moment="end"), changed(1.2, what="deleted"), workspace_look("end", 1.2, exists=False)),
        KEPT,
    ),
    Row(
        "a workspace thrown away from under a survivor hides what it wrote",
        plus(without(SILENT, "workspace.look", moment="end"), workspace_look("end", 12.7, exists=False)),
        INCONCLUSIVE,
    ),
    Row(
        "marks of a reused pid, from another attempt, are not the run's",
        plus(SILENT, changed(12.7, "deaf-child", attempt="old-1")),
        INCONCLUSIVE,
        says=["not known"],
    ),
    Row("marks by the pid that the process has in its own namespace", plus(NAMESPACE, changed(12.7, "deaf-child", pid=7)), BROKEN),
    Row(
        "marks of a process that could not be read",
        plus(
            look_again(look_again(look_again(look_again(SILENT, "end"), "reported"), "deadline"), "handover", row("deaf-child", "?")),
            changed(3.0, "deaf-child"),
        ),
        INCONCLUSIVE,
        says=["not proven when"],
    ),
    Row(
        "a change after gone, to the file of one that lived at the handover",
        plus(without(story(deaths=1.0), "workspace.changed"), changed(1.6, ctime_s=1.5)),
        INCONCLUSIVE,
    ),
    Row("the workspace was never opened", without(WRITES, "workspace.opened"), INCONCLUSIVE, says=["never seen"]),
    Row("no look after the handover", without(GONE, "workspace.look", moment="end"), INCONCLUSIVE),
    Row("no stamp", without(SILENT, "workspace.stamp"), INCONCLUSIVE, says=["no stamp"]),
    Row(
        "a stamp made too late is the machine's fault",
        plus(without(SILENT, "workspace.stamp", moment="handover"), stamp("handover", 0.8)),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row(
        "never reported: judged from the deadline",
        story(deaths={"leader": 0.2, "deaf-child": None}, reported=None),
        BROKEN,
        says=["past its deadline"],
    ),
    Row("early moves the handover", story(deaths={"leader": 0.2, "deaf-child": 2.0}, early=3.0), KEPT, terms(early=3)),
    Row("without an outcome the handover is the deadline", story(deaths=5.0, reported=None), KEPT, capabilities=()),
    Row(
        "what another run of the drill writes is not the cancelled one's",
        plus(GONE, *beside(judged=1.1, wrote_at=1.0), changed(1.2, path=f"{WORKSPACE}-b/l", pid=4750, attempt="k3f9-2")),
        KEPT,
    ),
)
