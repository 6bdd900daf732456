"""What the recorder keeps of a drill of an agent's own command line, whose processes say nothing: they are found from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import marks, process_table
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.roll import Command, Member
from pytest_cancelcontract.recorder.watch import Watch

ADOPTION = "adoption"
"""The means by which a process is known whose parent is the agent's launcher."""
MISSED_AT_MOST = 50
TOKENS_STREAMED = 5
WRITES_AT_WORK = 3
"""From when on an agent is at work: so many tokens of one answer, or so many lines of the command that it runs."""


class AgentWatch(Watch):
    """The watch of a drill whose first command is an agent: that one is the leader."""

    events: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        **Watch.events,
        "asked": lambda watch: watch.spending.main_requests > 0,
        "streams": lambda watch: watch.spending.most_tokens >= TOKENS_STREAMED,
        "tool-works": lambda watch: watch._has_tool_written,
    }
    launcher: Identity | None = None
    """The process of ours below which the agent runs, and which adopts its orphans; it is no process of the agent's."""
    _has_tool_written = False
    _missed = 0

    def spawned(self, held: Held, output: Path, argv: list[str], *, role: str, run: str) -> Command:
        """A command runs: the first one is the agent."""
        command = super().spawned(held, output, argv, role=role, run=run)
        if command.is_wrapper:
            self._begins(command)
        return command

    def _begins(self, command: Command) -> None:
        """The agent is started: it is the leader, and the workspace is where it was started."""
        self.spending.heard = self.changed  # what it asks for is what a trial waits for
        place = self.folder / "workspace"
        status = place.stat()
        where: dict[str, Any] = {"cwd": str(place), "cwd_dev": status.st_dev, "cwd_ino": status.st_ino, "uid": os.getuid()}
        if trouble := self.workspace.open(where):
            self.problem(trouble)
        held = Held.take(command.held.identity)
        assert held is not None  # it is a child that nobody has waited for
        member = Member(held, "leader", self.roll.attempt_of_found(held.identity), is_found=True)
        self._hold(member, "its start", found=True, pid=held.identity.pid, roles=["leader"], **where)

    def launcher_lost(self) -> None:
        """The launcher has ended before its trial: from then on nobody tells who has lost its parent, nor how the agent ends."""
        self.journal.add("process-table", "launcher-lost", str(self.launcher))
        self.problem(f"the launcher of the agent ({self.launcher}) has ended: how the agent ends is not known")
        self.changed()

    def missed(self, seen: process_table.Stat, by: str) -> None:
        """A process of the agent stood in the process table, and was gone before it could be held."""
        if self._pressed_s is not None and self._missed < MISSED_AT_MOST:
            self._missed += 1
            self.journal.add("process-table", "missed", str(seen.identity), comm=seen.comm, by=by)

    def found(self, held: Held, seen: process_table.Stat, by: str) -> None:
        """A process of the agent was found; it is a member, under the name that the process table has for it."""
        # Who was adopted descends from somebody of the agent, whom nobody may have seen; it was not started again.
        newest = self.roll.newest_attempt() if by == ADOPTION else None
        member = Member(held, seen.comm, newest or self.roll.attempt_of_found(held.identity), is_found=True)
        self._hold(member, by, seen, found=True, pid=process_table.own_pid(held.identity.pid))
        self.changed()

    def see_names(self, table: Mapping[int, process_table.Stat]) -> None:
        """See which of the found processes have become another program: until then a child bears its parent's name."""
        for member in self.roll.living():
            seen = table.get(member.held.identity.pid)
            if not member.is_found or member.role == "leader" or seen is None or seen.identity != member.held.identity:
                continue
            if seen.comm != member.role:
                member.role = seen.comm
                self.journal.add("process-table", "named", member.subject, comm=seen.comm)

    def see_work(self) -> None:
        """See whether the command that the agent was told to run writes, until it does."""
        if not self._has_tool_written:
            self._has_tool_written = marks.count(self.folder / "workspace", next(iter(self.roll.tokens))) >= WRITES_AT_WORK
            if self._has_tool_written:
                self.changed()

    def signal(self, name: str, to: str) -> float:
        """Send the agent a signal, by its process or by its group (``"pid"`` or ``"group"``), and return when that was."""
        command = self.roll.wrapper()
        if command is None:
            raise LookupError("there is no command to send a signal to")
        number = signal.Signals[name]
        at_s = round(time.monotonic(), 6)  # as the history has it: from here on the deadline is reckoned
        if to == "group":
            # It leads its group and is not waited for, so the number cannot be anybody else's.
            os.killpg(command.held.identity.pid, number)
        else:
            signal.pidfd_send_signal(command.held.pidfd, number)
        self.journal.add("adapter", "signalled", str(command.held.identity), at_s=at_s, by=name, to=to)
        self.spending.press()
        return at_s
