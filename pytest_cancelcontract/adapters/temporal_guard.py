"""Run a program that ends with the process which asked for it, whatever ends that one.

    python temporal_guard.py PARENT_PID PROGRAM…

Ends the program when its own input ends (the parent says so, or is gone), when the parent is gone (another child of it may hold the
pipe open), and the kernel ends the program when this guard is killed. Standard library only, run by file path; it knows nothing of
what it runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
LOOK_EVERY_MS = 200
"""How often the parent is looked at where the system has no pidfd."""


def _die_with_guard() -> None:
    """In the child, before exec; this process has one thread, and it is that thread's end that counts (PR_SET_PDEATHSIG(2const))."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    """Start it, wait for an end, and end it; its status."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    # A Ctrl-C is for the parent, which then says what is to become of the program.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        try:
            poll.register(os.pidfd_open(parent), select.POLLIN)
        except ProcessLookupError:
            return 1
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_guard)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(program.pid), select.POLLIN)
    # After the pidfd of the parent: a pid that was reused before it was held is not our parent's.
    while os.getppid() == parent and program.poll() is None:
        if poll.poll(None if hasattr(os, "pidfd_open") else LOOK_EVERY_MS):
            break
    # Nothing of it is kept, so there is nothing to be polite for.
    program.kill()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main())
