"""Rows for outcome-reported; gone at +0.2 s, so the limit is +2.2 s, and +14 s where the run is never gone."""

from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, NOT_COVERED, Row, answer, plus, saw, story, without
from tests.unit.stories import AT_START, beside, start_story

NO_OUTCOME = without(story(end=4.0), "outcome")
ROWS = (
    Row(
        "both soon after gone is kept",
        story(),
        KEPT,
        says=["the cancel call returned +0.5 s", "'cancelled' reported +0.5 s", "gone +0.2 s"],
    ),
    Row("exactly at the limit is kept", story(reported=2.2, returns=2.2), KEPT),
    Row("a late outcome is broken", story(reported=3.0), BROKEN, says=["the record is set late"]),
    Row(
        "late by less than the wrapper waited for a processor",
        plus(story(reported=3.0, returns=3.0), saw("clock", "waited", 0.2, waited_s=0.1), saw("clock", "waited", 3.0, waited_s=1.0)),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row(
        "late by more than the wrapper waited for a processor is broken",
        plus(story(reported=3.0, returns=3.0), saw("clock", "waited", 0.2, waited_s=0.1), saw("clock", "waited", 3.0, waited_s=0.8)),
        BROKEN,
    ),
    Row("a late return is broken", story(returns=3.0), BROKEN, says=["the cancel call returned +3.0 s"]),
    Row("a call that never returns is broken", story(returns=None), BROKEN, says=["has not returned"]),
    Row("an outcome that never comes is broken", story(reported=None), BROKEN, says=["no terminal outcome"]),
    Row("never gone, and nothing by the deadline's limit, is broken", story(deaths=None, reported=None, returns=None, end=15), BROKEN),
    Row("never gone, and both before the deadline, is kept", story(deaths=None), KEPT, says=["the deadline +12.0 s"]),
    Row("before gone is in time", story(deaths=6.0, reported=1.0, returns=1.0), KEPT),
    Row(
        "an error of the call is a return, and is shown",
        plus(without(story(), "adapter.cancel-returned"), saw("adapter", "cancel-returned", 0.5, error="Boom")),
        KEPT,
        says=["Boom"],
    ),
    Row(
        "an outcome that is asked for counts by the question",
        plus(NO_OUTCOME, answer(0.3, "running", by="outcome"), answer(3.9, by="outcome", asked_s=1.0)),
        KEPT,
    ),
    Row(
        "one that was asked for too late is broken",
        plus(NO_OUTCOME, answer(2.9, "running", by="outcome"), answer(3.1, by="outcome")),
        BROKEN,
    ),
    Row(
        "a slow question over the limit hides when it changed",
        plus(NO_OUTCOME, answer(3.0, "running", by="outcome", asked_s=1.0), answer(3.1, by="outcome", asked_s=3.05)),
        INCONCLUSIVE,
        spoilt=True,
        says=["was under way at the limit"],
    ),
    Row(
        "a question that fails",
        plus(NO_OUTCOME, answer(0.3, "running", by="outcome"), saw("outcome", "error", 2.9, asked_at_s=102.9, error="no such run")),
        BROKEN,
        says=["last 'no such run'", "the question itself failed: no such run"],
    ),
    Row("the history ends before the limit", story(reported=None, returns=None, end=1.0), INCONCLUSIVE),
    Row("too close to the limit for this machine", story(reported=2.19, late=0.05), INCONCLUSIVE, spoilt=True),
    Row("when the run was gone is not known", without(story(reported=3.0), "process-table.died"), INCONCLUSIVE),
    Row("a reused pid's death does not move the limit", plus(story(reported=3.0), saw("process-table", "died", 2.9, "4700:9")), BROKEN),
    Row("an adapter that cannot tell the outcome", story(), NOT_COVERED, capabilities=(), says=["wait(handle) or outcome(handle)"]),
    Row("a run that never came up, and both soon", start_story(), KEPT, header=AT_START, says=["the deadline +12.0 s"]),
    Row(
        "a run that never came up, and no outcome by the deadline's limit",
        start_story(reported=None, end=15.0),
        BROKEN,
        header=AT_START,
        says=["no terminal outcome", "is not taken down"],
    ),
    Row("a run that may yet come up, and no outcome", start_story(reported=None, end=11.0), INCONCLUSIVE, header=AT_START),
    Row(
        "a run that came up after the press is reckoned from its end",
        start_story(came=0.1, dies=0.3, reported=3.0, end=6.2),
        BROKEN,
        header=AT_START,
        says=["gone +0.3 s"],
    ),
    Row("the end of another run does not move the limit", plus(story(reported=3.0), *beside(judged=3.1, wrote_at=3.0)), BROKEN),
    Row("the wrapper's exit is an outcome too", story(by="exit"), KEPT, capabilities=("exit",)),
)
