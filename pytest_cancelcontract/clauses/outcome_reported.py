"""outcome-reported: cancelling does not hang; the call returns, and the outcome becomes terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.calls import call
from pytest_cancelcontract.clauses.facts import Facts, Report, Timing, asked_at_s
from pytest_cancelcontract.clauses.members import Span
from pytest_cancelcontract.finding import Finding, Verdict, worst
from pytest_cancelcontract.history import TERMINAL

ADVICE = "give every wait in the cancel path a deadline, wait for processes and not for the end of their output, and report in the end"


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    at: Span
    text: str


def check(facts: Facts) -> Finding:
    """Judge whether the cancel call had returned, and the outcome was terminal, within ``kill_within`` of gone.

    Reckoned from the deadline where the run is never gone, or never came. An outcome that is asked for again and again counts by
    when it was asked: a slow answer is not a late outcome. A cancel call that ends in an error has returned.
    Returns:
        inconclusive when something is missing and the drill was not watched beyond the limit.
    """
    limit_s = facts.terms.kill_within_s
    since, what = reference(facts)
    events = (_returned(facts), _reported(facts, since.latest_s + limit_s))
    expected = (
        f"the cancel call has returned, and the outcome is terminal, within {words.seconds(limit_s)} of {what}"
        f" ({words.numbers(facts.terms, 'kill_within')})"
    )
    timings = {event: facts.against_span(limit_s, since=since, event=event.at) for event in events}
    observed = "; ".join(event.text for event in events) + f"; {what} {words.after_press(facts, since.latest_s)}"
    known = [event.at.latest_s for event in events if event.at.is_closed] or [facts.watched_until_s]
    seen_by = f"adapter and outcome, each asked by the plugin; {words.lateness(facts, facts.pressed_s, max(known))}"
    verdict = worst(_VERDICTS[timing] for timing in timings.values())
    if verdict is Verdict.KEPT:
        return Finding(verdict, observed, expected, seen_by)
    if verdict is Verdict.BROKEN:
        late = [event for event, timing in timings.items() if timing is Timing.BEYOND]
        return Finding(verdict, observed, expected, seen_by, _likely(facts, late), ADVICE)
    if Timing.TOO_CLOSE in timings.values():
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    outcome_at = events[1].at
    if since.earliest_s == since.latest_s and outcome_at.is_closed and outcome_at.earliest_s < outcome_at.latest_s:
        likely = "a question for the outcome was under way at the limit, and its answer does not tell on which side that changed"
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=likely, advice=words.QUIETER, spoilt=True)
    return words.inconclusive(
        observed, expected, seen_by=seen_by, likely="the drill ended before the limit, or when the run was gone is not known"
    )


_VERDICTS = {
    Timing.WITHIN: Verdict.KEPT,
    Timing.BEYOND: Verdict.BROKEN,
    Timing.TOO_CLOSE: Verdict.INCONCLUSIVE,
    Timing.UNKNOWN: Verdict.INCONCLUSIVE,
}


def reference(facts: Facts) -> tuple[Span, str]:
    """From when the limit runs: gone, or the deadline where the run is proven to have outlived it, or never to have come up."""
    if facts.never_started or (not facts.gone.is_closed and facts.outlived_deadline):
        return Span(facts.deadline_s, facts.deadline_s), "the deadline"
    return facts.gone, "gone"


def _returned(facts: Facts) -> _Event:
    returned = call(facts)
    return _Event("cancel", returned.at, returned.text(facts))


def _reported(facts: Facts, limit_at_s: float) -> _Event:
    report = facts.report
    if report is None:
        last = facts.history.last("outcome", "answer", "error")
        said = f", last {last.data.get('outcome') or last.data.get('error') or 'nothing'!r}" if last else ""
        return _Event("outcome", Span(facts.watched_until_s, math.inf), f"no terminal outcome{said}")
    at_s = report.asked_s if report.by == "outcome" else report.answered_s
    text = f"{report.outcome!r} reported {words.after_press(facts, at_s)}"
    return _Event("outcome", Span(_not_before_s(facts, report, at_s, limit_at_s), at_s), text)


def _not_before_s(facts: Facts, report: Report, at_s: float, limit_at_s: float) -> float:
    """Since when the outcome may have been terminal: a slow question before it may have straddled the limit, and the change."""
    if report.by != "outcome":
        return at_s
    before = [one for one in facts.history.of("outcome", "answer", "error") if one.at_s <= at_s and one.data.get("outcome") not in TERMINAL]
    if not before or before[-1].at_s <= limit_at_s:
        return at_s
    return min(asked_at_s(before[-1]), at_s)


def _likely(facts: Facts, late: list[_Event]) -> str:
    names = {event.name for event in late}
    last = facts.history.last("outcome", "answer", "error")
    if "outcome" in names and last is not None and last.kind == "error":
        return f"the question itself failed: {last.data.get('error')}"
    if "cancel" in names and facts.cancel_error:
        return f"the cancel call itself failed: {facts.cancel_error}"
    if facts.never_started:
        return "a cancel that comes before there is a process to end is not taken down"
    if not facts.gone.is_closed:
        return "it waits, without a deadline of its own, for a process that does not end"
    if names == {"outcome"} and "exit" in facts.history.capabilities:
        return "the wrapper lives on: it waits for something else than the processes, or its handler waits for what the handler interrupted"
    if names == {"outcome"}:
        return "the record is set late, or not at all, once the run is gone"
    return "it waits for something other than the processes, such as the end of their output, and without a deadline"
