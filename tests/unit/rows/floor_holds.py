"""Rows for floor-holds: time_limit 10 + grace 5 + kill_within 2 from the leader's hello at -1 s, so the deadline is +16 s."""

from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, plus, saw, story, without
from tests.unit.stories import alone_story

KILLED = {"act": "kill-wrapper"}
FROZEN = {"act": "freeze-wrapper"}
ALONE = {"act": "leave-alone"}


def _line(at_s: float, **states: str) -> Observation:
    """Who stands above the runner, the leader's parent first; a process's pid and name are its place in the story."""
    pids = {"shell": "40:4", "wrapper": "41:4", "platform": "42:4"}
    return saw("process-table", "line", at_s, line=[{"subject": pids[one], "comm": one, "state": state} for one, state in states.items()])


def _disrupted(*names: str, how: str) -> list[Observation]:
    return [saw("process-table", "disrupted", 0.01, f"{40 + number}:4", how=how, comm=name) for number, name in enumerate(names)]


BEFORE = _line(-0.01, shell="S", wrapper="S", platform="S")
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
    Row(
        "whom the recorder signalled is named",
        plus(alone_story("disrupted"), *_disrupted("wrapper", how="kill")),
        KEPT,
        header=KILLED,
        says=["killed as the wrapper: pid 40 (wrapper)"],
    ),
    Row(
        "all between command and runner were stopped, and it is kept",
        plus(alone_story("disrupted"), *_disrupted("shell", "wrapper", how="freeze")),
        KEPT,
        header=FROZEN,
        says=["stopped as the wrapper: pid 40 (shell), pid 41 (wrapper)"],
    ),
    Row(
        "one was killed, and the run lived on",
        plus(alone_story("disrupted", dies=None), *_disrupted("wrapper", how="kill")),
        BROKEN,
        header=KILLED,
        says=["killed as the wrapper: pid 40 (wrapper)"],
    ),
    Row(
        "several were killed, and one of them may have had the limit",
        plus(alone_story("disrupted", dies=None), *_disrupted("shell", "wrapper", how="kill")),
        INCONCLUSIVE,
        header=KILLED,
        says=["may have been the platform", "start the platform itself"],
    ),
    Row(
        "what was let go on at the end was not disrupted by that",
        plus(alone_story("disrupted", dies=None), *_disrupted("wrapper", how="freeze"), *_disrupted("wrapper", how="thaw")),
        BROKEN,
        header=FROZEN,
    ),
    Row(
        "nobody above the runner was killed",
        plus(alone_story("disrupted"), BEFORE, _line(0.5, shell="S", wrapper="R", platform="S")),
        INCONCLUSIVE,
        header=KILLED,
        says=["the leader's parent, pid 40 (shell), and all above it lived on", "raise where it cannot"],
    ),
    Row(
        "nobody above the runner was stopped",
        plus(alone_story("disrupted"), BEFORE, _line(0.5, shell="S", wrapper="D", platform="S")),
        INCONCLUSIVE,
        header=FROZEN,
    ),
    Row(
        "the parent is gone from above the runner",
        plus(alone_story("disrupted"), BEFORE, _line(0.5, platform="S")),
        KEPT,
        header=KILLED,
    ),
    Row(
        "the parent is stopped",
        plus(alone_story("disrupted"), BEFORE, _line(0.5, shell="T", wrapper="S", platform="S")),
        KEPT,
        header=FROZEN,
    ),
    Row(
        "the parent lived on, and what is above it is gone",
        plus(alone_story("disrupted"), BEFORE, _line(0.5, shell="S")),
        KEPT,
        header=KILLED,
        says=["pid 40 (shell), was seen alive after the wrapper was disrupted"],
    ),
    Row(
        "the run itself was gone at the second look",
        plus(alone_story("disrupted", dies=0.3), BEFORE, _line(0.5)),
        KEPT,
        header=KILLED,
    ),
    Row(
        "nobody was killed and the run lived on all the same",
        plus(alone_story("disrupted", dies=None), BEFORE, _line(0.5, shell="S", wrapper="S", platform="S")),
        BROKEN,
        header=KILLED,
    ),
    Row("nobody stands above the runner", plus(alone_story("disrupted"), _line(-0.01), _line(0.5)), KEPT, header=KILLED),
    Row("nothing was done to it", without(alone_story("disrupted"), "adapter.disrupted"), INCONCLUSIVE, header=KILLED),
    Row("a drill with a press shows nothing of it", without(story(), "process-table"), Verdict.NOT_APPLICABLE),
)
