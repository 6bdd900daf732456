"""The leader: looks for what an earlier run left, starts the children, prints, leaves poison, and is a member like the others.

All forks come before all threads (a fork beside threads can deadlock, and Python 3.12 warns of it).
"""

from __future__ import annotations

import os
import sys
import threading
import time

from uncooperative_runner import poison
from uncooperative_runner.member import REFUSED_STATUS, Member
from uncooperative_runner.notices import Unarmed, hold_signals, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.habits import Child
    from uncooperative_runner.options import Options

PRINT_EVERY_S = 0.05
LOOK_S = 0.2
FIRST_LINE_WITHIN_S = 0.5
ORPHANED_WITHIN_S = 10.0


def lead(options: Options) -> NoReturn:
    """Be the leader until the end."""
    hold_signals()
    closed = _fill_standard_descriptors()
    narrator: Narrator | None = None
    if not options.recorders:
        from uncooperative_runner.by_hand import TOKEN, Narrator

        options.token = TOKEN
        narrator = Narrator(2, "leader")
    plan = options.plan
    leader = Member("leader", options, plan.manner, plan.at_notice, narrator)
    order = leader.join(None, roles=["leader", *[row.role for row in plan.children]], **closed)
    leader.guarded(lambda: _go(leader, order, narrator))
    os._exit(REFUSED_STATUS)


def _go(leader: Member, order: str, narrator: Narrator | None) -> NoReturn:
    found = poison.find(leader.folder, leader.attempt)
    leader.say("found", looked=True, poison=found, session=poison.carried_session(sys.argv[1:], os.environ))
    if order == "look":
        _only_look(leader)
    pids = [_start_child(row, leader) for row in leader.options.plan.children]
    if narrator:
        _tell_how_to_end(narrator, [os.getpid(), *pids], leader.options.deadline_s)
    leader.work(lambda: _arm(leader))


def _only_look(leader: Member) -> NoReturn:
    """Nothing but the report: whoever asked wants to know what a run would find, and no run."""
    leader.say("working", armed=[])
    leader.in_thread(leader.listen)
    time.sleep(LOOK_S)
    leader.leave(0, "has looked")


def _fill_standard_descriptors() -> dict[str, str]:
    """Put the null device where 0, 1 or 2 is closed, lest a socket land there; what was closed, as facts of the hello."""
    closed = [descriptor for descriptor in (0, 1, 2) if kind_of(descriptor) == "closed"]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free
    return {fact: "closed" for descriptor, fact in ((0, "stdin"), (1, "stdout_kind")) if descriptor in closed}


def _tell_how_to_end(narrator: Narrator, pids: list[int], deadline_s: float) -> None:
    left_s = deadline_s - time.monotonic()
    narrator.say(f"to end it all: kill -KILL {' '.join(map(str, pids))}   (it ends by itself in {left_s:.0f} s)")


def _arm(leader: Member) -> list[dict[str, str]]:
    """Start printing, or show that nothing is printed; leave the poison. What is proven so."""
    plan = leader.options.plan
    if plan.is_silent:
        return [{"habit": "silent", "proof": "no thread prints; 0 lines written"}]
    session = poison.session_of(leader.options.token, leader.attempt) if plan.leaves_poison else ""
    first_line_out = threading.Event()
    leader.in_thread(lambda: _print_lines(session, first_line_out))
    if not plan.leaves_poison:
        return []
    why = poison.why_not_here(leader.folder)
    if why:
        leader.say("not-planted", why=why)
        return []
    try:
        planted = poison.plant(leader.folder, poison.marker_of(leader.options.token, leader.attempt))
    except OSError as error:
        raise Unarmed("poison", str(error)) from None
    leader.say("planted", poison=planted, session=session)
    printed = "printed" if first_line_out.wait(FIRST_LINE_WITHIN_S) else "not printed: standard output takes nothing"
    return [{"habit": "poison", "proof": f"{len(planted)} items read back; session id {printed}"}]


def _print_lines(session: str, first_line_out: threading.Event) -> None:
    """Print for ever, from a thread of its own: a full pipe holds up nothing else. Ends where nobody can ever read it."""
    line = f'{{"session_id": "{session}"}}\n' if session else ""
    for number in range(1, sys.maxsize):
        line = line or f"uncooperative runner {os.getpid()}: line {number}\n"
        try:
            os.write(1, line.encode("utf-8", "surrogateescape"))
            line = ""
            first_line_out.set()
        except BlockingIOError:
            pass  # the other side made the pipe non-blocking, and it is full: the same line again later
        except OSError:
            return
        time.sleep(PRINT_EVERY_S)


def _start_child(row: Child, leader: Member) -> int:
    """Fork a child, which lives its own life; its pid (by hand: the daemon's as well, otherwise the one that forked it)."""
    reading, writing = os.pipe() if leader.is_by_hand else (-1, -1)
    before = _Standing()
    pid = os.fork()
    if pid == 0:
        try:
            _be_child(row, leader, before, writing)
        finally:
            os._exit(REFUSED_STATUS)
    if row.placement == "daemon":
        os.waitpid(pid, 0)
    if leader.is_by_hand:
        from uncooperative_runner.by_hand import tell_of_child

        os.close(writing)
        pid = tell_of_child(reading) or pid
    return pid


class _Standing:
    """Where a process stands, to compare a child with its leader."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.group = os.getpgrp()
        self.session = os.getsid(0)
        output = os.fstat(1)
        self.output = (output.st_dev, output.st_ino)


def _be_child(row: Child, leader: Member, before: _Standing, telling: int) -> None:
    leader.let_go()
    if row.placement == "own session":
        os.setsid()
    elif row.placement == "daemon":
        _detach()
    _close_all_but(0, 1, 2, telling)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0,) if row.keeps_output else (0, 1, 2):
        os.dup2(null, descriptor)
    narrator: Narrator | None = None
    if telling >= 0:
        from uncooperative_runner.by_hand import Narrator

        os.write(telling, f"{os.getpid()}\n".encode())
        narrator = Narrator(telling, row.role)
    child = Member(row.role, leader.options, "deaf", "nothing", narrator)
    child.join(leader.attempt)

    def go() -> NoReturn:
        memory = bytearray(row.memory_bytes)
        memory[::4096] = b"\1" * len(memory[::4096])  # touched, or the kernel would give none
        child.work(lambda: [{"habit": row.role, "proof": _prove_place(row, before)}])

    child.guarded(go)


def _detach() -> None:
    """Fork again in a session of our own, and go on as the orphan: no leader of that session, no child of the leader."""
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    patience_s = time.monotonic() + ORPHANED_WITHIN_S
    while os.getppid() == middle and time.monotonic() < patience_s:
        time.sleep(0.0005)  # no event tells an orphan of its new parent, and the hello must name that one


def _close_all_but(*kept: int) -> None:
    """A pipe of the wrapper's that is held open is the habit of pipe-holder alone."""
    try:
        open_ones = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        open_ones = list(range(256))  # no /proc is mounted here
    for descriptor in open_ones:
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # not open; the one that listed the folder, say


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
        "own session": now.session == now.pid != before.session,
        "daemon": now.session not in (before.session, now.pid) and now.group != before.group and parent not in strangers,
    }
    where = f"group {now.group}, session {now.session}, parent {parent}; the leader {before.pid}: {before.group}, {before.session}"
    if not places[row.placement]:
        raise Unarmed(row.role, f"not in the place {row.placement!r}: {where}")
    if row.keeps_output and now.output != before.output:
        raise Unarmed(row.role, "does not hold the leader's standard output")
    held = f"; holds the leader's standard output, a {kind_of(1)}" if row.keeps_output else ""
    return f"{row.placement}: {where}{held}"
