"""Rows for cancel-delivered; the limit is +5 s."""

from typing import Any

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, LEADER, Row, clock, exited, notice, plus, saw, story, terms, without
from tests.unit.stories import AT_START, start_story

NOTHING = story(told=None, deaths=None)
FROZEN = story(told=None, deaths=6.0, reported=6.2, returns=6.2)
SLOW = story(told=4.0, deaths=4.2, reported=4.5)
LIMITED: dict[str, Any] = {"given": terms(time_limit=7), "capabilities": ("outcome", "limit")}
"""The limit is over 5.5 s after the press, by the start; the platform may count from a little later."""
ENDED_AT_6: dict[str, Any] = {"told": 6.0, "deaths": 6.2, "reported": 6.4, "returns": 0.1}
ROWS = (
    Row(
        "the time limit is what ends it",
        story(**ENDED_AT_6, outcome="failed"),
        BROKEN,
        **LIMITED,
        says=["its time limit was over", "time_limit 7"],
    ),
    Row("a run that is called cancelled was cancelled, late", story(**ENDED_AT_6), BROKEN, **LIMITED, says=["heard of the cancel late"]),
    Row(
        "what comes before the limit is over is not the limit",
        story(**(ENDED_AT_6 | {"told": 5.45}), outcome="failed"),
        BROKEN,
        **LIMITED,
        says=["heard of the cancel late"],
    ),
    Row(
        "a platform that was given no limit has none",
        story(**ENDED_AT_6, outcome="failed"),
        BROKEN,
        terms(time_limit=7),
        says=["heard of the cancel late"],
    ),
    Row("a notice in time is kept", story(), KEPT, says=["SIGTERM reached pid 4700 0.1 s after pressed"]),
    Row("force without notice in time is kept", story(told=None), KEPT, says=["was killed, without notice"]),
    Row("a notice exactly at the limit is kept", story(told=5.0, deaths=5.2, reported=5.5, returns=5.5), KEPT),
    Row("a notice after the limit is broken", story(told=5.5, deaths=5.7, reported=6.0, returns=6.0), BROKEN, says=["5.5 s after pressed"]),
    Row("nothing at all is broken once the limit was watched", NOTHING, BROKEN, says=["no notice and no force", "nobody told the run"]),
    Row(
        "the signal ended the wrapper itself, and nothing reached the run",
        plus(NOTHING, exited(0.4, -15)),
        BROKEN,
        says=[
            "the signal ended the wrapper itself (it was ended by SIGTERM +0.4 s), and it passed nothing on",
            "in a shell, exec the program, or trap the signal, signal the run and wait for it: a shell without a trap dies alone",
        ],
    ),
    Row(
        "a signal that no wrapper can pass on", plus(NOTHING, exited(0.4, -9)), BROKEN, says=["nobody told the run", "tell the run as soon"]
    ),
    Row("a wrapper that left by itself", plus(NOTHING, exited(0.4, 143)), BROKEN, says=["nobody told the run", "tell the run as soon"]),
    Row("a wrapper that was ended before the press", plus(NOTHING, exited(-0.4, -15)), BROKEN, says=["nobody told the run"]),
    Row("a wrapper that was ended after the handover", plus(NOTHING, exited(0.6, -15)), BROKEN, says=["nobody told the run"]),
    Row(
        "the wrapper of another run is another's",
        plus(NOTHING, exited(0.4, -15, run="bystander")),
        BROKEN,
        says=["nobody told the run", "tell the run as soon"],
    ),
    Row(
        "a wrapper that was ended, and whose run was told late",
        plus(story(told=5.5, deaths=5.7, reported=6.0, returns=6.0), exited(5.6, -15)),
        BROKEN,
        says=["heard of the cancel late", "tell the run as soon"],
    ),
    Row("a term is named with its origin", NOTHING, BROKEN, terms(delivery=1.5), says=["(delivery 1.5; delivery from marker)"]),
    Row("nothing is inconclusive when the limit was not watched", story(told=None, deaths=None, end=3.0), INCONCLUSIVE, spoilt=True),
    Row(
        "a notice too close to the limit for this machine", story(told=4.99, deaths=5.2, reported=5.5, late=0.05), INCONCLUSIVE, spoilt=True
    ),
    Row("a notice too closely after the limit", story(told=5.01, deaths=5.2, reported=5.5, late=0.05), INCONCLUSIVE, spoilt=True),
    Row("without the clock no timing is believed", without(story(), "clock"), INCONCLUSIVE, spoilt=True),
    Row(
        "a clock that was silent for seconds was late by them",
        plus(without(SLOW, "clock"), *clock(-2, 1), *clock(3.9, 6)),
        INCONCLUSIVE,
        spoilt=True,
    ),
    Row("an end by itself, with goodbye and without notice, is no delivery", story(told=None, goodbyes=["leader"], end=8.0), BROKEN),
    Row("a kill by the drill's own clearing up is no delivery", story(told=None, deaths=20.0, end=13.0), BROKEN),
    Row("the notice of a reused pid is nobody's of the run", plus(NOTHING, notice(0.1, subject="4700:9999")), BROKEN),
    Row(
        "a signal that waits for a stopped process is a notice",
        plus(FROZEN, saw("process-table", "pending", 0.1, LEADER, signals=["SIGHUP", "SIGTERM"])),
        KEPT,
        says=["SIGHUP and SIGTERM (pending, as it is stopped) reached pid 4700 0.1 s after pressed"],
    ),
    Row(
        "so is the end of its input",
        plus(FROZEN, saw("process-table", "input-ended", 0.1, LEADER)),
        KEPT,
        says=["the end of its input (unread, as it is stopped) reached pid 4700"],
    ),
    Row(
        "what waits for a reused pid is nobody's of the run",
        plus(FROZEN, saw("process-table", "pending", 0.1, "4700:9", signals=["SIGHUP"])),
        BROKEN,
    ),
    Row(
        "a signal that a stopped process hears later counts from when it waited",
        plus(story(told=6.0, deaths=6.2, reported=6.4, returns=6.4), saw("process-table", "pending", 0.1, LEADER, signals=["SIGTERM"])),
        KEPT,
    ),
    Row("a run that never came up could not be told", start_story(), Verdict.NOT_APPLICABLE, header=AT_START),
    Row("the notice of any process counts", story(told={"daemon": 0.3}, deaths={"leader": 0.5, "daemon": 0.6}, reported=1.0), KEPT),
)
