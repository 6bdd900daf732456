"""The orchestrator keeps every clause in every scenario, and each half measure breaks its own; as often as is asked for, and under load.

Run by ``make test-all`` once, and by ``make walk-orchestrator TIMES=20`` again and again with the cores overloaded.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.walk.verdicts import Compared, compare
from tests.walk.walking import Cell, Tally, Walk, keep_histories

pytestmark = pytest.mark.timeout(600)
OPEN_SHARE = 0.02


@pytest.fixture(autouse=True)
def leak_guard() -> None:
    """Not after each test: the drills of the next ones are under way. ``walk`` looks when all are over."""


def test_orchestrator_gets_exactly_these_verdicts(cell: Cell, walk: Walk, tally: Tally, request: pytest.FixtureRequest) -> None:
    """With its own bridge all is kept; with a half measure its own clauses are broken, and the others are not looked at."""
    result = walk.result(cell).result()
    seen = _of_interest(cell, compare(cell, result, is_loaded=bool(request.config.getoption("--orchestrator-load", 0))))
    tally.add(cell, result, seen)
    if seen.wrong:
        kept = keep_histories(result, request.node.name)
        pytest.fail("\n".join([f"{cell.name}:", *seen.wrong, f"history  {kept}"]), pytrace=False)


def test_no_more_than_two_in_a_hundred_were_left_open(tally: Tally) -> None:
    """What a busy machine spoils twice is no wrong verdict, but there may not be much of it. Last, so behind the drills."""
    assert len(tally.left_open) <= max(1.0, OPEN_SHARE * tally.drills), tally.left_open


def _of_interest(cell: Cell, seen: Compared) -> Compared:
    sample: Any = cell.sample  # see tests/orchestrator/cells.py
    if not sample.breaks:
        return seen
    wrong, left_open = ([line for line in lines if line.partition(":")[0] in sample.breaks] for lines in (seen.wrong, seen.left_open))
    return Compared(wrong, left_open, seen.not_kept)
