"""The report for people: one HTML file that needs nothing else, with a picture of every drill.

Jinja2 fills in the page; it comes with the extra ``html``, and is imported when a page is written and not before.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cancelcontract.history import BadHistory, load
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.whole_file import write_whole

if TYPE_CHECKING:
    from pytest_cancelcontract.report.html.page import Told

INSTALL = "pip install 'pytest-cancelcontract[html]'"


def why_not_here() -> str:
    """What is missing for a report in HTML, and the command that brings it; empty where it can be written. Imports nothing."""
    if importlib.util.find_spec("jinja2") is None:
        return f"a report in HTML needs Jinja2, which is not installed here: {INSTALL}"
    return ""


def page(rows: Sequence[Mapping[str, Any]], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> str:
    """The page's text; takes what ``json_report.document`` takes. A drill whose history cannot be read is shown without a picture.

    Raises:
        ImportError: Jinja2 is missing; see :func:`why_not_here`.
    """
    from pytest_cancelcontract.report.html.page import render

    return render([_told(row) for row in rows], terms=terms, gate=gate)


def write(path: Path, rows: Sequence[Mapping[str, Any]], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> None:
    """Write the report; the file is there whole or, if that fails, as it was before.

    Raises:
        OSError: it cannot be written.
        ImportError: Jinja2 is missing; see :func:`why_not_here`.
    """
    # A file's name need not be UTF-8; what is not comes as lone surrogates, and is shown as their escapes.
    write_whole(path, page(rows, terms=terms, gate=gate).encode("utf-8", "backslashreplace"))


def _told(row: Mapping[str, Any]) -> Told:
    from pytest_cancelcontract.report.html.lanes import course
    from pytest_cancelcontract.report.html.page import Told

    path = row.get("history")
    if not path:
        return Told(row)
    try:
        history = load(str(path))
    except (OSError, BadHistory) as error:
        return Told(row, trouble=f"no picture: the history cannot be read ({error})")
    try:
        when = str(history.header.get("wall_time") or "").partition(".")[0].replace("T", " ")
        return Told(row, course(history, Terms.from_dict(history.header["terms"])), when)
    except Exception as error:  # A history that cannot be drawn must not cost the words of all the others.
        return Told(row, trouble=f"no picture: the history cannot be drawn ({type(error).__name__}: {error})")
