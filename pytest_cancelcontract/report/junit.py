"""A drill as properties of its test case, for JUnit's file and whatever else reads what pytest calls user properties. Pure.

Names and values are short strings and nothing else: an object there ends a whole run under xdist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_cancelcontract.report.json_report import MEASURED
from pytest_cancelcontract.report.text import Row, plain

_MOST_CHARACTERS = 300


def properties(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The properties of a test with these drills: ``("cancel_contract.verdict", "broken")`` and so on.

    Those of a second drill are called ``cancel_contract.2.verdict``. What was not measured is left out.
    """
    return [
        (f"cancel_contract.{f'{number}.' if number > 1 else ''}{name}", _short(value))
        for number, row in enumerate(rows, 1)
        for name, value in _of_drill(row)
    ]


def _of_drill(row: Row) -> Iterator[tuple[str, str]]:
    yield "scenario", str(row["scenario"])
    yield "verdict", str(row["verdict"])
    if "error" in row:
        yield "error", str(row["error"])
        return
    by_verdict: dict[str, list[Mapping[str, Any]]] = {}
    for check in row.get("checks", ()):
        by_verdict.setdefault(str(check["verdict"]), []).append(check)
    for name in ("broken", "inconclusive"):
        if found := by_verdict.get(name):
            yield name, ", ".join(str(check["clause"]) for check in found)
    measured = row.get("measured") or {}
    for name in MEASURED:
        if isinstance(value := measured.get(name), int | float):
            yield name, f"{value:.6g}" if isinstance(value, float) else str(value)
    yield "attempts", str(row.get("attempts", 1))
    if row.get("history"):
        yield "history", str(row["history"])


def _short(text: str) -> str:
    shown = " ".join(plain(text).split())
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[: _MOST_CHARACTERS - 1]}…"
