"""Rows for cancel-idempotent; cancel is pressed again at +0.2 s, and the run is gone at +5.2 s unless a row says otherwise."""

from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    Row,
    answer,
    exited,
    look,
    look_again,
    plus,
    pressed_again,
    returned_again,
    row,
    story,
    without,
)
from tests.unit.stories import TWICE, revival


def twice(
    seen: list[Observation], *more: Observation, returns: float | None = 0.25, error: str | None = None, **clean: bool
) -> list[Observation]:
    """With a second press, and the return of its call."""
    second = [returned_again(returns, error, **clean)] if returns is not None else []
    return plus(seen, pressed_again(0.2), *second, *more)


DEAF = story(deaths=5.2, reported=5.4, returns=5.4)
LONG = story(deaths=5.2, reported=5.4, returns=5.4, end=9.0)
LIVES = story(deaths=None, reported=None, returns=0.1, end=14.5)
LEFT_TO_A_GUARD = story(deaths=1.2, reported=0.05, returns=0.01, by="exit")
OUTLIVED = twice(LIVES, exited(0.3, -15))
HUNG = twice(LONG, returns=None)
LOOKS = (look("pressed-again", 0.21, row()), look("reported", 0.4, row(), starter_alive=False))
ROWS = (
    Row(
        "a second press that changes nothing is kept",
        twice(DEAF),
        KEPT,
        header=TWICE,
        says=["pressed again +0.2 s", "the second cancel call returned +0.25 s", "the run was gone +5.2 s", "still so +5.95 s"],
    ),
    Row("a call that returns exactly at the limit is kept", twice(LONG, returns=7.2), KEPT, header=TWICE),
    Row(
        "a call that returns later is broken",
        twice(LONG, returns=8.0),
        BROKEN,
        header=TWICE,
    ),
    Row("a call that never returns is broken", HUNG, BROKEN, header=TWICE, says=["the second cancel call has not returned", "gone +5.2 s"]),
    Row(
        "a call that returns too close to the limit for this machine",
        twice(story(deaths=5.2, reported=5.4, returns=5.4, late=0.05), returns=7.19),
        INCONCLUSIVE,
        header=TWICE,
        spoilt=True,
    ),
    Row("the drill ends before the limit", twice(DEAF, returns=None), INCONCLUSIVE, header=TWICE),
    Row("an ordinary error is clean", twice(DEAF, error="LookupError: no such run", clean=True), KEPT, header=TWICE, says=["no such run"]),
    Row(
        "what ends its caller is not",
        twice(DEAF, error="SystemExit: 1", clean=False),
        BROKEN,
        header=TWICE,
        says=["with an error (SystemExit: 1), which is no ordinary error"],
    ),
    Row("an error of which nobody knows what it is", twice(DEAF, error="boom"), INCONCLUSIVE, header=TWICE),
    Row(
        "pressed again when all is over, the call has its time from there",
        plus(story(end=5.6), pressed_again(3.0, "the test"), returned_again(4.9), answer(5.5, by="outcome")),
        KEPT,
        header=TWICE,
    ),
    Row(
        "an outcome that changes is broken",
        twice(story(deaths=5.2, reported=5.4, returns=5.4, again="failed")),
        BROKEN,
        header=TWICE,
        says=["'cancelled' became 'failed' +5.95 s, after the second press"],
    ),
    Row(
        "an outcome that had changed before is not the second press's doing",
        plus(
            without(story(reported=0.3, end=3.0), "outcome.answer"),
            *(answer(at_s, said, by="outcome") for at_s, said in ((0.3, "failed"), (0.4, "cancelled"), (2.4, "cancelled"))),
            pressed_again(1.5, "the test"),
            returned_again(1.6),
        ),
        KEPT,
        header=TWICE,
    ),
    Row(
        "an outcome that changes in the answer to an older question",
        plus(
            without(story(reported=0.3, end=3.0), "outcome.answer"),
            answer(0.3, "failed", by="outcome"),
            answer(1.6, by="outcome", asked_s=1.4),
            answer(2.4, by="outcome"),
            pressed_again(1.5),
            returned_again(1.6),
        ),
        INCONCLUSIVE,
        header=TWICE,
        says=["put before the second press"],
        spoilt=True,
    ),
    Row(
        "a second press that the machine made when all was over shows nothing",
        plus(without(twice(DEAF), "adapter.pressed-again", "adapter.cancel-again-returned"), pressed_again(8.0), returned_again(8.1)),
        INCONCLUSIVE,
        header=TWICE,
        says=["the second press came only then"],
        spoilt=True,
    ),
    Row(
        "an outcome that is read once only",
        without(twice(DEAF), "outcome.answer")[:-1],
        INCONCLUSIVE,
        header=TWICE,
        says=["see outcome-reported"],
    ),
    Row(
        "no outcome at all", twice(story(deaths=5.2, reported=None, returns=5.4)), INCONCLUSIVE, header=TWICE, says=["see outcome-reported"]
    ),
    Row("an adapter that cannot tell the outcome", without(twice(DEAF), "outcome"), KEPT, header=TWICE, capabilities=()),
    Row(
        "a wrapper that ends by the second press while its run lives on is broken",
        OUTLIVED,
        BROKEN,
        header=TWICE,
        says=["the wrapper was ended by SIGTERM +0.3 s, and pid 4700 (start 1000, leader) lived on", "in the middle of its escalation"],
    ),
    Row(
        "a host that is killed is broken too",
        twice(LIVES, exited(0.3, -9, of="host")),
        BROKEN,
        header=TWICE,
        says=["hosts the adapter was ended by SIGKILL"],
    ),
    Row(
        "a wrapper that leaves by itself behind the second press may have been about to",
        twice(LIVES, exited(0.3, 143)),
        INCONCLUSIVE,
        header=TWICE,
        says=["not by the second press as far as can be told", "see no-survivors"],
    ),
    Row("what had started the run and is gone may have left by itself too", twice(LIVES, *LOOKS), INCONCLUSIVE, header=TWICE),
    Row(
        "what had ended before the second press did not end by it",
        twice(LIVES, exited(0.15, -15)),
        INCONCLUSIVE,
        header=TWICE,
        says=["see no-survivors"],
    ),
    Row("what ended after the deadline did not leave it alone", twice(LIVES, exited(12.5, -15)), INCONCLUSIVE, header=TWICE),
    Row("the end of another run's wrapper is nothing", twice(LIVES, exited(0.3, -15, run="bystander")), INCONCLUSIVE, header=TWICE),
    Row(
        "a wrapper that never kills is another clause's",
        twice(LIVES),
        INCONCLUSIVE,
        header=TWICE,
        says=["not by the second press as far as can be told", "see no-survivors"],
    ),
    Row(
        "a wrapper that exits at the first press and leaves the end to a guard is kept",
        twice(LEFT_TO_A_GUARD, exited(0.05, -15), error="ProcessLookupError: gone", clean=True),
        KEPT,
        header=TWICE,
        capabilities=("exit",),
        says=["by the wrapper's exit"],
    ),
    Row(
        "a wrapper that exits after the second press, and whose run is dead in time, is kept",
        twice(story(deaths=1.2, reported=0.3, returns=0.01, by="exit"), exited(0.3, -15)),
        KEPT,
        header=TWICE,
        capabilities=("exit",),
    ),
    Row(
        "a new attempt after the second press may be the first one's doing",
        twice(DEAF, *revival(0.6)),
        INCONCLUSIVE,
        header=TWICE,
        says=["a new attempt at the task began +0.6 s: pid 4900", "see stays-ended"],
    ),
    Row("one before it is not its doing", twice(DEAF, *revival(0.15)), INCONCLUSIVE, header=TWICE),
    Row(
        "a reused pid that is alive is somebody else",
        look_again(twice(DEAF), "end", row("leader", "gone"), row(subject="4700:9")),
        KEPT,
        header=TWICE,
    ),
    Row("cannot be read", look_again(without(twice(LIVES), "process-table.look"), "end", row("leader", "?")), INCONCLUSIVE, header=TWICE),
    Row("pressed once, by a drill that was to press twice", DEAF, INCONCLUSIVE, header=TWICE, says=["pressed once"]),
    Row("pressed twice by a test is twice", twice(DEAF), KEPT),
    Row("pressed once", DEAF, Verdict.NOT_APPLICABLE, says=["this drill (cancel) cannot show it"]),
)
