"""What the adapter tells of a workflow, and what it does to its worker and to the line between the two; with the real server."""

from __future__ import annotations

import asyncio
import functools
import itertools
import shlex
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.adapters.words import BadCommand
from pytest_cancelcontract.drill import Drill, DrillError, run_drill
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.recorder.process_table import identity_of, is_stopped, sight
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms
from tests.temporal.conftest import WORKER, MakeAdapter

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter, TemporalHandle, TemporalServer

pytestmark = pytest.mark.xdist_group("temporal")
SOON_S = 10.0
Body = Callable[["TemporalAdapter", "TemporalHandle"], Awaitable[None]]
Working = Callable[["TemporalAdapter", Body], None]


async def _until(question: Callable[[], Awaitable[object]]) -> None:
    """Polls to a deadline: what the server knows has no event."""
    ends_s = time.monotonic() + SOON_S
    while not await question():
        assert time.monotonic() < ends_s, "not within the time"
        await asyncio.sleep(0.02)


@pytest.fixture
def working(recorder: Recorder, terms: Terms, tmp_path: Path) -> Working:
    """Runs a test's body while a run works, and ends all of it."""

    @asynccontextmanager
    async def drilled(adapter: TemporalAdapter) -> AsyncIterator[TemporalHandle]:
        with Drill(recorder, "deaf", terms, wrapper="temporal", history=tmp_path / "drill.jsonl") as drill:
            try:
                handle = await adapter.start(drill.run)
                await drill.until_working_async()
                yield handle
            finally:
                await adapter.close()

    async def whole(adapter: TemporalAdapter, body: Body) -> None:
        async with drilled(adapter) as handle:
            await body(adapter, handle)

    return lambda adapter, body: asyncio.run(whole(adapter, body))


# ---------------------------------------------------------------------- outcome


def test_a_cancelled_run_is_running_then_cancelling_then_cancelled(working: Working, make_adapter: MakeAdapter) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        assert await adapter.outcome(handle) is Outcome.RUNNING
        waiting = asyncio.ensure_future(adapter.wait(handle))
        await adapter.cancel(handle)
        assert await adapter.outcome(handle) is Outcome.CANCELLING
        assert not waiting.done()
        assert await waiting is Outcome.CANCELLED
        assert await adapter.outcome(handle) is Outcome.CANCELLED

    working(make_adapter("kept"), body)


def test_a_terminated_run_is_cancelled_at_once(working: Working, make_adapter: MakeAdapter) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        await adapter.cancel(handle)
        assert await adapter.wait(handle) is Outcome.CANCELLED

    adapter = make_adapter("kept", more={"press": "terminate"})
    assert adapter.how == "the Temporal client's handle.terminate()"
    working(adapter, body)


def test_silence_in_the_grace_makes_a_cancelled_run_a_failed_one(working: Working, make_adapter: MakeAdapter) -> None:
    """The server takes the worker for dead, though all that it does is to wait for a run that is being ended.

    The grace is far longer than the timeout: the server may be a second late to see that one is over.
    """

    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        await adapter.cancel(handle)
        assert await adapter.wait(handle) is Outcome.FAILED

    working(make_adapter("silent_in_the_grace", heartbeat_timeout=0.5, grace=3.0), body)


def test_a_run_that_outlives_its_drill_is_terminated(working: Working, make_adapter: MakeAdapter) -> None:
    """``heartbeat_unread`` under WAIT never ends, and its worker goes with the drill."""
    kept: list[TemporalHandle] = []

    async def body(_adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        kept.append(handle)

    adapter = make_adapter("heartbeat_unread")
    working(adapter, body)

    async def status() -> str:
        seen = await kept[0].workflow.describe()
        return seen.status.name if seen.status else ""

    assert asyncio.run(status()) == "TERMINATED"


# ---------------------------------------------------------------------- heartbeats


@pytest.mark.parametrize("generations", [0, 2], ids=["of the workflow itself", "of a child's child"])
def test_heartbeats_are_those_that_the_server_saw(working: Working, make_adapter: MakeAdapter, generations: int) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        began_s = time.monotonic()

        async def enough() -> bool:
            return len([beat for beat in await adapter.heartbeats(handle) if beat > began_s]) >= 5

        await _until(enough)
        beats = await adapter.heartbeats(handle)
        assert beats == sorted(beats) and beats[-1] <= time.monotonic()
        gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
        assert min(gaps) > 0.0 and max(gaps) < 2.0, gaps

    working(make_adapter("kept", generations=generations), body)


def test_an_activity_without_heartbeats_has_none(working: Working, make_adapter: MakeAdapter) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        assert await adapter.heartbeats(handle) == []

    working(make_adapter("no_heartbeat"), body)


async def _beats_again(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
    since_s = time.monotonic()

    async def beats() -> bool:
        return max(await adapter.heartbeats(handle), default=0.0) > since_s

    await _until(beats)


async def _is_silent(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
    """What was under way has come, and then nothing does for a while."""

    async def silent() -> bool:
        beats = await adapter.heartbeats(handle)
        return bool(beats) and time.monotonic() - max(beats) > 0.6

    await _until(silent)


# ---------------------------------------------------------------------- the worker


@pytest.mark.parametrize("generations", [0, 2], ids=["of the workflow itself", "of a child's child"])
def test_the_process_that_is_killed_is_the_one_that_the_activity_is_in(
    working: Working, make_adapter: MakeAdapter, generations: int
) -> None:
    """Here it is started by a shell, as by any supervisor: it is not the process that the adapter started."""

    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        assert handle.worker is not None
        shell = handle.worker.process
        (inside,) = [int(pid) for pid in Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()]
        worker = identity_of(inside)
        assert worker is not None
        await adapter.disrupt(handle, "freeze")
        assert handle.frozen == worker
        await _until(functools.partial(_is_stopped, worker))
        await adapter.recover(handle)
        await _beats_again(adapter, handle)
        await adapter.disrupt(handle, "kill")
        await _gone(worker)

    host = shlex.join([sys.executable, "-m", "pytest_cancelcontract.adapters.temporal_worker", WORKER])
    working(make_adapter("kept", generations=generations, more={"worker": ["sh", "-c", f"{host}; wait"]}), body)


async def _is_stopped(process: Identity) -> bool:
    return is_stopped(process)


async def _gone(process: Identity) -> None:
    async def gone() -> bool:
        return not sight(process).is_running

    await _until(gone)


def test_a_frozen_worker_is_silent_until_it_is_thawed(working: Working, make_adapter: MakeAdapter) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        await _beats_again(adapter, handle)
        await adapter.disrupt(handle, "freeze")
        await _is_silent(adapter, handle)
        await adapter.recover(handle)
        await _beats_again(adapter, handle)

    working(make_adapter("kept", heartbeat_timeout=30.0), body)


@pytest.mark.slow
def test_a_worker_that_ended_is_started_again_where_a_supervisor_would(working: Working, make_adapter: MakeAdapter) -> None:
    """The server gives the task to the new one, once the heartbeats of the old one have been missed for long enough."""

    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        assert handle.worker is not None
        first = handle.worker.process
        await adapter.disrupt(handle, "kill")
        await _gone(first)
        await _beats_again(adapter, handle)
        assert handle.worker.process != first
        seen = await handle.workflow.describe()
        assert [activity.attempt for activity in seen.raw_description.pending_activities] == [2]

    working(make_adapter("kept", heartbeat_timeout=0.5, attempts=0, more={"restarts": True}), body)


@pytest.mark.parametrize("state", ["refuse", "silent"])
def test_a_worker_is_cut_off_from_its_server_and_comes_back(working: Working, make_adapter: MakeAdapter, state: Any) -> None:
    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        await _beats_again(adapter, handle)
        await adapter.engine(handle, state)
        await _is_silent(adapter, handle)
        await adapter.engine(handle, "up")
        await _beats_again(adapter, handle)

    working(make_adapter("kept", heartbeat_timeout=30.0), body)


def test_a_worker_that_does_not_come_up_is_shown_with_what_it_printed(
    make_adapter: MakeAdapter, recorder: Recorder, terms: Terms, tmp_path: Path
) -> None:
    driver = Driver(make_adapter("kept", more={"worker": WORKER.replace("make_worker", "make_nothing")}))
    try:
        with pytest.raises(DrillError, match="make_nothing"):
            run_drill(recorder, driver, by_id("polite"), terms, wrapper="temporal", history=tmp_path / "drill.jsonl")
    finally:
        driver.close()


# ---------------------------------------------------------------------- how it is made


def test_a_worker_of_ones_own_is_let_alone(temporal: TemporalServer) -> None:
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter

    adapter = TemporalAdapter("RunAgent", server=temporal, task_queue="agents")
    assert adapter.capabilities == ("wait", "outcome", "heartbeats", "stall")
    assert adapter.name == "Temporal: RunAgent"


def test_with_a_client_of_ones_own_the_line_is_not_cut(temporal: TemporalServer, working: Working, make_adapter: MakeAdapter) -> None:
    """It was connected on a loop that is gone by now, as in a session fixture."""
    from temporalio.client import Client

    async def body(adapter: TemporalAdapter, handle: TemporalHandle) -> None:
        assert handle.worker is not None and handle.worker.link is None
        await adapter.cancel(handle)
        assert await adapter.wait(handle) is Outcome.CANCELLED
        with pytest.raises(RuntimeError, match="cannot be cut off"):
            await adapter.engine(handle, "silent")

    client = asyncio.run(Client.connect(temporal.address, namespace=temporal.namespace))
    adapter = make_adapter("kept", more={"server": client})
    assert adapter.capabilities == ("wait", "outcome", "disrupt", "recover", "limit", "heartbeats", "stall")
    working(adapter, body)


def test_a_bad_setting_is_refused_when_the_adapter_is_made(temporal: TemporalServer) -> None:
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter

    with pytest.raises(ValueError, match="press must be one of cancel, terminate, got 'stop'"):
        TemporalAdapter("RunAgent", server=temporal, press="stop")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(BadCommand, match=r"unknown brace \{queue\}.*TemporalAdapter\(worker=…\)"):
        TemporalAdapter("RunAgent", server=temporal, worker="node worker.mjs {queue}")
