"""cancel-any-time: a cancel before the runner is up ends it too, or it never starts; one after its end changes nothing."""

from __future__ import annotations

from dataclasses import replace

from pytest_cancelcontract.clauses import calls, no_survivors, words
from pytest_cancelcontract.clauses.facts import NO_RUNNER_YET, ROUNDING_S, Facts
from pytest_cancelcontract.clauses.members import FIRST, Member, Span, said_at_s
from pytest_cancelcontract.clauses.parts import Part, broken, kept, unclear, whole
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import TERMINAL

AFTER_END = "cancel-after-end"
REMEMBER = "remember that cancel was pressed, look at that again once the process is started, and end it then, or never start it"
EARLY_START = "a start(run) that returns before the runner works (or a press right behind it)"
REFUSE = "find out first whether there is anything to end; the cancel of a run that has ended starts nothing and writes nothing"


def check(facts: Facts) -> Finding:
    """Judge a cancel that came before the run was at work, or after its end.

    Before: what came up has to be dead at the deadline, and nothing may begin once the outcome is terminal. After: nothing begins, the
    outcome stays what it was, and the call returns within ``kill_within``, with no error or an ordinary one.
    Returns:
        not covered where the run was at work already when cancel was pressed.
    """
    if facts.act == AFTER_END:
        return _after_end(facts)
    if facts.may_not_start:
        return _at_start(facts)
    return words.inconclusive("cancel was pressed while the run was at work", "a cancel at any other time works, or does no harm")


# --- Before the run works ---------------------------------------------------------------------------------------------


def _at_start(facts: Facts) -> Finding:
    terms = facts.terms
    expected = (
        f"what comes up is dead at the deadline, {words.seconds(terms.deadline_after_press_s)} after pressed"
        f" ({words.numbers(terms, 'delivery', 'grace', 'kill_within')}), and nothing begins once the outcome is terminal"
    )
    judged = no_survivors.check(facts)
    where = _where(facts)
    if _was_at_work(facts):
        return Finding(Verdict.NOT_COVERED, f"the run was at work when cancel was pressed; {where}", expected, lacks=EARLY_START)
    if judged.verdict is Verdict.BROKEN:
        observed = f"the cancel was lost: {judged.observed}; {where}"
        return replace(judged, observed=observed, expected=expected, likely=_why_lost(facts), advice=REMEMBER)
    if late := _began_late(facts):
        return replace(late, expected=expected, seen_by=judged.seen_by, observed=f"{late.observed}; {where}")
    if judged.verdict is Verdict.KEPT and facts.history.first("drill", "reached") is None:
        return words.inconclusive("how far the run was when cancel was pressed was not noted", expected, seen_by=judged.seen_by)
    return replace(judged, observed=f"{judged.observed}; {where}", expected=expected)


def _was_at_work(facts: Facts) -> bool:
    """By what the recorder saw at the press, or by the leader's own word of before."""
    reached = facts.history.first("drill", "reached")
    if reached is not None and reached.data.get("what") == "working":
        return True
    leaders = [one for one in facts.first_run if one.is_leader]
    return any(one.kind == "working" and said_at_s(one) < facts.pressed_s for leader in leaders for one in leader.said)


def _where(facts: Facts) -> str:
    """How far the run was when cancel was pressed, and whether it went on from there."""
    reached = facts.history.first("drill", "reached")
    text = f"at the press: {reached.data.get('what') if reached else 'not known'}"
    released = facts.history.first("drill", "released")
    if released is not None:
        text += f"; let go on {words.after_press(facts, released.at_s)} ({released.data.get('why')})"
    works = [one for member in facts.first_run for one in member.said if one.kind == "working" and one.at_s > facts.pressed_s]
    return f"{text}; at work from {words.after_press(facts, works[0].at_s)} on" if works else text


def _why_lost(facts: Facts) -> str:
    if facts.notice is not None or facts.killed:
        return no_survivors.why(facts, no_survivors.survivors(facts)[0])
    reached = facts.history.first("drill", "reached")
    if reached is None or reached.data.get("what") == NO_RUNNER_YET:
        return "the wrapper had no process yet that it could end, and had forgotten the cancel when it had one"
    return "the process was there, and the wrapper did not pass the cancel on to it: it takes a run for started only later"


def _is_unreported(facts: Facts, came: Member) -> bool:
    """Whether it is proven that nothing had been reported when a process came: its wrapper never exited, or was asked afterwards."""
    if "exit" in facts.history.capabilities:
        of_first = [one for one in facts.history.of("process-table", "spawned", "wrapper-exited") if one.data.get("run", FIRST) == FIRST]
        return bool(of_first) and all(one.kind == "spawned" for one in of_first)
    return any(
        float(one.data.get("asked_at_s", one.at_s)) >= came.born_s and one.data.get("outcome") not in TERMINAL
        for one in facts.history.of("outcome", "answer")
    )


def _began_late(facts: Facts) -> Finding | None:
    """What came up although the run was reported to be over; not known where there is no report, and something came after the press."""
    came = [one for one in facts.first_run if one.born_s > facts.pressed_s + ROUNDING_S]
    if not came or not facts.is_outcome_covered:
        return None
    report = facts.report
    if report is None and _is_unreported(facts, came[0]):
        return None
    if report is None or facts.lacks_an_answer:
        what = (
            "no terminal outcome was reported" if report is None else "the look that was taken as it was reported is older than any answer"
        )
        return words.inconclusive(f"{what}, so whether {words.who(came[0])} began after it is not known", "", advice="see outcome-reported")
    late = [one for one in came if one.born_s > report.answered_s + facts.terms.early_s + ROUNDING_S]
    if not late:
        return None
    observed = (
        f"{words.who(late[0])} began {words.after_press(facts, late[0].born_s)},"
        f" {words.seconds(late[0].born_s - report.answered_s)} after {report.outcome!r} was reported"
    )
    return Finding(Verdict.BROKEN, observed, likely="the record was written while the start was still under way", advice=REMEMBER)


# --- After its end ----------------------------------------------------------------------------------------------------


def _after_end(facts: Facts) -> Finding:
    terms = facts.terms
    expected = (
        "the cancel of a run that has ended changes nothing, and its call returns within"
        f" {words.seconds(terms.kill_within_s)} ({words.numbers(terms, 'kill_within')}), with no error or an ordinary one"
    )
    gone = facts.gone_of([one for one in facts.pressed_members if one.born_s <= facts.pressed_s])
    if gone.latest_s > facts.pressed_s + ROUNDING_S:
        when = words.after_press(facts, gone.latest_s)
        return words.inconclusive(f"the run had not ended when cancel was pressed, as far as can be told: gone {when}", expected)
    seen = calls.call(facts)
    parts = [_begun(facts), calls.returns(facts, seen, Span(facts.pressed_s, facts.pressed_s), "pressed")]
    if facts.is_outcome_covered:
        parts.append(_outcome(facts))
    until_s = seen.at.latest_s if seen.at.is_closed else facts.watched_until_s
    seen_by = f"lifeline; adapter and outcome, each asked by the plugin; pidfd; {words.lateness(facts, facts.pressed_s, until_s)}"
    return whole(parts, expected, seen_by, before=f"the run ended by itself {words.after_press(facts, gone.latest_s)}")


def _begun(facts: Facts) -> Part:
    begun = [one for one in facts.first_run if one.born_s > facts.pressed_s + ROUNDING_S]
    if begun:
        text = f"{words.several([words.who(one) for one in begun])} began {words.after_press(facts, begun[0].born_s)}"
        return broken(text, "the cancel woke something that keeps the task running, or was queued as work of its own", REFUSE)
    until = words.after_press(facts, facts.watched_until_s)
    if facts.watched_until_s < facts.pressed_s + facts.terms.settle_s - ROUNDING_S:
        return unclear(f"watched until {until} only")
    return kept(f"nothing began until {until}")


def _outcome(facts: Facts) -> Part:
    report = facts.report
    if report is None or report.answered_s > facts.pressed_s:
        return unclear("its outcome was not terminal before cancel was pressed, so nothing can be said of it")
    return calls.stays(facts, facts.pressed_s, "the press", "the cancel is written over the record of a run that had ended")
