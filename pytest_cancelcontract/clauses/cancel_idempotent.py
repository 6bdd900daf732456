"""cancel-idempotent: whoever presses cancel twice has pressed it once."""

from __future__ import annotations

from pytest_cancelcontract.clauses import calls, cancel_delivered, no_survivors, words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.members import FIRST, Span
from pytest_cancelcontract.clauses.outcome_reported import reference
from pytest_cancelcontract.clauses.parts import Part, broken, kept, unclear, whole
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = (
    "take the cancel down once, and let a second one change nothing: neither the escalation that is under way, nor whoever carries it out"
)
BY_THE_TEST = "the test"
"""How a press is named that a test makes by itself."""
AGAIN_WITHIN_S = 0.5
"""The second press is made as soon as the first has arrived; a machine that lets it come later than this has shown another story."""


def check(facts: Facts) -> Finding:
    """Judge whether a second press left everything to go on as after the first.

    Harm is a second call that hangs, or ends in what is no ordinary error; a terminal outcome that becomes another one; a wrapper
    that is killed by it while its run lives on past the deadline. A wrapper that leaves by itself in the same moment may have been
    about to, and what lives on, or is started again, without any of these is not known to be the second press's doing.
    Returns:
        inconclusive where the run was not dead at the deadline (see ``no-survivors``), or nothing was pressed twice.
    """
    kill_within = words.numbers(facts.terms, "kill_within")
    expected = (
        f"a second cancel changes nothing, and its call returns within {words.seconds(facts.terms.kill_within_s)} of gone ({kill_within}),"
        " with no error or an ordinary one"
    )
    again = facts.history.first("adapter", "pressed-again")
    if again is None:
        return words.inconclusive("cancel was pressed once", expected)
    second = calls.call(facts, calls.SECOND_CALL)
    since, what = _since(facts, again.at_s)
    parts = [calls.returns(facts, second, since, what), _run(facts, again.at_s)]
    if facts.is_outcome_covered:
        likely = "the second cancel writes the record of a run whose end is recorded already"
        parts.append(calls.stays(facts, again.at_s, "the second press", likely))
    until_s = second.at.latest_s if second.at.is_closed else facts.watched_until_s
    seen_by = f"adapter and outcome, each asked by the plugin; pidfd and process table; {words.lateness(facts, again.at_s, until_s)}"
    return whole(parts, expected, seen_by, before=f"pressed again {words.after_press(facts, again.at_s)}")


def _since(facts: Facts, again_s: float) -> tuple[Span, str]:
    """From when the second call's limit runs: gone (or the deadline), or the second press where that came later."""
    since, what = reference(facts)
    later = Span(max(since.earliest_s, again_s), max(since.latest_s, again_s))
    return later, what if since.latest_s >= again_s else "the second press"


def _run(facts: Facts, again_s: float) -> Part:
    if new := next((one for one in facts.revivals if one.born_s > again_s + ROUNDING_S), None):
        # It may have been started again for the first press as well.
        text = f"a new attempt at the task began {words.after_press(facts, new.born_s)}: {words.who(new)}"
        return unclear(f"{text}, by the second press or without it", advice="see stays-ended")
    if left := no_survivors.survivors(facts):
        names = words.several([words.who(one) for one in left])
        if killed := _wrapper_killed(facts, again_s):
            text = f"{killed}, and {names} lived on past the deadline"
            likely = "the second press ended the wrapper in the middle of its escalation, and nobody was left to use force"
            return broken(text, likely, ADVICE)
        return unclear(f"{names} lived on past the deadline, and not by the second press as far as can be told", advice="see no-survivors")
    judged = no_survivors.check(facts)
    if judged.verdict is not Verdict.KEPT:
        return unclear(judged.observed, likely=judged.likely, advice=judged.advice or "see no-survivors", spoilt=judged.spoilt)
    gone = f"the run was gone {words.after_press(facts, facts.gone.latest_s)}"
    if late_s := _pressed_too_late(facts):
        text = f"{gone}, and the second press came only then, {words.seconds(late_s)} after the first had arrived"
        return unclear(text, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    return kept(gone)


def _pressed_too_late(facts: Facts) -> float:
    """By how much the plugin missed the moment at which a second press can do harm; 0 where it did not. A test may press when it likes."""
    again = facts.history.first("adapter", "pressed-again")
    arrived = cancel_delivered.delivered(facts)
    if again is None or again.data.get("how") == BY_THE_TEST or not arrived.is_closed or facts.gone.latest_s > again.at_s:
        return 0.0
    late_s = again.at_s - arrived.latest_s
    return late_s if late_s > AGAIN_WITHIN_S else 0.0


def _wrapper_killed(facts: Facts, again_s: float) -> str:
    """What of the wrapper's side a signal ended between the second press and the deadline, or nothing."""
    for seen in facts.history.of("process-table", "wrapper-exited", "host-exited"):
        is_first = seen.data.get("run", FIRST) == FIRST
        status = int(seen.data.get("status") or 0)
        if is_first and status < 0 and again_s < seen.at_s <= facts.deadline_s:
            name = "the wrapper" if seen.kind == "wrapper-exited" else "the process that hosts the adapter"
            return f"{name} {words.ending(status)} {words.after_press(facts, seen.at_s)}"
    return ""
