"""Looks at a workspace: which entries there are in it and beside it; and a stamp on the same file system, for what has changed since.

Change times (``ctime``) are compared with the stamp's and never with a clock: programs can set an ``mtime``, nobody sets a ``ctime``.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

OWN_PREFIX = "uncooperative-"
MARK = b"uncooperative "
LINE_AT_MOST = 4096
"""How long a marked line may be, in bytes."""


class Entry(NamedTuple):
    """One name in a workspace, as lstat(2) gives it. A tuple, since a hundred thousand of them are made in a look."""

    mode: int
    inode: int
    device: int
    links: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def key(self) -> tuple[int, int]:
        """What the file system calls it, whatever names it has."""
        return self.device, self.inode

    @property
    def is_file(self) -> bool:
        """An ordinary file, whose contents can be read."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """A folder, and no link to one."""
        return stat.S_ISDIR(self.mode)


def entry_of(status: os.stat_result) -> Entry:
    """A status as an entry. Its first seven fields are the first seven here, and one slice costs less than seven looks-up."""
    return tuple.__new__(Entry, (*status[:7], status.st_mtime_ns, status.st_ctime_ns))


@dataclass(frozen=True, slots=True)
class Look:
    """All entries by path: the folder itself, all below it on its own file system, and what is looked at beside it.

    ``exists`` is False where it is gone, and ``is_cut`` says that there is more than is looked at.
    """

    entries: Mapping[str, Entry]
    exists: bool
    took_s: float
    is_cut: bool = False


ENTRIES_AT_MOST = 400_000
"""A working folder with more than that is no workspace; a look at all of a machine would take longer than anybody waits for it."""


def is_the_runs_name(name: str) -> bool:
    """A name that only the runner gives: all that is looked at in a parent folder that may be anybody's."""
    return name.startswith(OWN_PREFIX)


def look(folder: str, watches_beside: Callable[[str], bool] = is_the_runs_name) -> Look:
    """Walk the folder, and take the names beside it that are watched; entries that vanish meanwhile are left out."""
    began = time.monotonic()
    entries: dict[str, Entry] = {}
    try:
        status = os.stat(folder)
    except OSError:
        status = None
    exists = status is not None and stat.S_ISDIR(status.st_mode)
    if status is not None:
        entries[folder.rstrip("/")] = entry_of(status)
    with _uncollected():
        is_cut = status is not None and not _walk(folder, status.st_dev, entries)
    _look_beside(folder, watches_beside, entries)
    return Look(entries, exists, time.monotonic() - began, is_cut)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's collector, which would go over all entries again and again; none of them can be in a circle.

    Of two looks at a time the second one leaves it as the first has it, who turns it on again.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _walk(folder: str, device: int, entries: dict[str, Entry]) -> bool:
    """Whether all was seen. What is mounted below (a /proc, say) is another's, and named only."""
    waiting = [folder]
    while waiting:
        if len(entries) > ENTRIES_AT_MOST:
            return False
        try:
            with os.scandir(waiting.pop()) as found:
                for item in found:
                    try:
                        status = item.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    # As entry_of, whose call alone would be a tenth of the walk.
                    entries[item.path] = tuple.__new__(Entry, (*status[:7], status.st_mtime_ns, status.st_ctime_ns))
                    if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                        waiting.append(item.path)
        except OSError:
            continue
    return True


def _look_beside(folder: str, watches: Callable[[str], bool], entries: dict[str, Entry]) -> None:
    own = folder.rstrip("/")
    try:
        with os.scandir(os.path.dirname(own)) as items:
            for item in items:
                if item.path != own and watches(item.name):
                    try:
                        entries[item.path] = entry_of(item.stat(follow_symlinks=False))
                    except OSError:
                        continue
    except OSError:
        pass


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A regular file of a workspace, open for reading.

    Raises:
        OSError: it cannot be opened, or is no regular file: opening a FIFO would wait for a writer, and reading a device might not end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        yield descriptor
    finally:
        os.close(descriptor)


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
            with opened(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
                is_ours = all(_token_of(line) in tokens for line in iter(lambda: file.readline(LINE_AT_MOST), b""))
            if is_ours:
                os.unlink(path)
        except OSError:
            continue


def _token_of(line: bytes) -> str:
    """Whose mark a line bears; empty where it bears none."""
    words = line.split(b" ", 2)
    return words[1].decode("ascii", "replace") if line.startswith(MARK) and len(words) == 3 else ""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by a file system's own clock, in nanoseconds; ``is_fine`` where that clock ticks at every touch.

    On others a tick takes milliseconds, and a change with the moment's very time may be from just before it.
    """

    ctime_ns: int
    is_fine: bool = False

    def is_before(self, ctime_ns: int) -> bool:
        """Whether what changed then has certainly changed after the moment."""
        return ctime_ns > self.ctime_ns or (self.is_fine and ctime_ns == self.ctime_ns)


def stamp(folder: str) -> Moment:
    """This moment by the clock of the folder's file system, told by a file without a name that is touched there and let go.

    The file is made in the nearest existing folder at or above ``folder``. It is not kept open from one stamp to the next: that would
    make the file system busy, and a wrapper may want to unmount it.

    Raises:
        OSError: no file can be made there.
    """
    place = folder
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    file = _nameless(place)
    try:
        # Linux 6.13 and newer give a finer time to a file whose time was looked at, and no time before that one to any file afterwards.
        # Three times that differ can be no chance of a coarse clock.
        times = [_time_after_a_touch(file) for _ in range(3)]
    finally:
        os.close(file)
    return Moment(times[-1], is_fine=times[0] < times[1] < times[2])


def _nameless(folder: str) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except (OSError, AttributeError):
        # Not every file system has files without a name.
        file, name = tempfile.mkstemp(dir=folder, prefix=".cancelcontract-stamp-")
        os.unlink(name)
        return file


def _time_after_a_touch(file: int) -> int:
    os.utime(file)
    return os.fstat(file).st_ctime_ns
