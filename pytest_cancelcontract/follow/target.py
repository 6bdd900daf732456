"""Which run is followed: a process that is there, one that is found by its command line, or a command that is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.process_table import Stat, line_of


class NoTarget(ValueError):
    """There is no such run to follow, or it cannot be told which; the message says why."""


def by_pid(pid: int) -> Identity:
    """The process of that pid.

    Raises:
        NoTarget: there is none, or it is this process or one that this one descends from.
    """
    try:
        identity = process_table.identity_of(pid)
    except OSError:
        raise NoTarget(f"pid {pid} cannot be read: the process table is hidden from this user") from None
    if identity is None:
        raise NoTarget(f"there is no process with pid {pid}")
    if pid in _own_line():
        raise NoTarget(f"pid {pid} is this command, or something above it: what is followed must not hold who follows it")
    return identity


def by_words(words: str) -> Identity | None:
    """The one process in whose command line these words stand, and that no other such process is above; None where there is none.

    Raises:
        NoTarget: there are several.
    """
    matching = dict(matches(words))
    table = process_table.all_processes()
    found = [pid for pid in matching if not any(above.identity.pid in matching for above in islice(line_of(pid, table), 1, None))]
    if len(found) > 1:
        shown = "; ".join(f"pid {pid}: {matching[pid][:80]}" for pid in found[:5])
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise NoTarget(f"{len(found)} processes match {words!r}, choose one with --pid: {shown}{more}")
    return process_table.identity_of(found[0]) if found else None


def matches(words: str) -> Iterator[tuple[int, str]]:
    """Each process whose command line holds the words, with that line; none of this one's own line."""
    own = _own_line()
    for pid in process_table.all_processes():
        line = _command_line(pid)
        if words in line and pid not in own:
            yield pid, line


def at_work_in(folder: str) -> dict[int, str]:
    """The processes whose working folder is this one or lies in it, by pid with their name; a hint, and no proof of anything."""
    found, own = {}, _own_line()
    for pid, stat in process_table.all_processes().items():
        try:
            place = str(Path(f"/proc/{pid}/cwd").readlink())
        except OSError:  # another user's, or gone
            continue
        if pid not in own and (place == folder or place.startswith(f"{folder.rstrip('/')}/")):
            found[pid] = stat.comm
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").strip("\0").replace("\0", " ")
    except OSError:
        return ""


def apart(table: Mapping[int, Stat], shared: int | None) -> dict[int, Stat]:
    """The table with the processes of a session that the run shares with strangers each in one of its own.

    A run that was not started in a session of its own lives in a login's, say, with the shell that started it: there, who is of the run
    is known by descent alone.
    """
    return {pid: replace(stat, sid=-pid) if stat.sid == shared else stat for pid, stat in table.items()}


def _own_line() -> set[int]:
    return {stat.identity.pid for stat in line_of(os.getpid())}
