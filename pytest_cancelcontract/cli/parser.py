"""What the parsers of all subcommands share."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
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
            message += self._hint(message.partition(": ")[2].split())
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")

    def options(self) -> list[str]:
        """The names of its options, and of those of its subcommands."""
        below = [one for action in self._actions if isinstance(action.choices, dict) for one in action.choices.values()]
        own = [name for action in self._actions for name in action.option_strings]
        return own + [name for one in below if isinstance(one, Parser) for name in one.options()]

    def _hint(self, words: Sequence[str]) -> str:
        for word in words:
            name = word.partition("=")[0].replace("--cancel-", "--")
            if word.startswith("--") and (close := difflib.get_close_matches(name, self.options(), 1)):
                return f" (did you mean {close[0]}?)"
        return " (the wrapper's command comes last, behind a word of its own: --)"


Actions: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What ``add_subparsers`` returns; argparse has no public name for it."""


def add_option(parser: argparse.ArgumentParser, row: OptionRow, says: str = "") -> None:
    """An option of the contract, by the name that it has here; ``says`` is what it does, where that has other words here."""
    words = (says or row.help).replace("--cancel-", "--").replace("%", "%%")
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
