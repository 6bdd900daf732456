"""Rows for stays-ended; the run is over at +5.4 s, so the watch has to go on until +8.4 s."""

from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    PRESSED_S,
    Row,
    booked,
    clock,
    closed,
    died,
    held,
    hello,
    plus,
    request,
    saw,
    story,
    terms,
    without,
)
from tests.unit.stories import WATCHED, revival


def ended(end: float = 8.6, outcome: str = "cancelled") -> list[Observation]:
    return story(deaths=5.2, reported=5.4, returns=5.4, end=end, outcome=outcome)


ENDED = ended()
AGAIN = plus(ENDED, *revival(6.0))
AGENTS = WATCHED | {"agent": True}


def asked(came: float, began: float) -> list[Observation]:
    """An agent that is over at +5.4 s, and a request that came to the machine at one time and was read at another."""
    at_work = saw("adapter", "at-work", -0.01, what="while it runs a tool")
    late = (request(began, "r9", attempt="", came_s=PRESSED_S + came), closed(began + 0.02, "r9", "disconnected"))
    return [*without(booked(plus(ENDED, at_work, *late)), "clock"), *clock(-2.0, 9.0, 0.02)]


SUCCESSOR = (hello(0.2, "successor"), held(0.2, "successor"), died(0.4, "successor"))
ROWS = (
    Row("nothing until retry after it was over is kept", ENDED, KEPT, header=WATCHED, says=["no new attempt until +8.", "gone +5.2 s"]),
    Row("watched exactly until then is kept", ended(8.4), KEPT, header=WATCHED),
    Row(
        "watched for less",
        ended(8.0),
        INCONCLUSIVE,
        header=WATCHED,
        says=["nobody watched until +8.4 s"],
    ),
    Row(
        "a new attempt is broken",
        AGAIN,
        BROKEN,
        header=WATCHED,
        says=[
            "started again by itself: pid 4900 (start 3200, leader), attempt k3f9-9, began +6.0 s",
            "parent 50",
            "what had started the run",
        ],
    ),
    Row(
        "a supervisor that is somebody else is guessed at",
        plus(ENDED, *revival(6.0, parent="1:1", ppid=1)),
        BROKEN,
        header=WATCHED,
        says=["restart=always", "parent 1"],
    ),
    Row(
        "a retry of what has failed is named as such",
        plus(ended(outcome="failed"), *revival(6.0)),
        BROKEN,
        header=WATCHED,
        says=["recorded as 'failed'"],
    ),
    Row(
        "a new attempt before the run is gone is broken", plus(ENDED, *revival(2.0), died(2.3, subject="4900:3200")), BROKEN, header=WATCHED
    ),
    Row("a new attempt is broken in any drill", plus(story(), *revival(0.9)), BROKEN),
    Row("the drill's own second start is nobody's doing", story(restart=0.9, end=4.2), KEPT, header=WATCHED),
    Row("another process of the same attempt is none", plus(ENDED, *SUCCESSOR), KEPT, header=WATCHED),
    Row("a request of before the agent's end that was read behind it is kept", asked(5.39, 5.6), KEPT, header=AGENTS),
    Row(
        "a request that was whole after the agent's end only is broken",
        asked(5.9, 5.9),
        BROKEN,
        header=AGENTS,
        says=["asked the provider again after its end", "begun +5.9 s"],
    ),
    Row("a request that was whole after the agent's end and was read later still is broken", asked(5.9, 6.1), BROKEN, header=AGENTS),
    Row(
        "a request that was whole after the agent's end by less than the machine was late proves nothing",
        asked(5.46, 5.9),
        INCONCLUSIVE,
        spoilt=True,
        header=AGENTS,
        says=["begun +5.46 s"],
    ),
    Row("a longer retry was promised", ENDED, INCONCLUSIVE, terms(retry=4), header=WATCHED),
    Row(
        "never gone: reckoned from the deadline",
        story(deaths=None, reported=None, returns=None, end=15.2),
        KEPT,
        header=WATCHED,
        says=["gone never, never reported"],
    ),
    Row("never gone, and watched for less", story(deaths=None, reported=None, returns=None, end=14.5), INCONCLUSIVE, header=WATCHED),
    Row("never reported: reckoned from the deadline", story(deaths=5.2, reported=None, end=15.2), KEPT, header=WATCHED),
    Row("never reported, and watched for less", story(deaths=5.2, reported=None, end=8.6), INCONCLUSIVE, header=WATCHED),
    Row(
        "an outcome that nobody can tell is not waited for",
        story(deaths=5.2, reported=None, end=8.6),
        KEPT,
        header=WATCHED,
        capabilities=(),
    ),
    Row("when it was gone is not known", without(ENDED, "process-table.died", "process-table.look"), INCONCLUSIVE, header=WATCHED),
)
