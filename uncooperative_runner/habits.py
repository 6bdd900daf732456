"""What the runner can be told to do wrong: a written-out table, and how several habits make one plan.

A habit is added by a row here, and by code in member.py (or a file of its own) only if no row could say it before. Nothing here
touches the world. Plain classes: dataclasses and typing would cost as much time as the whole rest of the start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    Spends = Literal["call", "stream", "held", "background"]
    AtNotice = Literal[
        "end",
        "end with status 0",
        "clean up, then end",
        "cancel the background request, then end",
        "clean up for ever",
        "end the step, then end at the second notice",
        "end the step, pause, work on",
        "start a successor, then end",
        "nothing",
    ]
    Placement = Literal["same group", "own group", "own session", "daemon"]


class Child:
    """One child of the leader: its role, where it stands, what it does at notice (what the leader of the habit ``manner`` does)."""

    def __init__(
        self,
        role: str,
        placement: Placement = "same group",
        *,
        manner: str = "deaf",
        keeps_output: bool = False,
        keeps_lock: bool = False,
        is_worker: bool = False,
        is_bare: bool = False,
        partner: str = "",
        memory_bytes: int = 0,
    ) -> None:
        """``keeps_output``: it holds the leader's stdout and stderr. ``keeps_lock``: it holds a lock that the leader took.
        ``is_worker``: it prints, and leaves poison, in the leader's stead. ``is_bare``: started by exec, without environment or
        descriptors. ``partner``: the role that it starts, and starts again.
        """
        self.role = role
        self.placement = placement
        self.manner = manner
        self.keeps_output = keeps_output
        self.keeps_lock = keeps_lock
        self.is_worker = is_worker
        self.is_bare = is_bare
        self.partner = partner
        self.memory_bytes = memory_bytes


class Habit:
    """One row: a sentence for people, what the leader does at notice (None: no opinion), and what else the run has."""

    def __init__(
        self,
        name: str,
        sentence: str,
        at_notice: AtNotice | None = None,
        *,
        but_at: Mapping[str, AtNotice] | None = None,
        children: tuple[Child, ...] = (),
        is_silent: bool = False,
        is_chatty: bool = False,
        leaves_poison: bool = False,
        writes_mapped: bool = False,
        stops_itself: bool = False,
        ends_itself: bool = False,
        gets_stuck: bool = False,
        loses_main_thread: bool = False,
        spends: Spends | None = None,
    ) -> None:
        """``but_at``: what it does at these notices instead, by the name of the signal or "input ended". ``writes_mapped``: the leader
        opens nothing by path for its work, once it works. ``spends``: how it calls the provider, where not by short calls: it has one
        request open that is streamed, or not answered, or goes on without a connection.
        """
        self.name = name
        self.sentence = sentence
        self.at_notice = at_notice
        self.but_at = but_at or {}
        self.children = children
        self.is_silent = is_silent
        self.is_chatty = is_chatty
        self.leaves_poison = leaves_poison
        self.writes_mapped = writes_mapped
        self.stops_itself = stops_itself
        self.ends_itself = ends_itself
        self.gets_stuck = gets_stuck
        self.loses_main_thread = loses_main_thread
        self.spends = spends

    def answer_to(self, notice: str) -> AtNotice:
        """What is done at a notice; a habit without an opinion ends."""
        return self.but_at.get(notice, self.at_notice or "end")


HEAVY_BYTES = 100 * 1024 * 1024
SUCCESSOR = "successor"

HABITS: tuple[Habit, ...] = (
    Habit("polite", "ends at the first notice", "end"),
    Habit("slow-cleanup", "cleans up for --cleanup seconds at notice, then ends", "clean up, then end"),
    Habit(
        "slow-child",
        "leaves at once at notice, and a child of its group cleans up for --cleanup seconds",
        children=(Child("slow-child", manner="slow-cleanup"),),
    ),
    Habit("endless-cleanup", "starts to clean up at notice and never ends", "clean up for ever"),
    Habit("deaf", "notices TERM, INT, HUP, QUIT and the end of its input, and does nothing", "nothing"),
    Habit(
        "second-signal",
        "ends the current step at the first notice, and itself at the second",
        "end the step, then end at the second notice",
    ),
    Habit(
        "keeps-spending",
        "closes its request at notice, and works on and sends new ones after 0.4 s",
        "end the step, pause, work on",
        spends="held",
    ),
    Habit("streaming", "has a streamed request open at its provider", spends="stream"),
    Habit(
        "background-request",
        "has work at its provider that goes on without a connection, and cancels it shortly before --cleanup is over",
        "cancel the background request, then end",
        spends="background",
    ),
    Habit("obeys-int", "deaf to all notices but INT, at which it ends", "nothing", but_at={"SIGINT": "end"}),
    Habit("obeys-term", "deaf to all notices but TERM, at which it ends", "nothing", but_at={"SIGTERM": "end"}),
    Habit("obeys-hup", "deaf to all notices but HUP, at which it ends", "nothing", but_at={"SIGHUP": "end"}),
    Habit(
        "launcher",
        "leaves at notice; only its child, which it tells nothing, works and prints, and would end at a notice of its own",
        children=(Child("worker", manner="polite", keeps_output=True, is_worker=True),),
    ),
    Habit("exits-zero", "ends with status 0 at the first notice", "end with status 0"),
    Habit("deaf-child", "a child in the leader's group is deaf", children=(Child("deaf-child"),)),
    Habit("own-group-child", "a deaf child has a process group of its own", children=(Child("own-group-child", "own group"),)),
    Habit("own-session-child", "a deaf child has a session of its own", children=(Child("own-session-child", "own session"),)),
    Habit("daemon", "a deaf child is double-forked into a session of its own", children=(Child("daemon", "daemon"),)),
    Habit(
        "bare-daemon",
        "a daemon with an empty environment, working folder / and all descriptors closed",
        children=(Child("bare-daemon", "daemon", is_bare=True),),
    ),
    Habit("successor", "starts a new deaf process at notice, and leaves", "start a successor, then end"),
    Habit(
        "respawner",
        "two deaf children start each other again when one is killed: both must be killed at once",
        children=(Child("respawner-1", partner="respawner-2"),),
    ),
    Habit("pipe-holder", "a deaf child keeps the leader's stdout and stderr open", children=(Child("pipe-holder", keeps_output=True),)),
    Habit("silent", "prints nothing", is_silent=True),
    Habit("chatty", "floods stdout and stderr, up to 64 MB each", is_chatty=True),
    Habit("frozen", "stops itself (SIGSTOP) once it works", stops_itself=True),
    Habit("mapped-writer", "deaf; writes only through a mapping and a descriptor opened before", "nothing", writes_mapped=True),
    Habit(
        "wedged",
        "works for 0.25 s, then is alive without output, write or request; deaf",
        "nothing",
        gets_stuck=True,
    ),
    Habit("ends-itself", "ends with status 0 after 0.25 s of work", ends_itself=True),
    Habit("poison", "leaves files in a marked workspace, and a session id, that the next run must not find", leaves_poison=True),
    Habit(
        "lock-holder",
        "locks a file in a marked workspace (flock), and a deaf child holds that lock on after it",
        children=(Child("lock-holder", keeps_lock=True),),
    ),
    Habit(
        "main-thread-gone",
        "deaf; its main thread has ended while another one works on (for the plugin's own tests)",
        "nothing",
        loses_main_thread=True,
    ),
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
        rows = [habit(name) for name in dict.fromkeys(names)]
        deciding = [row for row in rows if row.at_notice is not None]
        if len(deciding) > 1:
            names = " and ".join(row.name for row in deciding)
            raise BadHabits(f"the habits {names} contradict each other: each says what the leader does at notice")
        self.names = [row.name for row in rows]
        self.manner = deciding[0] if deciding else habit("polite")
        self.children = [child for row in rows for child in row.children]
        self.roles = ["leader", *[role for child in self.children for role in (child.role, child.partner) if role]]
        self.leader_works = not any(child.is_worker for child in self.children)
        self.is_silent = any(row.is_silent for row in rows)
        self.is_chatty = any(row.is_chatty for row in rows)
        self.leaves_poison = any(row.leaves_poison for row in rows)
        self.holds_lock = any(child.keeps_lock for child in self.children)
        self.stops_itself = any(row.stops_itself for row in rows)
        self.ends_itself = any(row.ends_itself for row in rows)
        self.gets_stuck = any(row.gets_stuck for row in rows)
        self.loses_main_thread = any(row.loses_main_thread for row in rows)
        self.spends = self._one_way_to_spend([row for row in rows if row.spends])
        if self.is_silent and self.is_chatty:
            raise BadHabits("the habits silent and chatty contradict each other: one prints nothing, the other floods")
        if self.manner.writes_mapped and not self.leader_works:
            raise BadHabits(
                f"the habits {self.manner.name} and launcher contradict each other: one works in the leader, the other does not"
            )

    def _one_way_to_spend(self, rows: list[Habit]) -> Spends:
        if len(rows) > 1:
            names = " and ".join(row.name for row in rows)
            raise BadHabits(f"the habits {names} contradict each other: each says how the run spends")
        return next((row.spends for row in rows if row.spends), "call")

    def partner_of(self, role: str) -> str:
        """The other one of two that start each other again; "" where it has none."""
        return next((role_of for row in self.children if row.partner for role_of in (row.role, row.partner) if role_of != role), "")


def habit(name: str) -> Habit:
    """The row of that name.

    Raises:
        BadHabits: there is none.
    """
    for row in HABITS:
        if row.name == name:
            return row
    raise BadHabits(f"unknown habit {name!r}; the habits are {', '.join(row.name for row in HABITS)}")
