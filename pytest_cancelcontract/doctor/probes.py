"""What the kernel and its settings let this user see: a row for each thing that a witness rests on, tried and not assumed.

Each probe says what is so, what that means for the verdicts, and what to do where it is not all that could be.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import holders, process_table, workspace
from pytest_cancelcontract.recorder.client import why_no_drills_here
from pytest_cancelcontract.recorder.clock import Clock
from pytest_cancelcontract.recorder.lifeline import SO_PEERPIDFD

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the machine's own PID namespace (include/linux/proc_ns.h); every other one has another."""
LATE_S = 0.05
"""The recorder's tolerance for a look (docs/history.md): a machine that is later than that decides verdicts."""
TICK_WITHIN_S = 0.1
PROBE_WITHIN_S = 2.0


class Sight(StrEnum):
    """How much of a thing can be seen here."""

    ALL = "yes"
    PART = "in part"
    NONE = "no"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was tried: what was seen, what it means for the verdicts, and what to do (empty where nothing is)."""

    name: str
    sight: Sight
    seen: str
    means: str
    do: str = ""


def rows() -> list[Row]:
    """Every probe, in the order in which they are told; the first alone where no drill can be run, since all others are about drills.

    The machine's lateness is measured beside all others, and so comes last.
    """
    first = pidfd()
    if first.sight is Sight.NONE:
        return [first]
    clock = Clock()
    return [first, *(probe() for probe in PROBES), lateness(clock)]


def pidfd() -> Row:
    """Processes can be held by descriptor."""
    if lacks := why_no_drills_here():
        return Row("pidfd", Sight.NONE, lacks, "no drill can be run here", "run the drills on Linux 5.3 or newer, with /proc")
    try:
        descriptor = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(descriptor, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        return Row(
            "pidfd",
            Sight.NONE,
            f"the kernel, or a filter before it, refuses them: {error.strerror}",
            "no death can be proven, so no drill can be run here",
            "allow pidfd_open and pidfd_send_signal in the container's seccomp profile",
        )
    return Row("pidfd", Sight.ALL, "a process is held by descriptor", "a death is seen as it happens, and no signal reaches a stranger")


def peer_pidfd() -> Row:
    """The kernel names the process at the other end of a socket by descriptor."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(ours.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
        except OSError:
            return Row(
                "peer pidfd",
                Sight.PART,
                "not known to this kernel: the pid of the connection is looked up instead",
                "a runner process that ends within a moment of its hello may not be held, and its drill is run again",
                "use Linux 6.5 or newer",
            )
    return Row(
        "peer pidfd", Sight.ALL, "whoever says hello is held through its connection", "also a runner in a container or a sandbox is held"
    )


def all_processes() -> Row:
    """The process table shows the processes of all users."""
    means = "whatever comes of a run is found, whichever user it becomes"
    if hidden := _hidden_by():
        return Row(
            "process table",
            Sight.PART,
            f"processes of other users are hidden ({hidden})",
            "a run that changes its user is neither dead nor alive to the recorder: its verdicts are inconclusive",
            "let the user who runs the drills read all of /proc: mount it with gid=, or without hidepid",
        )
    count = len(process_table.all_processes())
    return Row("process table", Sight.ALL, f"all {count} processes are shown", means)


def _hidden_by() -> str:
    """The option by which /proc hides others, or that the first process cannot be read; empty where nothing is hidden."""
    try:
        can_read = process_table.read_stat(1) is not None
    except OSError:
        can_read = False
    if can_read:
        return ""
    options = ""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, given, *_ = line.split()
        if (place, kind) == ("/proc", "proc"):
            options = given  # of several, one on the other, the last is the one that is seen
    return next((one for one in options.split(",") if one.startswith("hidepid")), "process 1 cannot be read")


def descriptors() -> Row:
    """Who holds a file can be told: a child holds one, and is found to, and nobody else is."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "held"))
        with _holding(path) as holder:
            entries = workspace.look(folder).entries
            held = holders.held_in(entries, [holder])
            others = holders.others_hold(entries, [path], [str(holder)])[path]
    if path not in held.by_path:
        return Row(
            "open files",
            Sight.NONE,
            "what a process of this user's own has open may not be read",
            "a late write by a process that keeps a file open or mapped is not proven: no-late-writes may be inconclusive",
            "allow it in the container's seccomp profile or security module (ptrace read access)",
        )
    if others is None:
        return Row(
            "open files",
            Sight.PART,
            "read of this user's own processes, and not of all others",
            "where a file changes that the run holds, whether somebody else holds it too is not known: no-late-writes may be inconclusive",
            "run the drills in a PID namespace without strangers, or as a user who may read all processes",
        )
    return Row("open files", Sight.ALL, "read of every process", "who held a file that changed is known")


@contextlib.contextmanager
def _holding(path: str) -> Iterator[Identity]:
    """A child that holds a file open for writing."""
    code = "import sys; file = open(sys.argv[1], 'w'); print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-I", "-S", "-c", code, path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        identity = process_table.identity_of(child.pid)
        assert identity is not None  # it waits for the end of its input
        yield identity


def change_times() -> Row:
    """How finely the file system of the drills tells when a file was changed."""
    place = tempfile.gettempdir()
    try:
        stamped = workspace.stamp(place)
        tick_s = 0.0 if stamped.is_fine else _tick_s(place)
    except OSError as error:
        return Row(
            "change times",
            Sight.NONE,
            f"no file can be made in {place}: {error.strerror}",
            "no drill can be run: its folder lies there",
            "set TMPDIR to a folder that can be written to",
        )
    if stamped.is_fine:
        return Row(
            "change times", Sight.ALL, f"every touch in {place} has a time of its own", "a write after the handover is told from one before"
        )
    return Row(
        "change times",
        Sight.PART,
        f"they tick about every {tick_s * 1000:.0f} ms in {place}",
        "a file that changes within a tick of the handover is told by what is in it, or not at all",
        "nothing, as a rule; a kernel from 6.13 on has finer times",
    )


def _tick_s(place: str) -> float:
    """How long until a touched file has another time, in seconds."""
    with tempfile.TemporaryFile(dir=place) as file:
        began, first = time.monotonic(), None
        while time.monotonic() < began + TICK_WITHIN_S:
            os.utime(file.fileno())
            seen = os.fstat(file.fileno()).st_ctime_ns
            if first is not None and seen != first:
                return time.monotonic() - began
            first = seen
    return TICK_WITHIN_S


def abstract_sockets() -> Row:
    """Sockets without a file, which cross mount and user namespaces."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(f"\0cancelcontract-doctor-{secrets.token_hex(8)}")
        except OSError as error:
            return Row(
                "abstract sockets",
                Sight.NONE,
                f"refused: {error.strerror}",
                "a runner that cannot see the drill's folder (a container, a sandbox) may not say hello, and is then not judged",
                "let the folder for temporary files be seen in the sandbox, or allow abstract sockets",
            )
    return Row("abstract sockets", Sight.ALL, "they can be bound", "a runner that sees other folders can say hello all the same")


def user_namespaces() -> Row:
    """Sandboxes without privileges can be made."""
    tool = shutil.which("unshare")
    if tool is None:
        return Row(
            "user namespaces",
            Sight.PART,
            "not tried: there is no unshare(1)",
            "whether a runner's own sandbox starts here is not known",
            "install util-linux, or see that the sandbox starts",
        )
    tried = subprocess.run([tool, "--user", "--map-root-user", "true"], capture_output=True, text=True, timeout=PROBE_WITHIN_S, check=False)
    if tried.returncode == 0:
        return Row(
            "user namespaces", Sight.ALL, "they can be made", "runners that make a sandbox of their own start, and are held from outside"
        )
    why = (tried.stderr.strip().splitlines() or ["refused"])[-1]
    return Row(
        "user namespaces",
        Sight.NONE,
        why,
        "a runner that needs a sandbox of its own does not start here, so it is not judged",
        "see sysctl user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns",
    )


def pid_namespace() -> Row:
    """Whether the whole machine is seen, or a container's part of it."""
    try:
        is_first = Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE
    except OSError:
        is_first = False
    if is_first:
        return Row(
            "whole machine",
            Sight.ALL,
            "this is the machine's own PID namespace",
            "a run in a container of this machine is seen from outside",
        )
    return Row(
        "whole machine",
        Sight.PART,
        "this is a container, or another PID namespace",
        "what a wrapper starts outside of it (through a container engine's socket, say) is not seen, and so not covered",
        "run the drills where the runs are, or on the machine itself (a container with the machine's PID namespace)",
    )


def freezer() -> Row:
    """What a control group does to the processes in it cannot be told from outside."""
    can_freeze = Path("/sys/fs/cgroup/freezer").exists() or any(
        path.exists() for path in (Path("/sys/fs/cgroup/init.scope/cgroup.freeze"), Path("/sys/fs/cgroup/system.slice/cgroup.freeze"))
    )
    if not can_freeze:
        seen = "no freezer of control groups is mounted here"
        return Row("frozen groups", Sight.ALL, seen, "nobody can be frozen without being seen as stopped")
    return Row(
        "frozen groups",
        Sight.PART,
        "the freezer of control groups leaves no mark in the process table",
        "a run that is frozen so (docker pause, a suspended unit) counts as alive, and what waits for it is not read",
        "thaw before you judge; a kill reaches a frozen process at once on cgroup v2, on v1 only when it is thawed",
    )


def waits() -> Row:
    """The scheduler tells how long a process has waited for a processor."""
    if Path(f"/proc/self/task/{os.getpid()}/schedstat").exists():
        return Row("waits", Sight.ALL, "the scheduler tells who waited for a processor", "a starved wrapper is not called a slow one")
    return Row(
        "waits",
        Sight.PART,
        "the scheduler does not tell who waited for a processor",
        "on a busy machine a wrapper that was kept from running may be called late",
        "use a kernel with CONFIG_SCHED_INFO, or a machine that is not busy",
    )


def lateness(clock: Clock) -> Row:
    """How late a thread wakes up here, and what the machine is busy with."""
    time.sleep(_LATENESS_WATCHED_S)
    seen = clock.take()
    cpus = os.cpu_count() or 1
    busy = f"load {os.getloadavg()[0]:.1f} on {cpus} processor{'' if cpus == 1 else 's'}"
    told = f"late by {seen.worst_s * 1000:.1f} ms at worst, {busy}"
    if seen.worst_s < LATE_S:
        return Row("lateness", Sight.ALL, told, "every time has this error; verdicts further than that from a limit are sure")
    return Row(
        "lateness",
        Sight.PART,
        told,
        "a time that is closer to its limit than this is inconclusive, and its drill is run once more, alone",
        "fewer drills at once (--cancel-jobs), longer terms, or a quieter machine",
    )


_LATENESS_WATCHED_S = 0.2
PROBES: tuple[Callable[[], Row], ...] = (
    peer_pidfd,
    all_processes,
    pid_namespace,
    descriptors,
    change_times,
    abstract_sockets,
    user_namespaces,
    freezer,
    waits,
)
"""What is tried where drills can be run, in the order in which it is told."""
