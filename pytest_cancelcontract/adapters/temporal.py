"""An adapter for a wrapper that is a Temporal activity: a workflow is started, cancelled and asked for through Temporal's own client.

What the activity does to its child is the team's; what the server says of it is only what is tested. Needs the extra ``temporal``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_cancelcontract.adapters.helpers import cannot_start, send_signal
from pytest_cancelcontract.adapters.protocol import Outcome, note_act
from pytest_cancelcontract.adapters.temporal_extra import missing
from pytest_cancelcontract.adapters.temporal_link import Link, State
from pytest_cancelcontract.adapters.temporal_server import TemporalServer
from pytest_cancelcontract.adapters.words import Template, split
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.process_table import identity_of, open_pidfd, read_stat
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.runner_path import RunnerPath

try:
    from temporalio.api.workflow.v1 import PendingActivityInfo
    from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
    from temporalio.service import RPCError
except ImportError as error:
    raise missing("the library temporalio") from error

__all__ = ["TemporalAdapter", "TemporalHandle", "TemporalServer", "order_of"]

Press = Literal["cancel", "terminate"]
LOOK_EVERY_S = 0.1
"""How often the server is asked when the last heartbeat came."""
CHILDREN_AT_MOST = 20
"""Of a workflow that has more children, and they have, these are looked at."""
LET_GO_WITHIN_S = 5.0
FORGOTTEN_AFTER = timedelta(hours=1)
"""The server's own limit to a drill's workflow, for the case that nobody is left who could end it."""
WORKER_BRACES = ("address", "namespace", "task_queue")

_OUTCOMES: Mapping[WorkflowExecutionStatus, Outcome] = {
    WorkflowExecutionStatus.COMPLETED: Outcome.SUCCEEDED,
    WorkflowExecutionStatus.CANCELED: Outcome.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: Outcome.CANCELLED,  # nobody but an operator does that
    WorkflowExecutionStatus.FAILED: Outcome.FAILED,
    WorkflowExecutionStatus.TIMED_OUT: Outcome.FAILED,
}


def order_of(run: Run) -> dict[str, Any]:
    """A run as the argument of a workflow: JSON-shaped, and the same for any language.

    ``env`` holds only what is to be added to the worker's own environment: an argument is stored in the workflow's history.
    """
    return {
        "id": run.id,
        "task_id": run.task_id,
        "argv": list(run.argv),
        "env": {name: value for name, value in run.env.items() if os.environ.get(name) != value},
        "workspace": str(run.workspace),
        "source": str(run.source),
        "time_limit": run.time_limit,
        "stall_after": run.stall_after,
        "lease": run.lease,
        "heartbeat_timeout": run.heartbeat_timeout,
    }


@dataclass(slots=True, eq=False)
class _Worker:
    """The worker of one drill: ``process`` is the newest one, and ``link`` its line to the server, where there is one of ours."""

    folder: Path
    task_queue: str
    process: Identity
    link: Link | None
    shims: RunnerPath | None
    supervisor: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class TemporalHandle:
    """One started run: its workflow, and when its heartbeats came (server's nanoseconds → monotonic seconds).

    ``first`` is this very run of the workflow: a later one may have the same id, as whatever it is continued as has.
    """

    run: Run
    workflow: WorkflowHandle[Any, Any]
    first: WorkflowHandle[Any, Any]
    worker: _Worker | None
    beats: dict[int, float] = field(default_factory=dict)
    looked_s: float = 0.0
    frozen: Identity | None = None
    follower: asyncio.Task[None] | None = None


class TemporalAdapter:
    """Start a workflow with each run, cancel it through the client, and read its outcome from the server.

    Each drill has a worker process of its own, so that a worker can be killed and frozen, and drills may overlap. It is ended with
    its drill. Where no ``worker`` is given, there must be one already; it is let alone, so that what needs a worker killed, or cut off
    from its engine, is not covered.

    Args:
        workflow: the workflow's name, or its ``run`` method.
        server: a :class:`TemporalServer`, an address (``host:port``), or a client of your own; with a client, workers are not
            cut off from their engine.
        worker: ``module:function`` or ``file.py:function``, which gets a client and the task queue's name and returns a
            ``temporalio.worker.Worker``; or a command line in any language, with ``{address}``, ``{namespace}`` and
            ``{task_queue}``, which are in its environment too (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TASK_QUEUE). A
            supervisor that starts the worker is a command line like any other.
        task_queue: the queue's name. A worker of ours serves one that is named after it and its drill, so that drills do not take
            each other's work; a command line without ``{task_queue}`` serves this very one, and then drills may not overlap.
        argument: what the workflow is started with, from the run; :func:`order_of` by default.
        options: more for ``Client.start_workflow``, from the run (``id``, say).
        env: more for the environment of a worker.
        shims: program names that become the runner, for activities that call a fixed program: they stand at the front of the PATH of
            a worker, for one run at a time, and in the run's own ``env``.
        restarts: whether a worker that has ended is started again, as a supervisor would.
        press: how the operator cancels.
    Raises:
        BadCommand: the worker's command line is refused.
        ValueError: ``press`` is no way to cancel.

    Example::

        cancel_contract.check(TemporalAdapter("RunAgent", server=temporal, worker="my_worker:make_worker"))
    """

    def __init__(
        self,
        workflow: str | Callable[..., Awaitable[Any]],
        *,
        server: TemporalServer | Client | str,
        namespace: str = "default",
        worker: str | Sequence[str] | None = None,
        task_queue: str = "cancelcontract",
        argument: Callable[[Run], Any] = order_of,
        options: Callable[[Run], Mapping[str, Any]] | None = None,
        env: Mapping[str, str] | None = None,
        shims: Sequence[str] = (),
        restarts: bool = False,
        press: Press = "cancel",
    ) -> None:
        if press not in get_args(Press):
            raise ValueError(f"press must be one of {', '.join(get_args(Press))}, got {press!r}")
        self._workflow: Any = workflow
        self._server = server
        self._namespace = server.namespace if isinstance(server, (TemporalServer, Client)) else namespace
        self._worker = None if worker is None else _read_worker(worker)
        self._task_queue = task_queue
        self._argument = argument
        self._options = options or (lambda _run: {})
        self._env = dict(env or {})
        self._shims = (shims,) if isinstance(shims, str) else tuple(shims)
        self._restarts = restarts
        self._press = press
        self._client = server if isinstance(server, Client) else None
        self._lock = asyncio.Lock()
        self._workers: dict[Path, _Worker] = {}
        self._handles: list[TemporalHandle] = []
        self.name = f"Temporal: {workflow if isinstance(workflow, str) else workflow.__qualname__}"
        self.how = f"the Temporal client's handle.{press}()"

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What can be seen of, and done to, this workflow: a worker of your own is not killed, nor cut off."""
        # Whether the workflow makes anything of the limits that are in its argument is for the drill to show.
        own = ("disrupt", "recover", "limit") if self._worker is not None else ()
        linked = ("engine",) if self._worker is not None and not isinstance(self._server, Client) else ()
        return ("wait", "outcome", *own, *linked, "heartbeats", "stall")

    # ------------------------------------------------------------------ the run

    async def start(self, run: Run, /) -> TemporalHandle:
        """Start the drill's worker, unless it is up, and the workflow."""
        async with self._lock:
            client = await self._connected()
            worker = await self._worker_for(run)
        given = {
            "id": f"cancelcontract-{run.id}",
            "task_queue": worker.task_queue if worker else self._task_queue,
            "execution_timeout": FORGOTTEN_AFTER,
            **self._options(run),
        }
        workflow = await client.start_workflow(self._workflow, self._argument(self._with_shims(run)), **given)
        first = client.get_workflow_handle(workflow.id, run_id=workflow.result_run_id)
        handle = TemporalHandle(run, workflow, first, worker)
        handle.follower = asyncio.ensure_future(self._follow(handle))
        self._handles.append(handle)
        return handle

    async def cancel(self, handle: TemporalHandle, /) -> None:
        """Press; it comes back when the server has taken note of it."""
        note_act(time.monotonic())
        if self._press == "terminate":
            await handle.workflow.terminate(reason="cancelled by a drill")
        else:
            await handle.workflow.cancel()

    async def wait(self, handle: TemporalHandle, /) -> Outcome:
        """The outcome, as soon as the server says that the workflow is closed."""
        while True:
            with contextlib.suppress(WorkflowFailureError):  # how it has failed is in its status
                await handle.workflow.result()
            if (outcome := await self.outcome(handle)).is_terminal:
                return outcome

    async def outcome(self, handle: TemporalHandle, /) -> Outcome:
        """What the server says at this moment; ``cancelling`` from when it has taken note of the press."""
        seen = await self._look(handle)
        if seen.status is not None and seen.status in _OUTCOMES:
            return _OUTCOMES[seen.status]
        is_asked = seen.raw_description.workflow_extended_info.cancel_requested
        return Outcome.CANCELLING if is_asked else Outcome.RUNNING

    # ------------------------------------------------------------------ the worker and the engine

    async def disrupt(self, handle: TemporalHandle, how: Literal["kill", "freeze"], /) -> None:
        """Kill or stop the process that the activity is in, which the server knows.

        Raises:
            ProcessLookupError: it is gone.
        """
        worker = _own(handle)
        process = _process_of(await self._with_children(await self._look(handle)), worker)
        number = signal.SIGKILL if how == "kill" else signal.SIGSTOP
        handle.frozen = process if how == "freeze" else None
        send_signal(process.pid, process.start, number)

    async def recover(self, handle: TemporalHandle, /) -> None:
        """Let a frozen worker go on."""
        process, handle.frozen = handle.frozen, None
        if process is not None:
            send_signal(process.pid, process.start, signal.SIGCONT)

    async def engine(self, handle: TemporalHandle, state: State, /) -> None:
        """Cut the worker off from the server, by refusing or by silence, or connect it again; for clients nothing changes."""
        worker = _own(handle)
        if worker.link is None:
            raise RuntimeError("a worker that connects with a client's own settings cannot be cut off from its server")
        note_act(time.monotonic())
        await worker.link.become(state)

    async def heartbeats(self, handle: TemporalHandle, /) -> list[float]:
        """When the server got heartbeats of this run, in seconds of ``time.monotonic()``: of its workflow, and of that one's children.

        The moments are the server's own, from its clock to ours: on one machine exact to about a millisecond, with another machine's
        server as exact as the two clocks agree (their distances are right all the same). Looked at every ``LOOK_EVERY_S``: of two
        heartbeats between two looks only the last one is seen.
        """
        with contextlib.suppress(RPCError):
            await self._look(handle)
        return sorted(handle.beats.values())

    async def close(self) -> None:
        """Let go of every run; a workflow that still runs is terminated, since its worker is gone."""
        handles, self._handles = self._handles, []
        for handle in handles:
            if handle.follower is not None:
                handle.follower.cancel()
        await asyncio.gather(*(self._let_go(handle) for handle in handles))
        workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            await _dismiss(worker)

    # ------------------------------------------------------------------ inside

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await Client.connect(self._address(), namespace=self._namespace)
        return self._client

    def _address(self) -> str:
        if isinstance(self._server, Client):
            return self._server.service_client.config.target_host
        return self._server if isinstance(self._server, str) else self._server.address

    async def _look(self, handle: TemporalHandle) -> WorkflowExecutionDescription:
        """Ask the server, and note the heartbeat that it tells of."""
        seen = await handle.first.describe()
        if seen.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
            seen = await handle.workflow.describe()
        family = await self._with_children(seen)
        now_s, wall_ns = time.monotonic(), time.time_ns()
        handle.looked_s = now_s
        for activity in _activities(family):
            beat_ns = activity.last_heartbeat_time.ToNanoseconds()
            if beat_ns and beat_ns not in handle.beats:
                handle.beats[beat_ns] = min(now_s, now_s - (wall_ns - beat_ns) / 1e9)
        return seen

    async def _with_children(self, seen: WorkflowExecutionDescription) -> list[WorkflowExecutionDescription]:
        """A workflow, the children that it still has, and theirs, each as its newest run is: one that failed may be tried again."""
        family, client, asked = [seen], await self._connected(), 0
        for parent in family:  # grows as it is walked
            for child in parent.raw_description.pending_children:
                if asked == CHILDREN_AT_MOST:
                    return family
                if child.run_id:  # else it is not started yet
                    asked += 1
                    with contextlib.suppress(RPCError):  # it may have ended meanwhile
                        family.append(await client.get_workflow_handle(child.workflow_id).describe())
        return family

    async def _follow(self, handle: TemporalHandle) -> None:
        """Look for heartbeats until the workflow is closed, and end it where it outlives its drill."""
        while handle.run.folder.exists():
            if time.monotonic() - handle.looked_s >= LOOK_EVERY_S:
                with contextlib.suppress(RPCError):
                    if (await self._look(handle)).status in _OUTCOMES:
                        break
            await asyncio.sleep(LOOK_EVERY_S)  # the server has no event for a heartbeat
        else:
            await self._let_go(handle)
        if handle in self._handles:
            self._handles.remove(handle)

    async def _let_go(self, handle: TemporalHandle) -> None:
        """Its worker is gone with the drill, so that nobody else would ever end it."""
        with contextlib.suppress(RPCError, TimeoutError):
            async with asyncio.timeout(LET_GO_WITHIN_S):
                if (await self._look(handle)).status not in _OUTCOMES:
                    await handle.workflow.terminate(reason="its drill is over")

    async def _worker_for(self, run: Run) -> _Worker | None:
        """The worker of this run's drill, started where there is none, or it has ended."""
        if self._worker is None:
            return None
        for gone in [one for one in self._workers.values() if not one.folder.exists()]:
            del self._workers[gone.folder]
            await _dismiss(gone)
        worker = self._workers.get(run.folder)
        if worker is None:
            worker = self._workers[run.folder] = await self._new_worker(run)
        elif _has_ended(worker.process) and not self._restarts:
            worker.process = await self._spawn(run, worker)
        self._announce(run, worker)
        return worker

    async def _new_worker(self, run: Run) -> _Worker:
        assert self._worker is not None
        link = None
        if not isinstance(self._server, Client):
            link = Link(self._address())
            await link.open()
        queue = self._task_queue
        if "task_queue" in self._worker.uses:
            queue = f"{queue}-{run.folder.name}"
        shims = RunnerPath(run.folder / "worker") if self._shims else None
        worker = _Worker(run.folder, queue, Identity(0, 0), link, shims)
        self._announce(run, worker)
        try:
            worker.process = await self._spawn(run, worker)
        except BaseException:
            await _dismiss(worker)
            raise
        if self._restarts:
            worker.supervisor = asyncio.ensure_future(self._keep_up(run, worker))
        return worker

    def _with_shims(self, run: Run) -> Run:
        return replace(run, env=self._path_with([run.shim(name) for name in self._shims], run.env)) if self._shims else run

    @staticmethod
    def _path_with(folders: Sequence[Path], env: Mapping[str, str]) -> dict[str, str]:
        return {**env, "PATH": os.pathsep.join([*map(str, folders), env.get("PATH", os.defpath)])}

    def _announce(self, run: Run, worker: _Worker) -> None:
        if worker.shims is not None:
            worker.shims.announce(run.task_id, run.argv)  # a second run of a task takes the place of the first

    async def _spawn(self, run: Run, worker: _Worker) -> Identity:
        assert self._worker is not None
        values = {
            "address": worker.link.address if worker.link else self._address(),
            "namespace": self._namespace,
            "task_queue": worker.task_queue,
        }
        env = {**run.env, **{f"TEMPORAL_{name.upper()}": value for name, value in values.items()}, **self._env}
        if worker.shims is not None:
            env = self._path_with([worker.shims.shim(name) for name in self._shims], env)
        argv = self._worker.fill(values)
        try:
            spawned = await asyncio.to_thread(functools.partial(run.spawn, argv, cwd=Path.cwd(), env=env))
        except OSError as error:
            raise cannot_start(argv[0], error) from error
        return Identity(spawned.pid, spawned.start)

    async def _keep_up(self, run: Run, worker: _Worker) -> None:
        """Start the worker again whenever it has ended, as long as its drill lasts."""
        while True:
            await _end_of(worker.process)
            if not worker.folder.exists():
                return
            try:
                worker.process = await self._spawn(run, worker)
            except (OSError, RuntimeError):  # the drill, or the recorder, has ended in between
                return


def _read_worker(worker: str | Sequence[str]) -> Template:
    origin = "TemporalAdapter(worker=…)"
    words = split(worker, origin)
    module, _, function = words[0].rpartition(":")
    if len(words) == 1 and module and function.isidentifier():
        words = (sys.executable, "-m", "pytest_cancelcontract.adapters.temporal_worker", words[0])
        # It takes the queue from its environment.
        return Template(words, origin, frozenset({"task_queue"}))
    return Template.parse(words, allowed=WORKER_BRACES, origin=origin)


def _own(handle: TemporalHandle) -> _Worker:
    if handle.worker is None:
        raise RuntimeError("the worker is not one that this adapter has started (worker=…), so it is let alone")
    return handle.worker


def _activities(family: Sequence[WorkflowExecutionDescription]) -> Iterator[PendingActivityInfo]:
    return itertools.chain.from_iterable(one.raw_description.pending_activities for one in family)


def _process_of(family: Sequence[WorkflowExecutionDescription], worker: _Worker) -> Identity:
    """The process that the activity is in, by the identity that workers have by default; else the one that was started.

    Only what is the started process, or below it, is meant: an identity is a text, and may name a stranger.
    """
    for activity in _activities(family):
        pid, _, host = activity.last_worker_identity.partition("@")
        found = identity_of(int(pid)) if host == socket.gethostname() and pid.isdigit() else None
        if found is not None and worker.process in _line_of(found):
            return found
    return worker.process


def _has_ended(process: Identity) -> bool:
    """Also as a zombie, as which it stays until its drill is over."""
    stat = read_stat(process.pid)
    return stat is None or stat.identity != process or stat.state in "ZX"


def _line_of(identity: Identity) -> Iterator[Identity]:
    """A process and those above it."""
    stat = read_stat(identity.pid)
    while stat is not None and stat.identity.pid > 1:
        yield stat.identity
        stat = read_stat(stat.ppid)


async def _end_of(process: Identity) -> None:
    held = open_pidfd(process)
    if held is None:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(held, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(held)
        os.close(held)


async def _dismiss(worker: _Worker) -> None:
    """Let go of what was held for a worker; the process itself is ended with its drill."""
    if worker.supervisor is not None:
        worker.supervisor.cancel()
    if worker.link is not None:
        await worker.link.close()
