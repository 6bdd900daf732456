"""A system that is not ours, for ``cancelcontract watch``: a run with children of several kinds, which note every signal that they get.

    python live_system.py FOLDER KIND…

It says ``ready LEADER CHILD…`` (pids) once all of it is at work, and ends by itself after a minute. The leader ends at SIGTERM, and nobody
tells its children. A child that is not ``plain`` notes signals and stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LIVES_S = 60.0
NOTICES = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def child(folder: Path, kind: str) -> None:
    """``plain`` sleeps; ``writer`` opens, appends and closes; ``holder`` keeps its file open; ``quiet`` writes nothing."""
    if kind != "plain":
        for number in NOTICES:
            signal.signal(number, lambda got, _frame: note(folder, got))
    kept = (folder / "held.txt").open("a") if kind == "holder" else None
    print("up", flush=True)
    until_s = time.monotonic() + LIVES_S
    while time.monotonic() < until_s:
        if kept is not None:
            kept.write("a line\n")
            kept.flush()
        elif kind == "writer":
            with (folder / "written.txt").open("a") as file:
                file.write("a line\n")
        time.sleep(0.05)


def note(folder: Path, number: int) -> None:
    """Note a signal beside the workspace."""
    with (folder.parent / f"{folder.name}.signals").open("a") as file:
        file.write(f"{os.getpid()} {signal.Signals(number).name}\n")


def leader(folder: Path, kinds: list[str]) -> None:
    """Start the children; they are in sessions of their own but for ``plain``."""
    started = []
    for kind in kinds:
        words = [sys.executable, "-I", "-S", __file__, str(folder), "--child", kind]
        made = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=kind != "plain")
        assert made.stdout is not None
        made.stdout.readline()
        started.append(made)
    print("ready", os.getpid(), *(one.pid for one in started), flush=True)
    time.sleep(LIVES_S)


if __name__ == "__main__":
    if sys.argv[2:3] == ["--child"]:
        child(Path(sys.argv[1]), sys.argv[3])
    else:
        leader(Path(sys.argv[1]), sys.argv[2:])
