"""Follow one live run from where it is found to where all of it is gone, or its deadline has passed. Acts on nobody; judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.adapters.words import Template
from pytest_cancelcontract.follow import button, target
from pytest_cancelcontract.follow.live import LiveWatch
from pytest_cancelcontract.follow.operator import Operator
from pytest_cancelcontract.history import TERMINAL
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import machine, process_table
from pytest_cancelcontract.recorder.clock import Clock
from pytest_cancelcontract.recorder.commands import Commands, SpawnError
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.meter.server import Meter
from pytest_cancelcontract.recorder.plan import FIRST, Plan
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.spending import Spending
from pytest_cancelcontract.recorder.workspace_watch import WorkspaceWatch
from pytest_cancelcontract.terms import Terms

SCENARIO = "live"
"""What stands for a scenario in the history: nobody chose what this run does."""
BRACES = ("pid", "workspace")
"""What may stand in the operator's commands."""
BY_HAND = "by hand"
SAMPLE_EVERY_S, SAMPLE_EVERY_BEFORE_S = 0.025, 0.1
"""How often the process table is read once cancel was pressed, and before: a live system is not to be slowed by who waits for a press."""
SAMPLE_SHARE = 0.25
"""The share of its time that this process may spend on it."""
TICK_S = 0.25
LOOK_FOR_FILE_EVERY_S = 0.01
ASK_EVERY_S = 0.1
WORD_WITHIN_S = 10.0
"""How long the operator is waited for who has not yet said that the end was reported, once nothing else is waited for."""
OVER_SLACK_S = 5.0


class CannotFollow(RuntimeError):
    """The run cannot be followed, or not be cancelled, as was asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Orders:
    """By what the press and the report are known; what is not given is told by hand.

    ``press_on`` is a file whose coming tells of the press, ``press`` the command that presses: behind ``press_on``, where both are given,
    and ``press_after_s`` seconds later. ``report`` prints the outcome, and is asked again and again from the press on; ``outcomes`` are
    its words.
    """

    press: Template | None = None
    press_on: Path | None = None
    press_after_s: float = 0.0
    report: Template | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def is_pressed_by_hand(self) -> bool:
        """The press is told by hand."""
        return self.press is None and self.press_on is None


@dataclass(frozen=True, slots=True)
class Run:
    """What is followed: a process, or a command to be started; its workspace, and its words for people.

    ``alike`` are the words of command lines that it was found by, empty where it was not.
    """

    name: str
    workspace: Path | None
    process: Identity | None = None
    command: tuple[str, ...] = ()
    alike: str = ""


Tell = Callable[[str, str, str, float, Mapping[str, Any]], None]
"""Hears of each observation: witness, kind, subject, time and data."""


class _ToldJournal(Journal):
    """A history whose observations are told to somebody as they come."""

    def __init__(self, path: Path, header: Mapping[str, Any], tell: Tell) -> None:
        super().__init__(path, header)
        self._tell = tell

    def add(self, witness: str, kind: str, subject: str = "", *, at_s: float | None = None, **data: Any) -> float:
        """As in the journal."""
        at_s = super().add(witness, kind, subject, at_s=at_s, **data)
        self._tell(witness, kind, subject, at_s, data)
        return at_s


async def follow(
    run: Run,
    orders: Orders,
    terms: Terms,
    *,
    clauses: tuple[str, ...],
    history: Path,
    folder: Path,
    tell: Tell,
    say: Callable[[str], None],
) -> str:
    """Follow a run to its end, and return why that was the end: ``over``, ``interrupted``, or what went wrong.

    Whoever cancels the task that this is gets ``interrupted``: the history is closed, and everybody is let go.

    Args:
        clauses: what the history is to be judged by.
        folder: takes the outputs of the commands that are started.
    Raises:
        CannotFollow: the run, or the history, is not to be had.
    """
    try:
        journal = _ToldJournal(history, _header(run, terms, clauses, orders), tell)
    except OSError as error:
        raise CannotFollow(f"the history {history} cannot be written: {error.strerror or error}") from None
    follower = _Follower(run, orders, terms, journal, folder, say)
    why = "nothing was followed"
    try:
        follower.begin()
        why = await follower.to_the_end()
    except asyncio.CancelledError:
        why = "interrupted"
    finally:
        await follower.end(why)
    return why


def _header(run: Run, terms: Terms, clauses: tuple[str, ...], orders: Orders) -> dict[str, Any]:
    name = f"{SCENARIO}-{secrets.token_hex(4)}"
    return {
        "scenario": SCENARIO,
        "run_id": name,
        "task_id": f"task-{name}",
        "wrapper": run.name,
        "capabilities": ["outcome"],
        "attempt": 1,
        "act": "cancel",
        "agent": True,
        "live": True,
        "clauses": list(clauses),
        "by_hand": [*(["press"] if orders.is_pressed_by_hand else []), *(["report"] if orders.report is None else [])],
        "habits": [],
        "terms": terms.as_dict(),
        "machine": machine.facts(),
        "wall_time": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


class _Follower:
    """One run on its way."""

    def __init__(self, run: Run, orders: Orders, terms: Terms, journal: Journal, folder: Path, say: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        token = secrets.token_hex(12)
        ignore = _inside(run.workspace, journal.path.parent)
        # Nobody was offered a workspace, so that beside this one only the runner's own names would count.
        workspace = WorkspaceWatch(journal, token, folder / "nobody" / "offered", ignore=ignore)
        spending = Spending(Meter(loop), journal, ())
        self._watch = LiveWatch(SCENARIO, token, folder, journal, workspace, spending, terms, ("outcome",), Plan(agent=True))
        self._watch.place = run.workspace
        self._run = run
        self._orders = orders
        self._terms = terms
        self._journal = journal
        self._folder = folder
        self._say = say
        self._commands = Commands(loop, reaps=True)
        self._operator = Operator()
        self._clock = Clock()
        self._is_pressed = False
        self._hinted: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Hold the run, and begin to look.

        Raises:
            CannotFollow: it is gone, cannot be held or started, or its workspace is not there.
        """
        try:
            if self._run.process is None:
                self._start_command()
            else:
                self._hold(self._run.process)
        except OSError as error:
            raise CannotFollow(f"the workspace {self._run.workspace} cannot be looked at: {error.strerror or error}") from None
        self._watch.see(process_table.all_processes())
        self._hint()
        if self._orders.is_pressed_by_hand or self._orders.report is None:
            self._operator.listen()
        self._tasks = [asyncio.ensure_future(work) for work in (self._sample(), self._tick())]
        for task in self._tasks:
            task.add_done_callback(self._looks_no_more)

    def _looks_no_more(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._watch.problem(f"the process table was looked at no more: {error!r}")

    def _hold(self, process: Identity) -> None:
        held = Held.take(process)
        if held is None or held.has_ended():
            raise CannotFollow(f"pid {process.pid} has ended, or cannot be held")
        self._watch.begin(held, "command line" if self._run.alike else "pid")

    def _start_command(self) -> None:
        try:
            self._commands.start(self._watch, list(self._run.command), str(Path.cwd()), dict(os.environ), role="wrapper", run=FIRST)
        except SpawnError as error:
            raise CannotFollow(str(error)) from None

    async def to_the_end(self) -> str:
        """Wait for the press, for the report, and until it is over."""
        if why := await self._until_pressed():
            return why
        reporting = asyncio.ensure_future(self._hear_report())
        self._tasks.append(reporting)
        terms = self._terms
        await self._watch.wait("over", terms.deadline_after_press_s + terms.kill_within_s + terms.settle_s + OVER_SLACK_S)
        await self._last_word(reporting)
        self._hint()
        return "over"

    # --- The press ----------------------------------------------------------------------------------------------------

    async def _until_pressed(self) -> str:
        """Wait for the press and note it; returns why there was none."""
        orders = self._orders
        if orders.press_on is not None:
            self._say(f"cancel counts as pressed when {orders.press_on} appears")
            is_told = await self._unless_gone(_appears(orders.press_on))
        elif orders.press is None:
            self._say("press Enter here, and then at once the button in your console")
            is_told = await self._unless_gone(self._operator.enter())
            if is_told is False:
                return "nobody is there to say when cancel is pressed: the input has ended"
        else:
            is_told = True
        if is_told and orders.press_after_s:
            self._say(f"cancel is pressed in {orders.press_after_s:g} s")
            is_told = await self._unless_gone(asyncio.sleep(orders.press_after_s, True))
        if is_told is None:
            return "the run ended by itself before cancel was pressed"
        self._observe("adapter", "at-work", what="as it was found")
        if orders.press is None:
            how = BY_HAND if orders.press_on is None else f"{orders.press_on} appeared"
            at_s = self._observe("adapter", "pressed", trigger=True, how=how)
            self._is_pressed = True
            self._observe("adapter", "cancel-returned", at_s=at_s, error=None, clean=True)
            return ""
        self._press(self._filled(orders.press))
        return ""

    def _press(self, argv: list[str]) -> None:
        how, now = shlex.join(argv), time.monotonic()
        try:
            begun = button.begin(argv, self._folder / "press.txt")
        except OSError as error:
            self._observe("adapter", "pressed", at_s=now, trigger=True, how=how)
            self._observe("adapter", "cancel-returned", error=f"it cannot be started: {error.strerror or error}", clean=True)
        else:
            # Noted as of when it was begun, so that what is told meanwhile and what is judged later count from the same moment.
            self._observe("adapter", "pressed", at_s=begun.began_s, trigger=True, how=how)
            self._tasks.append(asyncio.ensure_future(self._pressed(begun)))
        self._is_pressed = True

    async def _pressed(self, begun: button.Begun) -> None:
        answered = await button.answer(begun, self._terms.call_s)
        if answered.status is not None:
            self._observe("adapter", "cancel-returned", error=answered.error or None, clean=True, acted_at_s=answered.began_s)

    async def _unless_gone(self, told: Awaitable[bool]) -> bool | None:
        """What was told; None where the run was gone before."""
        waiting = [asyncio.ensure_future(told), asyncio.ensure_future(self._gone())]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[0].result() if waiting[0] in done else None
        finally:
            for one in waiting:
                one.cancel()

    async def _gone(self) -> bool:
        while self._watch.roll.alive():
            await asyncio.sleep(SAMPLE_EVERY_BEFORE_S)
        return True

    # --- The report ---------------------------------------------------------------------------------------------------

    async def _hear_report(self) -> None:
        if self._orders.report is not None:
            await self._ask_again_and_again(self._filled(self._orders.report))
            return
        self._say("press Enter again as soon as your console says that the run is cancelled")
        if await self._operator.enter():
            now = time.monotonic()
            self._observe("outcome", "answer", at_s=now, asked_at_s=now, outcome="cancelled", by="operator", detail=BY_HAND)

    async def _ask_again_and_again(self, argv: list[str]) -> None:
        while True:
            await self._ask(argv, "report.txt")
            await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self, argv: list[str], output: str) -> None:
        began_s = time.monotonic()
        try:
            answered = await button.answer(button.begin(argv, self._folder / output), self._terms.call_s)
        except OSError as error:
            self._observe("outcome", "error", asked_at_s=began_s, error=f"it cannot be started: {error.strerror or error}")
            return
        if answered.error:
            self._observe("outcome", "error", at_s=answered.over_s, asked_at_s=began_s, error=answered.error)
            return
        word = answered.last_line
        outcome = self._orders.outcomes.get(word)
        if outcome is None:
            # A word that nobody explained is none of an end.
            outcome = Outcome(word) if word in set(Outcome) else Outcome.RUNNING
        told = {"asked_at_s": began_s, "outcome": str(outcome), "by": "outcome", "detail": word}
        self._observe("outcome", "answer", at_s=answered.over_s, **told)

    async def _last_word(self, reporting: asyncio.Task[None]) -> None:
        """What is still to be heard of the report when nothing else is waited for."""
        if self._orders.report is None:
            if not reporting.done() and self._operator.is_there:
                self._say(f"is it reported yet? Enter as soon as it is; {WORD_WITHIN_S:g} s at most")
                await asyncio.wait([reporting], timeout=WORD_WITHIN_S)
            if self._watch.state()["reported"] is None:
                # Silence of a person is no word of the console's.
                self._observe("adapter", "capabilities", capabilities=[])
            return
        reporting.cancel()
        await asyncio.wait([reporting])
        if self._watch.state()["reported"] in TERMINAL:
            # A question that was cut off may still write its answer: it must not stand in this one's.
            await self._ask(self._filled(self._orders.report), "report-at-the-end.txt")

    # --- In the background --------------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        while True:
            began_s = time.thread_time()
            self._watch.see(process_table.all_processes())
            cost_s = time.thread_time() - began_s
            every_s = SAMPLE_EVERY_S if self._is_pressed else SAMPLE_EVERY_BEFORE_S
            await asyncio.sleep(max(every_s, cost_s / SAMPLE_SHARE))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            seen = self._clock.take()
            if self._is_pressed:  # of the time before nothing is judged, and it may be long
                self._watch.was_late(seen)

    def _hint(self) -> None:
        """Note who is not of the run as far as is known, and may be all the same."""
        known = {member.held.identity.pid for member in self._watch.roll.members.values()} | self._hinted
        hints = {}
        if self._run.workspace is not None:
            hints["works in the workspace"] = target.at_work_in(str(self._run.workspace))
        if self._run.alike:
            hints["has the same words in its command line"] = dict(target.matches(self._run.alike))
        for what, found in hints.items():
            if strangers := {pid: name for pid, name in found.items() if pid not in known}:
                self._hinted.update(strangers)
                named = [{"pid": pid, "name": name[:80]} for pid, name in strangers.items()]
                self._journal.add("process-table", "stranger", what=what, processes=named)

    # --- The end ------------------------------------------------------------------------------------------------------

    async def end(self, why: str) -> None:
        """Take the last looks, close the history, and let everybody go: nobody is ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._watch.problem(f"a look could not be finished: {error!r}")
        self._operator.leave()
        if self._is_pressed:
            self._watch.see(process_table.all_processes())
            await self._watch.last_looks()
            self._watch.was_late(self._clock.take())
        self._watch.finish(why, [])
        self._watch.release()
        for command in self._watch.roll.commands:
            self._commands.release(command)

    def _observe(self, witness: str, kind: str, *, at_s: float | None = None, **data: Any) -> float:
        at_s = time.monotonic() if at_s is None else at_s
        self._watch.observed(at_s, witness, kind, data)
        return at_s

    def _filled(self, command: Template) -> list[str]:
        leader = next(iter(self._watch.roll.members.values()))
        return command.fill({"pid": str(leader.held.identity.pid), "workspace": str(self._run.workspace or "")})


async def _appears(path: Path) -> bool:
    while not path.exists():
        await asyncio.sleep(LOOK_FOR_FILE_EVERY_S)
    return True


def _inside(workspace: Path | None, place: Path) -> tuple[str, ...]:
    """The pattern by which a folder of ours is left out of a workspace that it lies in."""
    with contextlib.suppress(ValueError):
        if workspace is not None:
            return (str(place.resolve().relative_to(workspace)),)
    return ()
