"""Rows for floor-holds: time_limit 10 + grace 5 + kill_within 2 from the leader's hello at -1 s, so the deadline is +16 s."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, story, without
from tests.unit.stories import alone_story

KILLED = {"act": "kill-wrapper"}
FROZEN = {"act": "freeze-wrapper"}
ALONE = {"act": "leave-alone"}
ROWS = (
    Row(
        "gone before the limit is kept",
        alone_story("disrupted"),
        KEPT,
        header=KILLED,
        says=["17.0 s after the leader's hello", "time_limit 10"],
    ),
    Row("gone exactly at the deadline is kept", alone_story("disrupted", dies=16.0), KEPT, header=KILLED),
    Row("gone after it is broken", alone_story("disrupted", dies=16.5), BROKEN, header=KILLED, says=["died with it"]),
    Row("never gone is broken", alone_story("disrupted", dies=None), BROKEN, header=FROZEN, says=["was stopped with it"]),
    Row(
        "left alone it may be the wrapper's own limit",
        alone_story(),
        KEPT,
        header=ALONE,
        says=["for wrapper-killed and wrapper-frozen to show"],
    ),
    Row("left alone and never gone is broken", alone_story(dies=None), BROKEN, header=ALONE, says=["there is no limit"]),
    Row(
        "gone after it by less than the machine was late",
        alone_story("disrupted", dies=16.3, late=0.5),
        INCONCLUSIVE,
        header=KILLED,
        spoilt=True,
    ),
    Row("nothing was done to it", without(alone_story("disrupted"), "adapter.disrupted"), INCONCLUSIVE, header=KILLED),
    Row("a drill with a press shows nothing of it", without(story(), "process-table"), Verdict.NOT_APPLICABLE),
)
