"""The terms that hold for a subcommand: those of its command line, then those of the folder's settings, then the defaults."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cancelcontract.cli.folder import folder_settings
from pytest_cancelcontract.cli.parser import BadUse, flag
from pytest_cancelcontract.option_table import TERM_ROWS

if TYPE_CHECKING:
    from pytest_cancelcontract.terms import Terms


def given_terms(options: argparse.Namespace) -> Terms:
    """The terms, each with its origin; what the subcommand has no option for comes from the folder or is the default.

    Raises:
        BadUse: a term, or a setting of the folder, is refused.
    """
    from pytest_cancelcontract.terms import BadTerm, settle_terms

    settings, origins = folder_settings(Path.cwd())
    found: dict[str, tuple[object, str]] = {}
    for term, row in TERM_ROWS.items():
        if (value := getattr(options, row.key, None)) is not None:
            found[term] = (value, flag(row))
        elif row.key in settings:
            found[term] = (settings[row.key], origins[row.key])
    try:
        return settle_terms(found)
    except BadTerm as error:
        raise BadUse(str(error)) from None
