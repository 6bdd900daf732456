"""Rows for requests-closed; reported at +0.5 s unless a row says otherwise, so that the limit is +1.5 s."""

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
    story,
    terms,
    without,
)

GONE = story()
LONG = story(end=4.0)
SURVIVES = story(deaths=None)
STREAM = request(-0.5, "s1", stream=True, model="uncooperative/stream")
HELD = request(-0.5, "h1", model="uncooperative/held")
BACKGROUND = request(-0.5, "b1", background=True, wire="openai-responses")
ROWS = (
    Row("all dead at the handover is kept", GONE, KEPT, says=["every request that the run had begun by the handover was closed"]),
    Row(
        "a stream that is open to the last is broken",
        booked(plus(LONG, STREAM)),
        BROKEN,
        says=["1 request open after the limit: s1 of the leader (streamed), begun -0.5 s, open to the last", "a proxy say"],
    ),
    Row("one that is not streamed is broken as well", booked(plus(LONG, HELD)), BROKEN, says=["h1 of the leader, begun"]),
    Row(
        "work without a connection is open too",
        booked(plus(LONG, BACKGROUND)),
        BROKEN,
        says=["(work without a connection)", "never cancelled"],
    ),
    Row("closed by the limit is kept", booked(plus(LONG, STREAM, closed(1.4, "s1", "disconnected"))), KEPT),
    Row(
        "closed after the limit is broken",
        booked(plus(LONG, STREAM, closed(2.4, "s1", "disconnected"))),
        BROKEN,
        says=["disconnected +2.4 s"],
    ),
    Row(
        "more is allowed where the terms say so", booked(plus(LONG, STREAM, closed(2.4, "s1", "ended"))), KEPT, given=terms(spend_within=3)
    ),
    Row(
        "what was whole before the handover is open, though it was read behind it",
        booked(plus(LONG, request(0.7, "s1", came_s=PRESSED_S + 0.4))),
        BROKEN,
        says=["begun +0.4 s, open to the last"],
    ),
    Row("what was whole after the handover only is another clause's", booked(plus(LONG, request(0.7, "s1"))), KEPT),
    Row("what begins after the handover is another clause's", SURVIVES, KEPT),
    Row(
        "open for less than the machine was late proves nothing",
        booked(plus(story(end=4.0, late=0.3), STREAM, closed(1.6, "s1", "disconnected"))),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row("never seen to spend proves nothing", without(GONE, "meter"), INCONCLUSIVE),
    Row(
        "something open at the last look, before the limit, proves nothing",
        booked(plus(without(GONE, "meter.look", moment="end"), STREAM, meter_look("end", 1.2))),
        INCONCLUSIVE,
    ),
    Row("what is asked after the run was gone is another clause's", booked(plus(GONE, *call(1.0, "r9"))), KEPT),
)
