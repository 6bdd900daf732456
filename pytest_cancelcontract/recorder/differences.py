"""How two looks at a workspace differ, by name, inode, and times; of contents it knows nothing.

An inode number is used again, sometimes at once: whoever was born after the moment of the first look is another file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pytest_cancelcontract.recorder.birth import birth_ns
from pytest_cancelcontract.recorder.workspace import Entry, Moment

CREATED, CONTENT, META, DELETED, RENAMED, REPLACED, UNKNOWN = "created", "content", "meta", "deleted", "renamed", "replaced", ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that is not as it was. ``was`` is its old path where that is another, ``before`` how it stood then, as far as is known.

    ``what`` is empty where it was changed between the moment and the first look, which saw only the result.
    """

    path: str
    what: str
    now: Entry | None
    before: Entry | None = None
    was: str = ""


def differences(
    before: Mapping[str, Entry], after: Mapping[str, Entry], since: Moment, birth: Callable[[str], int | None] = birth_ns
) -> list[Difference]:
    """All of them. A folder that only lost or won entries is not listed beside these; what is in a renamed one goes with it."""
    return list(_Comparison(before, after, since, birth))


class _Comparison:
    def __init__(self, before: Mapping[str, Entry], after: Mapping[str, Entry], since: Moment, birth: Callable[[str], int | None]) -> None:
        self._before = before
        self._after = after
        self._since = since
        self._birth = birth
        self._new: list[str] = []
        self._same: list[str] = []
        # Of a hundred thousand entries hardly any has changed: these two go over all of them, everything else over what they find.
        changed = [path for path, entry in after.items() if before.get(path) != entry]
        late = [path for path, entry in before.items() if entry.ctime_ns >= since.ctime_ns]
        self._in_between = [path for path in late if after.get(path) == before[path] and since.is_before(before[path].ctime_ns)]
        for path in changed:
            then = before.get(path)
            is_same = then is not None and _is_same(then, after[path]) and not self._is_born_since(path)
            (self._same if is_same else self._new).append(path)
        self._lost = (before.keys() - after.keys()) | (before.keys() & set(self._new))
        self._resized = {os.path.dirname(path) for path in (*self._lost, *self._new)}

    def __iter__(self) -> Iterator[Difference]:
        came_from = self._renames()
        yield from (self._newcomer(path, came_from) for path in self._new if not self._has_moved_along(path, came_from))
        for path in self._same:
            then, now = self._before[path], self._after[path]
            if what := self._how_changed(path, then, now):
                yield Difference(path, what, now, then)
        yield from (Difference(path, UNKNOWN, self._after[path], self._before[path]) for path in self._in_between)
        taken = set(came_from.values())
        yield from (
            Difference(path, DELETED, None, self._before[path])
            for path in sorted(self._lost)
            if path not in taken and path not in self._after
        )

    def _renames(self) -> dict[str, str]:
        """Where newcomers were before: the same inode under another path, which nobody has there any more."""
        sources: dict[tuple[int, int], list[str]] = {}
        for path in sorted(self._lost):
            sources.setdefault(self._before[path].key, []).append(path)
        came_from: dict[str, str] = {}
        for path in sorted(self._new):
            found = sources.get(self._after[path].key)
            if not found:
                continue
            above = came_from.get(os.path.dirname(path))
            along = os.path.join(above, os.path.basename(path)) if above else ""
            source = along if along in found else found[0]
            if _is_same(self._before[source], self._after[path]) and (source == along or not self._is_born_since(path)):
                found.remove(source)
                came_from[path] = source
        return came_from

    def _newcomer(self, path: str, came_from: Mapping[str, str]) -> Difference:
        now, was = self._after[path], came_from.get(path)
        if was is None:
            then = self._before.get(path)
            return Difference(path, CREATED if then is None else REPLACED, now, then)
        then = self._before[was]
        if self._is_carried(path, came_from):
            return Difference(path, self._how_changed(path, then, now, was), now, then, was)
        return Difference(path, RENAMED, now, then, was)

    def _has_moved_along(self, path: str, came_from: Mapping[str, str]) -> bool:
        """It is as it was, and its folder's own renaming says where it is now."""
        if not self._is_carried(path, came_from):
            return False
        then, now = self._before[came_from[path]], self._after[path]
        if then == now:
            return not self._since.is_before(now.ctime_ns)
        return not self._how_changed(path, then, now, came_from[path])

    def _is_carried(self, path: str, came_from: Mapping[str, str]) -> bool:
        above, was = came_from.get(os.path.dirname(path)), came_from.get(path)
        return above is not None and was == os.path.join(above, os.path.basename(path))

    def _how_changed(self, path: str, then: Entry, now: Entry, was: str = "") -> str:
        """Of the same inode; nothing for a folder whose times tell only what is listed by itself."""
        is_other_meta = (then.mode, then.uid, then.gid) != (now.mode, now.uid, now.gid)
        if now.is_folder:
            is_resized = path in self._resized or was in self._resized
            is_touched = (then.ctime_ns, then.mtime_ns) != (now.ctime_ns, now.mtime_ns) and not is_resized
            return META if is_other_meta or is_touched else UNKNOWN
        if not now.is_file or ((then.size, then.mtime_ns) == (now.size, now.mtime_ns) and (is_other_meta or then.links != now.links)):
            return META
        # Also where only the change time moved, and nothing explains it: a rewrite of the same size, with the old mtime set again.
        return CONTENT

    def _is_born_since(self, path: str) -> bool:
        born_ns = self._birth(path)
        return born_ns is not None and self._since.is_before(born_ns)


def _is_same(then: Entry, now: Entry) -> bool:
    return then.key == now.key and stat.S_IFMT(then.mode) == stat.S_IFMT(now.mode)
