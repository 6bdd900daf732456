"""The phrases and the small arithmetic that all lanes share."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_cancelcontract.clauses.facts import Facts, NotPressed
from pytest_cancelcontract.clauses.words import seconds
from pytest_cancelcontract.scenarios import Trigger
from pytest_cancelcontract.terms import BadTerm


def after(origin_s: float, at_s: float) -> str:
    """``"+14.2 s"``: a moment, told from the origin."""
    return f"{'+' if at_s >= origin_s else ''}{seconds(at_s - origin_s)}"


def over_s(facts: Facts) -> float | None:
    """From when on nothing of the cancelled run may happen any more; None where there is no such moment.

    That is the handover; where nobody pressed, it is the deadline, since an outcome that was told before asked nobody to stop.
    """
    try:
        return facts.handover_s if facts.trigger is Trigger.PRESSED else facts.deadline_s
    except (NotPressed, BadTerm):
        return None


def count_of(number: int, one: str, many: str = "") -> str:
    """``"1 token"``, ``"2 tokens"``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def rows_of(spans: Iterable[tuple[float, float]]) -> list[int]:
    """For spans in order of their beginnings, the first row in which each overlaps with none before it."""
    ends: list[float] = []
    rows = []
    for since_s, until_s in spans:
        row = next((number for number, end_s in enumerate(ends) if end_s <= since_s), len(ends))
        if row == len(ends):
            ends.append(until_s)
        ends[row] = until_s
        rows.append(row)
    return rows
