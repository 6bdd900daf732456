"""The command line as a whole: which subcommands there are, and how a refused one ends.

A subcommand is a module with ``add_to(actions)``, which makes its parser, and ``main(options, command)``, which does it and returns the
exit status; ``command`` are the words behind ``--``. What it needs beyond the standard library it imports when it is run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from pytest_cancelcontract.cli import compare, doctor, explain, judge, listing, run, show, watch
from pytest_cancelcontract.cli.output import steady_output
from pytest_cancelcontract.cli.parser import USAGE_ERROR, Actions, BadUse, Parser


class Subcommand(Protocol):
    """What every module of a subcommand has."""

    NAME: str

    def add_to(self, actions: Actions, /) -> None:
        """Make its parser."""

    def main(self, options: argparse.Namespace, command: Sequence[str], /) -> int:
        """Do it; returns the exit status.

        Raises:
            BadUse: what was given is refused.
        """


SUBCOMMANDS: tuple[Subcommand, ...] = (run, listing, judge, show, explain, compare, doctor, watch)
"""In the order of ``--help``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, which is the subcommand's."""
    with steady_output():
        return _main(list(sys.argv[1:] if arguments is None else arguments))


def _main(given: Sequence[str]) -> int:
    options = _parser().parse_args(_before_command(given))
    subcommand = next(one for one in SUBCOMMANDS if options.action == one.NAME)
    try:
        return subcommand.main(options, _command_in(given))
    except BadUse as error:
        print(f"cancelcontract {options.action}: {error}", file=sys.stderr)
        return USAGE_ERROR


def _before_command(words: Sequence[str]) -> list[str]:
    return list(words[: words.index("--")]) if "--" in words else list(words)


def _command_in(words: Sequence[str]) -> list[str]:
    return list(words[words.index("--") + 1 :]) if "--" in words else []


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="cancelcontract",
        description="Does your wrapper's cancel button really end what it started?",
        epilog=run.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    actions = parser.add_subparsers(dest="action", required=True, metavar=" | ".join(one.NAME for one in SUBCOMMANDS), parser_class=Parser)
    for one in SUBCOMMANDS:
        one.add_to(actions)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pytest-cancelcontract")
    except PackageNotFoundError:
        return "(not installed)"
