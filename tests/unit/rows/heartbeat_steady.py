"""Rows for heartbeat-steady: heartbeat_timeout 1; the leader says hello at -1 s."""

from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, PRESSED_S, Row, plus, saw, story, terms, without

CAN = ("outcome", "heartbeats")
GIVEN = terms(heartbeat_timeout=1)


def with_beats(*beats: float, gone: float | None = 2.2, late: float = 0.0, error: str | None = None) -> list[Observation]:
    """A drill whose run is gone then, and these heartbeats."""
    seen = story(deaths=gone, reported=None if gone is None else gone + 0.1, returns=2.3, late=late)
    return plus(seen, saw("engine", "heartbeats", 20.0, moments=[PRESSED_S + one for one in beats], error=error))


STEADY = (-1.4, -0.6, 0.2, 1.0, 1.8)
ROWS = (
    Row("a beat in every second is kept", with_beats(*STEADY), KEPT, given=GIVEN, capabilities=CAN, says=["at most 0.8 s apart"]),
    Row("exactly the timeout apart is kept", with_beats(0.0, 1.0, 2.0), KEPT, given=GIVEN, capabilities=CAN),
    Row("none in the grace is broken", with_beats(-0.6, 0.2), BROKEN, given=GIVEN, capabilities=CAN, says=["the grace passes without"]),
    Row("none at all is broken", with_beats(), BROKEN, given=GIVEN, capabilities=CAN, says=["3.2 s apart"]),
    Row(
        "none at all in a run that was too short to miss one shows nothing",
        with_beats(),
        Verdict.NOT_COVERED,
        given=terms(heartbeat_timeout=10),
        capabilities=CAN,
        says=["no heartbeat in the run's 3.2 s", "longer than heartbeat_timeout"],
    ),
    Row("the first one late is broken", with_beats(0.2, 1.0, 1.8), BROKEN, given=GIVEN, capabilities=CAN, says=["tied to something"]),
    Row("what comes after gone does not count", with_beats(*STEADY, 3.0), KEPT, given=GIVEN, capabilities=CAN),
    Row(
        "too far apart by less than the machine was late",
        with_beats(-0.6, 0.2, 1.4, late=0.5),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
        spoilt=True,
    ),
    Row(
        "steady, and never gone", with_beats(*(one * 0.8 for one in range(-2, 20)), gone=None), INCONCLUSIVE, given=GIVEN, capabilities=CAN
    ),
    Row("the engine was not asked", story(), INCONCLUSIVE, given=GIVEN, capabilities=CAN),
    Row(
        "the engine did not answer",
        with_beats(error="ConnectionError"),
        INCONCLUSIVE,
        given=GIVEN,
        capabilities=CAN,
        says=["ConnectionError"],
    ),
    Row("no timeout is promised", with_beats(*STEADY), Verdict.NOT_COVERED, capabilities=CAN, says=["heartbeat_timeout"]),
    Row(
        "nobody can tell of heartbeats",
        without(with_beats(*STEADY), "engine"),
        Verdict.NOT_COVERED,
        given=GIVEN,
        says=["heartbeats(handle)"],
    ),
)
