"""What changed in a workspace since the handover: how, by whose marks, who holds it, and when.

Two things tell a change: the status of an entry, and of files that living processes hold their contents as well. A store into a page
that is dirty already changes no time at all: on a disk not until it is written back, in memory (tmpfs) never again.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import holders, marks, workspace
from pytest_cancelcontract.recorder.differences import CONTENT, CREATED, META, REPLACED, UNKNOWN, Difference, differences
from pytest_cancelcontract.recorder.holders import Held, Hold
from pytest_cancelcontract.recorder.marks import Reading
from pytest_cancelcontract.recorder.workspace import Entry, Look, Moment

READ_AT_MOST = 2000
"""So many changed files are read in a look beyond the run's own and those that it holds: sixty thousand take ten seconds."""
ROWS_AT_MOST = 1000
"""So many changes that nobody has marked or holds are told one by one: a wrapper may empty a folder of a hundred thousand files."""
NOBODY: frozenset[Hold] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that is not as it was at the handover; docs/history.md says what each field means.

    ``span_s`` is given where contents changed and no time did: it happened between these two moments of the monotonic clock.
    """

    path: str
    beside: bool
    what: str
    ctime_ns: int
    size: int
    sha256: str
    was: str = ""
    before_sha256: str = ""
    writers: marks.Writers = ()
    order: marks.Writers = ()
    holders: tuple[Hold, ...] = ()
    others_hold: bool | None = None
    by_reading: bool = False
    span_s: tuple[float, float] | None = None
    ignored: str = ""

    @property
    def is_anybodys(self) -> bool:
        """Nothing tells who it was."""
        return not self.writers and not self.holders

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON-shaped data."""
        named = {name: [_writer(one) for one in rows] for name, rows in (("writers", self.writers), ("order", self.order))}
        return {**asdict(self), **named, "holders": [one._asdict() for one in self.holders], "span_s": self.span_s and list(self.span_s)}


def _writer(row: tuple[int, str, int]) -> dict[str, Any]:
    pid, attempt, count = row
    return {"pid": pid, "attempt": attempt, "count": count}


@dataclass(frozen=True, slots=True)
class Seen:
    """A look since the handover. ``unread`` are living processes of which it is not known what they hold.

    ``ignored`` and ``unlisted`` count changes that have no row: under a pattern, and beyond the number that is told one by one.
    """

    look: Look
    changes: Sequence[Change] = ()
    unread: tuple[str, ...] = ()
    ignored: int = 0
    unlisted: int = 0


class _Known(NamedTuple):
    """What was read of a file: at first, and last (with the times of both the file system's clock and the monotonic one)."""

    entry: Entry
    first: Reading
    last_sha256: str
    last_ctime_ns: int
    last_at_s: float
    span_s: tuple[float, float] | None = None
    is_from_handover: bool = True


@dataclass(slots=True)
class SinceHandover:
    """Compares each look with the one that is taken at the handover, right behind its stamp. Blocks; to be used in one thread at a time.

    ``stamped_at_s`` is when the stamp was made, by the monotonic clock. With ``reads_held`` off no contents are compared.
    """

    folder: str
    token: str
    moment: Moment
    stamped_at_s: float
    watches_beside: Callable[[str], bool] = workspace.is_the_runs_name
    ignore: Sequence[str] = ()
    reads_held: bool = True
    _before: Mapping[str, Entry] = field(default_factory=dict)
    _old_lines: set[bytes] = field(default_factory=set)
    _known: dict[holders.Key, _Known] = field(default_factory=dict)
    _held_before: Mapping[holders.Key, frozenset[Hold]] = field(default_factory=dict)
    _told: dict[str, tuple[Difference, frozenset[Hold], Change]] = field(default_factory=dict)
    _others: dict[str, bool | None] = field(default_factory=dict)
    _reads: int = 0
    _patterns: list[tuple[str, re.Pattern[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._patterns = [(one, re.compile(fnmatch.translate(one.rstrip("/")))) for one in self.ignore]

    def first(self, living: Sequence[Identity] = ()) -> Seen:
        """The handover's own look: what it is like then, and what changed between the stamp and it."""
        seen = workspace.look(self.folder, self.watches_beside)
        self._before = seen.entries
        held = self._held(seen, living)
        found = {one.path: one for one in differences(self._before, self._before, self.moment)}
        own_names = [path for path in seen.entries if f"/{workspace.OWN_PREFIX}" in path]
        for path in {*held.by_path, *own_names, *found}:
            entry = seen.entries[path]
            known = self._read_first(path, entry)
            if path not in found and known is not None and self._dated_lines(known):
                found[path] = Difference(path, UNKNOWN, entry, entry)
        return self._seen(seen, held, list(found.values()), living)

    def again(self, living: Sequence[Identity] = ()) -> Seen:
        """Look again, and tell all that is not as it was at the handover."""
        seen = workspace.look(self.folder, self.watches_beside)
        held = self._held(seen, living)
        found = differences(self._before, seen.entries, self.moment)
        found += self._differently_read(seen, held, {one.path for one in found})
        return self._seen(seen, held, found, living)

    # --- Contents -----------------------------------------------------------------------------------------------------

    def _held(self, seen: Look, living: Sequence[Identity]) -> Held:
        return holders.held_in(seen.entries, living) if self.reads_held and living else Held()

    def _read_first(self, path: str, entry: Entry) -> _Known | None:
        if entry.is_file and entry.key not in self._known and (reading := marks.read(path, entry, self.token)) is not None:
            now = time.monotonic()
            self._known[entry.key] = _Known(entry, reading, reading.sha256, entry.ctime_ns, now)
            # A line that says itself that it was written since the stamp is new, though it was there at the first reading.
            self._old_lines.update(line for line in reading.lines if not self.stamped_at_s <= marks.said_at_s(line) <= now)
        return self._known.get(entry.key)

    def _dated_lines(self, known: _Known) -> list[bytes]:
        return [line for line in known.first.lines if line not in self._old_lines]

    def _differently_read(self, seen: Look, held: Held, found: set[str]) -> list[Difference]:
        """Files whose status is as it was, and that are or were held or read: those that read differently all the same."""
        differ = []
        let_go = self._held_before.keys() - {seen.entries[path].key for path in held.by_path}
        paths = {path for path, entry in seen.entries.items() if entry.key in let_go} if let_go else set()
        for path in (paths | held.by_path.keys()) - found:
            entry = seen.entries[path]
            known = self._known.get(entry.key)
            if known is None:
                self._read_first(path, entry)  # held since after the handover, and not changed by then
            elif (reading := self._read_again(path, entry)) is not None and (
                reading.sha256 != known.first.sha256 or self._dated_lines(known)
            ):
                differ.append(Difference(path, UNKNOWN, entry, known.entry))
        return differ

    def _read_again(self, path: str, entry: Entry) -> Reading | None:
        """Read a file, and keep when it was found to be another than the time before, where no change time tells it."""
        reading, now = marks.read(path, entry, self.token), time.monotonic()
        known = self._known.get(entry.key)
        if reading is None or known is None:
            return reading
        span_s = known.span_s
        if reading.sha256 != known.last_sha256:
            span_s = (round(known.last_at_s, 6), round(now, 6)) if entry.ctime_ns == known.last_ctime_ns else None
        self._known[entry.key] = known._replace(last_sha256=reading.sha256, last_ctime_ns=entry.ctime_ns, last_at_s=now, span_s=span_s)
        return reading

    # --- Changes ------------------------------------------------------------------------------------------------------

    def _seen(self, seen: Look, held: Held, found: Sequence[Difference], living: Sequence[Identity]) -> Seen:
        changes, ignored, self._reads = [], 0, 0
        for one in found:
            pattern = self._ignored_by(one.path)
            change = self._change(one, self._holders_of(one, held))
            if pattern and change.is_anybodys:
                ignored += 1
            else:
                changes.append(replace(change, ignored=pattern) if pattern else change)
        self._held_before = {seen.entries[path].key: holds for path, holds in held.by_path.items()}
        changes = self._with_others(changes, seen, [str(one) for one in living])
        changes.sort(key=lambda one: (one.is_anybodys, one.what != UNKNOWN))
        listed = ROWS_AT_MOST + sum(not one.is_anybodys for one in changes)
        return Seen(seen, changes[:listed], held.unread, ignored, max(len(changes[listed:]), self._reads - READ_AT_MOST))

    def _holders_of(self, one: Difference, held: Held) -> frozenset[Hold]:
        """At this look, or at the one before: a process that died in between may have changed it last."""
        is_other_file = one.now is None or one.what in {CREATED, REPLACED}
        before = NOBODY if one.now is None or is_other_file else self._held_before.get(one.now.key, NOBODY)
        return held.by_path.get(one.path, NOBODY) | before

    def _change(self, one: Difference, held_by: frozenset[Hold]) -> Change:
        told = self._told.get(one.path)
        if told is not None and not held_by and told[:2] == (one, held_by):
            return told[2]
        is_beside = one.path != self.folder.rstrip("/") and not one.path.startswith(self.folder.rstrip("/") + "/")
        if one.now is None:
            change = Change(one.path, is_beside, one.what, 0, one.before.size if one.before else 0, "", one.was)
        else:
            change = self._change_of_present(one, one.now, is_beside, tuple(sorted(held_by)))
        self._told[one.path] = (one, held_by, change)
        return change

    def _change_of_present(self, one: Difference, now: Entry, is_beside: bool, held_by: tuple[Hold, ...]) -> Change:
        change = Change(one.path, is_beside, one.what, now.ctime_ns, now.size, "", one.was, holders=held_by)
        if not now.is_file or not self._is_worth_reading(one.path, held_by):
            return change
        known = self._known_of(one, now)
        if known is None and held_by:
            self._read_held(one.path, now)
        reading = self._read_again(one.path, now)
        if reading is None:
            return change
        known = self._known_of(one, now)
        lines = self._added(one, reading, known)
        what = _what(one.what, reading, known)
        # Between the stamp and the first look it is the stamp that tells; from then on it is any other time than at that look.
        is_timed = one.before is None or now.ctime_ns != one.before.ctime_ns or (what == UNKNOWN and self.moment.is_before(now.ctime_ns))
        return replace(
            change,
            what=what,
            sha256=reading.sha256,
            before_sha256=known.first.sha256 if known else "",
            writers=marks.writers(lines),
            order=marks.order(lines),
            by_reading=not is_timed,
            span_s=known.span_s if known else None,
        )

    def _is_worth_reading(self, path: str, held_by: tuple[Hold, ...]) -> bool:
        if held_by or f"/{workspace.OWN_PREFIX}" in path:
            return True
        self._reads += 1
        return self._reads <= READ_AT_MOST

    def _known_of(self, one: Difference, now: Entry) -> _Known | None:
        known = self._known.get(now.key)
        # A new file may have an old one's number.
        return None if known is not None and known.is_from_handover and one.what in {CREATED, REPLACED} else known

    def _read_held(self, path: str, now: Entry) -> None:
        """A file that changed before anybody was seen to hold it: from here on its contents are compared with these."""
        if (reading := marks.read(path, now, self.token)) is not None:
            at_s = time.monotonic()
            self._known[now.key] = _Known(now, reading, reading.sha256, now.ctime_ns, at_s, is_from_handover=False)

    def _added(self, one: Difference, reading: Reading, known: _Known | None) -> list[bytes]:
        """The run's lines that came since. Each is written once, so one that stood anywhere at the handover was copied or moved."""
        lines = reading.lines
        is_unread_before = known is None or not known.is_from_handover
        if is_unread_before and one.before is not None and one.now is not None and one.before.key == one.now.key:
            # What nobody had a reason to read at the handover may bear marks of then; a log grows at its end.
            lines = reading.behind(one.before.size) if one.before.size <= one.now.size else lines
        return [line for line in lines if line not in self._old_lines]

    def _with_others(self, changes: Sequence[Change], seen: Look, run: Sequence[str]) -> list[Change]:
        """Ask once of each file that only its holders can have changed, whether they are the only ones."""
        asked = {one.path for one in changes if one.holders and not one.writers and one.sha256 and one.what not in {META, UNKNOWN}}
        self._others.update(holders.others_hold(seen.entries, asked - self._others.keys(), run))
        return [replace(one, others_hold=self._others[one.path]) if one.path in asked else one for one in changes]

    def _ignored_by(self, path: str) -> str:
        """The pattern under which the path falls, or the folder that it is in; nothing where it falls under none."""
        if not self._patterns:
            return ""
        parts = os.path.relpath(path, self.folder).split("/")
        names = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        return next((pattern for pattern, form in self._patterns if any(form.match(name) for name in names)), "")


def _what(what: str, reading: Reading, known: _Known | None) -> str:
    """As the contents tell it, where they are known from the handover; else as the status does."""
    if what not in {CONTENT, META, UNKNOWN} or known is None or not known.is_from_handover:
        return what
    if reading.sha256 != known.first.sha256:
        return CONTENT
    return META if what == CONTENT and reading.is_whole else what
