"""Held at a barrier: before its signals are handled, or before it first writes; never at a sleep."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.runner.stand_in import FOUR, Make, StandIn, Start, keeps_writing, log_lines, pipe

BEFORE_HANDLERS = ("--hold", "before-handlers")
BEFORE_WORK = ("--hold", "before-work")


@pytest.fixture
def keeping(make_stand_in: Make) -> StandIn:
    """A stand-in that leaves the answer to the test."""
    return make_stand_in(answer="")


def masks(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line[:6]: int(line.split()[1], 16) for line in lines if line[:6] in ("SigBlk", "SigIgn", "SigCgt")}


@pytest.mark.parametrize("number", FOUR)
def test_before_its_handlers_each_of_the_four_kills_it(number: signal.Signals, start: Start, keeping: StandIn, workspace: Path) -> None:
    process = start("deaf", "deaf-child", to=keeping, more=BEFORE_HANDLERS)
    assert keeping.until("hello").facts["held"] == "before-handlers"
    the_four = sum(1 << one - 1 for one in FOUR)
    assert [mask & the_four for mask in masks(process.pid).values()] == [0, 0, 0]
    process.send_signal(number)
    assert process.wait(10) == -number
    keeping.until("closed")
    assert [said.what for said in keeping.said] == ["hello", "closed"]
    assert list(workspace.iterdir()) == []


def test_what_it_inherited_as_ignored_is_ignored_as_long_as_it_handles_nothing(start: Start, keeping: StandIn) -> None:
    process = start("polite", to=keeping, more=BEFORE_HANDLERS, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    keeping.until("hello")
    process.send_signal(signal.SIGINT)
    keeping.tell(process.pid, "go a-1 work")
    keeping.until("working")
    assert not keeping.all("notice")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 128 + signal.SIGINT


def test_once_it_was_answered_it_goes_on_as_ever(start: Start, keeping: StandIn) -> None:
    process = start("polite", "daemon", to=keeping, more=BEFORE_HANDLERS)
    keeping.until("hello")
    keeping.tell(process.pid, "go a-1 work")
    armed = keeping.until("working").facts["armed"]
    assert armed[0]["proof"] == "took its own SIGTERM, SIGINT, SIGHUP, SIGQUIT; all blocked"
    keeping.until("working", "daemon")
    assert "held" not in keeping.until("hello", "daemon").facts
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM


@pytest.mark.parametrize("hold", [BEFORE_HANDLERS, BEFORE_WORK], ids=["before-handlers", "before-work"])
@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_a_held_one_does_not_outlive_its_lifetime(hold: tuple[str, ...], is_stopped: bool, start: Start, keeping: StandIn) -> None:
    process = start("deaf", to=keeping, more=(*hold, "--lifetime", "2"))
    keeping.until("hello")
    if hold == BEFORE_WORK:
        keeping.tell(process.pid, "go a-1 work")
        keeping.until("ready")
    if is_stopped:
        process.send_signal(signal.SIGSTOP)
    assert process.wait(10) in (-signal.SIGKILL, -signal.SIGALRM)


@pytest.mark.parametrize("hold", [BEFORE_HANDLERS, BEFORE_WORK], ids=["before-handlers", "before-work"])
def test_a_held_one_dies_with_the_recorder(hold: tuple[str, ...], start: Start, keeping: StandIn, workspace: Path) -> None:
    process = start("deaf", to=keeping, more=hold, stderr=subprocess.DEVNULL)
    keeping.until("hello")
    if hold == BEFORE_WORK:
        keeping.tell(process.pid, "go a-1 work")
        keeping.until("ready")
    keeping.close_connections()
    assert process.wait(10) in (70, -signal.SIGKILL)
    assert list(workspace.iterdir()) == []


def test_before_its_work_nothing_of_it_shows(start: Start, stand_in: StandIn, workspace: Path) -> None:
    (workspace / ".cancel-contract-workspace").touch()
    process = start("deaf", "poison", to=stand_in, more=BEFORE_WORK, stdout=subprocess.PIPE)
    stand_in.until("ready")
    assert masks(process.pid)["SigBlk"] & sum(1 << number - 1 for number in FOUR) == sum(1 << number - 1 for number in FOUR)
    assert [said.what for said in stand_in.said] == ["hello", "found", "ready"]
    assert [path.name for path in workspace.iterdir()] == [".cancel-contract-workspace"]
    os.set_blocking(pipe(process.stdout).fileno(), False)
    assert pipe(process.stdout).read() is None
    stand_in.tell(process.pid, "work")
    stand_in.until("planted")
    stand_in.until("working")
    assert keeps_writing(workspace, "leader")
    assert len(stand_in.all("ready")) == 1


@pytest.mark.parametrize("number", FOUR)
def test_before_its_work_a_polite_one_ends_at_notice(number: signal.Signals, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("polite", to=stand_in, more=BEFORE_WORK)
    stand_in.until("ready")
    process.send_signal(number)
    assert process.wait(10) == 128 + number
    stand_in.until("closed")
    assert [said.what for said in stand_in.said] == ["hello", "found", "ready", "taking", "notice", "goodbye", "closed"]
    assert list(workspace.iterdir()) == []


def test_before_its_work_the_end_of_its_input_is_a_notice(start: Start, stand_in: StandIn) -> None:
    process = start("polite", to=stand_in, more=BEFORE_WORK, stdin=subprocess.PIPE)
    stand_in.until("ready")
    pipe(process.stdin).close()
    process.stdin = None
    stand_in.until("input-ended")
    stand_in.tell(process.pid, "notice")
    assert process.wait(10) == 129


def test_a_deaf_one_stays_held_at_notice(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("deaf", to=stand_in, more=BEFORE_WORK)
    stand_in.until("ready")
    for number in FOUR:
        process.send_signal(number)
    stand_in.until("notice", count=4)
    assert list(workspace.iterdir()) == []
    stand_in.tell(process.pid, "work")
    stand_in.until("working")


def test_a_look_is_not_held_before_its_work(start: Start, make_stand_in: Make) -> None:
    stand_in = make_stand_in("go next-1 look")
    assert start("polite", to=stand_in, more=BEFORE_WORK).wait(10) == 0
    assert not stand_in.all("ready")


def test_only_the_leader_is_held(start: Start, stand_in: StandIn) -> None:
    start("deaf-child", to=stand_in, more=BEFORE_WORK)
    stand_in.until("ready")
    stand_in.until("working", "deaf-child")
    assert not stand_in.all("working")


@pytest.mark.parametrize(
    ("hold", "says"),
    [(BEFORE_HANDLERS, "is held before its first handler; Enter lets it go on"), (BEFORE_WORK, "could work now; Enter lets it go on")],
    ids=["before-handlers", "before-work"],
)
def test_by_hand_enter_lets_it_go_on(hold: tuple[str, ...], says: str, start: Start, workspace: Path) -> None:
    process = start("deaf", more=(*hold, "--lifetime", "20"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = ""
    while says not in line:
        line = pipe(process.stderr).readline()
        assert line
    assert list(workspace.iterdir()) == []
    pipe(process.stdin).write("\n")
    pipe(process.stdin).flush()
    while "works; proven" not in line:
        line = pipe(process.stderr).readline()
        assert line
    assert log_lines(workspace)
