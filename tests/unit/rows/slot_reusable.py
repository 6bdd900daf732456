"""Rows for slot-reusable; the next task is started at +1.3 s, and has ended at +1.9 s."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    NEXT_LEADER,
    Row,
    clock,
    died,
    look,
    notice,
    plus,
    row,
    saw,
    story,
    terms,
    without,
)
from tests.unit.stories import NEXT_TASK, afterwards, other_answer

FIRST = story(end=2.1)
FAILED = (saw("adapter", "other-starting", 1.3, run="next"), saw("adapter", "other-started", 1.4, run="next", error="Busy: locked"))
NOT_UP = (FAILED[0], saw("adapter", "other-not-up", 31.4, run="next", why="it did not work within 30 s (start)"))
DONE = plus(FIRST, *afterwards())
ENDS = terms(call=2)
UNSAID = plus(story(end=6.2), *afterwards(outcome=None), other_answer(6.0, "running", run="next"))
ROWS = (
    Row(
        "a task that works, ends and succeeds is kept",
        DONE,
        KEPT,
        header=NEXT_TASK,
        says=["pid 4850 (start 3100, leader) of the next task worked, and ended by itself +1.9 s", "its outcome is 'succeeded' +2.0 s"],
    ),
    Row("a start that fails is broken", plus(FIRST, *FAILED), BROKEN, header=NEXT_TASK, says=["could not be started: Busy: locked"]),
    Row("a task that does not come up is broken", plus(FIRST, *NOT_UP), BROKEN, header=NEXT_TASK, says=["did not work within 30 s"]),
    Row(
        "a task that has notice is broken", plus(FIRST, *afterwards(told=1.7)), BROKEN, header=NEXT_TASK, says=["SIGTERM reached pid 4850"]
    ),
    Row(
        "a task that is killed is broken",
        plus(FIRST, *afterwards(leaves=False, outcome="cancelled")),
        BROKEN,
        header=NEXT_TASK,
        says=["was killed +1.9 s"],
    ),
    Row(
        "a task that is recorded as cancelled is broken",
        plus(FIRST, *afterwards(outcome="cancelled")),
        BROKEN,
        header=NEXT_TASK,
        says=["'cancelled' +2.0 s, though it ended by itself", "still in force"],
    ),
    Row("a task that is never recorded is broken", UNSAID, BROKEN, ENDS, header=NEXT_TASK, says=["no terminal outcome", "last 'running'"]),
    Row("watched exactly until the limit is broken", plus(story(end=5.9), *afterwards(outcome=None)), BROKEN, ENDS, header=NEXT_TASK),
    Row("not watched until the limit", plus(story(end=5.5), *afterwards(outcome=None)), INCONCLUSIVE, ENDS, header=NEXT_TASK),
    Row("never recorded, by a clock that was silent", without(UNSAID, "clock"), INCONCLUSIVE, ENDS, header=NEXT_TASK, spoilt=True),
    Row(
        "never recorded, on a machine that was late by seconds",
        plus(without(UNSAID, "clock"), *clock(-2, 6.2, 3.0)),
        INCONCLUSIVE,
        ENDS,
        header=NEXT_TASK,
        spoilt=True,
    ),
    Row("an outcome that nobody can tell", without(DONE, "outcome"), KEPT, header=NEXT_TASK, capabilities=()),
    Row("a notice of a reused pid is not the task's", plus(DONE, notice(1.7, subject="4850:9")), KEPT, header=NEXT_TASK),
    Row("a notice of the cancelled run is as it should be", plus(DONE, notice(0.15)), KEPT, header=NEXT_TASK),
    Row("not seen to end", without(DONE, "process-table.died", subject=NEXT_LEADER), INCONCLUSIVE, header=NEXT_TASK),
    Row("not seen to work", without(DONE, "lifeline.working", subject=NEXT_LEADER), INCONCLUSIVE, header=NEXT_TASK),
    Row(
        "the death of a reused pid is not its end",
        plus(without(DONE, "process-table.died", subject=NEXT_LEADER), died(1.9, subject="4850:9")),
        INCONCLUSIVE,
        header=NEXT_TASK,
    ),
    Row(
        "its end by a look is an end",
        plus(without(DONE, "process-table.died", subject=NEXT_LEADER), look("x", 1.95, row(state="gone", subject=NEXT_LEADER))),
        KEPT,
        header=NEXT_TASK,
    ),
    Row("no next task", FIRST, Verdict.NOT_APPLICABLE, says=["this drill (cancel) cannot show it"]),
    Row("no next task where there was to be one", FIRST, INCONCLUSIVE, header=NEXT_TASK),
    Row("a next task that a test starts is one", DONE, KEPT),
)
