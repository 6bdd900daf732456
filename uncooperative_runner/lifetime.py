"""A forgotten runner ends by itself: the cap on its lifetime, which holds even while it is stopped.

Timers are not inherited over fork(2): every process arms its own, to the same moment.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def arm_alarm(deadline_s: float) -> None:
    """End this process by SIGALRM at ``deadline_s`` (monotonic). At once to be had, but a stopped process would only die on waking."""
    # The first process of a PID namespace gets no signal from inside that it does not handle, pid_namespaces(7).
    signal.signal(signal.SIGALRM, _end if os.getpid() == 1 else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, _seconds_left(deadline_s))


def arm_kill(deadline_s: float) -> bool:
    """Replace the alarm by SIGKILL from a kernel timer, which ends a stopped process too; False where that cannot be (the alarm stays).

    Source: timer_create(2), sigevent(3type).
    """
    if os.getpid() == 1:
        return False
    try:
        import ctypes

        if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
            return False  # the layouts below are those of 64-bit Linux
        libc = ctypes.CDLL(None)
        if not hasattr(libc, "timer_create"):
            libc = ctypes.CDLL("librt.so.1")  # glibc before 2.34
    except (ImportError, OSError):
        return False
    event = (ctypes.c_int * 16)(0, 0, signal.SIGKILL, 0)  # struct sigevent: value (8 bytes), signo, notify = SIGEV_SIGNAL, padding
    timer = ctypes.c_void_p()
    if libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) != 0:
        return False
    left_s = _seconds_left(deadline_s)
    when = (ctypes.c_long * 4)(0, 0, int(left_s), int(left_s % 1 * 1e9))  # struct itimerspec: interval, value; seconds, nanoseconds
    if libc.timer_settime(timer, 0, ctypes.byref(when), None) != 0:
        return False
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True


def _end(*_: object) -> NoReturn:
    os._exit(128 + signal.SIGALRM)


def _seconds_left(deadline_s: float) -> float:
    return max(0.001, deadline_s - time.monotonic())  # 0 would disarm
