"""What a history tells of changes in the workspace since the handover: whose each is, as far as that is proven, and when it was made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate
from pytest_cancelcontract.clauses.members import Member, Span
from pytest_cancelcontract.history import Observation

_NEVER_BY_HOLDING = frozenset({"", "deleted", "meta"})
"""Changes that a process which only holds a file need not have made: of names and permissions, and of before the first look."""


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the workspace witness."""

    seen: Observation

    @property
    def path(self) -> str:
        """Which entry it was."""
        return str(self.seen.data.get("path"))

    @property
    def what(self) -> str:
        """What happened to it; empty where only the result was seen."""
        return str(self.seen.data.get("what") or "")

    @property
    def ignored(self) -> str:
        """The pattern under which nobody wanted to hear of it."""
        return str(self.seen.data.get("ignored") or "")

    @property
    def is_by_reading(self) -> bool:
        """It was found by comparing contents, so that no clock had a part in it."""
        return bool(self.seen.data.get("by_reading"))

    @property
    def others_hold(self) -> bool | None:
        """Somebody else of the machine can write to it as well; None where that is not known."""
        told = self.seen.data.get("others_hold")
        return told if isinstance(told, bool) else None

    @property
    def is_of_contents(self) -> bool:
        """The contents are proven to be others than they were when somebody was already seen to hold the file."""
        before = str(self.seen.data.get("before_sha256") or "")
        return bool(before) and before != self.seen.data.get("sha256") and self.what not in _NEVER_BY_HOLDING

    def rows(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """The rows of ``writers``, ``holders`` or ``order``; those of an entry that is deleted are of before."""
        rows = self.seen.data.get(name) or ()
        return tuple(one for one in rows if isinstance(one, Mapping)) if self.what != "deleted" else ()

    def span(self, stamp: Observation) -> Span:
        """When it was made, in seconds since the stamp: by its change time, or between two looks where no time tells it."""
        read = self.seen.data.get("span_s")
        if isinstance(read, (list, tuple)) and len(read) == 2:
            return Span(float(read[0]) - stamp.at_s, float(read[1]) - stamp.at_s)
        if self.is_by_reading:
            return Span(0.0, self.seen.at_s - stamp.at_s)
        after_s = (_ns(self.seen) - _ns(stamp)) / 1e9
        return Span(after_s, after_s)


@dataclass(frozen=True, slots=True)
class Write:
    """What one process did to one entry: by its marks (``lines`` of them), or by holding it (``how``) while its contents changed.

    ``member`` is None where nobody known left the marks. ``since`` and ``until`` are the first and last row that tell of it.
    """

    path: str
    member: Member | None
    pid: str
    lines: int
    how: str
    since: Change
    until: Change

    @property
    def is_by_reading(self) -> bool:
        """No clock had a part in it."""
        return self.since.is_by_reading or self.until.is_by_reading

    def span(self, stamp: Observation) -> Span:
        """From the first to the last of it, in seconds since the stamp."""
        return Span(self.since.span(stamp).earliest_s, self.until.span(stamp).latest_s)


@dataclass(frozen=True, slots=True)
class LateChanges:
    """Everything since the handover, sorted by what it proves. Whatever came after the run was gone accuses nobody.

    ``accused`` were alive at the handover. ``ignored`` would be accused too, if their paths did not fall under a pattern. ``strangers``
    left marks and are not known; ``unproven`` left marks, and it is not proven when. ``shared`` paths changed while such a process may
    have held them, and it is not proven that nobody else did; with each goes whether somebody else is known to have held it. ``unseen``
    changed right after the handover, before they were looked at. ``before_gone`` changed in some way while the run may have been alive.
    """

    all: tuple[Change, ...]
    accused: tuple[Write, ...]
    ignored: tuple[Write, ...]
    strangers: tuple[str, ...]
    unproven: tuple[str, ...]
    shared: tuple[tuple[str, bool], ...]
    unseen: tuple[str, ...]
    before_gone: tuple[str, ...]


def late_changes(facts: Facts) -> LateChanges:
    """Read the history's rows, each path's together: one that was noted again may say more than before, or less."""
    changes = tuple(Change(seen) for seen in facts.history.of("workspace", "changed"))
    by_path: dict[str, list[Change]] = {}
    for one in changes:
        by_path.setdefault(one.path, []).append(one)
    marked = [write for rows in by_path.values() for write in _marked(facts, rows)]
    holding = [write for rows in by_path.values() for write in _holding(facts, rows)]
    proven = [one for one in marked if _was_alive(facts, one.member) and not _is_after_gone(facts, one.since)] + holding
    is_stamped = _is_stamped_in_time(facts)
    return LateChanges(
        changes,
        tuple(one for one in proven if is_stamped and not one.until.ignored),
        tuple(one for one in proven if is_stamped and one.until.ignored),
        tuple(dict.fromkeys(one.path for one in marked if one.member is None)),
        tuple(dict.fromkeys(one.path for one in marked if one.member in facts.may_write)),
        tuple(_shared(facts, by_path)),
        tuple(path for path, rows in by_path.items() if _is_unseen(rows)),
        tuple(path for path, rows in by_path.items() if any(not row.ignored and not _is_after_gone(facts, row) for row in rows)),
    )


def stamp_of(facts: Facts, moment: str) -> Observation | None:
    """The stamp of a moment, or None."""
    return next((one for one in facts.history.of("workspace", "stamp") if one.data.get("moment") == moment), None)


def _is_stamped_in_time(facts: Facts) -> bool:
    stamp = stamp_of(facts, "handover")
    return stamp is not None and stamp.at_s >= facts.handover_s - ROUNDING_S


def _marked(facts: Facts, rows: list[Change]) -> Iterator[Write]:
    """The processes whose marks are in an entry, each with the first and the last row that shows them."""
    found: dict[tuple[str, str], Write] = {}
    for row in rows:
        for writer in row.rows("writers"):
            mark = (str(writer.get("pid")), str(writer.get("attempt")))
            lines, known = int(writer.get("count") or 0), found.get(mark)
            until = row if known is None or not _is_after_gone(facts, row) else known.until
            since, most = (row, lines) if known is None else (known.since, max(known.lines, lines))
            found[mark] = Write(row.path, _member(facts, mark), mark[0], most, "", since, until)
    yield from found.values()


def _holding(facts: Facts, rows: list[Change]) -> Iterator[Write]:
    """The living processes that held an unmarked entry while its contents changed, where none but such did."""
    found: dict[str, Write] = {}
    for row, holders in _held_rows(facts, rows):
        if row.others_hold is False and all(_was_alive(facts, member) for member, _ in holders):
            for member, how in holders:
                if member is not None:
                    since = found[member.subject].since if member.subject in found else row
                    found[member.subject] = Write(row.path, member, member.pid, 0, how, since, row)
    yield from found.values()


def _held_rows(facts: Facts, rows: list[Change]) -> Iterator[tuple[Change, list[tuple[Member | None, str]]]]:
    """Rows of an unmarked entry whose contents changed while it was held, with who held it; before the run was gone."""
    if any(row.rows("writers") for row in rows):
        return
    for row in rows:
        holders = [(_by_subject(facts, str(one.get("subject"))), str(one.get("how"))) for one in row.rows("holders")]
        if holders and row.is_of_contents and not _is_after_gone(facts, row):
            yield row, holders


def _shared(facts: Facts, by_path: Mapping[str, list[Change]]) -> Iterator[tuple[str, bool]]:
    for path, rows in by_path.items():
        held = list(_held_rows(facts, rows))
        may_be = [row for row, holders in held if any(_may_have_been_alive(facts, member) for member, _ in holders)]
        if may_be and not any(_holding(facts, rows)):
            strangers = any(member not in facts.may_write for _, holders in held for member, _ in holders)
            yield path, strangers or all(row.others_hold is True for row in may_be)


def _is_unseen(rows: list[Change]) -> bool:
    return any(row.what == "" for row in rows) and not any(row.rows("writers") for row in rows)


def _is_after_gone(facts: Facts, change: Change) -> bool:
    gone = stamp_of(facts, "gone")
    if gone is None:
        return False
    if change.is_by_reading:
        # Without a span it was read at the handover's own look.
        return bool(change.seen.data.get("span_s")) and change.span(gone).earliest_s >= 0
    return _ns(change.seen) > _ns(gone)


def _ns(seen: Observation) -> int:
    return int(seen.data.get("ctime_ns") or 0)


def _was_alive(facts: Facts, member: Member | None) -> bool:
    return member is not None and member in facts.may_write and facts.fate_at(member, facts.handover_s) is Fate.ALIVE


def _may_have_been_alive(facts: Facts, member: Member | None) -> bool:
    return member is not None and member in facts.may_write and facts.fate_at(member, facts.handover_s) in {Fate.ALIVE, Fate.UNKNOWN}


def _member(facts: Facts, mark: tuple[str, str]) -> Member | None:
    """Who left the mark: the pid as the process itself sees it, and the attempt, since pids are used again."""
    return next((one for one in facts.members if (one.own_pid, one.attempt) == mark), None)


def _by_subject(facts: Facts, subject: str) -> Member | None:
    return next((one for one in facts.members if one.subject == subject), None)


def wall_clock_steps(facts: Facts) -> tuple[float, ...]:
    """By how many seconds the wall clock, which change times are made of, was set while the workspace was watched."""
    opened = facts.history.first("workspace", "opened")
    since_s = opened.at_s if opened is not None else math.inf
    steps = [one for one in facts.history.of("clock", "stepped") if since_s <= one.at_s <= facts.end_s]
    return tuple(float(one.data.get("by_s") or 0.0) for one in steps)
