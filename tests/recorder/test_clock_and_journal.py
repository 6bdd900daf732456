"""The clock notices when nobody could run; the journal notices when nothing can be written."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

from pytest_cancelcontract import history
from pytest_cancelcontract.recorder.clock import Clock
from pytest_cancelcontract.recorder.journal import Journal

FULL = Path("/dev/full")


def test_a_clock_that_was_kept_from_running_says_by_how_much() -> None:
    clock = Clock()
    clock.take()
    ctypes.PyDLL(None).usleep(100_000)  # holds the interpreter lock, so that no other thread can wake
    late = clock.take()
    assert late.worst_s >= 0.08
    assert late.until_s - late.since_s >= 0.1


def test_lateness_is_forgotten_once_the_clock_has_run_again() -> None:
    """Until then it is counted in every window that it reaches into: too much lateness costs a second run, too little a wrong verdict."""
    clock = Clock()
    ctypes.PyDLL(None).usleep(200_000)
    assert clock.take().worst_s >= 0.15
    until = time.monotonic() + 10
    while clock.take().worst_s >= 0.15:
        assert time.monotonic() < until


def test_what_is_noted_is_on_disk_at_once_and_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "h.jsonl"
    journal = Journal(path, {"scenario": "polite"})
    journal.add("adapter", "pressed", at_s=2.0, trigger=True)
    journal.add("lifeline", "hello", "7:1", at_s=1.0, role="leader")
    read = history.load(path)
    assert [(seen.at_s, seen.kind, seen.subject) for seen in read.observations] == [(1.0, "hello", "7:1"), (2.0, "pressed", "")]
    assert read.header["scenario"] == "polite"
    journal.close()
    journal.add("adapter", "late")
    assert len(history.load(path).observations) == 2


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    journal = Journal(path, {})
    journal.add("adapter", "pressed", at_s=2.0)
    journal.close()
    with path.open("a") as file:
        file.write('{"at_s": 3.0, "witn')
    assert len(history.load(path).observations) == 1


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "h.jsonl", {})
    full = os.open(FULL, os.O_WRONLY)
    os.dup2(full, journal._file)
    os.close(full)
    journal.add("adapter", "pressed")
    assert journal.failure.startswith(f"cannot write the history {tmp_path / 'h.jsonl'}: No space left")
    journal.close()
    with pytest.raises(OSError, match="No space left"):
        Journal(FULL, {})


def test_any_thread_may_take() -> None:
    clock = Clock()
    threads = [threading.Thread(target=clock.take) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.take().worst_s >= 0
