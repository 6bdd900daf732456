"""How late the machine itself is: a thread that wants to wake every few milliseconds and writes down when it did not.

No timing can be trusted to less than this, so every timing verdict is bounded by it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

WAKES_EVERY_S = 0.005
STEP_AT_LEAST_S = 0.05
"""A wall clock that moves against the monotonic one by more than this was set by somebody."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """The worst lateness between two moments of the monotonic clock, and by how much the wall clock was stepped meanwhile."""

    since_s: float
    until_s: float
    worst_s: float
    stepped_s: float


class Clock:
    """The witness thread; :meth:`take` hands out what it saw since the last time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since_s = time.monotonic()
        self._worst_s = 0.0
        self._due_s = self._since_s
        self._wall_offset_s = time.time() - time.monotonic()
        threading.Thread(target=self._run, name="clock", daemon=True).start()

    def take(self) -> Lateness:
        """The worst lateness since the last call; a thread that is late at this very moment counts with what it is late by now."""
        now = time.monotonic()
        offset = time.time() - time.monotonic()
        with self._lock:
            worst = max(self._worst_s, now - self._due_s, 0.0)
            seen = Lateness(self._since_s, now, worst, offset - self._wall_offset_s)
            self._since_s, self._worst_s = now, 0.0
        if abs(seen.stepped_s) > STEP_AT_LEAST_S:
            self._wall_offset_s = offset
        return seen

    def _run(self) -> None:
        while True:
            due = time.monotonic() + WAKES_EVERY_S
            with self._lock:
                self._due_s = due
            time.sleep(WAKES_EVERY_S)
            late = time.monotonic() - due
            with self._lock:
                self._worst_s = max(self._worst_s, late)
