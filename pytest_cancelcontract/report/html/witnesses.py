"""The lanes of the other witnesses: the plugin's calls, the workspace, the engine's heartbeats, the outcomes, and the machine itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, asked_at_s
from pytest_cancelcontract.clauses.heartbeats import beats
from pytest_cancelcontract.clauses.late_changes import Change, late_changes, stamp_of
from pytest_cancelcontract.clauses.members import BYSTANDER, CONTROL, FIRST, NEXT, Member, said_at_s
from pytest_cancelcontract.clauses.words import seconds
from pytest_cancelcontract.history import TERMINAL, Observation
from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Lane, LaneKind, Level, Mark, MarkKind
from pytest_cancelcontract.report.html.spells import after, count_of, over_s

_CALLS = (
    ("starting", "started", "start"),
    ("pressed", "cancel-returned", "cancel"),
    ("pressed-again", "cancel-again-returned", "cancel again"),
    ("restarting", "restarted", "start again"),
    ("other-starting", "other-started", "start of another run"),
)
_LONG_S = 0.1
"""An answer that took longer than this says so: the outcome may be as old as its question."""
_RUN_NAMES = {BYSTANDER: "bystander", NEXT: "next task", CONTROL: "control"}


def call_lane(facts: Facts, origin_s: float, end_s: float) -> Lane | None:
    """The plugin's calls into the adapter, from each beginning to its return."""
    bars, marks = [], []
    for begins, ends, name in _CALLS:
        returns = list(facts.history.of("adapter", ends, "not-restarted" if begins == "restarting" else ends))
        for begin, end in _paired(list(facts.history.of("adapter", begins)), returns):
            until_s = end.at_s if end is not None else end_s
            error = str(end.data.get("error") or "") if end is not None else ""
            how = f" ({begin.data['how']})" if begin.data.get("how") else ""
            came = "returned" if end is not None else "did not return"
            words = f"{name}{how}, {came}{f', with {error}' if error else ''}"
            bars.append(Bar(begin.at_s, until_s, BarKind.CALL, words, name))
            if error and end is not None:
                marks.append(Mark(end.at_s, MarkKind.ERROR, words, "failed"))
            elif end is None:
                marks.append(Mark(end_s, MarkKind.UNSEEN, words, "did not return"))
    for one in facts.history.of("adapter", "disrupted", "left-alone", "engine-lost"):
        marks.append(Mark(one.at_s, MarkKind.DISRUPTED, f"{one.kind.replace('-', ' ')}: {one.data.get('how')}"))
    if not bars and not marks:
        return None
    bars.sort(key=lambda one: one.since_s)
    note, is_grave = _call_note(facts, origin_s)
    return Lane(LaneKind.CALLS, "the test's calls", "", note, tuple(bars), tuple(marks), is_grave=is_grave)


def _call_note(facts: Facts, origin_s: float) -> tuple[str, bool]:
    """When the cancel call returned, and whether it did not."""
    if facts.history.first("adapter", "pressed") is None:
        return facts.act_done.kind.replace("-", " ") if facts.act_done is not None else "cancel was never called", False
    returned = facts.history.first("adapter", "cancel-returned")
    return ("cancel did not return", True) if returned is None else (f"cancel returned {after(origin_s, returned.at_s)}", False)


def _paired(begins: Sequence[Observation], ends: Sequence[Observation]) -> Iterator[tuple[Observation, Observation | None]]:
    """Each beginning with the first end behind it, of the same run where they say which."""
    for begin in begins:
        same = (one for one in ends if one.at_s >= begin.at_s and one.data.get("run") == begin.data.get("run"))
        yield begin, next(same, None)


def write_lanes(facts: Facts) -> Iterator[Lane]:
    """What the processes say that they wrote, and what changed in the workspace after the handover; other runs have a lane of their own."""
    changes = list(_changes(facts))
    late_paths = {path for path, one in changes if one.kind is MarkKind.LATE_WRITE}
    told = list(_told_writes(facts.first_run))
    if told or changes:
        note = f"late writes to {count_of(len(late_paths), 'path')}" if late_paths else f"told {count_of(len(told), 'time')}"
        marks = tuple(sorted((*told, *(one for _, one in changes)), key=lambda one: one.at_s))
        yield Lane(LaneKind.WRITES, "writes", "", note, (), marks, is_grave=bool(late_paths), over_s=over_s(facts))
    others = list(_told_writes([one for one in facts.members if one not in facts.first_run]))
    if others:
        yield Lane(LaneKind.WRITES, "writes of other runs", "", f"told {count_of(len(others), 'time')}", (), tuple(others))


def _told_writes(members: Iterable[Member]) -> Iterator[Mark]:
    said = [(said_at_s(one), member, one) for member in members for one in member.said if one.kind == "wrote"]
    for at_s, member, one in sorted(said, key=lambda told: told[0]):
        words = f"{member.role or 'a process'} (pid {member.pid}) says that it wrote {one.data.get('path')}"
        yield Mark(at_s, MarkKind.TOLD_WRITE, words)


def _changes(facts: Facts) -> Iterator[tuple[str, Mark]]:
    """The entries that changed, each with its path."""
    stamp = stamp_of(facts, "handover")
    if stamp is None or not facts.is_pressed:
        return
    found, over = late_changes(facts), over_s(facts)
    accused = {one.path: one.member for one in found.accused}
    for change in found.all:
        at_s = stamp.at_s + change.span(stamp).earliest_s
        member = accused.get(change.path)
        by = f" by {member.role} (pid {member.pid})" if member is not None else ""
        is_late = change.path in accused and over is not None and at_s >= over - ROUNDING_S
        kind, label = (MarkKind.LATE_WRITE, "late write") if is_late else (MarkKind.CHANGE, "")
        yield change.path, Mark(at_s, kind, f"{_what(change)} {change.path}{by}, after the handover", label)


def _what(change: Change) -> str:
    return {"content": "new contents in", "meta": "other permissions or names of", "": "a change of"}.get(change.what, change.what)


def heartbeat_lane(facts: Facts) -> Lane | None:
    """The heartbeats as the engine had them, and the gaps that are longer than is promised."""
    told = beats(facts)
    if told is None:
        return None
    marks = [Mark(at_s, MarkKind.BEAT, "a heartbeat") for at_s in told.moments]
    limit_s = facts.terms.heartbeat_timeout_s
    gone_s = facts.gone.latest_s
    gaps = []
    for before, behind in zip(told.moments, told.moments[1:], strict=False):
        if limit_s is not None and behind - before > limit_s:
            words = f"no heartbeat for {seconds(behind - before)}, promised within {seconds(limit_s)}"
            gaps.append(Bar(before, behind, BarKind.GAP, words, f"none for {seconds(behind - before)}"))
    last = told.moments[-1] if told.moments else None
    if limit_s is not None and last is not None and gone_s > last + limit_s:
        until_s = min(gone_s, told.asked_s)
        if until_s > last:
            words = "no heartbeat any more, though something of the run was alive"
            gaps.append(Bar(last, until_s, BarKind.GAP, words, f"none for {seconds(until_s - last)}"))
    note = told.error or (f"{count_of(len(gaps), 'gap')} too long" if gaps else str(len(marks)))
    return Lane(LaneKind.HEARTBEATS, "heartbeats", "", note, tuple(gaps), tuple(marks), is_grave=bool(gaps))


def outcome_lanes(facts: Facts, origin_s: float) -> Iterator[Lane]:
    """What the adapter answered to the question for the outcome, from each answer to the next other one; a lane a run."""
    own = _outcome_lane(FIRST, list(facts.history.of("outcome", "answer", "error")), origin_s)
    if own is not None or (facts.is_outcome_covered and facts.is_pressed):
        own = own or Lane(LaneKind.OUTCOMES, "outcome", "", "never reported")
        over = over_s(facts)
        yield replace(own, is_grave=facts.report is None and over is not None and facts.end_s >= over)
    others = list(facts.history.of("outcome", "other-answer", "other-error"))
    for run in dict.fromkeys(str(one.data.get("run")) for one in others):
        if lane := _outcome_lane(run, [one for one in others if str(one.data.get("run")) == run], origin_s):
            yield lane


def _outcome_lane(run: str, seen: Sequence[Observation], origin_s: float) -> Lane | None:
    answers = [one for one in seen if one.kind.endswith("answer")]
    errors = [one for one in seen if one.kind.endswith("error")]
    bars, marks = [], []
    for first, last in _same(answers):
        outcome = str(first.data.get("outcome"))
        kind = BarKind.TERMINAL if outcome in TERMINAL else BarKind.ANSWER
        asked = "" if first.at_s - asked_at_s(first) < _LONG_S else f", asked {seconds(first.at_s - asked_at_s(first))} before"
        words = f"the answer is {outcome}{asked}"
        bars.append(Bar(first.at_s, last.at_s, kind, words, outcome))
    report = next((one for one in answers if one.data.get("outcome") in TERMINAL), None)
    if report is not None:
        detail = f" ({report.data['detail']})" if report.data.get("detail") else ""
        words = f"the outcome is reported: {report.data.get('outcome')}{detail}"
        marks.append(Mark(report.at_s, MarkKind.REPORTED, words, f"reported: {report.data.get('outcome')}"))
    marks += [Mark(one.at_s, MarkKind.ERROR, f"the question failed: {one.data.get('error')}") for one in errors]
    if not bars and not marks:
        return None
    of = f", {_RUN_NAMES.get(run, run)}" if run != FIRST else ""
    note = f"{report.data.get('outcome')} {after(origin_s, report.at_s)}" if report is not None else "never reported"
    return Lane(LaneKind.OUTCOMES, f"outcome{of}", "", note, tuple(bars), tuple(marks))


def _same(answers: Sequence[Observation]) -> Iterator[tuple[Observation, Observation]]:
    """The first and the last of each row of equal answers."""
    first: Observation | None = None
    last: Observation | None = None
    for one in answers:
        if first is not None and last is not None and one.data.get("outcome") != first.data.get("outcome"):
            yield first, last
            first = None
        first, last = first or one, one
    if first is not None and last is not None:
        yield first, last


def machine_lane(facts: Facts) -> Lane | None:
    """How late the machine itself was, a window after another, and steps of the wall clock."""
    levels = []
    for one in facts.history.of("clock", "lateness"):
        since_s = float(one.data.get("since_s", one.at_s))
        levels.append(Level(min(since_s, one.at_s), one.at_s, float(one.data.get("worst_s", 0.0))))
    steps = [
        Mark(one.at_s, MarkKind.ERROR, f"the wall clock was set by {one.data.get('by_s')} s", "clock set")
        for one in facts.history.of("clock", "stepped")
    ]
    if not levels and not steps:
        return None
    worst = max(levels, key=lambda one: one.value_s, default=None)
    marks = list(steps)
    if worst is not None:
        words = f"the machine was late by {seconds(worst.value_s)} at worst"
        marks.append(Mark(worst.until_s, MarkKind.WORST, words, f"{worst.value_s * 1000:.0f} ms"))
    note = f"late by {worst.value_s * 1000:.1f} ms at worst" if worst is not None else "the clock was set"
    return Lane(LaneKind.MACHINE, "the machine", "", note, (), tuple(marks), tuple(levels))
