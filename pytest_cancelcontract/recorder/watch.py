"""What the recorder keeps of one drill: its processes, its moments (handover, deadline), and its history.

It notes and it wakes whoever waits; what the facts mean is for the clauses. The two moments that depend on the terms, the
handover and the deadline, are reckoned here because looks have to be taken at them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cancelcontract.history import OUTCOME_CAPABILITIES, TERMINAL
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.clock import STEP_AT_LEAST_S, Lateness
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.lifeline import Lifeline
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.workspace_watch import WorkspaceWatch
from pytest_cancelcontract.terms import Terms

LOOK_AGAIN_FOR_S = 0.010
"""A process that is dying within this time of a report, a handover or a second start counts as dying at it (docs/history.md)."""
CHANGES_EVERY_S = 0.25
PAST_LIMIT_S = 0.1
PAST_LIMIT_LATENESSES = 2
"""How far beyond a limit the world is still watched, so that what did not happen by then was seen not to happen: so long, and
so many times as long as the machine was late at worst, since a verdict needs more than that."""


@dataclass(slots=True)
class Member:
    """A process of the run that said hello and is held."""

    held: Held
    role: str
    attempt: Attempt
    works: bool = False
    died_s: float | None = None

    @property
    def subject(self) -> str:
        """The identity, as histories write it."""
        return str(self.held.identity)


@dataclass(slots=True)
class Attempt:
    """One leader's hello and what came with it; ``restarted`` where the drill had asked for the task to be started again."""

    id: str
    roles: list[str]
    restarted: bool
    has_looked: bool = False


@dataclass(slots=True)
class Command:
    """A command that the recorder started for the adapter; it stays unreaped until the drill is over.

    ``role`` is ``wrapper`` for the first one, and for the first one of a restart; ``helper`` for one that the adapter waits for.
    """

    held: Held
    output: Path
    role: str
    restarted: bool
    status: int | None = None

    @property
    def is_wrapper(self) -> bool:
        """It is what cancel is pressed on."""
        return self.role == "wrapper"

    def ended(self) -> str:
        """The event of its end, for whoever waits."""
        return f"end of {self.held.identity}"


class Watch:
    """One drill, from its opening to its end."""

    def __init__(
        self, id: str, token: str, folder: Path, journal: Journal, workspace: WorkspaceWatch, terms: Terms, capabilities: Iterable[str]
    ) -> None:
        self.id = id
        self.token = token
        self.folder = folder
        self.journal = journal
        self.workspace = workspace
        self.terms = terms
        self.members: dict[Identity, Member] = {}
        self.attempts: list[Attempt] = []
        self.commands: list[Command] = []
        self.found: dict[Identity, Held] = {}
        self.lifelines: list[Lifeline] = []
        self.stamp = secrets.token_hex(12)
        self.has_commands = False
        self.has_helpers = False
        self.problems: list[str] = []
        self.reaped: list[Member] = []
        self.is_finished = False
        self._capabilities = frozenset(capabilities)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: list[tuple[str, asyncio.Future[bool]]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._over_timer: asyncio.TimerHandle | None = None
        self._stray: list[str] = []
        self._pressed_s: float | None = None
        self._returned_s: float | None = None
        self._reported: str | None = None
        self._handed_over = False
        self._is_restarting = False
        self._deadline_looked = False
        self._quiet_since_s: float | None = None
        self._worst_late_s = 0.0
        self._starters: dict[str, Identity] = {}
        self._noting: asyncio.Task[None] | None = None

    # --- What happens -------------------------------------------------------------------------------------------------

    def joined(self, lifeline: Lifeline, message: Mapping[str, Any]) -> str:
        """Take a process's hello and return the answer: ``go <attempt> work|look`` or ``refused …``."""
        role = str(message.get("role", ""))
        attempt = self._attempt_of(role, message)
        if attempt is None:
            return "refused its attempt is not known"
        held, by = lifeline.peer()
        lifeline.subject = str(held.identity) if held else ""
        said = {name: value for name, value in message.items() if name not in {"say", "token", "at_s"}}
        said.update(role=role, attempt=attempt.id, said_at_s=message.get("at_s"))
        self.journal.add("lifeline", "hello", lifeline.subject, **said)
        if held is None:
            self.problem(f"a runner process ({role}) said hello and cannot be held: {by}")
            return f"refused it cannot be held by the recorder: {by}"
        self._hold(Member(held, role, attempt), by)
        if role == "leader" and attempt.restarted:
            self._start(self._look_patiently("second-hello"))
        elif role == "leader" and attempt is self.attempts[0] and (trouble := self.workspace.open(message)):
            self.problem(trouble)
        self.changed()
        return f"go {attempt.id} {'look' if attempt.restarted else 'work'}"

    def said(self, lifeline: Lifeline, message: Mapping[str, Any]) -> None:
        """Take a message of a process that has said hello."""
        kind = str(message.get("say", "nonsense"))
        data = {name: value for name, value in message.items() if name not in {"say", "at_s"}}
        self.journal.add("lifeline", kind, lifeline.subject, said_at_s=message.get("at_s"), **data)
        member = self.members.get(Identity.parse(lifeline.subject))
        if member is None:
            return
        if kind == "working":
            member.works = True
            if member.attempt.restarted:
                lifeline.say("end")
            elif self.is_working() and self._pressed_s is None:
                self._start(self.workspace.look("working"))
        elif kind == "unarmed":
            self.problem(f"the runner's {member.role} could not prove its habit {data.get('habit')!r}: {data.get('why')}")
        elif kind == "notice" and self._pressed_s is None:
            self._stray.append(f"{data.get('by')} to {member.role} {member.subject}, from pid {data.get('from_pid')}")
        elif kind == "input-ended" and self._pressed_s is not None:
            lifeline.say("notice")
        elif kind == "found":
            member.attempt.has_looked = True
        self.changed()

    def left(self, lifeline: Lifeline) -> None:
        """A lifeline has ended; that alone proves no death."""
        if not self.is_finished:
            self.journal.add("lifeline", "closed", lifeline.subject)

    def spawned(self, held: Held, output: Path, argv: list[str], *, is_helper: bool) -> Command:
        """A command runs for the adapter."""
        has_wrapper = any(one.is_wrapper and one.restarted == self._is_restarting for one in self.commands)
        role = "helper" if is_helper else "command" if has_wrapper else "wrapper"
        command = Command(held, output, role, self._is_restarting)
        self.commands.append(command)
        self.has_commands = True
        self.has_helpers = self.has_helpers or is_helper
        self.journal.add("process-table", "spawned", str(held.identity), role=role, argv=argv, pid=held.identity.pid)
        return command

    def exited(self, command: Command, status: int) -> None:
        """A command of the adapter has ended with this status (negative: by that signal)."""
        command.status = status
        at_s = self.journal.add("process-table", f"{command.role}-exited", str(command.held.identity), status=status)
        if command.is_wrapper and not command.restarted and "exit" in self._capabilities:
            outcome = "succeeded" if status == 0 else "cancelled"
            detail = f"exit status {status}" if status >= 0 else f"ended by signal {-status}"
            self.observed(at_s, "outcome", "answer", {"asked_at_s": at_s, "outcome": outcome, "by": "exit", "detail": detail})
        self.changed()

    def observed(self, at_s: float, witness: str, kind: str, data: dict[str, Any]) -> None:
        """Take an observation that the plugin made (or one made in its name)."""
        if self.is_finished:
            return
        self.journal.add(witness, kind, at_s=at_s, **data)
        if witness == "adapter" and kind == "pressed" and self._pressed_s is None:
            self._press(at_s)
        elif witness == "adapter" and kind == "cancel-returned" and self._returned_s is None:
            self._returned_s = at_s
        elif witness == "adapter" and kind == "capabilities":
            self._capabilities = frozenset(data["capabilities"])
        elif witness == "adapter" and kind == "restarting":
            self._is_restarting = True
        elif witness == "outcome" and kind == "answer" and data.get("outcome") in TERMINAL and self._reported is None:
            self._reported = str(data["outcome"])
            if self._pressed_s is not None:
                self._report(at_s)
        self.changed()

    def problem(self, what: str) -> None:
        """Something that keeps the drill from proving anything, in words for a person."""
        self.problems.append(what)
        self.journal.add("drill", "problem", what=what)

    def was_late(self, seen: Lateness) -> None:
        """Note what the clock saw since the last time."""
        self._worst_late_s = max(self._worst_late_s, seen.worst_s)
        self.journal.add("clock", "lateness", since_s=round(seen.since_s, 6), worst_s=round(seen.worst_s, 6))
        if abs(seen.stepped_s) > STEP_AT_LEAST_S:
            self.journal.add("clock", "stepped", by_s=round(seen.stepped_s, 6))

    # --- What is known ------------------------------------------------------------------------------------------------

    def alive(self) -> list[Member]:
        """The members that are not proven dead."""
        return [member for member in self.members.values() if member.died_s is None]

    def missing_roles(self) -> list[str]:
        """Roles of the newest attempt that do not work yet; ``leader`` where no leader has come."""
        if not self.attempts:
            return ["leader"]
        newest = self.attempts[-1]
        missing = list(newest.roles)
        for member in self.members.values():
            if member.attempt is newest and member.works and member.died_s is None and member.role in missing:
                missing.remove(member.role)
        return missing

    def is_working(self) -> bool:
        """Every role of the newest attempt has proven its habits and works."""
        return not self.missing_roles()

    def state(self) -> dict[str, Any]:
        """How things stand, in the shape that the plugin's side documents."""
        newest = next((one for one in reversed(self.commands) if one.is_wrapper), None)
        return {
            "working": self.is_working(),
            "attempts": len(self.attempts),
            "missing_roles": self.missing_roles(),
            "alive": [{"subject": one.subject, "role": one.role, "attempt": one.attempt.id} for one in self.alive()],
            "wrapper": newest and {"pid": newest.held.identity.pid, "exited": newest.status is not None, "status": newest.status},
            "output": str(newest.output) if newest else "",
            "reported": self._reported,
            "over": self._is_over(),
            "handed_over": self._handed_over,
            "stray": list(self._stray),
            "problems": list(self.problems),
            "looked": sum(attempt.has_looked for attempt in self.attempts),
        }

    # --- Waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, event: str, at_most_s: float) -> bool:
        """Wait for an event by name (the plugin's side lists them); False when the time is up."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters.append((event, waiter))
        self.changed()
        try:
            return await asyncio.wait_for(waiter, at_most_s)
        except TimeoutError:
            return self._has_happened(event)
        finally:
            self._waiters = [one for one in self._waiters if one[1] is not waiter]

    def changed(self) -> None:
        """Wake whoever waits for what has happened by now."""
        if self.journal.failure and self.journal.failure not in self.problems:
            self.problems.append(self.journal.failure)
        self._note_quiet()
        for event, waiter in self._waiters:
            if not waiter.done() and self._has_happened(event):
                waiter.set_result(True)
        if self._over_timer is not None:
            self._over_timer.cancel()
        if self._pressed_s is not None and any(event == "over" and not waiter.done() for event, waiter in self._waiters):
            now = time.monotonic()
            self._over_timer = self._loop.call_later(max(0.001, self._ends_at_s(now) - now), self.changed)

    def _has_happened(self, event: str) -> bool:
        name, _, or_exited = event.partition("-or-")
        if self.journal.failure or self.is_finished:
            return True
        if or_exited and self._wrapper_has_exited(restarted=name.startswith("second")):
            return True
        if name == "working":
            return self.is_working() or bool(self.problems)
        if name == "second-working":
            return any(attempt.restarted and attempt.has_looked for attempt in self.attempts)
        if any(event == one.ended() and one.status is not None for one in self.commands):
            return True
        if name == "wrapper-exited":
            return self._wrapper_has_exited(restarted=self._is_restarting)
        return (name == "handover" and self._handed_over) or (name == "over" and self._is_over())

    def _wrapper_has_exited(self, *, restarted: bool) -> bool:
        return any(one.is_wrapper and one.restarted == restarted and one.status is not None for one in self.commands)

    def _is_over(self) -> bool:
        now = time.monotonic()
        return self._pressed_s is not None and now >= self._ends_at_s(now)

    def _ends_at_s(self, now: float) -> float:
        """When the drill may end, as far as it can be said now; moves on while something is still missing."""
        assert self._pressed_s is not None
        if self._quiet_since_s is not None:
            return self._quiet_since_s + self.terms.settle_s
        deadline = self._pressed_s + self.terms.deadline_after_press_s
        reference = deadline
        ends = deadline + self.terms.settle_s if self.alive() or not self.members else 0.0
        if self.alive() and not self._deadline_looked:
            ends = max(ends, now + PAST_LIMIT_S)
        if not self.alive() and self.members:
            reference = max(member.died_s or 0.0 for member in self.members.values())
        if not self._has_answered():
            ends = max(ends, reference + self.terms.kill_within_s)
        return ends + PAST_LIMIT_S + PAST_LIMIT_LATENESSES * self._worst_late_s

    def _has_answered(self) -> bool:
        covered = bool(self._capabilities.intersection(OUTCOME_CAPABILITIES))
        return self._returned_s is not None and (self._reported is not None or not covered)

    def _note_quiet(self) -> None:
        is_quiet = self._pressed_s is not None and bool(self.members) and not self.alive() and self._has_answered()
        if not is_quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = time.monotonic()

    # --- Moments ------------------------------------------------------------------------------------------------------

    def _press(self, at_s: float) -> None:
        self._pressed_s = at_s
        self.look("pressed")
        self._at(at_s + self.terms.deadline_after_press_s, self._reach_deadline)

    def _report(self, at_s: float) -> None:
        self._start(self._look_patiently("reported"))
        if self.terms.early_s:
            self._at(at_s + self.terms.early_s, self._hand_over)
        else:
            self._hand_over()

    def _reach_deadline(self) -> None:
        self.look("deadline")
        self._deadline_looked = True
        self._hand_over()
        self.changed()

    def _hand_over(self) -> None:
        if self._handed_over or self.is_finished:
            return
        self._handed_over = True
        # The processes are looked at before the stamp: whoever is caught writing after it was seen alive before.
        self._start(self._watch_handover())

    async def _watch_handover(self) -> None:
        await self._look_patiently("handover")
        self.workspace.stamp("handover")
        await self.workspace.look("handover")
        self._noting = self._start(self._note_changes())
        self.changed()

    async def _note_changes(self) -> None:
        while self.alive() and not self.is_finished:
            await asyncio.sleep(CHANGES_EVERY_S)
            await self.workspace.note_changes()

    def look(self, moment: str) -> list[process_table.Sight]:
        """Look at every member now, and note it."""
        sights = [self._sight(member) for member in self.members.values()]
        self._note_look(moment, sights)
        return sights

    async def _look_patiently(self, moment: str) -> None:
        """Look, and look again for a few milliseconds at what is alive: it may be on its way out."""
        at_s = time.monotonic()
        members = [member for member in self.members.values() if not (moment == "second-hello" and member.attempt.restarted)]
        sights = [self._sight(member) for member in members]
        while any(one.is_running for one in sights) and time.monotonic() < at_s + LOOK_AGAIN_FOR_S:
            await asyncio.sleep(0.002)
            sights = [self._sight(member) if one.is_running else one for member, one in zip(members, sights, strict=True)]
        self._note_look(moment, sights, at_s)
        self.changed()

    def _sight(self, member: Member) -> process_table.Sight:
        return process_table.sight(member.held.identity, member.role, member.attempt.id)

    def _note_look(self, moment: str, sights: list[process_table.Sight], at_s: float | None = None) -> None:
        starter = next(iter(self._starters.values()), None)
        starter_alive = process_table.sight(starter).alive if starter else None
        processes = [one.as_dict() for one in sights]
        self.journal.add("process-table", "look", at_s=at_s, moment=moment, processes=processes, starter_alive=starter_alive)

    def _at(self, moment_s: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(max(0.0, moment_s - time.monotonic()), act))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problem(f"the recorder could not finish a look: {error!r}")

    # --- Members ------------------------------------------------------------------------------------------------------

    def _attempt_of(self, role: str, message: Mapping[str, Any]) -> Attempt | None:
        if role != "leader":
            return next((one for one in self.attempts if one.id == message.get("attempt")), None)
        roles = [str(one) for one in message.get("roles") or ["leader"]]
        attempt = Attempt(f"{self.token[:6]}-{len(self.attempts) + 1}", ["leader"] if self._is_restarting else roles, self._is_restarting)
        self.attempts.append(attempt)
        return attempt

    def _hold(self, member: Member, by: str) -> None:
        seen = self._sight(member)
        stat = process_table.read_stat(member.held.identity.pid)
        # A command that became the runner (exec) was started by the recorder, which is nobody's wrapper.
        is_command = any(command.held.identity == member.held.identity for command in self.commands)
        self.journal.add(
            "process-table",
            "held",
            member.subject,
            role=member.role,
            attempt=member.attempt.id,
            ppid=seen.ppid,
            parent=seen.parent,
            pgid=seen.pgid,
            sid=seen.sid,
            comm=stat.comm if stat else "",
            by=by,
            is_command=is_command,
        )
        # A leader that belongs to init by now was started by something that has ended, and has nobody left to wait for it.
        if seen.parent and seen.ppid != 1 and member.role == "leader" and not is_command:
            self._starters[member.subject] = Identity.parse(seen.parent)
        # A process that connects twice says hello twice; it is one member.
        if (known := self.members.get(member.held.identity)) is not None:
            self._loop.remove_reader(known.held.pidfd)
            known.held.release()
        self.members[member.held.identity] = member
        self._loop.add_reader(member.held.pidfd, self._died, member)
        self._quiet_since_s = None

    def _died(self, member: Member) -> None:
        self._loop.remove_reader(member.held.pidfd)
        member.died_s = self.journal.add("process-table", "died", member.subject, role=member.role, attempt=member.attempt.id)
        if self._handed_over and not self.alive():
            self.workspace.stamp("gone")
            self._start(self.workspace.note_changes("gone"))
        self.changed()

    # --- The end ------------------------------------------------------------------------------------------------------

    async def last_looks(self) -> None:
        """What is looked at before anything is ended."""
        await asyncio.gather(*(self._tasks - {self._noting}), return_exceptions=True)
        self.look("end")
        self.workspace.stamp("end")
        await self.workspace.note_changes("end")

    def finish(self, why: str, reaped: list[Member]) -> None:
        """Close the history; whatever waits is woken."""
        self.reaped = reaped
        ended = [{"subject": member.subject, "role": member.role} for member in reaped]
        self.journal.add("drill", "reaped", processes=ended)
        self.journal.add("drill", "ended", why=why)
        self.is_finished = True
        for timer in (*self._timers, self._over_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        self.journal.close()
        self.workspace.close()
        self.changed()
