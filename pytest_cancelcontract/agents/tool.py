"""The command that an agent is told to run: it appends a marked line to a file in the workspace, again and again.

As a module: the shell commands that run it, a placement each. Run by file path it is the program itself, ``python -I -S .../tool.py
WORKSPACE MARK SECONDS``, which ends by itself after so long, or once its folder is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

NAME = "agent-tool"
"""What the process table calls it."""
WRITES_EVERY_S = 0.1
PLACEMENTS: dict[str, str] = {
    "": "{tool}; echo 'The command has ended.'",
    "nohup": "nohup {tool} >/dev/null 2>&1 & wait",
    "setsid": "setsid {tool} >/dev/null 2>&1 & wait",
    "daemon": "(setsid {tool} >/dev/null 2>&1 &); tail -f /dev/null",
}
"""How a shell runs it: in its foreground; in the background, deaf to HUP; in a session of its own; and there with no parent left. The
shell itself goes on in all of them, so that the agent still waits for its tool, and what is killed with the shell need not be the tool:
a command that stood alone would take the shell's place."""


def command(workspace: Path, mark: str, lifetime_s: float) -> str:
    """The program's own command line, for a shell."""
    import shlex

    words = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(workspace), mark, f"{lifetime_s:g}"]
    return shlex.join(words)


def placed(placement: str, command: str) -> str:
    """The shell command that runs it in one of the :data:`PLACEMENTS`."""
    return PLACEMENTS[placement].format(tool=command)


def main(folder: str, mark: str, lifetime_s: float) -> None:
    """Write until the time is up or the folder is gone."""
    # At the end: nothing that lies beside the packages may stand in for a module of the standard library.
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from uncooperative_runner.worklog import WorkLog

    _take_name()
    log, until = WorkLog(folder, "tool"), time.monotonic() + lifetime_s
    while time.monotonic() < until and os.path.isdir(folder):  # noqa: PTH112 - many times a second
        log.write(mark)
        time.sleep(WRITES_EVERY_S)


def _take_name() -> None:
    with contextlib.suppress(OSError):  # only people read it
        Path("/proc/self/comm").write_text(NAME)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
