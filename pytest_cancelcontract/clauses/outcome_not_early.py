"""outcome-not-early: nobody reads that the run is over while it still works."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate, Report, Timing, asked_at_s
from pytest_cancelcontract.clauses.members import LOOK_WITHIN_S, Member
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import TERMINAL

ADVICE = "set the terminal state only after every process of the run was seen dead; until then say cancelling"

TELLING_S = 0.1
QUICK_S = 1.0
"""An outcome is known only as well as its questions are quick: it may have changed since the last one that was answered otherwise
was put. How early that leaves it open is told from the first of these on, and is too much from the second on: nothing is proven."""


def check(facts: Facts) -> Finding:
    """Judge whether the outcome was terminal no more than ``early`` before gone.

    Judged by a look taken as the outcome was reported: dead or dying then is gone in time. The machine's lateness counts
    only against a window that ``early`` allows; with none, a process that was seen alive is proof enough.
    Returns:
        inconclusive when nothing was reported, or a process could not be told dead or alive as it was.
    """
    early_s = facts.terms.early_s
    expected = f"reported no more than {words.seconds(early_s)} before gone ({words.numbers(facts.terms, 'early')})"
    report = facts.report
    if report is None:
        return words.inconclusive("no terminal outcome was reported", expected, advice="see outcome-reported")
    observed = f"{report.outcome!r} reported {words.after_press(facts, report.answered_s)}, {_window(facts, report)}"
    look = facts.look("reported")
    if facts.lacks_an_answer:
        return words.inconclusive("the look that was taken as it was reported is older than any answer: the history lacks one", expected)
    looked = f"process table, {words.after_press(facts, look.at_s)}" if look else "process table, not read as it was reported"
    seen_by = f"outcome, by {report.by or 'an unknown way'}; {looked}; pidfd"
    fates = {one: facts.fate_at(one, report.answered_s) for one in facts.first_run}
    running = [one for one, fate in fates.items() if fate is Fate.ALIVE]
    if running:
        return _judge_running(facts, report, running, (observed, expected, seen_by))
    unknown = [words.who(one) for one, fate in fates.items() if fate is Fate.UNKNOWN] + list(facts.missing_roles)
    if not unknown and fates:
        return _judge_question(facts, report, (observed, expected, seen_by))
    if early_s > 0 and facts.against(early_s, since_s=report.answered_s, event=facts.gone) is Timing.WITHIN:
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    observed += f"; not known whether alive at that moment: {words.several(unknown)}"
    is_late_look = look is not None and look.at_s > report.answered_s + LOOK_WITHIN_S
    return words.inconclusive(observed, expected, seen_by=seen_by, advice=words.SEE_THE_TABLE, spoilt=is_late_look)


def _judge_question(facts: Facts, report: Report, texts: tuple[str, str, str]) -> Finding:
    """All were dead at the answer; but a question that was put long before may have been answered with what was so then."""
    observed, expected, seen_by = texts
    if report.by != "outcome" or not facts.gone.is_closed:
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    open_s = facts.gone.latest_s - _last_otherwise_s(facts, report) - facts.terms.early_s
    if open_s <= TELLING_S:
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    took_s = report.answered_s - report.asked_s
    observed += f"; it may have been so {words.seconds(open_s)} too early"
    likely = f"early by up to {words.seconds(open_s)} cannot be excluded: the answer took {words.seconds(took_s)}"
    advice = f"let outcome answer faster, or give the adapter wait(handle); or write the risk down: early={open_s:.2g}"
    if open_s <= QUICK_S:
        return Finding(Verdict.KEPT, observed, expected, seen_by, likely, advice)
    return words.inconclusive(observed, expected, seen_by=seen_by, likely=likely, advice=advice, spoilt=True)


def _last_otherwise_s(facts: Facts, report: Report) -> float:
    """When the last question was put whose answer was not terminal yet; the first moment at which the outcome can have changed."""
    before = [
        one for one in facts.history.of("outcome", "answer") if one.at_s <= report.answered_s and one.data.get("outcome") not in TERMINAL
    ]
    return min(asked_at_s(before[-1]) if before else facts.pressed_s, report.asked_s)


def _judge_running(facts: Facts, report: Report, running: list[Member], texts: tuple[str, str, str]) -> Finding:
    observed, expected, seen_by = texts
    came_later = [one for one in running if one.born_s > report.answered_s + ROUNDING_S]
    for what, found in (
        ("alive as it was reported", [one for one in running if one not in came_later]),
        ("begun after it was reported", came_later),
    ):
        observed += f"; {what}: {words.several([words.who(one) for one in found])}" if found else ""
    if facts.terms.early_s > 0:
        timing = facts.against(facts.terms.early_s, since_s=report.answered_s, event=facts.gone)
        if timing is Timing.WITHIN:
            return Finding(Verdict.KEPT, observed, expected, seen_by)
        if timing is not Timing.BEYOND:
            is_close = timing is Timing.TOO_CLOSE
            likely = words.SLOW_MACHINE if is_close else "when the last process died is not known"
            return words.inconclusive(observed, expected, seen_by=seen_by, likely=likely, advice=words.QUIETER, spoilt=is_close)
    return Finding(Verdict.BROKEN, observed, expected, seen_by, _likely(facts, running), ADVICE)


def _window(facts: Facts, report: Report) -> str:
    gone = facts.gone
    if not gone.is_closed:
        return "gone never seen"
    if gone.latest_s <= report.answered_s:
        return f"{words.seconds(report.answered_s - gone.latest_s)} after gone"
    dying = [one for one in facts.first_run if facts.fate_at(one, report.answered_s) is Fate.DYING]
    is_over = len(dying) and not any(facts.fate_at(one, report.answered_s) in {Fate.ALIVE, Fate.UNKNOWN} for one in facts.first_run)
    names = words.several([words.who(one) for one in dying], ", ")
    why = f", which counts as gone: by then it was ending, or SIGKILL was on its way, for {names}" if is_over else ""
    return f"{words.between(gone, report.answered_s)} before gone{why}"


def _likely(facts: Facts, running: list[Member]) -> str:
    leader = facts.leader
    if facts.notice is None and not facts.killed and not facts.is_live:
        return "the state was changed and the run was not told (see cancel-delivered)"
    if leader is not None and leader not in running:
        return "the leader had ended by then: was the end of the leader taken for the end of the run?"
    return "is it reported when the signal is sent, and not when the run has ended?"
