"""The process table is read as the kernel gives it: identities, states, and the marks of the dying."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table, reaper
from pytest_cancelcontract.recorder.process_table import Stat
from tests.recorder.conftest import Start

SLEEPS = "import sys; print('ready', flush=True); sys.stdin.read()"


def identity(pid: int) -> Identity:
    found = process_table.identity_of(pid)
    assert found is not None
    return found


def until_readable(pidfd: int) -> None:
    assert select.select([pidfd], [], [], 10)[0], "the process did not die within 10 s"


def test_a_command_name_with_a_new_line_or_a_terminals_command_is_told_in_plain_letters() -> None:
    name = "x\n::error::\x1b[2J"
    assert process_table.parse_stat(f"7 ({name}) S 1 6 5 0 -1 4194564 " + "0 " * 12 + "99 " + "0 " * 20).comm == r"x\n::error::\x1b[2J"


def test_a_process_that_is_gone_stands_where_it_stood_once_and_not_below_the_kernel() -> None:
    once = process_table.parse_stat("7 (sh) S 5 6 4 0 -1 4194564 " + "0 " * 12 + "99 " + "0 " * 20)
    gone = process_table.sight(Identity(1, 1))
    assert gone.state == "gone"
    assert process_table.standing(gone, once) == {"ppid": 5, "pgid": 6, "sid": 4}
    assert process_table.standing(gone, None) == {}
    here = process_table.sight(identity(os.getpid()))
    assert process_table.standing(here, once) == {
        "ppid": os.getppid(),
        "parent": str(identity(os.getppid())),
        "pgid": os.getpgid(0),
        "sid": os.getsid(0),
    }


def test_a_command_name_with_spaces_and_parentheses_is_read_whole() -> None:
    stat = process_table.parse_stat("7 (a ) b (c) S 1 6 5 0 -1 4194564 " + "0 " * 12 + "99 " + "0 " * 20)
    assert (stat.comm, stat.state, stat.ppid, stat.pgid, stat.sid, stat.identity, stat.is_exiting) == (
        "a ) b (c",
        "S",
        1,
        6,
        5,
        Identity(7, 99),
        True,
    )


def test_a_waiting_process_is_alive(start: Start) -> None:
    process = start(SLEEPS)
    seen = process_table.sight(identity(process.pid), "leader", "a-1")
    assert (seen.alive, seen.dying, seen.zombie, seen.ppid, seen.role) == (True, False, False, os.getpid(), "leader")
    assert (seen.pgid, seen.sid) == (os.getpgid(process.pid), os.getsid(process.pid))


def test_a_stopped_process_is_alive(start: Start) -> None:
    process = start(SLEEPS)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    seen = process_table.sight(identity(process.pid))
    assert (seen.state, seen.alive, seen.is_running) == ("T", True, True)


def test_a_zombie_is_dead_though_kill_0_answers_for_it(start: Start) -> None:
    process = start(SLEEPS)
    who = identity(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.kill(process.pid, 0)
    seen = process_table.sight(who)
    assert (seen.state, seen.zombie, seen.alive, seen.parent) == ("Z", True, False, str(identity(os.getpid())))


def test_a_zombie_leader_with_a_living_thread_is_alive_and_not_dying(start: Start) -> None:
    process = start(
        """
import ctypes, sys, threading
def work():
    while threading.main_thread().is_alive() and open('/proc/self/stat').read().split()[2] != 'Z':
        pass
    sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)  # exit(2) of this thread alone
"""
        if os.uname().machine == "x86_64"
        else pytest.skip("the number of exit(2) is written for x86-64")
    )
    who = identity(process.pid)
    seen = process_table.sight(who)
    assert (seen.state, seen.zombie, seen.alive, seen.dying) == ("Z", True, True, False)
    assert seen.threads_alive == 1
    held = reaper.Held.take(who)
    assert held is not None
    assert not held.has_ended()
    held.kill()
    while not held.has_ended():
        last = process_table.sight(who)
        assert last.dying or not last.alive, f"between SIGKILL and death a look said {last}"
    until_readable(held.pidfd)
    assert held.has_ended()
    held.release()


def test_a_reused_pid_answers_for_nobody(start: Start) -> None:
    process = start(SLEEPS)
    former = Identity(process.pid, identity(process.pid).start - 1)
    assert process_table.sight(former).state == "gone"
    assert process_table.open_pidfd(former) is None
    assert reaper.Held.take(former) is None


def test_a_process_with_kill_pending_is_dying(start: Start) -> None:
    """From SIGKILL until the pidfd says dead, no look ever shows the process as one that goes on."""
    for _ in range(5):
        # Much memory takes the kernel a while to free, so that there is something to look at.
        process = start("import sys; memory = b'x' * (100 << 20); print('ready', flush=True); sys.stdin.read()")
        who = identity(process.pid)
        pidfd = process_table.open_pidfd(who)
        assert pidfd is not None
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        looks = 0
        while not select.select([pidfd], [], [], 0)[0]:
            seen = process_table.sight(who)
            looks += 1
            assert seen.dying or not seen.alive, f"between SIGKILL and death a look said {seen}"
        os.close(pidfd)
        assert looks


def test_descendants_are_found_by_parent_and_by_session_and_never_by_a_reused_pid() -> None:
    def row(pid: int, ppid: int, sid: int, start: int = 1) -> Stat:
        return Stat(Identity(pid, start), "x", "S", ppid, sid, sid, 0)

    table = {
        row.identity.pid: row for row in (row(10, 1, 10), row(11, 10, 10), row(12, 11, 12), row(13, 1, 10), row(14, 1, 14), row(15, 14, 14))
    }
    assert set(reaper.descendants(table, [Identity(10, 1)], [10])) == {Identity(11, 1), Identity(12, 1), Identity(13, 1)}
    assert reaper.descendants(table, [Identity(14, 2)], []) == [], "pid 14 is somebody else by now, so its child is not ours"


def test_an_unreadable_process_is_neither_dead_nor_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> Stat | None:
        raise PermissionError(13, "hidden")

    monkeypatch.setattr(process_table, "read_stat", refuse)
    seen = process_table.sight(Identity(os.getpid(), 1))
    assert (seen.can_read, seen.alive) == (False, None)


def test_what_two_share_a_processor_they_wait_for_each_other() -> None:
    """And a process that sleeps waits for none."""
    spin = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); print(flush=True)\nwhile True: pass"
    spinners = [subprocess.Popen([sys.executable, "-I", "-S", "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
    sleeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
    try:
        for process in (*spinners, sleeper):
            assert process.stdout is not None and process.stdout.readline()
        before = {one.pid: process_table.waited_s(one.pid) for one in (*spinners, sleeper)}
        until = time.monotonic() + 10
        while sum(process_table.waited_s(one.pid) - before[one.pid] for one in spinners) < 0.2:
            assert time.monotonic() < until
            time.sleep(0.01)  # no event tells of it
        assert process_table.waited_s(sleeper.pid) - before[sleeper.pid] < 0.1
    finally:
        for process in (*spinners, sleeper):
            process.kill()
            process.communicate()
    assert process_table.waited_s(sleeper.pid) == 0.0


def test_all_processes_holds_this_one() -> None:
    assert process_table.all_processes()[os.getpid()].identity == identity(os.getpid())
    assert Path(f"/proc/{os.getpid()}").exists()
