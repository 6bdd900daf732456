"""heartbeat-ends: what is over does not heartbeat any more."""

from __future__ import annotations

import itertools
import math

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.heartbeats import Beats, beats
from pytest_cancelcontract.finding import Finding, Verdict

LONGER = "a look that is longer than heartbeat_timeout, or a run with two heartbeats in it that show how often they come"
QUIET_FOR = 2
"""So many of the run's own intervals without a heartbeat show that they have ended."""
ADVICE = "end the timer with the run, not with the wrapper"


def check(facts: Facts) -> Finding:
    """Judge whether heartbeats came later than one interval, ``heartbeat_timeout`` at most, after the run was gone.

    Asked earlier than that it is kept where the heartbeats had stood still for twice as long as they did while the run lived.
    Returns:
        inconclusive where the engine did not tell, when the run was gone is not known, or where it was asked too early to tell; not
        covered where it was, and there were no two heartbeats in the run that could have told how often they come.
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
    if not told.moments:
        return Finding(Verdict.NOT_COVERED, "no heartbeat was seen at all", expected, seen_by, lacks=LONGER)
    last_s = told.moments[-1] - gone.latest_s
    side = f"{words.seconds(abs(last_s))} {'after' if last_s > 0 else 'before'} the run was gone"
    quiet_s = told.asked_s - max(told.moments[-1], gone.latest_s)
    observed = (
        f"the last heartbeat {side}, and none in the {words.seconds(quiet_s)} from then on, or from gone on, until the engine was asked"
    )
    if told.asked_s >= gone.latest_s + timeout_s - ROUNDING_S:
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    usual_s = _usual_s(facts, told)
    if usual_s is None:
        return Finding(Verdict.NOT_COVERED, observed, expected, seen_by, lacks=LONGER)
    observed += f" (in the run at most {words.seconds(usual_s)} apart)"
    if quiet_s > QUIET_FOR * usual_s + facts.lateness_s(gone.latest_s, told.asked_s):
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    return words.inconclusive(f"{observed}, which is too early to tell", expected, seen_by=seen_by, advice=ADVICE)


def _usual_s(facts: Facts, told: Beats) -> float | None:
    """How far apart the heartbeats were at most while the run lived; None where there were no two."""
    began_s = facts.leader.born_s if facts.leader is not None else math.inf
    inside = [one for one in told.moments if began_s <= one <= facts.gone.latest_s + ROUNDING_S]
    return max((later - earlier for earlier, later in itertools.pairwise(inside)), default=None)
