"""The processes of a run as a history tells of them: when each came, what it said, how it was seen, and when it died."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_cancelcontract.history import History, Observation

LOOK_WITHIN_S = 0.05
"""A look stands for the moment that it was asked for if it was begun no later than this. The recorder looks again for 10 ms
at what is alive, and a busy test process hands its answer on a few switches of the interpreter lock late."""

FIRST, BYSTANDER, NEXT, CONTROL = "first", "bystander", "next", "control"
"""The runs of a drill: the one that is cancelled, one beside it, one that follows, and one that shows that another task would start."""


@dataclass(frozen=True, slots=True)
class Span:
    """A moment that is known as an interval; ``latest_s`` is infinite where it was never seen to come."""

    earliest_s: float
    latest_s: float

    @property
    def is_closed(self) -> bool:
        """It was seen to have come."""
        return math.isfinite(self.latest_s)


@dataclass(frozen=True, slots=True)
class Sight:
    """One process in one look at the process table."""

    at_s: float
    moment: str
    data: Mapping[str, Any]

    @property
    def is_readable(self) -> bool:
        """The table could be read; where not, it is neither dead nor alive."""
        return bool(self.data.get("can_read", True)) and self.data.get("alive") is not None

    @property
    def is_dead(self) -> bool:
        """Gone, or a zombie without a living thread."""
        return self.is_readable and not self.data.get("alive")

    @property
    def is_dying(self) -> bool:
        """Not dead yet, but exiting, or with SIGKILL pending."""
        return self.is_readable and bool(self.data.get("alive")) and bool(self.data.get("dying"))

    @property
    def is_running(self) -> bool:
        """Alive, and not on its way out."""
        return self.is_readable and bool(self.data.get("alive")) and not self.data.get("dying")

    @property
    def is_stopped(self) -> bool:
        """Alive, and stopped by a signal or a tracer, proc(5): ``T`` and ``t``."""
        return self.is_readable and bool(self.data.get("alive")) and str(self.data.get("state")) in {"T", "t"}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A process of the run: it said hello with a valid token, or is held by the recorder, as those of an agent are that were found.

    ``died_s`` is when its pidfd became readable by the wrapper's doing (not by the recorder's, who ends what is left);
    ``ended_by_drill`` that it lived until the recorder ended it. ``born_s`` is its own word for when it said hello. ``told`` is
    what waits for it while it is stopped, read from outside.
    """

    subject: str
    role: str
    attempt: str
    born_s: float
    hello: Mapping[str, Any] = field(default_factory=dict)
    held: Mapping[str, Any] = field(default_factory=dict)
    sights: tuple[Sight, ...] = ()
    said: tuple[Observation, ...] = ()
    told: tuple[Observation, ...] = ()
    died_s: float | None = None
    ended_by_drill: bool = False
    held_s: float | None = None

    @property
    def run(self) -> str:
        """Which run of the drill it belongs to: the one that is cancelled, or one beside or after it."""
        return str(self.hello.get("run") or self.held.get("run") or FIRST)

    @property
    def notices(self) -> tuple[Observation, ...]:
        """All by which it could know that it shall stop, in order of time: its own word, or what waits for a stopped process."""
        own = [one for one in self.said if one.kind == "notice"]
        return tuple(sorted((*own, *self.told), key=lambda one: one.at_s))

    @property
    def is_leader(self) -> bool:
        """The process that the wrapper started the run with."""
        return self.role == "leader"

    @property
    def pid(self) -> str:
        """The pid, as the recorder sees it."""
        return self.subject.partition(":")[0]

    @property
    def own_pid(self) -> str:
        """The pid as the process sees it itself, which is another one in a PID namespace."""
        return str(self.hello.get("pid", self.pid))

    @property
    def found_by(self) -> str:
        """The means by which it is known to be of the run, where it did not say so itself: ``"descent"``; else empty."""
        return str(self.held.get("by", "")) if self.held.get("found") else ""

    @property
    def died_alone(self) -> bool:
        """It said goodbye, so nobody had to kill it."""
        return any(one.kind == "goodbye" for one in self.said)

    @property
    def is_disputed(self) -> bool:
        """The process table shows it running well after its death was seen: nothing can be made of that."""
        deaths = [sight.at_s for sight in self.sights if sight.is_dead] + ([] if self.died_s is None else [self.died_s])
        return any(sight.is_running and sight.at_s > min(deaths, default=math.inf) + LOOK_WITHIN_S for sight in self.sights)

    @property
    def death(self) -> Span:
        """When it died, as the process table proves it."""
        seen_alive = [sight.at_s for sight in self.sights if sight.is_running or sight.is_dying]
        earliest = max([self.held_s if self.held_s is not None else -math.inf, *seen_alive])
        if self.is_disputed:
            return Span(earliest, math.inf)
        if self.died_s is not None:
            return Span(self.died_s, math.inf if self.ended_by_drill else self.died_s)
        dead = [sight.at_s for sight in self.sights if sight.is_dead]
        return Span(earliest, min(dead)) if dead and not self.ended_by_drill else Span(earliest, math.inf)

    def last(self, *kinds: str) -> Observation | None:
        """The last thing of that kind that it said over its lifeline."""
        return next((one for one in reversed(self.said) if one.kind in kinds), None)


def said_at_s(seen: Observation) -> float:
    """When a process said something, by its own word where it gave one, and not later than it was heard."""
    word = seen.data.get("said_at_s")
    return min(float(word), seen.at_s) if isinstance(word, (int, float)) else seen.at_s


def members_of(history: History, end_s: float) -> Iterator[Member]:
    """Every process of the drill, in the order in which they came; what was seen from ``end_s`` on is the recorder clearing up."""
    came: dict[str, dict[str, Observation]] = {}
    said: dict[str, list[Observation]] = {}
    told: dict[str, list[Observation]] = {}
    died: dict[str, Observation] = {}
    named: dict[str, str] = {}
    sights: dict[str, list[Sight]] = {}
    for seen in history.observations:
        name = f"{seen.witness}.{seen.kind}"
        if name in {"lifeline.hello", "process-table.held"} and seen.subject:
            came.setdefault(seen.subject, {}).setdefault(seen.kind, seen)
        elif name == "process-table.died":
            died.setdefault(seen.subject, seen)
        elif name == "process-table.named":
            named[seen.subject] = str(seen.data.get("comm", ""))
        elif name in {"process-table.pending", "process-table.input-ended", "adapter.signalled"}:
            told.setdefault(seen.subject, []).append(seen)
        elif name == "process-table.look":
            for row in seen.data.get("processes", ()):
                sights.setdefault(row["subject"], []).append(Sight(seen.at_s, str(seen.data.get("moment", "")), row))
        elif seen.witness == "lifeline":
            said.setdefault(seen.subject, []).append(seen)
    reaped = {str(row["subject"]) for seen in history.of("drill", "reaped") for row in seen.data.get("processes", ())}
    for subject, first in came.items():
        words = (said.get(subject, []), told.get(subject, []))
        found = _member(subject, first, *words, sights.get(subject, []), died.get(subject), subject in reaped, end_s)
        yield replace(found, role=named[subject]) if subject in named else found


def _member(
    subject: str,
    came: Mapping[str, Observation],
    said: list[Observation],
    told: list[Observation],
    sights: list[Sight],
    died: Observation | None,
    is_reaped: bool,
    end_s: float,
) -> Member:
    hello, held = came.get("hello"), came.get("held")
    data = {**(held.data if held else {}), **(hello.data if hello else {})}
    moments = [said_at_s(hello)] if hello else []
    moments += [held.at_s] if held else []
    return Member(
        subject,
        str(data.get("role", "")),
        str(data.get("attempt", "")),
        min(moments),
        # Of a process that was found and says nothing, what a hello would say was read from outside.
        hello.data if hello else data if data.get("found") else {},
        held.data if held else {},
        # A look of the recorder's while it clears up says nothing of the wrapper.
        tuple(sight for sight in sights if sight.at_s <= end_s),
        tuple(said),
        tuple(told),
        died.at_s if died else None,
        is_reaped or (died is not None and died.at_s > end_s),
        held.at_s if held else None,
    )
