"""Rows for no-late-writes; the handover is at +0.5 s unless a row says otherwise."""

from typing import Any

from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BROKEN,
    FIRST,
    INCONCLUSIVE,
    KEPT,
    SECOND,
    WORKSPACE,
    Row,
    between_stamp_and_look,
    changed,
    held_change,
    look_again,
    ns,
    plus,
    row,
    saw,
    stamp,
    stepped,
    story,
    subject_of,
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
UNMARKED = without(WRITES, "workspace.changed")
"""The survivor says that it writes, and leaves no mark."""


def seen_with(seen: list[Observation], name: str, **data: Any) -> list[Observation]:
    """With this in all observations of a name."""
    return [
        Observation(one.at_s, one.witness, one.kind, one.subject, {**one.data, **data}) if f"{one.witness}.{one.kind}" == name else one
        for one in seen
    ]


def in_folder(seen: list[Observation], ino: int, *, at_handover: int) -> list[Observation]:
    """The run works in the folder of that inode, and another may be at its path by the handover."""
    return seen_with(seen_with(seen, "lifeline.hello", cwd_dev=1, cwd_ino=ino), "workspace.look", dev=1, ino=at_handover)


def standing(seen: list[Observation], at_handover: str, later: str) -> list[Observation]:
    """The survivor is in these states at the handover's look at the processes, and at those behind it."""
    told: list[Observation] = []
    state = ""
    for one in seen:
        if (one.witness, one.kind) == ("process-table", "look"):
            state = at_handover if one.data["moment"] in {"reported", "handover"} else later if state else ""
            rows = [{**row, **({"state": state} if state and row["role"] == "deaf-child" else {})} for row in one.data["processes"]]
            one = Observation(one.at_s, one.witness, one.kind, one.subject, {**one.data, "processes": rows})
        told.append(one)
    return told


IN_TURN = [
    {"pid": 4711, "attempt": FIRST, "count": 3},
    {"pid": 4800, "attempt": SECOND, "count": 1},
    {"pid": 4711, "attempt": FIRST, "count": 2},
]
ROWS = (
    Row("all dead at the handover is kept", GONE, KEPT, says=["no write of the run after the handover"]),
    Row(
        "writes of a survivor are broken",
        WRITES,
        BROKEN,
        says=[
            "uncooperative-deaf-child.log by pid 4711 (start 1001, deaf-child) (5 lines, 12.2 s after the handover)",
            "still alive when the run was reported as over",
        ],
    ),
    Row("writes until it is gone are broken", story(deaths={"leader": 0.2, "deaf-child": 5.0}), BROKEN),
    Row("dead exactly at the handover is kept", story(deaths=0.5), KEPT),
    Row("alive, and nothing changed, is kept", SILENT, KEPT),
    Row("alive in the folder that is watched is kept", in_folder(SILENT, 7, at_handover=7), KEPT),
    Row(
        "alive in a folder in whose place another stands proves nothing",
        in_folder(SILENT, 7, at_handover=8),
        INCONCLUSIVE,
        says=["pid 4711 (start 1001, deaf-child) may have been alive at the handover", "works in another folder"],
    ),
    Row(
        "alive, and its file taken away between two looks, proves nothing",
        plus(SILENT, wrote(0.4, "deaf-child", 8), changed(0.9, None, path=f"{WORKSPACE}/uncooperative-deaf-child.log", what="deleted")),
        INCONCLUSIVE,
        says=["was taken away before it could be read again"],
    ),
    Row(
        "dead, and its file taken away, is kept",
        plus(GONE, wrote(0.1, "leader", 8), changed(0.9, None, path=f"{WORKSPACE}/uncooperative-leader.log", what="deleted")),
        KEPT,
    ),
    Row("dead, and the folder made anew, is kept", in_folder(GONE, 7, at_handover=8), KEPT),
    Row("stopped all the time writes nowhere", standing(in_folder(SILENT, 7, at_handover=8), "T", "T"), KEPT),
    Row("stopped at the handover alone may have written", standing(in_folder(SILENT, 7, at_handover=8), "T", "S"), INCONCLUSIVE),
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
    # --- When, and by how many ---
    Row(
        "the first and the last of several changes are told",
        plus(WRITES, changed(0.75, "deaf-child", ctime_s=0.6)),
        BROKEN,
        says=["(5 lines, 0.1 s to 12.2 s after the handover)"],
    ),
    Row(
        "a log that was written and then thrown away still accuses",
        plus(WRITES, changed(12.71, "deaf-child", what="deleted", ctime_s=0.0)),
        BROKEN,
        says=["(5 lines, 12.2 s after the handover)"],
    ),
    Row(
        "a log that was written before gone, and touched by the wrapper after it",
        plus(story(deaths={"leader": 0.2, "deaf-child": 5.0}), changed(5.75, "deaf-child", what="meta", ctime_s=5.5)),
        BROKEN,
        says=["(5 lines, 4.5 s after the handover)"],
    ),
    Row(
        "two attempts in one file are shown as they wrote in turn",
        plus(UNMARKED, *seen_with([changed(12.7, "deaf-child")], "workspace.changed", order=IN_TURN)),
        BROKEN,
        says=["in turn: 3 by k3f9-1 (pid 4711), 1 by k3f9-2 (pid 4800), 2 by k3f9-1 (pid 4711)"],
    ),
    # --- By holding a file ---
    Row(
        "a store into a mapped file without marks is its only holder's",
        plus(UNMARKED, held_change(3.0, "deaf-child")),
        BROKEN,
        says=[
            "state.db by pid 4711 (start 1001, deaf-child)",
            "which holds it by a mapping, and nobody else does, 2.25 s to 2.5 s after the handover",
        ],
    ),
    Row(
        "a write through a descriptor is told by its change time",
        plus(UNMARKED, held_change(3.0, "deaf-child", how="descriptor", by_reading=False)),
        BROKEN,
        says=["by a descriptor, and nobody else does, 2.5 s after the handover"],
    ),
    Row(
        "a file that others hold too is a note",
        plus(SILENT, held_change(3.0, "deaf-child", others_hold=True)),
        KEPT,
        says=["held by others too, and so nobody's: /drill/work/workspace/state.db"],
    ),
    Row(
        "a file of which nobody can say who else holds it acquits nobody",
        plus(SILENT, held_change(3.0, "deaf-child", others_hold=None)),
        INCONCLUSIVE,
        says=["who else holds it could not be told"],
    ),
    Row(
        "a file that the second run holds too is not the first one's alone",
        plus(
            SILENT,
            held_change(3.0, "deaf-child", holders=[{"subject": one, "how": "mapping"} for one in (subject_of("deaf-child"), "4800:3000")]),
        ),
        KEPT,
    ),
    Row(
        "a holder of whom the process table tells nothing",
        plus(without(SILENT, "process-table.look"), held_change(3.0, "deaf-child")),
        INCONCLUSIVE,
        says=["may have been alive"],
    ),
    Row("a file that is held, of which only the permissions changed", plus(SILENT, held_change(3.0, "deaf-child", what="meta")), KEPT),
    Row("a file that is held, and reads as it did", plus(SILENT, held_change(3.0, "deaf-child", before_sha256="after")), KEPT),
    Row("a file that is held, and was never read before", plus(SILENT, held_change(3.0, "deaf-child", before_sha256="")), KEPT),
    Row("a holder that was dead at the handover", plus(SILENT, held_change(3.0, "leader")), KEPT),
    Row(
        "a change in a held file after the run was gone is a note",
        plus(without(story(deaths=1.0), "workspace.changed", "lifeline.wrote"), held_change(1.6, "leader", span=(1.1, 1.6))),
        KEPT,
    ),
    Row(
        "a change in a held file from before the run was gone, seen after it",
        plus(without(story(deaths=1.0), "workspace.changed"), held_change(1.1, "leader", span=(0.9, 1.1))),
        BROKEN,
    ),
    Row(
        "a living process whose files could not be read",
        seen_with(SILENT, "workspace.look", unread=[subject_of("deaf-child")]),
        INCONCLUSIVE,
        says=["the files that pid 4711 held could not be read"],
    ),
    Row("a dead process whose files could not be read", seen_with(GONE, "workspace.look", unread=[subject_of("leader")]), KEPT),
    # --- Between the stamp and the first look ---
    Row(
        "marks of right after the handover, by their own word, accuse",
        plus(UNMARKED, between_stamp_and_look(0.501, "deaf-child")),
        BROKEN,
        says=["0.001 s after the handover"],
    ),
    Row(
        "an unmarked change of right after the handover, while a process lives",
        plus(SILENT, between_stamp_and_look(0.501)),
        INCONCLUSIVE,
        says=["before the first look: nothing tells by whom"],
    ),
    Row(
        "marks that were read at the first look, of one that died later",
        plus(
            story(deaths={"leader": 0.2, "deaf-child": 5.0}),
            between_stamp_and_look(0.501, "deaf-child", by_reading=True, span_s=None),
        ),
        BROKEN,
    ),
    Row("an unmarked change of right after the handover, when all are dead", plus(GONE, between_stamp_and_look(0.501)), KEPT),
    # --- The wall clock ---
    Row("the wall clock was set while a process lived", plus(SILENT, stepped(3.0)), INCONCLUSIVE, spoilt=True, says=["3600.0 s"]),
    Row("the wall clock was set, and changes were seen", plus(WRITES, stepped(3.0)), INCONCLUSIVE, spoilt=True),
    Row("the wall clock was set when all were dead", plus(GONE, stepped(0.7)), INCONCLUSIVE, spoilt=True),
    Row("the wall clock was set before the workspace was opened", plus(GONE, stepped(-1.5)), KEPT),
    Row("the wall clock was set, and a change was found by reading", plus(UNMARKED, stepped(3.0), held_change(3.0, "deaf-child")), BROKEN),
    Row("the wall clock was not watched", without(GONE, "clock"), INCONCLUSIVE, says=["the clock was not watched"]),
    # --- What is left out ---
    Row(
        "what is left out is named",
        seen_with(GONE, "workspace.opened", ignore=["cache/*"]),
        KEPT,
        says=["leaving out cache/* (ignore)"],
    ),
    Row(
        "marks of a living process where it is left out",
        seen_with(seen_with(WRITES, "workspace.opened", ignore=["*.log"]), "workspace.changed", ignored="*.log"),
        INCONCLUSIVE,
        says=["wrote where it is ignored: /drill/work/workspace/uncooperative-deaf-child.log (*.log)"],
    ),
)
