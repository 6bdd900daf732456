"""What a history says, read once for all clauses: the moments, the processes of the run, and how far each is proven.

Reads observations and nothing else. A death is known as a span of time, because a look tells only that it happened before;
so every duration that ends in one is a span as well, and a verdict needs all of it on one side of the limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from pytest_cancelcontract.clauses.members import BYSTANDER, CONTROL, FIRST, LOOK_WITHIN_S, NEXT, Member, Sight, Span, members_of, said_at_s
from pytest_cancelcontract.history import OUTCOME_CAPABILITIES, TERMINAL, History, Observation
from pytest_cancelcontract.scenarios import Act, Trigger
from pytest_cancelcontract.terms import Terms

ROUNDING_S = 1e-6
"""Times are written down in millionths of a second; a difference of one of those is none."""
NO_RUNNER_YET = "no runner yet"
"""How far a run was when cancel was pressed, in the recorder's words, where nothing of it had come up."""
CLOCK_PAUSE_S = 0.5
"""The clock witness speaks every quarter of a second; where it was silent for longer, the machine may have been late by that."""


class Fate(Enum):
    """How a process stood at a moment, as far as the process table proves it."""

    DEAD = "dead"
    DYING = "dying"
    ALIVE = "alive"
    UNKNOWN = "unknown"


class Timing(Enum):
    """On which side of a limit a duration lies."""

    WITHIN = "within"
    BEYOND = "beyond"
    TOO_CLOSE = "too close"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Report:
    """The first terminal outcome: when it was asked for, when it was answered, and what it said."""

    answered_s: float
    asked_s: float
    outcome: str
    by: str


class NotPressed(LookupError):
    """The history has no press, so nothing can be measured from it; ``judge`` asks for one before any clause."""


class Facts:
    """The readings that every clause shares, each made once.

    The *first run* is every attempt at the cancelled task that began before the drill started it again, an engine's own retries
    included; the *second run* is what came after that. *Bystanders* are of a run beside it, the *next run* is of the task after it.
    """

    def __init__(self, history: History, terms: Terms) -> None:
        self.history = history
        self.terms = terms

    # --- The drill ----------------------------------------------------------------------------------------------------

    @property
    def act(self) -> str:
        """What was done to the run, as the header says."""
        return act_of(self.history)

    @property
    def is_agent(self) -> bool:
        """The run is an agent's own command line: its processes say nothing, and were found."""
        return bool(self.history.header.get("agent"))

    @property
    def is_live(self) -> bool:
        """The run is somebody's work: it tells nobody which signals it gets, and marks nothing that it writes."""
        return bool(self.history.header.get("live"))

    @property
    def may_not_start(self) -> bool:
        """Cancel is pressed before the runner works, so a run that never comes up is an end like another."""
        return bool(self.history.header.get("may_not_start"))

    @property
    def habits(self) -> frozenset[str]:
        """What the runner does, as the header says; empty where it does not."""
        return frozenset(str(one) for one in self.history.header.get("habits") or ())

    @property
    def is_outcome_covered(self) -> bool:
        """The adapter can tell an outcome."""
        return bool(self.history.capabilities.intersection(OUTCOME_CAPABILITIES))

    # --- Moments ------------------------------------------------------------------------------------------------------

    @cached_property
    def act_done(self) -> Observation | None:
        """The press, or what was done to the run in its place."""
        return next((one for one in self.history.of("adapter") if one.kind == "pressed" or one.data.get("trigger")), None)

    @cached_property
    def is_pressed(self) -> bool:
        """Cancel was pressed, or what stands in its place was done."""
        return self.act_done is not None

    @cached_property
    def pressed_s(self) -> float:
        """When cancel was pressed, or something was done in its place: noted right before the call, or when that is known to act.

        On a busy machine the two are far apart, and what lies between them is the plugin's own time.

        Raises:
            NotPressed: it was not.
        """
        pressed, returned = self.act_done, self.history.first("adapter", "cancel-returned")
        if pressed is None:
            raise NotPressed("cancel was never pressed in this history")
        acted_s = returned.data.get("acted_at_s") if returned is not None else None
        is_between = isinstance(acted_s, (int, float)) and returned is not None and pressed.at_s < acted_s <= returned.at_s
        return float(acted_s) if is_between and acted_s is not None else pressed.at_s

    @property
    def trigger(self) -> Trigger:
        """What the deadline counts from; an act that this version does not know is a press."""
        return Act(self.act).trigger if self.act in set(Act) else Trigger.PRESSED

    @cached_property
    def triggered_s(self) -> float:
        """When the clock was started; the act itself where the world tells nothing of it."""
        if self.trigger is Trigger.HELLO and self.leader is not None:
            return self.leader.born_s
        if self.trigger is Trigger.PROGRESS:
            return max(
                (said_at_s(one) for member in self.pressed_members for one in member.said if one.kind == "wedged"), default=self.pressed_s
            )
        return self.pressed_s

    @cached_property
    def deadline_s(self) -> float:
        """When every process must be gone."""
        return self.triggered_s + self.terms.deadline_after_s(self.trigger)

    @cached_property
    def restarting_s(self) -> float:
        """When the task was started again by the drill; infinite where it was not."""
        restarting = self.history.first("adapter", "restarting", "restarted")
        return restarting.at_s if restarting else math.inf

    @cached_property
    def end_s(self) -> float:
        """When the drill was over: what happens from here on is the recorder clearing up."""
        ends = [one.at_s for one in self.history.of("process-table", "look") if one.data.get("moment") == "end"]
        ends += [one.at_s for one in self.history.of("drill", "reaped", "ended")]
        return min(ends, default=math.inf)

    @cached_property
    def watched_until_s(self) -> float:
        """Until when the recorder is proven to have watched, by its last look or its clock, while the drill ran."""
        seen = [one.at_s for one in self.history.observations if (one.witness, one.kind) in _WATCHING and one.at_s <= self.end_s]
        return max(seen, default=-math.inf)

    @cached_property
    def report(self) -> Report | None:
        """The first terminal outcome, or None."""
        for seen in self.history.of("outcome", "answer"):
            if seen.data.get("outcome") in TERMINAL:
                return Report(seen.at_s, asked_at_s(seen), str(seen.data["outcome"]), str(seen.data.get("by", "")))
        return None

    @cached_property
    def lacks_an_answer(self) -> bool:
        """The look that was taken as the outcome was reported is older than any terminal answer, so that one was lost."""
        look = self.look("reported")
        return look is not None and self.report is not None and look.at_s < self.report.answered_s - ROUNDING_S

    @cached_property
    def cancel_error(self) -> str:
        """What the cancel call raised; empty where it went well or did not return."""
        returned = self.history.first("adapter", "cancel-returned")
        return str(returned.data.get("error") or "") if returned else ""

    @cached_property
    def handover_s(self) -> float:
        """From when on nothing of the old run may happen any more: reported + ``early``, or the deadline if that comes first."""
        if self.report is None or not self.is_outcome_covered:
            return self.deadline_s
        return min(self.report.answered_s + self.terms.early_s, self.deadline_s)

    # --- The machine --------------------------------------------------------------------------------------------------

    def lateness_s(self, since_s: float, until_s: float) -> float:
        """How late the machine was at worst in this window; infinite where the clock says nothing of it."""
        spells = sorted(
            (float(one.data.get("since_s", one.at_s)), one.at_s, float(one.data.get("worst_s", 0.0)))
            for one in self.history.of("clock", "lateness")
            if one.at_s >= since_s - ROUNDING_S and float(one.data.get("since_s", one.at_s)) <= until_s + ROUNDING_S
        )
        if not spells:
            return math.inf
        worst, watched_to = 0.0, since_s
        for began, ended, late in spells:
            worst = max(worst, late, _silence(watched_to, began))
            watched_to = max(watched_to, ended)
        return max(worst, _silence(watched_to, until_s))

    def waited_s(self, since_s: float, until_s: float) -> float:
        """How long the wrapper's own processes waited for a processor meanwhile, in sum; 0 where nobody read it."""
        told = [(one.at_s, float(one.data.get("waited_s", 0.0))) for one in self.history.of("clock", "waited")]
        if not told:
            return 0.0
        before = next((waited for at_s, waited in reversed(told) if at_s <= since_s + ROUNDING_S), told[0][1])
        after = next((waited for at_s, waited in told if at_s >= until_s - ROUNDING_S), told[-1][1])
        return max(0.0, after - before)

    def against(self, limit_s: float, *, since_s: float, event: Span) -> Timing:
        """Whether ``event`` came within ``limit_s`` of ``since_s``; too close where the machine's lateness could decide it."""
        until_s = event.latest_s if event.is_closed else max(event.earliest_s, since_s)
        margin = self.lateness_s(min(since_s, until_s), max(since_s, until_s))
        least, most = event.earliest_s - since_s, event.latest_s - since_s
        if most <= limit_s + ROUNDING_S and (margin == 0 or most < limit_s - margin):
            return Timing.WITHIN
        # Who is kept from running cannot be in time: what the wrapper itself waited for a processor is the machine's as well.
        margin += self.waited_s(min(since_s, until_s), max(since_s, until_s))
        if least > limit_s + margin + ROUNDING_S:
            return Timing.BEYOND
        # Not within, and beyond by less than the machine was late: it could have been the machine.
        is_beyond = least > limit_s + ROUNDING_S
        is_exact = event.is_closed and event.latest_s == event.earliest_s
        return Timing.TOO_CLOSE if is_exact or (is_beyond and math.isfinite(margin)) else Timing.UNKNOWN

    def against_span(self, limit_s: float, *, since: Span, event: Span) -> Timing:
        """The same where the beginning is known as an interval too: a verdict needs all of it on one side."""
        if not math.isfinite(since.earliest_s):
            return Timing.UNKNOWN
        early = self.against(limit_s, since_s=since.earliest_s, event=event)
        if early is Timing.WITHIN or since.earliest_s == since.latest_s:
            return early
        late = self.against(limit_s, since_s=since.latest_s, event=event) if since.is_closed else Timing.UNKNOWN
        return late if late is Timing.BEYOND else Timing.UNKNOWN

    # --- The processes ------------------------------------------------------------------------------------------------

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Every process of the drill, in the order in which they came."""
        return tuple(members_of(self.history, self.end_s))

    @cached_property
    def _began(self) -> dict[str, float]:
        began: dict[str, float] = {}
        for member in self.members:
            began[member.attempt] = min(began.get(member.attempt, math.inf), member.born_s)
        return began

    @cached_property
    def first_run(self) -> tuple[Member, ...]:
        """The processes that cancel had to end."""
        return tuple(
            one
            for one in self.members
            if one.run == FIRST and self._began[one.attempt] <= self.restarting_s and one.subject not in self.allowed
        )

    @cached_property
    def allowed(self) -> dict[str, str]:
        """Processes of an agent that may live on, by subject with the reason: helpers of a name that the header allows."""
        reasons = self.history.header.get("allowed") or {}
        return {one.subject: str(reasons[one.role]) for one in self.members if one.role in reasons and not one.is_leader}

    @cached_property
    def may_write(self) -> tuple[Member, ...]:
        """The processes whose changes count: those that cancel had to end, and those that may live on, which excuses no change."""
        return tuple(one for one in self.members if one in self.first_run or one.subject in self.allowed)

    @cached_property
    def second_run(self) -> tuple[Member, ...]:
        """The processes of the task's second start."""
        return tuple(one for one in self.members if one.run == FIRST and self._began[one.attempt] > self.restarting_s)

    @cached_property
    def bystanders(self) -> tuple[Member, ...]:
        """The processes of a run that nobody cancelled."""
        return tuple(one for one in self.members if one.run == BYSTANDER)

    @cached_property
    def next_run(self) -> tuple[Member, ...]:
        """The processes of the task that came after the cancelled one."""
        return tuple(one for one in self.members if one.run == NEXT)

    @cached_property
    def control_took_s(self) -> float | None:
        """How long another task took from its start until it worked, where one was tried because the same one did not start again."""
        starting = next((one for one in self.history.of("adapter", "other-starting") if one.data.get("run") == CONTROL), None)
        leaders = [one for one in self.members if one.run == CONTROL and one.is_leader]
        worked = [one.at_s for leader in leaders for one in leader.said if one.kind == "working"]
        return min(worked) - starting.at_s if worked and starting is not None else None

    @cached_property
    def never_started(self) -> bool:
        """Nothing of the run ever came up, where that may be, and the process table was read for long enough to say so.

        Long enough is ``retry`` after the outcome was reported, or the deadline where none was by then. Whatever tells of a process,
        with or without its name, tells that something did come up.
        """
        if not self.may_not_start or not self.is_pressed or any(_is_trace(one) for one in self.history.observations):
            return False
        looks = [one.at_s for one in self.history.of("process-table", "look") if one.at_s <= self.end_s]
        return max(looks, default=-math.inf) >= self.nothing_came_until_s - ROUNDING_S

    @cached_property
    def nothing_came_until_s(self) -> float:
        """From when on a run that has not come up by then counts as never started."""
        if self.report is None or not self.is_outcome_covered or self.report.answered_s > self.deadline_s:
            return self.deadline_s
        return self.report.answered_s + self.terms.retry_s

    @cached_property
    def leader(self) -> Member | None:
        """The leader that was at work when cancel was pressed; the first that came, where none had to be at work yet."""
        leaders = [one for one in self.first_run if one.is_leader]
        if self.may_not_start:
            return min(leaders, key=lambda one: one.born_s, default=None)
        before = [one for one in leaders if not self.is_pressed or one.born_s <= self.pressed_s]
        return max(before, key=lambda one: one.born_s, default=None)

    @cached_property
    def revivals(self) -> tuple[Member, ...]:
        """Of each attempt that began after the press, and that nobody asked for, its leader (or the process that came first)."""
        known = self.leader.attempt if self.leader is not None else None
        found: dict[str, Member] = {}
        for member in sorted(self.first_run, key=lambda one: (not one.is_leader, one.born_s)):
            if member.attempt != known and self._began[member.attempt] > self.pressed_s + ROUNDING_S:
                found.setdefault(member.attempt, member)
        return tuple(sorted(found.values(), key=lambda one: one.born_s))

    @cached_property
    def second_leader(self) -> Member | None:
        """The first leader of the second run."""
        return next((one for one in self.second_run if one.is_leader), None)

    @cached_property
    def pressed_members(self) -> tuple[Member, ...]:
        """The processes of the attempt that was at work when cancel was pressed."""
        leader = self.leader
        return tuple(one for one in self.first_run if leader is not None and one.attempt == leader.attempt)

    @cached_property
    def missing_roles(self) -> tuple[str, ...]:
        """Roles that the run has, by its leader's word, and of which no process is known."""
        return () if self.never_started else tuple(lacking(self.leader, self.pressed_members))

    @cached_property
    def idle_roles(self) -> tuple[str, ...]:
        """Roles of which no process had proven its habits and begun to work when cancel was pressed.

        An agent proves nothing itself: it is at work when what it was to be cancelled at was seen.
        """
        if self.is_agent:
            seen = self.history.first("adapter", "at-work")
            return () if self.leader is not None and seen is not None and seen.at_s <= self.pressed_s else ("leader",)
        at_work = [one for one in self.pressed_members if any(w.kind == "working" and w.at_s <= self.pressed_s for w in one.said)]
        return tuple(lacking(self.leader, at_work))

    @cached_property
    def stray_notices(self) -> tuple[Observation, ...]:
        """Signals that reached the attempt at work before cancel was pressed."""
        notices = [one for member in self.pressed_members for one in member.notices]
        return tuple(sorted((one for one in notices if said_at_s(one) < self.pressed_s - ROUNDING_S), key=lambda one: one.at_s))

    @cached_property
    def early_deaths(self) -> tuple[Member, ...]:
        """Processes of the run that were killed before cancel was pressed; an agent's come and go as it works."""
        return (
            ()
            if self.is_agent
            else tuple(one for one in self.pressed_members if one.death.latest_s < self.pressed_s and not one.died_alone)
        )

    def notice_of(self, member: Member) -> Observation | None:
        """The first notice that this process had after the press."""
        return next((one for one in member.notices if one.at_s >= self.pressed_s - ROUNDING_S), None)

    def notice_among(self, members: Iterable[Member]) -> Observation | None:
        """The first notice after the press that any of them had."""
        notices = [one for member in members if (one := self.notice_of(member)) is not None]
        return min(notices, key=lambda one: one.at_s, default=None)

    @cached_property
    def notice(self) -> Observation | None:
        """The first notice after the press that any process of the run had."""
        return self.notice_among(self.first_run)

    def killed_among(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """Those of them that were killed after the press, in the order of their deaths; of an agent's nobody can tell which were."""
        if self.is_agent:
            return ()
        dead = [one for one in members if one.death.is_closed and one.death.latest_s >= self.pressed_s - ROUNDING_S]
        return tuple(sorted((one for one in dead if not one.died_alone), key=lambda one: one.death.latest_s))

    @cached_property
    def killed(self) -> tuple[Member, ...]:
        """The processes of the run that were killed after the press, in the order of their deaths."""
        return self.killed_among(self.first_run)

    def forced_among(self, members: Iterable[Member]) -> Span | None:
        """When force began among them, which is when the first was killed; None where none was."""
        killed = self.killed_among(members)
        if not killed:
            return None
        earliest = max(min(one.death.earliest_s for one in killed), self.pressed_s)
        return Span(earliest, max(killed[0].death.latest_s, earliest))

    @cached_property
    def forced(self) -> Span | None:
        """When force began, which is when the first process was killed; None where none was."""
        return self.forced_among(self.first_run)

    def gone_of(self, members: Collection[Member]) -> Span:
        """When the last of them died; never, where a role is unaccounted for."""
        if not members:
            return Span(-math.inf, math.inf)
        deaths = [one.death for one in members]
        latest = math.inf if self.missing_roles or self.leader is None else max(one.latest_s for one in deaths)
        return Span(max(one.earliest_s for one in deaths), latest)

    @cached_property
    def gone(self) -> Span:
        """When the last process of the first run died; never, where a role is unaccounted for."""
        return self.gone_of(self.first_run)

    @cached_property
    def outlived_deadline(self) -> bool:
        """Some process of the first run is proven to have lived on after the deadline."""
        return any(self.fate_at(one, self.deadline_s) is Fate.ALIVE for one in self.first_run)

    def look(self, moment: str) -> Observation | None:
        """The first look at the process table that was taken at this moment."""
        return next((one for one in self.history.of("process-table", "look") if one.data.get("moment") == moment), None)

    def fate_at(self, member: Member, at_s: float) -> Fate:
        """How a process stood at a moment.

        Later sights count: who is seen running afterwards was running then. A process that was on its way out counts as
        dying if its death followed within ``kill_within`` and it did nothing more.
        """
        if member.is_disputed:
            return Fate.UNKNOWN
        death, kill_within_s = member.death, self.terms.kill_within_s
        if death.latest_s <= at_s + ROUNDING_S:
            return Fate.DEAD
        is_newer = member.held_s is not None and member.born_s > at_s + ROUNDING_S
        if is_newer or any(sight.is_running and sight.at_s >= at_s - ROUNDING_S for sight in member.sights):
            return Fate.ALIVE
        dying = next((sight for sight in member.sights if sight.is_dying), None)
        if dying is not None and dying.at_s <= at_s + LOOK_WITHIN_S:
            return self._fate_of_dying(member, dying)
        if death.earliest_s > at_s + kill_within_s + self.lateness_s(at_s, death.earliest_s):
            # So long after it, not even a death that was under way at that moment counts.
            return Fate.ALIVE
        after = next((sight for sight in member.sights if sight.at_s >= at_s - ROUNDING_S and sight.is_readable), None)
        if after is not None and after.is_dead and after.at_s <= at_s + LOOK_WITHIN_S:
            return Fate.DEAD
        return Fate.UNKNOWN

    def _fate_of_dying(self, member: Member, dying: Sight) -> Fate:
        most_s = dying.at_s + self.terms.kill_within_s
        if member.death.earliest_s > most_s + self.lateness_s(dying.at_s, member.death.earliest_s):
            return Fate.ALIVE
        has_gone_on = any(said_at_s(one) > dying.at_s + LOOK_WITHIN_S for one in member.said if one.kind != "closed")
        return Fate.DYING if member.death.latest_s <= most_s + ROUNDING_S and not has_gone_on else Fate.UNKNOWN


def asked_at_s(answer: Observation) -> float:
    """When the question was put that this is the answer to."""
    return min(float(answer.data.get("asked_at_s", answer.at_s)), answer.at_s)


def act_of(history: History) -> str:
    """What was done to the run; a history that does not say is of a single cancel."""
    return str(history.header.get("act") or "cancel")


_WATCHING = frozenset({("process-table", "look"), ("clock", "lateness")})


def _silence(since_s: float, until_s: float) -> float:
    return until_s - since_s if until_s - since_s > CLOCK_PAUSE_S else 0.0


def _is_trace(seen: Observation) -> bool:
    """Whether this tells of a process of the run. A refusal does not: it is noted in every drill that runs beside."""
    if seen.witness == "process-table":
        return seen.kind in {"held", "died"} or (seen.kind == "look" and bool(seen.data.get("processes")))
    if seen.witness == "drill":
        # A problem may be that of a process that said hello and could not be held.
        return seen.kind in {"released", "problem"} or (seen.kind == "reached" and seen.data.get("what") != NO_RUNNER_YET)
    return seen.witness == "lifeline" and seen.kind != "refused"


def lacking(leader: Member | None, present: Iterable[Member]) -> Iterator[str]:
    """The roles that a run has by its leader's word, and of which none of these is one."""
    if leader is None:
        return iter(["leader"])
    # Without the leader's list nobody can say that no process is missing.
    expected = Counter(str(role) for role in leader.hello.get("roles") or ["any role (the leader's hello is missing)"])
    return (expected - Counter(one.role for one in present)).elements()
