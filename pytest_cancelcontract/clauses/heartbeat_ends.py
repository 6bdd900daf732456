"""heartbeat-ends: what is over does not heartbeat any more."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.heartbeats import beats
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "end the timer with the run, not with the wrapper"


def check(facts: Facts) -> Finding:
    """Judge whether heartbeats came later than one interval, ``heartbeat_timeout`` at most, after the run was gone.

    Returns:
        inconclusive where the engine did not tell, or when the run was gone is not known.
    """
    timeout_s = facts.terms.heartbeat_timeout_s or 0.0
    expected = f"no heartbeat later than {words.seconds(timeout_s)} after gone ({words.numbers(facts.terms, 'heartbeat_timeout')})"
    told, gone = beats(facts), facts.gone
    if told is None or told.error:
        return words.inconclusive(f"the engine did not tell of any heartbeat{f': {told.error}' if told else ''}", expected)
    if not gone.is_closed:
        return words.inconclusive("when the run was gone is not known", expected)
    late = [one for one in told.moments if one > gone.latest_s + timeout_s + ROUNDING_S]
    seen_by = f"engine, by the adapter, asked {words.after_press(facts, told.asked_s)}"
    if late:
        observed = f"{len(late)} heartbeats, the last {words.seconds(late[-1] - gone.latest_s)} after the run was gone"
        return Finding(Verdict.BROKEN, observed, expected, seen_by, "the timer lives as long as the wrapper", ADVICE)
    if any(one > gone.earliest_s + timeout_s + ROUNDING_S for one in told.moments):
        return words.inconclusive("whether the last heartbeat was after that is not known: gone is known by looks only", expected)
    if told.asked_s < gone.latest_s + facts.terms.settle_s - ROUNDING_S:
        return words.inconclusive("the engine was asked too early to tell", expected, seen_by=seen_by)
    return Finding(Verdict.KEPT, f"no heartbeat {words.seconds(told.asked_s - gone.latest_s)} after the run was gone", expected, seen_by)
