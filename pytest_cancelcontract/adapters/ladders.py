"""Ladders: a cancel that is pressed as a platform does it, one signal after another with a pause between, up to SIGKILL.

Written out and read here, and climbed by :func:`pytest_cancelcontract.adapters.helpers.climb`. Each signal goes to the wrapper's own
process, also where the platform sends it to more: what a wrapper leaves to the platform's sweep would else look like its own work.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_cancelcontract.adapters.words import BadCommand, signal_named
from pytest_cancelcontract.terms import LARGEST_S

MARK = "@"
"""What a ladder begins with where a signal or a command could stand as well."""


@dataclass(frozen=True, slots=True)
class LadderRow:
    """One platform's ladder, as it is out of the box: ``steps`` in the words of one's own, ``source`` the page that says so."""

    name: str
    steps: str
    source: str
    about: str


LADDERS: tuple[LadderRow, ...] = (
    LadderRow(
        "github-actions",
        "INT 7.5 TERM 2.5 KILL",
        "https://docs.github.com/en/actions/reference/workflow-cancellation-reference",
        "INT and TERM go to the step's entry process (the shell of a run: step), the kill there to its process tree.",
    ),
    LadderRow(
        "docker",
        "TERM 10 KILL",
        "https://docs.docker.com/reference/cli/docker/container/stop/",
        "docker stop signals the container's main process; with that one dead, the kernel kills what else is in the container.",
    ),
    LadderRow(
        "kubernetes",
        "TERM 30 KILL",
        "https://kubernetes.io/docs/concepts/workloads/pods/pod-termination/",
        "TERM goes to each container's main process, KILL after terminationGracePeriodSeconds to all that is left in the pod.",
    ),
    LadderRow(
        "systemd",
        "TERM 0 CONT 90 KILL",
        "https://man7.org/linux/man-pages/man5/systemd.kill.5.html",
        "There each goes to the unit's whole cgroup (KillMode=control-group); CONT is for what is stopped; 90 s: DefaultTimeoutStopSec.",
    ),
    LadderRow(
        "buildkite",
        "TERM 10 KILL",
        "https://buildkite.com/docs/agent/lifecycle",
        "There both go to the job's process group; version 3 of the agent kills it a second earlier.",
    ),
    LadderRow(
        "gitlab",
        "TERM 600 KILL",
        "https://docs.gitlab.com/runner/executors/shell/#terminating-and-killing-processes",
        "The shell executor, where both go to the job's process group.",
    ),
)
"""The platforms, in the order in which they are shown."""


class Step(NamedTuple):
    """One signal, and the seconds to wait behind it for the process to end."""

    number: signal.Signals
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """Steps in order, the last one without a pause; ``name`` is a platform's, with its mark, or empty."""

    steps: tuple[Step, ...]
    name: str = ""

    @property
    def takes_s(self) -> float:
        """Seconds from the first signal to the last, where the process does not end before."""
        return sum(step.pause_s for step in self.steps)

    @property
    def how(self) -> str:
        """In words: ``"@docker: SIGTERM, 10 s, SIGKILL to the wrapper"``."""
        words = [word for step in self.steps for word in (step.number.name, f"{step.pause_s:g} s" if step.pause_s else "") if word]
        return f"{self.name + ': ' if self.name else ''}{', '.join(words)} to the wrapper"


def is_ladder(words: Sequence[str]) -> bool:
    """Whether the words of ``cancel_with`` are a ladder's."""
    return words[0].startswith(MARK)


def read_ladder(words: Sequence[str], origin: str) -> Ladder:
    """The ladder that words name (``@docker``) or spell out (``@INT 2 TERM 1 KILL``), in one word or several.

    Raises:
        BadCommand: a platform that is not in the table, a signal that does not exist, or a pause that is missing, stands at the end,
            or is no finite number of seconds.
    """
    given = " ".join(words)
    steps = given.removeprefix(MARK).split()
    if not steps:
        raise BadCommand(f"a ladder without a step, got {given!r} from {origin}; {_ALLOWED}")
    for row in LADDERS:
        if [row.name] == steps:
            return _spelled(row.steps.split(), f"{MARK}{row.name}", given, origin)
    if len(steps) == 1 and signal_named(steps[0]) is None:
        raise BadCommand(f"no such ladder: {given!r} from {origin}; {_ALLOWED}")
    return _spelled(steps, "", given, origin)


def _spelled(steps: Sequence[str], name: str, given: str, origin: str) -> Ladder:
    where = f"in the ladder {given!r} from {origin}; {_ALLOWED}"
    read: list[Step] = []
    for place, word in enumerate(steps):
        number = signal_named(word)
        if place % 2 == 0:
            if number is None:
                raise BadCommand(f"no such signal: {word!r} {where}")
            read.append(Step(number))
        elif number is not None:
            raise BadCommand(f"the pause between {steps[place - 1]} and {word} is missing {where}")
        else:
            read[-1] = Step(read[-1].number, _pause_s(word, where))
    if len(steps) % 2 == 0:
        raise BadCommand(f"the pause at the end, {steps[-1]}, has no signal behind it {where}")
    return Ladder(tuple(read), name)


def _pause_s(word: str, where: str) -> float:
    try:
        pause_s = float(word)
    except ValueError:
        pause_s = math.nan
    if not 0 <= pause_s <= LARGEST_S:  # nan is not either
        raise BadCommand(f"a pause must be a number of seconds from 0 to {LARGEST_S:.0f}, got {word!r} {where}")
    return pause_s


_ALLOWED = (
    f"allowed are {', '.join(MARK + row.name for row in LADDERS)}, or signals by name with the seconds between them,"
    f" as in {MARK}'INT 2 TERM 1 KILL'"
)
