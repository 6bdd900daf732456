"""A process whose main thread has ended while another one works on: a zombie to whoever looks only at the process's first thread."""

from __future__ import annotations

import os
import time

from uncooperative_runner.notices import Unarmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from uncooperative_runner.member import Member

HABIT = "main-thread-gone"
GONE_WITHIN_S = 10.0
_EXIT_CALLS = {"x86_64": 60, "aarch64": 93, "riscv64": 93}
"""The number of exit(2), which ends one thread and not the process; the C library's ``exit`` and ``_exit`` end them all."""


def end_main_thread(member: Member, go_on: Callable[[], None]) -> NoReturn:
    """End the thread that calls this, which must be the main one; ``go_on`` is run in another.

    Raises:
        Unarmed: that cannot be done on this machine.
    """
    if os.getpid() == 1:
        raise Unarmed(HABIT, "its lifetime could not be capped as the first process of a PID namespace: the cap there needs this thread")
    import ctypes

    number = _EXIT_CALLS.get(os.uname().machine)
    if os.uname().sysname != "Linux" or number is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise Unarmed(HABIT, f"the number of exit(2) on {os.uname().sysname} {os.uname().machine} is not known here")
    end_thread = ctypes.CDLL(None).syscall  # looked up while nothing else runs; it gives up the interpreter's lock and never comes back
    member.in_thread(go_on)
    end_thread(ctypes.c_long(number), ctypes.c_long(0))
    raise Unarmed(HABIT, "exit(2) came back")


def prove_main_thread_gone() -> str:
    """See the process's first thread as a zombie, from another one; in words.

    Raises:
        Unarmed: it is not.
    """
    until_s = time.monotonic() + GONE_WITHIN_S
    while True:
        try:
            with open("/proc/self/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError as error:
            raise Unarmed(HABIT, f"the process table cannot be read: {error}") from None
        if state == "Z":
            return "its first thread is a zombie, and this is another one"
        if time.monotonic() > until_s:
            raise Unarmed(HABIT, f"its first thread is in state {state}")
        time.sleep(0.001)  # no event tells of the end of a thread
