"""Rows for outcome-not-early; reported at +0.5 s unless a row says otherwise."""

from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    Row,
    answer,
    died,
    held,
    hello,
    look,
    look_again,
    plus,
    row,
    says,
    story,
    terms,
    without,
)

GONE = story()
EARLY = story(deaths={"leader": 0.2, "deaf-child": 5.2})
JUST = story(deaths=0.502)
DYING = look_again(JUST, "reported", row("leader", "dying"))
RUNNING = answer(0.0, "running", by="outcome", asked_s=-0.1)
SLOWLY_ASKED = plus(without(GONE, "outcome.answer"), RUNNING, answer(0.5, by="outcome", asked_s=0.1))
QUICKLY_ASKED = plus(
    without(GONE, "outcome.answer"), answer(0.12, "running", by="outcome", asked_s=0.11), answer(0.5, by="outcome", asked_s=0.16)
)
ASKED_AFTER_GONE = plus(without(GONE, "outcome.answer"), RUNNING, answer(0.5, by="outcome", asked_s=0.3))
NEWCOMER = (hello(0.8, "successor"), held(0.8, "successor"))
ROWS = (
    Row("after gone is kept", GONE, KEPT, says=["'cancelled' reported +0.5 s, 0.3 s after gone"]),
    Row("exactly as it is gone is kept", story(deaths=0.5), KEPT),
    Row("before gone is broken", EARLY, BROKEN, says=["4.7 s before gone", "alive as it was reported: pid 4711", "the end of the leader"]),
    Row(
        "who came after the report is told apart",
        plus(EARLY, *NEWCOMER),
        BROKEN,
        says=["alive as it was reported: pid 4711 (start 1001, deaf-child); begun after it was reported: pid "],
    ),
    Row("never gone is broken", story(deaths=None), BROKEN, says=["gone never seen"]),
    Row("two milliseconds before gone is broken, however late the machine", story(deaths=0.502, late=0.2), BROKEN),
    Row("exiting as it is reported counts as dead", look_again(DYING, "handover", row("leader", "dying")), KEPT),
    Row("a zombie without a thread is dead", look_again(GONE, "reported", row("leader", "Z")), KEPT),
    Row(
        "exiting as it is reported, and at work again, is not dead",
        plus(look_again(DYING, "handover", row("leader", "dying")), says("wrote", 0.9, count=99)),
        INCONCLUSIVE,
    ),
    Row(
        "seen dead by the look alone",
        look_again(look_again(JUST, "reported", row("leader", "gone")), "handover", row("leader", "gone")),
        KEPT,
    ),
    Row(
        "a look that came late proves nothing, since the dust had settled",
        plus(without(story(deaths=0.7), "process-table.look"), look("reported", 0.8, row("leader", "gone"))),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row("without a look, dead long after the report is broken", without(story(deaths=5.2), "process-table.look"), BROKEN),
    Row("a reused pid that is alive is somebody else", look_again(GONE, "reported", row(subject="4700:9")), KEPT),
    Row(
        "a process that cannot be read", look_again(look_again(story(deaths=1.0), "reported", row("leader", "?")), "handover"), INCONCLUSIVE
    ),
    Row(
        "what the questions leave open is counted from the last one that was answered otherwise, and is told",
        SLOWLY_ASKED,
        KEPT,
        says=["0.3 s too early", "cannot be excluded: the answer took 0.4 s", "early=0.3"],
    ),
    Row("also where the last question was put after gone", ASKED_AFTER_GONE, KEPT, says=["early by up to 0.3 s cannot be excluded"]),
    Row(
        "however late the machine, questions that leave too much open prove nothing",
        plus(
            without(story(deaths=0.9, reported=1.2, late=2.0), "outcome.answer"),
            answer(0.2, "running", by="outcome", asked_s=-0.3),
            answer(1.2, by="outcome", asked_s=0.3),
        ),
        INCONCLUSIVE,
        says=["early by up to 1.2 s cannot be excluded"],
        spoilt=True,
    ),
    Row(
        "a question put a moment before gone is quick enough",
        QUICKLY_ASKED,
        KEPT,
    ),
    Row(
        "a slow question whose risk is written down",
        SLOWLY_ASKED,
        KEPT,
        terms(early=0.4),
    ),
    Row("never reported", story(reported=None), INCONCLUSIVE, says=["see outcome-reported"]),
    Row("a successor that says hello after the report was not gone", plus(GONE, *NEWCOMER, died(0.9, "successor")), BROKEN),
    Row("within what early allows is kept", EARLY, KEPT, terms(early=6)),
    Row("exactly what early allows is kept", EARLY, KEPT, terms(early=4.7)),
    Row("more than early allows is broken", EARLY, BROKEN, terms(early=3), says=["early 3; early from marker"]),
    Row("too close to what early allows for this machine", story(deaths=5.2, late=0.1), INCONCLUSIVE, terms(early=4.75), spoilt=True),
    Row("never told explains it", story(told=None, deaths=None), BROKEN, says=["the run was not told"]),
    Row(
        "the wrapper's exit while its child lives",
        story(deaths={"leader": 0.2, "deaf-child": None}, by="exit"),
        BROKEN,
        capabilities=("exit",),
    ),
)
