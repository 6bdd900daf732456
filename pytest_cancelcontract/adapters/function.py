"""An adapter for a wrapper that is a function which blocks until its run is over."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pytest_cancelcontract.adapters.protocol import Outcome, name_of, outcome_of_value
from pytest_cancelcontract.run import Run

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

    Example::

        agents = AgentPool()
        cancel_contract.check(CallableAdapter(lambda run: agents.run(run.id, run.argv), cancel=lambda run: agents.cancel(run.id)))
    """

    def __init__(self, fn: Callable[[Run], object], *, cancel: Callable[[Run], object], hosted: bool = True) -> None:
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
            outcome = outcome_of_value(self._fn(handle.run))
        except _CANCELLATIONS:
            outcome = Outcome.CANCELLED
        except BaseException:  # sys.exit() too
            traceback.print_exc()
            outcome = Outcome.FAILED
        handle.ended.set_result(outcome)
