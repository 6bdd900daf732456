"""End a process group: tell it, wait for all of it, kill what is left of it, and see it gone.

Right for what stays in that group, and for nothing else: whoever calls setsid() has left it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

KILL_WITHIN_S = 1.0
LOOK_EVERY_S = 0.02


def end_group(leader: subprocess.Popen[bytes], grace_s: float) -> None:
    """End the group that the leader was started with; its exit status is in the leader afterwards.

    Raises:
        TimeoutError: something of it is alive though it was killed.
    """
    for number, within_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_WITHIN_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)
        if is_gone_within(leader, within_s):
            return
    raise TimeoutError(f"alive {KILL_WITHIN_S:g} s after SIGKILL: the group {leader.pid}")


def is_gone_within(leader: subprocess.Popen[bytes], within_s: float) -> bool:
    """Wait for the leader and for whatever else is in its group; there is no event for a group's end."""
    until = time.monotonic() + within_s
    while leader.poll() is None or has_processes(leader.pid):
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def has_processes(group: int) -> bool:
    """Whether anything is left in a group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
