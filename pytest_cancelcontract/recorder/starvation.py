"""How long a wrapper's processes have waited for a processor: on a busy machine that is the machine's lateness and not theirs.

The clock's own thread is woken before theirs, so it does not see what they wait. Each process counts as far as it was last read.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table


class Starvation:
    """The sum over all processes of one wrapper, also of those that have ended since they were read."""

    def __init__(self) -> None:
        self._waited_s: dict[Identity, float] = {}

    def read(self, processes: Iterable[Identity]) -> float:
        """Read these again, and return the sum of all that were ever read, in seconds; it never falls."""
        for identity in processes:
            waited_s = process_table.waited_s(identity.pid)
            if waited_s > self._waited_s.get(identity, 0.0) and process_table.identity_of(identity.pid) == identity:
                self._waited_s[identity] = waited_s
        return sum(self._waited_s.values())
