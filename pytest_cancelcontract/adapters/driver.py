"""Drive an adapter by plain questions and answers, each with a deadline that is kept outside the call.

A wrapper under test may block for ever, hold its thread, or raise anything at all; none of it may stop the drill. Handles
stay on this side and are named by numbers, so that questions and answers can be carried to another process
(:mod:`pytest_cancelcontract.adapters.hosting` does).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeGuard

from pytest_cancelcontract.adapters.helpers import CannotStart
from pytest_cancelcontract.adapters.protocol import (
    ACTED,
    CALL_ENDS_AT,
    Adapter,
    BadOutcome,
    HasCapabilities,
    HasClose,
    HasDisrupt,
    HasEngine,
    HasHeartbeats,
    HasOutcome,
    HasRecover,
    HasWait,
    Outcome,
    read_outcome,
)
from pytest_cancelcontract.run import Lacking, Run

Method = Literal["start", "cancel", "wait", "outcome", "disrupt", "recover", "engine", "heartbeats", "close"]
How = Literal["kill", "freeze", "refuse", "silent", "up"]

OPTIONAL: tuple[tuple[str, type], ...] = (
    ("wait", HasWait),
    ("outcome", HasOutcome),
    ("disrupt", HasDisrupt),
    ("recover", HasRecover),
    ("engine", HasEngine),
    ("heartbeats", HasHeartbeats),
)
_LOOP_ENDS_WITHIN_S = 2.0
"""How long the tasks of a closed loop get to end; a coroutine that swallows its cancellation is abandoned then."""
_CLOCKS_DIFFER_BY_S = 1.0
"""How far ahead a moment may be that an adapter had from an engine's clock and turned into one of ours."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call into the adapter.

    ``run`` is for ``start``, ``handle`` for all that is about a started run, ``how`` for ``disrupt`` and ``engine``.
    """

    method: Method
    handle: int | None = None
    run: Run | None = None
    how: How | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question.

    ``began_s`` and ``ended_s`` are on the monotonic clock, taken right around the call. ``error`` is one line (None: it went
    well) and ``trace`` its traceback; ``is_overrun`` says that there was no answer in time,
    ``is_own_error`` that the error is this package's and its line says all, ``is_misconfigured`` that the adapter's settings are
    at fault (an outcome in words that nobody can read, a command that does not exist), ``skip`` why the adapter skips the test, and
    ``lacks`` what the wrapper lacks for what was asked. ``moments`` are those of heartbeats, in seconds of the monotonic clock.
    """

    began_s: float
    ended_s: float
    handle: int | None = None
    outcome: Outcome | None = None
    moments: tuple[float, ...] = ()
    error: str | None = None
    trace: str = ""
    lacks: str = ""
    is_overrun: bool = False
    is_own_error: bool = False
    is_misconfigured: bool = False
    skip: str = ""


@dataclass(frozen=True, slots=True)
class Returned:
    """How and when a call into the adapter came back.

    ``is_clean`` where it went well, or raised an ordinary ``Exception``: what is made to end a process or a task (``SystemExit``,
    ``KeyboardInterrupt``, a cancellation) is no answer to whoever pressed cancel. ``acted_s`` is when it began to act: when it was
    called, or when an adapter of this package had done its own part; None where it was never called.
    """

    at_s: float
    error: str | None = None
    is_clean: bool = True
    acted_s: float | None = None

    @classmethod
    def now(cls, error: BaseException | None = None, *, acted_s: float | None = None) -> Self:
        """It has come back at this moment, with this error or none."""
        at_s = time.monotonic()
        if error is None:
            return cls(at_s, acted_s=acted_s)
        is_clean = isinstance(error, Exception) and not isinstance(error, CancelledError)
        return cls(at_s, one_line(error), is_clean, acted_s)


class Call:
    """A question under way; its answer can be awaited, or given up."""

    def __init__(self, question: Question, within_s: float) -> None:
        self.question = question
        self.within_s = within_s
        self.asked_s = time.monotonic()
        self._answer: Future[Answer] = Future()
        self._given_up = threading.Event()
        self._on_give_up: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def answer(self, at_most_s: float | None = None) -> Answer:
        """Wait for the answer, at most until the call's own deadline or for ``at_most_s``; an overrun is an answer too."""
        left = self.asked_s + self.within_s - time.monotonic()
        try:
            return self._answer.result(timeout=max(0.0, left if at_most_s is None else min(left, at_most_s)))
        except TimeoutError:
            waited = time.monotonic() - self.asked_s
            error = f"{self.question.method} did not return within {waited:.3g} s"
            return Answer(self.asked_s, time.monotonic(), error=error, is_overrun=True)

    @property
    def is_answered(self) -> bool:
        """Whether the call has returned."""
        return self._answer.done()

    def when_answered(self, act: Callable[[Answer], object]) -> None:
        """Have the answer told, in the thread that brings it; at once where it is there."""
        self._answer.add_done_callback(lambda answered: act(answered.result()))

    def give_up(self) -> None:
        """Nobody waits for it any more: a coroutine is cancelled, a thread is left to itself (it is a daemon)."""
        with self._lock:
            self._given_up.set()
            act = self._on_give_up
        if act is not None and not self.is_answered:
            act()
        # Whoever still waits (a thread that asked for ``wait``, say) is let go.
        self.resolve(Answer(self.asked_s, time.monotonic(), error=f"{self.question.method} was given up", is_overrun=True))

    def cancel_by(self, act: Callable[[], object]) -> None:
        """What giving it up does; for whoever makes the call."""
        with self._lock:
            self._on_give_up = act
            is_late = self._given_up.is_set()
        if is_late:
            act()

    def resolve(self, answer: Answer) -> None:
        """Bring the answer; for whoever makes the call."""
        # The call may return at the very moment at which it is given up; the first word counts.
        with contextlib.suppress(InvalidStateError):
            self._answer.set_result(answer)


def nothing(*_given: object) -> None:
    """What is done right around a call where nothing is asked for."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the drill does right around a call, in the thread that makes it."""

    before: Callable[[], object] = nothing
    after: Callable[[Returned], object] = nothing


class Driver:
    """One adapter, with a thread for each synchronous call and one loop for all of its coroutines.

    Raises:
        TypeError: the object has no ``start`` or no ``cancel``, or is a class instead of an instance.
    """

    def __init__(self, adapter: Adapter) -> None:
        refuse_non_adapter(adapter)
        self._set_up(adapter)

    def _set_up(self, adapter: Any) -> None:
        self._adapter = adapter
        self._handles: dict[int, Any] = {}
        self._calls: dict[int, list[Call]] = {}
        self._next_handle = 1
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """A short name of what is driven, for reports."""
        own = getattr(self._adapter, "name", None)
        return own if isinstance(own, str) and own else class_of(self._adapter).__name__

    @property
    def how(self) -> str:
        """How the adapter presses cancel, in a few words."""
        own = getattr(self._adapter, "how", None)
        return own if isinstance(own, str) and own else f"{class_of(self._adapter).__name__}.cancel(handle)"

    def capabilities(self) -> tuple[str, ...]:
        """Which optional parts of the contract the adapter opens, as a history's header lists them."""
        if isinstance(self._adapter, HasCapabilities):
            return tuple(self._adapter.capabilities)
        own = tuple(name for name, protocol in OPTIONAL if isinstance(self._adapter, protocol))
        # Who can tell the wrapper from its platform has one, and each run says what the limits are.
        return (*own, *(("limit",) if "disrupt" in own else ()), "stall")

    def ask(self, question: Question, *, within_s: float) -> Answer:
        """Ask and wait, at most ``within_s``; a call that overruns is given up."""
        call = self.begin(question, within_s=within_s)
        answer = call.answer()
        if answer.is_overrun:
            call.give_up()
        return answer

    def begin(
        self,
        question: Question,
        *,
        within_s: float,
        before: Callable[[], object] | None = None,
        after: Callable[[Returned], object] | None = None,
    ) -> Call:
        """Ask without waiting.

        ``before`` runs in the thread that makes the call, immediately before it, and ``after`` (with how it came back) right
        behind it. Neither may block.
        """
        call = Call(question, within_s)
        if question.handle is not None:
            with self._lock:
                calls = self._calls.setdefault(question.handle, [])
                # An outcome is asked for fifty times a second: what has been answered is let go.
                calls[:] = [one for one in calls if not one.is_answered]
                calls.append(call)
        self._make(call, Hooks(before or nothing, after or nothing))
        return call

    def forget(self, handle: int) -> None:
        """Let go of a run: calls about it that are under way are given up."""
        with self._lock:
            calls = self._calls.pop(handle, [])
            self._handles.pop(handle, None)
        for call in calls:
            call.give_up()

    def close(self, *, within_s: float = 30.0) -> Answer | None:
        """Close the adapter, if it can be closed, and end its loop; safe to call twice."""
        if self._closed:
            return None
        self._closed = True
        answer = self.ask(Question("close"), within_s=within_s) if isinstance(self._adapter, HasClose) else None
        loop, thread = self._loop, self._loop_thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=_LOOP_ENDS_WITHIN_S + 1.0)
        return answer

    # ------------------------------------------------------------------ inside a call

    def _make(self, call: Call, hooks: Hooks) -> None:
        """Make the call, and come back without waiting for it."""
        method = getattr(self._adapter, call.question.method)
        if inspect.iscoroutinefunction(method):
            self._on_loop(call, self._run_async(call, method, hooks))
        else:
            name = f"cancelcontract-{call.question.method}"
            threading.Thread(target=self._run_sync, args=(call, method, hooks), name=name, daemon=True).start()

    def _arguments(self, question: Question) -> tuple[Any, ...]:
        if question.method == "start":
            return (question.run,)
        if question.method == "close":
            return ()
        with self._lock:
            if question.handle not in self._handles:
                raise LookupError(f"no run is known by the handle {question.handle!r}")
            handle = self._handles[question.handle]
        return (handle, question.how) if question.method in {"disrupt", "engine"} else (handle,)

    def _run_sync(self, call: Call, method: Callable[..., Any], hooks: Hooks) -> None:
        CALL_ENDS_AT.set(call.asked_s + call.within_s)
        acts: list[float] = []
        ACTED.set(acts)
        began = call.asked_s
        try:
            arguments = self._arguments(call.question)
            hooks.before()
            began = time.monotonic()
            value = method(*arguments)
            if _is_awaitable(value):
                value = self._await_elsewhere(call, value)
        except BaseException as error:  # the adapter may raise anything, SystemExit and pytest.fail included
            self._failed(call, began, error, hooks, acts)
        else:
            self._returned(call, began, value, hooks, acts)

    async def _run_async(self, call: Call, method: Callable[..., Awaitable[Any]], hooks: Hooks) -> None:
        CALL_ENDS_AT.set(call.asked_s + call.within_s)
        acts: list[float] = []
        ACTED.set(acts)
        began = call.asked_s
        try:
            arguments = self._arguments(call.question)
            hooks.before()
            began = time.monotonic()
            value = await method(*arguments)
        except BaseException as error:  # as above; a KeyboardInterrupt that left a task would end the loop
            self._failed(call, began, error, hooks, acts)
        else:
            self._returned(call, began, value, hooks, acts)

    def _returned(self, call: Call, began: float, value: Any, hooks: Hooks, acts: list[float]) -> None:
        returned = Returned.now(acted_s=self._acted_s(call, acts, began))
        hooks.after(returned)
        ended, handle, outcome = returned.at_s, None, None
        moments: tuple[float, ...] = ()
        if call.question.method == "start":
            handle = self._keep(value)
        elif call.question.method in {"wait", "outcome"}:
            try:
                outcome = read_outcome(value, call.question.method)
                if call.question.method == "wait" and not outcome.is_terminal:
                    raise ValueError(f"wait must block until the outcome is cancelled, failed or succeeded, got {value!r}")
            except ValueError as error:
                call.resolve(Answer(began, ended, error=str(error), is_misconfigured=isinstance(error, BadOutcome)))
                return
        elif call.question.method == "heartbeats":
            try:
                moments = _read_moments(value, ended)
            except ValueError as error:
                call.resolve(Answer(began, ended, error=str(error), is_misconfigured=True))
                return
        call.resolve(Answer(began, ended, handle=handle, outcome=outcome, moments=moments))

    def _failed(self, call: Call, began: float, error: BaseException, hooks: Hooks, acts: list[float]) -> None:
        returned = Returned.now(error, acted_s=self._acted_s(call, acts, began))
        hooks.after(returned)
        trace = "".join(traceback.format_exception(error))
        is_misconfigured = isinstance(error, (BadOutcome, CannotStart))
        call.resolve(
            Answer(
                began,
                returned.at_s,
                error=returned.error,
                trace=trace,
                is_own_error=_is_own(error),
                is_misconfigured=is_misconfigured,
                skip=_skip_reason(error),
                lacks=str(error) if isinstance(error, Lacking) else "",
            )
        )

    def _acted_s(self, call: Call, acts: list[float], began: float) -> float | None:
        """When a call began to act. What an adapter of a team's own does before it comes to that is the team's time, not the plugin's."""
        if began <= call.asked_s:
            return None
        method = getattr(self._adapter, call.question.method, None)
        is_own = str(getattr(method, "__module__", "")).startswith("pytest_cancelcontract.")
        return acts[0] if acts and is_own else began

    def _keep(self, handle: Any) -> int:
        with self._lock:
            number, self._next_handle = self._next_handle, self._next_handle + 1
            self._handles[number] = handle
            return number

    # ------------------------------------------------------------------ the loop

    def _await_elsewhere(self, call: Call, value: Awaitable[Any]) -> Any:
        """Await, on the adapter's loop, what a plain ``def`` returned."""

        async def awaited() -> Any:
            return await value

        future = asyncio.run_coroutine_threadsafe(awaited(), self._running_loop())
        call.cancel_by(future.cancel)
        return future.result()

    def _on_loop(self, call: Call, work: Any) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        call.cancel_by(future.cancel)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop_thread = threading.Thread(target=_serve, args=(self._loop,), name="cancelcontract-loop", daemon=True)
                self._loop_thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel what is left on it, as ``asyncio.run`` would, but not for ever."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_LOOP_ENDS_WITHIN_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _read_moments(value: Any, answered_s: float) -> tuple[float, ...]:
    """What ``heartbeats`` returned, in order.

    Raises:
        ValueError: one is no moment of that clock: something else, not finite, or still to come (as the wall clock's is).
    """
    must_be = "heartbeats must be moments in seconds of time.monotonic()"
    try:
        moments = sorted(map(float, value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{must_be}, got {value!r}") from None
    for one in moments:
        if not math.isfinite(one) or one > answered_s + _CLOCKS_DIFFER_BY_S:
            raise ValueError(f"{must_be}, which was {answered_s:.3f} then, got {one!r}")
    return tuple(moments)


def _skip_reason(error: BaseException) -> str:
    """What ``pytest.skip`` said in the adapter; told by its name, since nothing here knows pytest, which hides its module's."""
    is_skip = type(error).__name__ == "Skipped" and type(error).__module__ in {"builtins", "_pytest.outcomes"}
    return str(error) or "skipped by the adapter" if is_skip else ""


def one_line(error: BaseException) -> str:
    """An exception as one line; our own ones are worded to stand without their class."""
    kind, text = type(error), " ".join(str(error).split())
    if _is_own(error):
        return text
    return f"{kind.__name__}: {text}" if text else kind.__name__


def _is_own(error: BaseException) -> bool:
    return type(error).__module__.startswith("pytest_cancelcontract.")


def _is_awaitable(value: object) -> TypeGuard[Awaitable[Any]]:
    return inspect.isawaitable(value)


def class_of(adapter: object) -> type:
    """The class of an adapter that is given as an object or, where it is hosted, as its class."""
    return adapter if isinstance(adapter, type) else type(adapter)


def refuse_non_adapter(adapter: object) -> None:
    """Refuse what cannot be driven.

    Raises:
        TypeError: it has no ``start`` or no ``cancel``, or is a class instead of an instance.
    """
    if inspect.isclass(adapter):
        raise TypeError(f"an adapter must be an object, got the class {adapter.__name__}; write {adapter.__name__}()")
    missing = [
        f"{name}({argument})" for name, argument in (("start", "run"), ("cancel", "handle")) if not callable(getattr(adapter, name, None))
    ]
    if missing:
        raise TypeError(f"an adapter needs start(run) and cancel(handle); {type(adapter).__name__} lacks {' and '.join(missing)}")
