"""The program below which an agent is started: whatever of the agent loses its parent becomes a child of this program, and not of init.

    python -I -S -X utf8 launcher.py

Its standard input is a socket to the recorder, its output is the agent's. One line of JSON says what to start (``argv``, ``cwd``,
``env``); a line answers with its ``pid``, or with why it could not be started (``error``, ``culprit``), and another one tells its
``status`` once it has ended (negative: by that signal). The agent stays unreaped, so that its pid is nobody else's; who is adopted is
waited for at once, as init would. At the socket's end, which is the recorder's word or its death, all that is left is ended.

Linux; standard library only, and little of it: each trial waits for its start.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINK = 0
END_WITHIN_S = 3.0
"""What outlives SIGKILL for so long may not be killed from here, or is stuck in the kernel; nobody waits for it any longer."""
END_EVERY_S = 0.002


def main() -> None:
    """Start the agent, keep its orphans, and tell of its end; until the recorder lets go."""
    bell = _deaf()
    if (asked := _asked()) is None:
        return
    try:
        _adopt_orphans()
        # What is not ignored has a handler here, which a new program does not inherit: the agent gets the dispositions that came here.
        agent = subprocess.Popen(asked["argv"], cwd=asked["cwd"], env=asked["env"], stdin=subprocess.DEVNULL, start_new_session=True)
    except (OSError, ValueError) as error:
        _tell(error=getattr(error, "strerror", None) or str(error), culprit=getattr(error, "filename", None))
        return
    _tell(pid=agent.pid)
    poller, has_told = select.poll(), False
    poller.register(LINK, select.POLLIN)
    poller.register(bell, select.POLLIN)
    while LINK not in dict(poller.poll()):
        os.read(bell, 4096)
        status = _reap_all_but(agent.pid)
        if status is not None and not has_told:
            _tell(status=status)
            has_told = True
    _end_all()
    os._exit(0)  # past the finaliser of what waited for the agent


def _deaf() -> int:
    """Be deaf to all that can be handled, and return the pipe that tells of each: of the deaths of children as well."""
    hears, rings = os.pipe()
    os.set_blocking(hears, False)
    os.set_blocking(rings, False)
    signal.set_wakeup_fd(rings, warn_on_full_buffer=False)
    # A handler and not SIG_IGN, which would be inherited; what is ignored already stays so, for the agent's sake.
    for number in {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return hears


def _asked() -> dict[str, Any] | None:
    """What to start; None where the recorder is gone before it has said it."""
    said = b""
    while not said.endswith(b"\n"):
        if not (data := os.read(LINK, 1 << 16)):
            return None
        said += data
    asked: dict[str, Any] = json.loads(said)
    return asked


def _adopt_orphans() -> None:
    """Before the agent starts, or its first orphan is missed, PR_SET_CHILD_SUBREAPER(2const)."""
    # An agent may stop its parent, too: the recorder's death lets it go on, PR_SET_PDEATHSIG(2const), and then it ends everything.
    for option, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, int(signal.SIGCONT))):
        if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"prctl({option}, {value})")


def _tell(**words: Any) -> None:
    try:
        os.write(LINK, json.dumps(words).encode() + b"\n")
    except OSError:
        return  # the recorder is gone, which the next look at the socket tells


def _reap_all_but(agent: int) -> int | None:
    """Wait for every child that is dead, but for the agent; return its status once it is dead."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if ended.si_pid == agent:
            break
        os.waitpid(ended.si_pid, 0)
    if ended is None:
        return None
    # As long as the agent lies there unreaped, the kernel tells of it and of nobody behind it: those are looked for by hand.
    for pid in _children():
        if pid != agent:
            os.waitpid(pid, os.WNOHANG)
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _children() -> Iterator[int]:
    """The pids of the children, dead or alive; none can be a stranger's while it is not waited for."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            listed = b"".join(iter(lambda: file.read(1 << 16), b""))
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        yield from _children_by_parent()
    else:
        yield from map(int, listed.split())


def _children_by_parent() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    parent = int(file.read().rpartition(b") ")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                yield int(name)


def _end_all() -> None:
    """Kill every child, and what comes here of its children, until nothing is left."""
    until_s = time.monotonic() + END_WITHIN_S
    while time.monotonic() < until_s:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                continue
        time.sleep(END_EVERY_S)


if __name__ == "__main__":
    main()
