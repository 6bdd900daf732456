"""The control that keeps the contract: ``python kept.py GRACE_S RUNNER…``.

Told by SIGTERM to stop, it tells the runner, gives it the grace, kills whatever has come of it and waits for all of that; then it ends,
with status 143. Linux; standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.01
TOLD = 128 + signal.SIGTERM


def children() -> list[int]:
    """The pids of the processes whose parent this one is, dead or alive; none can be a stranger's while it is not waited for."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                text = (place / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if int(text.rpartition(") ")[2].split()[1]) == os.getpid():
                found.append(int(place.name))
    return found


def wait_for_the_dead() -> bool:
    """Wait for every child that is dead by now; whether another one lives."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def main(grace_s: float, command: list[str]) -> int:
    """Run the command to its end, or until SIGTERM comes."""
    # What lets go of its parent becomes a child of this process, wherever it has gone, PR_SET_CHILD_SUBREAPER(2const).
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    runner = subprocess.Popen(command, start_new_session=True)
    while not told and wait_for_the_dead():
        time.sleep(LOOK_EVERY_S)
    for pid in children():
        os.kill(pid, signal.SIGTERM)
    until_s = time.monotonic() + grace_s
    while wait_for_the_dead() and time.monotonic() < until_s:
        time.sleep(LOOK_EVERY_S)
    # Again and again: the children of whoever dies come to this process, to be killed in the next round.
    while wait_for_the_dead():
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)
    runner.returncode = 0  # it was waited for above, and not through this object
    return TOLD if told else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
