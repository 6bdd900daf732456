"""What all tests share: the leak guard, and pytest's own test tools."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table

pytest_plugins = ["pytester"]

STAMP = "CANCELCONTRACT_TEST_STAMP"
GONE_WITHIN_S = 5.0


def stamped(stamp: str) -> dict[Identity, str]:
    """Every living process that carries our stamp in its environment, with its command line; this process left out."""
    found = {}
    for pid, stat in process_table.all_processes().items():
        if pid == os.getpid() or stat.state in "ZX":
            continue
        try:
            if f"{STAMP}={stamp}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[stat.identity] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


def refuse_leftovers(stamp: str, of: str) -> None:
    """Fail if anybody still carries a stamp some seconds from now."""
    until = time.monotonic() + GONE_WITHIN_S
    while left := stamped(stamp):
        if time.monotonic() > until:
            pytest.fail(f"{of} left behind: " + "; ".join(f"{identity} {command}" for identity, command in left.items()))
        time.sleep(0.01)  # polls to a deadline: there is no event for "nobody carries the stamp"


@pytest.fixture(autouse=True)
def leak_guard(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process behind, told by a stamp that it inherits and that nobody else carries."""
    stamp = f"{os.getpid()}-{abs(hash(request.node.nodeid))}"
    monkeypatch.setenv(STAMP, stamp)
    yield
    refuse_leftovers(stamp, "the test")


@pytest.fixture
def digs(tmp_path: Path) -> Iterator[None]:
    """For a test that makes very deep folders: they are gone after it, for pytest's own clean-up ends by RecursionError in them (3.11)."""
    yield
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)
