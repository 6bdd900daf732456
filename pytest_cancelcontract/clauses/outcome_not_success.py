"""outcome-not-success: a cancelled run does not pass for one that did its work."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import TERMINAL, Observation

ADVICE = "record the cancel before the run is told to stop, and let the record win over the runner's own exit status"
RAISE_AGAIN = "a coroutine or a handler that catches the cancel has to raise it again"


def check(facts: Facts) -> Finding:
    """Judge whether the outcome was ever ``succeeded``, at once or after ``settle``.

    A wrapper's exit status is final, so it is read once.
    Returns:
        inconclusive without a terminal outcome, or when it was not read again after ``settle``.
    """
    expected = f"an outcome other than 'succeeded', and still so after {words.numbers(facts.terms, 'settle')}"
    answers = list(facts.history.of("outcome", "answer"))
    report = facts.report
    if report is None:
        return words.inconclusive("no terminal outcome was reported", expected, advice="see outcome-reported")
    seen_by = f"outcome, by {report.by or 'an unknown way'}, {len(answers)} answers"
    if wrong := next((one for one in answers if one.data.get("outcome") == "succeeded"), None):
        observed = f"'succeeded' {words.after_press(facts, wrong.at_s)}{_detail(wrong)}"
        is_final = report.outcome == "succeeded" and wrong.data.get("by") != "exit"
        advice = f"{ADVICE}; {RAISE_AGAIN}" if is_final else ADVICE
        return Finding(Verdict.BROKEN, observed, expected, seen_by, _likely(facts, wrong, report.outcome), advice)
    again = [one for one in answers if one.at_s >= report.answered_s + facts.terms.settle_s - ROUNDING_S]
    observed = f"{report.outcome!r} {words.after_press(facts, report.answered_s)}"
    if report.by == "exit":
        return Finding(
            Verdict.KEPT, observed + _detail(next(one for one in answers if one.data.get("outcome") in TERMINAL)), expected, seen_by
        )
    if not again:
        return words.inconclusive(f"{observed}, and not read again after settle", expected, seen_by=seen_by)
    last = again[-1]
    return Finding(Verdict.KEPT, f"{observed}, {last.data.get('outcome')!r} {words.after_press(facts, last.at_s)}", expected, seen_by)


def _detail(answer: Observation) -> str:
    return f" ({answer.data['detail']})" if answer.data.get("detail") else ""


def _likely(facts: Facts, wrong: Observation, first: str) -> str:
    if first != "succeeded":
        return f"{first!r} came first and was overwritten when the run ended"
    if wrong.data.get("by") == "exit":
        return f"the {'agent' if facts.is_agent else 'wrapper'} ends with status 0 when it is cancelled"
    return "a cancelled run that came to its end was taken for one that did its work: by its exit status 0, or because nothing was raised"
