"""Places in which a wrapper may put a runner, and which hide it from whoever looks in the usual ways.

Each says how to get there, by a command line, and how a process that is there is told from one that is not.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h11

import uncooperative_runner
from tests.recorder import hidden_table

NOBODY = 65534
RUNNER = str(Path(uncooperative_runner.__file__).with_name("run.py"))
PROBED_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """``way`` goes before the runner's command line; ``{root}`` in it is the folder of all drills, ``{own}`` one outside of it.

    ``is_there`` tells of a process of the runner, by its pid, whether it got there.
    """

    name: str
    way: tuple[str, ...]
    is_there: Callable[[int], bool]

    def way_from(self, root: Path, own: Path) -> list[str]:
        """What goes before the runner's command line."""
        return [word.replace("{root}", str(root)).replace("{own}", str(own)) for word in self.way]


NEEDS_OF_RUNNER = f"import socket; open({RUNNER!r})"
PATH_OF_RECORDER = [str(Path(RUNNER).parents[1]), str(Path(h11.__file__).parents[1])]
"""Where it and what it needs lie, for an interpreter that is not the tests' own."""
NEEDS_OF_RECORDER = f"import sys; sys.path[:0] = {PATH_OF_RECORDER!r}; import pytest_cancelcontract.recorder.server"


@functools.cache
def why_not(place: Place, needs: str = NEEDS_OF_RUNNER) -> str:
    """What this machine says when a program with these needs is sent there; nothing where that works."""
    asks = (sys.executable, "-c", needs)
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as own:
        Path(root).chmod(0o755)
        command = [*place.way_from(Path(root), Path(own)), *asks]
        try:
            ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=PROBED_WITHIN_S)
        except OSError as error:
            return f"this machine allows no {place.name}: {error}"
    said = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
    return f"this machine allows no {place.name}: {said}" if ran.returncode else ""


def is_apart(pid: int, *kinds: str) -> bool:
    """Whether a process lives in other namespaces than this one."""
    theirs, ours = Path(f"/proc/{pid}/ns"), Path("/proc/self/ns")
    return all((theirs / kind).readlink() != (ours / kind).readlink() for kind in kinds)


def innermost_pid(pid: int) -> int:
    """The pid of a process in the innermost PID namespace that it is in."""
    return int(hidden_table.status(pid, "NSpid").split()[-1])


def _has_no_folder(pid: int) -> bool:
    """Whether the socket that its command line names is not where it lives; the abstract one must have been taken."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    path = next(word.removeprefix("unix:") for word in words if word.startswith("unix:"))
    return Path(path).exists() and not Path(f"/proc/{pid}/root{path}").exists()


def _has_nothing(pid: int) -> bool:
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    filled = {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (0, 1, 2)}
    return environment == b"" and filled == {Path(os.devnull)}  # what is closed is filled by the runner itself


def _is_nobody(pid: int) -> bool:
    return set(hidden_table.status(pid, "Uid").split()) == {str(NOBODY)}


# Whoever is not root makes its namespaces below one in which it is.
UNSHARE = ("unshare",) if os.geteuid() == 0 else ("unshare", "--map-root-user")
SECOND = ("sh", "-c", '"$@"; exit $?', "sh")
"""The shell is the first process of its PID namespace, and the runner the second."""
LOSES_FOLDER = ("sh", "-c", 'cd "$2" && mount -t tmpfs none "$1" && shift 2 && exec "$@"', "sh", "{root}", "{own}")
MOVES_WORKSPACE = (
    "sh",
    "-c",
    'mount --bind . "$2" && cd "$2" && mount -t tmpfs none "$1" && shift 2 && exec "$@"',
    "sh",
    "{root}",
    "{own}",
)
LIVES_AS_NOBODY = f"""
import os, sys
os.chown(".", {NOBODY}, {NOBODY})
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
# An interpreter that lies in somebody's home is nobody's.
python = next(path for path in (sys.argv[1], "/usr/bin/python3", sys.argv[1]) if os.access(path, os.X_OK))
os.execv(python, [python, *sys.argv[2:]])
"""
CLOSES_ALL = ("sh", "-c", 'exec env -i "$@" <&- >&- 2>&-', "sh")

PLAIN = Place("plain sight", (), lambda pid: not is_apart(pid, "pid") and not is_apart(pid, "mnt"))
FIRST_OF_ALL = Place("PID namespace, as its first process", (*UNSHARE, "--pid", "--fork"), lambda pid: is_apart(pid, "pid"))
FIRST_WITH_PROC = Place(
    "PID namespace with a /proc of its own, as its first process",
    (*UNSHARE, "--pid", "--fork", "--mount-proc"),
    lambda pid: is_apart(pid, "pid", "mnt"),
)
OTHER_USER = Place("other user", (sys.executable, "-I", "-S", "-c", LIVES_AS_NOBODY), _is_nobody)
PLACES = (
    PLAIN,
    FIRST_OF_ALL,
    Place("PID namespace", (*UNSHARE, "--pid", "--fork", *SECOND), lambda pid: is_apart(pid, "pid") and innermost_pid(pid) > 1),
    FIRST_WITH_PROC,
    Place(
        "PID namespace with a /proc of its own",
        (*UNSHARE, "--pid", "--fork", "--mount-proc", *SECOND),
        lambda pid: is_apart(pid, "pid", "mnt") and innermost_pid(pid) > 1,
    ),
    Place("mount namespace without the drills' folder", (*UNSHARE, "--mount", *LOSES_FOLDER), _has_no_folder),
    Place(
        "PID and mount namespace without the drills' folder",
        (*UNSHARE, "--pid", "--fork", "--mount-proc", *LOSES_FOLDER),
        lambda pid: is_apart(pid, "pid") and _has_no_folder(pid),
    ),
    Place("user namespace", ("unshare", "--user"), lambda pid: is_apart(pid, "user")),
    Place("time namespace", (*UNSHARE, "--time", "--monotonic", "-60", "--fork"), lambda pid: is_apart(pid, "time")),
    Place("network namespace", (*UNSHARE, "--net"), lambda pid: is_apart(pid, "net")),
    OTHER_USER,
    Place("empty environment with all descriptors closed", CLOSES_ALL, _has_nothing),
)
UNREACHABLE = Place(
    "mount and network namespace without the drills' folder",
    (*UNSHARE, "--mount", "--net", *LOSES_FOLDER),
    lambda pid: is_apart(pid, "mnt", "net"),
)
OTHER_WORKSPACE = Place(
    "mount namespace with another folder in the workspace's place",
    (*UNSHARE, "--mount", "sh", "-c", 'mount -t tmpfs none . && cd "$(pwd)" && exec "$@"', "sh"),
    lambda pid: is_apart(pid, "mnt"),
)
MOVED_WORKSPACE = Place(
    "mount namespace with the workspace in another place", (*UNSHARE, "--mount", *MOVES_WORKSPACE), lambda pid: is_apart(pid, "mnt")
)
