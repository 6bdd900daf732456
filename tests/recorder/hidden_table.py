"""The tests' own reading of the process table. It shares no line with the recorder's, which is checked against it.

A process is one of a run's by its command line, which bears the run's token; a forked one has its parent's.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

STAT = re.compile(r"(?P<pid>\d+) \(.*\) (?P<state>\S) (?P<ppid>\d+)(?: \S+){17} (?P<start>\d+) ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """A living process: its first thread's state, and the states of its living threads."""

    pid: int
    start: int
    ppid: int
    state: str
    threads: str

    @property
    def subject(self) -> str:
        """As histories name it."""
        return f"{self.pid}:{self.start}"


def runners(token: str) -> dict[str, Row]:
    """All living processes of the runner that bear the token, by subject."""
    # The table is not read in one moment: of one that starts another and ends, either may be missed; the next reading has the other.
    return _reading(token) or _reading(token)


def _reading(token: str) -> dict[str, Row]:
    rows = (_living(folder, token) for folder in Path("/proc").glob("[0-9]*"))
    return {row.subject: row for row in rows if row is not None}


def status(pid: int, name: str) -> str:
    """A line of ``/proc/PID/status``."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def signals(pid: int, name: str) -> set[str]:
    """The named set of signals of a process: ``SigBlk``, ``SigIgn``, ``ShdPnd``."""
    bits = int(status(pid, name), 16)
    return {number.name for number in signal.Signals if bits >> (number - 1) & 1}


def descriptors(pid: int) -> set[int]:
    """What a process has open."""
    return {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def _living(folder: Path, token: str) -> Row | None:
    try:
        first = STAT.match((folder / "stat").read_text())
        threads = {task: STAT.match(_text(task / "stat")) for task in folder.glob("task/*")}
        living = {task: read["state"] for task, read in threads.items() if read and read["state"] not in "ZX"}
        # Not the process's own command line: that of one whose first thread is gone is empty.
        words = _text(next(iter(living)) / "cmdline").split("\0") if living else []
    except OSError:
        return None
    is_runner = words[1:3] == ["-I", "-S"] and words[3].endswith("/uncooperative_runner/run.py") and token in words
    if first is None or not is_runner:
        return None
    return Row(int(first["pid"]), int(first["start"]), int(first["ppid"]), first["state"], "".join(sorted(living.values())))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # a thread that has ended meanwhile
