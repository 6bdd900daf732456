"""``cancelcontract judge``: the findings of recorded drills, again. The same files give the same bytes, on any machine, in any year."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cancelcontract.cli.findings import exit_status, finding_lines
from pytest_cancelcontract.cli.parser import Actions, BadUse, add_option, read_history
from pytest_cancelcontract.option_table import OPTIONS

if TYPE_CHECKING:
    from pytest_cancelcontract.finding import Check
    from pytest_cancelcontract.history import History

NAME = "judge"
_LEVEL = next(row for row in OPTIONS if row.name == "level")


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="judge recorded drills again",
        description="Judge recorded drills again, from their history files alone, by all clauses of their scenarios. The same files give"
        " the same findings, byte by byte.",
        epilog="exit status: 0 where everything that is judged is kept; 1 where something is broken; 2 where nothing is broken and"
        " something is inconclusive, or nothing was judged; 4 where a file is no history. What is only a SHOULD counts with"
        " --level should.",
        allow_abbrev=False,
    )
    parser.add_argument("histories", nargs="+", metavar="HISTORY", help="a history file, as kept in .cancelcontract/, or a folder of them")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json is the report that --cancel-report writes")
    add_option(parser, _LEVEL)


def main(options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print the findings.

    Raises:
        BadUse: a file cannot be read or is no history, or names a scenario that is not known here.
    """
    from pytest_cancelcontract.finding import Level

    judged = [(history, _judge(history)) for history in map(read_history, _files(options.histories))]
    if options.format == "json":
        _print_json(judged)
    else:
        print("\n\n".join("\n".join(finding_lines(history, checks)) for history, checks in judged))
    return exit_status([checks for _, checks in judged], Level(options.cancel_level or Level.MUST))


def _files(given: Sequence[str]) -> Iterator[str]:
    for path in given:
        if Path(path).is_dir():
            found = sorted(str(file) for file in Path(path).rglob("*.jsonl"))
            if not found:
                raise BadUse(f"no history lies in {path}: they are files that end in .jsonl")
            yield from found
        else:
            yield path


def _judge(history: History) -> tuple[Check, ...]:
    from pytest_cancelcontract.contract import clauses_of, judge
    from pytest_cancelcontract.scenarios import UnknownScenario

    try:
        return judge(history, clauses_of(history))
    except UnknownScenario as error:
        raise BadUse(f"{history.path}: {error}") from None


def _print_json(judged: Sequence[tuple[History, tuple[Check, ...]]]) -> None:
    from pytest_cancelcontract.conduct import result_of
    from pytest_cancelcontract.report import json_report

    rows = []
    for history, checks in judged:
        header = history.header
        row = result_of(history, checks).as_dict()
        rows.append({**row, "attempts": header.get("attempt", 1), "terms": header.get("terms"), "machine": header.get("machine")})
    text = json_report.text_of(json_report.document(rows, terms=rows[0]["terms"] or {}))
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
