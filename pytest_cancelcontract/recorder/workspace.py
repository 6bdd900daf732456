"""Looks at a workspace: which entries there are, which changed since a stamp on the same file system, and whose marks they bear.

Change times (``ctime``) are compared with the stamp's and never with a clock: programs can set an ``mtime``, nobody sets a ``ctime``.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

READ_AT_MOST = 4 * 1024 * 1024
"""How much of a changed file is read, in bytes, from its end: marks are in what was added last."""
OWN_PREFIX = "uncooperative-"
MARK = b"uncooperative "


class Entry(NamedTuple):
    """One name in a workspace, as lstat(2) gives it. A tuple, since a hundred thousand of them are made in a look."""

    size: int
    ctime_ns: int
    inode: int
    mode: int


def _entry(status: os.stat_result) -> Entry:
    return Entry(status.st_size, status.st_ctime_ns, status.st_ino, status.st_mode)


@dataclass(frozen=True, slots=True)
class Look:
    """All entries below a folder (and the run's own beside it), by path; ``exists`` is False where the folder is gone."""

    entries: Mapping[str, Entry]
    exists: bool
    took_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that is not as it was at the stamp, with the marks that were added to it since."""

    path: str
    beside: bool
    what: str
    ctime_ns: int
    size: int
    sha256: str
    writers: tuple[tuple[int, str, int], ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON-shaped data."""
        writers = [{"pid": pid, "attempt": attempt, "count": count} for pid, attempt, count in self.writers]
        return {
            "path": self.path,
            "beside": self.beside,
            "what": self.what,
            "ctime_ns": self.ctime_ns,
            "size": self.size,
            "sha256": self.sha256,
            "writers": writers,
        }


def look(folder: str) -> Look:
    """Walk the folder and the run's own names beside it; entries that vanish meanwhile are left out."""
    began = time.monotonic()
    entries: dict[str, Entry] = {}
    exists = os.path.isdir(folder)
    _walk(folder, entries)
    for name, entry in _beside(folder):
        entries[name] = entry
    return Look(entries, exists, time.monotonic() - began)


def remove_logs(folder: str, tokens: Collection[str]) -> None:
    """Remove the files of runs that are over, told by their name and by a mark of theirs in every line, at the top of a folder.

    Several drills may have written into one file, where a wrapper runs them in one folder; the last of them removes it.
    """
    try:
        names = [name for name in os.listdir(folder) if name.startswith(OWN_PREFIX) and name.endswith(".log")]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                is_ours = all(_token_of(line) in tokens for line in file)
            if is_ours:
                os.unlink(path)
        except OSError:
            continue


def _token_of(line: bytes) -> str:
    """Whose mark a line bears; empty where it bears none."""
    words = line.split(b" ", 2)
    return words[1].decode("ascii", "replace") if line.startswith(MARK) and len(words) == 3 else ""


def _walk(folder: str, entries: dict[str, Entry]) -> None:
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for item in found:
                    try:
                        status = item.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    entries[item.path] = _entry(status)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(item.path)
        except OSError:
            continue


def _beside(folder: str) -> list[tuple[str, Entry]]:
    """The run's own names in the parent folder: the parent may be anybody's, so nothing else in it is looked at."""
    parent = os.path.dirname(folder.rstrip("/"))
    found = []
    try:
        with os.scandir(parent) as items:
            for item in items:
                if item.name.startswith(OWN_PREFIX):
                    found.append((item.path, _entry(item.stat(follow_symlinks=False))))
    except OSError:
        pass
    return found


class Stamp:
    """A file without a name on the workspace's file system, whose change time stands for a moment."""

    def __init__(self, folder: str) -> None:
        """Make the file, in the nearest existing folder at or above ``folder``.

        Raises:
            OSError: no file can be made there.
        """
        place = folder
        while not os.path.isdir(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        try:
            self._file = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except (OSError, AttributeError):
            # Not every file system has files without a name.
            handle, name = tempfile.mkstemp(dir=place, prefix=".cancelcontract-stamp-")
            os.unlink(name)
            self._file = handle

    def touch(self) -> int:
        """Set the change time to now, and return it in nanoseconds of that file system's clock."""
        os.utime(self._file)
        return os.fstat(self._file).st_ctime_ns

    def close(self) -> None:
        """Let the file go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def changes(before: Look, folder: str, stamp_ns: int, token: str) -> tuple[Look, list[Change]]:
    """Look again, and list what differs from ``before`` and was changed after the stamp.

    An entry with exactly the stamp's change time may be from just before it, and is not counted.
    """
    after = look(folder)
    inside = folder.rstrip("/") + "/"
    found = [
        _change(path, entry, before.entries.get(path), path.startswith(inside), token)
        for path, entry in after.entries.items()
        if entry.ctime_ns > stamp_ns and entry != before.entries.get(path)
    ]
    found += [
        Change(path, not path.startswith(inside), "deleted", 0, entry.size, "")
        for path, entry in before.entries.items()
        if path not in after.entries
    ]
    return after, found


def _change(path: str, entry: Entry, before: Entry | None, inside: bool, token: str) -> Change:
    if before is None:
        what = "created"
    elif before.size != entry.size or before.inode != entry.inode or stat.S_ISREG(entry.mode):
        what = "content"
    else:
        what = "meta"
    digest = ""
    writers: tuple[tuple[int, str, int], ...] = ()
    if stat.S_ISREG(entry.mode):
        # Logs only grow, so what lies behind the size of before was added since; another inode is another file.
        offset = before.size if before is not None and before.inode == entry.inode and before.size <= entry.size else 0
        digest, writers = _read(path, offset, token)
    return Change(path, not inside, what, entry.ctime_ns, entry.size, digest, writers)


def _read(path: str, offset: int, token: str) -> tuple[str, tuple[tuple[int, str, int], ...]]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - READ_AT_MOST))
            content = file.read(READ_AT_MOST)
            added = content[max(0, offset - max(0, size - READ_AT_MOST)) :]
    except OSError:
        return "", ()
    return hashlib.sha256(content).hexdigest(), marks(added, token)


def marks(content: bytes, token: str) -> tuple[tuple[int, str, int], ...]:
    """Who of the run wrote these lines: ``(pid, attempt, lines)``; a line that was cut in front is nobody's."""
    wanted = MARK + token.encode() + b" "
    counted: Counter[tuple[int, str]] = Counter()
    for line in content.split(b"\n"):
        if line.startswith(wanted):
            words = line.split()
            if len(words) >= 5 and words[3].isdigit():
                counted[int(words[3]), words[2].decode("ascii", "replace")] += 1
    return tuple((pid, attempt, count) for (pid, attempt), count in sorted(counted.items()))
