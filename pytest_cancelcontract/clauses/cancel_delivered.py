"""cancel-delivered: a press reaches the run in time, as a notice or as force."""

from __future__ import annotations

import math

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Timing
from pytest_cancelcontract.clauses.members import FIRST, Span
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = (
    "tell the run as soon as the cancel arrives (in finally, where it comes as an exception), and where it is learned from an answer to a"
    " heartbeat, send those on a timer"
)
PASS_IT_ON = (
    "in a shell, exec the program, or trap the signal, signal the run and wait for it: a shell without a trap dies alone; in another"
    " language, handle the signal likewise"
)
_HANDLED = frozenset({-1, -2, -3, -15})
"""What a wrapper can handle: its end by SIGHUP, SIGINT, SIGQUIT or SIGTERM."""


def delivered(facts: Facts) -> Span:
    """When the first process had notice or was killed; where neither was seen, some time after the recorder stopped watching."""
    spans = [Span(facts.notice.at_s, facts.notice.at_s)] if facts.notice else []
    if facts.forced is not None:
        spans.append(facts.forced)
    if not spans:
        return Span(facts.watched_until_s, math.inf)
    return Span(min(one.earliest_s for one in spans), min(one.latest_s for one in spans))


def check(facts: Facts) -> Finding:
    """Judge whether the run had notice, or was being ended, within ``delivery`` of the press.

    Returns:
        inconclusive when nothing came, and the recorder did not watch beyond the limit either.
    """
    limit_s = facts.terms.delivery_s
    expected = f"notice or force within {words.seconds(limit_s)} of pressed ({words.numbers(facts.terms, 'delivery')})"
    if facts.never_started:
        return Finding(Verdict.NOT_APPLICABLE, "nothing of the run ever came up that could be told", expected)
    came = delivered(facts)
    timing = facts.against(limit_s, since_s=facts.pressed_s, event=came)
    observed = _observed(facts, came)
    until_s = came.latest_s if came.is_closed else max(came.earliest_s, facts.pressed_s)
    seen_by = f"lifeline; pidfd; {words.lateness(facts, facts.pressed_s, until_s)}"
    if timing is Timing.WITHIN:
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    if timing is Timing.BEYOND:
        return Finding(Verdict.BROKEN, observed, expected, seen_by, _likely(facts, came), _advice(facts, came))
    if timing is Timing.TOO_CLOSE:
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    return words.inconclusive(
        observed, expected, seen_by=seen_by, likely="the drill was not watched until well after the limit", spoilt=True
    )


def _observed(facts: Facts, came: Span) -> str:
    if not came.is_closed:
        watched = f"watched until {words.after_press(facts, came.earliest_s)}" if math.isfinite(came.earliest_s) else "not watched"
        return f"no notice and no force, {watched}"
    notice = facts.notice
    after = f"{words.between(came, facts.pressed_s)} after pressed"
    if notice is not None and notice.at_s == came.latest_s:
        return f"{words.by(notice)} reached pid {notice.subject.partition(':')[0]} {after}"
    return f"{words.who(facts.killed[0])} was killed, without notice, {after}"


def _is_the_limits(facts: Facts, came: Span) -> bool:
    """Whether what reached the run came when its time limit was over, as far as its platform has one, and it is not called cancelled.

    A platform counts from when it began the run, which is after the start was asked for and before the leader's hello.
    """
    starting, leader, report = facts.history.first("adapter", "starting"), facts.leader, facts.report
    if "limit" not in facts.history.capabilities or starting is None or leader is None or report is None or report.outcome == "cancelled":
        return False
    first_s, last_s = starting.at_s + facts.terms.time_limit_s, leader.born_s + facts.terms.deadline_after_s("hello")
    return came.earliest_s >= first_s and came.latest_s <= last_s


def _wrapper_ended(facts: Facts) -> Observation | None:
    """The end of the run's wrapper by a signal that it could have handled, between the press and the handover."""
    ends = [one for one in facts.history.of("process-table", "wrapper-exited") if one.data.get("run", FIRST) == FIRST]
    within = [one for one in ends if facts.pressed_s <= one.at_s <= facts.handover_s + ROUNDING_S]
    return next((one for one in within if one.data.get("status") in _HANDLED), None)


def _advice(facts: Facts, came: Span) -> str:
    return ADVICE if came.is_closed or _wrapper_ended(facts) is None else PASS_IT_ON


def _likely(facts: Facts, came: Span) -> str:
    if came.is_closed and _is_the_limits(facts, came):
        limit = words.numbers(facts.terms, "time_limit")
        return f"the cancel never came: the run worked on until its time limit was over, and that is what ended it ({limit})"
    if came.is_closed:
        return "the wrapper heard of the cancel late: it learns of it on a poll or a heartbeat that is too slow, or was busy"
    if ended := _wrapper_ended(facts):
        how = f"{words.ending(int(ended.data['status']))} {words.after_press(facts, ended.at_s)}"
        return f"the signal ended the wrapper itself (it {how}), and it passed nothing on"
    if facts.cancel_error:
        return f"the cancel call itself failed: {facts.cancel_error}"
    if facts.report is not None:
        return f"the state was set to {facts.report.outcome!r} and nobody told the run"
    return "the wrapper never heard of the cancel, or does not act on it while the run works"
