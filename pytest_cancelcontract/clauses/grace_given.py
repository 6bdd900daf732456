"""grace-given: a clean-up of the promised length is let finish."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts
from pytest_cancelcontract.clauses.members import Member, said_at_s
from pytest_cancelcontract.finding import Finding, Verdict, worst

ADVICE = "signal first, wait for the grace, and use force only after it; once something of the run is still cleaning up, keep waiting"
PROMISE_LESS = "or promise less: a shorter clean-up (--cancel-cleanup; --cleanup of the command cancelcontract)"

LEADER = "leader"
CLEANS_UP = {"slow-cleanup": LEADER, "slow-child": "slow-child"}
"""The roles that clean up, by the habit that makes them do it."""
HARDLY_LONGER = 0.1
"""A grace that is longer than the clean-up by less than this share of it is named as the likely cause."""


def check(facts: Facts) -> Finding:
    """Judge whether everything that cleans up could finish.

    Judged are those that clean up by the runner's habits, and whoever began to. Only a death by force accuses: a process that says
    goodbye left by itself.
    Returns:
        inconclusive for a process that was never told to stop (see ``cancel-delivered``), or that was slower than its own clean-up.
    """
    cleanup = words.seconds(facts.terms.cleanup_s)
    default = ", which is the smaller of 1 s and half of the grace" if facts.terms.origin("cleanup") == "default" else ""
    expected = f"a clean-up of {cleanup} finishes before force is used ({words.numbers(facts.terms, 'cleanup')}{default})"
    roles = _cleaning_roles(facts)
    due = [one for one in facts.pressed_members if one.role in roles]
    cleaners = [one for one in facts.first_run if one in due or one.last("cleanup-started") is not None]
    findings = [_check_one(facts, one, expected) for one in cleaners]
    if missing := sorted(roles - {one.role for one in cleaners}):
        findings.append(words.inconclusive(f"nothing is known of {', '.join(missing)}, whose clean-up is judged", expected))
    verdict = worst(finding.verdict for finding in findings)
    return next(one for one in findings if one.verdict is verdict)


def _cleaning_roles(facts: Facts) -> frozenset[str]:
    """Who has a clean-up to finish; the leader, where the header tells no habits."""
    return frozenset(role for habit, role in CLEANS_UP.items() if habit in facts.habits) or frozenset({LEADER})


def _check_one(facts: Facts, member: Member, expected: str) -> Finding:
    started, finished = member.last("cleanup-started"), member.last("cleanup-finished")
    death, notice = member.death, facts.notice_of(member)
    seen_by = "lifeline; pidfd"
    if started is not None and finished is not None:
        if said_at_s(finished) <= death.latest_s + ROUNDING_S:
            took = words.seconds(said_at_s(finished) - said_at_s(started))
            return Finding(Verdict.KEPT, f"{words.who(member)} finished its clean-up after {took}", expected, seen_by)
        return words.inconclusive(f"{words.who(member)} says that it finished after it was seen dead", expected, seen_by=seen_by)
    if not death.is_closed:
        told = f"had notice {words.after_press(facts, notice.at_s)}" if notice else "was never told to stop"
        advice = "" if notice else "see no-survivors" if facts.notice else "see cancel-delivered"
        return words.inconclusive(
            f"{words.who(member)} {told}, did not finish, and was not seen to die", expected, seen_by=seen_by, advice=advice
        )
    if member.died_alone:
        return words.inconclusive(f"{words.who(member)} left by itself and did not clean up", expected, seen_by=seen_by)
    if notice is None:
        observed = f"{words.who(member)} was killed {words.after_press(facts, death.latest_s)}, with no notice at all"
        likely = "another process of the run was told to stop, and this one was not" if facts.notice else "force was used first"
        return Finding(Verdict.BROKEN, observed, expected, seen_by, likely, ADVICE)
    return _check_killed(facts, member, said_at_s(notice), expected)


def _check_killed(facts: Facts, member: Member, told_s: float, expected: str) -> Finding:
    death = member.death
    had = words.between(death, told_s)
    observed = f"{words.who(member)} was killed {had} after its notice, its clean-up unfinished"
    seen_by = f"lifeline; pidfd; {words.lateness(facts, told_s, death.latest_s)}"
    if death.latest_s - told_s < facts.terms.cleanup_s - facts.lateness_s(told_s, death.latest_s):
        return Finding(Verdict.BROKEN, observed, expected, seen_by, _likely(facts, member), f"{ADVICE}; {PROMISE_LESS}")
    late_s = facts.lateness_s(told_s, death.latest_s)
    if death.latest_s - told_s < facts.terms.cleanup_s + late_s + HARDLY_LONGER * facts.terms.cleanup_s:
        likely = "the wrapper's own grace is hardly longer than the clean-up, so it is down to chance which of the two ends first"
        advice = f"wait for well over {words.seconds(facts.terms.cleanup_s)} before force is used, or promise a shorter cleanup"
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=likely, advice=advice, spoilt=True)
    return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)


def _likely(facts: Facts, member: Member) -> str:
    leader = facts.leader
    if leader is not None and leader is not member and leader.death.latest_s < member.death.latest_s:
        return "the leader left first, and what it left behind was killed at once"
    return "the wrapper waits for less than the clean-up before it uses force, or uses it at once"
