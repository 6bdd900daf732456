"""When an agent is cancelled and how: a table of data. A trial is a moment and a signal."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cancelcontract.adapters.words import signal_named
from pytest_cancelcontract.agents.tool import placed
from pytest_cancelcontract.answers import HeldUntilPressed, Script, Stream, ToolCall

CLAUSES: tuple[str, ...] = (
    "no-survivors",
    "outcome-reported",
    "outcome-not-early",
    "outcome-not-success",
    "stays-ended",
    "no-late-writes",
    "spend-stops",
    "requests-closed",
)
"""What an agent's own command line can keep or break, in report order. All others are about what it is not told, or has not."""
SLOW = Stream(tokens=100_000, tokens_per_s=20)
"""An answer that is never over while anybody watches."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a trial's signal is sent.

    ``event`` is what the recorder waits for (empty: nothing, the agent has just been started), ``words`` says it for people, and
    ``placement`` is how the agent's command runs the tool, None where it runs none.
    """

    id: str
    words: str
    event: str
    placement: str | None = None

    def script(self, tool: str) -> Script:
        """What the provider answers; ``tool`` is the command line of the tool."""
        if self.placement is not None:
            return Script((ToolCall(placed(self.placement, tool), text="I run it now."), SLOW))
        return Script((HeldUntilPressed(SLOW), SLOW)) if self.event == "asked" else Script((SLOW,))


MOMENTS: tuple[Moment, ...] = (
    Moment("streaming", "while it streams an answer", "streams"),
    Moment("tool", "while it runs a tool", "tool-works", ""),
    Moment("tool-nohup", "while its tool runs in the background (nohup)", "tool-works", "nohup"),
    Moment("tool-setsid", "while its tool runs in a session of its own", "tool-works", "setsid"),
    Moment("tool-daemon", "while its tool runs in a session of its own, double-forked", "tool-works", "daemon"),
    Moment("start", "at its start, its first request not answered yet", "asked"),
    Moment("spawn", "right after it was started", ""),
)


@dataclass(frozen=True, slots=True)
class Way:
    """A signal, to the agent's process (``"pid"``) or to its group (``"group"``)."""

    id: str
    signal: str
    to: str

    @property
    def words(self) -> str:
        """``"SIGTERM to its group"``."""
        return f"{self.signal} to its {'process' if self.to == 'pid' else 'group'}"


WAYS: tuple[Way, ...] = (
    Way("int", "SIGINT", "pid"),
    Way("term", "SIGTERM", "pid"),
    Way("hup", "SIGHUP", "pid"),
    Way("term-group", "SIGTERM", "group"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One moment and one way."""

    moment: Moment
    way: Way

    @property
    def id(self) -> str:
        """``agent-tool-nohup-term-group``; the scenario of its drill."""
        return f"agent-{self.moment.id}-{self.way.id}"

    @property
    def is_core(self) -> bool:
        """It is one of those that are done where nobody chooses."""
        return self.id in _CORE


_CORE = frozenset(
    {
        *("agent-streaming-int", "agent-streaming-term", "agent-tool-int", "agent-tool-term", "agent-tool-term-group"),
        *("agent-tool-setsid-term", "agent-tool-daemon-term", "agent-start-term"),
    }
)
TRIALS: tuple[Trial, ...] = tuple(Trial(moment, way) for moment in MOMENTS for way in WAYS)


class UnknownTrial(ValueError):
    """No trial of that id or pattern; the message names some that exist."""


def trial(id: str) -> Trial:
    """The trial of that id, with ``agent-`` in front or without.

    Raises:
        UnknownTrial: there is none.
    """
    return select([id])[0]


def trial_of(moment: str, signal: str, to: str = "pid") -> Trial:
    """The trial of that moment by any signal, ``"TERM"`` or ``"SIGTERM"``, to the process (``"pid"``) or the group (``"group"``).

    Raises:
        UnknownTrial: a part of it is unknown.
    """
    when = next((one for one in MOMENTS if one.id == moment), None)
    number = signal_named(signal)
    if when is None:
        raise UnknownTrial(f"there is no moment {moment!r}; the moments are {', '.join(one.id for one in MOMENTS)}")
    if number is None or to not in {"pid", "group"}:
        raise UnknownTrial(f"a trial sends a signal, such as TERM, to the pid or the group; got {signal!r} to {to!r}")
    return Trial(when, Way(f"{number.name.removeprefix('SIG').lower()}{'-group' if to == 'group' else ''}", number.name, to))


def select(chosen: Sequence[str]) -> tuple[Trial, ...]:
    """The trials that these words name, in the table's order: ``core``, ``all``, an id, a pattern (``tool-*-term``), ``!…`` to leave out.

    Nothing chosen is ``core``; where only something is left out, it is left out of that.

    Raises:
        UnknownTrial: a word names none.
    """
    wanted, left_out = set[str](), set[str]()
    for word in chosen:
        (left_out if word.startswith("!") else wanted).update(_named(word.removeprefix("!")))
    if not any(not word.startswith("!") for word in chosen):
        wanted = set(_named("core"))
    return tuple(one for one in TRIALS if one.id in wanted - left_out)


def _named(word: str) -> list[str]:
    if word in {"core", "all"}:
        return [one.id for one in TRIALS if one.is_core or word == "all"]
    pattern = f"agent-{word.removeprefix('agent-')}"
    if found := [one.id for one in TRIALS if fnmatch.fnmatchcase(one.id, pattern)]:
        return found
    near = difflib.get_close_matches(pattern, [one.id for one in TRIALS]) or [TRIALS[0].id]
    raise UnknownTrial(
        f"there is no trial {word!r}; a trial is agent-MOMENT-WAY, of the moments {', '.join(one.id for one in MOMENTS)} and the ways"
        f" {', '.join(one.id for one in WAYS)}, such as {' or '.join(near)}; or core, or all"
    )
