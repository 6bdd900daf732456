"""Who may drill beside whom."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_cancelcontract.conduct import Lanes


def test_drills_share_the_road() -> None:
    lanes, together = Lanes(), threading.Barrier(3)

    def drill() -> None:
        with lanes.shared():
            together.wait(5)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(drill) for _ in range(3)]:
            done.result(5)


def test_no_more_than_so_many_at_once() -> None:
    lanes, lock = Lanes(2), threading.Lock()
    inside, most = 0, 0

    def drill() -> None:
        nonlocal inside, most
        with lanes.shared():
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(drill) for _ in range(50)]:
            done.result(5)
    assert 1 <= most <= 2


def test_alone_waits_for_the_others_and_goes_before_those_that_come_after() -> None:
    lanes = Lanes()
    order: list[str] = []
    first_is_in, first_may_leave = threading.Event(), threading.Event()

    def first() -> None:
        with lanes.shared():
            first_is_in.set()
            first_may_leave.wait(5)
            order.append("first leaves")

    def alone() -> None:
        with lanes.alone():
            order.append("alone")

    def later() -> None:
        with lanes.shared():
            order.append("later")

    with ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(first)]
        assert first_is_in.wait(5)
        waits.append(pool.submit(alone))
        _until_wanted(lanes)
        waits.append(pool.submit(later))
        first_may_leave.set()
        for wait in waits:
            wait.result(5)
    assert order == ["first leaves", "alone", "later"]


def _until_wanted(lanes: Lanes) -> None:
    """Entering alone() is seen from outside only by what it keeps out."""
    deadline = threading.Event()
    for _ in range(5000):
        with lanes._changed:
            if lanes._want_alone:
                return
        deadline.wait(0.001)
    raise AssertionError("nobody asked to be alone within 5 s")


def test_a_drill_that_fails_frees_its_lane() -> None:
    lanes = Lanes(1)
    for lane in (lanes.shared, lanes.alone):
        with pytest.raises(ValueError, match="boom"), lane():
            raise ValueError("boom")
    with lanes.alone():
        pass


def test_a_road_without_lanes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one lane is needed, got 0"):
        Lanes(0)
