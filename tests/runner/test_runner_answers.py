"""Habits that answer a notice in a way of their own: by steps, by signal, or by leaving it to somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.runner.stand_in import FOUR, StandIn, Start, keeps_writing, log_lines, pipe, send_all_four, state_of, until
from uncooperative_runner.display import PRINT_EVERY_S
from uncooperative_runner.member import PAUSE_S


def written_at(workspace: Path) -> list[float]:
    return [float(words[-1]) for words in log_lines(workspace)]


def test_second_signal_ends_a_step_at_the_first_notice_and_itself_at_the_second(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("second-signal", to=stand_in)
    stand_in.until("working")
    process.send_signal(signal.SIGINT)
    stand_in.until("step-ended")
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert stand_in.until("goodbye").facts["why"] == "noticed SIGTERM, the second notice"
    assert len(stand_in.all("step-ended")) == 1


def test_keeps_spending_is_quiet_for_a_while_and_then_works_on(start: Start, stand_in: StandIn, workspace: Path) -> None:
    with (workspace / "out").open("wb") as out:
        process = start("keeps-spending", to=stand_in, stdout=out)
    stand_in.until("wrote", count=2)
    process.terminate()
    ended_s = stand_in.until("step-ended").facts["at_s"]
    before = (workspace / "out").read_bytes().count(b"\n")
    until(lambda: written_at(workspace)[-1] > ended_s, "it writes again")
    printed = (workspace / "out").read_bytes().count(b"\n") - before
    # One may have been on its way; what came after the pause is no more than there was time for.
    assert printed <= 2 + (time.monotonic() - ended_s - PAUSE_S) / PRINT_EVERY_S
    assert min(at_s for at_s in written_at(workspace) if at_s > ended_s) >= ended_s + PAUSE_S


def test_keeps_spending_never_ends(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("keeps-spending", to=stand_in)
    send_all_four(process, stand_in)
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None
    assert len(stand_in.all("step-ended")) == 1


@pytest.mark.parametrize("obeyed", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_is_obeyed_and_the_others_are_not(obeyed: signal.Signals, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start(f"obeys-{obeyed.name[3:].lower()}", to=stand_in)
    stand_in.until("working")
    for number in FOUR:
        if number != obeyed:
            process.send_signal(number)
    stand_in.tell(process.pid, "notice")
    stand_in.until("notice", count=4)
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None
    process.send_signal(obeyed)
    assert process.wait(10) == 128 + obeyed
    assert stand_in.until("goodbye").facts["why"] == f"noticed {obeyed.name}"


def test_slow_child_leaves_at_once_and_its_child_cleans_up(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("slow-child", to=stand_in, more=("--cleanup", "0.3"))
    child = stand_in.until("working", "slow-child")
    assert [row["habit"] for row in child.facts["armed"]] == ["slow-cleanup", "slow-child"]
    stand_in.until("working")
    assert os.getpgid(child.pid) == process.pid
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    began = stand_in.until("cleanup-started", "slow-child").facts["at_s"]
    lines = len(log_lines(workspace, "slow-child"))
    assert stand_in.until("cleanup-finished", "slow-child").facts["at_s"] - began >= 0.3
    assert stand_in.until("goodbye", "slow-child").facts["status"] == 128 + signal.SIGTERM
    stand_in.until("closed", "slow-child")
    assert len(log_lines(workspace, "slow-child")) == lines
    assert not stand_in.all("cleanup-started")


def test_slow_child_is_told_nothing_by_its_leader(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("slow-child", to=stand_in)
    stand_in.until("working", "slow-child")
    stand_in.until("working")
    process.terminate()
    process.wait(10)
    assert keeps_writing(workspace, "slow-child")
    assert not stand_in.all("notice", "slow-child")


def test_a_launcher_leaves_at_notice_and_its_worker_works_on(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("launcher", to=stand_in, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    worker = stand_in.until("working", "worker")
    armed = stand_in.until("working").facts["armed"]
    assert armed[-1] == {"habit": "launcher", "proof": "no thread of it prints or writes; its worker does"}
    assert stand_in.until("hello").facts["roles"] == ["leader", "worker"]
    assert os.getpgid(worker.pid) == process.pid
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert keeps_writing(workspace, "worker")
    assert not stand_in.all("notice", "worker")
    assert [path.name for path in workspace.iterdir()] == ["uncooperative-worker.log"]
    assert pipe(process.stdout).readline().startswith(f"uncooperative runner {worker.pid}: line ".encode())
    os.set_blocking(pipe(process.stderr).fileno(), False)
    assert pipe(process.stderr).read() is None  # open, and nothing said
    assert state_of(worker.pid) in "SR"


def test_the_worker_of_a_launcher_ends_at_a_notice_of_its_own(start: Start, stand_in: StandIn) -> None:
    process = start("launcher", to=stand_in, stdout=subprocess.PIPE)
    worker = stand_in.until("working", "worker").pid
    stand_in.until("working")
    os.kill(worker, signal.SIGTERM)
    assert stand_in.until("goodbye", "worker").facts["status"] == 128 + signal.SIGTERM
    assert process.poll() is None
    assert not stand_in.all("wrote")
