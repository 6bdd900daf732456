"""``cancelcontract compare``: what has changed between reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_cancelcontract.cli.parser import Actions, BadUse

NAME = "compare"
EXCEEDED = 1


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="show what has changed between two reports",
        usage="cancelcontract compare [options] OLD.json NEW.json",
        description="Show what has changed between two reports (--report x.json, or judge --format json): verdicts, and times with the"
        " clock's error beside them. Several reports of a side are several runs, whose medians count.",
        epilog="exit status: 0 where every limit holds, or none was given; 1 where one does not, or cannot be told; 4 where a file is no"
        " report, or a limit is none.",
        allow_abbrev=False,
    )
    parser.add_argument("old", metavar="OLD.json", help="the earlier report")
    parser.add_argument("new", metavar="NEW.json", help="the later one")
    parser.add_argument("--old", dest="more_old", action="append", default=[], metavar="FILE", help="another earlier report, repeatable")
    parser.add_argument("--new", dest="more_new", action="append", default=[], metavar="FILE", help="another later report, repeatable")
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME:LIMIT",
        help="what may not have grown by more, repeatable: gone:20%%+0.2s, reported:0.5s, late-writes:0; verdict fails on any verdict that"
        " got worse",
    )


def main(options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print the comparison, and on the standard error what fails it.

    Raises:
        BadUse: a report or a limit is refused.
    """
    from pytest_cancelcontract.report.compare import BadLimit, compare, lines, read_limit

    try:
        limits = [read_limit(text, "--limit") for text in options.limit]
    except BadLimit as error:
        raise BadUse(str(error)) from None
    old, new = [options.old, *options.more_old], [options.new, *options.more_new]
    found = compare([_read(name) for name in old], [_read(name) for name in new], limits)
    print("\n".join(lines(found, since=" and ".join(old))))
    for failure in found.failures:
        print(f"limit: {failure}", file=sys.stderr)
    return EXCEEDED if found.failures else 0


def _read(name: str) -> dict[str, Any]:
    from pytest_cancelcontract.report.compare import BadReport, read_report

    try:
        return read_report(Path(name).read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise BadUse(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except BadReport as error:
        raise BadUse(str(error)) from None
