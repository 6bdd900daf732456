"""A process whose first thread is a zombie, while another one works: alive, whatever a look at that one thread says."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.runner.stand_in import StandIn, Start, keeps_writing, pipe, send_all_four, state_of

HABIT = "main-thread-gone"


def states(pid: int) -> dict[int, str]:
    """The state of each thread, as the process table has it."""
    return {int(task.name): (task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()}


def test_its_first_thread_is_a_zombie_and_it_works_on(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start(HABIT, "deaf-child", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert [row["habit"] for row in armed] == [HABIT, HABIT]
    assert armed[1]["proof"] == "its first thread is a zombie, and this is another one"
    assert state_of(process.pid) == "Z"
    others = [state for thread, state in states(process.pid).items() if thread != process.pid]
    assert others and not set(others) & set("ZX")
    assert keeps_writing(workspace, "leader")
    assert pipe(process.stdout).readline()
    assert process.poll() is None
    stand_in.until("working", "deaf-child")


def test_it_is_deaf(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start(HABIT, to=stand_in)
    send_all_four(process, stand_in)
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None


def test_it_ends_when_told_to(start: Start, stand_in: StandIn) -> None:
    process = start(HABIT, to=stand_in)
    stand_in.until("working")
    stand_in.tell(process.pid, "end")
    assert process.wait(10) == 0


def test_its_guard_kills_it(start: Start, stand_in: StandIn) -> None:
    process = start(HABIT, to=stand_in)
    stand_in.until("working")
    stand_in.until_guards(1)
    process.send_signal(signal.SIGSTOP)
    stand_in.drop_guards()
    assert process.wait(10) == -signal.SIGKILL


def test_its_lifetime_ends_it(start: Start, stand_in: StandIn) -> None:
    process = start(HABIT, to=stand_in, more=("--lifetime", "2"))
    stand_in.until("working")
    process.send_signal(signal.SIGSTOP)
    assert process.wait(10) == -signal.SIGKILL


def test_it_is_so_on_every_interpreter(interpreter: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start(HABIT, to=stand_in, python=interpreter, stderr=subprocess.PIPE)
    stand_in.until("working")
    assert state_of(process.pid) == "Z"
    assert keeps_writing(workspace, "leader")
    stand_in.tell(process.pid, "end")
    assert process.communicate(timeout=10)[1] == b""
