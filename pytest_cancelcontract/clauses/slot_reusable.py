"""slot-reusable: after a cancel the same wrapper runs the next task as if nothing had been."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, lacking
from pytest_cancelcontract.clauses.members import NEXT, Member
from pytest_cancelcontract.clauses.parts import Part, broken, kept, unclear, whole
from pytest_cancelcontract.finding import Finding
from pytest_cancelcontract.history import TERMINAL, Observation

ADVICE = "keep what a cancel leaves (flags, locks, handles, timers) with the run that was cancelled, and let go of it when that is over"
LEFT_OVER = "the cancel of the last task is still in force, and is taken for this one's"


def check(facts: Facts) -> Finding:
    """Judge whether a task that was started after the cancelled one worked, ended by itself, and is recorded as succeeded.

    Returns:
        inconclusive when no other task was started, or how it ended is not known.
    """
    terms = facts.terms
    limit_s = terms.kill_within_s + terms.call_s
    expected = (
        "the next task works, ends by itself, and succeeds; its outcome is terminal within"
        f" {words.seconds(limit_s)} of its end ({words.numbers(terms, 'kill_within', 'call')})"
    )
    if not facts.next_run and not _told(facts, "adapter"):
        return words.inconclusive("no other task was started afterwards", expected)
    parts = _start(facts) or [_member(facts, one) for one in facts.next_run]
    if facts.next_run and facts.is_outcome_covered:
        parts.append(_outcome(facts, limit_s))
    last = words.after_press(facts, facts.watched_until_s)
    return whole(parts, expected, f"adapter and outcome; lifeline of the next task's runner; pidfd, until {last}")


def _told(facts: Facts, witness: str, *kinds: str) -> list[Observation]:
    return [one for one in facts.history.of(witness, *kinds) if one.data.get("run") == NEXT]


def _start(facts: Facts) -> list[Part]:
    """What went wrong with its start; nothing where all of it came up."""
    if failed := next((one for one in _told(facts, "adapter", "other-started") if one.data.get("error")), None):
        text = f"the next task could not be started: {failed.data['error']}"
        return [broken(text, "the wrapper still holds what the cancelled task had: a lock, a name, a slot", ADVICE)]
    if failed := next(iter(_told(facts, "adapter", "other-not-up")), None):
        text = f"the next task did not come up: {failed.data.get('why')}"
        if facts.history.first("drill", "problem") is not None:
            return [unclear(text)]
        return [broken(text, "the wrapper waits for something of the cancelled task, or its cancel holds for the next one too", ADVICE)]
    leader = next((one for one in facts.next_run if one.is_leader), None)
    missing = list(lacking(leader, facts.next_run))
    return [unclear(f"nothing is known of {words.several(missing, ', ')} of the next task")] if missing else []


def _member(facts: Facts, member: Member) -> Part:
    who = f"{words.who(member)} of the next task"
    if (notice := facts.notice_of(member)) is not None:
        return broken(f"{words.by(notice)} reached {who} {words.after_press(facts, notice.at_s)}", LEFT_OVER, ADVICE)
    if not member.death.is_closed:
        return unclear(f"{who} was not seen to end")
    died = words.after_press(facts, member.death.latest_s)
    if not member.died_alone:
        return broken(f"{who} was killed {died}", LEFT_OVER, ADVICE)
    if not any(one.kind == "working" for one in member.said):
        return unclear(f"{who} ended {died}, and did not say that it worked")
    return kept(f"{who} worked, and ended by itself {died}")


def _outcome(facts: Facts, limit_s: float) -> Part:
    answers = _told(facts, "outcome", "other-answer", "other-error")
    report = next((one for one in answers if one.data.get("outcome") in TERMINAL), None)
    ended = [one.death for one in facts.next_run]
    ended_s = max(one.latest_s for one in ended)
    if report is not None:
        text = f"its outcome is {report.data['outcome']!r} {words.after_press(facts, report.at_s)}"
        if report.data["outcome"] == "succeeded":
            return kept(text)
        if all(one.died_alone for one in facts.next_run):
            return broken(f"{text}, though it ended by itself and nobody cancelled it", LEFT_OVER, ADVICE)
        return unclear(text)
    last = (answers[-1].data.get("outcome") or answers[-1].data.get("error")) if answers else "nothing"
    text = f"no terminal outcome of the next task, last {last!r}, watched until {words.after_press(facts, facts.watched_until_s)}"
    if facts.watched_until_s < ended_s + limit_s - ROUNDING_S:
        return unclear(text)
    if facts.lateness_s(ended_s, facts.watched_until_s) >= facts.terms.kill_within_s:
        return unclear(text, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    return broken(text, "the end of the next task is not noticed: what watched for it went with the cancelled one", ADVICE)
