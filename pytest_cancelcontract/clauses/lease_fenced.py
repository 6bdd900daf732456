"""lease-fenced: a wrapper that cannot reach its engine for as long as its lease has stopped its runner."""

from __future__ import annotations

from pytest_cancelcontract.clauses import no_survivors, words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "count from the last answer of the engine, on a clock of the wrapper's own, and end the run when the lease is over"
SLOW_CALL = "let engine(handle, state) come back as soon as the engine refuses: its last answer is somewhere in that call"


def check(facts: Facts) -> Finding:
    """Judge whether every process was dead by ``lease``, the grace and ``kill_within`` after the engine's last answer.

    That came while the engine was being made to refuse: kept counts from when that began, broken from when it was done.
    Returns:
        inconclusive when the run lived on after the one, and is not proven to have lived on after the other.
    """
    found = no_survivors.dead_by_deadline(facts, _why, ADVICE)
    took_s = _took_s(facts)
    if found.verdict is not Verdict.BROKEN or any(_outlived(facts, one, took_s) for one in no_survivors.survivors(facts)):
        return found
    observed = f"{found.observed}; to make the engine refuse took {words.seconds(took_s)}, and it may have answered until then"
    return words.inconclusive(observed, found.expected, seen_by=found.seen_by, advice=SLOW_CALL)


def _took_s(facts: Facts) -> float:
    refuses = facts.history.first("adapter", "engine-refuses")
    return 0.0 if refuses is None else max(0.0, refuses.at_s - facts.pressed_s)


def _outlived(facts: Facts, survivor: Member, took_s: float) -> bool:
    """It is proven to have lived on after the deadline that counts from the latest moment of the last answer."""
    return took_s == 0.0 or survivor.death.earliest_s > facts.deadline_s + took_s + ROUNDING_S


def _why(_facts: Facts, _survivor: Member) -> str:
    return "the wrapper tries to reach its engine for ever, or lets the run go on until it answers; the engine has started another by then"
