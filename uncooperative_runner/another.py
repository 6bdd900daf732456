"""Another process of the same run, started by exec: its command line, and being one.

Exec is what a fork cannot do: it can be done beside threads (posix_spawn), and it leaves nothing of what the first one had.
"""

from __future__ import annotations

import os
import select
import sys

from uncooperative_runner import lifetime
from uncooperative_runner.children import close_all_but
from uncooperative_runner.habits import SUCCESSOR, habit
from uncooperative_runner.member import REFUSED_STATUS, Member
from uncooperative_runner.notices import Unarmed, hold_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.options import MemberOptions, Options

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
ANSWERED_WITHIN_S = 5.0


def become(role: str, member: Member, telling: int) -> NoReturn:
    """Turn this process, which has no threads, into the one of that role: in / and with an empty environment.

    ``telling`` is the descriptor on which it tells a person what it does; -1 for none.

    Raises:
        OSError: it is still the old one.
    """
    if telling >= 0:
        os.set_inheritable(telling, True)
    # Of the two caps on the lifetime, this one outlives exec. It covers the time until the new program arms both, execve(2).
    lifetime.arm_alarm(member.options.deadline_s)
    os.chdir("/")
    os.execve(sys.executable, _command_line(role, member, telling=telling), {})


def start(role: str, member: Member, *, partner: int = -1, telling: int = -1) -> int:
    """Start a process of that role beside ours and our threads; its pid. Of our descriptors it is given ``telling`` alone.

    Raises:
        OSError: it could not be started.
    """
    if telling >= 0:
        os.set_inheritable(telling, True)
    null = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    words = _command_line(role, member, partner=partner, telling=telling)
    return os.posix_spawn(sys.executable, words, os.environ, file_actions=null)


def _command_line(role: str, member: Member, *, partner: int = -1, telling: int = -1) -> list[str]:
    options = member.options
    words = [sys.executable, "-I", "-S", RUNNER, "--member", role]
    for address in options.recorders:
        words += ["--recorder", address]
    words += ["--token", options.token] if options.recorders else []
    for name in options.plan.names:
        words += ["--habit", name]
    words += ["--attempt", member.attempt, "--folder", member.folder, "--until", repr(options.deadline_s)]
    words += ["--partner", str(partner)] if partner >= 0 else []
    return words + (["--tell", str(telling)] if telling >= 0 else [])


def prove_can_start(name: str) -> str:
    """See that the interpreter and the script are there to start; in words.

    Raises:
        Unarmed: one is not.
    """
    if not (sys.executable and os.access(sys.executable, os.X_OK) and os.access(RUNNER, os.R_OK)):
        raise Unarmed(name, f"{sys.executable or 'an unknown interpreter'} cannot be started with {RUNNER}")
    return f"can start {sys.executable} with {RUNNER}"


def start_successor(leader: Member) -> str:
    """Start a successor and wait until it has said hello and was answered (by hand: until it works); what came of it, in words."""
    reading, writing = os.pipe()
    try:
        pid = start(SUCCESSOR, leader, telling=writing)
    except OSError as error:
        return f"no successor could be started: {error}"
    os.close(writing)
    if leader.is_by_hand:
        from uncooperative_runner.by_hand import tell_of_child

        tell_of_child(reading)
        return f"its successor is {pid}; to end that one: kill -KILL {pid}"
    poller = select.poll()
    poller.register(reading, 0)  # nothing is ever sent: the end of it says so, poll(2)
    return f"its successor is {pid}" + ("" if poller.poll(int(ANSWERED_WITHIN_S * 1000)) else ", which was not answered")


def be_another(options: Options, told: MemberOptions) -> NoReturn:
    """Be the process that was started so, until the end. It is deaf, whatever its role."""
    hold_signals()
    close_all_but(0, 1, 2, told.tell)
    narrator: Narrator | None = None
    if not options.recorders:
        from uncooperative_runner.by_hand import TOKEN, Narrator

        options.token = TOKEN
        narrator = Narrator(told.tell, told.role)
        narrator.tell_pid()
    member = Member(told.role, options, habit("deaf"), narrator, told.folder)
    member.join(told.attempt)
    if options.recorders and told.tell >= 0:
        os.close(told.tell)  # who started us waits for this
    member.guarded(lambda: _work(member, told))
    os._exit(REFUSED_STATUS)


def _work(member: Member, told: MemberOptions) -> NoReturn:
    if told.role == SUCCESSOR:
        place = f"started by {os.getppid()}, group {os.getpgrp()}, session {os.getsid(0)}"
        member.work(lambda: [{"habit": SUCCESSOR, "proof": place}])
    if told.partner >= 0:
        from uncooperative_runner.respawner import Respawner

        respawner = Respawner(member, member.options.plan.partner_of(told.role))
        member.work(lambda: [respawner.hold(told.partner)], then=respawner.begin)
    from uncooperative_runner.bare import work_bare

    work_bare(member, told.tell)
