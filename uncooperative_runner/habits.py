"""What the runner can be told to do wrong: a written-out table, and how several habits make one plan.

A habit is added by a row here, and by code in member.py only if no row could say it before. Nothing here touches the world.
Plain classes: dataclasses and typing would cost as much time as the whole rest of the start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    AtNotice = Literal["end", "end with status 0", "clean up, then end", "clean up for ever", "nothing"]
    Placement = Literal["same group", "own session", "daemon"]


class Child:
    """One child of the leader, always deaf: its role, where it stands, whether it keeps the leader's stdout and stderr."""

    def __init__(self, role: str, placement: Placement = "same group", *, keeps_output: bool = False, memory_bytes: int = 0) -> None:
        self.role = role
        self.placement = placement
        self.keeps_output = keeps_output
        self.memory_bytes = memory_bytes


class Habit:
    """One row: a sentence for people, what the leader does at notice (None: no opinion), and what else the run has."""

    def __init__(
        self,
        name: str,
        sentence: str,
        at_notice: AtNotice | None = None,
        *,
        children: tuple[Child, ...] = (),
        is_silent: bool = False,
        leaves_poison: bool = False,
    ) -> None:
        self.name = name
        self.sentence = sentence
        self.at_notice = at_notice
        self.children = children
        self.is_silent = is_silent
        self.leaves_poison = leaves_poison


HEAVY_BYTES = 100 * 1024 * 1024

HABITS: tuple[Habit, ...] = (
    Habit("polite", "ends at the first notice", "end"),
    Habit("slow-cleanup", "cleans up for --cleanup seconds at notice, then ends", "clean up, then end"),
    Habit("endless-cleanup", "starts to clean up at notice and never ends", "clean up for ever"),
    Habit("deaf", "notices TERM, INT, HUP, QUIT and the end of its input, and does nothing", "nothing"),
    Habit("exits-zero", "ends with status 0 at the first notice", "end with status 0"),
    Habit("deaf-child", "a child in the leader's group is deaf", children=(Child("deaf-child"),)),
    Habit("own-session-child", "a deaf child has a session of its own", children=(Child("own-session-child", "own session"),)),
    Habit("daemon", "a deaf child is double-forked into a session of its own", children=(Child("daemon", "daemon"),)),
    Habit("pipe-holder", "a deaf child keeps the leader's stdout and stderr open", children=(Child("pipe-holder", keeps_output=True),)),
    Habit("silent", "prints nothing", is_silent=True),
    Habit("poison", "leaves files in a marked workspace, and a session id, that the next run must not find", leaves_poison=True),
    Habit(
        "heavy-children",
        "four deaf children with 100 MB of memory each, which take a while to die (for the plugin's own tests)",
        children=tuple(Child(f"heavy-child-{number}", memory_bytes=HEAVY_BYTES) for number in (1, 2, 3, 4)),
    ),
)


class BadHabits(ValueError):
    """An unknown habit, or some that contradict each other; the message says what is allowed."""


class Plan:
    """What the run as a whole does: the sum of its habits. The leader is polite unless a habit says otherwise."""

    def __init__(self, names: Sequence[str]) -> None:
        rows = [_row(name) for name in dict.fromkeys(names)]
        deciding = [row for row in rows if row.at_notice is not None]
        if len(deciding) > 1:
            names = " and ".join(row.name for row in deciding)
            raise BadHabits(f"the habits {names} contradict each other: each says what the leader does at notice")
        self.names = [row.name for row in rows]
        self.manner = deciding[0].name if deciding else "polite"
        self.at_notice: AtNotice = deciding[0].at_notice or "end" if deciding else "end"
        self.children = [child for row in rows for child in row.children]
        self.is_silent = any(row.is_silent for row in rows)
        self.leaves_poison = any(row.leaves_poison for row in rows)
        if self.is_silent and self.leaves_poison:
            raise BadHabits("the habits silent and poison contradict each other: poison prints a session id")


def _row(name: str) -> Habit:
    for row in HABITS:
        if row.name == name:
            return row
    raise BadHabits(f"unknown habit {name!r}; the habits are {', '.join(row.name for row in HABITS)}")
