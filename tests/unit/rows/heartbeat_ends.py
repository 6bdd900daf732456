"""Rows for heartbeat-ends: heartbeat_timeout 1; the run is gone at +0.2 s."""

from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, PRESSED_S, Row, plus, saw, story, terms, without

CAN = ("outcome", "heartbeats")
GIVEN = terms(heartbeat_timeout=1)


def with_beats(*beats: float, asked: float = 1.5, gone: float | None = 0.2, error: str | None = None) -> list[Observation]:
    """A drill and these heartbeats, told when the engine was asked."""
    return plus(story(deaths=gone), saw("engine", "heartbeats", asked, moments=[PRESSED_S + one for one in beats], error=error))


ROWS = (
    Row("none after gone is kept", with_beats(-0.5, 0.1), KEPT, given=GIVEN, capabilities=CAN),
    Row(
        "one within the timeout, and none in the time of another, is kept",
        with_beats(-0.5, 1.2, asked=2.3),
        KEPT,
        given=GIVEN,
        capabilities=CAN,
        says=["the last heartbeat 1.0 s after the run was gone, and none in the 1.1 s from then on"],
    ),
    Row("one alone, within the timeout, is kept as well", with_beats(0.3, asked=2.3), KEPT, given=GIVEN, capabilities=CAN),
    Row(
        "asked late, and the next one is not due yet",
        with_beats(-0.5, -0.2, 0.1, 0.4, 0.7, 1.0, asked=1.25),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
        says=["none in the 0.25 s from then on", "too early to tell"],
    ),
    Row(
        "one later than that is broken",
        with_beats(-0.5, 1.25),
        BROKEN,
        given=GIVEN,
        capabilities=CAN,
        says=["1.05 s after the run was gone"],
    ),
    Row(
        "asked too early, and nothing tells how often they come",
        with_beats(-0.5, asked=0.9),
        Verdict.NOT_COVERED,
        given=GIVEN,
        capabilities=CAN,
    ),
    Row(
        "asked early, and they stood still",
        with_beats(-0.5, -0.3, -0.1, asked=0.9),
        KEPT,
        given=GIVEN,
        capabilities=CAN,
        says=["no heartbeat in the 0.7 s after the run was gone, the last one 0.3 s before (0.3 s at most without one before)"],
    ),
    Row(
        "asked early, and two at the start do not show how often they come",
        with_beats(-0.9, -0.85, asked=0.9),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
        says=["1.05 s at most without one before"],
    ),
    Row(
        "asked early, and there is one that is not the last for sure",
        with_beats(0.3, 0.5, asked=0.8),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
    ),
    Row(
        "asked early, and they still come",
        with_beats(-0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, asked=0.8),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
        says=["the last heartbeat 0.5 s after the run was gone", "too early to tell"],
    ),
    Row(
        "none at all shows nothing",
        with_beats(),
        Verdict.NOT_COVERED,
        given=GIVEN,
        capabilities=CAN,
        says=["no heartbeat was seen at all", "where none ever came"],
    ),
    Row("never gone", with_beats(-0.5, gone=None, asked=20.0), INCONCLUSIVE, given=GIVEN, capabilities=CAN),
    Row("the engine was not asked", story(), INCONCLUSIVE, given=GIVEN, capabilities=CAN),
    Row("the engine did not answer", with_beats(error="gone"), INCONCLUSIVE, given=GIVEN, capabilities=CAN),
    Row("no timeout is promised", with_beats(0.1), Verdict.NOT_COVERED, capabilities=CAN),
    Row("nobody can tell of heartbeats", without(with_beats(0.1), "engine"), Verdict.NOT_COVERED, given=GIVEN),
)
