"""requests-closed: no request of the run is open at the provider once the meter must stand still."""

from __future__ import annotations

from pytest_cancelcontract.clauses import requests as meter
from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "close the run's connections to the provider with the run; what is asked without streaming is paid for though nobody reads it"


def check(facts: Facts) -> Finding:
    """Judge whether a request from before the handover was open later than ``spend_within`` after it, on a connection or without one.

    Requests that begin only then are for ``spend-stops``.
    Returns:
        inconclusive as ``spend-stops`` is.
    """
    limit = meter.limit_s(facts)
    expected = f"no request from before the handover open at the provider {meter.from_limit(facts)}"
    requests = meter.requests_of(facts)
    seen_by = meter.seen_by(facts, requests)
    late = [one for one in requests if one.began_s <= facts.handover_s and one.ended_s > limit]
    # A request that is open to the last was open as long as the recorder is proven to have watched.
    until_s = max((min(one.ended_s, max(facts.watched_until_s, one.began_s)) for one in late), default=limit)
    if late and meter.is_after(until_s, limit, meter.margin_s(facts, until_s)):
        details = words.several([meter.describe(one, facts) for one in late])
        observed = f"{len(late)} request{'' if len(late) == 1 else 's'} open after the limit: {details}"
        return Finding(Verdict.BROKEN, observed, expected, seen_by, meter.likely_of(facts, late, limit), ADVICE)
    if late and until_s > limit:
        observed = f"a request was open until {words.after_press(facts, until_s)}; {words.SLOW_MACHINE}"
        return words.inconclusive(observed, expected, seen_by=seen_by, advice=words.QUIETER, spoilt=True)
    if (doubt := meter.doubt(facts, requests, expected)) is not None:
        return doubt
    observed = "every request that the run had begun by the handover was closed by then" if requests else meter.NEVER_ASKED
    return Finding(Verdict.KEPT, observed, expected, seen_by)
