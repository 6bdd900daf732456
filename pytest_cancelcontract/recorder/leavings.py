"""What a killed run has left standing in the way of the next one, as seen from outside: its old workspace, and locks that it still holds.

Looked at only when the task's second start has come to nothing; what that means is for the clauses.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import folders, mounts, process_table
from uncooperative_runner import poison


def old_workspace(folder: str, inode: tuple[int, int], *, owner: int) -> dict[str, Any]:
    """How the first run's working folder stands: ``same`` (it is the very folder), the poison in it, and what keeps it from being removed.

    Args:
        inode: device and inode, as the first run found them.
        owner: the user id that the runner ran under; 0 may write to folders that are read-only.
    """
    try:
        status = os.stat(folder)
    except OSError:
        return {"path": folder, "same": False, "obstacle": "", "poison": []}
    found = [item["kind"] for item in poison.find(folder, "")]
    is_same = (status.st_dev, status.st_ino) == inode
    return {"path": folder, "same": is_same, "obstacle": _obstacle(folder, owner) if is_same else "", "poison": found}


def _obstacle(folder: str, owner: int) -> str:
    if mounted := mounts.at_or_below(folder):
        return f"a mount at {mounted[0]}"
    if shut := next(_folders_of_others(folder, owner), None):
        return f"another user's folder {shut}"
    return ""


def _folders_of_others(folder: str, owner: int) -> Iterator[str]:
    """Folders that this user can neither write to nor make so; one's own that is read-only, as the poison's is, can be opened."""
    for place in itertools.chain([folder], (entry.path for entry in folders.walk(Path(folder)))):
        try:
            status = os.lstat(place)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode) and owner not in (0, status.st_uid) and not status.st_mode & stat.S_IWOTH:
            yield place


def locks(living: Iterable[tuple[Identity, str]]) -> list[dict[str, str]]:
    """The file locks that these processes (each with its role) hold through a descriptor of theirs: who, which kind, on which file.

    A lock of flock(2) belongs to the open file and not to who asked for it, so a child holds it that has only inherited the descriptor.
    """
    found = []
    for identity, role in living:
        for kind, path in _locks_of(identity.pid):
            found.append({"subject": str(identity), "role": role, "kind": kind, "path": path})
    # Whatever was read of a pid that meanwhile belongs to another process is nobody's.
    return [one for one in found if process_table.sight(Identity.parse(one["subject"])).alive]


def _locks_of(pid: int) -> Iterator[tuple[str, str]]:
    """From the lines ``lock: 1: FLOCK ADVISORY WRITE 4711 …`` of /proc/PID/fdinfo, proc_pid_fdinfo(5)."""
    folder = f"/proc/{pid}/fdinfo"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return
    for number in numbers:
        try:
            held = [line.split() for line in Path(folder, number).read_text().splitlines() if line.startswith("lock:")]
            path = os.readlink(f"/proc/{pid}/fd/{number}") if held else ""
        except OSError:
            continue
        yield from ((words[2], path) for words in held if len(words) > 2)
