"""What is done to a run in a drill: one function an act, made of the steps of a stage. A scenario's act is changed here, and nowhere else.

Acts and notes; judges nothing.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pytest_cancelcontract.adapters.driver import Answer, Call, Driver, Question, Returned
from pytest_cancelcontract.outcome_watch import ASK_EVERY_S, OutcomeWatch
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import Act, Scenario, Trigger
from pytest_cancelcontract.underway import OVER_SLACK_S, DrillError, DrillNotCovered, DrillSkipped, Progress, UnderWay, WrapperNotStarted

FOREVER_S = 7 * 24 * 3600.0
"""The limit of a call that is ended by the end of its drill."""
ASK_AGAIN_WITHIN_S = 5.0
"""How long the last question for the outcome may take; everything is over by then."""
REFUSES_FOR_S = 0.5
"""How long an engine that is lost still refuses, before it does not answer at all."""
SHOWS_WITHIN_S = 0.5
"""How long a killed or stopped process has until it is looked whether it is; a signal is sent sooner than it is obeyed."""
HELD_START_S = 2.0
"""How long a start may take while its runner is held; one that waits for the runner's work would wait for ever."""
ENDS_ITSELF = ("ends-itself",)
"""What a run does that only has to come up."""
NOT_YET_S = 0.25
"""A ``wait`` for the outcome of a run that goes on is given up after so long."""
HEARTBEATS_WATCHED_FOR = 2
HEARTBEATS_WATCHED_AT_MOST_S = 3.0
"""So many times ``heartbeat_timeout`` after the end a timer that nobody has ended has shown itself; no drill waits longer for one."""


class Stage:
    """One drill with an adapter, and the steps that acts are made of."""

    def __init__(self, under_way: UnderWay, driver: Driver, scenario: Scenario, handles: contextlib.ExitStack, progress: Progress) -> None:
        self.under_way = under_way
        self.terms = under_way.terms
        self._driver = driver
        self._scenario = scenario
        self._handles = handles
        self._progress = progress
        self._first = -1
        self._others: dict[str, int | None] = {}
        self._presses: list[Call] = []
        self._over_s = 0.0

    # ------------------------------------------------------------------ the run

    def start(self) -> None:
        """Start the first run, and begin to ask for its outcome."""
        self._started(self._begin_start(self.under_way.run).answer())

    def start_held(self) -> None:
        """The same with a runner that is held at its barrier; comes back when it is there."""
        call = self._begin_start(self.under_way.run)
        self.under_way.until_held(lambda: self._refuse_failed_start(call))
        answer = call.answer(HELD_START_S)
        if answer.is_overrun and not call.is_answered:
            self.under_way.observe("adapter", "start-overdue")
            answer = call.answer()
        self._started(answer)

    def until_working(self) -> None:
        """Wait until all of the run works, and nothing has ended it."""
        self.under_way.until_working()
        self._until_asked()
        self.under_way.refuse_early_end()
        self.under_way.refuse_unreadable_outcome()

    def press(self, *, before_work: bool = False) -> None:
        """Press cancel in a thread of its own, and return once it is pressed; the call may hang, and the drill goes on.

        ``before_work`` where the run was not waited for, so that the outcome is told from here on.
        """
        if before_work and self.under_way.watch is not None:
            self.under_way.watch.tell()
        self._press(self.under_way.note_pressed, self.under_way.note_returned)
        if not self.under_way.until_pressed(self.terms.call_s):
            error = self._presses[0].answer(0.0).error
            raise DrillError(
                f"cancel could not be called within {self.terms.call_s:g} s (call): the adapter's event loop is blocked ({error})"
            )

    def press_again(self) -> None:
        """Press cancel a second time, as soon as the run has notice, or its time to have it is over."""
        self.under_way.until("delivered", self.terms.delivery_s, "waits until the cancel arrives")
        self._press(self.under_way.note_pressed_again, self.under_way.note_returned_again)

    def until_over(self) -> None:
        """Wait until everything of the run is quiet."""
        self.under_way.until_over()
        self._over_s = time.monotonic()

    def restart(self) -> None:
        """Start the same task again at the handover; what comes of it is noted and judged, a refusal included."""
        self.under_way.until_handover()
        second = self.under_way.second_run()
        self.under_way.observe("adapter", "restarting")
        answer = self._begin_start(second, tell=False).answer()
        self._forget_later(answer)
        self.under_way.note_restarted(answer.error)
        if answer.error is not None or not self.under_way.until_second_works():
            self.under_way.note_not_restarted(answer.error, is_overdue=answer.is_overrun)
            self._start_another_task()

    def _start_another_task(self) -> None:
        """See whether a task that nobody has killed comes up, where the killed one does not: then it is the killed one's leavings."""
        self._progress("starts another task, since the same one did not come up again", self.terms.start_s)
        if self.start_other("control", ENDS_ITSELF):
            self.under_way.until("control-gone", self.terms.start_s, "waits until the other task has ended")
        self.under_way.note_second_once_more()

    def until_ended(self) -> None:
        """Wait until the run has ended by itself and its outcome is known, where the adapter can tell one."""
        if self.under_way.watch is not None:
            self.under_way.watch.tell()
        self.under_way.until_ended()

    # ------------------------------------------------------------------ what nobody presses

    def disrupt(self, how: Literal["kill", "freeze"]) -> None:
        """Kill or stop the wrapper itself; what was stopped is let go on when the drill ends.

        Raises:
            DrillNotCovered: nothing tells which process it is, or nothing stands above it.
        """
        if how == "freeze":
            self._handles.callback(self._recover)
        done = "killed" if how == "kill" else "stopped"
        note = functools.partial(self.under_way.note_trigger, "disrupted", how=f"the wrapper is {done}")
        self.under_way.note_line()
        answer = self._driver.begin(Question("disrupt", self._first, how=how), within_s=self.terms.call_s, before=note).answer()
        self._refuse(answer, "the wrapper could not be disrupted")
        self.under_way.pause(SHOWS_WITHIN_S)
        self.under_way.note_line()

    def leave_alone(self) -> None:
        """Do nothing from here on."""
        self.under_way.note_trigger("left-alone", how="nothing")

    def until_stuck(self) -> None:
        """Wait until the runner makes no progress any more."""
        self.under_way.until_wedged()

    def lose_engine(self) -> None:
        """Let the engine refuse, and a moment later not answer at all; it comes back when the drill ends."""
        self._handles.callback(self._engine, "up")
        note = functools.partial(self.under_way.note_trigger, "engine-lost", how="the engine refuses, then does not answer")
        answer = self._driver.begin(Question("engine", self._first, how="refuse"), within_s=self.terms.call_s, before=note).answer()
        self._refuse(answer, "the engine could not be made to refuse")
        # A run that is ended by the first refusal may be gone by now, and one that waits had its last answer somewhere in the call.
        self.under_way.observe("adapter", "engine-refuses", at_s=answer.ended_s)
        self.under_way.pause(REFUSES_FOR_S)
        self._refuse(self._engine("silent"), "the engine could not be made silent")

    def note_heartbeats(self) -> None:
        """Note when the engine had heartbeats, where the adapter knows and a limit is given; after a press, late ones too."""
        timeout_s = self.terms.heartbeat_timeout_s
        if timeout_s is None or "heartbeats" not in self._driver.capabilities() or self._first < 0:
            return
        self._let_heartbeats_come(min(HEARTBEATS_WATCHED_FOR * timeout_s, HEARTBEATS_WATCHED_AT_MOST_S))
        answer = self._driver.ask(Question("heartbeats", self._first), within_s=self.terms.call_s)
        self.under_way.observe("engine", "heartbeats", at_s=answer.ended_s, moments=list(answer.moments), error=answer.error)

    def _let_heartbeats_come(self, within_s: float) -> None:
        """Wait until so long after the run was gone; not where it is not, nor where its heartbeats are not judged."""
        act, stage = self._scenario.act, "waits for heartbeats that should not come"
        left_s = self._over_s - self.terms.settle_s + within_s - time.monotonic()
        if left_s <= 0.0 or act.trigger is not Trigger.PRESSED or act is Act.CANCEL_AT_START:
            return
        if not self.under_way.until("over", 0.0, stage).state["alive"]:
            self._progress(stage, left_s)
            self.under_way.pause(left_s)

    def _recover(self) -> None:
        if "recover" in self._driver.capabilities():
            self._driver.ask(Question("recover", self._first), within_s=self.terms.call_s)

    def _engine(self, state: Literal["refuse", "silent", "up"]) -> Answer:
        return self._driver.ask(Question("engine", self._first, how=state), within_s=self.terms.call_s)

    @staticmethod
    def _refuse(answer: Answer, what: str) -> None:
        if answer.lacks:
            raise DrillNotCovered(answer.lacks)
        if answer.error is not None:
            raise DrillError(f"{what}: {answer.error}")

    def refuse_misconfigured_press(self) -> None:
        """Refuse to judge where the press itself was never made, by a fault of the adapter's settings."""
        for call in self._presses:
            pressed = call.answer(0.0)
            if pressed.is_misconfigured:
                raise DrillError(f"cancel could not be pressed: {pressed.error}")

    # ------------------------------------------------------------------ another run

    def start_other(self, name: str, habits: Sequence[str] | None = None) -> bool:
        """Start another run, of a task of its own, and wait until it works; whether it came up is noted, and judged.

        ``habits`` are its runner's; by default those that the scenario gives to its other one.
        """
        other = self.under_way.another_run(name, self._scenario.other_habits if habits is None else habits)
        self.under_way.observe("adapter", "other-starting", run=name)
        answer = self._begin_start(other, tell=False).answer()
        self._forget_later(answer)
        self.under_way.observe("adapter", "other-started", run=name, error=answer.error)
        self._others[name] = answer.handle
        return answer.error is None and self.under_way.until_other_works(name)

    def ask_other(self, name: str, *, until_terminal: bool) -> None:
        """Ask for the outcome of another run: once, or until it is terminal or the time for that is over."""
        within_s = self.terms.kill_within_s + self.terms.call_s if until_terminal else NOT_YET_S
        ends_s = time.monotonic() + within_s
        can, handle = self._driver.capabilities(), self._others[name]
        method: Literal["wait", "outcome"] = "outcome" if "outcome" in can else "wait"
        if handle is None or method not in can:
            if until_terminal and "exit" in can:
                self.under_way.until(f"{name}-exited", within_s, "waits for the other wrapper's exit")
            return
        # A ``wait`` blocks while the run goes on; any other question is answered, on a busy machine late.
        each_s = self.terms.call_s if method == "outcome" else within_s
        while True:
            answer = self._driver.ask(Question(method, handle), within_s=each_s)
            self.under_way.note_other_outcome(name, answer, by=method)
            is_known = answer.outcome is not None and answer.outcome.is_terminal
            if is_known or not until_terminal or time.monotonic() > ends_s:
                return
            self.under_way.pause(ASK_EVERY_S)

    def let_other_go(self, name: str) -> None:
        """Cancel another run when all has been seen: a queue shall not keep a job that the drill's end takes away."""
        handle, terms = self._others[name], self.terms
        if handle is not None:
            self._driver.ask(Question("cancel", handle), within_s=min(terms.call_s, terms.grace_s + terms.kill_within_s))

    # ------------------------------------------------------------------ inside

    def _begin_start(self, run: Run, *, tell: bool = True) -> Call:
        if tell:
            self._progress("waits until the wrapper is started", self.terms.call_s)
            self.under_way.observe("adapter", "starting")
        return self._driver.begin(Question("start", run=run), within_s=self.terms.call_s)

    def _started(self, answer: Answer) -> None:
        if answer.handle is None:
            raise self._not_started(answer)
        self._first = answer.handle
        self._forget_later(answer)
        self.under_way.observe("adapter", "started", took_s=round(answer.ended_s - answer.began_s, 6))
        self.under_way.watch = self._watch(answer.handle)

    def _refuse_failed_start(self, call: Call) -> None:
        if call.is_answered and (answer := call.answer(0.0)).handle is None:
            raise self._not_started(answer)

    def _not_started(self, answer: Answer) -> DrillError:
        if answer.skip:
            return DrillSkipped(answer.skip)
        hint = "; start must return while the run goes on" if answer.is_overrun else ""
        trace = f"\n{answer.trace.rstrip()}" if answer.trace and not answer.is_own_error else ""
        return WrapperNotStarted(f"the wrapper was not started: {answer.error}{hint}.{self.under_way.output_tail()}{trace}")

    def _forget_later(self, answer: Answer) -> None:
        if answer.handle is not None:
            self._handles.callback(self._driver.forget, answer.handle)

    def _watch(self, handle: int) -> OutcomeWatch | None:
        """Begin to ask for the outcome, by the best way that the adapter has; None where the recorder sees it, or nobody does."""
        can, call_s = self._driver.capabilities(), self.terms.call_s
        ask_outcome = functools.partial(self._driver.ask, Question("outcome", handle), within_s=call_s)
        last: Literal["wait", "outcome"] = "outcome" if "outcome" in can else "wait"
        ask_again = functools.partial(self._driver.ask, Question(last, handle), within_s=min(call_s, ASK_AGAIN_WITHIN_S))
        if "wait" in can:
            ask_wait = functools.partial(self._driver.ask, Question("wait", handle), within_s=FOREVER_S)
            watch = OutcomeWatch(ask_wait, self.under_way.note_outcome, by="wait", ask_again=ask_again)
        elif "outcome" in can:
            watch = OutcomeWatch(ask_outcome, self.under_way.note_outcome, by="outcome", ask_again=ask_again)
        else:
            return None
        watch.start()
        return watch

    def _until_asked(self) -> None:
        if self.under_way.watch is not None:
            self.under_way.watch.until_first(self.terms.call_s)

    def _press(self, note: Callable[[str], None], returned: Callable[[Returned], None]) -> None:
        terms = self.terms
        limit_s = terms.deadline_after_press_s + terms.kill_within_s + terms.settle_s + terms.call_s + OVER_SLACK_S
        before = functools.partial(note, self._driver.how)
        self._presses.append(self._driver.begin(Question("cancel", self._first), within_s=limit_s, before=before, after=returned))


# ---------------------------------------------------------------------- the acts


def _cancel(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.press()
    stage.until_over()


def _cancel_then_restart(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.press()
    stage.restart()
    stage.until_over()


def _cancel_twice(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.press()
    stage.press_again()
    stage.until_over()


def _cancel_at_start(stage: Stage) -> None:
    if stage.under_way.is_held:
        stage.start_held()
    else:
        stage.start()
    stage.press(before_work=True)
    stage.until_over()


def _cancel_after_end(stage: Stage) -> None:
    stage.start()
    stage.until_ended()
    stage.press()
    stage.until_over()


def _cancel_one_of_two(stage: Stage) -> None:
    stage.start()
    has_bystander = stage.start_other("bystander")
    stage.until_working()
    stage.press()
    stage.until_over()
    if has_bystander:
        stage.under_way.until_bystander_wrote()
    stage.ask_other("bystander", until_terminal=False)
    stage.under_way.note_bystander_let_go()
    stage.let_other_go("bystander")


def _cancel_then_next_task(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.press()
    stage.until_over()
    if stage.start_other("next"):
        stage.under_way.until("next-gone", stage.terms.start_s, "waits until the next task has ended")
        stage.ask_other("next", until_terminal=True)


def _kill_wrapper(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.disrupt("kill")
    stage.until_over()


def _freeze_wrapper(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.disrupt("freeze")
    stage.until_over()


def _leave_alone(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.leave_alone()
    stage.until_over()


def _leave_alone_then_restart(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.leave_alone()
    stage.restart()
    stage.until_over()


def _await_stall(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.until_stuck()
    stage.leave_alone()
    stage.until_over()


def _lose_engine(stage: Stage) -> None:
    stage.start()
    stage.until_working()
    stage.lose_engine()
    stage.until_over()


ACTS: Mapping[Act, Callable[[Stage], None]] = {
    Act.CANCEL: _cancel,
    Act.CANCEL_THEN_RESTART: _cancel_then_restart,
    Act.CANCEL_TWICE: _cancel_twice,
    Act.CANCEL_AT_START: _cancel_at_start,
    Act.CANCEL_AFTER_END: _cancel_after_end,
    Act.CANCEL_ONE_OF_TWO: _cancel_one_of_two,
    Act.CANCEL_THEN_NEXT_TASK: _cancel_then_next_task,
    Act.KILL_WRAPPER: _kill_wrapper,
    Act.FREEZE_WRAPPER: _freeze_wrapper,
    Act.LEAVE_ALONE: _leave_alone,
    Act.LEAVE_ALONE_THEN_RESTART: _leave_alone_then_restart,
    Act.AWAIT_STALL: _await_stall,
    Act.LOSE_ENGINE: _lose_engine,
    Act.CANCEL_THEN_WATCH: _cancel,  # how long is watched is in the recorder's plan of the drill
}
"""How each act is done."""
