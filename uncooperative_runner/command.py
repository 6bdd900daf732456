"""The runner's command line. Written out by hand: importing argparse takes as long as the rest of the start."""

from __future__ import annotations

import signal
import sys
import time

from uncooperative_runner.habits import HABITS, BadHabits
from uncooperative_runner.options import CLEANUP_S, LIFETIME_S, MEMBER_NAMES, NAMES, BadCommand, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE_STATUS = 2

HELP = f"""\
usage: uncooperative_runner --habit NAME [--habit NAME ...] [options] [-- anything]

A child process that does what badly behaved agents, builds and crawlers do when they are cancelled. It writes a line to a log in
its working folder every 50 ms and prints one. Without --recorder it tells on stderr what it does, and is ended by SIGKILL.

  --habit NAME     what to do wrong; repeat it to combine; --list shows them all
  --cleanup S      how long a clean-up takes, seconds (default {CLEANUP_S:g})
  --lifetime S     every process of it ends after so many seconds, even a stopped one (default {LIFETIME_S:g})
  --hold WHERE     before-handlers: wait before any of the four signals is handled, so that each of them kills it;
                   before-work: wait before it first writes. The recorder lets it go on; by hand, Enter does
  --recorder ADDR  unix:PATH, abstract:NAME or tcp:127.0.0.1:PORT; repeat it: the first that answers is used
  --token T        what the recorder knows this run by
  --list           the habits
  --help           this
  --               the end of the options: what follows may be anything
"""


def parse(arguments: Sequence[str], started_s: float) -> Options | str:
    """The options, or the text that was asked for by --help or --list.

    Raises:
        BadCommand, BadHabits: refused.
    """
    values: dict[str, list[str]] = {name: [] for name in NAMES + MEMBER_NAMES}
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
            raise BadCommand(f"unknown option {word!r}; the options are {', '.join(NAMES)}, --list, --help and --")
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
    if understood.member:
        from uncooperative_runner.another import be_another

        be_another(understood, understood.member)
    from uncooperative_runner.leader import lead

    return lead(understood)
