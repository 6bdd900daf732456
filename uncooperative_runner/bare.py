"""The barest daemon: no environment, no working folder of the run's, and, once it works, no descriptor at all.

Since it has no lifeline, it looks once a second whether the recorder is still there: the floor below it, beside its lifetime.
"""

from __future__ import annotations

import os
import time

from uncooperative_runner import wire
from uncooperative_runner.children import open_descriptors
from uncooperative_runner.notices import Unarmed, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from uncooperative_runner.member import Member

LOOK_EVERY_S = 1.0


def work_bare(member: Member, telling: int) -> NoReturn:
    """Prove that this process has nothing, say so, drop what was for saying so, and work."""
    member.work(lambda: [{"habit": member.role, "proof": _prove_bare(member, telling)}], then=lambda: _go_dark(member), listens=False)


def _prove_bare(member: Member, telling: int) -> str:
    """Close what needs not be open, and see that nothing else is there; in words.

    Raises:
        Unarmed: there is something.
    """
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    for_saying = {*member.descriptors, telling}
    left = [descriptor for descriptor in open_descriptors() if descriptor not in for_saying and kind_of(descriptor) != "closed"]
    environment = _environment()
    if environment or os.getcwd() != "/" or left:
        raise Unarmed(member.role, f"environment {environment!r}, working folder {os.getcwd()}, descriptors {left} open")
    place = f"group {os.getpgrp()}, session {os.getsid(0)}, parent {os.getppid()}"
    return f"environment empty, working folder /, no descriptor open but what says this, which is closed now; {place}"


def _environment() -> str:
    try:
        with open("/proc/self/environ", "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        # No /proc is mounted here. Python itself may have set this one, for itself and what it starts, PEP 538.
        return " ".join(sorted(set(os.environ) - {"LC_CTYPE"}))


def _go_dark(member: Member) -> None:
    member.let_go()
    if not member.is_by_hand:
        member.in_thread(lambda: _die_with_recorder(member))


def _die_with_recorder(member: Member) -> None:
    while member.is_heard():
        time.sleep(LOOK_EVERY_S)
    wire.die()
