"""A command of the operator's: one that presses the button, or asks what the console says. It is waited for, and never ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_AT_MOST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of it: when it was begun and over (monotonic, seconds), its status, and what it printed.

    ``status`` is negative for a signal, and None where it is still at it when its time was up.
    """

    began_s: float
    over_s: float
    status: int | None
    output: str

    @property
    def last_line(self) -> str:
        """The last line that it printed and that is not empty."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else ""

    @property
    def error(self) -> str:
        """What went wrong, in a few words; empty where nothing did."""
        if self.status is None:
            return f"it had not ended after {self.over_s - self.began_s:.3g} s"
        told = f": {self.last_line}" if self.last_line else ""
        return f"it ended with status {self.status}{told}" if self.status else ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A command at work: when it was begun (monotonic, seconds), and where its output goes."""

    began_s: float
    process: subprocess.Popen[bytes]
    output: Path


def begin(argv: Sequence[str], output: Path) -> Begun:
    """Start a command, in a session of its own so that a Ctrl-C here does not reach it; with its output in a file.

    Raises:
        OSError: it cannot be started.
    """
    began_s = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    return Begun(began_s, process, output)


async def answer(begun: Begun, within_s: float) -> Answered:
    """What becomes of it. One that takes too long is left alone, as it may be half way through what it does to a live system."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(begun.process.pid)
    loop.add_reader(pidfd, ended.set)
    waiting = asyncio.ensure_future(ended.wait())
    try:
        # Not wait_for: up to Python 3.11 it swallows a cancel that comes at the same moment as the end.
        await asyncio.wait([waiting], timeout=within_s)
    finally:
        waiting.cancel()
        loop.remove_reader(pidfd)
        os.close(pidfd)
    over_s = time.monotonic()
    with begun.output.open("rb") as file:
        said = file.read(OUTPUT_AT_MOST).decode("utf-8", "replace")
    return Answered(begun.began_s, over_s, begun.process.poll(), said)
