"""Rows for grace-given; the clean-up takes 1 s."""

from pytest_cancelcontract.history import Observation
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, died, held, hello, notice, plus, says, story, terms, without

SLOW_CHILD = {"habits": ["slow-child"]}


def left_to_child(told: float | None = 0.1, cleans: float | None = 1.1, dies: float | None = 1.2) -> list[Observation]:
    """The leader leaves at once; its child has notice, cleans up until ``cleans``, and dies."""
    seen = story(told={"leader": 0.1}, deaths={"leader": 0.15, "slow-child": dies}, goodbyes=["leader"], reported=1.5, returns=1.5)
    if told is not None:
        seen = plus(seen, notice(told, "slow-child"), says("cleanup-started", told, "slow-child"))
    return plus(seen, says("cleanup-finished", cleans, "slow-child")) if cleans is not None else seen


CLEAN = story(told=0.1, cleans=(0.1, 1.1), deaths=1.2, goodbyes=["leader"], reported=1.5, returns=1.5)
CUT = story(told=0.1, cleans=(0.1, None), deaths=0.6, reported=0.9, returns=0.9)
CUT_SHORT = (
    "0.5 s after its notice, its clean-up unfinished",
    "(cleanup 1; the default, which is the smaller of 1 s and half of the grace)",
    "keep waiting; or promise less: a shorter clean-up (--cancel-cleanup; --cleanup of the command cancelcontract)",
)
CHILD = (hello(-1.0, "deaf-child"), held(-1.0, "deaf-child"), notice(0.1, "deaf-child"), says("cleanup-started", 0.1, "deaf-child"))
ROWS = (
    Row("a clean-up that finishes is kept", CLEAN, KEPT, says=["finished its clean-up after 1.0 s"]),
    Row("a clean-up cut short is broken", CUT, BROKEN, says=CUT_SHORT),
    Row(
        "a clean-up that was promised is told by its origin only",
        CUT,
        BROKEN,
        terms(cleanup=1),
        says=["(cleanup 1; cleanup from marker)", "or promise less"],
    ),
    Row("killed without notice is broken", story(told=None, reported=0.9), BROKEN, says=["with no notice at all", "force was used first"]),
    Row("a clean-up that finishes exactly as it dies is kept", story(told=0.1, cleans=(0.1, 1.1), deaths=1.1, reported=1.5), KEPT),
    Row(
        "killed exactly when the clean-up was due, unfinished: the runner was slow",
        story(told=0.1, cleans=(0.1, None), deaths=1.1, reported=1.5),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row(
        "killed just before it was due, on a machine that late",
        story(told=0.1, cleans=(0.1, None), deaths=1.05, reported=1.5, late=0.1),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row("a longer clean-up was promised", CLEAN, KEPT, terms(cleanup=0.8)),
    Row("never told and alive", story(told=None, deaths=None), INCONCLUSIVE, says=["was never told to stop", "see cancel-delivered"]),
    Row("told and never seen to die", story(told=0.1, cleans=(0.1, None), deaths=None), INCONCLUSIVE),
    Row("left by itself without a clean-up", story(goodbyes=["leader"]), INCONCLUSIVE, says=["left by itself"]),
    Row("the death of a reused pid is not the cleaner's", plus(without(CUT, "process-table.died"), died(0.3, subject="4700:9999")), BROKEN),
    Row("a child whose leader has left is killed in its clean-up", plus(CLEAN, *CHILD, died(0.4, "deaf-child")), BROKEN),
    Row(
        "a child whose leader has left finishes",
        plus(CLEAN, *CHILD, says("cleanup-finished", 1.1, "deaf-child"), died(1.3, "deaf-child")),
        KEPT,
    ),
    Row("a slow child that finishes, whose leader left by itself, is kept", left_to_child(), KEPT, header=SLOW_CHILD, says=["pid 4714"]),
    Row(
        "a slow child that is killed once its leader has left is broken",
        left_to_child(cleans=None, dies=0.3),
        BROKEN,
        header=SLOW_CHILD,
        says=["the leader left first, and what it left behind was killed at once"],
    ),
    Row("a slow child that finishes exactly as it dies is kept", left_to_child(cleans=1.1, dies=1.1), KEPT, header=SLOW_CHILD),
    Row(
        "a slow child that nobody told is killed",
        left_to_child(told=None, cleans=None, dies=5.2),
        BROKEN,
        header=SLOW_CHILD,
        says=["with no notice at all", "another process of the run was told to stop, and this one was not"],
    ),
    Row("a slow child that nobody told lives", left_to_child(None, None, None), INCONCLUSIVE, header=SLOW_CHILD, says=["see no-survivors"]),
    Row(
        "a slow child that nothing is known of",
        without(without(left_to_child(), "process-table.held", subject="4714:1004"), "lifeline", subject="4714:1004"),
        INCONCLUSIVE,
        header=SLOW_CHILD,
    ),
    Row(
        "the leader that left by itself is not asked for a clean-up of its child's",
        left_to_child(),
        INCONCLUSIVE,
        header={"habits": ["slow-cleanup"]},
        says=["pid 4700 (start 1000, leader) left by itself and did not clean up"],
    ),
)
