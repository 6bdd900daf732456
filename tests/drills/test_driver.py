# ruff: noqa: ARG002, ARG005 - an adapter's method takes what it is given, needed or not
"""Driving adapters that answer, block, raise, or are not what they should be."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, cast

import pytest

from pytest_cancelcontract.adapters.driver import Driver, Question, Returned
from pytest_cancelcontract.adapters.protocol import Adapter, Outcome, call_left_s
from pytest_cancelcontract.run import Run

RUN = cast("Run", object())


class Plain:
    """Answers at once, in plain threads."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []
        self.answer: Any = "running"

    def start(self, run: Run) -> str:
        self.seen.append(("start", run))
        return "the handle"

    def cancel(self, handle: str) -> None:
        self.seen.append(("cancel", handle))

    def outcome(self, handle: str) -> Any:
        self.seen.append(("outcome", handle))
        return self.answer


class OnLoop:
    """Answers from coroutines, all on one loop."""

    def __init__(self) -> None:
        self.loops: set[object] = set()
        self.was_cancelled = threading.Event()
        self.is_waiting = threading.Event()

    async def start(self, run: Run) -> asyncio.Event:
        self.loops.add(asyncio.get_running_loop())
        return asyncio.Event()

    async def cancel(self, handle: asyncio.Event) -> None:
        self.loops.add(asyncio.get_running_loop())
        handle.set()

    async def wait(self, handle: asyncio.Event) -> Outcome:
        self.loops.add(asyncio.get_running_loop())
        self.is_waiting.set()
        try:
            await handle.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return Outcome.CANCELLED

    async def close(self) -> None:
        self.loops.add(asyncio.get_running_loop())


class Stuck(Plain):
    """Its methods block until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def cancel(self, handle: str) -> None:
        self.let_go.wait(30)


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    made: list[Driver] = []
    yield made
    for driver in made:
        driver.close(within_s=1.0)


def _started(adapter: Adapter, drivers: list[Driver]) -> tuple[Driver, int]:
    driver = Driver(adapter)
    drivers.append(driver)
    handle = driver.ask(Question("start", run=RUN), within_s=5).handle
    assert handle is not None
    return driver, handle


def test_the_handle_stays_on_this_side(drivers: list[Driver]) -> None:
    adapter = Plain()
    driver, handle = _started(adapter, drivers)
    assert driver.ask(Question("cancel", handle), within_s=5).error is None
    assert driver.ask(Question("outcome", handle), within_s=5).outcome is Outcome.RUNNING
    assert isinstance(handle, int)
    assert adapter.seen == [("start", RUN), ("cancel", "the handle"), ("outcome", "the handle")]


def test_an_answer_carries_the_times_around_the_call(drivers: list[Driver]) -> None:
    driver, handle = _started(Plain(), drivers)
    before = time.monotonic()
    answer = driver.ask(Question("outcome", handle), within_s=5)
    assert before <= answer.began_s <= answer.ended_s <= time.monotonic()


class _Foreign(Enum):
    CANCELLED = "cancelled"


@pytest.mark.parametrize("value", [None, True, 0, "canceled", "CANCELLED", b"cancelled", _Foreign.CANCELLED])
def test_an_answer_that_is_no_outcome_is_an_error_that_names_it(value: object, drivers: list[Driver]) -> None:
    adapter = Plain()
    driver, handle = _started(adapter, drivers)
    adapter.answer = value
    answer = driver.ask(Question("outcome", handle), within_s=5)
    assert answer.outcome is None
    assert answer.error == f"outcome must answer with one of running, cancelling, cancelled, failed, succeeded, got {value!r}"


@pytest.mark.parametrize("error", [ValueError("no such\njob"), SystemExit(3), KeyboardInterrupt(), pytest.fail.Exception("in the adapter")])
def test_whatever_an_adapter_raises_is_an_answer(error: BaseException, drivers: list[Driver]) -> None:
    class Raises(Plain):
        def cancel(self, handle: str) -> None:
            raise error

    driver, handle = _started(Raises(), drivers)
    answer = driver.ask(Question("cancel", handle), within_s=5)
    assert answer.error is not None
    assert answer.error.startswith(type(error).__name__)
    assert "\n" not in answer.error
    assert "in cancel" in answer.trace


def test_a_call_that_blocks_does_not_block_its_caller(drivers: list[Driver]) -> None:
    adapter = Stuck()
    driver, handle = _started(adapter, drivers)
    answer = driver.ask(Question("cancel", handle), within_s=0.05)
    assert answer.is_overrun
    assert answer.error is not None
    assert answer.error.startswith("cancel did not return within 0.05")
    assert driver.ask(Question("outcome", handle), within_s=5).outcome is Outcome.RUNNING
    adapter.let_go.set()


def test_what_is_done_around_a_call_is_done_in_its_thread_and_in_order(drivers: list[Driver]) -> None:
    adapter = Plain()
    driver, handle = _started(adapter, drivers)
    order: list[str] = []
    threads: set[str] = set()

    def before() -> None:
        threads.add(threading.current_thread().name)
        order.append(f"before, calls made: {len(adapter.seen)}")

    def after(returned: Returned) -> None:
        order.append(f"after, calls made: {len(adapter.seen)}, error: {returned.error}")

    assert driver.begin(Question("cancel", handle), within_s=5, before=before, after=after).answer().error is None
    assert order == ["before, calls made: 1", "after, calls made: 2, error: None"]
    assert threads == {"cancelcontract-cancel"}


class _Undocumented(BaseException):
    """Somebody's own, below everything that is meant to be caught."""


@pytest.mark.parametrize(
    ("error", "is_clean"),
    [
        (ValueError("no such job"), True),
        (SystemExit(1), False),
        (KeyboardInterrupt(), False),
        (asyncio.CancelledError(), False),
        (concurrent.futures.CancelledError(), False),
        (_Undocumented(), False),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_is_clean_where_it_is_an_ordinary_exception(
    error: BaseException, is_clean: bool, is_async: bool, drivers: list[Driver]
) -> None:
    class Raises(Plain):
        def cancel(self, handle: str) -> None:
            raise error

    class RaisesOnLoop(Plain):
        async def cancel(self, handle: str) -> None:  # type: ignore[override]
            raise error

    driver, handle = _started(RaisesOnLoop() if is_async else Raises(), drivers)
    seen: list[Returned] = []
    answer = driver.begin(Question("cancel", handle), within_s=5, after=seen.append).answer()
    assert [(one.error, one.is_clean, one.at_s) for one in seen] == [(answer.error, is_clean, answer.ended_s)]


def test_disrupting_says_how(drivers: list[Driver]) -> None:
    class CanFreeze(Plain):
        def disrupt(self, handle: str, how: str) -> None:
            self.seen.append((how, handle))

        def recover(self, handle: str) -> None:
            self.seen.append(("recover", handle))

    adapter = CanFreeze()
    driver, handle = _started(adapter, drivers)
    assert driver.ask(Question("disrupt", handle, how="freeze"), within_s=5).error is None
    assert driver.ask(Question("recover", handle), within_s=5).error is None
    assert adapter.seen[1:] == [("freeze", "the handle"), ("recover", "the handle")]
    assert driver.capabilities() == ("outcome", "disrupt", "recover", "limit", "stall")


def test_coroutines_share_one_loop_that_ends_with_the_driver() -> None:
    adapter = OnLoop()
    driver = Driver(adapter)
    handle = driver.ask(Question("start", run=RUN), within_s=5).handle
    waiting = driver.begin(Question("wait", handle), within_s=5)
    assert driver.ask(Question("cancel", handle), within_s=5).error is None
    assert waiting.answer().outcome is Outcome.CANCELLED
    closed = driver.close()
    assert closed is not None
    assert closed.error is None
    assert len(adapter.loops) == 1
    loop = adapter.loops.pop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert loop.is_closed()
    assert driver.close() is None


def test_forgetting_a_run_cancels_the_coroutine_that_waits_for_it(drivers: list[Driver]) -> None:
    adapter = OnLoop()
    driver, handle = _started(adapter, drivers)
    driver.begin(Question("wait", handle), within_s=60)
    assert adapter.is_waiting.wait(5)
    driver.forget(handle)
    assert adapter.was_cancelled.wait(5)
    assert "LookupError" in str(driver.ask(Question("wait", handle), within_s=5).error)


def test_forgetting_a_run_lets_go_of_whoever_waits_for_a_thread(drivers: list[Driver]) -> None:
    adapter = Stuck()
    driver, handle = _started(adapter, drivers)
    call = driver.begin(Question("cancel", handle), within_s=60)
    driver.forget(handle)
    answer = call.answer()
    assert (answer.error, answer.is_overrun) == ("cancel was given up", True)
    adapter.let_go.set()


def test_closing_ends_the_coroutines_that_are_left() -> None:
    adapter = OnLoop()
    driver = Driver(adapter)
    handle = driver.ask(Question("start", run=RUN), within_s=5).handle
    driver.begin(Question("wait", handle), within_s=60)
    assert adapter.is_waiting.wait(5)
    driver.close()
    assert adapter.was_cancelled.is_set()


def test_a_plain_method_may_return_an_awaitable(drivers: list[Driver]) -> None:
    class Mixed(Plain):
        def outcome(self, handle: str) -> Any:
            async def answer() -> str:
                return "failed"

            return answer()

    driver, handle = _started(Mixed(), drivers)
    assert driver.ask(Question("outcome", handle), within_s=5).outcome is Outcome.FAILED


def test_a_wait_that_returns_too_early_is_an_error(drivers: list[Driver]) -> None:
    class Hasty(Plain):
        def wait(self, handle: str) -> str:
            return "cancelling"

    driver, handle = _started(Hasty(), drivers)
    answer = driver.ask(Question("wait", handle), within_s=5)
    assert answer.error == "wait must block until the outcome is cancelled, failed or succeeded, got 'cancelling'"


def test_a_call_knows_when_its_caller_stops_waiting(drivers: list[Driver]) -> None:
    left: list[float] = []

    class Looks(Plain):
        def cancel(self, handle: str) -> None:
            left.append(call_left_s(99))

    driver, handle = _started(Looks(), drivers)
    driver.ask(Question("cancel", handle), within_s=5)
    assert 4 < left[0] <= 5
    assert call_left_s(99) == 99


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        pytest.param(object(), "object lacks start(run) and cancel(handle)", id="neither method"),
        pytest.param(type("OnlyStart", (), {"start": lambda self, run: None})(), "OnlyStart lacks cancel(handle)", id="one method"),
        pytest.param(Plain, "an adapter must be an object, got the class Plain; write Plain()", id="a class"),
        pytest.param(None, "NoneType lacks", id="nothing"),
    ],
)
def test_what_is_no_adapter_is_refused_by_name(adapter: object, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        Driver(cast("Adapter", adapter))
    assert message in str(refused.value)


def test_capabilities_are_the_optional_methods_that_exist() -> None:
    assert Driver(Plain()).capabilities() == ("outcome", "stall")
    assert Driver(OnLoop()).capabilities() == ("wait", "stall")
    assert Driver(Stuck()).name == "Stuck"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param(lambda: [time.time()], ", which was ", id="the wall clock's"),
        pytest.param(lambda: [time.monotonic(), float("nan")], " then, got nan", id="no number"),
        pytest.param(lambda: [float("-inf")], " then, got -inf", id="never"),
        pytest.param(lambda: [time.monotonic() + 5], ", which was ", id="still to come"),
        pytest.param(lambda: [10**400], "got [1000", id="beyond all numbers"),
        pytest.param(lambda: ["soon"], "got ['soon']", id="a word"),
        pytest.param(lambda: None, "got None", id="nothing"),
    ],
)
def test_a_heartbeat_is_a_moment_of_the_monotonic_clock_that_has_been(value: Callable[[], Any], says: str, drivers: list[Driver]) -> None:
    class Beats(Plain):
        def heartbeats(self, handle: str) -> Any:
            return value()

    driver, handle = _started(Beats(), drivers)
    answer = driver.ask(Question("heartbeats", handle), within_s=5)
    assert (answer.moments, answer.is_misconfigured) == ((), True)
    assert answer.error is not None
    assert answer.error.startswith("heartbeats must be moments in seconds of time.monotonic(), ")
    assert says in answer.error


def test_heartbeats_are_told_in_order_and_may_be_a_little_ahead_of_this_clock(drivers: list[Driver]) -> None:
    now_s = time.monotonic()

    class Beats(Plain):
        def heartbeats(self, handle: str) -> list[float]:
            return [now_s + 0.3, now_s - 5]

    driver, handle = _started(Beats(), drivers)
    answer = driver.ask(Question("heartbeats", handle), within_s=5)
    assert (answer.moments, answer.error) == ((now_s - 5, now_s + 0.3), None)
