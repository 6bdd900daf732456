"""Run a drill: start the wrapper on an uncooperative runner, press cancel, watch, and leave a history behind.

Acts and observes; judges nothing (:mod:`pytest_cancelcontract.contract` does, from the history alone).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_cancelcontract.acts import ACTS, ASK_AGAIN_WITHIN_S, Stage
from pytest_cancelcontract.adapters.driver import Answer, Driver, Question, Returned, one_line
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.finding import Check
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.outcome_watch import OutcomeWatch
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import Act, Moment, Scenario, Trigger, by_id
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.underway import (
    DrillError,
    DrillNotCovered,
    DrillSkipped,
    EndedBeforePress,
    Progress,
    RunnerNeverWorked,
    UnderWay,
    WrapperNotStarted,
)
from pytest_cancelcontract.workspace_rules import WorkspaceRules

__all__ = [
    "Drill",
    "DrillError",
    "DrillMisused",
    "DrillNotCovered",
    "DrillSkipped",
    "EndedBeforePress",
    "RunnerNeverWorked",
    "WrapperNotStarted",
    "run_drill",
]


class DrillMisused(DrillError):
    """The steps of a drill were taken in an order that can prove nothing; the message names the step that is missing."""


def _silent(_stage: str, _at_most_s: float) -> None:
    pass


def run_drill(
    recorder: Recorder,
    driver: Driver,
    scenario: Scenario,
    terms: Terms,
    *,
    wrapper: str,
    history: Path,
    attempt: int = 1,
    moment: Moment | None = None,
    rules: WorkspaceRules = WorkspaceRules(),  # noqa: B008 - frozen
    progress: Progress = _silent,
) -> Path:
    """Run one drill with an adapter and return the path of its history.

    Every way out, Ctrl-C included, ends what was started and closes the history.

    Raises:
        DrillError: the drill could not be run to its end; the message says which side is at fault.
        RecorderFailed: the recorder is gone.
    """
    under_way = UnderWay(
        recorder,
        scenario,
        terms,
        wrapper=wrapper,
        capabilities=driver.capabilities(),
        history=history,
        attempt=attempt,
        moment=moment,
        rules=rules,
        progress=progress,
    )
    with contextlib.ExitStack() as handles, under_way:
        stage = Stage(under_way, driver, scenario, handles, progress)
        ACTS[scenario.act](stage)
        if scenario.act is not Act.CANCEL_AFTER_END:
            under_way.refuse_early_end()
        under_way.refuse_unreadable_outcome()
        stage.refuse_misconfigured_press()
        stage.note_heartbeats()
    return history


# ---------------------------------------------------------------------- step by step


class _Questions:
    """A test's own question as an adapter that can only be asked; what it answers is put into the contract's words."""

    def __init__(self, question: Callable[[], object], mapping: Mapping[Any, str]) -> None:
        self._question = question
        self._mapping = {state: _outcome_of(state, word) for state, word in mapping.items()}
        self.last = ""

    def start(self, _run: Run, /) -> None:
        """Nothing is started: the test does that."""

    def cancel(self, _handle: None, /) -> None:
        """Nothing is cancelled: the test does that."""

    def outcome(self, _handle: None, /) -> Outcome:
        """Ask; a state that is not in the mapping and is no outcome's word means that the run goes on."""
        state = self._question()
        self.last = str(state)
        if state in self._mapping:
            return self._mapping[state]
        try:
            return Outcome(str(state))
        except ValueError:
            return Outcome.RUNNING


def _outcome_of(state: object, word: str) -> Outcome:
    try:
        return Outcome(word)
    except ValueError:
        raise ValueError(f"a mapping must say which outcome {state!r} means, one of {', '.join(Outcome)}; got {word!r}") from None


class Drill:
    """A drill whose buttons a test presses itself.

    Args:
        scenario: a scenario's id, or a row.
        rerun: the command line that runs the test again, for messages.

    Example::

        with Drill(recorder, "deaf", terms, wrapper="queue", history=path) as drill:
            job = queue.enqueue(drill.run.argv, drill.run.workspace)
            drill.watch(lambda: queue.state(job), {"REVOKED": "cancelled"})
            drill.until_working()
            with drill.pressing():
                queue.cancel(job)
            drill.until_over()
        assert_no_survivors(drill)
    """

    def __init__(
        self,
        recorder: Recorder,
        scenario: Scenario | str,
        terms: Terms,
        *,
        wrapper: str,
        history: Path,
        progress: Progress = _silent,
        rerun: str = "",
        rules: WorkspaceRules = WorkspaceRules(),  # noqa: B008 - frozen
    ) -> None:
        row = by_id(scenario) if isinstance(scenario, str) else scenario
        if row.act is Act.CANCEL_THEN_NEXT_TASK or row.act.trigger is not Trigger.PRESSED:
            raise DrillMisused(f"{row.id} cannot be run step by step; the fixture cancel_contract runs it with an adapter")
        # The test may start the task again in any scenario, and what it finds then must have been planted before.
        self.scenario = replace(row, habits=(*row.habits, *(() if "poison" in row.habits else ("poison",))))
        self.terms = terms
        self.rerun = rerun
        self._under_way = UnderWay(
            recorder, self.scenario, terms, wrapper=wrapper, capabilities=(), history=history, rules=rules, progress=progress
        )
        self._driver: Driver | None = None
        self._handle: int | None = None
        self._history: History | None = None
        self._done: list[str] = []
        self.checks: list[Check] = []

    def __enter__(self) -> Self:
        self._under_way.__enter__()
        self._under_way.observe("adapter", "starting")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._under_way.__exit__(kind, error, trace)
        finally:
            self._let_go()

    @property
    def run(self) -> Run:
        """What to start; for a second run of the task it is the same."""
        if not hasattr(self._under_way, "run"):
            raise DrillMisused("the drill is not open: use it as a context manager (with cancel_drill(…) as drill:)")
        return self._under_way.run

    @property
    def history(self) -> History:
        """All that was seen; the first look at it ends the drill.

        Raises:
            DrillMisused: the drill was not run to its end.
        """
        self._need("over", "judging", "until_over()")
        if self._history is None:
            self._under_way.finish("over")
            self._let_go()
            self._history = load(self._under_way.history)
        return self._history

    def watch(self, question: Callable[[], object], mapping: Mapping[Any, str] | None = None) -> None:
        """Have the outcome asked from now on, in a thread of the plugin.

        Args:
            question: returns the run's state as your side names it.
            mapping: your names to the contract's outcomes; a state that is in neither means ``running``.
        Raises:
            ValueError: the mapping leads to something that is no outcome.
        """
        self._refuse("watch", "watching", "is asked already")
        self._refuse("pressed", "watch()", "belongs before pressing()")
        asked = _Questions(question, mapping or {})
        self._driver = driver = Driver(asked)
        self._handle = handle = driver.ask(Question("start", run=self.run), within_s=self.terms.call_s).handle

        def ask(within_s: float) -> Answer:
            return driver.ask(Question("outcome", handle), within_s=within_s)

        self._under_way.watch = OutcomeWatch(
            functools.partial(ask, self.terms.call_s),
            self._under_way.note_outcome,
            by="outcome",
            ask_again=functools.partial(ask, min(self.terms.call_s, ASK_AGAIN_WITHIN_S)),
            detail=lambda: asked.last,
        )
        self._under_way.observe("adapter", "capabilities", capabilities=["outcome"])
        self._under_way.watch.start()
        self._done.append("watch")

    def until_working(self) -> None:
        """Wait until the runner works, or, after :meth:`restarting`, until the second one does.

        Raises:
            DrillError: it did not come up.
        """
        if "restarted" in self._done:
            self._until_second_works()
            return
        self._refuse("working", "until_working()", "was called already")
        self._under_way.observe("adapter", "started", took_s=None)
        self._under_way.until_working()
        self._done.append("working")

    async def until_working_async(self) -> None:
        """The same, for a test on an event loop, which stays free meanwhile."""
        await self._aside(self.until_working)

    def until_ended(self) -> None:
        """Wait until the run has ended by itself and its outcome is known; instead of :meth:`until_working`, in ``cancel-after-end``.

        Raises:
            DrillError: it did not work, or did not end.
        """
        if self.scenario.act is not Act.CANCEL_AFTER_END:
            raise DrillMisused(f"until_ended() belongs to cancel-after-end: the runner of {self.scenario.id} does not end by itself")
        if self._under_way.watch is not None:
            self._under_way.watch.tell()
        self._under_way.until_ended()
        self._done.append("ended")

    def another(self) -> Run:
        """Another run, of a task of its own, to be started beside the first; in ``bystander``, which cancels only one of the two.

        Raises:
            DrillMisused: the scenario has only one run, this is the third, or cancel was pressed already.
        """
        if self.scenario.act is not Act.CANCEL_ONE_OF_TWO:
            raise DrillMisused(f"another() belongs to bystander: {self.scenario.id} has one run only")
        self._refuse("another", "another()", "was called already; a drill has two runs at most")
        self._refuse("pressed", "another()", "belongs before pressing()")
        self._done.append("another")
        other = self._under_way.another_run("bystander", self.scenario.other_habits)
        self._under_way.observe("adapter", "other-started", run="bystander", error=None, is_asked=False)
        return other

    def until_another_works(self) -> None:
        """Wait until the run of :meth:`another` works; whether it came up is judged."""
        self._need("another", "until_another_works()", "another()")
        self._under_way.until_other_works("bystander")

    @contextlib.contextmanager
    def pressing(self) -> Iterator[None]:
        """Put around the call that cancels: the press is stamped on the way in, its return (or error) on the way out.

        Once a drill; twice in ``cancel-twice``, also while the first is under way (from another thread, say). In ``cancel-at-start``
        right behind the start, before anything works.

        Raises:
            DrillMisused: the runner was not seen to work, or cancel was pressed already.
            EndedBeforePress: the outcome was terminal already.
        """
        is_second = "pressed" in self._done and "pressed again" not in self._done and self.scenario.act is Act.CANCEL_TWICE
        if is_second:
            self._done.append("pressed again")
            self._under_way.note_pressed_again("the test")
        else:
            self._press_first()
        note = self._under_way.note_returned_again if is_second else self._under_way.note_returned
        try:
            yield
        except BaseException as error:
            note(Returned.now(error))
            raise
        else:
            note(Returned.now())
        finally:
            self._done.append("returned")

    def _press_first(self) -> None:
        act, watch = self.scenario.act, self._under_way.watch
        self._refuse("pressed", "pressing()", "was entered already; a drill has one press")
        if act is Act.CANCEL_AFTER_END:
            self._need("ended", "pressing()", "until_ended()")
        elif act is not Act.CANCEL_AT_START:
            self._need("working", "pressing()", "until_working()")
            if watch is not None:
                watch.until_first(self.terms.call_s)
            self._under_way.refuse_early_end()
        elif watch is not None:
            watch.tell()
        self._done.append("pressed")
        self._under_way.note_pressed("the test")

    def until_over(self) -> None:
        """Wait until everything of the run is quiet, or the last limit has passed.

        Raises:
            DrillMisused: nothing was pressed, or the ``pressing()`` block has not ended.
        """
        self._need("returned", "until_over()", "with pressing():")
        if self.scenario.act is Act.CANCEL_TWICE:
            self._need("pressed again", "until_over() in cancel-twice", "a second with pressing():")
        if self.scenario.act is Act.CANCEL_ONE_OF_TWO:
            self._need("another", "until_over() in bystander", "another(), which is started beside the first run,")
        self._under_way.until_over()
        if "another" in self._done:
            self._under_way.until_bystander_wrote()
            self._under_way.note_bystander_let_go()
        self._done.append("over")

    async def until_over_async(self) -> None:
        """The same, for a test on an event loop, which stays free meanwhile."""
        await self._aside(self.until_over)

    @contextlib.contextmanager
    def restarting(self) -> Iterator[None]:
        """Put around the call that starts the same task again; waits for the handover before, and for the new run behind.

        On an event loop nothing is waited for behind it: ``await drill.until_working_async()`` there.

        Raises:
            DrillMisused: nothing was pressed, it was started again already, or the drill has ended.
        """
        self._need("returned", "restarting()", "with pressing():")
        self._refuse("restarted", "restarting()", "was entered already")
        if self._under_way.has_ended:
            raise DrillMisused("restarting() belongs before the first assertion: looking at the history has ended the drill")
        self._under_way.until_handover()
        self._under_way.observe("adapter", "restarting")
        try:
            yield
        except BaseException as error:
            self._under_way.note_restarted(one_line(error))
            self._under_way.note_not_restarted(one_line(error))
            raise
        self._under_way.note_restarted(None)
        self._done.append("restarted")
        if not _is_on_loop():
            self._until_second_works()

    def _until_second_works(self) -> None:
        if not self._under_way.until_second_works():
            self._under_way.note_not_restarted()

    async def _aside(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._under_way.give_up()
            raise

    def _let_go(self) -> None:
        if self._driver is not None and self._handle is not None:
            self._driver.forget(self._handle)
            self._driver.close()

    def _need(self, step: str, what: str, how: str) -> None:
        if step not in self._done:
            raise DrillMisused(f"{what} comes too early: {how} is missing before it")

    def _refuse(self, step: str, what: str, why: str) -> None:
        if step in self._done:
            raise DrillMisused(f"{what} {why}")


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
