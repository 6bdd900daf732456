"""Rows for lease-fenced: lease 3 + grace 5 + kill_within 2 from the last answer at 0 s."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, plus, saw, story, terms, without
from tests.unit.stories import alone_story

HEADER = {"act": "lose-engine"}
GIVEN = terms(lease=3)
ROWS = (
    Row(
        "gone in time is kept",
        alone_story("engine-lost", dies=4.0, deadline=10.0),
        KEPT,
        header=HEADER,
        given=GIVEN,
        says=["10.0 s after the engine's last answer", "lease 3"],
    ),
    Row("gone exactly at the deadline is kept", alone_story("engine-lost", dies=10.0, deadline=10.0), KEPT, header=HEADER, given=GIVEN),
    Row(
        "never gone is broken", alone_story("engine-lost", dies=None, deadline=10.0), BROKEN, header=HEADER, given=GIVEN, says=["for ever"]
    ),
    Row(
        "an end that is late from the call and in time from its return is neither",
        plus(alone_story("engine-lost", dies=10.7, deadline=10.0), saw("adapter", "engine-refuses", 1.5)),
        INCONCLUSIVE,
        header=HEADER,
        given=GIVEN,
        says=["took 1.5 s", "as soon as the engine refuses"],
    ),
    Row(
        "an end that is late from the return as well is broken",
        plus(alone_story("engine-lost", dies=11.6, deadline=10.0), saw("adapter", "engine-refuses", 1.5)),
        BROKEN,
        header=HEADER,
        given=GIVEN,
    ),
    Row(
        "never gone is broken, however long the call took",
        plus(alone_story("engine-lost", dies=None, deadline=10.0, end=12.5), saw("adapter", "engine-refuses", 1.5)),
        BROKEN,
        header=HEADER,
        given=GIVEN,
    ),
    Row(
        "an end at the first refusal is kept, though the call is not back",
        plus(alone_story("engine-lost", dies=0.8, deadline=10.0), saw("adapter", "engine-refuses", 1.5)),
        KEPT,
        header=HEADER,
        given=GIVEN,
    ),
    Row("the engine was not lost", without(alone_story("engine-lost"), "adapter"), INCONCLUSIVE, header=HEADER, given=GIVEN),
    Row("a drill with a press shows nothing of it", without(story(), "process-table"), Verdict.NOT_APPLICABLE, given=GIVEN),
)
