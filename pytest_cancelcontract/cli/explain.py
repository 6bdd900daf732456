"""``cancelcontract explain``: what a clause promises and how to keep it, and what a scenario shows."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_cancelcontract.cli.parser import Actions, BadUse

if TYPE_CHECKING:
    from pytest_cancelcontract.contract import ClauseRow
    from pytest_cancelcontract.scenarios import Scenario

NAME = "explain"
WIDEST = 100
_MARGIN = 14


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="explain a clause or a scenario",
        description="Explain a clause (what it promises, how it is judged, how it is usually broken, how to keep it) or a scenario.",
        epilog="exit status: 0; 4 where there is no such clause or scenario. cancelcontract list shows them all.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name", metavar="CLAUSE|SCENARIO", help="an id, such as no-survivors or deaf-child; or both, deaf-child:no-survivors"
    )


def main(options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print the explanation, as wide as the terminal.

    Raises:
        BadUse: there is neither a clause nor a scenario of that name.
    """
    width = min(WIDEST, shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST)
    print("\n\n".join("\n".join(_wrapped(part, width)) for part in _parts(options.name)))
    return 0


def _parts(name: str) -> list[list[tuple[str, str]]]:
    from pytest_cancelcontract.contract import CLAUSES
    from pytest_cancelcontract.scenarios import SCENARIOS

    scenarios = {row.id: row for row in SCENARIOS}
    clauses = {row.id: row for row in CLAUSES}
    parts = []
    for one in name.split(":"):
        if one in scenarios:
            parts.append(list(_scenario(scenarios[one])))
        elif one in clauses:
            parts.append(list(_clause(clauses[one])))
        else:
            near = difflib.get_close_matches(one, [*clauses, *scenarios])
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise BadUse(f"there is no clause or scenario {one!r}; {hint}cancelcontract list shows them all")
    return parts


def _clause(row: ClauseRow) -> Iterator[tuple[str, str]]:
    from pytest_cancelcontract.explanations import CLAUSES
    from pytest_cancelcontract.scenarios import SCENARIOS

    words = CLAUSES[row.id]
    yield row.id, str(row.level).upper()
    yield "promises", row.promise
    yield "judged", words.judged
    yield "broken by", words.broken_by
    yield "keep it", words.keep
    yield "takes", "; ".join(part for part in (row.lacks, f"a value of the term {row.term}" if row.term else "") if part)
    yield "shown by", ", ".join(scenario.id for scenario in SCENARIOS if row.id in scenario.clauses)


def _scenario(row: Scenario) -> Iterator[tuple[str, str]]:
    from pytest_cancelcontract.contract import NEEDS
    from pytest_cancelcontract.explanations import SCENARIOS

    yield row.id, "a scenario of the core set" if row.is_core else "a scenario"
    yield "the runner", row.what
    yield "the act", row.act.words
    yield "stands for", SCENARIOS[row.id]
    yield "judges", ", ".join(row.clauses)
    yield "takes", "; ".join(NEEDS[need] for need in row.needs)


def _wrapped(fields: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    (name, kind), *others = fields
    yield f"{name}  ({kind})"
    for label, text in others:
        if text:
            first = f"  {label:<{_MARGIN - 2}}"
            yield from textwrap.wrap(
                text, width, initial_indent=first, subsequent_indent=" " * _MARGIN, break_on_hyphens=False, break_long_words=False
            )
