"""The leader's children: forked, each put in its place, each proving that it stands there. They live their own lives."""

from __future__ import annotations

import os
import time

from uncooperative_runner.habits import habit
from uncooperative_runner.member import REFUSED_STATUS, Member
from uncooperative_runner.notices import Unarmed, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.habits import Child
    from uncooperative_runner.lock import Lock
    from uncooperative_runner.member import Arming

ORPHANED_WITHIN_S = 10.0


def start_child(row: Child, leader: Member, lock: Lock | None) -> list[int]:
    """Fork a child; its pid (by hand: the daemon's as well, and the partner's; otherwise of a daemon the one that forked it).

    ``lock`` is the leader's, for a child that keeps it.
    """
    reading, writing = os.pipe() if leader.is_by_hand else (-1, -1)
    before = _Standing()
    pid = os.fork()
    if pid == 0:
        try:
            _be_child(row, leader, before, writing, lock if row.keeps_lock else None)
        finally:
            os._exit(REFUSED_STATUS)
    if row.placement == "daemon":
        os.waitpid(pid, 0)
    if leader.is_by_hand:
        from uncooperative_runner.by_hand import tell_of_child

        os.close(writing)
        return tell_of_child(reading) or [pid]
    return [pid]


class _Standing:
    """Where a process stands, to compare a child with its leader."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.group = os.getpgrp()
        self.session = os.getsid(0)
        self.outputs = [(status.st_dev, status.st_ino) for status in (os.fstat(1), os.fstat(2))]


def _be_child(row: Child, leader: Member, before: _Standing, telling: int, lock: Lock | None) -> None:
    leader.let_go()
    _take_place(row)
    close_all_but(0, 1, 2, telling, *(lock_files() if lock else ()))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0,) if row.keeps_output else (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    trouble = _become_bare(row, leader, before, telling) if row.is_bare else None
    narrator: Narrator | None = None
    if telling >= 0:
        from uncooperative_runner.by_hand import Narrator

        narrator = Narrator(telling, row.role)
        narrator.tell_pid()
    child = Member(row.role, leader.options, habit(row.manner), narrator)
    child.join(leader.attempt)
    child.guarded(lambda: _work(row, child, trouble, lambda: _arm(row, child, before, lock), telling))


def _take_place(row: Child) -> None:
    if row.placement == "own group":
        os.setpgid(0, 0)
    elif row.placement == "own session":
        os.setsid()
    elif row.placement == "daemon":
        _detach()


def _detach() -> None:
    """Fork again in a session of our own, and go on as the orphan: no leader of that session, no child of the leader."""
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    patience_s = time.monotonic() + ORPHANED_WITHIN_S
    while os.getppid() == middle and time.monotonic() < patience_s:
        time.sleep(0.0005)  # no event tells an orphan of its new parent, and the hello must name that one


def _become_bare(row: Child, leader: Member, before: _Standing, telling: int) -> Unarmed:
    """Become another process, without environment, by exec; comes back only where that fails, with the reason."""
    from uncooperative_runner.another import become

    try:
        _prove_place(row, before)
        become(row.role, leader, telling)
    except OSError as error:
        return Unarmed(row.role, f"cannot be started by exec: {error}")
    except Unarmed as error:
        return error


def _work(row: Child, child: Member, trouble: Unarmed | None, arm: Arming, telling: int) -> NoReturn:
    if trouble:
        raise trouble
    memory = bytearray(row.memory_bytes)
    memory[::4096] = b"\1" * len(memory[::4096])  # touched, or the kernel would give none
    if not row.partner:
        child.work(arm)
    from uncooperative_runner.respawner import Respawner

    respawner = Respawner(child, row.partner)
    child.work(lambda: [*arm(), respawner.start(telling)], then=respawner.begin)


def _arm(row: Child, child: Member, before: _Standing, lock: Lock | None) -> list[dict[str, str]]:
    held = f"; {lock.prove()}" if lock else ""
    place = {"habit": row.role, "proof": _prove_place(row, before) + held}
    if not row.is_worker:
        return [place]
    from uncooperative_runner.display import show
    from uncooperative_runner.spend import begin

    return [place, *show(child), *begin(child)]


def close_all_but(*kept: int) -> None:
    """A pipe of the wrapper's that is held open is the habit of pipe-holder alone."""
    for descriptor in open_descriptors():
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # not open; the one that listed the folder, say


def lock_files() -> list[int]:
    """The files beyond standard input and output: a lock of the wrapper's may be among them, as one that it passed on."""
    return [descriptor for descriptor in open_descriptors() if descriptor > 2 and kind_of(descriptor) == "file"]


def open_descriptors() -> list[int]:
    """Those of this process, and the one that lists the folder, which is closed by then; all that there may be where none is to be had."""
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return list(range(256))  # no /proc is mounted here


def _prove_place(row: Child, before: _Standing) -> str:
    """Check that the child stands where the row says, in words.

    Raises:
        Unarmed: it does not.
    """
    now = _Standing()
    parent = os.getppid()
    # In a PID namespace the leader may be the one that all orphans are given to.
    strangers = (before.pid, now.session) if before.pid != 1 else (now.session,)
    places = {
        "same group": (now.group, now.session) == (before.group, before.session),
        "own group": now.group == now.pid and now.session == before.session,
        "own session": now.session == now.pid != before.session,
        "daemon": now.session not in (before.session, now.pid) and now.group != before.group and parent not in strangers,
    }
    where = f"group {now.group}, session {now.session}, parent {parent}; the leader {before.pid}: {before.group}, {before.session}"
    if not places[row.placement]:
        raise Unarmed(row.role, f"not in the place {row.placement!r}: {where}")
    if row.keeps_output and now.outputs != before.outputs:
        raise Unarmed(row.role, "does not hold the leader's standard output and standard error")
    held = f"; holds the leader's standard output, a {kind_of(1)}, and standard error" if row.keeps_output else ""
    return f"{row.placement}: {where}{held}"
