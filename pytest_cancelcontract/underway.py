"""One drill that is under way: its steps, each a wait for an event or an observation, and its end in every case.

Both ways of running a drill (with an adapter, and step by step in a test) are made of these steps. Nothing is judged here.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from pytest_cancelcontract.adapters.driver import Answer, Returned
from pytest_cancelcontract.escapes import escaped
from pytest_cancelcontract.outcome_watch import OutcomeWatch
from pytest_cancelcontract.recorder.client import Awaited, OpenDrill, Recorder, RecorderFailed
from pytest_cancelcontract.recorder.plan import Plan
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import Act, Moment, Scenario, Trigger
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.workspace_rules import WorkspaceRules

Progress = Callable[[str, float], None]
"""Told at each wait: what is waited for, and at most how many seconds."""

SLICE_S = 0.25
"""A wait is asked for in pieces of this length, so that it can be given up; what it waits for is still heard at once."""
OVER_SLACK_S = 5.0
"""How far beyond its own last limit the recorder may say that a drill is over."""
TAIL_BYTES = 2048
HIDDEN_FROM = 4
"""A value of fewer letters is no secret, and stands in half of all lines."""


class DrillError(Exception):
    """A drill could not be run to its end; the message says which side is at fault. No clause is judged."""


class DrillSkipped(DrillError):
    """The adapter's start skipped the test; the message is its reason."""


class DrillNotCovered(DrillError):
    """The wrapper lacks what the act takes; the message says what. That is no fault, and nothing is judged."""


class WrapperNotStarted(DrillError):
    """The wrapper could not be started, or ended before its runner worked."""


class RunnerNeverWorked(DrillError):
    """The wrapper runs, but its runner did not come up within ``start``."""


class UnreadableOutcome(DrillError):
    """The adapter's outcome is in words that nobody explained: a fault of the settings, and none of the wrapper."""


class EndedBeforePress(DrillError):
    """The run was over before cancel was pressed, so there was nothing left to cancel."""


class UnderWay:
    """A drill from its opening to its end; a context manager, so that every way out ends what it started.

    ``run`` is the first run, and notes what is spawned for it.
    """

    run: Run

    def __init__(
        self,
        recorder: Recorder,
        scenario: Scenario,
        terms: Terms,
        *,
        wrapper: str,
        capabilities: Sequence[str],
        history: Path,
        attempt: int = 1,
        moment: Moment | None = None,
        rules: WorkspaceRules = WorkspaceRules(),  # noqa: B008 - frozen
        progress: Progress = lambda _stage, _at_most_s: None,
    ) -> None:
        self.terms = terms
        self.history = history
        self.pressed_s: float | None = None
        self.watch: OutcomeWatch | None = None
        self._recorder = recorder
        self._scenario = scenario
        self._progress = progress
        self._given_up = threading.Event()
        self._pressed = threading.Event()
        self._has_ended = False
        self._why = ""
        self._drill: OpenDrill | None = None
        self._capabilities = tuple(capabilities)
        self._plan = _plan(scenario, terms, moment, rules)
        self._limit_s = self._plan.limit_s or terms.deadline_after_press_s
        name = f"{scenario.id}-{secrets.token_hex(4)}"
        self._header = {
            "scenario": scenario.id,
            "run_id": name,
            "task_id": f"task-{name}",
            "wrapper": wrapper,
            "capabilities": list(capabilities),
            "attempt": attempt,
            "act": str(scenario.act),
            **({"moment": str(moment)} if moment else {}),
            **({"may_not_start": True} if self._plan.may_not_start else {}),
            **rules.as_dict(),
        }

    def __enter__(self) -> Self:
        self._drill = self._recorder.open_drill(
            header=self._header, habits=self._scenario.habits, terms=self.terms, history=self.history, plan=self._plan
        )
        self.run = self._drill.run
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.finish(self._why or "over")
            return
        why = "interrupted" if issubclass(kind, KeyboardInterrupt) else f"{kind.__name__}: {error}".partition("\n")[0]
        # The first error is the one to be told of; a recorder that is gone has ended everything by itself.
        with contextlib.suppress(RecorderFailed, DrillError):
            self.finish(why)

    # ------------------------------------------------------------------ what is noted

    def observe(self, witness: str, kind: str, *, at_s: float | None = None, **data: Any) -> None:
        """Add an observation of this side; nothing once the drill has ended."""
        if self._drill is not None and not self._has_ended:
            self._recorder.observe(self._drill, witness, kind, at_s=at_s, **data)

    def note_outcome(self, kind: str, *, at_s: float, **data: Any) -> None:
        """Where an :class:`OutcomeWatch` stores its answers."""
        # From the watch's own thread; the drill's thread finds out by itself that the recorder is gone.
        with contextlib.suppress(RecorderFailed):
            self.observe("outcome", kind, at_s=at_s, **data)

    def note_pressed(self, how: str) -> None:
        """Stamp the press; to be called immediately before it, in the thread that presses."""
        self.pressed_s = time.monotonic()
        try:
            self.observe("adapter", "pressed", at_s=self.pressed_s, trigger=True, how=how)
        finally:
            # Where the recorder is gone, the drill's own thread must go on to find that out.
            self._pressed.set()

    def note_trigger(self, kind: str, *, how: str) -> None:
        """Stamp what is done to the run in place of a press."""
        self.pressed_s = time.monotonic()
        self.observe("adapter", kind, at_s=self.pressed_s, trigger=True, how=how)

    def note_returned(self, returned: Returned) -> None:
        """Note when and how the cancel call has come back."""
        with contextlib.suppress(RecorderFailed):
            told = {"error": returned.error, "clean": returned.is_clean, "acted_at_s": returned.acted_s}
            self.observe("adapter", "cancel-returned", at_s=returned.at_s, **told)

    def note_pressed_again(self, how: str) -> None:
        """Stamp the second press, in the thread that presses."""
        with contextlib.suppress(RecorderFailed):
            self.observe("adapter", "pressed-again", at_s=time.monotonic(), how=how)

    def note_returned_again(self, returned: Returned) -> None:
        """Note when and how the second cancel call has come back."""
        with contextlib.suppress(RecorderFailed):
            self.observe("adapter", "cancel-again-returned", at_s=returned.at_s, error=returned.error, clean=returned.is_clean)

    def note_other_outcome(self, run: str, answer: Answer, *, by: str) -> None:
        """Note what was answered about another run of the drill; a ``wait`` without an answer says that it goes on."""
        told = {"run": run, "asked_at_s": answer.began_s, "by": by}
        if answer.outcome is None and not (by == "wait" and answer.is_overrun):
            self.observe("outcome", "other-error", at_s=answer.ended_s, **told, error=answer.error)
            return
        outcome = "running" if answer.outcome is None else str(answer.outcome)
        self.observe("outcome", "other-answer", at_s=answer.ended_s, **told, outcome=outcome, detail="")

    def note_restarted(self, error: str | None) -> None:
        """Note that the second start has returned, or failed."""
        with contextlib.suppress(RecorderFailed):
            self.observe("adapter", "restarted", error=error)

    # ------------------------------------------------------------------ what is waited for

    def until_working(self) -> None:
        """Wait until every process of the runner works, then store the outcomes that are told from here on.

        Raises:
            WrapperNotStarted: the wrapper ended first.
            RunnerNeverWorked: it did not come up in time, could not prove its habits, or the outcome was terminal first.
            EndedBeforePress: the wrapper's exit is the outcome, and it has exited although the runner works.
        """
        self._progress("waits until the runner works", self.terms.start_s)
        got = self._until_up("working")
        if self._has_exited(got) and "exit" in self._capabilities:
            raise EndedBeforePress(self._exited_text(got))
        if self.watch is not None:
            self.watch.tell()

    def until_held(self, check: Callable[[], None]) -> None:
        """Wait until the leader is at its barrier; ``check`` is called meanwhile, and may raise.

        Raises:
            WrapperNotStarted: the wrapper ended first.
            RunnerNeverWorked: it did not come up in time.
        """
        self._progress("waits until the runner is at its barrier", self.terms.start_s)
        self._until_up("held", check)

    def until_ended(self) -> None:
        """Wait until the run has worked and ended by itself, and then a while for its outcome.

        Raises:
            WrapperNotStarted: the wrapper ended before the runner had worked.
            RunnerNeverWorked: it did not work, or did not end, in time.
        """
        self._progress("waits until the run has ended by itself", self.terms.start_s)
        self._until_up("ended")
        if self.watch is not None:
            self.watch.until_terminal(self.terms.kill_within_s + self.terms.call_s)
        elif "exit" in self._capabilities:
            self._wait("wrapper-exited", self.terms.kill_within_s + self.terms.call_s)

    def until_wedged(self) -> None:
        """Wait until the runner makes no progress any more.

        Raises:
            RunnerNeverWorked: it did not say so in time, or has died.
        """
        got = self.until("wedged-or-exited", self.terms.start_s, "waits until the runner makes no progress any more")
        if not got.state["wedged"]:
            raise RunnerNeverWorked(
                f"the runner was to stop its progress, and did not say that it had.{self._problems(got)}{self.output_tail()}"
            )

    def _until_up(self, wanted: str, check: Callable[[], None] = lambda: None) -> Awaited:
        """Wait until the first run is so far, or it is sure that it never will be."""
        ends_s = time.monotonic() + self.terms.start_s
        event, is_last_slice = f"{wanted}-or-exited", False
        while True:
            got = self._wait_a_slice(event, ends_s)
            if got.state[wanted]:
                return got
            if got.reached and self._has_exited(got):
                if wanted == "ended" and got.state["attempts"]:
                    # The wrapper goes with its run, and which of the two is seen first is down to chance.
                    ends_s = min(ends_s, time.monotonic() + self.terms.kill_within_s)
                elif not self._may_have_left(got):
                    raise WrapperNotStarted(self._exited_text(got))
                event = wanted
            elif got.reached or is_last_slice or time.monotonic() >= ends_s:
                raise RunnerNeverWorked(self._never_worked_text(got))
            check()
            # What ends a run may be reported before its last message is read: one more look, then it never worked.
            is_last_slice = self.watch is not None and self.watch.terminal is not None

    def refuse_early_end(self) -> None:
        """Refuse to go on where the outcome was terminal before the press.

        Raises:
            EndedBeforePress: it was.
        """
        told = self.watch.terminal if self.watch is not None else None
        if told is not None and (self.pressed_s is None or told.ended_s < self.pressed_s):
            raise EndedBeforePress(
                f"the run was over before cancel was pressed: its outcome was {told.outcome!s} already."
                f" The wrapper's side ended it; nothing was left to cancel.{self.output_tail()}"
            )

    def refuse_unreadable_outcome(self) -> None:
        """Refuse to judge where the outcome was told in words that the adapter's settings do not explain.

        Raises:
            UnreadableOutcome: it was, and no readable one came after all.
        """
        if self.watch is not None and self.watch.unreadable:
            raise UnreadableOutcome(f"the outcome cannot be read: {self.watch.unreadable}")

    def until_pressed(self, at_most_s: float) -> bool:
        """Wait until the press was stamped, in whatever thread."""
        return self._pressed.wait(at_most_s)

    def second_run(self) -> Run:
        """A second run of the same task, under an id of its own."""
        if self._drill is None:
            raise DrillError("the drill was never opened")
        return self._recorder.second_run(self._drill, f"{self._drill.run.id}-again")

    def note_line(self) -> None:
        """Have it noted who stands above the runner by now."""
        if self._drill is not None:
            self._recorder.note_line(self._drill)

    @property
    def is_held(self) -> bool:
        """Whether the runner waits at a barrier before it works."""
        return self._plan.hold is not None

    def another_run(self, name: str, habits: Sequence[str]) -> Run:
        """Another run in the same drill, of a task of its own."""
        if self._drill is None:
            raise DrillError("the drill was never opened")
        return self._recorder.another_run(self._drill, name, habits=habits, terms=self.terms)

    def until_other_works(self, name: str) -> bool:
        """Wait until another run has worked; False, and noted why, where it did not come up in time."""
        got = self.until(f"{name}-working-or-exited", self.terms.start_s, f"waits until the other run ({name}) works")
        other = got.state["others"][name]
        if not other["worked"]:
            missing = ", ".join(other["missing_roles"]) or "none"
            ended = "its wrapper ended" if other["exited"] else f"it did not work within {self.terms.start_s:g} s (start)"
            self.observe("adapter", "other-not-up", run=name, why=f"{ended} (still missing: {missing}){self._problems(got)}")
        return bool(other["worked"])

    def until_bystander_wrote(self) -> None:
        """Wait until the bystander is seen to go on, or its time for that is over."""
        self.until("bystander-wrote", self.terms.kill_within_s + OVER_SLACK_S, "waits until the other run is seen to go on")

    def note_bystander_let_go(self) -> None:
        """All that counts of the bystander has been seen: it is looked at for the last time."""
        self.observe("adapter", "other-judged")
        self._wait_a_slice("over", time.monotonic())  # answered behind the look: whoever lets it go now does so after that

    def until(self, event: str, at_most_s: float, stage: str) -> Awaited:
        """Wait for an event of the recorder, at most so long; whether it came is in the answer."""
        self._progress(stage, at_most_s)
        return self._wait(event, at_most_s)

    def pause(self, at_most_s: float) -> None:
        """Wait between two questions, unless the drill is given up."""
        self._given_up.wait(at_most_s)

    def until_handover(self) -> None:
        """Wait until a replacement may run: the outcome was reported, or the deadline has passed."""
        at_most_s = self._left_s(self._limit_s + OVER_SLACK_S)
        self._progress("waits until the handover", at_most_s)
        self._wait("handover", at_most_s)

    def until_second_works(self) -> bool:
        """Wait until the second run has looked for what the first one left; False where it did not come in time."""
        self._progress("waits until the second run works", self.terms.start_s)
        return bool(self._wait("second-working-or-exited", self.terms.start_s).state["second"]["looked"])

    def note_not_restarted(self, error: str | None = None, *, is_overdue: bool = False) -> None:
        """Note why the second run did not come up, as far as its wrapper, or the call that starts it, tells.

        It was ``refused`` where the call raised or the wrapper has ended, and it may have ``said`` why: words that do not name the
        workspace's folder say nothing of it.
        ``is_overdue`` says that the error is the plugin's own: the call did not return in time.
        """
        second = self._wait_a_slice("second-working", time.monotonic()).state["second"]
        ended = f"the wrapper ended with status {second['status']}" if second["exited"] else "no runner said hello"
        has_raised = error is not None and not is_overdue
        # A client that hands its run to a service leaves well, and the run may come yet.
        has_given_up = second["exited"] and (second["status"] != 0 or "exit" in self._capabilities)
        is_refused = has_raised or bool(has_given_up)
        has_said = has_raised or self.run.workspace.name in (self._printed() or "")
        why = error or f"{ended}.{self.output_tail()}"
        self.observe("adapter", "not-restarted", why=why, refused=is_refused, said=has_said)

    def note_second_once_more(self) -> None:
        """Note how the second run stands after all, when another task was tried in between."""
        came = self._wait_a_slice("second-working", time.monotonic()).state["second"]["looked"]
        self.observe("adapter", "second-at-last", came=came)

    def until_over(self) -> None:
        """Wait until everything is quiet, or the last limit has passed; then ask for the outcome once more."""
        terms = self.terms
        settles_for_s = max(terms.settle_s, self._plan.watch_s, terms.retry_s if self._plan.may_not_start else 0.0)
        last_limit_s = self._limit_s + terms.kill_within_s + settles_for_s
        # A second run may have come up long behind the first one's last limit; it is watched for a while as well.
        at_most_s = max(self._left_s(last_limit_s), settles_for_s) + OVER_SLACK_S
        self._progress("waits until everything is over", at_most_s)
        if not self._wait("over", at_most_s).reached:
            self.observe("drill", "problem", what=f"the drill was not over {at_most_s:.3g} s after it was waited for")
        if self.watch is not None:
            self.watch.once_more()

    def give_up(self) -> None:
        """End the waits that are under way in other threads."""
        self._given_up.set()

    # ------------------------------------------------------------------ the end

    @property
    def has_ended(self) -> bool:
        """Whether the history is closed."""
        return self._has_ended

    def finish(self, why: str) -> None:
        """Take the last looks, end what is alive, close the history, remove the folder; safe to call twice.

        Raises:
            RecorderFailed: the recorder is gone; the history ends where it did.
            DrillError: something of the drill is alive, and may not be signalled from here.
        """
        if self._has_ended or self._drill is None:
            return
        if self.watch is not None:
            self.watch.stop()
        self._has_ended = True
        self.give_up()
        left: list[str] = []
        try:
            left = [f"pid {row['subject'].partition(':')[0]}" for row in self._recorder.finish(self._drill, why) if row["left"]]
        finally:
            # Also when the user presses Ctrl-C again while the last looks are taken.
            self._recorder.discard(self._drill)
        if left:
            raise DrillError(f"the drill is over, and what may not be signalled from here is still alive: {', '.join(left)}")

    # ------------------------------------------------------------------ words

    def output_tail(self) -> str:
        """The end of what the wrapper printed, as lines to put below a message; ``""`` where the recorder did not start it."""
        text = self._printed()
        if text is None:
            return ""
        return f"\nThe wrapper's output ends with:\n{text}" if text else "\nThe wrapper printed nothing."

    def _printed(self) -> str | None:
        """The end of what the newest wrapper printed; None where the recorder did not start it."""
        if self._drill is not None and not self._has_ended:
            with contextlib.suppress(RecorderFailed):
                output = self._recorder.wait(self._drill, "working", at_most_s=0.0).state.get("output")
                return read_tail(Path(output)) if output else None
        return None

    def _exited_text(self, got: Awaited) -> str:
        ended_one = self._ended(got)
        status = ended_one["status"] if ended_one else 0
        who = "the wrapper" if ended_one is got.state["wrapper"] else "the process that hosts the adapter"
        ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        missing = ", ".join(got.state["missing_roles"])
        when = f"before the runner worked (still missing: {missing})" if missing else "before cancel was pressed, although its run works"
        # Status 0 is what a client says that has handed its run to somebody else.
        hint = " A command that ends while its run goes on belongs to --cancel-start, or into an adapter." if status == 0 else ""
        is_misplaced = status in {126, 127} or "No such file or directory" in self.output_tail()
        if is_misplaced and "{workspace}" not in self._header["wrapper"]:
            hint = " A command without {workspace} is started in the drill's workspace: write the paths of your own files absolute."
        if "frozen" in self._scenario.habits and got.state["attempts"]:
            hint = " The runner of this scenario stops itself, and some waits come back for that (bash's, without -f) as if it had ended."
        return f"{who} {ended} {when}.{hint}{self._problems(got)}{self.output_tail()}"

    def _never_worked_text(self, got: Awaited) -> str:
        told = self.watch.terminal if self.watch is not None else None
        if told is not None:
            what = f"the outcome was {told.outcome!s} before the runner worked"
        elif got.reached:
            what = "the runner came up but cannot be used"
        else:
            what = f"the runner did not work within {self.terms.start_s:g} s (start, from {self.terms.origin('start')})"
        came = "; no runner said hello at all, so the wrapper may not have started it"
        if got.state["attempts"]:
            came = "" if got.state["alive"] else "; it said hello, and has died since"
        missing = ", ".join(got.state["missing_roles"]) or "none"
        return f"{what} (still missing: {missing}){came}.{self._problems(got)}{self.output_tail()}"

    @staticmethod
    def _problems(got: Awaited) -> str:
        return "".join(f"\n  {problem}" for problem in got.state["problems"])

    # ------------------------------------------------------------------ waiting

    def _wait(self, event: str, at_most_s: float) -> Awaited:
        ends_s = time.monotonic() + at_most_s
        while True:
            got = self._wait_a_slice(event, ends_s)
            if got.reached or time.monotonic() >= ends_s:
                return got

    def _wait_a_slice(self, event: str, ends_s: float) -> Awaited:
        if self._drill is None or self._given_up.is_set():
            raise DrillError(f"the drill has ended; {event!r} is not waited for any more")
        left_s = max(0.0, ends_s - time.monotonic())
        return self._recorder.wait(self._drill, event, at_most_s=min(left_s, SLICE_S))

    def _left_s(self, after_press_s: float) -> float:
        since_s = 0.0 if self.pressed_s is None else time.monotonic() - self.pressed_s
        return max(0.0, after_press_s - since_s)

    @staticmethod
    def _ended(got: Awaited) -> Mapping[str, Any] | None:
        """The wrapper that has exited, or the process that hosts the adapter."""
        return next((one for one in (got.state["wrapper"], got.state["host"]) if one and one["exited"]), None)

    def _has_exited(self, got: Awaited) -> bool:
        return self._ended(got) is not None

    def _may_have_left(self, got: Awaited) -> bool:
        """A client that hands its run to a service and leaves well; not so where its exit is the outcome."""
        wrapper = got.state["wrapper"]
        return bool(wrapper and wrapper["status"] == 0) and "exit" not in self._capabilities


def _plan(scenario: Scenario, terms: Terms, moment: Moment | None, rules: WorkspaceRules) -> Plan:
    """What the scenario's act asks of the recorder."""
    return Plan(
        hold=str(moment) if moment in {Moment.BEFORE_HANDLERS, Moment.BEFORE_WORK} else None,
        watch_s=terms.retry_s if scenario.act is Act.CANCEL_THEN_WATCH else 0.0,
        may_not_start=scenario.act is Act.CANCEL_AT_START,
        limit_s=terms.deadline_after_s(scenario.act.trigger),
        counts_from=str(scenario.act.trigger),
        calls=1 if scenario.act.trigger is Trigger.PRESSED else 0,
        ignore=rules.ignore,
    )


def read_tail(path: Path, hidden: Mapping[str, str] = MappingProxyType({})) -> str:
    """The last 2 kB of a wrapper's output as printable text; it may be any bytes at all, terminal commands included.

    Args:
        hidden: what must not be shown, by the name that is put in its place.
    """
    names = {os.fsencode(value.strip()): os.fsencode(name) for name, value in hidden.items() if len(value.strip()) >= HIDDEN_FROM}
    # The longest first, since one may be the beginning of another; and from before the tail on, which may begin within one.
    known = re.compile(b"|".join(map(re.escape, sorted(names, key=len, reverse=True))) or b"(?!)")
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES - max(map(len, names), default=0)))
            output = file.read()
    except OSError:
        return ""
    pieces, at = [], max(0, len(output) - TAIL_BYTES)
    for found in known.finditer(output):
        if found.end() > at:
            pieces += [output[at : found.start()], b"(the value of %s)" % names[found[0]]]
            at = found.end()
    text = b"".join([*pieces, output[at:]]).decode("utf-8", "backslashreplace")
    return escaped(text, keep="\n\t").strip("\n")
