"""stays-ended: what was cancelled is not started again by itself."""

from __future__ import annotations

import math

from pytest_cancelcontract.clauses import requests as meter
from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.members import LOOK_WITHIN_S, Member
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "take the cancel down before the run is told to stop, and let whatever starts runs again look there first"


def check(facts: Facts) -> Finding:
    """Judge whether a new attempt at the task began after the press, which only the drill's own second start may do.

    Of an agent's own command line a request counts as well that began after the agent was over: it is at the task again.
    Watched has to be until ``retry`` after the run was gone (the deadline, where it never was) and its outcome reported.
    Returns:
        inconclusive when the drill was over before, or when the run was gone is not known.
    """
    retry = words.numbers(facts.terms, "retry")
    expected = f"no new attempt at the task until {words.seconds(facts.terms.retry_s)} after it was over ({retry})"
    watched = words.after_press(facts, facts.watched_until_s)
    seen_by = f"lifeline; process table, watched until {watched}"
    if facts.revivals:
        observed = words.several([_describe(facts, one) for one in facts.revivals])
        return Finding(Verdict.BROKEN, f"started again by itself: {observed}", expected, seen_by, _likely(facts, facts.revivals[0]), ADVICE)
    if facts.is_agent and (found := _judge_requests(facts, expected, f"meter; {seen_by}")) is not None:
        return found
    over_s, what = _over(facts)
    if not math.isfinite(over_s):
        return words.inconclusive("when the run was gone is not known", expected, seen_by=seen_by, advice=words.SEE_THE_TABLE)
    until_s = over_s + facts.terms.retry_s
    if facts.watched_until_s < until_s - ROUNDING_S:
        observed = f"no new attempt until {watched}, but nobody watched until {words.after_press(facts, until_s)}; {what}"
        return words.inconclusive(observed, expected, seen_by=seen_by)
    return Finding(Verdict.KEPT, f"no new attempt until {watched}; {what}", expected, seen_by)


_RETRY = "a process of it lived on, took the end of its stream for a failure of the network, and tried again"


def _judge_requests(facts: Facts, expected: str, seen_by: str) -> Finding | None:
    """What an agent's requests after its exit say, if anything; one that was on its way to the meter by then is none of them."""
    if facts.history.first("meter", "look") is None:
        return words.inconclusive("the meter was never read, so nobody can say what was asked", expected, seen_by=seen_by)
    report = facts.report
    since_s = (facts.pressed_s if report is None else report.answered_s) + LOOK_WITHIN_S
    late = [one for one in meter.requests_of(facts) if one.began_s > since_s]
    if not late:
        missing = meter.missing_of(facts)
        return words.inconclusive(f"the meter's book and its entries disagree: {missing}", expected, seen_by=seen_by) if missing else None
    observed = f"asked the provider again after its end: {words.several([meter.describe(one, facts) for one in late])}"
    last_s = max(one.began_s for one in late)
    if report is not None and meter.is_after(last_s, since_s, facts.lateness_s(report.answered_s, last_s)):
        return Finding(Verdict.BROKEN, observed, expected, seen_by, _RETRY, ADVICE)
    return words.inconclusive(f"{observed}, as far as is known", expected, seen_by=seen_by, spoilt=report is not None)


def _over(facts: Facts) -> tuple[float, str]:
    """When the task was over: gone, and reported where that is covered; the deadline stands for what never came."""
    gone_s = facts.gone.latest_s if facts.gone.is_closed or not facts.outlived_deadline else facts.deadline_s
    gone = f"gone {words.after_press(facts, facts.gone.latest_s)}"
    if not facts.is_outcome_covered:
        return gone_s, gone
    if facts.report is None:
        return max(gone_s, facts.deadline_s), f"{gone}, never reported"
    return max(gone_s, facts.report.answered_s), f"{gone}, {facts.report.outcome!r} {words.after_press(facts, facts.report.answered_s)}"


def _describe(facts: Facts, member: Member) -> str:
    sight = member.sights[-1] if member.sights else None
    where = words.where_from(member, sight)
    return f"{words.who(member)}, attempt {member.attempt}, began {words.after_press(facts, member.born_s)}; {where}"


def _likely(facts: Facts, member: Member) -> str:
    report = facts.report
    if report is not None and report.outcome == "failed" and report.answered_s <= member.born_s:
        return "the cancel was recorded as 'failed', and a retry policy tries again what has failed"
    leader = facts.leader
    if leader is not None and not member.found_by and leader.held.get("parent") and leader.held.get("parent") == member.held.get("parent"):
        return "what had started the run started it again: a retry policy, or a supervisor that takes the death for a crash"
    return "a retry policy, restart=always, or a supervisor that takes the death for a crash"
