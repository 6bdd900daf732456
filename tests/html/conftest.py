"""What the report's tests share: recorded histories, and rows as the plugin keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.conduct import DrillResult
from pytest_cancelcontract.contract import judge, measure, verdict_of
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.terms import Terms

RECORDED = sorted((Path(__file__).parent / "histories").glob("*.jsonl"))
"""Histories of real drills; ``kept-`` and ``broken-`` say how the drill ended."""
MakeRow = Callable[..., dict[str, Any]]


def terms_of(history: History) -> Terms:
    """The terms that a drill ran by."""
    return Terms.from_dict(history.header["terms"])


def row_of(path: Path, **more: Any) -> dict[str, Any]:
    """A drill as the plugin keeps it, judged from its history."""
    history = load(path)
    checks = judge(history)
    scenario, wrapper = str(history.header["scenario"]), str(history.header["wrapper"])
    result = DrillResult(scenario, verdict_of(checks), 1, measure(history), checks, str(path), wrapper)
    header = {"terms": history.header["terms"], "machine": history.header["machine"]}
    return {**result.as_dict(), "test": "test_cancel.py::test_it", "expected": {}, **header, **more}


@pytest.fixture(scope="session")
def recorded_rows() -> list[dict[str, Any]]:
    """A row for each recorded history."""
    return [row_of(path) for path in RECORDED]
