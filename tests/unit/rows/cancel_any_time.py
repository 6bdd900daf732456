"""Rows for cancel-any-time: pressed before the runner works, with the deadline at +12 s, and pressed after its end."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    Row,
    answer,
    died,
    exited,
    held,
    hello,
    look_again,
    plus,
    returned,
    row,
    saw,
    story,
    terms,
    without,
)
from tests.unit.stories import AFTER_END, AT_START, ended_story, revival, start_story

NEVER = start_story()
HELD = start_story(reached="before its first handler", came=-0.4, dies=0.05)
LOST = start_story(came=0.08, works=0.2, end=12.7)
HELD_AND_LOST = start_story(reached="before it works", came=-0.4, released=5.0, works=5.01, end=12.7)
LATE = start_story(came=0.4, dies=0.6, end=3.3)
ENDED_UNREPORTED = start_story(came=0.08, dies=0.3, reported=None, end=14.5)
SILENT = start_story(reported=None, returns=None, end=14.5)
REFUSED = saw("lifeline", "refused", 1.0, reason="its token is not known here", peer_pid=7)
AFTER = ended_story()
ROWS = (
    # Before the run works.
    Row(
        "a run that never starts is kept",
        NEVER,
        KEPT,
        header=AT_START,
        says=["nothing of the run ever came up", "at the press: no runner yet"],
    ),
    Row("watched exactly for retry after the report is kept", start_story(end=3.1), KEPT, header=AT_START),
    Row("watched for less", start_story(end=3.0), INCONCLUSIVE, header=AT_START, says=["watched until +3.1 s"]),
    Row("never reported: watched until the deadline is kept", SILENT, KEPT, header=AT_START),
    Row("never reported, and watched for less", start_story(reported=None, end=11.0), INCONCLUSIVE, header=AT_START),
    Row(
        "an outcome that nobody can tell: until the deadline", start_story(reported=None, end=12.2), KEPT, header=AT_START, capabilities=()
    ),
    Row("the refusal of another drill's process is none of this one's", plus(NEVER, REFUSED), KEPT, header=AT_START),
    Row(
        "a process that said hello and cannot be held is no run that never started",
        plus(NEVER, saw("lifeline", "hello", 0.3, role="leader", attempt="k3f9-1"), saw("drill", "problem", 0.3, what="cannot be held")),
        INCONCLUSIVE,
        header=AT_START,
        spoilt=True,
        says=["a process (leader) said hello +0.3 s and was gone before it was held"],
    ),
    Row(
        "killed before its first handler is kept",
        HELD,
        KEPT,
        header=AT_START,
        says=["all 1 processes of the run are dead", "at the press: before its first handler"],
    ),
    Row("dead exactly at the deadline is kept", start_story(reached="said hello", came=-0.1, dies=12.0, end=12.7), KEPT, header=AT_START),
    Row(
        "what came up after the press and was ended before the report is kept",
        start_story(came=0.08, dies=0.3, reported=0.5, end=3.8),
        KEPT,
        header=AT_START,
    ),
    Row(
        "a run that was at work already shows nothing of a start",
        start_story(reached="working", came=-0.4, dies=0.3),
        Verdict.NOT_COVERED,
        header=AT_START,
        says=["a start(run) that returns before the runner works"],
    ),
    Row(
        "also where it lives on: no-survivors tells",
        start_story(reached="working", came=-0.4, works=-0.2, end=12.7),
        Verdict.NOT_COVERED,
        header=AT_START,
    ),
    Row(
        "never reported, by a wrapper that never exits, nothing can have begun behind the report",
        plus(ENDED_UNREPORTED, saw("process-table", "spawned", -0.5, "50:9", role="wrapper", run="first")),
        KEPT,
        header=AT_START,
        capabilities=("exit",),
    ),
    Row(
        "never reported, and whether the wrapper exited is not known",
        ENDED_UNREPORTED,
        INCONCLUSIVE,
        header=AT_START,
        capabilities=("exit",),
    ),
    Row(
        "never reported, by a wrapper that did exit",
        plus(ENDED_UNREPORTED, saw("process-table", "spawned", -0.5, "50:9", role="wrapper", run="first"), exited(0.05, 1)),
        INCONCLUSIVE,
        header=AT_START,
        capabilities=("exit",),
    ),
    Row(
        "never reported, and asked again after it came",
        plus(ENDED_UNREPORTED, answer(5.0, "running", by="outcome")),
        KEPT,
        header=AT_START,
    ),
    Row("never reported, and never asked after it came", ENDED_UNREPORTED, INCONCLUSIVE, header=AT_START),
    Row(
        "what came up after the press and lives is broken",
        LOST,
        BROKEN,
        header=AT_START,
        says=["the cancel was lost: pid 4700", "at the press: no runner yet; at work from +0.2 s on", "no process yet that it could end"],
    ),
    Row(
        "what was let go on and lives is broken",
        HELD_AND_LOST,
        BROKEN,
        header=AT_START,
        says=[
            "at the press: before it works; let go on +5.0 s (the press had `delivery` to arrive); at work from +5.01 s on",
            "did not pass",
        ],
    ),
    Row(
        "what was told and lives is broken, and not for want of memory",
        start_story(came=0.08, works=0.2, told=0.3, end=12.7),
        BROKEN,
        header=AT_START,
        says=["it had SIGTERM and ignored it"],
    ),
    Row(
        "what begins after the report is broken, however soon it dies",
        LATE,
        BROKEN,
        header=AT_START,
        says=["began +0.4 s, 0.3 s after 'cancelled' was reported", "while the start was still under way"],
    ),
    Row("what begins exactly at the report is not after it", start_story(came=0.1, dies=0.3), KEPT, header=AT_START),
    Row("what begins within what early allows is kept", LATE, KEPT, terms(early=0.5), header=AT_START),
    Row("what came up, and nothing was reported", start_story(came=0.4, dies=0.6, reported=None, end=14.5), INCONCLUSIVE, header=AT_START),
    Row(
        "what was there before, and nothing was reported", start_story(came=-0.4, dies=0.6, reported=None, end=14.5), KEPT, header=AT_START
    ),
    Row("a second attempt that lives is broken", plus(start_story(came=0.08, dies=0.09, end=12.7), *revival(5.0)), BROKEN, header=AT_START),
    Row("dead or alive is not known", without(HELD, "process-table.died", "process-table.look"), INCONCLUSIVE, header=AT_START),
    Row("a zombie whose threads live on is alive", look_again(LOST, "end", row("leader", "Z", alive=True)), BROKEN, header=AT_START),
    Row("a reused pid's death is not the run's", plus(LOST, died(3.0, subject="4700:9")), BROKEN, header=AT_START),
    # After its end.
    Row(
        "a cancel after the end that changes nothing is kept",
        AFTER,
        KEPT,
        header=AFTER_END,
        says=[
            "the run ended by itself -0.4 s",
            "nothing began until +0.7 s",
            "returned +0.01 s",
            "'succeeded' -0.3 s, and still so +0.6 s",
        ],
    ),
    Row("a call that returns exactly at the limit is kept", ended_story(returns=2.0, end=2.6), KEPT, header=AFTER_END),
    Row("a call that returns later is broken", ended_story(returns=3.0, end=3.7), BROKEN, header=AFTER_END, says=["returned +3.0 s"]),
    Row("a call that never returns is broken", ended_story(returns=None, end=2.7), BROKEN, header=AFTER_END, says=["has not returned"]),
    Row(
        "an ordinary error is clean",
        plus(without(AFTER, "adapter.cancel-returned"), returned(0.01, "LookupError: it has ended")),
        KEPT,
        header=AFTER_END,
        says=["it has ended"],
    ),
    Row(
        "what ends its caller is not",
        plus(without(AFTER, "adapter.cancel-returned"), returned(0.01, "CancelledError", clean=False)),
        BROKEN,
        header=AFTER_END,
        says=["no ordinary error"],
    ),
    Row(
        "an outcome that becomes another is broken",
        ended_story(again="cancelled"),
        BROKEN,
        header=AFTER_END,
        says=["'succeeded' became 'cancelled' +0.6 s, after the press", "written over the record"],
    ),
    Row("an outcome that was wrong before stays so", ended_story(outcome="failed"), KEPT, header=AFTER_END),
    Row("an outcome that was not terminal before", ended_story(known=0.2), INCONCLUSIVE, header=AFTER_END, says=["not terminal before"]),
    Row("no outcome at all", ended_story(known=None), INCONCLUSIVE, header=AFTER_END),
    Row("an outcome that nobody can tell", ended_story(known=None), KEPT, header=AFTER_END, capabilities=()),
    Row(
        "not read again",
        without(AFTER, "outcome.answer")[:0] + [one for one in AFTER if one.data.get("asked_at_s") != 100.55],
        INCONCLUSIVE,
        header=AFTER_END,
    ),
    Row(
        "the wrapper's exit is final",
        plus(without(ended_story(known=None), "outcome"), answer(-0.35, "succeeded", by="exit")),
        KEPT,
        header=AFTER_END,
        capabilities=("exit",),
    ),
    Row(
        "a new attempt is broken", plus(AFTER, *revival(0.3)), BROKEN, header=AFTER_END, says=["pid 4900 (start 3200, leader) began +0.3 s"]
    ),
    Row(
        "another process of the old attempt is broken too",
        plus(AFTER, hello(0.3, "successor"), held(0.3, "successor")),
        BROKEN,
        header=AFTER_END,
        says=["successor) began +0.3 s"],
    ),
    Row("not watched for settle", ended_story(end=0.4), INCONCLUSIVE, header=AFTER_END),
    Row("pressed before the end", story(), INCONCLUSIVE, header=AFTER_END, says=["the run had not ended"]),
    Row("pressed while it works", story(), Verdict.NOT_APPLICABLE, says=["this drill (cancel) cannot show it"]),
)
