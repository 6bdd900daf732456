"""Functions as wrappers: what they come back with is the outcome, and cancel is what the team calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from pytest_cancelcontract.adapters.driver import Driver, Question
from pytest_cancelcontract.adapters.function import CallableAdapter
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

RUN = cast("Run", object())


@pytest.fixture
def start() -> Iterator[Callable[[CallableAdapter], tuple[Driver, int]]]:
    drivers: list[Driver] = []

    def start(adapter: CallableAdapter) -> tuple[Driver, int]:
        drivers.append(driver_for(adapter))
        handle = drivers[-1].ask(Question("start", run=RUN), within_s=5).handle
        assert handle is not None
        return drivers[-1], handle

    yield start
    for driver in drivers:
        driver.close()


Start = Callable[[CallableAdapter], tuple[Driver, int]]


def _ignored(_run: Run) -> None:
    """A cancel that does nothing."""


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(None, "succeeded"), ("cancelled", "cancelled"), (Outcome.FAILED, "failed"), ("fine", "succeeded"), (17, "succeeded")],
)
def test_what_it_returns_is_the_outcome_where_it_is_one(value: object, outcome: str, start: Start) -> None:
    driver, handle = start(CallableAdapter(lambda _run: value, cancel=_ignored, hosted=False))
    assert driver.ask(Question("wait", handle), within_s=5).outcome == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("no"), "failed"),
        (SystemExit(0), "failed"),
        (asyncio.CancelledError(), "cancelled"),
        (concurrent.futures.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_what_it_raises_is_a_failure_or_a_cancellation(
    error: BaseException, outcome: str, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    def raises(_run: Run) -> None:
        raise error

    driver, handle = start(CallableAdapter(raises, cancel=_ignored, hosted=False))
    assert driver.ask(Question("wait", handle), within_s=5).outcome == outcome
    assert ("in raises" in capfd.readouterr().err) is (outcome == "failed")


@pytest.mark.parametrize("is_async", [False, True])
def test_cancel_is_called_with_the_run_while_the_function_goes_on(is_async: bool, start: Start) -> None:
    let_go = threading.Event()
    seen: list[Run] = []

    def waits(_run: Run) -> str:
        return "cancelled" if let_go.wait(10) else "failed"

    def cancel(run: Run) -> None:
        seen.append(run)
        let_go.set()

    async def cancel_later(run: Run) -> None:
        await asyncio.sleep(0)
        cancel(run)

    driver, handle = start(CallableAdapter(waits, cancel=cancel_later if is_async else cancel, hosted=False))
    assert driver.ask(Question("wait", handle), within_s=0.05).is_overrun
    assert driver.ask(Question("cancel", handle), within_s=5).error is None
    assert driver.ask(Question("wait", handle), within_s=5).outcome is Outcome.CANCELLED
    assert seen == [RUN]


def test_a_cancel_that_raises_is_told(start: Start) -> None:
    def refuses(_run: Run) -> None:
        raise LookupError("no such run")

    driver, handle = start(CallableAdapter(lambda _run: None, cancel=refuses, hosted=False))
    assert driver.ask(Question("cancel", handle), within_s=5).error == "LookupError: no such run"


def test_it_is_named_after_its_functions() -> None:
    def run_agent(_run: Run) -> None:
        """Never runs."""

    named, unnamed = CallableAdapter(run_agent, cancel=_ignored), CallableAdapter(lambda _run: None, cancel=lambda _run: None)
    assert (named.name, named.how) == ("run_agent", "_ignored(run)")
    assert (unnamed.name, unnamed.how) == ("CallableAdapter", "cancel(run)")


async def _agent(_run: Run) -> None:
    """Never runs."""


class _Agent:
    """An object with a coroutine function for its call."""

    async def __call__(self, _run: Run) -> None:
        """Never runs."""

    async def method(self, _run: Run) -> None:
        """Never runs."""


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (_agent, "_agent"),
        (functools.partial(_agent), "partial"),
        (functools.partial(functools.partial(_Agent())), "partial"),
        (_Agent(), "_Agent"),
        (_Agent().method, "method"),
    ],
)
def test_a_coroutine_function_is_refused_with_where_it_belongs(fn: Callable[[Run], object], name: str) -> None:
    with pytest.raises(TypeError) as refused:
        CallableAdapter(fn, cancel=_ignored)
    assert str(refused.value) == (
        f"CallableAdapter needs a plain function, got the async {name}: an async function that is cancelled by its library"
        " belongs in CoroutineAdapter(fn), a plain one in CallableAdapter(fn, cancel=…)"
    )
    CallableAdapter(_ignored, cancel=fn)


def test_what_does_not_run_when_it_is_called_is_refused() -> None:
    def yields(_run: Run) -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match=r"^CallableAdapter needs a function that runs when it is called, and yields yields$"):
        CallableAdapter(yields, cancel=_ignored)
    with pytest.raises(TypeError, match=r"^CallableAdapter needs a function, got 'stop'$"):
        CallableAdapter(_ignored, cancel=cast("Callable[[Run], object]", "stop"))


def test_a_plain_function_that_returns_a_coroutine_is_an_error_of_its_outcome(start: Start) -> None:
    driver, handle = start(CallableAdapter(lambda run: _agent(run), cancel=_ignored, hosted=False))
    answer = driver.ask(Question("wait", handle), within_s=5)
    assert (answer.outcome, answer.is_misconfigured) == (None, True)
    assert "CallableAdapter returned an awaitable (coroutine), which nobody awaits" in str(answer.error)


# ---------------------------------------------------------------------- whole drills

_processes: dict[str, subprocess.Popen[bytes]] = {}


def runs(run: Run) -> Outcome:
    process = _processes[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True)
    return Outcome.SUCCEEDED if process.wait() == 0 else Outcome.CANCELLED


def ends_the_group(run: Run) -> None:
    process = _processes[run.id]
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(0.6)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


async def ends_it_later(run: Run) -> None:
    await asyncio.to_thread(ends_the_group, run)


@pytest.mark.parametrize("hosted", [True, False])
@pytest.mark.parametrize("cancel", [ends_the_group, ends_it_later])
def test_a_wrapper_that_ends_its_group_keeps_the_contract(
    hosted: bool, cancel: Callable[[Run], object], recorder: Recorder, terms: Terms, path: Path, read: Callable[[], History]
) -> None:
    driver, row = driver_for(CallableAdapter(runs, cancel=cancel, hosted=hosted)), by_id("deaf")
    try:
        run_drill(recorder, driver, row, terms, wrapper=driver.name, history=path)
    finally:
        driver.close()
    verdicts = {check.clause: check.verdict for check in judge(read(), row.clauses)}
    assert not {Verdict.BROKEN, Verdict.INCONCLUSIVE}.intersection(verdicts.values()), verdicts
    # The tables are this process's own: a host fills a copy.
    assert bool(_processes) is not hosted
    _processes.clear()
