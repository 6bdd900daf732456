"""heartbeat-ends: what is over does not heartbeat any more."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.heartbeats import beats
from pytest_cancelcontract.finding import Finding, Verdict

LONGER = "a look that is longer than heartbeat_timeout, or a run with two heartbeats in it that show how often they come"
ANY = "a run that has a heartbeat: where none ever came, none can be seen to have ended"
QUIET_FOR = 2
"""So many of their own intervals without a heartbeat show that they have ended."""
ADVICE = "end the timer with the run, not with the wrapper"


def check(facts: Facts) -> Finding:
    """Judge whether heartbeats came later than one interval, ``heartbeat_timeout`` at most, after the run was gone.

    Asked earlier than that it is kept where the heartbeats had stood still for twice as long as they ever did before; asked later, where
    the next one was due since the last one.
    Returns:
        inconclusive where the engine did not tell, when the run was gone is not known, or where it was asked too early to tell; not
        covered where it was, and there were no two heartbeats that could have told how often they come.
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
        return Finding(Verdict.NOT_COVERED, "no heartbeat was seen at all", expected, seen_by, lacks=ANY)
    last_s, quiet_s = told.moments[-1] - gone.latest_s, told.asked_s - max(told.moments[-1], gone.latest_s)
    observed = (
        f"the last heartbeat {words.seconds(last_s)} after the run was gone, and none in the {words.seconds(quiet_s)} from then on"
        if last_s > 0
        else f"no heartbeat in the {words.seconds(quiet_s)} after the run was gone, the last one {words.seconds(-last_s)} before"
    )
    usual_s = _usual_s(told.moments, gone.latest_s)
    is_past = told.asked_s >= gone.latest_s + timeout_s - ROUNDING_S
    if is_past and (last_s <= 0 or quiet_s >= min(usual_s or timeout_s, timeout_s)):
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    if usual_s is None and not is_past:
        return Finding(Verdict.NOT_COVERED, observed, expected, seen_by, lacks=LONGER)
    if usual_s is not None:
        observed += f" ({words.seconds(usual_s)} at most without one before)"
        if not is_past and quiet_s > QUIET_FOR * usual_s + facts.lateness_s(gone.latest_s, told.asked_s):
            return Finding(Verdict.KEPT, observed, expected, seen_by)
    return words.inconclusive(f"{observed}: asked too early to tell whether there would be another one", expected, seen_by=seen_by)


def _usual_s(moments: Sequence[float], gone_s: float) -> float | None:
    """How long they stood still at most before the last one, and before the end; None where there were no two."""
    points = [*moments, gone_s] if moments[-1] < gone_s else moments
    return max(later - earlier for earlier, later in itertools.pairwise(points)) if len(moments) > 1 else None
