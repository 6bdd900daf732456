"""Finds what belongs to a drill though it never said hello: by descent, by its session, by a stamp in its environment, and what is between
pytest and a runner.

Nothing is signalled here; what is found is held by pidfd, with its identity checked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table, reaper
from pytest_cancelcontract.recorder.agent_watch import ADOPTION, AgentWatch
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.watch import Watch

STAMP = "CANCELCONTRACT_COMMAND"
"""The variable by which what descends from a drill's commands is told at its end, if it detached before it could be sampled."""

ENVIRONMENT = "its environment"
"""The means by which a process is known that bears the stamp."""

Table = dict[int, process_table.Stat]
"""One reading of the process table, by pid."""


def find_descendants(watches: list[Watch], table: Table) -> None:
    """Hold what descends from the drills' commands and runners, while the chain of parents can still be seen."""
    for watch in watches:
        known = {*watch.roll.members, *watch.roll.found, *(command.held.identity for command in watch.roll.commands)}
        sessions = [command.held.identity.pid for command in watch.roll.commands]
        for identity in reaper.descendants(table, known, sessions):
            if identity not in known and (held := Held.take(identity)) is not None:
                watch.roll.found[identity] = held
                seen = table[identity.pid]
                watch.journal.add(
                    "process-table", "found", str(identity), comm=seen.comm, ppid=seen.ppid, pgid=seen.pgid, sid=seen.sid, by="descent"
                )


def find_stamped(watch: Watch, table: Table) -> None:
    """Hold what carries the drill's stamp, and was not there before the drill's commands: that got it from one of them."""
    if watch.roll.first_command is None:
        return
    for pid, stat in _since_start(watch, table).items():
        is_new = stat.identity not in watch.roll.found and process_table.carries(pid, STAMP, watch.roll.stamp)
        if is_new and (held := _take_stamped(watch, stat.identity)) is not None:
            watch.roll.found[stat.identity] = held


def _take_stamped(watch: Watch, identity: Identity) -> Held | None:
    """Hold a process that carried the stamp a moment ago, if it still does; it may have become another program in between."""
    held = Held.take(identity)
    # Held, so that the pid is this process's until it is let go.
    if held is not None and not process_table.carries(identity.pid, STAMP, watch.roll.stamp):
        held.release()
        return None
    return held


def find_foreign(watch: AgentWatch, table: Table) -> None:
    """Make members of an agent's processes: what descends from it, lives in a session of its, carries the stamp, or was adopted.

    Nothing that was there before the agent is its, by whatever means. A session is its where a process of its made it: one that a server
    started for it, which was already there, has the stamp and lives among the server's own.

    What lets go of its parent within a few milliseconds (a double fork) is lost to descent, and what leaves its session as well to both;
    the stamp finds it, unless it was taken out of the environment. By then its parent is the agent's launcher, who has no child that is
    not the agent's: so it is found all the same. Nobody is taken for the agent's by its folder or its files.
    """
    tried: set[Identity] = set()
    while found := {identity: by for identity, by in _foreign(watch, table) if identity not in tried}:
        tried.update(found)
        for identity, by in found.items():
            held = _take_stamped(watch, identity) if by == ENVIRONMENT else Held.take(identity)
            if held is not None:
                watch.found(held, table[identity.pid], by)
            elif by != ENVIRONMENT and table[identity.pid].state not in "ZX":
                watch.missed(table[identity.pid], by)


def _foreign(watch: AgentWatch, table: Table) -> Iterator[tuple[Identity, str]]:
    """Who of the table is the agent's and no member yet, with the means by which that is known; who is known by several comes again."""
    members, commands = watch.roll.members, [command.held.identity for command in watch.roll.commands]
    known = [*commands, *(member.held.identity for member in watch.roll.living())]
    newer = _since_start(watch, table)
    launcher = watch.launcher
    if launcher is not None and (seen := table.get(launcher.pid)) is not None and seen.identity == launcher:
        for stat in table.values():
            if stat.ppid == launcher.pid and stat.identity not in members and stat.identity not in commands:
                yield stat.identity, ADOPTION
    for pid, stat in newer.items():
        if watch.roll.first_command is not None and stat.identity not in members and process_table.carries(pid, STAMP, watch.roll.stamp):
            yield stat.identity, ENVIRONMENT
    # A session's id is nobody else's while a process is left in it; the commands are held unreaped.
    made = {identity.pid for identity in (*commands, *members)}
    sessions = {seen.sid for one in known if (seen := newer.get(one.pid)) is not None and seen.identity == one and seen.sid in made}
    for identity in reaper.descendants(newer, known, sessions):
        if identity not in members:
            yield identity, "its session"
    for identity in reaper.descendants(newer, known, []):
        if identity not in members:
            yield identity, "descent"


def _since_start(watch: Watch, table: Table) -> Table:
    """The processes of the table that are older than neither the drill's first command nor the leader that is followed."""
    first = watch.roll.first_command  # one that was waited for is no longer among the commands, and may have left something
    began = [first.start] if first is not None else []
    began += [member.held.identity.start for member in watch.roll.members.values() if member.role == "leader"]
    since = min(began, default=math.inf)
    return {pid: stat for pid, stat in table.items() if stat.identity.start >= since}


def hand_over(watch: Watch, others: list[Watch], table: Table) -> set[Identity]:
    """What a drill must not end, because the runner of another one is it or lives below it: that one holds it from now on.

    A service that starts itself at its first submission belongs to that drill's command, and serves the next ones as well.
    """
    spared: set[Identity] = set()
    for other in others:
        needed = {stat.identity for member in other.roll.living() for stat in process_table.line_of(member.held.identity.pid, table)}
        ours = {*watch.roll.found, *(command.held.identity for command in watch.roll.commands)}
        # What a submission left in the background may be about to start the other's runner, or may be it, before its hello.
        may_be_needed = set(watch.roll.found) if watch.roll.has_helpers and not other.roll.is_working() else set()
        for identity in ours.intersection(needed | may_be_needed):
            spared.add(identity)
            if identity not in other.roll.found and (held := Held.take(identity)) is not None:
                other.roll.found[identity] = held
    return spared


class Hosts:
    """What stands between pytest and the runners: an adapter's own wrapper, a worker. It goes when pytest is gone, not before."""

    def __init__(self, guarded: Identity) -> None:
        self._guarded = guarded
        self._held: dict[Identity, Held] = {}

    def hold(self, runner: Identity) -> None:
        """Hold what stands between pytest and a runner (an adapter's own wrapper, a worker): it goes when pytest is gone, not before."""
        line = [stat.identity for stat in process_table.line_of(runner.pid)]
        above = line[1 : line.index(self._guarded)] if self._guarded in line else []
        if any(identity.pid == os.getpid() for identity in above):
            return  # what the recorder has started goes with its drill
        for identity in above:
            if identity not in self._held and (held := Held.take(identity)) is not None:
                self._held[identity] = held

    def release_ended(self) -> None:
        """Let go of those that are dead."""
        for identity, held in list(self._held.items()):
            if held.has_ended():
                held.release()
                del self._held[identity]

    def stop(self) -> None:
        """Stop them: a shell would go on to its next command when its runner is ended, and start what nobody has seen yet."""
        for held in self._held.values():
            held.stop()

    def kill(self) -> None:
        """End them, and what descends from them."""
        for identity in reaper.descendants(process_table.all_processes(), self._held, []):
            if (held := Held.take(identity)) is not None:
                self._held[identity] = held
        for held in self._held.values():
            held.kill()
