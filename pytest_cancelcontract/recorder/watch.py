"""What the recorder keeps of one drill: its processes, its moments (handover, deadline), and its history.

It notes and it wakes whoever waits; what the facts mean is for the clauses. The two moments that depend on the terms, the
handover and the deadline, are reckoned here because looks have to be taken at them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pytest_cancelcontract.history import OUTCOME_CAPABILITIES, TERMINAL
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import leavings, process_table, stopped
from pytest_cancelcontract.recorder.barrier import Barrier
from pytest_cancelcontract.recorder.clock import STEP_AT_LEAST_S, Lateness
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.lifeline import Lifeline
from pytest_cancelcontract.recorder.over import Over
from pytest_cancelcontract.recorder.plan import FIRST, Plan
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.roll import Attempt, Command, Member, Roll
from pytest_cancelcontract.recorder.spending import Spending
from pytest_cancelcontract.recorder.starvation import Starvation
from pytest_cancelcontract.recorder.workspace_watch import WorkspaceWatch
from pytest_cancelcontract.terms import Terms

LOOK_AGAIN_FOR_S = 0.010
"""A process that is dying within this time of a report, a handover or a second start counts as dying at it (docs/history.md)."""
CHANGES_EVERY_S = 0.25


class Watch:
    """One drill, from its opening to its end."""

    events: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "working": lambda watch: watch.roll.is_working() or bool(watch.problems),
        "held": lambda watch: watch.is_held() or bool(watch.problems),
        "ended": lambda watch: watch.roll.has_ended() or bool(watch.problems),
        "wedged": lambda watch: watch.roll.is_wedged() or bool(watch.problems),
        "delivered": lambda watch: watch._is_delivered,
        "wrapper-exited": lambda watch: watch.roll.wrapper_has_exited(restarted=watch.roll.is_restarting),
        "handover": lambda watch: watch._handed_over,
        "over": lambda watch: watch._over.is_over(),
        "second-working": lambda watch: watch.roll.has_second_looked(),
    }
    """What can be waited for, by name; the plugin's side says what each means."""

    def __init__(
        self,
        id: str,
        token: str,
        folder: Path,
        journal: Journal,
        workspace: WorkspaceWatch,
        spending: Spending,
        terms: Terms,
        capabilities: Iterable[str],
        plan: Plan,
    ) -> None:
        self.id = id
        self.roll = Roll(token)
        self.folder = folder
        self.journal = journal
        self.workspace = workspace
        self.spending = spending
        self.terms = terms
        self.lifelines: list[Lifeline] = []
        self.problems: list[str] = []
        self.reaped: list[Member] = []
        self.is_finished = False
        self._plan = plan
        workspace.living = lambda: [one.held.identity for one in self._old()]
        self._barrier = Barrier(journal)
        self._over = Over(self.roll, spending, terms, plan)
        self._covers(capabilities)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()
        self._waiters: list[tuple[str, asyncio.Future[bool]]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._over_timer: asyncio.TimerHandle | None = None
        self._early: list[tuple[float, str, Callable[[], object]]] = []
        self._pressed_s: float | None = None
        self._hello_s: float | None = None
        self._progress_s: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._reported: str | None = None
        self._is_delivered = False
        self._goes_on: set[str] = set()
        self._handed_over = False
        self._starters: dict[str, Identity] = {}
        self.folders: set[str] = set()
        self._starvation = Starvation()
        self._waited_before_s = 0.0
        self._stopped: set[Identity] = set()

    # --- What happens -------------------------------------------------------------------------------------------------

    def joined(self, lifeline: Lifeline, message: Mapping[str, Any]) -> str:
        """Take a process's hello and return the answer: ``go <attempt> work|look`` or ``refused …``; none yet where it is held."""
        role = str(message.get("role", ""))
        attempt = self.roll.attempt_of(role, message)
        if attempt is None:
            return "refused its attempt is not known"
        held, by = lifeline.peer()
        lifeline.subject = str(held.identity) if held else ""
        said = {name: value for name, value in message.items() if name not in {"say", "token", "at_s"}}
        said.update(role=role, attempt=attempt.id, run=attempt.run, said_at_s=message.get("at_s"))
        self.journal.add("lifeline", "hello", lifeline.subject, **said)
        if held is None:
            self.problem(f"a runner process ({role}) said hello and cannot be held: {by}")
            return f"refused it cannot be held by the recorder: {by}"
        self._hold(Member(held, role, attempt, has_input=message.get("stdin") == "open"), by)
        if role == "leader":
            attempt.wrapper = self._wrapper_above(held.identity)
        if role == "leader" and message.get("cwd"):
            self.folders.add(str(message["cwd"]))
        if role == "leader" and attempt.run == FIRST and not attempt.restarted and self._pressed_s is None:
            self._hello_s = _said_at_s(message)
        if role == "leader" and attempt.restarted:
            self._start(self._look_patiently("second-hello"))
        elif role == "leader" and self.roll.is_first(attempt) and (trouble := self.workspace.open(message)):
            self.problem(trouble)
        answer = " ".join(["go", attempt.id, self._errand(attempt), *self.spending.providers])
        if message.get("held"):
            self._barrier.arrive(lifeline, answer, "before its first handler")
            answer = ""
        self.changed()
        return answer

    def _wrapper_above(self, leader: Identity) -> Command | None:
        wrappers = [command for command in self.roll.commands if command.is_wrapper]
        return next((one for one in wrappers if process_table.is_below(leader.pid, one.held.identity)), None)

    def _errand(self, attempt: Attempt) -> str:
        """What a leader is to do: a second run only looks, and writes a while where the first is alive, which shows both at it."""
        if not attempt.restarted:
            return "work"
        attempt.overlaps = bool(self._old())
        return "overlap" if attempt.overlaps else "look"

    def said(self, lifeline: Lifeline, message: Mapping[str, Any]) -> None:
        """Take a message of a process that has said hello."""
        kind = str(message.get("say", "nonsense"))
        data = {name: value for name, value in message.items() if name not in {"say", "at_s"}}
        member = self.roll.members.get(Identity.parse(lifeline.subject))
        if kind == "taking":  # tells something where nothing follows it, and is then told as what waits for a stopped process
            if member is not None:
                member.taking.update(data["signals"])
            return
        self.journal.add("lifeline", kind, lifeline.subject, said_at_s=message.get("at_s"), **data)
        if member is None:
            return
        if kind == "working" and data.get("then") == "stops":
            self._start(self._stops(member))
        elif kind == "working":
            self.roll.works(member)
            if member.attempt.restarted and not member.attempt.overlaps:
                lifeline.say("end")
        elif kind == "ready":
            self._barrier.arrive(lifeline, "work", "before it works")
        elif kind == "unarmed":
            self.problem(f"the runner's {member.role} could not prove its habit {data.get('habit')!r}: {data.get('why')}")
        elif kind == "notice":
            member.taking.discard(str(data.get("by")))
            stray = f"{data.get('by')} to {member.role} {member.subject}, from pid {data.get('from_pid')}"
            self._since_press(_said_at_s(message), lambda: self._reached(member), stray)
        elif kind == "wedged":
            self._progress_s = max(self._progress_s or 0.0, _said_at_s(message))
            member.is_wedged = True
        elif kind == "input-ended":
            member.has_input = False
            self._since_press(_said_at_s(message), lambda: lifeline.say("notice"))
        elif kind == "found":
            member.attempt.has_looked = True
        elif kind == "spending":
            member.spends = True
        elif kind == "wrote" and self._pressed_s is not None and (not self.roll.alive() or self._over.has_looked_at_deadline):
            self._goes_on.add(member.attempt.run)
        self.changed()

    def left(self, lifeline: Lifeline) -> None:
        """A lifeline has ended; that alone proves no death."""
        if not self.is_finished:
            self.journal.add("lifeline", "closed", lifeline.subject)

    def spawned(self, held: Held, output: Path, argv: list[str], *, role: str, run: str) -> Command:
        """A command runs for the adapter."""
        command = self.roll.spawned(held, output, role, run)
        self.journal.add("process-table", "spawned", str(held.identity), role=command.role, argv=argv, pid=held.identity.pid, run=run)
        return command

    def exited(self, command: Command, status: int, at_s: float | None = None) -> None:
        """A command of the adapter has ended with this status (negative: by that signal), now or at the time that is given."""
        command.status = status
        facts = {"status": status, "run": command.run}
        at_s = self.journal.add("process-table", f"{command.role}-exited", str(command.held.identity), at_s=at_s, **facts)
        if command.is_wrapper and not command.restarted and "exit" in self._capabilities:
            outcome = "succeeded" if status == 0 else "cancelled"
            detail = f"exit status {status}" if status >= 0 else f"ended by signal {-status}"
            told = {"asked_at_s": at_s, "outcome": outcome, "by": "exit", "detail": detail}
            if command.run == FIRST:
                self.observed(at_s, "outcome", "answer", told)
            else:
                self.observed(at_s, "outcome", "other-answer", {"run": command.run, **told})
        self.changed()

    def observed(self, at_s: float, witness: str, kind: str, data: dict[str, Any]) -> None:
        """Take an observation that the plugin made (or one made in its name)."""
        if self.is_finished:
            return
        self.journal.add(witness, kind, at_s=at_s, **data)
        if witness == "adapter":
            self._adapter_did(at_s, kind, data)
        elif witness == "outcome" and kind == "answer" and data.get("outcome") in TERMINAL and self._reported is None:
            self._reported = str(data["outcome"])
            self._over.is_reported = True
            if self._pressed_s is not None:
                self._report(at_s)
            if self.roll.is_restarting:  # at the deadline, while the first run's wrapper was still about to clean up
                self._start(self._look_at_old_workspace("left-at-report"))
        self.changed()

    def _adapter_did(self, at_s: float, kind: str, data: Mapping[str, Any]) -> None:
        if data.get("trigger") and self._pressed_s is None:
            self._press(at_s)
        elif kind == "pressed-again":
            self._over.calls_under_way += 1
        elif kind in {"cancel-returned", "cancel-again-returned"}:
            self._over.calls_under_way -= 1
            self._acted(data.get("acted_at_s"))
        elif kind == "capabilities":
            self._covers(data["capabilities"])
        elif kind == "restarting":
            self.roll.is_restarting = True
        elif kind == "start-overdue":
            self._barrier.release("start does not return while the runner is held")
        elif kind == "other-judged":
            self.look("bystander")
        elif kind == "not-restarted":
            self._start(self._look_for_leavings())

    def problem(self, what: str) -> None:
        """Something that keeps the drill from proving anything, in words for a person."""
        self.problems.append(what)
        self.journal.add("drill", "problem", what=what)

    def _old(self) -> list[Member]:
        """Those of the first run that are not proven dead; what came with its second start is not of it."""
        return [member for member in self.roll.alive() if not member.attempt.restarted]

    def was_late(self, seen: Lateness) -> None:
        """Note what the clock saw since the last time."""
        self._over.worst_late_s = max(self._over.worst_late_s, seen.worst_s)
        self.journal.add("clock", "lateness", since_s=round(seen.since_s, 6), worst_s=round(seen.worst_s, 6))
        if abs(seen.stepped_s) > STEP_AT_LEAST_S:
            self.journal.add("clock", "stepped", by_s=round(seen.stepped_s, 6))

    def _covers(self, capabilities: Iterable[str]) -> None:
        self._capabilities = frozenset(capabilities)
        self._over.is_covered = bool(self._capabilities.intersection(OUTCOME_CAPABILITIES))

    # --- What is known ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """How things stand, in the shape that the plugin's side documents."""
        roll, wrapper, host, second = self.roll, self.roll.wrapper(), self.roll.host(), self.roll.second_wrapper()
        return {
            "working": roll.is_working(),
            "held": self.is_held(),
            "ended": roll.has_ended(),
            "wedged": roll.is_wedged(),
            "others": {run: self._state_of(run) for run in roll.tokens.values() if run != FIRST},
            "attempts": sum(one.run == FIRST for one in roll.attempts),
            "missing_roles": roll.missing_roles(),
            "alive": [{"subject": one.subject, "role": one.role, "attempt": one.attempt.id} for one in roll.alive()],
            "wrapper": wrapper and wrapper.as_dict(),
            "host": host and host.as_dict(),
            "output": roll.output(),
            "reported": self._reported,
            "over": self._over.is_over(),
            "handed_over": self._handed_over,
            "stray": [stray for _, stray, _ in self._early if stray],
            "problems": list(self.problems),
            "second": {"looked": roll.has_any_looked(), **(second.as_dict() if second else {"exited": False, "status": None})},
        }

    def _state_of(self, run: str) -> dict[str, Any]:
        roll = self.roll
        return {"worked": roll.has_worked(run), "missing_roles": roll.missing_roles(run), "exited": self._is_lost(run)}

    def is_held(self) -> bool:
        """The leader is, or was, at its barrier; or it works, and had none."""
        return self._barrier.was_reached or self.roll.is_working()

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
        self._over.note_quiet()
        for event, waiter in self._waiters:
            if not waiter.done() and self._has_happened(event):
                waiter.set_result(True)
        if self._over_timer is not None:
            self._over_timer.cancel()
        if self._over.deadline_s is not None and any(event == "over" and not waiter.done() for event, waiter in self._waiters):
            now = time.monotonic()
            self._over_timer = self._loop.call_later(max(0.001, self._over.ends_at_s(now) - now), self.changed)

    def _has_happened(self, event: str) -> bool:
        roll = self.roll
        if self.journal.failure or self.is_finished:
            return True
        if any(event == one.ended() and one.status is not None for one in roll.commands):
            return True
        name, _, or_exited = event.partition("-or-")
        if name in self.events:
            host = roll.host()
            has_host_exited = host is not None and host.status is not None
            is_second = name.startswith("second")
            has_wrapper_exited = self._is_lost(FIRST, restarted=True) if is_second else roll.wrapper_has_exited()
            has_exited = bool(or_exited) and (has_host_exited or has_wrapper_exited)
            return has_exited or self.events[name](self)
        run, _, name = name.rpartition("-")
        return self._has_happened_to(run, name, or_exited=bool(or_exited))

    def _is_lost(self, run: str, *, restarted: bool = False) -> bool:
        """The run's wrapper has exited, and not as a client does that hands its run to a service and leaves well."""
        status = self.roll.wrapper_status(run, restarted=restarted)
        return status is not None and (status != 0 or "exit" in self._capabilities)

    def _has_happened_to(self, run: str, what: str, *, or_exited: bool) -> bool:
        """Whether another run of the drill is so far: ``working``, ``exited``, ``gone``, ``wrote`` (since the first one went)."""
        roll = self.roll
        if self.problems or (or_exited and self._is_lost(run)) or (what == "exited" and roll.wrapper_has_exited(run)):
            return True
        if what == "working":
            return roll.has_worked(run)
        is_gone = roll.has_worked(run) and not roll.alive(run)
        return (what in {"gone", "wrote"} and is_gone) or (what == "wrote" and run in self._goes_on)

    # --- Moments ------------------------------------------------------------------------------------------------------

    def _press(self, at_s: float) -> None:
        self.see_starvation()
        self._pressed_s = at_s
        self._note_starvation()
        early, self._early = self._early, []
        for when_s, stray, act in early:
            self._since_press(when_s, act, stray)
        self.look("pressed")
        self.spending.look("pressed")
        if not self._plan.agent:  # what is held for an agent is let go behind the signal
            self.spending.press()
        if self._plan.may_not_start:
            self.journal.add("drill", "reached", what=self._how_far())
            # A press that is lost leaves the run to go on as it would have; one that is not has come by then.
            self._at(at_s + self.terms.delivery_s, lambda: self._barrier.release("the press had `delivery` to arrive"))
        self._until_deadline(at_s)

    def _acted(self, at_s: float | None) -> None:
        """The call that cancelled began to act later than it was noted; all that is reckoned from the press moves on."""
        if at_s is not None and self._pressed_s is not None and at_s > self._pressed_s and not self._over.has_looked_at_deadline:
            self._pressed_s = at_s
            self._until_deadline(at_s)

    def _until_deadline(self, pressed_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        since_s = {"hello": self._hello_s, "progress": self._progress_s}.get(self._plan.counts_from)
        limit_s = self.terms.deadline_after_press_s if self._plan.limit_s is None else self._plan.limit_s
        self._over.deadline_s = (pressed_s if since_s is None else since_s) + limit_s
        self._deadline = self._at(self._over.deadline_s, self._reach_deadline)

    def _how_far(self) -> str:
        if self._barrier.is_waiting:
            return self._barrier.where
        if not self.roll.of_run():
            return "no runner yet"
        return "working" if self.roll.is_working() else "said hello"

    def _since_press(self, at_s: float, act: Callable[[], object], stray: str = "") -> None:
        """Act on what came after the press; what is heard before the press is waits for it, whose word may come late.

        ``stray`` says in words what came before the press and must not have.
        """
        if self._pressed_s is not None and at_s >= self._pressed_s:
            act()
        else:
            self._early.append((at_s, stray, act))

    def _reached(self, member: Member) -> None:
        """The press has arrived, as a notice or as force."""
        if self._pressed_s is not None and member.attempt.run == FIRST:
            self._is_delivered = True
            self.changed()

    def _report(self, at_s: float) -> None:
        self._note_starvation()
        self._start(self._look_patiently("reported"))
        if self.terms.early_s:
            self._at(at_s + self.terms.early_s, self._hand_over)
        else:
            self._hand_over()

    def _reach_deadline(self) -> None:
        self._note_starvation()
        self.look("deadline")
        self._over.has_looked_at_deadline = True
        self._hand_over()
        self.changed()

    def _hand_over(self) -> None:
        if self._handed_over or self.is_finished:
            return
        self._handed_over = True
        self._over.handover_s = time.monotonic()
        self.spending.look("handover")
        # The processes are looked at before the stamp: whoever is caught writing after it was seen alive before.
        self._start(self._watch_handover())

    async def _watch_handover(self) -> None:
        await self._look_patiently("handover")
        self.workspace.stamp("handover")
        await self.workspace.look("handover")
        self._endless.add(self._start(self._note_changes()))
        self.changed()

    async def _note_changes(self) -> None:
        while self.roll.alive() and not self.is_finished:
            await asyncio.sleep(CHANGES_EVERY_S)
            await self.workspace.note_changes()

    def look(self, moment: str) -> list[process_table.Sight]:
        """Look at every member now, and note it."""
        sights = [self._sight(member) for member in self.roll.members.values()]
        self._note_look(moment, sights)
        return sights

    async def _look_for_leavings(self) -> None:
        """The second start has come to nothing: what of the first run stands in its way."""
        living = [(member.held.identity, member.role) for member in self._old()]
        self.journal.add("process-table", "locks", locks=await asyncio.to_thread(leavings.locks, living))
        await self._look_at_old_workspace("left")

    async def _look_at_old_workspace(self, kind: str) -> None:
        if (opened := self.workspace.opened) is not None:
            left = await asyncio.to_thread(leavings.old_workspace, opened.folder, opened.inode, owner=opened.owner)
            self.journal.add("workspace", kind, **left)

    async def _look_patiently(self, moment: str) -> None:
        """Look, and look again for a few milliseconds at what is alive: it may be on its way out."""
        at_s = time.monotonic()
        members = [member for member in self.roll.members.values() if not (moment == "second-hello" and member.attempt.restarted)]
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

    def _at(self, moment_s: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        timer = self._loop.call_later(max(0.0, moment_s - time.monotonic()), act)
        self._timers.append(timer)
        return timer

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._endless.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problem(f"the recorder could not finish a look: {error!r}")

    # --- Members ------------------------------------------------------------------------------------------------------

    def _hold(self, member: Member, by: str, once: process_table.Stat | None = None, **told: Any) -> None:
        """``once`` is how it stood when it was found: it may be gone by now."""
        seen = self._sight(member)
        stat = process_table.read_stat(member.held.identity.pid) or once
        # A command that became the runner (exec) was started by the recorder, which is nobody's wrapper.
        is_command = any(command.held.identity == member.held.identity for command in self.roll.commands)
        self.journal.add(
            "process-table",
            "held",
            member.subject,
            role=member.role,
            attempt=member.attempt.id,
            run=member.attempt.run,
            **process_table.standing(seen, once),
            comm=stat.comm if stat else "",
            by=by,
            is_command=is_command,
            **told,
        )
        # A leader that belongs to init by now was started by something that has ended, and has nobody left to wait for it.
        is_first_leader = member.role == "leader" and member.attempt.run == FIRST
        if seen.parent and seen.ppid != 1 and is_first_leader and not is_command:
            self._starters[member.subject] = Identity.parse(seen.parent)
        # A process that connects twice says hello twice; it is one member.
        if (known := self.roll.members.get(member.held.identity)) is not None:
            self._loop.remove_reader(known.held.pidfd)
            known.held.release()
        self.roll.members[member.held.identity] = member
        self._loop.add_reader(member.held.pidfd, self._died, member)
        self._over.disturb()

    async def _stops(self, member: Member) -> None:
        """A process that is about to stop itself works once it has; from then on it is read from outside."""
        if not await stopped.until_stopped(member.held):
            if not self.is_finished and member.died_s is None:
                self.problem(f"the runner's {member.role} said that it stops itself, and was not seen stopped")
            return
        self._read_from_outside(member)
        self.roll.works(member)
        self.changed()

    def see_starvation(self) -> float:
        """Read how long the wrapper's own processes have waited for a processor by now, in sum."""
        members = self.roll.members
        commands = [command.held.identity for command in self.roll.commands if command.role != "helper"]
        own = {*commands, *self._starters.values(), *self.roll.found} - members.keys()
        total_s = self._starvation.read(own)
        if self._pressed_s is None:
            self._waited_before_s = total_s
        self._over.waited_s = total_s - self._waited_before_s
        return total_s

    def sample_starvation(self) -> None:
        """Read it before a process that has waited is gone; what was waited before the press is of no interest."""
        if self._pressed_s is not None:
            self.see_starvation()

    def _note_starvation(self) -> None:
        if not self.is_finished:
            self.journal.add("clock", "waited", waited_s=round(self.see_starvation(), 6))

    def see_stopped(self, table: Mapping[int, process_table.Stat]) -> None:
        """See who of the runs was stopped, by whomever: it cannot tell of its notices."""
        for member in self.roll.living():
            stat = table.get(member.held.identity.pid)
            if stat is not None and stat.identity == member.held.identity and stat.state in "Tt":
                self._read_from_outside(member)

    def _read_from_outside(self, member: Member) -> None:
        if member.held.identity not in self._stopped:
            self._stopped.add(member.held.identity)
            self.journal.add("process-table", "stopped", member.subject)
            self._endless.add(self._start(self._read_while_stopped(member)))

    async def _read_while_stopped(self, member: Member) -> None:
        await stopped.see_notices(member, lambda signals: self._signals_wait(member, signals), lambda: self._unread_input_ended(member))
        self._stopped.discard(member.held.identity)

    def _signals_wait(self, member: Member, signals: list[str]) -> None:
        at_s = self.journal.add("process-table", "pending", member.subject, signals=signals)
        stray = f"{' and '.join(signals)} to {member.role} {member.subject}, which is stopped"
        self._since_press(at_s, lambda: self._reached(member), stray)

    def _unread_input_ended(self, member: Member) -> None:
        at_s = time.monotonic()

        def note() -> None:
            self.journal.add("process-table", "input-ended", member.subject, at_s=at_s)
            self._reached(member)

        # An input that ends before cancel is pressed says nothing about it.
        self._since_press(at_s, note)

    def _died(self, member: Member) -> None:
        self._loop.remove_reader(member.held.pidfd)
        member.died_s = self.journal.add("process-table", "died", member.subject, role=member.role, attempt=member.attempt.id)
        if self._pressed_s is not None:
            self._note_starvation()
        if self._handed_over and member.attempt.run == FIRST and not self.roll.alive():
            self.workspace.stamp("gone")
            self._start(self.workspace.note_changes("gone"))
        self._since_press(member.died_s, lambda: self._reached(member))
        self.changed()

    def note_line(self) -> None:
        """Note who stands above the first run's leader, its parent first."""
        seen = [{"subject": str(one.identity), "comm": one.comm, "state": one.state} for one in self._line_above(self._leader())]
        self.journal.add("process-table", "line", line=seen)

    def _leader(self) -> Member | None:
        return next((one for one in reversed(self.roll.of_run()) if one.role == "leader" and not one.attempt.restarted), None)

    def _line_above(self, leader: Member | None) -> list[process_table.Stat]:
        if leader is None or leader.died_s is not None:
            return []
        above = itertools.islice(process_table.line_of(leader.held.identity.pid, process_table.all_processes()), 1, None)
        return list(itertools.takewhile(lambda stat: stat.identity.pid not in {1, os.getpid(), os.getppid()}, above))

    def disrupt(self, how: str) -> str:
        """Signal the wrapper of the first run, where something stands above it; returns what is lacking, or ``""``."""
        leader = self._leader()
        starter = self._starters.get(leader.subject) if leader is not None else None
        if leader is None or starter is None:
            return "a wrapper: the leader's parent is init, or the command is the runner itself"
        if any(command.held.identity == starter for command in self.roll.commands):
            return "a platform above the wrapper: the leader's parent is the command itself"
        if starter not in self.roll.found:
            return "a wrapper that is known to be the drill's own: the leader's parent does not descend from its command"
        line = self._line_above(leader)
        # A shell may stand between the wrapper and the runner, and which is which nobody tells: all of them below the command.
        above = [one.identity for one in itertools.takewhile(lambda one: one.identity in self.roll.found, line)]
        comm = {one.identity: one.comm for one in line}
        for identity in reversed(above if starter in above else [starter]):  # from above, so that none sees the end of what is below it
            held = self.roll.found[identity]
            act = {"kill": held.kill, "freeze": held.stop, "thaw": held.go_on}[how]
            self.journal.add("process-table", "disrupted", str(identity), how=how, comm=comm.get(identity, ""))
            if not act():
                return f"the right to signal the wrapper (pid {identity.pid})"
        return ""

    # --- The end ------------------------------------------------------------------------------------------------------

    async def last_looks(self) -> None:
        """What is looked at before anything is ended."""
        await asyncio.gather(*(self._tasks - self._endless), return_exceptions=True)
        self.look("end")
        self.spending.look("end")
        self._note_starvation()
        self.workspace.stamp("end")
        await self.workspace.note_changes("end")

    def finish(self, why: str, reaped: list[Member]) -> None:
        """Close the history; whatever waits is woken."""
        self.reaped = reaped
        ended = [{"subject": member.subject, "role": member.role} for member in reaped]
        self.journal.add("drill", "reaped", processes=ended)
        self.journal.add("drill", "ended", why=why)
        self.is_finished = True
        self.spending.close()
        for timer in (*self._timers, self._over_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        self.journal.close()
        self.changed()


def _said_at_s(message: Mapping[str, Any]) -> float:
    """When a process said something, by its own word where it gave one."""
    at_s = message.get("at_s")
    return float(at_s) if isinstance(at_s, (int, float)) else time.monotonic()
