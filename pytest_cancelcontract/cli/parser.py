"""What the parsers of all subcommands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from pytest_cancelcontract.option_table import OptionRow, reading

if TYPE_CHECKING:
    from pytest_cancelcontract.history import History

USAGE_ERROR = 4
"""As pytest's own."""


class BadUse(ValueError):
    """The command line, or a setting of the folder, is refused; the message names the value and where it came from."""


class Parser(argparse.ArgumentParser):
    """Ends with pytest's status for a usage error: argparse's own, 2, would say that a run was interrupted."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += " (the wrapper's command comes last, behind a word of its own: --)"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


Actions: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What ``add_subparsers`` returns; argparse has no public name for it."""


def add_option(parser: argparse.ArgumentParser, row: OptionRow) -> None:
    """An option of the contract, by the name that it has here."""
    words = row.help.replace("--cancel-", "--").replace("%", "%%")
    parser.add_argument(flag(row), dest=row.key, default=None, help=words, **reading(row))


def flag(row: OptionRow) -> str:
    """An option's name here, where nothing else takes options: without its prefix."""
    return row.flag.replace("--cancel-", "--")


def read_history(path: str) -> History:
    """A history from its file.

    Raises:
        BadUse: it cannot be read, or is none.
    """
    from pytest_cancelcontract.history import BadHistory, load

    try:
        return load(Path(path))
    except (OSError, BadHistory) as error:
        raise BadUse(f"{path} cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)) from None
