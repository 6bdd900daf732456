"""Who belongs to one drill: its attempts, the processes that said hello, the commands of its adapter, and what was found of them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.plan import FIRST
from pytest_cancelcontract.recorder.reaper import Held

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""How exactly the kernel tells when a process was started."""


@dataclass(slots=True)
class Member:
    """A process of the run that is held: it said hello, or is of an agent and was found (``is_found``).

    ``has_input`` while its standard input is open, as far as is known; ``taking`` are the notice signals that it said to be about to take,
    and has not reported.
    """

    held: Held
    role: str
    attempt: Attempt
    has_input: bool = False
    works: bool = False
    is_wedged: bool = False
    spends: bool = False
    died_s: float | None = None
    is_found: bool = False
    taking: set[str] = field(default_factory=set)

    @property
    def subject(self) -> str:
        """The identity, as histories write it."""
        return str(self.held.identity)


@dataclass(slots=True)
class Attempt:
    """One leader's hello and what came with it, and of which run it is.

    ``restarted`` where the drill had asked for the task to be started again, and ``overlaps`` if something of the first run was alive
    then; ``has_worked`` once all of its roles did at a time. ``wrapper`` is the one of the recorder's commands that its leader stands
    below, None where it was started by somebody else.
    """

    id: str
    roles: list[str]
    restarted: bool
    run: str = FIRST
    overlaps: bool = False
    has_looked: bool = False
    wrapper: Command | None = None
    has_worked: bool = False


@dataclass(slots=True)
class Command:
    """A command that the recorder started for the adapter; it stays unreaped until the drill is over.

    ``role`` is ``wrapper`` for the first one of each run, and for the first one of a restart; ``helper`` for one that the adapter waits
    for, and ``host`` for the process that the adapter itself lives in.
    """

    held: Held
    output: Path
    role: str
    restarted: bool
    run: str = FIRST
    began_s: float = 0.0
    status: int | None = None

    @property
    def is_wrapper(self) -> bool:
        """It is what cancel is pressed on."""
        return self.role == "wrapper"

    def as_dict(self) -> dict[str, Any]:
        """How it stands, as JSON-shaped data."""
        return {"pid": self.held.identity.pid, "exited": self.status is not None, "status": self.status}

    def ended(self) -> str:
        """The event of its end, for whoever waits."""
        return f"end of {self.held.identity}"


class Roll:
    """The roll of one drill. ``tokens`` are those of its runs, by which a runner process says whose it is."""

    def __init__(self, token: str) -> None:
        self.tokens = {token: FIRST}
        self.members: dict[Identity, Member] = {}
        self.attempts: list[Attempt] = []
        self.commands: list[Command] = []
        self.found: dict[Identity, Held] = {}
        self.stamp = secrets.token_hex(12)
        self.first_command: Identity | None = None
        self.has_helpers = False
        self.is_restarting = False
        self._prefix = token[:6]

    # --- Who comes ----------------------------------------------------------------------------------------------------

    def attempt_of(self, role: str, message: Mapping[str, Any]) -> Attempt | None:
        """The attempt that a hello belongs to: a new one for a leader; None for a process of an attempt that is not known."""
        if role != "leader":
            return next((one for one in self.attempts if one.id == message.get("attempt")), None)
        run = self.tokens[str(message["token"])]
        restarted = self.is_restarting and run == FIRST
        roles = ["leader"] if restarted else [str(one) for one in message.get("roles") or ["leader"]]
        return self._add(roles, restarted, run)

    def next_attempt(self) -> str:
        """The id that the next attempt will have."""
        return f"{self._prefix}-{len(self.attempts) + 1}"

    def _add(self, roles: list[str], restarted: bool = False, run: str = FIRST) -> Attempt:
        self.attempts.append(Attempt(self.next_attempt(), roles, restarted, run))
        return self.attempts[-1]

    def attempt_of_found(self, identity: Identity) -> Attempt:
        """The attempt of an agent's process: the newest, or a new one where it was started after the last of all others had died."""
        newest = self.newest_attempt()
        deaths = [one.died_s for one in self.members.values() if one.died_s is not None]
        if newest is not None and (self.alive() or not deaths or _started_s(identity) <= max(deaths) + TICK_S):
            return newest
        return self._add([])

    def spawned(self, held: Held, output: Path, role: str, run: str) -> Command:
        """A command runs for the adapter; without a role it is the run's wrapper, or one more command where there is one."""
        restarted = self.is_restarting and run == FIRST
        has_wrapper = any(one.is_wrapper and (one.run, one.restarted) == (run, restarted) for one in self.commands)
        command = Command(held, output, role or ("command" if has_wrapper else "wrapper"), restarted, run)
        self.commands.append(command)
        self.first_command = self.first_command or held.identity
        self.has_helpers = self.has_helpers or role == "helper"
        return command

    def works(self, member: Member) -> None:
        """A process has proven its habits and works."""
        member.works = True
        member.attempt.has_worked = member.attempt.has_worked or not self.missing_roles(member.attempt.run)

    # --- What is known ------------------------------------------------------------------------------------------------

    def of_run(self, run: str = FIRST) -> list[Member]:
        """The members of one run, the dead ones too."""
        return [member for member in self.members.values() if member.attempt.run == run]

    def living(self) -> list[Member]:
        """The members of all runs that are not proven dead."""
        return [member for member in self.members.values() if member.died_s is None]

    def alive(self, run: str = FIRST) -> list[Member]:
        """Those of one run."""
        return [member for member in self.living() if member.attempt.run == run]

    def newest_attempt(self, run: str = FIRST) -> Attempt | None:
        """The run's last attempt, or None."""
        return next((one for one in reversed(self.attempts) if one.run == run), None)

    def is_first(self, attempt: Attempt) -> bool:
        """Whether nothing of the first run came before this attempt."""
        return attempt is next((one for one in self.attempts if one.run == FIRST), None)

    def missing_roles(self, run: str = FIRST) -> list[str]:
        """Roles of the run's newest attempt that do not work yet; ``leader`` where no leader has come."""
        newest = self.newest_attempt(run)
        if newest is None:
            return ["leader"]
        missing = list(newest.roles)
        for member in self.members.values():
            if member.attempt is newest and member.works and member.died_s is None and member.role in missing:
                missing.remove(member.role)
        return missing

    def is_working(self) -> bool:
        """Every role of the first run's newest attempt has proven its habits and works."""
        return not self.missing_roles()

    def has_worked(self, run: str = FIRST) -> bool:
        """Some attempt of the run has worked as a whole."""
        return any(one.run == run and one.has_worked for one in self.attempts)

    def is_wedged(self) -> bool:
        """The first run works as a whole, and makes no progress any more."""
        return self.is_working() and all(member.is_wedged for member in self.alive())

    def has_ended(self) -> bool:
        """The first run has worked, and all of it is dead."""
        return self.has_worked() and not self.alive()

    def wrapper_has_exited(self, run: str = FIRST, *, restarted: bool = False) -> bool:
        """The run's wrapper (that of its restart) was started by the recorder, and has ended."""
        return self.wrapper_status(run, restarted=restarted) is not None

    def wrapper_status(self, run: str = FIRST, *, restarted: bool = False) -> int | None:
        """The status that it ended with (negative: by that signal); None while it lives, or where there is none."""
        wrappers = (one for one in self.commands if one.is_wrapper and (one.run, one.restarted) == (run, restarted))
        return next((one.status for one in wrappers if one.status is not None), None)

    def host(self) -> Command | None:
        """The process that the adapter lives in, where it has one of its own."""
        return next((one for one in self.commands if one.role == "host"), None)

    def wrapper(self) -> Command | None:
        """The first run's newest wrapper, or None."""
        return next((one for one in reversed(self.commands) if one.is_wrapper and one.run == FIRST), None)

    def second_wrapper(self) -> Command | None:
        """The wrapper of the first run's restart, where the recorder started one."""
        return next((one for one in self.commands if one.is_wrapper and one.run == FIRST and one.restarted), None)

    def has_second_looked(self) -> bool:
        """The task's second start came up, and has looked for what the first run left.

        One that an engine made by itself meanwhile is not the one that was asked for, as long as that one may come yet.
        """
        looked = self._restarts_that_looked()
        second, first = self.second_wrapper(), next((one for one in self.attempts if one.run == FIRST), None)
        may_come = second is not None and second.status is None and first is not None and first.wrapper is not None
        return any(attempt.wrapper is second for attempt in looked) if may_come else bool(looked)

    def has_any_looked(self) -> bool:
        """Some start of the task since the drill asked for it has looked, whoever made it."""
        return bool(self._restarts_that_looked())

    def _restarts_that_looked(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.restarted and attempt.has_looked]

    def output(self) -> str:
        """The file with what the team's code printed: the wrapper's, or where the adapter lives in a process of its own, that one's."""
        shown = self.wrapper() or self.host()
        return str(shown.output) if shown else ""


def _started_s(identity: Identity) -> float:
    """When the kernel started a process, on the monotonic clock; the kernel counts on while the machine sleeps."""
    slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return identity.start * TICK_S - slept_s
