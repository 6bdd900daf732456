"""Rows for no-survivors; the deadline is +12 s."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    PRESSED_S,
    Row,
    died,
    held,
    hello,
    look,
    look_again,
    plus,
    row,
    saw,
    story,
    terms,
    without,
)
from tests.unit.stories import AT_START, beside, start_story


def _ungrouped(data: Mapping[str, Any]) -> dict[str, Any]:
    """Without any process's group, in looks as well."""
    told = {name: value for name, value in data.items() if name != "pgid"}
    return told | ({"processes": [_ungrouped(one) for one in data["processes"]]} if "processes" in data else {})


CHILD = "4711:1001"
BOTH = {"leader": 0.2, "deaf-child": 5.3}
GONE = story(deaths=BOTH, reported=5.5)
LIVES = story(deaths={"leader": 0.2, "deaf-child": None})
AT_DEADLINE = story(deaths={"leader": 0.2, "deaf-child": 12.0}, reported=12.2)
AFTER = story(deaths={"leader": 0.2, "deaf-child": 12.5}, reported=12.7)
BUSY = look_again(without(AFTER, "process-table.look", moment="handover"), "deadline", row("leader", "gone"), row("deaf-child", "dying"))
DYING = [one for one in BUSY if not (one.kind == "wrote" and one.at_s > PRESSED_S)]
NO_GROUP = [replace(one, data=_ungrouped(one.data)) for one in LIVES]
STRANGER = row("deaf-child", subject="4711:7777")
RETRY = (hello(13.0, subject="4900:1", attempt="k3f9-9", roles=["leader"]), held(13.0, subject="4900:1", attempt="k3f9-9"))
HELPER = held(-1.0, "helperd", subject="4730:1006", attempt="", by="descent", found=True, pid=4730)
BY_LEAVE = {"allowed": {"helperd": "it serves the next run"}}
ROWS = (
    Row("all dead before the deadline is kept", GONE, KEPT, says=["all 2 processes", "the last one died +5.3 s"]),
    Row("dead exactly at the deadline is kept", AT_DEADLINE, KEPT),
    Row(
        "alive at the end is broken",
        LIVES,
        BROKEN,
        says=[
            "pid 4711 (start 1001, deaf-child) running 12.7 s after pressed",
            "parent 50, group 4700, session 4700",
            "it told of no notice; it is in the leader's group, and only the leader had notice, and left (+0.2 s): was the leader"
            " signalled, and not its group?",
        ],
    ),
    Row("the deadline names its terms", LIVES, BROKEN, terms(grace=3), says=["delivery 5 + grace 3 + kill_within 2; grace from marker"]),
    Row("dead half a second after the deadline is broken", AFTER, BROKEN, says=["died +12.5 s"]),
    Row(
        "dead after the deadline by less than the machine's lateness",
        story(deaths={"leader": 0.2, "deaf-child": 12.02}, reported=12.2, late=0.05),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row("exiting at the deadline and dead soon after is kept", DYING, KEPT),
    Row("exiting at the deadline, and still writing after it, is broken", BUSY, BROKEN),
    Row(
        "exiting at the deadline and still there at the end is broken",
        look_again(
            look_again(story(deaths={"leader": 0.2, "deaf-child": None}, end=15.0), "deadline", row("deaf-child", "dying")),
            "end",
            row("deaf-child", "dying"),
        ),
        BROKEN,
    ),
    Row("a zombie without a living thread is dead", look_again(GONE, "end", row("leader", "gone"), row("deaf-child", "Z")), KEPT),
    Row(
        "a zombie whose threads live on is alive",
        look_again(LIVES, "deadline", row("leader", "gone"), row("deaf-child", "Z", alive=True, threads_alive=2)),
        BROKEN,
    ),
    Row(
        "what lives on by leave is told, with the reason",
        plus(GONE, HELPER),
        KEPT,
        header=BY_LEAVE,
        says=["all 2 processes", "; allowed to live on: pid 4730 (start 1006, helperd): it serves the next run"],
    ),
    Row(
        "what lives on by leave is told beside what lives on without",
        plus(LIVES, HELPER),
        BROKEN,
        header=BY_LEAVE,
        says=["deaf-child) running", "; allowed to live on: pid 4730"],
    ),
    Row("a stopped process is alive", look_again(LIVES, "end", row("deaf-child", "T")), BROKEN, says=["state T"]),
    Row("a reused pid that is alive is somebody else", look_again(GONE, "end", row("leader", "gone"), STRANGER), KEPT),
    Row(
        "a reused pid is no proof of the first one's death either",
        plus(without(GONE, "process-table.died", "process-table.look"), died(0.2), look("deadline", 12.0, STRANGER)),
        INCONCLUSIVE,
    ),
    Row(
        "a process that cannot be read is neither dead nor alive",
        look_again(look_again(LIVES, "deadline", row("deaf-child", "?")), "end", row("deaf-child", "?")),
        INCONCLUSIVE,
        says=["neither dead nor alive"],
    ),
    Row("the end of a lifeline is no death", without(GONE, "process-table"), INCONCLUSIVE),
    Row(
        "a role that never came is unaccounted for",
        without(without(GONE, "process-table.held", subject=CHILD), "lifeline.hello", subject=CHILD),
        INCONCLUSIVE,
    ),
    Row("a death by the drill's own clearing up is a survivor's", plus(LIVES, died(12.75, "deaf-child")), BROKEN),
    Row(
        "a session of its own explains it",
        story(deaths={"leader": 0.2, "daemon": None}),
        BROKEN,
        says=["it told of no notice; it is in a session of its own: was only the group", "session 4712", "parent 1"],
    ),
    Row(
        "a session of its own explains nothing where the notice came there",
        story(told={"leader": 0.1, "daemon": 0.1}, deaths={"leader": 0.2, "daemon": None}),
        BROKEN,
        says=["it had SIGTERM and ignored it; the leader left first (+0.2 s): was the escalation called off with it?"],
    ),
    Row(
        "a child in the leader's group that had notice too",
        story(told={"leader": 0.1, "deaf-child": 0.1}, deaths={"leader": 0.2, "deaf-child": None}),
        BROKEN,
        says=["it had SIGTERM and ignored it; the leader left first (+0.2 s): was the escalation called off with it?"],
    ),
    Row(
        "a child in the leader's group, of which another child had notice",
        story(told={"leader": 0.1, "slow-child": 0.1}, deaths={"leader": 0.2, "slow-child": 1.3, "deaf-child": None}),
        BROKEN,
        says=["it told of no notice; the leader left first (+0.2 s): was the escalation called off with it?"],
    ),
    Row(
        "a child in the leader's group, of which only the leader was killed",
        story(told=None, deaths={"leader": 0.2, "deaf-child": None}),
        BROKEN,
        says=["it is in the leader's group, and only the leader was killed (+0.2 s): was the leader signalled, and not its group?"],
    ),
    Row(
        "a child of which nobody knows the group",
        NO_GROUP,
        BROKEN,
        says=["it told of no notice; the leader left first (+0.2 s): was the escalation called off with it?"],
    ),
    Row("never delivered explains it", story(told=None, deaths=None), BROKEN, says=["the cancel never reached the run"]),
    Row("the leader itself ignores the notice", story(deaths=None), BROKEN, says=["it had SIGTERM and ignored it; no force followed"]),
    Row(
        "a run that is started again after the cancel",
        plus(story(end=14.0), *RETRY, died(13.9, subject="4900:1")),
        BROKEN,
        says=["started again"],
    ),
    Row("what lives of another run is not this one's", plus(GONE, *beside()), KEPT),
    Row(
        "a run that never came up, where that may be, is kept",
        start_story(),
        KEPT,
        header=AT_START,
        says=["nothing of the run ever came up"],
    ),
    Row("never came up, and not watched for retry after the report", start_story(end=3.0), INCONCLUSIVE, header=AT_START, says=["+3.1 s"]),
    Row("never came up, where it had to", start_story(), INCONCLUSIVE, says=["never worked"]),
    Row(
        "came up after the press and lives",
        start_story(came=0.2, works=0.3, end=12.7),
        BROKEN,
        header=AT_START,
        says=["never reached the run", "see cancel-any-time"],
    ),
    Row("came up after the press and is dead in time", start_story(came=0.05, dies=0.3), KEPT, header=AT_START),
    Row(
        "a stopped process that had notice",
        plus(story(told=None, deaths=None), saw("process-table", "pending", 0.1, "4700:1000", signals=["SIGTERM"])),
        BROKEN,
        says=["SIGTERM (pending, as it is stopped) could not reach it"],
    ),
    Row(
        "the witnesses of the table contradict each other", look_again(GONE, "end", row("leader", "gone"), row("deaf-child")), INCONCLUSIVE
    ),
)
