"""Rows for spend-stops; reported at +0.5 s unless a row says otherwise, so that the limit is +1.5 s."""

from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    PRESSED_S,
    Row,
    booked,
    call,
    closed,
    meter_look,
    plus,
    request,
    saw,
    says,
    story,
    terms,
    tokens,
    without,
)

GONE = story()
LONG = story(end=4.0)
"""Watched until well behind the limit, though nothing was left to see."""
SURVIVES = story(deaths=None)
NO_LEADER = story(deaths={"leader": 0.2, "deaf-child": None})
STREAM = request(-0.5, "s1", stream=True, model="uncooperative/stream")
BACKGROUND = request(-0.5, "b1", background=True, wire="openai-responses")
UNREACHED = plus(without(GONE, "meter", "lifeline.spending"), says("not-spending", -0.85, why="no answer: refused"))
OTHERS = [request(2.0, "r7", run="bystander"), tokens(2.1, "r7", run="bystander")]
SILENT = booked(one for one in SURVIVES if one.data.get("request") != "r3")


def late(came: float, read: float) -> list[Observation]:
    """A request that was whole at the machine at one time and was read at another."""
    return booked(plus(LONG, request(read, "e1", came_s=PRESSED_S + came), closed(read + 0.02, "e1", "disconnected")))


ROWS = (
    Row("all dead at the handover is kept", GONE, KEPT, says=["the last token or request came +0.151 s"]),
    Row("watched on, and nothing came, is kept", LONG, KEPT),
    Row(
        "a leader that lives on and asks is broken",
        SURVIVES,
        BROKEN,
        says=["4 tokens and 1 new request after the handover", "r3 of the leader", "pid 4700 (start 1000, leader) was still alive"],
    ),
    Row("a child that lives on and asks nothing is kept", NO_LEADER, KEPT),
    Row(
        "a stream that runs on though nothing lives is broken",
        booked(plus(LONG, STREAM, tokens(3.0, "s1", 9))),
        BROKEN,
        says=["9 tokens after the handover", "the last 2.5 s after it", "s1 of the leader (streamed)", "open to the last", "a proxy say"],
    ),
    Row(
        "work without a connection is broken",
        booked(plus(LONG, BACKGROUND, tokens(3.0, "b1", 9))),
        BROKEN,
        says=["b1 of the leader (work without a connection)", "was never cancelled"],
    ),
    Row("work that was cancelled is kept", booked(plus(LONG, BACKGROUND, tokens(0.3, "b1"), closed(0.4, "b1", "cancelled"))), KEPT),
    Row(
        "a stream that runs on until the limit is kept",
        booked(plus(LONG, STREAM, tokens(1.4, "s1"), closed(1.45, "s1", "disconnected"))),
        KEPT,
    ),
    Row("tokens that may be of before the limit are kept", booked(plus(LONG, STREAM, tokens(1.6, "s1", since_s=1.4))), KEPT),
    Row("more is allowed where the terms say so", booked(plus(LONG, STREAM, tokens(3.0, "s1"))), KEPT, given=terms(spend_within=3)),
    Row(
        "late by less than the machine was proves nothing",
        booked(plus(story(end=4.0, late=0.3), STREAM, tokens(1.6, "s1"))),
        INCONCLUSIVE,
        spoilt=True,
        says=["the meter ran until +1.6 s"],
    ),
    Row("late by more than the machine was is broken", booked(plus(story(end=4.0, late=0.3), STREAM, tokens(1.9, "s1"))), BROKEN),
    Row("a run beside it may spend", booked(plus(LONG, *OTHERS)), KEPT),
    Row("a question of the client's own is no spending", booked(plus(LONG, request(3.0, "q1", side=True))), KEPT),
    Row(
        "a request that is refused is one all the same",
        booked(
            plus(
                LONG,
                request(3.0, "e1", wire="other", refused=True),
                saw("meter", "refused", 3.0, request="e1", status=404),
                closed(3.0, "e1"),
            )
        ),
        BROKEN,
        says=["0 tokens and 1 new request after the handover"],
    ),
    Row("a request that was whole before the limit and was read behind it is kept", late(1.4, 1.7), KEPT),
    Row(
        "a request that was whole behind the limit only is broken",
        late(3.0, 3.0),
        BROKEN,
        says=["1 new request after the handover", "begun +3.0 s"],
    ),
    Row("never seen to spend proves nothing", without(GONE, "meter"), INCONCLUSIVE, says=["never seen to spend"]),
    Row("a provider that is not reached proves nothing", UNREACHED, INCONCLUSIVE, says=["no answer: refused"]),
    Row(
        "alive, spending, and silent behind the limit proves nothing",
        SILENT,
        INCONCLUSIVE,
        spoilt=True,
        says=["was alive and spending after the limit, as far as is known, and no request of it was seen"],
    ),
    Row("stuck, it spends no more", booked(plus(SILENT, says("wedged", 0.1))), KEPT),
    Row("the meter was not read to the limit, and one lived", without(NO_LEADER, "meter.look", moment="end"), INCONCLUSIVE),
    Row(
        "something open at the last look, before the limit, proves nothing",
        booked(plus(without(GONE, "meter.look", moment="end"), STREAM, meter_look("end", 1.2))),
        INCONCLUSIVE,
        says=["was not watched until"],
    ),
    Row("its own last request is heard of late", booked(plus(GONE, *call(1.0, "r9"))), KEPT),
    Row(
        "asked on after the run was gone, and not watched to the end, proves nothing",
        booked(plus(GONE, *call(1.0, "r9", attempt="", role=""))),
        INCONCLUSIVE,
        says=["asked the provider on"],
    ),
    Row("never reported, and asking on behind the deadline, is broken", story(deaths=None, reported=None, returns=None), BROKEN),
    Row("what comes while the recorder clears up is nobody's", booked(plus(LONG, *call(4.05, "r9"))), KEPT),
)
