"""no-late-writes: once a replacement may be at work, the old run changes nothing in or beside the workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate
from pytest_cancelcontract.clauses.members import LOOK_WITHIN_S, Member, said_at_s
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = "see every process of the run dead before the outcome is reported, and give a replacement a workspace of its own"


@dataclass(frozen=True, slots=True)
class Write:
    """A process's marks in an entry that changed after the handover; ``member`` is None where nobody known left them."""

    path: str
    member: Member | None
    pid: str
    lines: int
    is_after_gone: bool


def check(facts: Facts) -> Finding:
    """Judge whether the run wrote after the handover.

    A change accuses by the marks in it, and only a process that is proven to have been alive at the handover: what the wrapper
    does with its own files, or with the whole workspace once everything is dead, is its own business.
    Returns:
        inconclusive when the workspace was not watched from the handover to the end, or the runner's own word disagrees with it.
    """
    handover = f"{words.after_press(facts, facts.handover_s)}{_terms(facts)}"
    expected = f"the run changes nothing in or beside its workspace from the handover on, {handover}"
    if facts.history.first("workspace", "opened") is None:
        missing = facts.history.first("workspace", "missing")
        where = f": {missing.data.get('path')} was not there" if missing else ""
        return words.inconclusive(f"the workspace was never seen{where}", expected)
    seen_by = f"workspace, by content and change time{_stamped(facts)}; process table; lifeline, {_told(facts)}"
    if accused := late_writes(facts):
        return Finding(Verdict.BROKEN, _describe(accused), expected, seen_by, _likely(facts, accused), ADVICE)
    doubt = _doubt(facts)
    if doubt:
        return words.inconclusive(doubt, expected, seen_by=seen_by, spoilt=_is_stamp_late(facts))
    return Finding(Verdict.KEPT, _quiet(facts), expected, seen_by)


def late_writes(facts: Facts) -> tuple[Write, ...]:
    """The writes that accuse: after the handover, by a process that was alive at it."""
    stamp = _stamp(facts, "handover")
    if stamp is None or stamp.at_s < facts.handover_s - ROUNDING_S:
        return ()
    return tuple(one for one in _writes(facts) if _is_alive(facts, one) and not one.is_after_gone)


def _is_alive(facts: Facts, write: Write) -> bool:
    return write.member in facts.first_run and facts.fate_at(write.member, facts.handover_s) is Fate.ALIVE


def _writes(facts: Facts) -> Iterator[Write]:
    gone = _stamp(facts, "gone")
    # A path is noted each time that it has changed again; its last row has it all.
    rows = {str(row.data.get("path")): row.data for row in facts.history.of("workspace", "changed")}
    for path, row in rows.items():
        is_after_gone = gone is not None and int(row.get("ctime_ns") or 0) > int(gone.data.get("ctime_ns") or 0)
        for writer in row.get("writers") or () if row.get("what") != "deleted" else ():
            yield Write(path, _writer(facts, writer), str(writer.get("pid")), int(writer.get("count") or 0), is_after_gone)


def _writer(facts: Facts, writer: Mapping[str, Any]) -> Member | None:
    """Who left the mark: the pid as the process itself sees it, and the attempt, since pids are used again."""
    mark = (str(writer.get("pid")), str(writer.get("attempt")))
    return next((one for one in facts.members if (one.own_pid, one.attempt) == mark), None)


def _doubt(facts: Facts) -> str:
    """Why the run cannot be acquitted, or nothing."""
    strangers = [one.path for one in _writes(facts) if one.member is None]
    if strangers:
        return f"written after the handover by a process of the run that is not known: {words.several(strangers, ', ')}"
    looks = [one for one in facts.history.of("workspace", "look") if one.data.get("moment") in {"gone", "end"}]
    fates = {one: facts.fate_at(one, facts.handover_s) for one in facts.first_run}
    living = [one for one, fate in fates.items() if fate not in {Fate.DEAD, Fate.DYING}]
    stamp = _stamp(facts, "handover")
    if stamp is not None and stamp.at_s < facts.handover_s - ROUNDING_S:
        return f"the workspace was stamped for a handover {words.after_press(facts, stamp.at_s)}, of which no outcome tells"
    if not living and not facts.missing_roles:
        # Nobody was left to write; where nothing is ever reported, the drill ends before the handover that nobody waits for.
        return "" if looks else "the workspace was not looked at after the run was gone"
    last = [one for one in looks if one.at_s >= facts.handover_s]
    if not last:
        return "the workspace was not looked at after the handover"
    names = words.several([words.who(one) for one in living] + list(facts.missing_roles), ", ")
    return _doubt_while_alive(facts, f"{names} may have been alive at the handover", exists=bool(last[-1].data.get("exists", True)))


def _doubt_while_alive(facts: Facts, who: str, *, exists: bool) -> str:
    stamp = _stamp(facts, "handover")
    if stamp is None:
        return f"{who}, and no stamp tells what changed since"
    if not -ROUNDING_S <= stamp.at_s - facts.handover_s <= LOOK_WITHIN_S:
        return f"{who}, and the stamp was made {words.after_press(facts, stamp.at_s)}, so what changed in between is not known"
    if not exists:
        return f"{who}, and the workspace was taken away before it could be looked at"
    if marked := [one.path for one in _writes(facts) if one.member in facts.first_run]:
        return f"{who}, and left marks in {words.several(marked, ', ')}, of which it is not proven when they were made"
    if told := _told_late(facts):
        return f"{who} and says that it wrote ({told}), but no change was seen: the witnesses disagree"
    return ""


def _is_stamp_late(facts: Facts) -> bool:
    """The machine was too slow to make the stamp at the handover."""
    stamp = _stamp(facts, "handover")
    return stamp is not None and stamp.at_s - facts.handover_s > LOOK_WITHIN_S


def _stamp(facts: Facts, moment: str) -> Observation | None:
    return next((one for one in facts.history.of("workspace", "stamp") if one.data.get("moment") == moment), None)


def _stamped(facts: Facts) -> str:
    stamp = _stamp(facts, "handover")
    return f" against a stamp made {words.after_press(facts, stamp.at_s)}" if stamp else ", without a stamp"


def _told_late(facts: Facts) -> str:
    """Writes into the workspace, or beside it, that the runner tells of after the handover; it is testimony only."""
    opened = facts.history.first("workspace", "opened")
    beside = str(opened.data.get("path", "") if opened else "").rstrip("/").rpartition("/")[0]
    late = [
        f"pid {member.pid}, write {one.data.get('count', '?')}, {words.after_press(facts, said_at_s(one))}"
        for member in facts.first_run
        if (one := member.last("wrote")) is not None
        and said_at_s(one) > facts.handover_s + ROUNDING_S
        and str(one.data.get("path") or beside).startswith(beside)
    ]
    return words.several(late)


def _told(facts: Facts) -> str:
    return _told_late(facts) or "no later write told"


def _describe(accused: tuple[Write, ...]) -> str:
    marks = [f"{one.path} by {words.who(one.member) if one.member else one.pid} ({one.lines} lines)" for one in accused]
    return f"changed after the handover: {words.several(marks)}"


def _quiet(facts: Facts) -> str:
    rows = {str(row.data.get("path")) for row in facts.history.of("workspace", "changed")}
    others = f"; {len(rows)} changes that are not the living run's: {words.several(sorted(rows), ', ')}" if rows else ""
    return f"no write of the run after the handover{others}"


def _terms(facts: Facts) -> str:
    if facts.report is None:
        return f" (the deadline: {words.numbers(facts.terms, 'delivery', 'grace', 'kill_within')})"
    return f" ({words.numbers(facts.terms, 'early')}; the deadline if that comes first)"


def _likely(facts: Facts, accused: tuple[Write, ...]) -> str:
    names = words.several(sorted({words.who(one.member) for one in accused if one.member}), ", ")
    until = "reported as over" if facts.report is not None and facts.handover_s < facts.deadline_s else "past its deadline"
    return f"{names} was still alive when the run was {until}"
