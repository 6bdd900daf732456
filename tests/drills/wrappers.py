"""Tiny wrappers for real drills, run by file path: ``python wrappers.py <name> <word> …`` starts the words as its child.

``kept`` ends the child's whole group, by force after half a second, and waits for it; the others have the fault of their name.
"""

# ruff: noqa: PTH123, PTH208 - nothing is imported that a bare interpreter would have to load first

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

GRACE_S = 0.5


def kept(words: list[str]) -> int:
    """TERM to the group, KILL to the group after the grace, status 1."""
    child = subprocess.Popen(words, start_new_session=True)
    cancelled = _on_term()
    status = _wait(child, cancelled)
    if status is not None:
        return status
    os.killpg(child.pid, signal.SIGTERM)
    # Waiting would free the group's number, and its other members need not have left: so look without waiting.
    _until(lambda: _has_exited(child), GRACE_S)
    _until(lambda: not _others(child.pid), GRACE_S)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return 1


def ignores_its_child(words: list[str]) -> int:
    """Leaves at TERM and tells the child nothing."""
    child = subprocess.Popen(words, start_new_session=True)
    status = _wait(child, _on_term())
    return 1 if status is None else status


def deaf(words: list[str]) -> int:
    """Does nothing at TERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return subprocess.Popen(words).wait()


def fails_to_start(_words: list[str]) -> int:
    """Complains and ends, and never starts anything."""
    print("starting\x1b[31m …", flush=True)
    print("no configuration found", file=sys.stderr)
    return 3


def never_starts_it(_words: list[str]) -> int:
    """Lives on without a child."""
    print("thinking", flush=True)
    cancelled = _on_term()
    while not cancelled:
        signal.pause()
    return 0


def _on_term() -> list[int]:
    cancelled: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: cancelled.append(number))
    return cancelled


def _wait(child: subprocess.Popen[bytes], cancelled: list[int]) -> int | None:
    while not cancelled:
        try:
            return child.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
    return None


def _has_exited(child: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _others(group: int) -> list[int]:
    members = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            members.append(int(name))
    return members


def _until(happened: object, limit_s: float) -> None:
    ends = time.monotonic() + limit_s
    while not happened() and time.monotonic() < ends:  # type: ignore[operator]
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))
