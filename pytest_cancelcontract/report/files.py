"""The reports that are files: how one is written, the end of its name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cancelcontract.report import json_report

SUFFIXES = (".json", ".html")


def why_not(path: Path, name: str) -> str:
    """Why no report can be written there, in words (``name`` is how it was given); ``""`` where one can."""
    if path.suffix not in SUFFIXES:
        return f"a report's file must end in {' or '.join(SUFFIXES)}, got {name!r}"
    if path.is_dir():
        return f"a report must be a file, got the folder {name!r}"
    if path.suffix == ".html":
        from pytest_cancelcontract.report.html_report import why_not_here

        if missing := why_not_here():
            return f"{missing}, got {name!r}"
    return ""


def write_report(path: Path, rows: Sequence[Mapping[str, Any]], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> None:
    """Write it; ``gate`` is what turns the run red beside the verdicts of its drills, a line each.

    Raises:
        OSError: it cannot be written.
    """
    if path.suffix == ".html":
        from pytest_cancelcontract.report import html_report

        html_report.write(path, rows, terms=terms, gate=gate)
    else:
        json_report.write(path, rows, terms=terms, gate=gate)
