"""What the kernel's process table says of a process: its identity, its state, and whether it is dying.

Reads ``/proc`` and nothing else, and judges nothing: *alive* and *dying* are the kernel's own marks, as proc(5) gives them.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_cancelcontract.escapes import escaped
from pytest_cancelcontract.identity import Identity
from uncooperative_runner.notices import SIGNALS

PF_EXITING = 0x4
"""The kernel's mark of a task in ``do_exit`` (include/linux/sched.h), field 9 of ``/proc/PID/stat``."""
SIGKILL_BIT = 1 << 8
_DEAD_STATES = "ZXx"


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of ``/proc/PID/stat``, as far as it is used."""

    identity: Identity
    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    flags: int

    @property
    def is_exiting(self) -> bool:
        """The process runs no program text any more."""
        return bool(self.flags & PF_EXITING)


@dataclass(frozen=True, slots=True)
class Sight:
    """How one process stood when it was looked at; the shape in which it goes into the history.

    ``alive`` is None where the process table could not be read: that is neither dead nor alive.
    """

    subject: str
    role: str
    attempt: str
    state: str
    alive: bool | None
    dying: bool
    zombie: bool
    ppid: int = 0
    parent: str = ""
    pgid: int = 0
    sid: int = 0
    threads_alive: int = 0
    can_read: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The sight as JSON-shaped data."""
        return asdict(self)

    @property
    def is_running(self) -> bool:
        """Alive, and not on its way out."""
        return bool(self.alive) and not self.dying


def parse_stat(text: str) -> Stat:
    """Read the text of a ``/proc/PID/stat`` file; the command's name may hold spaces and parentheses."""
    pid, _, rest = text.partition(" (")
    comm, _, fields = rest.rpartition(") ")
    words = fields.split()
    # A name may be anything, a new line or a terminal's command included.
    return Stat(Identity(int(pid), int(words[19])), escaped(comm), words[0], int(words[1]), int(words[2]), int(words[3]), int(words[6]))


def read_stat(pid: int) -> Stat | None:
    """The process of that pid as it is now, or None where there is none.

    Raises:
        PermissionError: the process table hides it (``hidepid``).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return parse_stat(file.read().decode("utf-8", "replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def waited_s(pid: int) -> float:
    """How long the threads of a process have waited for a processor, in sum; 0 where the kernel does not tell.

    Source: the second field of /proc/PID/task/TID/schedstat, in nanoseconds (scheduler statistics, kernel documentation).
    """
    total_ns = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                total_ns += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return total_ns / 1e9


def identity_of(pid: int) -> Identity | None:
    """The identity of the process that has this pid now, or None."""
    stat = read_stat(pid)
    return stat.identity if stat else None


def own_pid(pid: int) -> int:
    """The pid by which a process knows itself, which is another one in a PID namespace: the last of ``NSpid``, proc_pid_status(5)."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            line = next((line for line in file.read().split(b"\n") if line.startswith(b"NSpid:")), b"")
            return int(line.split()[-1]) if line else pid
    except (OSError, ValueError):
        return pid


def all_processes() -> dict[int, Stat]:
    """Every process that can be seen, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = read_stat(int(name))
            except OSError:
                continue
            if stat is not None:
                found[stat.identity.pid] = stat
    return found


def carries(pid: int, name: str, value: str) -> bool:
    """Whether a process was started with this variable in its environment; one that may not be read counts as not."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return f"{name}={value}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def is_below(pid: int, above: Identity) -> bool:
    """Whether a process is this one, descends from it, or lives in the session that it leads, as far as parents still stand."""
    return any(stat.identity == above or stat.sid == above.pid for stat in line_of(pid))


def line_of(pid: int, table: Mapping[int, Stat] | None = None) -> Iterator[Stat]:
    """A process, its parent, and so on upwards, each read as it is now; or all as they stand in one reading of the table."""
    read = read_stat if table is None else table.get
    seen: set[int] = set()  # a table is not read in one moment: a number that was given anew meanwhile could close a ring
    while pid not in seen and (stat := read(pid)) is not None:
        seen.add(pid)
        yield stat
        pid = stat.ppid


def open_pidfd(identity: Identity) -> int | None:
    """A pidfd of exactly this process, or None if it is gone; the identity is checked after the descriptor is held."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    try:
        if identity_of(identity.pid) == identity:
            return pidfd
    except OSError:
        pass
    os.close(pidfd)
    return None


def sight(identity: Identity, role: str = "", attempt: str = "") -> Sight:
    """Look at one process now. A pid that somebody else has by now counts as gone."""
    subject = str(identity)
    try:
        stat = read_stat(identity.pid)
        if stat is None or stat.identity != identity:
            return Sight(subject, role, attempt, "gone", alive=False, dying=False, zombie=False)
        living = _living_threads(identity.pid)
        # Only what every living thread is on its way to is what the process is on its way to: a leader's main thread may be
        # gone while another works on, and a killed process may be a zombie whose last thread still gives its memory back.
        dying = all(thread.is_exiting for thread in living) or _kill_is_pending(identity.pid)
        parent = identity_of(stat.ppid) if stat.ppid else None
    except OSError:
        return Sight(subject, role, attempt, "?", alive=None, dying=False, zombie=False, can_read=False)
    return Sight(
        subject,
        role,
        attempt,
        stat.state,
        alive=bool(living),
        dying=dying,
        zombie=stat.state in _DEAD_STATES,
        ppid=stat.ppid,
        parent=str(parent) if parent else "",
        pgid=stat.pgid,
        sid=stat.sid,
        threads_alive=len(living),
    )


def standing(seen: Sight, once: Stat | None) -> dict[str, Any]:
    """A process's parent, group and session; of one that is gone as it stood once, and nothing where that is not known."""
    if seen.ppid or seen.sid:
        return {"ppid": seen.ppid, "parent": seen.parent, "pgid": seen.pgid, "sid": seen.sid}
    return {} if once is None else {"ppid": once.ppid, "pgid": once.pgid, "sid": once.sid}


def _living_threads(pid: int) -> list[Stat]:
    living = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/stat", "rb", buffering=0) as file:
                    stat = parse_stat(file.read().decode("utf-8", "replace"))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if stat.state not in _DEAD_STATES:
                living.append(stat)
    except (FileNotFoundError, ProcessLookupError):
        return []
    return living


def is_stopped(identity: Identity) -> bool:
    """Whether every living thread of the process is stopped."""
    if identity_of(identity.pid) != identity:
        return False
    living = _living_threads(identity.pid)
    return bool(living) and all(thread.state in "Tt" for thread in living)


def pending_notices(pid: int) -> frozenset[str]:
    """Which of the notice signals wait for the process as a whole, by name; none where it is gone."""
    pending = _pending(pid) or 0
    return frozenset(number.name for number in SIGNALS if pending & (1 << (number - 1)))


def input_has_ended(pid: int) -> bool:
    """Whether the standard input of the process is a pipe that nobody can write into any more; False for all other inputs.

    Opening it anew (proc(5), ``fd``) makes this process a reader for a moment, which takes nothing out of it.
    """
    path = f"/proc/{pid}/fd/0"
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        poller = select.poll()
        poller.register(descriptor, 0)
        return bool(poller.poll(0))
    finally:
        os.close(descriptor)


def _kill_is_pending(pid: int) -> bool:
    """Whether SIGKILL waits for the process: it will run no program text any more.

    The signal stays in the shared set (``ShdPnd``) until the process is gone, also after a thread has begun to act on it.
    """
    pending = _pending(pid)
    return pending is None or bool(pending & SIGKILL_BIT)


def _pending(pid: int) -> int | None:
    """The signals that wait for the process, or for its main thread, as bits; None where it is gone."""
    bits = 0
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            for line in file.read().split(b"\n"):
                if line.startswith((b"SigPnd:", b"ShdPnd:")):
                    bits |= int(line.split()[1], 16)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return bits
