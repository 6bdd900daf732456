"""grace-bounded: what ignores every notice is ended by force, in time."""

from __future__ import annotations

import math

from pytest_cancelcontract.clauses import no_survivors, words
from pytest_cancelcontract.clauses.facts import Facts, Fate, Timing
from pytest_cancelcontract.clauses.members import Span
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "after the grace, SIGKILL everything that the run started, whether or not its leader has left"


def check(facts: Facts) -> Finding:
    """Judge whether the run was gone within ``grace`` + ``kill_within`` of its notice, or ``kill_within`` of the first force.

    Judged is the attempt that was at work when cancel was pressed; one that begins after it is another clause's (``stays-ended``).
    Returns:
        inconclusive when neither notice nor force was seen (see ``cancel-delivered``), or the end of a process is not known.
    """
    grace_s, kill_within_s = facts.terms.grace_s, facts.terms.kill_within_s
    notice, forced = facts.notice_among(facts.pressed_members), facts.forced_among(facts.pressed_members)
    if notice is not None:
        numbers = words.numbers(facts.terms, "grace", "kill_within")
        told = Span(notice.at_s, notice.at_s)
        return _judge(facts, told, grace_s + kill_within_s, "its notice", numbers)
    if forced is not None:
        return _judge(facts, forced, kill_within_s, "the first use of force", words.numbers(facts.terms, "kill_within"))
    return words.inconclusive(
        "the run had no notice, and no force was used", "a run that ignores its notice is ended", advice="see cancel-delivered"
    )


def _judge(facts: Facts, since: Span, limit_s: float, what: str, numbers: str) -> Finding:
    expected = f"every process gone within {words.seconds(limit_s)} of {what} ({numbers})"
    gone, since_s = facts.gone_of(facts.pressed_members), since.earliest_s
    timing = facts.against_span(limit_s, since=since, event=gone)
    observed = f"gone {words.between(gone, since_s)} after {what}" if gone.is_closed else _alive(facts, since_s, what)
    until_s = gone.latest_s if gone.is_closed else max(since_s, gone.earliest_s)
    seen_by = f"pidfd and process table, last {words.after_press(facts, facts.watched_until_s)}; {words.lateness(facts, since_s, until_s)}"
    if timing is Timing.WITHIN or _only_dying(facts, since_s + limit_s, gone):
        return Finding(Verdict.KEPT, observed, expected, seen_by)
    if timing is Timing.BEYOND:
        return Finding(Verdict.BROKEN, observed, expected, seen_by, _likely(facts), ADVICE)
    if timing is Timing.TOO_CLOSE:
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    missing = f"; nothing is known of {words.several(facts.missing_roles, ', ')}" if facts.missing_roles else ""
    return words.inconclusive(observed + missing, expected, seen_by=seen_by, advice=words.SEE_THE_TABLE)


def _only_dying(facts: Facts, at_s: float, gone: Span) -> bool:
    """Whether all that was left at the limit was on its way out, and went."""
    if not gone.is_closed or math.isinf(facts.lateness_s(facts.pressed_s, gone.latest_s)):
        return False
    fates = {facts.fate_at(one, at_s) for one in facts.pressed_members}
    return fates <= {Fate.DEAD, Fate.DYING} and Fate.DYING in fates


def _alive(facts: Facts, since_s: float, what: str) -> str:
    alive = [words.who(one) for one in facts.pressed_members if not one.death.is_closed]
    last = max((one.death.earliest_s for one in facts.pressed_members), default=-math.inf)
    seen = f", last seen alive {words.seconds(last - since_s)} after {what}" if math.isfinite(last) else ""
    return f"not seen to die: {words.several(alive) or 'a process of the run'}{seen}"


def _likely(facts: Facts) -> str:
    alive = [one for one in facts.pressed_members if not one.death.is_closed]
    if not alive:
        return "force came, but later than the terms promise: the wrapper's own grace, or that of the ladder that presses, is longer"
    return no_survivors.why(facts, max(alive, key=lambda one: one.death.earliest_s))
