"""One live run as the recorder's watch of an agent keeps it: its processes are held and looked at, and never signalled or ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cancelcontract.follow import target
from pytest_cancelcontract.recorder import descent, process_table
from pytest_cancelcontract.recorder.agent_watch import AgentWatch
from pytest_cancelcontract.recorder.process_table import Stat
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.roll import Command, Member


class LiveWatch(AgentWatch):
    """The watch of a run that is somebody's work: found from outside as an agent's is, and let alone.

    ``place`` is its workspace, None where nobody named one.
    """

    place: Path | None = None
    _shared: int | None = None

    def begin(self, held: Held, by: str) -> None:
        """Follow this process, and all that comes of it, from now on; ``by`` is the means by which it is known."""
        where = self._open_workspace()
        pid = held.identity.pid
        stat = process_table.read_stat(pid)
        if stat is not None and stat.sid != pid:
            self._shared = stat.sid
        member = Member(held, "leader", self.roll.attempt_of_found(held.identity), is_found=True)
        self._hold(member, by, found=True, pid=process_table.own_pid(pid), roles=["leader"], **where)

    def see(self, table: Mapping[int, Stat]) -> None:
        """Look for newcomers in one reading of the process table, and at how those that are known stand."""
        descent.find_foreign(self, target.apart(table, self._shared))
        self.see_names(table)
        self.see_stopped(table)
        self.sample_starvation()

    def signal(self, name: str, to: str) -> float:
        """Nobody of a live system is signalled.

        Raises:
            PermissionError: always.
        """
        raise PermissionError(f"a live run is not signalled ({name} to its {to})")

    def disrupt(self, how: str) -> str:
        """Nothing of a live system is disturbed; says so."""
        return f"the right to {how} anything: the run is a live one"

    def release(self) -> None:
        """Let go of everybody."""
        for member in self.roll.members.values():
            self._loop.remove_reader(member.held.pidfd)
            member.held.release()

    def _begins(self, command: Command) -> None:
        held = Held.take(command.held.identity)
        assert held is not None  # it is a child that nobody has waited for
        self.begin(held, "start")

    def _open_workspace(self) -> dict[str, Any]:
        """Where the workspace is, as a leader's hello would say it; nothing without one."""
        if self.place is None:
            return {}
        status = self.place.stat()
        where = {"cwd": str(self.place), "cwd_dev": status.st_dev, "cwd_ino": status.st_ino, "uid": os.getuid()}
        if trouble := self.workspace.open(where):
            self.problem(trouble)
        return where
