"""An adapter for a wrapper that is a function which blocks until its run is over."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pytest_cancelcontract.adapters.protocol import BadOutcome, Outcome, name_of, outcome_of_value
from pytest_cancelcontract.run import Run

ADVICE = "an async function that is cancelled by its library belongs in CoroutineAdapter(fn), a plain one in CallableAdapter(fn, cancel=…)"
_CANCELLATIONS = (asyncio.CancelledError, concurrent.futures.CancelledError, KeyboardInterrupt)


@dataclass(slots=True, eq=False)
class CallableHandle:
    """One started run, and how it ended."""

    run: Run
    ended: Future[Outcome] = field(default_factory=Future)


class CallableAdapter:
    """Run a function with each run, in a thread of its own, and cancel by another.

    The outcome is what the function returned where that is an :class:`Outcome` or its word, and else ``succeeded``; ``cancelled``
    where it raised a ``CancelledError`` or ``KeyboardInterrupt``, and ``failed`` where it raised anything else.

    Args:
        fn: is called with the :class:`Run`; it runs the runner to its end.
        cancel: is called with the same :class:`Run`, in another thread; plain or ``async``.
        hosted: whether it lives in a process of its own (see :class:`~pytest_cancelcontract.adapters.hosting.Hosted`).
    Raises:
        TypeError: it is no plain function, or ``cancel`` cannot be called.

    Example::

        agents = AgentPool()
        cancel_contract.check(CallableAdapter(lambda run: agents.run(run.id, run.argv), cancel=lambda run: agents.cancel(run.id)))
    """

    def __init__(self, fn: Callable[[Run], object], *, cancel: Callable[[Run], object], hosted: bool = True) -> None:
        refuse_uncallable("CallableAdapter", fn)
        refuse_uncallable("CallableAdapter", cancel)
        if is_kind(fn, inspect.iscoroutinefunction):
            raise TypeError(f"CallableAdapter needs a plain function, got the async {name_of(fn, 'function')}: {ADVICE}")
        self._fn = fn
        self._cancel = cancel
        self.hosted = hosted
        self.name = name_of(fn, "CallableAdapter")
        self.how = f"{name_of(cancel, 'cancel')}(run)"

    def start(self, run: Run, /) -> CallableHandle:
        """Call the function, in a new thread."""
        handle = CallableHandle(run)
        threading.Thread(target=functools.partial(self._live, handle), name="cancelcontract-callable", daemon=True).start()
        return handle

    def cancel(self, handle: CallableHandle, /) -> Any:
        """Call what cancels, and return what it returned (an awaitable, where it is ``async``)."""
        return self._cancel(handle.run)

    def wait(self, handle: CallableHandle, /) -> Outcome:
        """The outcome, once the function has come back."""
        return handle.ended.result()

    def _live(self, handle: CallableHandle) -> None:
        try:
            value = self._fn(handle.run)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                what = f"returned an awaitable ({type(value).__name__}), which nobody awaits"
                handle.ended.set_exception(BadOutcome(f"CallableAdapter needs a plain function, and {self.name} {what}: {ADVICE}"))
                return
            outcome = outcome_of_value(value)
        except _CANCELLATIONS:
            outcome = Outcome.CANCELLED
        except BaseException:  # sys.exit() too
            traceback.print_exc()
            outcome = Outcome.FAILED
        handle.ended.set_result(outcome)


def refuse_uncallable(adapter: str, fn: object) -> None:
    """Refuse what does not run when it is called.

    Raises:
        TypeError: it cannot be called, or is a generator function, of which nothing runs until somebody iterates.
    """
    if not callable(fn):
        raise TypeError(f"{adapter} needs a function, got {fn!r}")
    if is_kind(fn, inspect.isgeneratorfunction) or is_kind(fn, inspect.isasyncgenfunction):
        raise TypeError(f"{adapter} needs a function that runs when it is called, and {name_of(fn, 'the lambda')} yields")


def is_kind(fn: object, is_one: Callable[[Any], bool]) -> bool:
    """What ``inspect`` says of a function, seen through partials and the ``__call__`` of an object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return is_one(fn) or (not inspect.isroutine(fn) and is_one(inspect.getattr_static(type(fn), "__call__", None)))
