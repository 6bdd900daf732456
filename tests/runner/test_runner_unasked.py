"""What a run does unasked: it floods its output, stops itself, or ends by itself."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from pathlib import Path

from tests.runner.stand_in import StandIn, Start, keeps_writing, log_lines, pipe, state_of, until
from uncooperative_runner import chatty
from uncooperative_runner.command import parse
from uncooperative_runner.habits import habit
from uncooperative_runner.member import Member
from uncooperative_runner.options import Options


def pending(pid: int) -> int:
    """The signals that wait for a process, as the process table has them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("ShdPnd:")), 16)


def test_chatty_floods_stdout_and_stderr(start: Start, stand_in: StandIn) -> None:
    process = start("chatty", to=stand_in, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert armed[-1] == {"habit": "chatty", "proof": "16 KB written to stdout and stderr"}
    for stream in (process.stdout, process.stderr):
        lines = pipe(stream).read(1 << 20).splitlines()
        assert len(lines) == (1 << 20) / chatty.LINE_BYTES
        assert {line[:24] for line in lines} == {f"uncooperative runner {process.pid} "[:24].encode()}
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_flood_that_nobody_reads_holds_nothing_up(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("chatty", to=stand_in, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stand_in.until("working")
    until(lambda: is_full(pipe(process.stdout).fileno()) and is_full(pipe(process.stderr).fileno()), "both pipes are full")
    assert keeps_writing(workspace, "leader")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM


def is_full(reading: int) -> bool:
    waiting = int.from_bytes(fcntl.ioctl(reading, 0x541B, bytes(4)), "little")  # FIONREAD
    return waiting == fcntl.fcntl(reading, 1032)  # F_GETPIPE_SZ


def test_a_flood_goes_on_when_a_full_pipe_is_read_again_though_it_does_not_block(start: Start, stand_in: StandIn) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    start("chatty", to=stand_in, stdout=writing, stderr=subprocess.DEVNULL)
    os.close(writing)
    stand_in.until("working")
    until(lambda: is_full(reading), "the pipe is full")
    with os.fdopen(reading, "rb") as stream:
        assert len({line[:24] for line in stream.read(1 << 20).splitlines()}) == 1


def test_a_flood_whose_reader_is_gone_ends_and_nothing_else_does(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("chatty", to=stand_in, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stand_in.until("working")
    pipe(process.stdout).close()
    pipe(process.stderr).close()
    process.stdout = process.stderr = None
    assert keeps_writing(workspace, "leader")


def test_a_flood_is_bounded(tmp_path: Path) -> None:
    options = parse(["--habit", "chatty"], started_s=0.0)
    assert isinstance(options, Options)
    member = Member("leader", options, habit("polite"), None)
    with (tmp_path / "out").open("wb") as out:
        chatty.flood_one(member, out.fileno(), b"first\n", b"x" * 16_384, threading.Event(), at_most_bytes=100_000)
    assert (tmp_path / "out").read_bytes() == b"first\n" + b"x" * 99_994
    assert chatty.AT_MOST_BYTES == 64 << 20


def test_frozen_says_so_and_stops_itself(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("frozen", to=stand_in)
    working = stand_in.until("working").facts
    assert working["then"] == "stops"
    assert working["armed"][-1]["habit"] == "frozen"
    until(lambda: state_of(process.pid) == "T", "it is stopped")
    lines = len(log_lines(workspace))
    process.terminate()
    until(lambda: bool(pending(process.pid) & 1 << signal.SIGTERM - 1), "its notice waits for it")
    assert len(log_lines(workspace)) == lines
    assert not stand_in.all("notice")
    process.send_signal(signal.SIGCONT)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert stand_in.until("notice").facts["from_pid"] == os.getpid()


def test_only_a_frozen_one_says_that_it_stops(start: Start, stand_in: StandIn) -> None:
    start("deaf", "deaf-child", to=stand_in)
    assert "then" not in stand_in.until("working").facts
    assert "then" not in stand_in.until("working", "deaf-child").facts


def test_ends_itself_works_for_a_while_and_leaves(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("deaf", "ends-itself", to=stand_in)
    working_s = stand_in.until("working").facts["at_s"]
    assert process.wait(10) == 0
    goodbye = stand_in.until("goodbye").facts
    assert (goodbye["status"], goodbye["why"]) == (0, "its work is done")
    assert goodbye["at_s"] - working_s >= 0.25
    assert len(log_lines(workspace)) > 2
