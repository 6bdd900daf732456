"""What a picture of a drill is made of, as plain data: lanes with bars and marks on them, and lines across all lanes.

All times are in seconds on the history's own clock; nothing here knows of pixels or colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LaneKind(StrEnum):
    """What a lane is about."""

    CALLS = "calls"
    WRAPPER = "wrapper"
    PROCESS = "process"
    WRITES = "writes"
    REQUESTS = "requests"
    TOKENS = "tokens"
    HEARTBEATS = "heartbeats"
    OUTCOMES = "outcomes"
    MACHINE = "machine"


class BarKind(StrEnum):
    """What went on for a while."""

    ALIVE = "alive"
    OVERDUE = "overdue"
    """It went on after the handover, when nothing of the cancelled run may happen any more."""
    UNPROVEN = "unproven"
    """Nobody saw whether it still went on."""
    CLEANUP = "cleanup"
    STOPPED = "stopped"
    CALL = "call"
    REQUEST = "request"
    SIDE_REQUEST = "side-request"
    TOKENS = "tokens"
    ANSWER = "answer"
    TERMINAL = "terminal"
    GAP = "gap"
    """Nothing came for longer than is promised."""


class MarkKind(StrEnum):
    """What happened at one moment."""

    START = "start"
    WORKS = "works"
    NOTICE = "notice"
    STEP = "step"
    ENDED = "ended"
    KILLED = "killed"
    GONE = "gone"
    """It ended, and nobody can tell how: a process that only was found says no goodbye."""
    DRILL = "drill"
    """The drill itself ended what was left."""
    UNSEEN = "unseen"
    STOPPED = "stopped"
    DISRUPTED = "disrupted"
    TOLD_WRITE = "told-write"
    CHANGE = "change"
    LATE_WRITE = "late-write"
    DONE = "done"
    DISCONNECTED = "disconnected"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    BEAT = "beat"
    REPORTED = "reported"
    ERROR = "error"
    WORST = "worst"


class LineKind(StrEnum):
    """A moment that holds for the whole drill."""

    PRESSED = "pressed"
    PRESSED_AGAIN = "pressed-again"
    GRACE = "grace"
    HANDOVER = "handover"
    DEADLINE = "deadline"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment: ``words`` tell all of it but when, ``label`` is what is written beside it where there is room."""

    at_s: float
    kind: MarkKind
    words: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted; bars of one lane that overlap stand in different ``row`` s, counted from 0."""

    since_s: float
    until_s: float
    kind: BarKind
    words: str
    label: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A value that holds for a window of time, in seconds."""

    since_s: float
    until_s: float
    value_s: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture.

    ``detail`` stands beside the name, ``note`` below it: what became of it. ``is_grave`` says that the note tells of something that
    went on too long. From ``over_s`` on nothing may happen in it any more (None: that is never so).
    """

    kind: LaneKind
    name: str
    detail: str
    note: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    levels: tuple[Level, ...] = ()
    is_grave: bool = False
    over_s: float | None = None

    @property
    def rows(self) -> int:
        """How many rows of bars it takes, 1 at least."""
        return 1 + max((bar.row for bar in self.bars), default=0)


@dataclass(frozen=True, slots=True)
class Line:
    """A moment across all lanes."""

    at_s: float
    kind: LineKind
    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Course:
    """One drill: what is shown lies between ``since_s`` and ``until_s``, and times are told from ``origin_s`` (``origin`` in words).

    ``lines`` may lie behind ``until_s``: then the drill was over before.
    """

    origin_s: float
    origin: str
    since_s: float
    until_s: float
    lanes: tuple[Lane, ...]
    lines: tuple[Line, ...]

    def line(self, kind: LineKind) -> Line | None:
        """The first line of that kind, or None."""
        return next((one for one in self.lines if one.kind is kind), None)
