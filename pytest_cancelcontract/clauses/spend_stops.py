"""spend-stops: by the provider's own count, nothing is asked or produced any more once a replacement may be at work."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cancelcontract.clauses import requests as meter
from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.finding import Finding, Verdict

HEARD_OF_WITHIN_S = 0.1
ASKS_AGAIN_WITHIN_S = 1.0
"""Who has asked something after the run was gone is taken to be at it still, unless it was seen silent for so long."""
ADVICE = "end every process of the run, cancel what it has begun at the provider, and close connections that are held in its stead"


def check(facts: Facts) -> Finding:
    """Judge whether a token was produced, or a request begun, later than ``spend_within`` after the handover.

    What the runner or the wrapper counts is not asked. Tokens count where all of their span lies beyond the limit.
    Returns:
        inconclusive when the run was never seen to spend, the meter was not watched for long enough, or the machine was later than what
        the spending was late by.
    """
    limit = meter.limit_s(facts)
    expected = f"the meter stands still {meter.from_limit(facts)}"
    requests = meter.requests_of(facts)
    moments = [at_s for one in requests for at_s in (one.began_s, *(tokens.since_s for tokens in one.tokens)) if at_s > limit]
    seen_by = meter.seen_by(facts, requests)
    if moments and meter.is_after(last := max(moments), limit, meter.margin_s(facts, last)):
        late = [one for one in requests if one.began_s > limit or one.tokens_after(limit)]
        likely = meter.likely_of(facts, late, limit)
        return Finding(Verdict.BROKEN, _describe(facts, requests, late, last), expected, seen_by, likely, ADVICE)
    if moments:
        observed = f"the meter ran until {words.after_press(facts, max(moments))}; {words.SLOW_MACHINE}"
        return words.inconclusive(observed, expected, seen_by=seen_by, advice=words.QUIETER, spoilt=True)
    if (doubt := meter.doubt(facts, requests, expected)) is not None:
        return doubt
    if _asks_on(facts, requests):
        return words.inconclusive("something asked the provider on after the run was gone, and was not watched to its end", expected)
    last = max((at_s for one in requests for at_s in (one.began_s, *(tokens.until_s for tokens in one.tokens))), default=-math.inf)
    observed = f"the last token or request came {words.after_press(facts, last)}" if requests else meter.NEVER_ASKED
    return Finding(Verdict.KEPT, observed, expected, seen_by)


def _asks_on(facts: Facts, requests: Sequence[meter.Request]) -> bool:
    """Whether something other than the run, which was gone, was at it when the drill ended."""
    # What a process asks right before its death is heard of right behind it.
    margin_s = meter.margin_s(facts, facts.gone.latest_s)
    gone_s = facts.gone.latest_s + HEARD_OF_WITHIN_S + (margin_s if math.isfinite(margin_s) else 0.0)
    # A request that names an attempt was sent by a process of it, and is heard of late where the recorder is.
    attempts = {member.attempt for member in facts.first_run}
    others = [one for one in requests if one.asked.data.get("attempt") not in attempts]
    last_s = max((one.began_s for one in others if one.began_s > gone_s), default=-math.inf)
    return last_s + ASKS_AGAIN_WITHIN_S > facts.end_s


def late_tokens(facts: Facts) -> int:
    """How many tokens the provider produced for the run after the handover."""
    return meter.tokens_after(meter.requests_of(facts), facts.handover_s)


def _describe(facts: Facts, requests: Sequence[meter.Request], late: Sequence[meter.Request], last_s: float) -> str:
    handover = facts.handover_s
    begun = sum(one.began_s > handover for one in requests)
    told = [f"{meter.tokens_after(requests, handover)} tokens"] + ([f"{begun} new request{'' if begun == 1 else 's'}"] if begun else [])
    # What was open before comes first: it was never closed.
    details = [meter.describe(one, facts) for one in sorted(late, key=lambda one: one.began_s > handover)]
    return f"{' and '.join(told)} after the handover, the last {words.seconds(last_s - handover)} after it: {words.several(details)}"
