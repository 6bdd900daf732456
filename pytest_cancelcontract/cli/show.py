"""``cancelcontract show``: what happened in a recorded drill, in order of time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cancelcontract.cli.parser import Actions, read_history

if TYPE_CHECKING:
    from pytest_cancelcontract.history import History

NAME = "show"


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="show the timeline of a recorded drill",
        description="Show what happened in a recorded drill, in seconds from cancel. Nothing is judged: see judge for that.",
        epilog="exit status: 0; 4 where the file is no history.",
        allow_abbrev=False,
    )
    parser.add_argument("history", metavar="HISTORY", help="a history file, as kept in .cancelcontract/")


def main(options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print the timeline.

    Raises:
        BadUse: the file cannot be read, or is no history.
    """
    print("\n".join(_lines(read_history(options.history))))
    return 0


def _lines(history: History) -> Iterator[str]:
    from pytest_cancelcontract.report.text import plain
    from pytest_cancelcontract.report.timeline import timeline

    for name, value in _about(history):
        if value:
            yield plain(f"{name:<8}  {value}")
    shown = timeline(history, most_lines=None)
    yield ""
    yield from map(plain, shown)
    if not shown:
        yield "nothing was done to the run: cancel was never pressed"
    for problem in history.of("drill", "problem"):
        yield plain(f"problem: {problem.data.get('what')}")


def _about(history: History) -> Iterator[tuple[str, str]]:
    from pytest_cancelcontract.clauses.facts import act_of

    header = history.header
    yield "scenario", str(header.get("scenario") or "")
    yield "habits", ", ".join(map(str, header.get("habits") or ()))
    yield "act", " ".join(str(part) for part in (act_of(history), header.get("moment")) if part)
    yield "wrapper", str(header.get("wrapper") or "")
    yield "attempt", "" if header.get("attempt", 1) == 1 else str(header["attempt"])
    yield "terms", _terms(header.get("terms"))
    yield "recorded", str(header.get("wall_time") or "")


def _terms(told: Any) -> str:
    """The terms that somebody gave; the others are the defaults."""
    if not isinstance(told, dict):
        return ""
    given = {name: row for name, row in told.items() if isinstance(row, dict) and row.get("origin") != "default"}
    return ", ".join(f"{name} {row.get('value')} ({row.get('origin')})" for name, row in given.items()) or "the defaults"
