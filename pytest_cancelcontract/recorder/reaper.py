"""Ends processes, and only such as are proven ours: each is held by a pidfd whose identity was checked when it was taken."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table

END_WITHIN_S = 1.5
"""How long killed processes are waited for; two seconds after pytest is gone nothing may be left."""


class Held:
    """A process that is ours, held by pidfd: a signal sent through it can reach nobody else."""

    def __init__(self, identity: Identity, pidfd: int) -> None:
        self.identity = identity
        self.pidfd = pidfd

    @classmethod
    def take(cls, identity: Identity) -> Held | None:
        """Hold the process, or None if it is gone."""
        pidfd = process_table.open_pidfd(identity)
        return None if pidfd is None else cls(identity, pidfd)

    def has_ended(self) -> bool:
        """Whether the whole process (every thread of it) is dead, waited for or not."""
        if self.pidfd < 0:
            return True
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def kill(self) -> bool:
        """Send SIGKILL; whether it may be sent from here. A process that is gone is no error."""
        return self._send(signal.SIGKILL)

    def stop(self) -> bool:
        """Send SIGSTOP, in the same way."""
        return self._send(signal.SIGSTOP)

    def go_on(self) -> bool:
        """Send SIGCONT, in the same way."""
        return self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        if self.pidfd >= 0:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except PermissionError:
                return False
            except OSError:
                pass
        return True

    def release(self) -> None:
        """Let the descriptor go."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def descendants(table: dict[int, process_table.Stat], known: Iterable[Identity], sessions: Iterable[int]) -> list[Identity]:
    """Processes of the table that descend from known ones, or live in a session that is ours.

    Args:
        table: one reading of the process table.
        known: processes that are ours; one that the table shows with another start time is somebody else's.
        sessions: ids of sessions whose leader is held unreaped, so that the id cannot be anybody else's.
    """
    ours = {identity.pid for identity in known if (stat := table.get(identity.pid)) is not None and stat.identity == identity}
    ours_by_session = set(sessions)
    children: dict[int, list[process_table.Stat]] = {}
    for stat in table.values():
        children.setdefault(stat.ppid, []).append(stat)
    waiting = list(ours)
    found = []
    for stat in table.values():
        if stat.sid in ours_by_session and stat.identity.pid not in ours:
            ours.add(stat.identity.pid)
            waiting.append(stat.identity.pid)
            found.append(stat.identity)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child.identity.pid not in ours:
                ours.add(child.identity.pid)
                waiting.append(child.identity.pid)
                found.append(child.identity)
    return found


def end_all(known: Iterable[Identity]) -> None:
    """End these processes and what descends from them, looking again until nothing is left or the time for it is over."""
    ours = {identity: held for identity in known if (held := Held.take(identity)) is not None}
    until = time.monotonic() + END_WITHIN_S
    while True:
        for identity in descendants(process_table.all_processes(), ours, []):
            if (held := Held.take(identity)) is not None:
                ours[identity] = held
        living = [held for held in ours.values() if not held.has_ended()]
        for held in living:
            held.kill()
        if not living or time.monotonic() > until:
            break
        time.sleep(0.005)
    for held in ours.values():
        held.release()
