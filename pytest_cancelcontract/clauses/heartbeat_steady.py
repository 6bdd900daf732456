"""heartbeat-steady: heartbeats keep coming until the run is gone, whatever it does, and through the grace."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.heartbeats import beats
from pytest_cancelcontract.finding import Finding, Verdict

LONGER = "a run that lives longer than heartbeat_timeout: in a shorter one no heartbeat can be missed"
ADVICE = "heartbeat on a timer of its own, in no way tied to the child's output, and go on until the run is gone"


def check(facts: Facts) -> Finding:
    """Judge whether any two heartbeats were further apart than ``heartbeat_timeout``, from the leader's hello until gone.

    The hello and the end count as if there were a heartbeat at each of them.
    Returns:
        inconclusive where the engine did not tell, or when the run was gone is not known; not covered where no heartbeat came in the
        whole of a run that was too short to miss one.
    """
    timeout_s = facts.terms.heartbeat_timeout_s or 0.0
    expected = (
        f"heartbeats at most {words.seconds(timeout_s)} apart ({words.numbers(facts.terms, 'heartbeat_timeout')}) until the run is gone"
    )
    told = beats(facts)
    if told is None or told.error or facts.leader is None:
        return words.inconclusive(f"the engine did not tell of any heartbeat{f': {told.error}' if told else ''}", expected)
    gone = facts.gone
    # The run lived at least until then, which is enough to miss a heartbeat; that none was missed takes all of its life.
    lived = _widest(facts, told.moments, gone.earliest_s if math.isfinite(gone.earliest_s) else facts.watched_until_s)
    if _gap_s(lived) > timeout_s + facts.lateness_s(*lived) + ROUNDING_S:
        return Finding(Verdict.BROKEN, _observed(facts, lived), expected, _seen_by(facts, lived), _likely(facts, lived[0]), ADVICE)
    whole = _widest(facts, told.moments, gone.latest_s) if gone.is_closed else lived
    observed, seen_by = _observed(facts, whole), _seen_by(facts, whole)
    if _gap_s(whole) > timeout_s + ROUNDING_S:
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    if not gone.is_closed:
        return words.inconclusive(f"{observed}; the run was not gone", expected, seen_by=seen_by)
    if whole == (facts.leader.born_s, gone.latest_s):
        return Finding(Verdict.NOT_COVERED, f"no heartbeat in the run's {words.seconds(_gap_s(whole))}", expected, seen_by, lacks=LONGER)
    return Finding(Verdict.KEPT, observed, expected, seen_by)


def _widest(facts: Facts, moments: Sequence[float], until_s: float) -> tuple[float, float]:
    """The longest time without a heartbeat, from the leader's hello until then."""
    began_s = facts.leader.born_s if facts.leader is not None else until_s
    inside = [began_s, *(one for one in moments if began_s < one < until_s), max(began_s, until_s)]
    return max(itertools.pairwise(inside), key=_gap_s)


def _gap_s(between: tuple[float, float]) -> float:
    return between[1] - between[0]


def _observed(facts: Facts, widest: tuple[float, float]) -> str:
    return f"heartbeats at most {words.seconds(_gap_s(widest))} apart ({words.after_press(facts, widest[0])} on)"


def _seen_by(facts: Facts, widest: tuple[float, float]) -> str:
    return f"engine, by the adapter; {words.lateness(facts, *widest)}"


def _likely(facts: Facts, since_s: float) -> str:
    if facts.notice is not None and since_s > facts.pressed_s:
        return "the heartbeats stop when the cancel comes, and the grace passes without"
    return "they are tied to something that the run does or does not do"
