"""Rows for fresh-start: what the second run finds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BROKEN,
    FIRST,
    INCONCLUSIVE,
    KEPT,
    LEADER,
    SECOND_LEADER,
    WORKSPACE,
    Row,
    clock,
    died,
    held,
    hello,
    plus,
    saw,
    says,
    story,
    without,
)

FRESH = story(restart=0.9)
ITEM = {"kind": "ignored", "path": f"{WORKSPACE}/ignored/p", "attempt": FIRST}
NOT_UP = [one for one in FRESH if one.subject != "4800:3000"]
STUCK = plus(NOT_UP, saw("adapter", "not-restarted", 30.9, why="no runner said hello.", refused=False, said=False), *clock(20.0, 32.0))
SILENT = saw("adapter", "not-restarted", 0.95, why="the wrapper ended with status 3.", refused=True, said=False)
REFUSED = saw("adapter", "not-restarted", 0.95, why="RuntimeError: it is in the way", refused=True, said=True)


def left(same: bool = True, obstacle: str = "a mount at /drill/work/workspace/m", poison: Sequence[str] = ("ignored",)) -> Observation:
    """How the old workspace stands when the second start has come to nothing."""
    return saw("workspace", "left", 0.96, path=WORKSPACE, same=same, obstacle=obstacle, poison=list(poison))


def tried(works_s: float | None = 31.3, *, at_last: bool = False) -> list[Observation]:
    """Another task is started because this one did not come up."""
    control = {"subject": "4870:3300", "attempt": "k3f9-3"}
    came = (
        [] if works_s is None else [hello(works_s - 0.1, run="control", **control), says("working", works_s, subject="4870:3300", armed=[])]
    )
    return [
        saw("adapter", "other-starting", 30.95, run="control"),
        saw("adapter", "other-started", 31.0, run="control", error=None),
        *came,
        saw("adapter", "second-at-last", 31.6, came=at_last),
    ]


def elsewhere(seen: Iterable[Observation], folder: str, *, ino: int) -> list[Observation]:
    """With a second run that finds itself in that folder."""
    return [
        replace(one, data={**one.data, "cwd": folder, "cwd_dev": 1, "cwd_ino": ino})
        if (one.kind, one.subject) == ("hello", SECOND_LEADER)
        else one
        for one in seen
    ]


def at_report(*poison: str, path: str = WORKSPACE) -> Observation:
    """How the old workspace stands as the end is reported."""
    return saw("workspace", "left-at-report", 13.21, path=path, same=False, obstacle="", poison=list(poison))


RETRY = "4790:2500"
RETRIED = (
    hello(0.4, subject=RETRY, attempt="k3f9-9", cwd=WORKSPACE, cwd_dev=1, cwd_ino=2),
    held(0.4, subject=RETRY, attempt="k3f9-9"),
    died(0.6, subject=RETRY),
)
LATE = story(reported=13.2, restart=12.01, found=[ITEM])
LOCK = {"subject": LEADER, "role": "leader", "kind": "FLOCK", "path": "/drill/work/task.lock"}
UNPLANTED = without(FRESH, "lifeline.planted")
ROWS = (
    Row("nothing found is kept", FRESH, KEPT, says=["nothing of the first run, of 1 things planted"]),
    Row("a file found is broken", story(restart=0.9, found=[ITEM]), BROKEN, says=[f"ignored {WORKSPACE}/ignored/p", "was kept, or copied"]),
    Row(
        "a session found is broken",
        story(restart=0.9, session={"where": "argv", "text": "s"}),
        BROKEN,
        says=["session in its command line"],
    ),
    Row(
        "both found are both told",
        story(restart=0.9, found=[ITEM], session={"where": "env", "text": "s"}),
        BROKEN,
        says=["continues the first", "environment"],
    ),
    Row("poison of an older attempt is poison too", story(restart=0.9, found=[{**ITEM, "attempt": "old-1"}]), BROKEN),
    Row("nothing was planted", plus(UNPLANTED, says("not-planted", -0.9, why="no marker")), INCONCLUSIVE, says=["no marker"]),
    Row("an empty plant is nothing to find", plus(UNPLANTED, says("planted", -0.9, poison=[], session="")), INCONCLUSIVE),
    Row("the second run never came up", NOT_UP, INCONCLUSIVE, says=["never came up"]),
    Row(
        "the second start failed",
        plus(without(NOT_UP, "adapter.restarted"), saw("adapter", "restarted", 0.9, error="Conflict: exists")),
        INCONCLUSIVE,
        says=["Conflict: exists"],
    ),
    Row(
        "a run that ended by itself may be built on",
        story(restart=0.9, goodbyes=["leader"], found=[ITEM]),
        Verdict.NOT_APPLICABLE,
        says=["ended by itself"],
    ),
    Row(
        "why it never came up is told",
        plus(NOT_UP, saw("adapter", "not-restarted", 0.95, why="the wrapper ended with status 3.")),
        INCONCLUSIVE,
        says=["ended with status 3"],
    ),
    Row(
        "a run that ended by itself may not be built on where the team says so",
        story(restart=0.9, goodbyes=["leader"], found=[ITEM]),
        BROKEN,
        header={"resume": "never"},
    ),
    Row(
        "where it found itself is told, by device and inode",
        elsewhere(FRESH, "/other", ino=78),
        KEPT,
        says=["in /other (device 1, inode 78; the first run's was inode 2)"],
    ),
    Row(
        "a copy elsewhere is broken as the folder itself is",
        elsewhere(story(restart=0.9, found=[ITEM]), "/other", ino=78),
        BROKEN,
        says=["inode 78", "was kept, or copied"],
    ),
    Row(
        "the first run's own folder is told as such",
        elsewhere(story(restart=0.9, found=[ITEM]), WORKSPACE, ino=2),
        BROKEN,
        says=["the first run's own folder", "was used again"],
    ),
    Row(
        "a lock that is held still is told",
        story(restart=0.9, found=[{**ITEM, "kind": "flock", "held": True}]),
        BROKEN,
        says=["locked still"],
    ),
    Row(
        "a start that never comes while another task's does is broken",
        plus(STUCK, *tried()),
        BROKEN,
        says=["another task", "nobody gives back"],
    ),
    Row(
        "who holds a lock still is told",
        plus(STUCK, *tried(), saw("process-table", "locks", 30.91, locks=[LOCK])),
        BROKEN,
        says=["task.lock (FLOCK) by pid 4700", "is alive, and holds a lock"],
    ),
    Row(
        "what the wrapper removes after the deadline and before its report is a matter of time",
        plus(elsewhere(LATE, WORKSPACE, ino=2), at_report()),
        INCONCLUSIVE,
        says=["started again at the deadline", "nothing of it was left there when the end was reported"],
        spoilt=True,
    ),
    Row(
        "a late report of a workspace that was never cleaned is broken",
        plus(elsewhere(LATE, WORKSPACE, ino=2), at_report("ignored")),
        BROKEN,
    ),
    Row("a late report, and nobody looked at the workspace", elsewhere(LATE, WORKSPACE, ino=2), BROKEN),
    Row("what was removed elsewhere than where the second run found itself", plus(elsewhere(LATE, "/other", ino=78), at_report()), BROKEN),
    Row(
        "what is removed behind a report in time is broken",
        plus(elsewhere(story(restart=0.9, found=[ITEM]), WORKSPACE, ino=2), at_report()),
        BROKEN,
    ),
    Row(
        "a session that was resumed is no matter of time",
        plus(
            elsewhere(story(reported=13.2, restart=12.01, found=[ITEM], session={"where": "argv", "text": "s"}), WORKSPACE, ino=2),
            at_report(),
        ),
        BROKEN,
    ),
    Row(
        "what a start that nobody asked for found is broken, whatever the drill's own start finds",
        plus(FRESH, *RETRIED, says("found", 0.45, subject=RETRY, looked=True, poison=[ITEM], session=None)),
        BROKEN,
        says=["by a start that nobody asked for", "starts a killed run again by itself"],
    ),
    Row(
        "a start that nobody asked for and that found nothing is no second run",
        plus(NOT_UP, *RETRIED, says("found", 0.45, subject=RETRY, looked=True, poison=[], session=None)),
        INCONCLUSIVE,
        says=["never came up"],
    ),
    Row("neither came up", plus(STUCK, *tried(None)), INCONCLUSIVE, says=["did not come up either"]),
    Row("no other task was tried", STUCK, INCONCLUSIVE, says=["was not tried"]),
    Row("it came after all", plus(STUCK, *tried(at_last=True)), INCONCLUSIVE, says=["it came up later"], spoilt=True),
    Row("whether it came after all is not known", without(plus(STUCK, *tried()), "adapter.second-at-last"), INCONCLUSIVE, spoilt=True),
    Row("another task took long as well", plus(STUCK, *tried(41.0)), INCONCLUSIVE, spoilt=True),
    Row("a refusal proves nothing by itself", plus(NOT_UP, REFUSED), INCONCLUSIVE, says=["refused: RuntimeError: it is in the way"]),
    Row(
        "a refusal over a workspace that cannot be removed is kept",
        plus(NOT_UP, REFUSED, left()),
        KEPT,
        says=["cannot be removed: a mount at"],
    ),
    Row("a refusal without a word is not", plus(NOT_UP, SILENT, left()), INCONCLUSIVE, says=["nothing was said"]),
    Row("a refusal over a workspace that could be removed", plus(NOT_UP, REFUSED, left(obstacle="")), INCONCLUSIVE),
    Row("a refusal over another folder", plus(NOT_UP, REFUSED, left(same=False)), INCONCLUSIVE),
    Row("a refusal over an empty folder", plus(NOT_UP, REFUSED, left(poison=())), INCONCLUSIVE),
    Row("the second run did not look", without(FRESH, "lifeline.found"), INCONCLUSIVE, says=["did not look"]),
    Row("no second start", story(), INCONCLUSIVE, says=["not started again"]),
    Row(
        "what the first run found itself is not judged",
        plus(FRESH, says("found", -0.95, looked=True, poison=[ITEM], session=None)),
        KEPT,
    ),
)
