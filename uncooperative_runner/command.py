"""The runner's command line. Written out by hand: importing argparse takes as long as the rest of the start."""

from __future__ import annotations

import signal
import sys
import time

from uncooperative_runner.habits import HABITS, BadHabits, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LIFETIME_S = 600.0
CLEANUP_S = 1.0
USAGE_STATUS = 2

HELP = f"""\
usage: uncooperative_runner --habit NAME [--habit NAME ...] [options] [-- anything]

A child process that does what badly behaved agents, builds and crawlers do when they are cancelled. It writes a line to a log in
its working folder every 50 ms and prints one. Without --recorder it tells on stderr what it does, and is ended by SIGKILL.

  --habit NAME     what to do wrong; repeat it to combine; --list shows them all
  --cleanup S      how long a clean-up takes, seconds (default {CLEANUP_S:g})
  --lifetime S     every process of it ends after so many seconds, even a stopped one (default {LIFETIME_S:g})
  --recorder ADDR  unix:PATH, abstract:NAME or tcp:127.0.0.1:PORT; repeat it: the first that answers is used
  --token T        what the recorder knows this run by
  --list           the habits
  --help           this
  --               the end of the options: what follows may be anything
"""


class BadCommand(ValueError):
    """A command line that is refused; the message says what is allowed."""


class Options:
    """A command line that was understood. ``deadline_s`` is the end of the lifetime, on the monotonic clock."""

    def __init__(self, values: dict[str, list[str]], started_s: float) -> None:
        self.recorders = values["--recorder"]
        self.token = (values["--token"] or [""])[-1]
        if bool(self.recorders) != bool(self.token):
            raise BadCommand("--recorder and --token go together: give both, or neither to run it by hand")
        if not values["--habit"]:
            raise BadCommand(f"at least one --habit is needed; the habits are {', '.join(row.name for row in HABITS)}")
        self.plan = Plan(values["--habit"])
        self.cleanup_s = _seconds("--cleanup", values, CLEANUP_S, above_zero=False)
        self.deadline_s = started_s + _seconds("--lifetime", values, LIFETIME_S, above_zero=True)


def _seconds(name: str, values: dict[str, list[str]], default: float, *, above_zero: bool) -> float:
    text = values[name][-1] if values[name] else str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9 or (above_zero and seconds == 0):  # false for nan as well
        raise BadCommand(f"{name} must be a finite number of seconds {'above' if above_zero else 'not below'} 0, got {text!r}")
    return seconds


def parse(arguments: Sequence[str], started_s: float) -> Options | str:
    """The options, or the text that was asked for by --help or --list.

    Raises:
        BadCommand, BadHabits: refused.
    """
    values: dict[str, list[str]] = {name: [] for name in ("--habit", "--recorder", "--token", "--cleanup", "--lifetime")}
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        if word in ("--help", "-h"):
            return HELP
        if word == "--list":
            return "".join(f"{row.name:18} {row.sentence}\n" for row in HABITS)
        name, has_value, value = word.partition("=")
        if name not in values:
            raise BadCommand(f"unknown option {word!r}; the options are {', '.join(values)}, --list, --help and --")
        if not has_value:
            value = next(words, "--")
            if value == "--":
                raise BadCommand(f"{name} needs a value")
        values[name].append(value)
    return Options(values, started_s)


def run(arguments: Sequence[str]) -> int:
    """Be the runner; returns (an exit status) only where there is nothing to run."""
    started_s = time.monotonic()
    try:
        understood = parse(arguments, started_s)
    except (BadCommand, BadHabits) as error:
        sys.stderr.write(f"uncooperative runner: {error}\n".encode("ascii", "backslashreplace").decode())
        return USAGE_STATUS
    if isinstance(understood, str):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `--list | head` is no error
        sys.stdout.write(understood)
        return 0
    from uncooperative_runner.leader import lead

    return lead(understood)
