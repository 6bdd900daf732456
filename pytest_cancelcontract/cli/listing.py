"""``cancelcontract list``: the scenarios, the clauses and the ladders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pytest_cancelcontract.cli.given_terms import given_terms
from pytest_cancelcontract.cli.parser import Actions, add_option
from pytest_cancelcontract.option_table import TERM_ROWS

NAME = "list"


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="show the scenarios, the clauses and the ladders",
        description="Show the scenarios, what each judges and how long it takes with the given terms; then the clauses, and the ladders"
        " that --with takes.",
        allow_abbrev=False,
    )
    for row in TERM_ROWS.values():
        add_option(parser, row)


def main(options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print them; the times are those of the terms on the command line and in the folder's settings.

    Raises:
        BadUse: a term is refused.
    """
    from pytest_cancelcontract.adapters.ladders import LADDERS
    from pytest_cancelcontract.contract import CLAUSES
    from pytest_cancelcontract.report.listing import clause_lines, ladder_lines, scenario_lines
    from pytest_cancelcontract.scenarios import SCENARIOS

    terms = given_terms(options)
    print("\n".join([*scenario_lines(SCENARIOS, terms), "", *clause_lines(CLAUSES), "", *ladder_lines(LADDERS)]))
    return 0
