"""What the runner does in each drill, and what happens to it: a table of data.

A scenario is changed, or added, by one row here. The rows stand in the order in which they are run and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What is done to the run; how is in :mod:`pytest_cancelcontract.acts`, one function an act."""

    CANCEL = "cancel"
    CANCEL_THEN_RESTART = "cancel-then-restart"
    CANCEL_TWICE = "cancel-twice"
    CANCEL_AT_START = "cancel-at-start"
    CANCEL_AFTER_END = "cancel-after-end"
    CANCEL_ONE_OF_TWO = "cancel-one-of-two"
    CANCEL_THEN_NEXT_TASK = "cancel-then-next-task"
    CANCEL_THEN_WATCH = "cancel-then-watch"
    KILL_WRAPPER = "kill-wrapper"
    FREEZE_WRAPPER = "freeze-wrapper"
    LEAVE_ALONE = "leave-alone"
    LEAVE_ALONE_THEN_RESTART = "leave-alone-then-restart"
    AWAIT_STALL = "await-stall"
    LOSE_ENGINE = "lose-engine"

    @property
    def words(self) -> str:
        """The act as a sentence, for people."""
        return _ACT_WORDS[self]

    @property
    def trigger(self) -> Trigger:
        """What starts the clock."""
        return _TRIGGERS.get(self, Trigger.PRESSED)

    @property
    def restarts(self) -> bool:
        """The same task is started again in it."""
        return self in {Act.CANCEL_THEN_RESTART, Act.LEAVE_ALONE_THEN_RESTART}


class Trigger(StrEnum):
    """What the deadline of a drill counts from: the press, the leader's hello, the last progress, or the engine's last answer."""

    PRESSED = "pressed"
    HELLO = "hello"
    PROGRESS = "progress"
    ANSWER = "answer"

    @property
    def words(self) -> str:
        """As it is written in a sentence, behind a number of seconds."""
        return _TRIGGER_WORDS[self]


_ACT_WORDS: dict[Act, str] = {
    Act.CANCEL: "cancel, once everything works",
    Act.CANCEL_THEN_RESTART: "cancel, then start the same task again at the handover",
    Act.CANCEL_TWICE: "cancel, and again as soon as the run has notice",
    Act.CANCEL_AT_START: "cancel right after start returned; in a second run before the runner's first handler; in a third before it works",
    Act.CANCEL_AFTER_END: "cancel once the run has ended and its outcome is known",
    Act.CANCEL_ONE_OF_TWO: "two runs of the same wrapper; one is cancelled",
    Act.CANCEL_THEN_NEXT_TASK: "cancel, then run another task to its end",
    Act.CANCEL_THEN_WATCH: "cancel, then watch for `retry`",
    Act.KILL_WRAPPER: "the wrapper itself is killed; nobody cancels",
    Act.FREEZE_WRAPPER: "the wrapper itself is stopped (SIGSTOP); nobody cancels",
    Act.LEAVE_ALONE: "nothing; nobody cancels",
    Act.LEAVE_ALONE_THEN_RESTART: "nothing until the time limit ends it, then start the same task again at the handover",
    Act.AWAIT_STALL: "nothing; the runner makes no progress any more",
    Act.LOSE_ENGINE: "the engine refuses, then does not answer",
}

_TRIGGERS: dict[Act, Trigger] = {
    Act.KILL_WRAPPER: Trigger.HELLO,
    Act.FREEZE_WRAPPER: Trigger.HELLO,
    Act.LEAVE_ALONE: Trigger.HELLO,
    Act.LEAVE_ALONE_THEN_RESTART: Trigger.HELLO,
    Act.AWAIT_STALL: Trigger.PROGRESS,
    Act.LOSE_ENGINE: Trigger.ANSWER,
}
_TRIGGER_WORDS: dict[Trigger, str] = {
    Trigger.PRESSED: "after pressed",
    Trigger.HELLO: "after the leader's hello",
    Trigger.PROGRESS: "after its last progress",
    Trigger.ANSWER: "after the engine's last answer",
}


class Moment(StrEnum):
    """When ``cancel-at-start`` presses. The runner is held there at a barrier; how far it was when cancel was pressed is recorded."""

    AFTER_START = "after-start"
    BEFORE_HANDLERS = "before-handlers"
    BEFORE_WORK = "before-work"


AFTER_PRESS: tuple[str, ...] = (
    "cancel-delivered",
    "no-survivors",
    "no-zombies",
    "outcome-reported",
    "outcome-not-early",
    "outcome-not-success",
    "no-late-writes",
    "spend-stops",
    "requests-closed",
)
"""The clauses judged after every single press, in report order."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row: the runner's habits (as ``uncooperative_runner --habit``), the act, the clauses that judge it.

    ``is_deaf`` says that a wrapper must use force, so that it is forced to wait for the grace; ``cleans_up`` that it must
    wait for the clean-up. They serve to foretell how long a drill takes. ``other_habits`` are those of the second runner, where the
    act takes two of them. ``needs`` are the capabilities of the adapter without which it cannot be run.
    """

    id: str
    habits: tuple[str, ...]
    clauses: tuple[str, ...]
    what: str
    act: Act = Act.CANCEL
    is_core: bool = False
    is_deaf: bool = False
    cleans_up: bool = False
    other_habits: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def moments(self) -> tuple[Moment | None, ...]:
        """The moments at which the act presses, a run of its own for each; a single None where there is just one."""
        return tuple(Moment) if self.act is Act.CANCEL_AT_START else (None,)

    @property
    def starts(self) -> int:
        """How many runs the act starts."""
        return len(self.moments) if len(self.moments) > 1 else 2 if self.other_habits or self.act.restarts else 1


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("polite", ("polite",), AFTER_PRESS, "ends at the first notice", is_core=True),
    Scenario("slow-cleanup", ("slow-cleanup",), ("grace-given", *AFTER_PRESS), "cleans up, then ends", is_core=True, cleans_up=True),
    Scenario(
        "slow-child",
        ("slow-child",),
        ("grace-given", *AFTER_PRESS),
        "the leader leaves at once, its child cleans up",
        cleans_up=True,
    ),
    Scenario("endless-cleanup", ("endless-cleanup",), ("grace-bounded", *AFTER_PRESS), "starts to clean up and never ends", is_deaf=True),
    Scenario(
        "deaf", ("deaf",), ("grace-bounded", *AFTER_PRESS), "notices TERM, INT, HUP, QUIT and does nothing", is_core=True, is_deaf=True
    ),
    Scenario(
        "second-signal",
        ("second-signal",),
        ("grace-bounded", *AFTER_PRESS),
        "the first notice only ends the current step",
        is_deaf=True,
    ),
    Scenario(
        "keeps-spending",
        ("keeps-spending",),
        AFTER_PRESS,
        "closes its request at notice, and sends new ones after 0.4 s and later",
        is_deaf=True,
    ),
    Scenario("launcher", ("launcher",), AFTER_PRESS, "the leader only launches the worker: it leaves at notice, and tells it nothing"),
    Scenario("exits-zero", ("exits-zero",), AFTER_PRESS, "ends with status 0 at notice"),
    Scenario("deaf-child", ("deaf-child",), AFTER_PRESS, "the leader obeys, a child of its group is deaf", is_core=True, is_deaf=True),
    Scenario("own-group-child", ("own-group-child",), AFTER_PRESS, "a deaf child in a process group of its own", is_deaf=True),
    Scenario("own-session-child", ("own-session-child",), AFTER_PRESS, "a deaf child in a session of its own", is_core=True, is_deaf=True),
    Scenario("daemon", ("daemon",), AFTER_PRESS, "a deaf, double-forked child in a session of its own", is_core=True, is_deaf=True),
    Scenario(
        "bare-daemon",
        ("bare-daemon",),
        AFTER_PRESS,
        "the same with an empty environment, working folder /, and no descriptors",
        is_deaf=True,
    ),
    Scenario("successor", ("successor",), AFTER_PRESS, "at notice starts a new, deaf process and leaves", is_deaf=True),
    Scenario("respawner", ("respawner",), AFTER_PRESS, "two deaf children that start each other again", is_deaf=True),
    Scenario(
        "pipe-holder",
        ("pipe-holder",),
        AFTER_PRESS,
        "the leader ends at notice, its deaf child keeps stdout open",
        is_core=True,
        is_deaf=True,
    ),
    Scenario("silent", ("polite", "silent"), AFTER_PRESS, "prints nothing, ends at the first notice", is_core=True),
    Scenario("chatty", ("polite", "chatty"), AFTER_PRESS, "floods both pipes, ends at the first notice"),
    Scenario("frozen", ("frozen",), AFTER_PRESS, "stops itself (SIGSTOP) once it works", is_deaf=True),
    Scenario(
        "mapped-writer",
        ("mapped-writer",),
        AFTER_PRESS,
        "deaf, writes only through a mapping and a descriptor opened before",
        is_deaf=True,
    ),
    Scenario("cancel-twice", ("deaf",), ("cancel-idempotent", *AFTER_PRESS), "deaf", act=Act.CANCEL_TWICE, is_deaf=True),
    Scenario(
        "cancel-at-start",
        ("polite",),
        ("cancel-any-time", "no-survivors", "outcome-reported"),
        "held at a barrier before it works",
        act=Act.CANCEL_AT_START,
    ),
    Scenario("cancel-after-end", ("ends-itself",), ("cancel-any-time",), "ends by itself", act=Act.CANCEL_AFTER_END),
    Scenario(
        "bystander",
        ("deaf",),
        ("bystander-unharmed", "no-survivors"),
        "deaf, and so is another one beside it",
        act=Act.CANCEL_ONE_OF_TWO,
        is_deaf=True,
        other_habits=("deaf",),
    ),
    Scenario(
        "next-task",
        ("polite",),
        ("slot-reusable",),
        "ends at the first notice; the next task's ends by itself",
        act=Act.CANCEL_THEN_NEXT_TASK,
        other_habits=("ends-itself",),
    ),
    Scenario("watched", ("deaf",), ("stays-ended",), "deaf", act=Act.CANCEL_THEN_WATCH, is_deaf=True),
    Scenario(
        "second-run",
        ("deaf", "poison", "lock-holder"),
        ("fresh-start", "no-overlap"),
        "deaf, leaves poison of every kind, and a child that holds a lock; the same task is started again",
        act=Act.CANCEL_THEN_RESTART,
        is_core=True,
        is_deaf=True,
    ),
    Scenario(
        "second-run-after-end",
        ("polite", "poison"),
        ("fresh-start", "no-overlap"),
        "ends at the first notice, and leaves poison of every kind; the same task is started again",
        act=Act.CANCEL_THEN_RESTART,
        needs=("never-resumed",),
    ),
    Scenario(
        "second-run-after-limit",
        ("deaf", "poison", "lock-holder"),
        ("fresh-start", "no-overlap"),
        "deaf, leaves poison of every kind; the time limit ends it, and the same task is started again",
        act=Act.LEAVE_ALONE_THEN_RESTART,
        is_deaf=True,
        needs=("limit",),
    ),
    Scenario("streaming", ("polite", "streaming"), AFTER_PRESS, "a streamed request is open; ends at the first notice"),
    Scenario(
        "background-request",
        ("background-request",),
        AFTER_PRESS,
        "work goes on at the provider without a connection; the runner cancels it at notice, then ends",
        cleans_up=True,
    ),
    Scenario(
        "wrapper-killed",
        ("deaf", "own-session-child"),
        ("floor-holds",),
        "deaf, and so is its child in a session of its own",
        act=Act.KILL_WRAPPER,
        is_deaf=True,
        needs=("disrupt", "limit"),
    ),
    Scenario(
        "wrapper-frozen",
        ("deaf", "own-session-child"),
        ("floor-holds",),
        "deaf, and so is its child in a session of its own",
        act=Act.FREEZE_WRAPPER,
        is_deaf=True,
        needs=("disrupt", "limit"),
    ),
    Scenario(
        "never-cancelled",
        ("deaf", "own-session-child"),
        ("floor-holds",),
        "deaf, and so is its child in a session of its own",
        act=Act.LEAVE_ALONE,
        is_deaf=True,
        needs=("limit",),
    ),
    Scenario(
        "wedged",
        ("wedged",),
        ("stall-detected",),
        "works, then is alive without output, write or request",
        act=Act.AWAIT_STALL,
        is_deaf=True,
        needs=("stall",),
    ),
    Scenario("engine-lost", ("deaf",), ("lease-fenced",), "deaf", act=Act.LOSE_ENGINE, is_deaf=True, needs=("engine",)),
)


class UnknownScenario(ValueError):
    """No scenario of that id; the message lists the ids that exist."""


def by_id(scenario_id: str) -> Scenario:
    """The scenario of that id.

    Raises:
        UnknownScenario: there is none.
    """
    for scenario in SCENARIOS:
        if scenario.id == scenario_id:
            return scenario
    raise UnknownScenario(f"unknown scenario {scenario_id!r}; the scenarios are {', '.join(row.id for row in SCENARIOS)}")


def select(wanted: str | tuple[str, ...] | list[str]) -> tuple[Scenario, ...]:
    """Turn ``"core"``, ``"all"``, ids and ``"!id"`` into rows, in the table's order.

    Only exclusions: they are taken from the core set.

    Raises:
        UnknownScenario: an id that does not exist.
    """
    words = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    chosen: set[str] = set()
    left_out: set[str] = set()
    for word in words:
        if word == "core":
            chosen |= {row.id for row in SCENARIOS if row.is_core}
        elif word == "all":
            chosen |= {row.id for row in SCENARIOS}
        elif word.startswith("!"):
            left_out.add(by_id(word[1:]).id)
        else:
            chosen.add(by_id(word).id)
    if not chosen:
        chosen = {row.id for row in SCENARIOS if row.is_core}
    return tuple(row for row in SCENARIOS if row.id in chosen - left_out)
