"""no-survivors: after the deadline nothing of the run is alive, wherever it went."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate
from pytest_cancelcontract.clauses.members import Member, Sight
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "after the grace, SIGKILL everything below a subreaper or in a cgroup, again and again until nothing is left there"


def check(facts: Facts) -> Finding:
    """Judge whether every process of the run was dead at the deadline.

    A process is its pid and its start time: whoever has the pid later is somebody else.
    Returns:
        inconclusive when a role is unaccounted for, a process could not be read, one died within the machine's lateness of
        the deadline, or a run that need not have started was not watched for long enough.
    """
    found = dead_by_deadline(facts, why, ADVICE)
    if told := allowed(facts):
        return replace(found, observed=f"{found.observed}; allowed to live on: {words.several(told)}")
    return found


def allowed(facts: Facts) -> list[str]:
    """The helpers of an agent that lived on by leave, each with the reason, so that nobody takes them for gone."""
    members = [one for one in facts.members if one.subject in facts.allowed and not one.death.is_closed]
    return [f"{words.who(one)}: {facts.allowed[one.subject]}" for one in members]


def dead_by_deadline(facts: Facts, likely: Callable[[Facts, Member], str], advice: str) -> Finding:
    """The same by whatever the deadline counts from; what let a process live on, and what to do, is for the clause to say."""
    limit = facts.terms.limit_after(facts.trigger)
    expected = (
        f"no process of this run alive at the deadline, {words.seconds(facts.terms.deadline_after_s(facts.trigger))} {facts.trigger.words}"
        f" ({words.numbers(facts.terms, *limit)})"
    )
    if found := survivors(facts):
        return _broken(facts, found, expected, likely(facts, found[0]), advice)
    seen_by = f"pidfd; process table, last {words.after_press(facts, facts.watched_until_s)}"
    if facts.never_started:
        return Finding(Verdict.KEPT, "nothing of the run ever came up", expected, seen_by)
    if facts.may_not_start and not facts.first_run:
        return _not_known(facts, expected, seen_by)
    if facts.missing_roles:
        return words.inconclusive(f"nothing is known of {words.several(facts.missing_roles, ', ')}", expected, seen_by=seen_by)
    if missed := next((one for one in facts.history.of("process-table", "missed") if one.at_s > facts.deadline_s), None):
        observed = (
            f"pid {missed.subject.partition(':')[0]} ({missed.data.get('comm')}, known by {missed.data.get('by')}) was there"
            f" {words.after_press(facts, missed.at_s)}, and gone before it could be held"
        )
        return words.inconclusive(observed, expected, seen_by="process table", spoilt=True)
    unclear = [one for one in facts.first_run if facts.fate_at(one, facts.deadline_s) not in {Fate.DEAD, Fate.DYING}]
    if unclear:
        return _unclear(facts, unclear, expected)
    gone = f"the last one died {words.after_press(facts, facts.gone.latest_s)}"
    return Finding(Verdict.KEPT, f"all {len(facts.first_run)} processes of the run are dead, {gone}", expected, seen_by)


def _not_known(facts: Facts, expected: str, seen_by: str) -> Finding:
    """A run that need not have started, and of which nothing proves that it did not."""
    if unheld := next((one for one in facts.history.of("lifeline", "hello") if not one.subject), None):
        observed = (
            f"a process ({unheld.data.get('role')}) said hello {words.after_press(facts, unheld.at_s)} and was gone before it was held"
        )
        return words.inconclusive(observed, expected, seen_by=seen_by, spoilt=True)
    until = words.after_press(facts, facts.nothing_came_until_s)
    observed = f"no process of the run is known, which proves something only where it was watched until {until} and nothing tells of one"
    return words.inconclusive(observed, expected, seen_by=seen_by)


def survivors(facts: Facts) -> tuple[Member, ...]:
    """The processes that are proven to have lived on after the deadline."""
    return tuple(one for one in facts.first_run if _survived(facts, one))


def _survived(facts: Facts, member: Member) -> bool:
    fate, death = facts.fate_at(member, facts.deadline_s), member.death
    if fate in {Fate.DEAD, Fate.DYING} or member.is_disputed:
        return False
    # A death that late is the machine's word against the wrapper's; so is being alive until then.
    margin = facts.lateness_s(facts.deadline_s, death.latest_s) if death.is_closed else 0.0
    margin += facts.waited_s(facts.triggered_s, death.latest_s) if death.is_closed else 0.0
    if death.is_closed and death.latest_s <= facts.deadline_s + margin + ROUNDING_S:
        return False
    return fate is Fate.ALIVE or death.earliest_s > facts.deadline_s + margin + ROUNDING_S


def _broken(facts: Facts, found: tuple[Member, ...], expected: str, likely: str, advice: str) -> Finding:
    observed = words.several([_describe(facts, one) for one in found])
    seen_by = "; ".join(f"pid {one.pid}: {_witnesses(facts, one)}" for one in found[: words.LIST_AT_MOST])
    return Finding(Verdict.BROKEN, observed, expected, seen_by, likely, advice)


def _unclear(facts: Facts, unclear: list[Member], expected: str) -> Finding:
    observed = words.several([_describe(facts, one) for one in unclear])
    seen_by = "; ".join(f"pid {one.pid}: {_witnesses(facts, one)}" for one in unclear[: words.LIST_AT_MOST])
    if all(one.death.is_closed for one in unclear):
        return words.inconclusive(observed, expected, seen_by=seen_by, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    return words.inconclusive(
        f"neither dead nor alive, as far as can be told: {observed}", expected, seen_by=seen_by, advice=words.SEE_THE_TABLE
    )


def last_sight(member: Member) -> Sight | None:
    """The last time that the process table showed it."""
    return next((sight for sight in reversed(member.sights) if not sight.is_dead), None)


def _describe(facts: Facts, member: Member) -> str:
    death, sight = member.death, last_sight(member)
    where = words.where_from(member, sight)
    if death.is_closed:
        return f"{words.who(member)} died {words.after_press(facts, death.latest_s)}; {where}"
    state = f", state {sight.data.get('state', '?')}" if sight else ""
    is_seen = math.isfinite(death.earliest_s)
    alive = f"running {words.seconds(death.earliest_s - facts.pressed_s)} after pressed" if is_seen else "not seen at all"
    return f"{words.who(member)} {alive}{state}; {where}"


def _witnesses(facts: Facts, member: Member) -> str:
    died = "pidfd, never readable" if member.died_s is None else f"pidfd, readable {words.after_press(facts, member.died_s)}"
    if member.ended_by_drill:
        died = "pidfd, readable only when the drill ended it"
    sights = [one for one in member.sights if one.is_readable]
    looked = f"process table, last {words.after_press(facts, sights[-1].at_s)}" if sights else "process table, not read"
    told = f"found by {member.found_by}" if member.found_by else f"lifeline, {words.last_write(facts, member)}"
    return f"{died}; {looked}; {told}"


def why(facts: Facts, member: Member) -> str:
    """What let this process live on, as far as the evidence tells it."""
    leader = facts.leader
    if leader is not None and member.born_s > facts.pressed_s and member.attempt != leader.attempt:
        return f"the run was started again after the cancel (attempt {member.attempt})"
    if facts.is_live and (leader is None or member is leader):
        return "whether it was told to stop is not known of a live run; no force followed"
    if facts.notice is None and not facts.killed and not facts.is_live:
        see = "cancel-any-time" if facts.may_not_start else "cancel-delivered"
        return f"the cancel never reached the run: nothing was signalled and nothing was killed (see {see})"
    if member.death.is_closed:
        return "force came, or it left by itself, but later than the terms promise"
    if leader is None or member is leader:
        return f"{_told(facts, member)}; no force followed"
    if member.born_s > facts.pressed_s:
        return "it was started after the cancel, by a process that was being ended: what is killed has to be looked for again"
    return f"{_told(facts, member)}; {_asked(facts, member, leader)}"


def _told(facts: Facts, member: Member) -> str:
    """Whether it had notice, as far as a witness tells."""
    notice = facts.notice_of(member)
    if notice is None:
        return "whether it was told to stop is not known" if facts.is_agent else "it told of no notice"
    if notice.witness == "process-table":
        return f"{words.by(notice)} could not reach it"
    return f"it had {words.by(notice)} and ignored it"


def _asked(facts: Facts, member: Member, leader: Member) -> str:
    """What the wrapper did to reach it is not seen: where its standing, or the leader's end, suggests a fault, that is a question."""
    sid, leader_sid = (_standing(one, "sid") for one in (member, leader))
    pgid, leader_pgid = (_standing(one, "pgid") for one in (member, leader))
    has_notice = facts.notice_of(member) is not None
    if not has_notice and None not in (sid, leader_sid) and sid != leader_sid:
        return "it is in a session of its own: was only the group (or session) of the leader signalled?"
    if not has_notice and None not in (pgid, leader_pgid) and pgid != leader_pgid:
        return "it is in a process group of its own: was only the leader's group signalled?"
    if not leader.death.is_closed:
        return "no force followed"
    left = words.after_press(facts, leader.death.latest_s)
    if not has_notice and None not in (pgid, leader_pgid) and (alone := _reached_alone(facts, leader)):
        return f"it is in the leader's group, and only the leader {alone} ({left}): was the leader signalled, and not its group?"
    return f"the leader left first ({left}): was the escalation called off with it?"


def _reached_alone(facts: Facts, leader: Member) -> str:
    """How the leader was reached, where nobody else of its attempt was; empty where that is not known, as of an agent or a live run."""
    if facts.is_agent or facts.is_live:
        return ""
    if facts.notice_of(leader) is not None:
        others = [one for one in facts.pressed_members if one is not leader]
        return "had notice, and left" if facts.notice_among(others) is None else ""
    return "was killed" if facts.killed_among(facts.pressed_members) == (leader,) else ""


def _standing(member: Member, name: str) -> object:
    sight = last_sight(member)
    for data in ((sight.data if sight is not None and sight.is_readable else {}), member.held, member.hello):
        if data.get(name):
            return data[name]
    return None
