"""The report for machines: one JSON file, in the contract's format. What was not measured is null, never 0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cancelcontract.whole_file import write_whole

REPORT_FORMAT = "cancel-contract-report"
REPORT_FORMAT_VERSION = 1
CONTRACT_VERSION = 1
MEASURED = (
    "answered_s",
    "heartbeat_interval_s",
    "delivery_s",
    "grace_used_s",
    "cancel_to_gone_s",
    "cancel_to_reported_s",
    "early_s",
    "late_writes",
    "late_tokens",
    "survivors",
    "clock_error_s",
)
"""What a drill's ``measured`` holds, always all of it."""
_CHECK = ("clause", "level", "verdict", "observed", "expected", "why", "try")


def document(rows: Sequence[Mapping[str, Any]], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> dict[str, Any]:
    """The report as JSON-shaped data.

    ``terms`` are those of the run as a whole; a drill that ran by others (a marker's), or under another wrapper than the first drill's,
    carries its own beside its fields; one that could not be run carries its ``error``. ``gate`` is what turns the run red beside the
    verdicts of its drills, a line each; where there is nothing, the field is left out.
    """
    run = [row for row in rows if "error" not in row]
    wrapper = str(run[0].get("wrapper", "")) if run else None
    return {
        "format": REPORT_FORMAT,
        "format_version": REPORT_FORMAT_VERSION,
        "contract": CONTRACT_VERSION,
        "wrapper": wrapper,
        "terms": dict(terms),
        "machine": dict(run[0].get("machine") or {}) if run else {},
        "drills": [_drill(row, wrapper, terms) for row in rows],
        "not_covered": [
            {"scenario": row["scenario"], "clause": missing["clause"], "lacks": missing["lacks"]}
            for row in rows
            for missing in row.get("not_covered", ())
        ],
        **({"gate": list(gate)} if gate else {}),
    }


def text_of(report: Mapping[str, Any]) -> bytes:
    """The report as it stands in its file."""
    text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A file's name need not be UTF-8; what is not comes as lone surrogates, whose escapes are JSON's as well.
    return text.encode("utf-8", "backslashreplace")


def write(path: Path, rows: Sequence[Mapping[str, Any]], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> None:
    """Write the report; the file is there whole or, if that fails, as it was before.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, text_of(document(rows, terms=terms, gate=gate)))


def _drill(row: Mapping[str, Any], wrapper: str | None, terms: Mapping[str, Any]) -> dict[str, Any]:
    measured = row.get("measured", {})
    entry = {
        "test": row.get("test"),
        "scenario": row["scenario"],
        "verdict": str(row["verdict"]),
        "attempts": row.get("attempts", 1),
        "measured": {name: measured.get(name) for name in MEASURED},
        "checks": [{name: check.get(name, "") for name in _CHECK} for check in row.get("checks", ())],
        "history": row.get("history"),
    }
    if "error" in row:
        entry["error"] = row["error"]
    elif row.get("wrapper") != wrapper:
        entry["wrapper"] = row.get("wrapper")
    if row.get("terms") and row["terms"] != terms:
        entry["terms"] = row["terms"]
    return entry
