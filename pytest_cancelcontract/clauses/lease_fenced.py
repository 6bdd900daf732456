"""lease-fenced: a wrapper that cannot reach its engine for as long as its lease has stopped its runner."""

from __future__ import annotations

from pytest_cancelcontract.clauses import no_survivors
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.finding import Finding

ADVICE = "count from the last answer of the engine, on a clock of the wrapper's own, and end the run when the lease is over"


def check(facts: Facts) -> Finding:
    """Judge whether every process was dead by ``lease``, the grace and ``kill_within`` after the engine's last answer."""
    return no_survivors.dead_by_deadline(facts, _why, ADVICE)


def _why(_facts: Facts, _survivor: Member) -> str:
    return "the wrapper tries to reach its engine for ever, or lets the run go on until it answers; the engine has started another by then"
