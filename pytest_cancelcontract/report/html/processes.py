"""A lane for the wrapper and for each process of the drill: when it came, what it noticed, when it ended and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_cancelcontract.clauses.facts import Facts, Fate
from pytest_cancelcontract.clauses.members import BYSTANDER, CONTROL, FIRST, NEXT, Member, said_at_s
from pytest_cancelcontract.clauses.words import by, ending
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.report.fleeting import FLEETING_S
from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Lane, LaneKind, Mark, MarkKind
from pytest_cancelcontract.report.html.spells import after, over_s

MOST_LANES = 14
"""Of runs with more processes those are shown that outlived the handover, and those that came first; the others share a lane."""
FEWEST_SHARING = 2
"""A single one that would share a lane has it alone."""
_OF_RUN = {BYSTANDER: "bystander", NEXT: "next task", CONTROL: "control"}
_SAID = {
    "working": (MarkKind.WORKS, "works"),
    "ready": (MarkKind.STEP, "is held before it works"),
    "unarmed": (MarkKind.ERROR, "could not prove its habits"),
    "wedged": (MarkKind.STEP, "makes no progress from here on"),
    "step-ended": (MarkKind.STEP, "ended its step, and no more"),
    "input-ended": (MarkKind.STEP, "its input ended"),
}


def wrapper_lanes(facts: Facts, origin_s: float, end_s: float) -> Iterator[Lane]:
    """The commands that were started for the adapter and that the recorder waited for: the wrapper, one a run."""
    exits = {seen.subject: seen for seen in facts.history.of("process-table", "wrapper-exited", "host-exited")}
    for spawned in facts.history.of("process-table", "spawned"):
        role = str(spawned.data.get("role") or "command")
        if role in {"wrapper", "host"}:
            yield _wrapper_lane(facts, spawned, exits.get(spawned.subject), origin_s, end_s)


def _wrapper_lane(facts: Facts, spawned: Observation, exited: Observation | None, origin_s: float, end_s: float) -> Lane:
    run = str(spawned.data.get("run") or FIRST)
    name = f"{spawned.data.get('role')}{_of(run)}"
    pid = spawned.subject.partition(":")[0]
    until_s = exited.at_s if exited is not None else end_s
    marks = [Mark(spawned.at_s, MarkKind.START, f"the {name} was started")]
    is_alive = run == FIRST and (look := facts.look("end")) is not None and look.data.get("starter_alive") is True
    note = "still running at the end" if is_alive else "not seen to end"
    if exited is not None:
        status = exited.data.get("status")
        is_killed = isinstance(status, int) and status < 0
        words = ending(status) if isinstance(status, int) else "ended"
        label = words if is_killed else f"status {status}"
        marks.append(Mark(exited.at_s, MarkKind.KILLED if is_killed else MarkKind.ENDED, f"the {name} {words}", label))
        note = f"{label} {after(origin_s, exited.at_s)}"
    for seen in facts.history.of("process-table", "disrupted"):
        if spawned.at_s <= seen.at_s <= until_s and run == FIRST:
            how = str(seen.data.get("how") or "disrupted")
            marks.append(Mark(seen.at_s, MarkKind.DISRUPTED, f"the drill signalled it: {how}", how))
    bar = Bar(spawned.at_s, until_s, BarKind.ALIVE, f"the {name} ran")
    return Lane(LaneKind.WRAPPER, name, f"pid {pid}", note, (bar,), tuple(sorted(marks, key=lambda one: one.at_s)))


def process_lanes(facts: Facts, origin_s: float, end_s: float) -> Iterator[Lane]:
    """A lane for each process of the runs, in the order in which they came; of too many the least telling share one."""
    shown = _most_telling(facts)
    for member in _in_order(facts):
        if member in shown:
            yield _process_lane(facts, member, origin_s, end_s)
    others = [one for one in facts.members if one not in shown]
    if others:
        yield _shared_lane(facts, others, origin_s, end_s)


def _in_order(facts: Facts) -> Sequence[Member]:
    """As they came; of a live run its leader, and whoever lived on, before all others."""
    if not facts.is_live:
        return facts.members
    return sorted(facts.members, key=lambda one: (not one.is_leader, not _is_overdue(facts, one)))


def _most_telling(facts: Facts) -> Sequence[Member]:
    """Those that get a lane: not helpers that came and went before the press, or of a live run soon, and no more than there is room for."""
    members = [one for one in facts.members if not _came_and_went(facts, one) and not _is_fleeting(facts, one)]
    if len(facts.members) - len(members) < FEWEST_SHARING:
        members = list(facts.members)
    if len(members) <= MOST_LANES:
        return members
    overdue = [one for one in members if _is_overdue(facts, one)]
    rest = [one for one in members if one not in overdue]
    return [*overdue, *rest][: MOST_LANES - 1]


def _came_and_went(facts: Facts, member: Member) -> bool:
    return bool(member.found_by) and not member.is_leader and facts.is_pressed and member.death.latest_s < facts.pressed_s


def _is_fleeting(facts: Facts, member: Member) -> bool:
    """One of a live run's that was dead again soon."""
    return facts.is_live and not member.is_leader and member.death.latest_s - member.born_s < FLEETING_S


def _shared_lane(facts: Facts, members: Sequence[Member], origin_s: float, end_s: float) -> Lane:
    lanes = [_process_lane(facts, one, origin_s, end_s) for one in members]
    bars = [bar for lane in lanes for bar in lane.bars if bar.kind in {BarKind.ALIVE, BarKind.OVERDUE, BarKind.UNPROVEN}]
    roles = Counter(one.role or "unknown role" for one in members)
    note = ", ".join(f"{number} {role}" for role, number in roles.most_common())
    marks = [mark for lane in lanes for mark in lane.marks if mark.kind in _ENDS]
    plain = sorted((Mark(mark.at_s, mark.kind, mark.words) for mark in marks), key=lambda one: one.at_s)
    what = "short-lived" if all(_is_fleeting(facts, one) for one in members) else "more"
    return Lane(LaneKind.PROCESS, f"{len(members)} {what} processes", "", note, tuple(bars), tuple(plain))


_ENDS = {MarkKind.ENDED, MarkKind.KILLED, MarkKind.GONE, MarkKind.DRILL, MarkKind.UNSEEN}


def _process_lane(facts: Facts, member: Member, origin_s: float, end_s: float) -> Lane:
    end, until_s, lived_s = _end(facts, member, end_s)
    grave = _outlived(facts, member)
    note = grave or (end.label if end.kind is MarkKind.UNSEEN else f"{end.label} {after(origin_s, end.at_s)}")
    bars = [*_life(facts, member, lived_s, until_s), *_spells(member, until_s)]
    marks = [*_said(member), *_stopped(facts, member), end]
    return Lane(
        LaneKind.PROCESS,
        f"{member.role or 'unknown role'}{_of_member(facts, member)}",
        f"pid {member.pid}",
        note,
        tuple(bars),
        tuple(sorted(marks, key=lambda one: one.at_s)),
        is_grave=bool(grave),
        over_s=over_s(facts) if member in facts.first_run else None,
    )


def _of(run: str) -> str:
    return f", {_OF_RUN[run]}" if run in _OF_RUN else ""


def _of_member(facts: Facts, member: Member) -> str:
    if member.run != FIRST:
        return _of(member.run)
    if member in facts.second_run:
        return ", 2nd run"
    if member.subject in facts.allowed:
        return ", allowed"
    is_revived = facts.is_pressed and member.attempt in {one.attempt for one in facts.revivals}
    return ", began by itself" if is_revived else ""


def _end(facts: Facts, member: Member, end_s: float) -> tuple[Mark, float, float]:
    """How it ended; until when its bar goes; and until when it is proven to have lived."""
    death = member.death
    name = f"{member.role or 'a process'} (pid {member.pid})"
    if member.is_disputed:
        return (
            Mark(end_s, MarkKind.UNSEEN, f"of {name} the witnesses disagree", "end in dispute"),
            end_s,
            max(death.earliest_s, member.born_s),
        )
    if _was_let_go(facts, member) or member.ended_by_drill:
        at_s = member.died_s if member.died_s is not None else end_s
        return Mark(at_s, MarkKind.DRILL, f"{name} was alive until the drill ended it", "ended by the drill"), at_s, at_s
    if not death.is_closed:
        lived_s = max(death.earliest_s, member.born_s)
        return Mark(end_s, MarkKind.UNSEEN, f"{name} was not seen to end", "not seen to end"), end_s, lived_s
    at_s = death.latest_s
    lived_s = max(death.earliest_s, member.born_s)
    looks = "" if death.earliest_s == death.latest_s else ", at the latest (only looks tell it)"
    if member.died_alone:
        goodbye = member.last("goodbye")
        status = f", status {goodbye.data.get('status')}" if goodbye is not None else ""
        return Mark(at_s, MarkKind.ENDED, f"{name} ended by itself{status}{looks}", "ended itself"), at_s, lived_s
    if member.found_by:
        return Mark(at_s, MarkKind.GONE, f"{name} is gone, by itself or killed: it was only watched{looks}", "gone"), at_s, lived_s
    return Mark(at_s, MarkKind.KILLED, f"{name} was killed, and not by the drill{looks}", "killed"), at_s, lived_s


def _was_let_go(facts: Facts, member: Member) -> bool:
    """A bystander that lived until nobody had to judge it any more: from there on the drill ends it."""
    judged = facts.history.first("adapter", "other-judged")
    is_after = judged is not None and member.died_s is not None and member.died_s >= judged.at_s
    return member.run in {BYSTANDER, CONTROL} and is_after


def _is_overdue(facts: Facts, member: Member) -> bool:
    over = over_s(facts)
    return over is not None and member in facts.first_run and member.death.latest_s > over


def _outlived(facts: Facts, member: Member) -> str:
    """What a process outlived that it should not have, in words; empty where that is nothing, or not proven."""
    over = over_s(facts)
    if over is None or member not in facts.first_run:
        return ""
    if facts.fate_at(member, facts.deadline_s) is Fate.ALIVE:
        return "alive at the deadline"
    return "alive at the handover" if over < facts.deadline_s and facts.fate_at(member, over) is Fate.ALIVE else ""


def _life(facts: Facts, member: Member, lived_s: float, until_s: float) -> Iterator[Bar]:
    name = f"{member.role or 'a process'} (pid {member.pid})"
    yield Bar(member.born_s, lived_s, BarKind.ALIVE, f"{name} was alive")
    if lived_s < until_s:
        yield Bar(lived_s, until_s, BarKind.UNPROVEN, f"{name}: nobody saw whether it was still alive")
    over = over_s(facts)
    if over is not None and _outlived(facts, member):
        since_s = max(over, member.born_s)
        if since_s < lived_s:
            yield Bar(since_s, lived_s, BarKind.OVERDUE, f"{name} was alive after the handover")


def _spells(member: Member, until_s: float) -> Iterator[Bar]:
    """Its clean-ups, and the time for which it was stopped."""
    began: float | None = None
    for one in member.said:
        if one.kind == "cleanup-started":
            began = said_at_s(one)
        elif one.kind == "cleanup-finished" and began is not None:
            yield Bar(began, said_at_s(one), BarKind.CLEANUP, "its clean-up, finished", "clean-up")
            began = None
    if began is not None:
        yield Bar(began, until_s, BarKind.CLEANUP, "its clean-up, not finished", "clean-up, not finished")


def _said(member: Member) -> Iterator[Mark]:
    name = f"{member.role or 'a process'} (pid {member.pid})"
    yield Mark(member.born_s, MarkKind.START, f"{name} began")
    for notice in member.notices:
        sender = notice.data.get("from_pid")
        at_s = said_at_s(notice)
        told = f"{name} noticed {by(notice)}{f' from pid {sender}' if sender else ''}"
        yield Mark(at_s, MarkKind.NOTICE, told, by(notice).partition(" (")[0])
    for one in member.said:
        if one.kind in _SAID:
            kind, words = _SAID[one.kind]
            yield Mark(said_at_s(one), kind, f"{name} {words}", "wedged" if one.kind == "wedged" else "")


def _stopped(facts: Facts, member: Member) -> Iterator[Mark]:
    for seen in facts.history.of("process-table", "stopped"):
        if seen.subject == member.subject:
            yield Mark(seen.at_s, MarkKind.STOPPED, f"pid {member.pid} was seen stopped", "stopped")
