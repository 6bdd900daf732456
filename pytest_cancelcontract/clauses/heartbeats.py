"""The heartbeats as the engine had them, for the two clauses about them."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cancelcontract.clauses.facts import Facts


@dataclass(frozen=True, slots=True)
class Beats:
    """When the engine had heartbeats, in order, as far as its adapter tells; ``error`` says why it does not."""

    moments: tuple[float, ...]
    asked_s: float
    error: str


def beats(facts: Facts) -> Beats | None:
    """What the engine told of at the end of the drill; None where it was not asked."""
    told = facts.history.last("engine", "heartbeats")
    if told is None:
        return None
    moments = tuple(sorted(float(one) for one in told.data.get("moments") or ()))
    return Beats(moments, told.at_s, str(told.data.get("error") or ""))
