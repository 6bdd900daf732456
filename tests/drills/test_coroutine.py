"""Coroutines as wrappers, under each library: their outcome, and that a cancel is delivered as that library delivers it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

import anyio
import pytest
import trio

from pytest_cancelcontract.adapters.coroutine import Backend, CoroutineAdapter, LibraryMissing
from pytest_cancelcontract.adapters.driver import Driver, Question
from pytest_cancelcontract.adapters.hosting import driver_for
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.drill import run_drill
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms

BACKENDS: tuple[Backend, ...] = get_args(Backend)
RUN = cast("Run", object())
Sleep = Callable[[float], Awaitable[None]]
SLEEPS: dict[str, Sleep] = {"asyncio": asyncio.sleep, "trio": trio.sleep, "anyio": anyio.sleep, "anyio+trio": anyio.sleep}
CANCELLATIONS: dict[str, type[BaseException]] = {
    "asyncio": asyncio.CancelledError,
    "trio": trio.Cancelled,
    "anyio": asyncio.CancelledError,
    "anyio+trio": trio.Cancelled,
}


class _Bench:
    """Starts coroutines under one library, in this process."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.sleep = SLEEPS[backend]
        self.cancellation = CANCELLATIONS[backend]
        self.is_up = threading.Event()
        self._drivers: list[Driver] = []

    def start(self, fn: Callable[[Run], Awaitable[object]]) -> tuple[Driver, int]:
        driver = driver_for(CoroutineAdapter(fn, backend=self.backend, hosted=False))
        self._drivers.append(driver)
        handle = driver.ask(Question("start", run=RUN), within_s=10).handle
        assert handle is not None
        return driver, handle

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()


@pytest.fixture(params=BACKENDS)
def bench(request: pytest.FixtureRequest) -> Iterator[_Bench]:
    one = _Bench(request.param)
    yield one
    one.close()


def _outcome(driver: Driver, handle: int) -> Outcome | None:
    return driver.ask(Question("wait", handle), within_s=10).outcome


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, Outcome.SUCCEEDED),
        ("cancelled", Outcome.CANCELLED),
        (Outcome.FAILED, Outcome.FAILED),
        ("done", Outcome.SUCCEEDED),
        (0, Outcome.SUCCEEDED),
    ],
)
def test_what_it_returns_is_the_outcome_where_it_is_one(bench: _Bench, value: object, outcome: Outcome) -> None:
    async def returns(_run: Run) -> object:
        await bench.sleep(0)
        return value

    assert _outcome(*bench.start(returns)) is outcome


class _Stop(BaseException):
    """A team's own."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyboardInterrupt(),
        SystemExit(0),
        _Stop(),
        pytest.fail.Exception("no"),
        GeneratorExit(),
        BaseExceptionGroup("more", [_Stop()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_that_raises_has_failed_and_ends_no_other(bench: _Bench, error: BaseException, capfd: pytest.CaptureFixture[str]) -> None:
    async def one(run: Run) -> None:
        if run is RUN:
            raise error
        bench.is_up.set()
        await bench.sleep(60)

    driver, first = bench.start(one)
    second = driver.ask(Question("start", run=cast("Run", object())), within_s=10).handle
    assert second is not None
    assert bench.is_up.wait(10)
    assert _outcome(driver, first) is Outcome.FAILED
    assert type(error).__name__ in capfd.readouterr().err
    assert driver.ask(Question("cancel", second), within_s=10).error is None
    assert _outcome(driver, second) is Outcome.CANCELLED


def test_a_cancel_is_delivered_as_the_library_does(bench: _Bench) -> None:
    seen: list[type[BaseException]] = []

    async def waits(_run: Run) -> None:
        bench.is_up.set()
        try:
            await bench.sleep(60)
        except BaseException as error:
            seen.append(type(error))
            raise

    driver, handle = bench.start(waits)
    assert bench.is_up.wait(10)
    assert driver.ask(Question("cancel", handle), within_s=10).error is None
    assert _outcome(driver, handle) is Outcome.CANCELLED
    assert seen == [bench.cancellation]


def test_a_cancellation_that_is_swallowed_is_no_cancel(bench: _Bench) -> None:
    async def swallows(_run: Run) -> None:
        bench.is_up.set()
        try:
            await bench.sleep(60)
        except bench.cancellation:
            return

    driver, handle = bench.start(swallows)
    assert bench.is_up.wait(10)
    driver.ask(Question("cancel", handle), within_s=10)
    assert _outcome(driver, handle) is Outcome.SUCCEEDED


def test_one_that_turns_its_cancellation_into_an_error_has_failed(bench: _Bench) -> None:
    async def complains(_run: Run) -> None:
        bench.is_up.set()
        try:
            await bench.sleep(60)
        except bench.cancellation:
            raise RuntimeError("interrupted") from None

    driver, handle = bench.start(complains)
    assert bench.is_up.wait(10)
    driver.ask(Question("cancel", handle), within_s=10)
    assert _outcome(driver, handle) is Outcome.FAILED


def test_one_that_turns_its_cancellation_into_anything_has_failed_and_ends_no_other(bench: _Bench) -> None:
    async def complains(run: Run) -> None:
        try:
            if run is not RUN:
                bench.is_up.set()
            await bench.sleep(60)
        except bench.cancellation:
            if run is RUN:
                raise _Stop from None
            raise

    driver, first = bench.start(complains)
    second = driver.ask(Question("start", run=cast("Run", object())), within_s=10).handle
    assert second is not None
    assert bench.is_up.wait(10)
    driver.ask(Question("cancel", first), within_s=10)
    assert _outcome(driver, first) is Outcome.FAILED
    assert driver.ask(Question("wait", second), within_s=0.1).is_overrun
    driver.ask(Question("cancel", second), within_s=10)
    assert _outcome(driver, second) is Outcome.CANCELLED


def test_a_plain_function_may_return_an_awaitable_and_nothing_else(bench: _Bench) -> None:
    async def agent(_run: Run) -> str:
        await bench.sleep(0)
        return "cancelled"

    assert _outcome(*bench.start(lambda run: agent(run))) is Outcome.CANCELLED

    def plain(_run: Run) -> str:
        return "done"

    driver, handle = bench.start(cast("Any", plain))
    answer = driver.ask(Question("wait", handle), within_s=10)
    assert (answer.outcome, answer.is_misconfigured) == (None, True)
    assert str(answer.error).startswith(
        "CoroutineAdapter needs an async function, and plain returned 'done', which cannot be awaited: an async"
    )


def test_a_plain_function_that_blocks_is_told_when_it_is_to_be_cancelled(bench: _Bench) -> None:
    let_go = threading.Event()

    def plain(_run: Run) -> None:
        bench.is_up.set()
        let_go.wait(10)

    driver, handle = bench.start(cast("Any", plain))
    assert bench.is_up.wait(10)
    answer = driver.ask(Question("cancel", handle), within_s=10)
    let_go.set()
    assert answer.is_misconfigured
    assert "and plain is a plain one that has not come back yet, and blocks the loop: an async function" in str(answer.error)


def test_what_runs_nothing_when_it_is_called_is_refused() -> None:
    async def yields(_run: Run) -> Any:
        yield

    def yields_too(_run: Run) -> Any:
        yield

    for fn in (yields, yields_too):
        with pytest.raises(TypeError, match=rf"^CoroutineAdapter needs a function that runs when it is called, and {fn.__name__} yields$"):
            CoroutineAdapter(fn)
    with pytest.raises(TypeError, match=r"^CoroutineAdapter needs a function, got None$"):
        CoroutineAdapter(cast("Any", None))


def test_one_that_is_cancelled_before_its_first_step_is_cancelled(bench: _Bench) -> None:
    """The loop is kept busy meanwhile, so that starting and cancelling wait for it, in their order."""
    let_go = threading.Event()
    later = cast("Run", object())

    async def one(run: Run) -> None:
        if run is RUN:
            bench.is_up.set()
            let_go.wait(10)
        await bench.sleep(60)

    driver, first = bench.start(one)
    assert bench.is_up.wait(10)
    second = driver.ask(Question("start", run=later), within_s=5).handle
    assert second is not None
    assert driver.ask(Question("cancel", second), within_s=5).error is None
    let_go.set()
    assert _outcome(driver, second) is Outcome.CANCELLED
    driver.ask(Question("cancel", first), within_s=5)
    assert _outcome(driver, first) is Outcome.CANCELLED


def test_a_loop_that_is_blocked_takes_the_press_and_does_not_hear_it(bench: _Bench) -> None:
    let_go = threading.Event()

    async def blocks(_run: Run) -> None:
        bench.is_up.set()
        let_go.wait(10)

    driver, handle = bench.start(blocks)
    assert bench.is_up.wait(10)
    pressed: list[float] = []
    call = driver.begin(Question("cancel", handle), within_s=5, before=lambda: pressed.append(time.monotonic()))
    assert call.answer().error is None
    assert pressed
    assert driver.ask(Question("wait", handle), within_s=0.1).is_overrun
    let_go.set()
    assert _outcome(driver, handle) is Outcome.SUCCEEDED


def test_closing_cancels_what_still_runs(bench: _Bench) -> None:
    ended = threading.Event()

    async def waits(_run: Run) -> None:
        bench.is_up.set()
        try:
            await bench.sleep(60)
        finally:
            ended.set()

    bench.start(waits)
    assert bench.is_up.wait(10)
    bench.close()
    assert ended.wait(5)


def test_what_is_not_there_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(_run: Run) -> None:
        """Never runs."""

    monkeypatch.setitem(sys.modules, "trio", cast("Any", None))
    needs_trio: tuple[Backend, ...] = ("trio", "anyio+trio")
    for backend in needs_trio:
        with pytest.raises(LibraryMissing) as missing:
            CoroutineAdapter(one, backend=backend)
        assert str(missing.value) == (
            f"CoroutineAdapter(backend='{backend}') needs trio, which is not installed here: pip install 'pytest-cancelcontract[trio]'"
        )
    with pytest.raises(ValueError, match=r"^backend must be one of asyncio, trio, anyio, anyio\+trio, got 'curio'$"):
        CoroutineAdapter(one, backend=cast("Backend", "curio"))


def test_it_is_named_after_its_function() -> None:
    async def run_agent(_run: Run) -> None:
        """Never runs."""

    by_task, by_scope = CoroutineAdapter(run_agent), CoroutineAdapter(run_agent, backend="trio")
    assert (by_task.name, by_task.how) == ("run_agent", "task.cancel()")
    assert (by_scope.name, by_scope.how) == ("run_agent", "the cancel scope around it")


# ---------------------------------------------------------------------- whole drills


def _end_group(pid: int) -> None:
    """TERM, and KILL after what the clean-up may take; a group that is gone by then is fine."""
    for number, pause_s in ((signal.SIGTERM, 0.6), (signal.SIGKILL, 0.0)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return
        ends_s = time.monotonic() + pause_s
        while time.monotonic() < ends_s and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.01)  # the wrapper's own wait, to a deadline


async def on_asyncio(run: Run) -> None:
    process = await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env, start_new_session=True)
    try:
        await process.wait()
    finally:
        await asyncio.to_thread(_end_group, process.pid)
        await process.wait()


async def on_trio(run: Run) -> None:
    process = await trio.lowlevel.open_process([*run.argv], cwd=run.workspace, env=run.env, start_new_session=True)
    try:
        await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_end_group, process.pid)
            await process.wait()


async def on_anyio(run: Run) -> None:
    process = await anyio.open_process([*run.argv], cwd=run.workspace, env=run.env, start_new_session=True, stdout=None, stderr=None)
    try:
        await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_end_group, process.pid)
            await process.wait()


FORGOTTEN: list[subprocess.Popen[bytes]] = []
"""Kept, so that a test can wait for what a drill in its own process has ended: one that nobody waits for complains in any later test."""


async def forgets(run: Run) -> None:
    """Ends with its task, and lets the process go on."""
    process = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env)
    FORGOTTEN.append(process)
    while process.poll() is None:
        await asyncio.sleep(0.02)


async def blocks_its_loop(run: Run) -> None:
    subprocess.run(run.argv, cwd=run.workspace, env=run.env)


WRAPPERS = {"asyncio": on_asyncio, "trio": on_trio, "anyio": on_anyio, "anyio+trio": on_anyio}


Judged = Callable[[CoroutineAdapter, str], dict[str, Verdict]]


@pytest.fixture
def judged(recorder: Recorder, terms: Terms, path: Path, read: Callable[[], History]) -> Judged:
    """Runs a drill, and has each clause judged."""

    def run(adapter: CoroutineAdapter, scenario: str) -> dict[str, Verdict]:
        driver, row = driver_for(adapter), by_id(scenario)
        try:
            run_drill(recorder, driver, row, terms, wrapper=driver.name, history=path)
        finally:
            driver.close()
        return {check.clause: check.verdict for check in judge(read(), row.clauses)}

    return run


def _broken(verdicts: dict[str, Verdict]) -> set[str]:
    return {clause for clause, verdict in verdicts.items() if verdict is Verdict.BROKEN}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scenario", ["polite", "deaf"])
def test_a_wrapper_that_ends_its_group_keeps_the_contract(backend: Backend, scenario: str, judged: Judged) -> None:
    verdicts = judged(CoroutineAdapter(WRAPPERS[backend], backend=backend), scenario)
    assert not {Verdict.BROKEN, Verdict.INCONCLUSIVE}.intersection(verdicts.values())
    assert verdicts["outcome-not-success"] is Verdict.KEPT


@pytest.mark.parametrize("hosted", [True, False])
def test_a_wrapper_that_forgets_its_process_is_told(hosted: bool, judged: Judged) -> None:
    assert {"cancel-delivered", "no-survivors"} <= _broken(judged(CoroutineAdapter(forgets, hosted=hosted), "polite"))
    for process in FORGOTTEN:
        process.wait(timeout=10)


def test_a_wrapper_that_blocks_its_loop_is_told(judged: Judged) -> None:
    assert {"cancel-delivered", "no-survivors", "outcome-reported"} <= _broken(judged(CoroutineAdapter(blocks_its_loop), "polite"))


async def handles_signals(run: Run) -> None:
    """Has a handler of its own for TERM, and ends by its own group's TERM alone."""
    heard = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: heard.set())
    process = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env)
    try:
        while process.poll() is None:
            await anyio.sleep(0.02)
    finally:
        os.killpg(os.getpgid(process.pid), signal.SIGTERM)
        process.wait()
        assert heard.is_set()


async def adds_a_handler(run: Run) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, int)
    await on_asyncio(run)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hosted_wrapper_can_handle_signals(backend: Backend, judged: Judged) -> None:
    assert not _broken(judged(CoroutineAdapter(adds_a_handler if backend == "asyncio" else handles_signals, backend=backend), "polite"))


async def interrupts_its_group(run: Run) -> None:
    process = await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env)
    try:
        await process.wait()
    finally:
        os.killpg(os.getpgid(process.pid), signal.SIGINT)
        await asyncio.sleep(60)


def test_what_would_have_interrupted_pytest_ends_a_host(judged: Judged, read: Callable[[], History]) -> None:
    assert "outcome-reported" in _broken(judged(CoroutineAdapter(interrupts_its_group), "polite"))
    (exited,) = read().of("process-table", "host-exited")
    assert exited.data["status"] == -signal.SIGINT
