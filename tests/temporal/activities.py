"""Temporal activities that wrap a runner: one that does all that a cancel needs, and the shapes that people write instead.

Run by :mod:`pytest_cancelcontract.adapters.temporal_worker` in a process of its own. An *order* is what the workflow gets: the run, and
beside it ``activity``, ``cancellation``, ``attempts`` and, in seconds, ``grace``, ``start_to_close`` and ``heartbeat_timeout``. Its
``stall_after`` and ``lease`` are what the kept activity minds besides, where they are not None.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a worker is started anywhere

from fixtures.orchestrator.progress import Progress

Order = dict[str, Any]
BEAT_EVERY_S = 0.05
"""The SDK sends far fewer on: ``max_heartbeat_throttle_interval``, or 0.8 times the timeout."""
THROTTLE_S = 0.1
LOOK_EVERY_S = 0.05
ASKED_WITHIN_A_LEASE = 4
GUARD = Path(__file__).with_name("ends_with_its_worker.py")


@workflow.defn
class Wraps:
    """Has one activity do it all, as the order says."""

    @workflow.run
    async def run(self, order: Order) -> None:
        """Its end is the activity's."""
        timeout_s = order["heartbeat_timeout"]
        await workflow.execute_activity(
            order["activity"],
            order,
            start_to_close_timeout=timedelta(seconds=order["start_to_close"]),
            heartbeat_timeout=None if timeout_s is None else timedelta(seconds=timeout_s),
            cancellation_type=workflow.ActivityCancellationType[order["cancellation"]],
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_attempts=order["attempts"]),
        )


@workflow.defn
class Delegates:
    """Has a child workflow do it, and that one has one of its own, ``generations`` times; each waits for its own."""

    @workflow.run
    async def run(self, order: Order) -> None:
        """Its end is that of the last child, which wraps."""
        left = order["generations"] - 1
        child, theirs = ("Delegates", {**order, "generations": left}) if left else ("Wraps", order)
        waits = workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
        await workflow.execute_child_workflow(child, theirs, cancellation_type=waits)


# ---------------------------------------------------------------------- what a cancel needs


@activity.defn
async def kept(order: Order) -> None:
    """Heartbeats on a timer of its own, through the grace; told to stop, it lets the guard end everything, and waits for that.

    So it does with a run that gets nowhere, and when its server has not answered for as long as the lease: by then another attempt may
    be at work. The time limit is the guard's, which outlives the worker.
    """
    await _guarded(order)


@activity.defn(no_thread_cancel_exception=True)
def kept_in_a_thread(order: Order) -> None:
    """The same in a thread, which asks whether it is cancelled: an exception cannot reach it while it waits in the kernel."""
    with subprocess.Popen(_guard(order), stdin=subprocess.PIPE, start_new_session=True, env=_environment(order)) as process:
        assert process.stdin is not None
        while process.poll() is None:
            activity.heartbeat()
            if activity.is_cancelled() and not process.stdin.closed:
                process.stdin.close()
            try:
                process.wait(BEAT_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
    if activity.is_cancelled():
        raise CancelledError("the run was cancelled, and is gone")
    _refuse_failure(process.returncode)


async def _guarded(order: Order, *, beats_in_grace: bool = True, is_swallowed: bool = False) -> None:
    process = await asyncio.create_subprocess_exec(*_guard(order), stdin=subprocess.PIPE, start_new_session=True, env=_environment(order))
    assert process.stdin is not None
    beating, doubting = asyncio.create_task(_beat()), asyncio.create_task(_why_given_up(order))
    ended = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({ended, doubting}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.stdin.close()
            await asyncio.shield(ended)
            raise ApplicationError(f"the run was ended: {doubting.result()}", non_retryable=True)
        _refuse_failure(ended.result())
    except asyncio.CancelledError:
        if not beats_in_grace:
            beating.cancel()
        process.stdin.close()
        await ended
        if not is_swallowed:
            raise
    finally:
        beating.cancel()
        doubting.cancel()


async def _why_given_up(order: Order) -> str:
    """Why the run must end though nobody asks for it; does not return while there is no reason."""
    stall_after_s, lease = order["stall_after"], _Lease(order["lease"])
    # What the run prints goes to the worker's own output, where nobody reads it: here progress is a change in the workspace.
    progress = Progress(Path(os.devnull), Path(order["workspace"]))
    progress.start()
    asking = asyncio.create_task(lease.ask())
    try:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if stall_after_s is not None and progress.still_s() > stall_after_s:
                return "no progress"
            if lease.is_over():
                return "the lease was over: no answer of the server"
    finally:
        asking.cancel()
        progress.stop()


class _Lease:
    """Asks the server a few times in a lease whether it is there: nobody tells an activity that its heartbeats come to nothing."""

    def __init__(self, length_s: float | None) -> None:
        self._length_s = length_s
        self._began_s = time.monotonic()

    def is_over(self) -> bool:
        """Whether the last question that was answered was sent so long ago."""
        return self._length_s is not None and time.monotonic() > self._began_s + self._length_s

    async def ask(self) -> None:
        """Ask, again and again."""
        if self._length_s is None:
            return
        every_s, service = self._length_s / ASKED_WITHIN_A_LEASE, activity.client().service_client
        while True:
            sent_s = time.monotonic()
            with contextlib.suppress(RPCError):
                await service.check_health(timeout=timedelta(seconds=every_s))
                self._began_s = sent_s
            await asyncio.sleep(max(0.0, sent_s + every_s - time.monotonic()))


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(BEAT_EVERY_S)


def _guard(order: Order) -> list[str]:
    limit_s = order.get("floor_limit") or order["time_limit"]
    own = [str(limit_s), "waits" if order.get("waits", True) else "-", "--grace", str(order["grace"])]
    return [sys.executable, str(GUARD), *own, order["workspace"], order["source"], *order["argv"]]


def _environment(order: Order) -> dict[str, str]:
    return {**os.environ, **order["env"]}


def _place(order: Order) -> dict[str, Any]:
    return {"cwd": order["workspace"], "env": _environment(order)}


def _refuse_failure(status: int) -> None:
    if status:
        raise ApplicationError(f"the runner ended with status {status}", non_retryable=True)


@activity.defn
async def calls_a_fixed_program(order: Order) -> None:
    """As ``kept``, but it knows its program by name only, and finds it on the worker's own PATH."""
    await _guarded({**order, "argv": ["claude", "-p", "fix the tests"], "env": {}})


# ---------------------------------------------------------------------- what people write instead


@activity.defn
async def no_heartbeat(order: Order) -> None:
    """Waits for its child and for nothing else: a cancel rides on the answer to a heartbeat, so none ever comes."""
    process = await asyncio.create_subprocess_exec(*order["argv"], **_place(order))
    _refuse_failure(await process.wait())


@activity.defn
def no_heartbeat_in_a_thread(order: Order) -> None:
    """The same in the shortest form there is."""
    subprocess.run(order["argv"], check=True, **_place(order))


@activity.defn
def heartbeat_unread(order: Order) -> None:
    """A timer sends heartbeats, and the thread that the cancel is for sits in a wait: the answer is there, and nobody reads it."""
    is_over = threading.Event()
    beating = threading.Thread(target=contextvars.copy_context().run, args=(_beat_until, is_over), daemon=True)
    beating.start()
    try:
        subprocess.run(order["argv"], check=True, **_place(order))
    finally:
        is_over.set()


def _beat_until(is_over: threading.Event) -> None:
    while not is_over.wait(BEAT_EVERY_S):
        activity.heartbeat()


@activity.defn
async def no_kill(order: Order) -> None:
    """Hears the cancel, and leaves: the exception passes by the child."""
    process = await asyncio.create_subprocess_exec(*order["argv"], **_place(order))
    beating = asyncio.create_task(_beat())
    try:
        _refuse_failure(await process.wait())
    finally:
        beating.cancel()


@activity.defn
async def terminates_the_leader(order: Order) -> None:
    """Tells the child that it has started, and nobody below it, and does not look whether it goes."""
    process = await asyncio.create_subprocess_exec(*order["argv"], **_place(order))
    beating = asyncio.create_task(_beat())
    try:
        _refuse_failure(await process.wait())
    except asyncio.CancelledError:
        process.terminate()
        raise
    finally:
        beating.cancel()


@activity.defn
async def silent_in_the_grace(order: Order) -> None:
    """Ends the run as it should, but sends no heartbeat meanwhile: the server takes the worker for dead."""
    await _guarded(order, beats_in_grace=False)


@activity.defn
async def swallows(order: Order) -> None:
    """Ends the run as it should, and returns as if it had been done."""
    await _guarded(order, is_swallowed=True)


ACTIVITIES: tuple[Callable[..., Any], ...] = (
    kept,
    kept_in_a_thread,
    calls_a_fixed_program,
    no_heartbeat,
    no_heartbeat_in_a_thread,
    heartbeat_unread,
    no_kill,
    terminates_the_leader,
    silent_in_the_grace,
    swallows,
)


def make_worker(client: Client, task_queue: str, *, max_throttle_s: float = THROTTLE_S, default_throttle_s: float = THROTTLE_S) -> Worker:
    """All of them. How often heartbeats are really sent is how long a cancel takes to arrive, so that it is short here."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[Wraps, Delegates],
        activities=ACTIVITIES,
        activity_executor=ThreadPoolExecutor(8),
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=timedelta(seconds=max_throttle_s),
        default_heartbeat_throttle_interval=timedelta(seconds=default_throttle_s),
    )


make_worker_as_by_default = functools.partial(make_worker, max_throttle_s=60.0, default_throttle_s=30.0)
"""With the SDK's own two intervals."""
make_worker_with_short_default = functools.partial(make_worker, max_throttle_s=60.0, default_throttle_s=1.0)
"""Short where there is no heartbeat timeout."""
