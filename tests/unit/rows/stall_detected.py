"""Rows for stall-detected: stall_after 3 + grace 5 + kill_within 2 from the last progress at -0.2 s, so the deadline is +9.8 s."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, story, terms, without
from tests.unit.stories import alone_story

HEADER = {"act": "await-stall"}
GIVEN = terms(stall_after=3)
STUCK = alone_story(stuck=-0.2, dies=4.0, deadline=9.8)
ROWS = (
    Row("gone in time is kept", STUCK, KEPT, header=HEADER, given=GIVEN, says=["10.0 s after its last progress", "stall_after 3"]),
    Row("gone exactly at the deadline is kept", alone_story(stuck=-0.2, dies=9.8, deadline=9.8), KEPT, header=HEADER, given=GIVEN),
    Row(
        "never gone is broken",
        alone_story(stuck=-0.2, dies=None, deadline=9.8),
        BROKEN,
        header=HEADER,
        given=GIVEN,
        says=["taken for progress"],
    ),
    Row("it never said that it is stuck", without(STUCK, "lifeline.wedged"), INCONCLUSIVE, header=HEADER, given=GIVEN, says=["never said"]),
    Row("a drill with a press shows nothing of it", without(story(), "process-table"), Verdict.NOT_APPLICABLE, given=GIVEN),
)
