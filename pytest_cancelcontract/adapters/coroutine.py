"""An adapter for a wrapper that is a coroutine: it is run as a task, and cancelled as its library cancels.

All runs of an adapter live on one loop, in a thread of its own, or in the main thread of its host, where handlers of signals can be
set. Nothing here waits for that loop: a wrapper may block it.
"""

from __future__ import annotations

import contextvars
import functools
import importlib.util
import inspect
import threading
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytest_cancelcontract.adapters.function import ADVICE, is_kind, refuse_uncallable
from pytest_cancelcontract.adapters.protocol import BadOutcome, Outcome, name_of, outcome_of_value
from pytest_cancelcontract.run import Run

if TYPE_CHECKING:
    import asyncio

Backend = Literal["asyncio", "trio", "anyio", "anyio+trio"]
Wrapper = Callable[[Run], Awaitable[object]]
"""What a team gives: it runs the runner to its end."""
LOOP_IS_UP_WITHIN_S = 20.0
"""How long a library may take until its loop runs."""
LOOP_ENDS_WITHIN_S = 2.0
"""How long the tasks of a closed adapter get to end."""
_NEEDS: dict[str, tuple[str, ...]] = {"asyncio": (), "trio": ("trio",), "anyio": ("anyio",), "anyio+trio": ("anyio", "trio")}
_BRINGING_UP = threading.Lock()


class LibraryMissing(ImportError):
    """The library of a backend is not installed; the message says what to install."""


class CoroutineHandle:
    """One started run: ``press`` cancels it (on its loop), ``ended`` has its outcome."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ended: Future[Outcome] = Future()
        self.press: Callable[[], object] = lambda: None
        self.is_in_plain_call = False


class CoroutineAdapter:
    """Run a coroutine function with each run, and cancel it as its library does.

    The outcome is ``cancelled`` where the coroutine ended by the library's cancellation, ``failed`` where it raised, what it
    returned where that is an :class:`Outcome` or its word, and else ``succeeded``: a cancellation that is swallowed is no cancel.

    Args:
        fn: is called with the :class:`Run`; it runs the runner to its end.
        backend: the library that runs it; ``anyio`` is on asyncio, ``anyio+trio`` on trio.
        hosted: whether it lives in a process of its own (see :class:`~pytest_cancelcontract.adapters.hosting.Hosted`).
    Raises:
        TypeError: it is no function. What a plain one returns is seen when it is called, and must be awaitable.
        ValueError: no such backend.
        LibraryMissing: its library is not installed.

    Example::

        async def run_agent(run):
            process = await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env)
            try:
                await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise

        cancel_contract.check(CoroutineAdapter(run_agent))
    """

    def __init__(self, fn: Wrapper, *, backend: Backend = "asyncio", hosted: bool = True) -> None:
        if backend not in get_args(Backend):
            raise ValueError(f"backend must be one of {', '.join(get_args(Backend))}, got {backend!r}")
        _refuse_missing(backend)
        refuse_uncallable("CoroutineAdapter", fn)
        self._fn = fn
        self._backend: Backend = backend
        self._home: _Home | None = None
        self.hosted = hosted
        self.name = name_of(fn, "CoroutineAdapter")
        self.how = "task.cancel()" if backend == "asyncio" else "the cancel scope around it"

    def __getstate__(self) -> dict[str, Any]:
        """As it was made: a loop cannot go to another process."""
        return {**vars(self), "_home": None}

    def start(self, run: Run, /) -> CoroutineHandle:
        """Start the coroutine as a task of its own."""
        with _BRINGING_UP:
            home = self._home = self._home or _Home(self._backend)
        handle = CoroutineHandle(run)
        home.soon(functools.partial(home.begin, self._fn, handle))
        return handle

    def cancel(self, handle: CoroutineHandle, /) -> None:
        """Have the library cancel the task; it is not waited for.

        Raises:
            BadOutcome: the function is no coroutine function, and has not come back with anything that could be cancelled.
        """
        if handle.is_in_plain_call:
            raise _not_awaitable(self._fn, "is a plain one that has not come back yet, and blocks the loop")
        if self._home is not None:
            # Looked up there: what starts the task comes before, and only then is it known what cancels it.
            self._home.soon(lambda: handle.press())

    def wait(self, handle: CoroutineHandle, /) -> Outcome:
        """The outcome, once the task has ended."""
        return handle.ended.result()

    def close(self) -> None:
        """Cancel what still runs, and end the loop; one that is blocked is left to itself."""
        home, self._home = self._home, None
        if home is not None:
            home.close()


def _refuse_missing(backend: str) -> None:
    for library in _NEEDS[backend]:
        if importlib.util.find_spec(library) is None:
            raise LibraryMissing(
                f"CoroutineAdapter(backend={backend!r}) needs {library}, which is not installed here:"
                f" pip install 'pytest-cancelcontract[{library}]'"
            )


def _in_a_thread(live: Callable[[], object]) -> None:
    threading.Thread(target=live, name="cancelcontract-loop-of-wrapper", daemon=True).start()


_place: Callable[[Callable[[], object]], object] = _in_a_thread


def live_in(place: Callable[[Callable[[], object]], object]) -> None:
    """Have ``place`` called with what runs a loop until it ends, for each loop from now on; it must not wait for it."""
    global _place
    _place = place


def _called(fn: Wrapper, handle: CoroutineHandle) -> Awaitable[object]:
    handle.is_in_plain_call = not is_kind(fn, inspect.iscoroutinefunction)
    try:
        work: object = fn(handle.run)
    finally:
        handle.is_in_plain_call = False
    if not inspect.isawaitable(work):
        raise _not_awaitable(fn, f"returned {work!r}, which cannot be awaited")
    return work


def _not_awaitable(fn: Wrapper, what: str) -> BadOutcome:
    return BadOutcome(f"CoroutineAdapter needs an async function, and {name_of(fn, 'the lambda')} {what}: {ADVICE}")


class _Home:
    """Where a library's loop runs, and what threads may do with it.

    ``soon`` has the loop call something, in the order in which it is asked; ``begin`` makes a task of a run, and ``stop`` ends the
    loop, both to be called there.
    """

    def __init__(self, backend: Backend) -> None:
        self._up: Future[None] = Future()
        self._is_over = threading.Event()
        _place(functools.partial(self._live, backend))
        self._up.result(timeout=LOOP_IS_UP_WITHIN_S)

    def is_up(
        self,
        *,
        soon: Callable[[Callable[[], object]], object],
        begin: Callable[[Wrapper, CoroutineHandle], object],
        stop: Callable[[], object],
    ) -> None:
        """The loop runs, and this is how to talk to it."""
        self.soon, self.begin, self._stop = soon, begin, stop
        self._up.set_result(None)

    def close(self) -> None:
        """Cancel everything, and end the loop, as far as it can be reached."""
        self.soon(self._stop)
        self._is_over.wait(timeout=LOOP_ENDS_WITHIN_S)

    def _live(self, backend: Backend) -> None:
        try:
            if backend == "asyncio":
                _live_on_asyncio(self)
            elif backend == "trio":
                _live_on_trio(self)
            else:
                _live_on_anyio(self, "trio" if backend == "anyio+trio" else "asyncio")
        except BaseException as error:
            if self._up.done():
                raise
            self._up.set_exception(error)
        finally:
            self._is_over.set()


# ---------------------------------------------------------------------- asyncio: a task


def _live_on_asyncio(home: _Home) -> None:
    import asyncio

    async def live() -> None:
        stopped = asyncio.Event()
        tasks: set[asyncio.Task[Outcome]] = set()

        def begin(fn: Wrapper, handle: CoroutineHandle) -> None:
            task = asyncio.ensure_future(_as_task(fn, handle))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            # Told by the task: one that is cancelled before its first step never runs a line of it.
            task.add_done_callback(functools.partial(_tell, handle))
            handle.press = task.cancel

        home.is_up(soon=_soon_on_asyncio(), begin=begin, stop=stopped.set)
        await stopped.wait()

    asyncio.run(live())


async def _as_task(fn: Wrapper, handle: CoroutineHandle) -> Outcome:
    import asyncio

    try:
        return outcome_of_value(await _called(fn, handle))
    except (asyncio.CancelledError, BadOutcome):
        raise
    except BaseException:  # pytest.fail() too; KeyboardInterrupt and SystemExit would end the loop, and with it the other runs
        traceback.print_exc()
        return Outcome.FAILED


def _tell(handle: CoroutineHandle, task: asyncio.Task[Outcome]) -> None:
    if task.cancelled():
        handle.ended.set_result(Outcome.CANCELLED)
    elif (error := task.exception()) is not None:
        handle.ended.set_exception(error)
    else:
        handle.ended.set_result(task.result())


def _soon_on_asyncio() -> Callable[[Callable[[], object]], object]:
    import asyncio

    # The context of the loop's own task, and not that of the thread that happens to ask.
    return functools.partial(asyncio.get_running_loop().call_soon_threadsafe, context=contextvars.copy_context())


# ---------------------------------------------------------------------- trio and anyio: a cancel scope


def _live_on_trio(home: _Home) -> None:
    import trio

    async def live() -> None:
        async with trio.open_nursery() as nursery:
            begin = functools.partial(_begin_in_scope, nursery.start_soon, trio.CancelScope, trio.Cancelled)
            home.is_up(soon=trio.lowlevel.current_trio_token().run_sync_soon, begin=begin, stop=nursery.cancel_scope.cancel)
            await trio.sleep_forever()

    trio.run(live)


def _live_on_anyio(home: _Home, backend: Literal["asyncio", "trio"]) -> None:
    import anyio

    async def live() -> None:
        async with anyio.create_task_group() as group:
            begin = functools.partial(_begin_in_scope, group.start_soon, anyio.CancelScope, anyio.get_cancelled_exc_class())
            home.is_up(soon=_soon_on_anyio(backend), begin=begin, stop=group.cancel_scope.cancel)
            await anyio.sleep_forever()

    anyio.run(live, backend=backend)


def _soon_on_anyio(backend: Literal["asyncio", "trio"]) -> Callable[[Callable[[], object]], object]:
    if backend == "asyncio":
        return _soon_on_asyncio()
    import trio

    return trio.lowlevel.current_trio_token().run_sync_soon


def _begin_in_scope(
    start_soon: Callable[..., object],
    new_scope: Callable[[], Any],
    cancelled: type[BaseException],
    fn: Wrapper,
    handle: CoroutineHandle,
) -> None:
    scope = new_scope()
    handle.press = scope.cancel
    start_soon(_in_scope, scope, cancelled, fn, handle)


async def _in_scope(scope: Any, cancelled: type[BaseException], fn: Wrapper, handle: CoroutineHandle) -> None:
    outcome = Outcome.CANCELLED  # where the loop is ended around it
    try:
        with scope:
            outcome = outcome_of_value(await _called(fn, handle))
        if scope.cancelled_caught:
            outcome = Outcome.CANCELLED
    except BadOutcome as error:
        handle.ended.set_exception(error)
        return
    except cancelled:
        raise
    except BaseException:  # pytest.fail() too: what leaves its task would end the other runs
        traceback.print_exc()
        outcome = Outcome.FAILED
    finally:
        if not handle.ended.done():
            handle.ended.set_result(outcome)
