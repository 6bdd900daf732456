"""Names the files that living processes can still change without opening them: by a descriptor for writing, or a shared mapping.

Reads ``/proc`` and nothing else. Whoever may not be read is named, and neither accused nor acquitted here.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.workspace import Entry

DESCRIPTOR, MAPPING = "descriptor", "mapping"
PF_KTHREAD = 0x00200000
"""The mark of a thread of the kernel itself (include/linux/sched.h), field 9 of ``/proc/PID/stat``."""

Key = tuple[int, int]
"""Device and inode."""


class Hold(NamedTuple):
    """Who holds a file, and how."""

    subject: str
    how: str


class Grip(NamedTuple):
    """A file that a process holds: as it is told (``path`` is only a hint: it may be of another mount namespace), and by number."""

    how: str
    key: Key
    path: str


@dataclass(frozen=True, slots=True)
class Held:
    """What some processes hold, by path in the workspace; ``unread`` are those that live and may not be read."""

    by_path: Mapping[str, frozenset[Hold]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def held_in(entries: Mapping[str, Entry], living: Sequence[Identity]) -> Held:
    """Which of these entries those processes hold. Costs nothing where nobody lives."""
    found: list[tuple[str, Grip]] = []
    unread = []
    for identity in living:
        grips = _grips_of(identity)
        if grips is None:
            unread.append(str(identity))
        else:
            found += [(str(identity), grip) for grip in grips]
    return Held(_in_workspace(entries, found), tuple(unread))


def others_hold(entries: Mapping[str, Entry], paths: Collection[str], run: Collection[str]) -> dict[str, bool | None]:
    """Of each path, whether some process of the machine that is not of ``run`` holds it; None where somebody could not be asked.

    This reads the whole process table, descriptors included.
    """
    if not paths:
        return {}
    wanted: dict[Key, set[str]] = {}
    for path in paths:
        if path in entries:
            wanted.setdefault(entries[path].key, set()).add(path)
    held: set[str] = set()
    are_all_read = True
    for identity in _all_but(run):
        grips = _grips_of(identity, needs_mappings=False)
        are_all_read = are_all_read and grips is not None
        for grip in grips or ():
            named = _by_name(grip, entries)
            held |= wanted.get(grip.key if named is None else entries[named].key, set())
    return {path: True if path in held else (False if are_all_read else None) for path in paths}


def _all_but(run: Collection[str]) -> Iterator[Identity]:
    own = os.getpid()
    for seen in process_table.all_processes().values():
        # A thread of the kernel has no descriptors, and this process only reads.
        if not seen.flags & PF_KTHREAD and seen.identity.pid != own and str(seen.identity) not in run:
            yield seen.identity


def _in_workspace(entries: Mapping[str, Entry], found: Sequence[tuple[str, Grip]]) -> dict[str, frozenset[Hold]]:
    by_path: dict[str, set[Hold]] = {}
    lost: dict[Key, set[Hold]] = {}
    for subject, grip in found:
        path = _by_name(grip, entries)
        if path is not None and entries[path].links == 1:
            by_path.setdefault(path, set()).add(Hold(subject, grip.how))
        else:
            lost.setdefault(grip.key if path is None else entries[path].key, set()).add(Hold(subject, grip.how))
    # By number, in one walk over all: a file under another name, under several, or seen from another mount namespace.
    devices = {entry.device for entry in entries.values()} if lost else set()
    if any(device in devices for device, _ in lost):
        for path, entry in entries.items():
            if entry.is_file and (holds := lost.get(entry.key)):
                by_path.setdefault(path, set()).update(holds)
    return {path: frozenset(holds) for path, holds in by_path.items()}


def _by_name(grip: Grip, entries: Mapping[str, Entry]) -> str | None:
    """The entry that the grip names, where it is that file."""
    entry = entries.get(grip.path)
    if entry is None or not entry.is_file:
        return None
    # btrfs and overlayfs give a mapping another device than stat(2) does.
    is_that = entry.key == grip.key or (grip.how == MAPPING and entry.inode == grip.key[1])
    return grip.path if is_that else None


def _grips_of(identity: Identity, *, needs_mappings: bool = True) -> list[Grip] | None:
    """What the process holds; nothing of one that is gone, None for one that lives and may not be read.

    Of the first process of a machine the mappings may be hidden from root too; ``needs_mappings`` says whether that counts.
    """
    grips: list[Grip] = []
    try:
        for task in _tasks(identity.pid):
            grips += _grips_of_task(task, needs_mappings=needs_mappings)
    except PermissionError:
        return None if process_table.sight(identity).alive is not False else []
    # Read of a pid: it may have been another's by then.
    return list(dict.fromkeys(grips)) if process_table.sight(identity).alive is not False else []


def _tasks(pid: int) -> list[str]:
    """The process's folder, or those of its other threads where the main one has ended: then the process's own shows nothing."""
    whole = f"/proc/{pid}"
    seen = process_table.read_stat(pid)
    if seen is None or seen.state not in "ZX":
        return [whole]
    try:
        return [f"{whole}/task/{task}" for task in os.listdir(f"{whole}/task") if task != str(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _grips_of_task(task: str, *, needs_mappings: bool) -> Iterator[Grip]:
    try:
        yield from _descriptors(task)
        with contextlib.nullcontext() if needs_mappings else contextlib.suppress(PermissionError):
            yield from _mappings(task)
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended meanwhile


def _descriptors(task: str) -> Iterator[Grip]:
    """Files that are open for writing, proc_pid_fdinfo(5)."""
    for number in os.listdir(f"{task}/fd"):
        try:
            status = os.stat(f"{task}/fd/{number}")
            if stat.S_ISREG(status.st_mode) and _is_for_writing(f"{task}/fdinfo/{number}"):
                yield Grip(DESCRIPTOR, (status.st_dev, status.st_ino), os.readlink(f"{task}/fd/{number}"))
        except FileNotFoundError:
            continue  # closed meanwhile


def _is_for_writing(info: str) -> bool:
    with open(info, "rb", buffering=0) as file:
        for line in file.read().split(b"\n"):
            if line.startswith(b"flags:"):
                flags = int(line.split()[1], 8)
                return flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_PATH
    return False


def _mappings(task: str) -> Iterator[Grip]:
    """Files that are mapped shared and writable: ``7f8d…-7f8d… rw-s 00000000 fe:00 5342935   /path``, proc_pid_maps(5)."""
    with open(f"{task}/maps", "rb") as file:
        for line in file:
            words = line.rstrip(b"\n").split(None, 5)
            if len(words) == 6 and words[1][1:2] == b"w" and words[1][3:4] == b"s" and words[4] != b"0":
                major, _, minor = words[3].partition(b":")
                device = os.makedev(int(major, 16), int(minor, 16))
                yield Grip(MAPPING, (device, int(words[4])), os.fsdecode(_unescaped(words[5])))


def _unescaped(path: bytes) -> bytes:
    return path.replace(b"\\012", b"\n")
