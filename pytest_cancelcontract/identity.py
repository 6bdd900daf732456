"""Which process is meant: a pid together with the moment that the kernel started it.

A bare pid is reused; a pid with its start time is not, as long as the machine is up.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """One process, for ever.

    ``start`` is the kernel's start time in clock ticks since boot (proc(5), ``stat`` field 22), or the
    creation time in hundredths of a second where there is no ``/proc``.
    """

    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}"

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Read ``"4711:8812734"`` back.

        Raises:
            ValueError: the text is no identity.
        """
        pid, _, start = text.partition(":")
        return cls(int(pid), int(start))
