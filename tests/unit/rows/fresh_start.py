"""Rows for fresh-start: what the second run finds."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import BROKEN, FIRST, INCONCLUSIVE, KEPT, WORKSPACE, Row, plus, saw, says, story, without

FRESH = story(restart=0.9)
ITEM = {"kind": "ignored", "path": f"{WORKSPACE}/ignored/p", "attempt": FIRST}
NOT_UP = [one for one in FRESH if one.subject != "4800:3000"]
UNPLANTED = without(FRESH, "lifeline.planted")
ROWS = (
    Row("nothing found is kept", FRESH, KEPT, says=["nothing of the first run, of 1 things planted"]),
    Row(
        "a file found is broken", story(restart=0.9, found=[ITEM]), BROKEN, says=[f"ignored {WORKSPACE}/ignored/p", "used again, or copied"]
    ),
    Row(
        "a session found is broken",
        story(restart=0.9, session={"where": "argv", "text": "s"}),
        BROKEN,
        says=["session in its command line"],
    ),
    Row(
        "both found are both told",
        story(restart=0.9, found=[ITEM], session={"where": "env", "text": "s"}),
        BROKEN,
        says=["continues the first", "environment"],
    ),
    Row("poison of an older attempt is poison too", story(restart=0.9, found=[{**ITEM, "attempt": "old-1"}]), BROKEN),
    Row("nothing was planted", plus(UNPLANTED, says("not-planted", -0.9, why="no marker")), INCONCLUSIVE, says=["no marker"]),
    Row("an empty plant is nothing to find", plus(UNPLANTED, says("planted", -0.9, poison=[], session="")), INCONCLUSIVE),
    Row("the second run never came up", NOT_UP, INCONCLUSIVE, says=["never came up"]),
    Row(
        "the second start failed",
        plus(without(NOT_UP, "adapter.restarted"), saw("adapter", "restarted", 0.9, error="Conflict: exists")),
        INCONCLUSIVE,
        says=["Conflict: exists"],
    ),
    Row(
        "a run that ended by itself may be built on",
        story(restart=0.9, goodbyes=["leader"], found=[ITEM]),
        Verdict.NOT_APPLICABLE,
        says=["ended by itself"],
    ),
    Row(
        "why it never came up is told",
        plus(NOT_UP, saw("adapter", "not-restarted", 0.95, why="the wrapper ended with status 3.")),
        INCONCLUSIVE,
        says=["ended with status 3"],
    ),
    Row("the second run did not look", without(FRESH, "lifeline.found"), INCONCLUSIVE, says=["did not look"]),
    Row("no second start", story(), INCONCLUSIVE, says=["not started again"]),
    Row(
        "what the first run found itself is not judged",
        plus(FRESH, says("found", -0.95, looked=True, poison=[ITEM], session=None)),
        KEPT,
    ),
)
