"""The drills of one pytest process: one recorder for all, drills that overlap, and everything ended when pytest ends.

Every drill runs in a daemon thread of its own, so that neither a Ctrl-C nor a wrapper that never answers can keep pytest alive;
the test that the drill belongs to waits for its result.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.adapters.hosting import driver_for
from pytest_cancelcontract.adapters.protocol import Adapter
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder, RecorderFailed
from pytest_cancelcontract.report.listing import expected_s
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.runner_path import RunnerPath
from pytest_cancelcontract.scenarios import Scenario
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.workspace_rules import WorkspaceRules

LOOK_EVERY_S = 0.1
"""How often a waiting test looks for a line to print."""
UNWANTED_END_WITHIN_S = 5.0
"""How long a drill that nobody wants is waited for, should it be in a call into its adapter that does not return."""
NOBODY_WAITS = "nobody waits for it any more"
"""Why a drill ends that was started for a test which does not want its result."""

Say = Callable[[str, float], None]
"""Prints what a drill waits for, and for how long at most from now; 0.0 where it waits no more."""


@dataclass(frozen=True, slots=True)
class Order:
    """A drill that somebody wants: ``key`` names it (a test's node id)."""

    key: str
    scenario: Scenario
    terms: Terms
    clauses: tuple[str, ...] | None
    rules: WorkspaceRules


@dataclass(slots=True, eq=False)
class _Job:
    """An ordered drill, waiting or in flight; ``is_asked_for`` says that a test waits for it."""

    order: Order
    adapter: Adapter
    is_asked_for: bool = False
    result: Future[DrillResult] = field(default_factory=Future)
    said: queue.SimpleQueue[tuple[str, float]] = field(default_factory=queue.SimpleQueue)
    thread: threading.Thread | None = None


class TrackedRecorder(Recorder):
    """A recorder client that knows which drills are open, and which thread opened each."""

    def __init__(self, *args: Any) -> None:
        self.open: dict[str, tuple[OpenDrill, threading.Thread]] = {}
        self._unwanted: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.runner_path: RunnerPath | None = None
        super().__init__(*args)

    def open_drill(self, **wanted: Any) -> OpenDrill:
        """As in the recorder; the program of ``cancel_runner_path`` becomes this drill's runner."""
        thread = threading.current_thread()
        if thread in self._unwanted:
            raise DrillError(NOBODY_WAITS)
        drill = super().open_drill(**wanted)
        self.open[drill.id] = (drill, thread)
        if thread in self._unwanted:  # since it was looked at above
            self.finish(drill, NOBODY_WAITS)
        if self.runner_path is not None:
            self.runner_path.announce(drill.id, drill.run.argv)
        return drill

    def another_run(self, drill: OpenDrill, name: str, **wanted: Any) -> Run:
        """As in the recorder; the program of ``cancel_runner_path`` becomes that run's runner."""
        run = super().another_run(drill, name, **wanted)
        if self.runner_path is not None:
            self.runner_path.announce(drill.id, run.argv)
        return run

    def finish(self, drill: OpenDrill, why: str) -> list[dict[str, Any]]:
        """As in the recorder."""
        try:
            return super().finish(drill, why)
        finally:
            self.open.pop(drill.id, None)
            if self.runner_path is not None:
                self.runner_path.withdraw(drill.id)

    def finish_those_of(self, thread: threading.Thread) -> None:
        """End every drill that a thread has open, and open no other for it."""
        self._unwanted.add(thread)
        for drill, opened_by in list(self.open.values()):
            if opened_by is thread:
                self.finish(drill, NOBODY_WAITS)


class Session:
    """What the plugin keeps for one pytest process.

    Args:
        histories: the folder that takes a folder with this process's histories.
        origin: where ``histories`` came from, for messages.
        jobs: how many drills may be in flight; None for the default of the shared adapters, and any number for others.
    """

    def __init__(self, *, histories: Path, origin: str, jobs: int | None) -> None:
        self._histories_root = histories
        self._origin = origin
        self.jobs = jobs
        self._lock = threading.RLock()
        self._recorder: TrackedRecorder | None = None
        self._folder: Path | None = None
        self._drivers: list[tuple[Adapter, Driver]] = []
        self._lanes = Lanes()
        self._jobs: dict[str, _Job] = {}
        self._waiting: list[_Job] = []
        self._flying: list[_Job] = []
        self._at_most: list[tuple[Adapter, int]] = []
        self._closed = False
        self.failed: dict[str, Exception] = {}
        self.left: list[Path] = []

    # ------------------------------------------------------------------ one drill

    def run(self, order: Order, adapter: Adapter, say: Say) -> DrillResult:
        """The drill's result: of the drill that was started ahead, if there is one for this very adapter, or of a new one."""
        job = self._begin(order, adapter)
        try:
            return self._wait(job, say)
        except BaseException:
            self._abandon([job])
            raise

    async def run_async(self, order: Order, adapter: Adapter, say: Say) -> DrillResult:
        """The same, for a test that runs on a loop of asyncio or trio, which goes on meanwhile."""
        wait = _wait_on_trio if running_library() == "trio" else _wait_on_asyncio
        job = self._begin(order, adapter)
        try:
            return await wait(job, say)
        except BaseException:
            self._abandon([job])
            raise

    def order_ahead(self, orders: Sequence[Order], adapter: Adapter, *, jobs: int) -> None:
        """Let drills that tests will ask for later, in this order, start beside the one that is asked for next; again for more of them.

        At most ``jobs`` of this adapter are in flight. One of them is what a test waits for; of the others those that take longest
        go first, or the last of them would fly alone.
        """
        with self._lock:
            if all(known is not adapter for known, _ in self._at_most):
                self._at_most.append((adapter, jobs))
            new = [_Job(order, adapter) for order in orders if order.key not in self._jobs]
            self._jobs.update({job.order.key: job for job in new})
            self._waiting += sorted(new, key=lambda job: -expected_s(job.order.scenario, job.order.terms))

    def drop(self, key: str) -> None:
        """The test of that key has ended; a drill that was started for it, and that it never asked for, is ended."""
        with self._lock:
            job = self._jobs.pop(key, None)
        self._end([job] if job is not None else [])

    def _begin(self, order: Order, adapter: Adapter) -> _Job:
        self._refuse_when_closed()
        with self._lock:
            job = ahead = self._jobs.pop(order.key, None)
            if job is None or job.adapter is not adapter or job.order != order:
                job = _Job(order, adapter)
                self._waiting.append(job)
            job.is_asked_for = True
            self._fill()
        if ahead is not None and ahead is not job:
            self._abandon([ahead])
        return job

    def _fill(self) -> None:
        while self._waiting and not self._closed and self._has_lane(job := self._next()):
            self._waiting.remove(job)
            self._start(job)

    def _next(self) -> _Job:
        """Of those that wait: what a test waits for; else, unless that is in flight, what the next test will ask for; else the longest."""
        asked_for = next((job for job in self._waiting if job.is_asked_for), None)
        if asked_for is not None:
            return asked_for
        if not any(job.is_asked_for for job in self._flying):
            coming = next((job for job in self._jobs.values() if not job.result.done()), None)
            if coming in self._waiting:
                return coming
        return self._waiting[0]

    def _has_lane(self, job: _Job) -> bool:
        """Whether one more may be in flight: as many as was asked for, or as the most careful of the adapters that are in flight takes."""
        taken = [jobs for adapter, jobs in self._at_most if any(other.adapter is adapter for other in (*self._flying, job))]
        at_most = min(taken, default=None) if self.jobs is None else self.jobs
        return at_most is None or len(self._flying) < at_most

    def _start(self, job: _Job) -> None:
        self._flying.append(job)
        job.thread = threading.Thread(target=self._fly, args=(job,), name=f"cancelcontract-drill-{job.order.scenario.id}", daemon=True)
        job.thread.start()

    def _fly(self, job: _Job) -> None:
        job.result.set_running_or_notify_cancel()  # from here on nobody who gives up can take the future away
        try:
            order = job.order
            result = conduct(
                self.recorder(),
                self.driver(job.adapter),
                order.scenario,
                order.terms,
                clauses=order.clauses,
                rules=order.rules,
                history=self.history_path(order.key, order.scenario.id),
                lanes=self._lanes,
                progress=lambda text, at_most_s: job.said.put((text, at_most_s)),
            )
        except BaseException as error:  # it is raised in the thread that waits
            job.result.set_exception(error)
        else:
            job.result.set_result(result)
        finally:
            with self._lock:
                self._flying.remove(job)
                self._fill()

    def _wait(self, job: _Job, say: Say) -> DrillResult:
        while True:
            try:
                return job.result.result(timeout=LOOK_EVERY_S)
            except FutureTimeout:
                if job.result.done():
                    raise
            finally:
                _print_what_was_said(job, say)

    def _end(self, jobs: Sequence[_Job]) -> None:
        """End drills that nobody wants, and wait until they ask their adapters no more."""
        self._abandon(jobs)
        ends_s = time.monotonic() + UNWANTED_END_WITHIN_S
        for job in jobs:
            if job.thread is not None:
                job.thread.join(max(0.0, ends_s - time.monotonic()))

    def _abandon(self, jobs: Sequence[_Job]) -> None:
        """Nobody wants their results any more: end what they have started. Their threads see that their drills are over and end."""
        with self._lock:
            self._waiting = [job for job in self._waiting if job not in jobs]
            recorder = self._recorder
        for job in jobs:
            if recorder is not None and job.thread is not None and not job.result.done():
                with contextlib.suppress(RecorderFailed):  # then the recorder is gone, and has ended everything
                    recorder.finish_those_of(job.thread)

    # ------------------------------------------------------------------ what all drills share

    def recorder(self) -> TrackedRecorder:
        """The recorder, started at the first drill.

        Raises:
            DrillError: it cannot be started.
        """
        with self._lock:
            self._refuse_when_closed()
            if self._recorder is None:
                try:
                    recorder = TrackedRecorder.start()
                except (OSError, RecorderFailed) as error:
                    raise DrillError(f"the recorder cannot be started, so no drill can be run: {error}") from error
                assert isinstance(recorder, TrackedRecorder)  # for the type checker: start() makes one of its class
                self._recorder = recorder
            return self._recorder

    def runner_path(self) -> RunnerPath:
        """The folder-maker for workers that live before any run; from now on one drill at a time, unless it was asked otherwise.

        Raises:
            DrillError: the recorder, in whose folder it lives, cannot be started.
        """
        with self._lock:
            recorder = self.recorder()
            if recorder.runner_path is None:
                recorder.runner_path = RunnerPath(Path(recorder.ask("ping")["root"]) / "path")
                self.jobs = self.jobs or 1
            return recorder.runner_path

    def driver(self, adapter: Adapter) -> Driver:
        """The one driver of an adapter; an adapter that cannot be driven is a TypeError that says why."""
        with self._lock:
            for known, driver in self._drivers:
                if known is adapter:
                    return driver
            driver = driver_for(adapter)
            self._drivers.append((adapter, driver))
            return driver

    def close_driver(self, adapter: Adapter) -> None:
        """The adapter has had its last drill; those that were started ahead of tests which never came are ended first."""
        with self._lock:
            found = [pair for pair in self._drivers if pair[0] is adapter]
            self._drivers = [pair for pair in self._drivers if pair[0] is not adapter]
            unwanted = [job for job in self._jobs.values() if job.adapter is adapter]
            self._jobs = {key: job for key, job in self._jobs.items() if job.adapter is not adapter}
            self._at_most = [pair for pair in self._at_most if pair[0] is not adapter]
        self._end(unwanted)
        for _, driver in found:
            driver.close()

    def history_path(self, key: str, scenario: str) -> Path:
        """A new file for a drill's history, named after its test.

        Raises:
            DrillError: the folder cannot be made.
        """
        with self._lock:
            folder = self._folder
            if folder is None:
                folder = self._folder = make_history_folder(self._histories_root, self._origin)
            stem = _file_name(key) or scenario
            path, number = folder / f"{stem}.jsonl", 1
            while path.exists():
                number += 1
                path = folder / f"{stem}-{number}.jsonl"
            path.touch()
            return path

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise DrillError("pytest is ending, so no drill is started any more")

    def close(self) -> None:
        """End every drill and the recorder; waits for no thread. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            recorder, self._recorder = self._recorder, None
            drivers, self._drivers = self._drivers, []
        try:
            if recorder is not None:
                recorder.close()
                self.left = recorder.left
        finally:
            for _, driver in drivers:
                driver.close(within_s=5.0)


async def _wait_on_asyncio(job: _Job, say: Say) -> DrillResult:
    import asyncio

    waiting = asyncio.wrap_future(job.result)
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOK_EVERY_S)
            _print_what_was_said(job, say)
        return waiting.result()
    except BaseException:
        waiting.cancel()  # or it would call back into a loop that is closed by then
        raise


async def _wait_on_trio(job: _Job, say: Say) -> DrillResult:
    import trio

    while not job.result.done():
        # In a thread, and so by the real clock: a test's own one (MockClock) would let these pauses pass at once.
        await trio.to_thread.run_sync(futures.wait, [job.result], LOOK_EVERY_S)
        _print_what_was_said(job, say)
    return job.result.result()


def running_library() -> str:
    """Whose event loop runs in this thread: ``asyncio``, ``trio``, or ``""`` for neither. Imports nothing: a loop that runs is loaded."""
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    is_asyncio = is_task = is_trio = False
    if asyncio is not None:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            is_asyncio = True
            is_task = asyncio.current_task() is not None
    if trio is not None and not is_task:  # one of them may run inside the other
        with contextlib.suppress(RuntimeError):
            trio.lowlevel.current_task()
            is_trio = True
    return "trio" if is_trio else "asyncio" if is_asyncio else ""


def make_history_folder(root: Path, origin: str) -> Path:
    """A new folder for the histories of this process, which version control ignores.

    Raises:
        DrillError: it cannot be made, or cannot be written into.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        root.mkdir(parents=True, exist_ok=True)
        ignore = root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("# made by pytest-cancelcontract\n*\n", encoding="utf-8")
        folder = root / f"{stamp}-{os.getpid()}"
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DrillError(f"histories cannot be written to {root} (from {origin}): {error.strerror or error}") from error
    return folder


def _file_name(key: str) -> str:
    path, _, name = key.partition("::")
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", f"{path.rpartition('/')[2]}-{name}").strip("-.")[-150:]


def _print_what_was_said(job: _Job, say: Say) -> None:
    while True:
        try:
            waits_for, at_most_s = job.said.get_nowait()
        except queue.Empty:
            return
        say(waits_for, 0.0 if job.result.done() else at_most_s)
