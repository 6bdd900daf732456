"""Run a drill: start the wrapper on an uncooperative runner, press cancel, watch, and leave a history behind.

Acts and observes; judges nothing (:mod:`pytest_cancelcontract.contract` does, from the history alone).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_cancelcontract.adapters.driver import Answer, Call, Driver, Question, one_line
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.finding import Check
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.outcome_watch import OutcomeWatch
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import Act, Scenario, by_id
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.underway import (
    OVER_SLACK_S,
    DrillError,
    DrillSkipped,
    EndedBeforePress,
    Progress,
    RunnerNeverWorked,
    UnderWay,
    WrapperNotStarted,
)

__all__ = ["Drill", "DrillError", "DrillMisused", "DrillSkipped", "EndedBeforePress", "RunnerNeverWorked", "WrapperNotStarted", "run_drill"]

FOREVER_S = 7 * 24 * 3600.0
"""The limit of a call that is ended by the end of its drill."""
ASK_AGAIN_WITHIN_S = 5.0
"""How long the last question for the outcome may take; everything is over by then."""


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
        progress=progress,
    )
    with contextlib.ExitStack() as handles, under_way:
        first = _start(under_way, driver, under_way.run, progress)
        handles.callback(driver.forget, first)
        under_way.watch = _watch(under_way, driver, first)
        under_way.until_working()
        if under_way.watch is not None:
            under_way.watch.until_first(terms.call_s)
        under_way.refuse_early_end()
        call = _press(under_way, driver, first)
        if scenario.act is Act.CANCEL_THEN_RESTART:
            second = _restart(under_way, driver)
            if second is not None:
                handles.callback(driver.forget, second)
        under_way.until_over()
        under_way.refuse_early_end()
        under_way.refuse_unreadable_outcome()
        pressed = call.answer(0.0)
        if pressed.is_misconfigured:
            raise DrillError(f"cancel could not be pressed: {pressed.error}")
    return history


def _start(under_way: UnderWay, driver: Driver, run: Run, progress: Progress) -> int:
    call_s = under_way.terms.call_s
    progress("waits until the wrapper is started", call_s)
    under_way.observe("adapter", "starting")
    began_s = time.monotonic()
    answer = driver.ask(Question("start", run=run), within_s=call_s)
    if answer.handle is None:
        hint = "; start must return while the run goes on" if answer.is_overrun else ""
        trace = f"\n{answer.trace.rstrip()}" if answer.trace and not answer.is_own_error else ""
        if answer.skip:
            raise DrillSkipped(answer.skip)
        raise WrapperNotStarted(f"the wrapper was not started: {answer.error}{hint}.{under_way.output_tail()}{trace}")
    under_way.observe("adapter", "started", took_s=round(time.monotonic() - began_s, 6))
    return answer.handle


def _watch(under_way: UnderWay, driver: Driver, handle: int) -> OutcomeWatch | None:
    """Begin to ask for the outcome, by the best way that the adapter has; None where the recorder sees it, or nobody does."""
    can = driver.capabilities()
    call_s = under_way.terms.call_s
    ask_outcome = functools.partial(driver.ask, Question("outcome", handle), within_s=call_s)
    last = "outcome" if "outcome" in can else "wait"
    ask_again = functools.partial(driver.ask, Question(last, handle), within_s=min(call_s, ASK_AGAIN_WITHIN_S))  # type: ignore[arg-type]
    if "wait" in can:
        ask_wait = functools.partial(driver.ask, Question("wait", handle), within_s=FOREVER_S)
        watch = OutcomeWatch(ask_wait, under_way.note_outcome, by="wait", ask_again=ask_again)
    elif "outcome" in can:
        watch = OutcomeWatch(ask_outcome, under_way.note_outcome, by="outcome", ask_again=ask_again)
    else:
        return None
    watch.start()
    return watch


def _press(under_way: UnderWay, driver: Driver, handle: int) -> Call:
    """Press cancel in a thread of its own, and return once it is pressed; the call may hang, and the drill goes on."""
    terms = under_way.terms
    limit_s = terms.deadline_after_press_s + terms.kill_within_s + terms.settle_s + terms.call_s + OVER_SLACK_S
    call = driver.begin(
        Question("cancel", handle),
        within_s=limit_s,
        before=functools.partial(under_way.note_pressed, driver.how),
        after=under_way.note_returned,
    )
    if not under_way.until_pressed(terms.call_s):
        error = call.answer(0.0).error
        raise DrillError(f"cancel could not be called within {terms.call_s:g} s (call): the adapter's event loop is blocked ({error})")
    return call


def _restart(under_way: UnderWay, driver: Driver) -> int | None:
    """Start the same task again at the handover; what comes of it is noted and judged, a refusal included."""
    under_way.until_handover()
    second = under_way.second_run()
    under_way.observe("adapter", "restarting")
    answer = driver.ask(Question("start", run=second), within_s=under_way.terms.call_s)
    under_way.note_restarted(answer.error)
    if answer.error is None and not under_way.until_second_works():
        under_way.note_not_restarted()
    return answer.handle


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
    ) -> None:
        row = by_id(scenario) if isinstance(scenario, str) else scenario
        # The test may start the task again in any scenario, and what it finds then must have been planted before.
        self.scenario = replace(row, habits=(*row.habits, *(() if "poison" in row.habits else ("poison",))))
        self.terms = terms
        self.rerun = rerun
        self._under_way = UnderWay(recorder, self.scenario, terms, wrapper=wrapper, capabilities=(), history=history, progress=progress)
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
            self._under_way.until_second_works()
            return
        self._refuse("working", "until_working()", "was called already")
        self._under_way.observe("adapter", "started", took_s=None)
        self._under_way.until_working()
        self._done.append("working")

    async def until_working_async(self) -> None:
        """The same, for a test on an event loop, which stays free meanwhile."""
        await self._aside(self.until_working)

    @contextlib.contextmanager
    def pressing(self) -> Iterator[None]:
        """Put around the call that cancels: the press is stamped on the way in, its return (or error) on the way out.

        Raises:
            DrillMisused: the runner was not seen to work, or cancel was pressed already.
            EndedBeforePress: the outcome was terminal already.
        """
        self._need("working", "pressing()", "until_working()")
        self._refuse("pressed", "pressing()", "was entered already; a drill has one press")
        if self._under_way.watch is not None:
            self._under_way.watch.until_first(self.terms.call_s)
        self._under_way.refuse_early_end()
        self._done.append("pressed")
        self._under_way.note_pressed("the test")
        try:
            yield
        except BaseException as error:
            self._under_way.note_returned(one_line(error))
            raise
        else:
            self._under_way.note_returned(None)
        finally:
            self._done.append("returned")

    def until_over(self) -> None:
        """Wait until everything of the run is quiet, or the last limit has passed.

        Raises:
            DrillMisused: nothing was pressed, or the ``pressing()`` block has not ended.
        """
        self._need("returned", "until_over()", "with pressing():")
        self._under_way.until_over()
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
            raise
        self._under_way.note_restarted(None)
        self._done.append("restarted")
        if not _is_on_loop():
            self._under_way.until_second_works()

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
