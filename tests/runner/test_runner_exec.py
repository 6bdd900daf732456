"""Processes that are started by exec: the bare daemon, the successor, and the two that start each other again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.stand_in import FOUR, WITHIN_S, StandIn, Start, is_dead, keeps_writing, log_lines, pipe, state_of, stop, until

PAIR = ("respawner-1", "respawner-2")


def descriptors(pid: int) -> list[str]:
    """What a process has open; what went while it was looked at left out."""
    try:
        return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:
        return ["closed meanwhile"]


def send_all(*pids: int) -> None:
    for pid in pids:
        for number in FOUR:
            os.kill(pid, number)


def kill(*pids: int) -> None:
    """Kill them as one: none of them is there to see the others go."""
    stop(*pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


def pair_of(stand_in: StandIn) -> list[int]:
    return [stand_in.until("working", role).pid for role in PAIR]


# --- bare-daemon ------------------------------------------------------------------------------------------------------


def test_the_bare_daemon_has_nothing_and_works_on(start: Start, stand_in: StandIn, workspace: Path) -> None:
    env = {**os.environ, "SECRET_STAMP": "1"}
    process = start("bare-daemon", to=stand_in, env=env, stdout=subprocess.PIPE)
    stand_in.until("working")
    working = stand_in.until("working", "bare-daemon")
    stand_in.until("closed", "bare-daemon")
    pid = working.pid
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""
    assert str(Path(f"/proc/{pid}/cwd").readlink()) == "/"
    until(lambda: descriptors(pid) == [], "it has no descriptor open, but while it writes or looks")
    assert os.getsid(pid) not in (pid, os.getsid(process.pid))
    assert os.getpgid(pid) != process.pid
    process.terminate()
    process.communicate(timeout=10)
    send_all(pid)
    assert keeps_writing(workspace, "bare-daemon")
    assert state_of(pid) in "SR"
    assert not stand_in.all("goodbye", "bare-daemon")


def test_the_bare_daemon_says_what_it_is(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("deaf", "bare-daemon", to=stand_in)
    hello = stand_in.until("hello", "bare-daemon").facts
    assert (hello["cwd"], hello["attempt"], hello["stdin"], hello["stdout_kind"]) == ("/", "a-1", "null", "null")
    assert hello["ppid"] not in (process.pid, os.getpid())
    assert stand_in.until("hello").facts["roles"] == ["leader", "bare-daemon"]
    assert stand_in.until("wrote", "bare-daemon").facts["path"] == str(workspace / "uncooperative-bare-daemon.log")
    armed = stand_in.until("working", "bare-daemon").facts["armed"]
    assert [row["habit"] for row in armed] == ["deaf", "bare-daemon"]
    assert "environment empty, working folder /, no descriptor open but what says this" in armed[1]["proof"]


def test_the_bare_daemon_looks_for_the_recorder_and_dies_without_one(start: Start, stand_in: StandIn) -> None:
    process = start("deaf", "bare-daemon", to=stand_in)
    pid = stand_in.until("working", "bare-daemon").pid
    stand_in.until("closed", "bare-daemon")
    stand_in.until("working")
    stand_in.until("closed", "", count=2)  # a connection that said nothing
    assert state_of(pid) in "SR"
    stand_in.stop_listening()
    until(lambda: is_dead(pid), "the bare daemon is dead")
    assert process.poll() is None


def test_a_bare_daemon_that_cannot_be_started_says_so(start: Start, make_stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    stand_in = make_stand_in(answer="")
    python = tmp_path / "python"
    python.symlink_to(Path(sys.executable).resolve())
    process = start("bare-daemon", to=stand_in, python=str(python))
    stand_in.until("hello")
    python.unlink()
    stand_in.tell(process.pid, "go a-1 work")
    unarmed = stand_in.until("unarmed", "bare-daemon").facts
    assert unarmed["habit"] == "bare-daemon"
    assert "cannot be started by exec" in unarmed["why"]
    assert stand_in.until("goodbye", "bare-daemon").facts["status"] == 70


# --- successor --------------------------------------------------------------------------------------------------------


def test_the_successor_is_there_before_its_leader_leaves_and_is_deaf(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("successor", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert armed[-1]["proof"].startswith(f"can start {sys.executable} with ")
    assert stand_in.until("hello").facts["roles"] == ["leader"]
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    said = [(said.what, said.role) for said in stand_in.said]
    assert said.index(("hello", "successor")) < said.index(("goodbye", "leader"))
    successor = stand_in.until("working", "successor").pid
    assert str(successor) in stand_in.until("goodbye").facts["why"]
    assert (os.getpgid(successor), os.getsid(successor)) == (process.pid, process.pid)
    send_all(successor)
    stand_in.until("notice", "successor", count=4)
    assert keeps_writing(workspace, "successor")
    hello = stand_in.until("hello", "successor").facts
    assert (hello["attempt"], hello["cwd"], hello["ppid"]) == ("a-1", str(workspace), process.pid)


def test_the_successor_holds_none_of_the_wrappers_pipes(start: Start, stand_in: StandIn) -> None:
    reading, writing = os.pipe()
    process = start("successor", to=stand_in, stdout=writing, pass_fds=(writing,))
    os.close(writing)
    stand_in.until("working")
    process.terminate()
    process.wait(10)
    with os.fdopen(reading, "rb") as stream:
        stream.read()  # to its end
    assert state_of(stand_in.until("working", "successor").pid) in "SR"


def test_a_second_notice_starts_no_second_successor(start: Start, stand_in: StandIn) -> None:
    process = start("successor", to=stand_in)
    stand_in.until("working")
    for number in FOUR:
        process.send_signal(number)
    process.wait(10)
    stand_in.until("working", "successor")
    assert len(stand_in.all("hello", "successor")) == 1


def test_a_refused_successor_ends_and_its_leader_leaves_all_the_same(start: Start, stand_in: StandIn, workspace: Path) -> None:
    stand_in.replies["successor"] = "refused its drill has ended"
    process = start("successor", to=stand_in)
    stand_in.until("working")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    until(lambda: is_dead(stand_in.until("hello", "successor").pid), "the successor is dead")
    assert [path.name for path in workspace.iterdir()] == ["uncooperative-leader.log"]


@pytest.mark.slow
def test_a_leader_waits_5_s_for_its_successor_and_no_longer(start: Start, stand_in: StandIn) -> None:
    stand_in.replies["successor"] = ""
    process = start("successor", to=stand_in)
    stand_in.until("working")
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert stand_in.until("goodbye").facts["at_s"] - stand_in.until("notice").facts["at_s"] >= 5
    assert "which was not answered" in stand_in.until("goodbye").facts["why"]


# --- respawner --------------------------------------------------------------------------------------------------------


def test_each_respawner_starts_the_other_again_and_again(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("respawner", to=stand_in)
    pair_of(stand_in)
    stand_in.until("working")
    assert stand_in.until("hello").facts["roles"] == ["leader", *PAIR]
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    for count in (1, 2, 3):
        for role in PAIR:
            before = stand_in.until("working", role, count=count).pid
            os.kill(before, signal.SIGKILL)
            again = stand_in.until("working", role, count=count + 1).pid
            assert again != before
            assert stand_in.until("hello", role, count=count + 1).facts["attempt"] == "a-1"
    for role in PAIR:
        assert keeps_writing(workspace, role)


def test_a_respawner_waits_for_the_one_that_it_had_started(start: Start, stand_in: StandIn) -> None:
    start("respawner", to=stand_in)
    for count in (1, 2):
        killed = stand_in.until("working", "respawner-2", count=count).pid
        stand_in.until("working", "respawner-1")
        os.kill(killed, signal.SIGKILL)
        stand_in.until("working", "respawner-2", count=count + 1)
        assert state_of(killed) == "gone"


def test_respawners_hold_each_other_and_do_nothing_at_notice(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("respawner", to=stand_in)
    first, second = pair_of(stand_in)
    stand_in.until("working")
    proofs = [stand_in.until("working", role).facts["armed"][-1]["proof"] for role in PAIR]
    assert proofs == [
        f"started and holds respawner-2 {second} by pidfd",
        f"was started by, and holds, respawner-1 {first} by pidfd",
    ]
    assert {os.getpgid(first), os.getpgid(second)} == {process.pid}
    send_all(first, second)
    for role in PAIR:
        stand_in.until("notice", role, count=4)
        assert keeps_writing(workspace, role)


def test_two_respawners_that_are_killed_at_once_are_gone(start: Start, stand_in: StandIn) -> None:
    start("respawner", to=stand_in)
    pids = pair_of(stand_in)
    kill(*pids)
    stand_in.until("wrote", count=len(stand_in.all("wrote")) + 2)
    assert [len(stand_in.all("hello", role)) for role in PAIR] == [1, 1]


def test_a_refused_newcomer_ends_and_is_not_started_again(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("respawner", to=stand_in)
    first, second = pair_of(stand_in)
    stand_in.replies["respawner-1"] = "refused its drill has ended"
    os.kill(first, signal.SIGKILL)
    newcomer = stand_in.until("hello", "respawner-1", count=2).pid
    until(lambda: state_of(newcomer) == "gone", "the newcomer has ended, and was waited for")
    assert keeps_writing(workspace, "respawner-2")
    assert state_of(second) in "SR"
    assert len(stand_in.all("hello", "respawner-1")) == 2


def test_a_newcomer_that_fails_is_not_started_again(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("respawner", to=stand_in)
    first, _ = pair_of(stand_in)
    (workspace / "uncooperative-respawner-1.log").unlink()
    os.kill(first, signal.SIGSTOP)  # it must not make its log anew
    (workspace / "uncooperative-respawner-1.log").unlink(missing_ok=True)
    (workspace / "uncooperative-respawner-1.log").mkdir()
    os.kill(first, signal.SIGKILL)
    assert stand_in.until("unarmed", "respawner-1").facts["habit"] == "writes"
    newcomer = stand_in.until("hello", "respawner-1", count=2).pid
    until(lambda: state_of(newcomer) == "gone", "the newcomer has ended, and was waited for")
    assert keeps_writing(workspace, "respawner-2")
    assert len(stand_in.all("hello", "respawner-1")) == 2


def test_nothing_is_started_again_where_no_recorder_listens(start: Start, stand_in: StandIn) -> None:
    start("deaf", "respawner", to=stand_in)
    first, second = pair_of(stand_in)
    stand_in.until("working")
    stand_in.stop_listening()  # the connections stay open: nothing but the death of the other one is there to tell
    os.kill(first, signal.SIGKILL)
    until(lambda: is_dead(second), "the one that found no recorder is dead too")


def test_respawners_die_with_the_recorder(start: Start, stand_in: StandIn) -> None:
    process = start("deaf", "respawner", to=stand_in)
    pids = pair_of(stand_in)
    stand_in.until("working")
    stand_in.stop_listening()
    stand_in.close_connections()
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    until(lambda: all(is_dead(pid) for pid in pids), "both are dead")


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_the_lifetime_is_armed_again_after_exec(is_stopped: bool, start: Start, stand_in: StandIn) -> None:
    began_s = time.monotonic()
    process = start("successor", "bare-daemon", "respawner", to=stand_in, more=("--lifetime", "5"))
    stand_in.until("working")
    bare = stand_in.until("working", "bare-daemon").pid
    first, second = pair_of(stand_in)
    os.kill(first, signal.SIGKILL)
    first = stand_in.until("working", "respawner-1", count=2).pid
    process.terminate()
    pids = [stand_in.until("working", "successor").pid, bare, first, second]
    if is_stopped:
        stop(*pids)
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")
    assert time.monotonic() - began_s >= 5


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_the_guard_is_armed_again_after_exec(is_stopped: bool, start: Start, stand_in: StandIn) -> None:
    process = start("successor", "respawner", to=stand_in)
    stand_in.until("working")
    pids = pair_of(stand_in)
    process.terminate()
    pids.append(stand_in.until("working", "successor").pid)
    if is_stopped:
        stop(*pids)
    stand_in.stop_listening()
    stand_in.drop_guards()
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


def test_by_hand_each_is_told_of_and_can_be_ended(start: Start) -> None:
    more = ("--lifetime", "20")
    process = start("deaf", "bare-daemon", "respawner", more=more, stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    while not lines or not (lines[-1].startswith(f"uncooperative leader {process.pid}") and "works; proven" in lines[-1]):
        lines.append(pipe(process.stderr).readline())
        assert lines[-1], lines
    for role in ("bare-daemon", *PAIR):
        assert [line for line in lines if line.startswith(f"uncooperative {role} ") and "works; proven" in line]
    ending = next(line for line in lines if "kill -KILL" in line)
    pids = [int(word) for word in ending.split("kill -KILL ")[1].split("(")[0].split()]
    assert len(set(pids)) == 4
    until(lambda: descriptors(pids[1]) == [], "the bare daemon has no descriptor open")
    kill(*pids)
    assert process.wait(WITHIN_S) == -signal.SIGKILL


def test_by_hand_the_successor_is_named(start: Start, workspace: Path) -> None:
    process = start("successor", more=("--lifetime", "20"), stderr=subprocess.PIPE, text=True)
    while "works; proven" not in pipe(process.stderr).readline():
        assert process.poll() is None
    process.terminate()
    _, told = process.communicate(timeout=WITHIN_S)
    assert "works; proven: deaf" in told
    successor = int(told.rsplit("kill -KILL ", 1)[1])
    assert keeps_writing(workspace, "successor")
    os.kill(successor, signal.SIGKILL)
    until(lambda: is_dead(successor), "the successor is dead")


def test_started_by_exec_on_every_interpreter(interpreter: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("successor", "bare-daemon", "respawner", to=stand_in, python=interpreter, stderr=subprocess.PIPE)
    stand_in.until("working")
    bare = stand_in.until("working", "bare-daemon").pid
    os.kill(pair_of(stand_in)[0], signal.SIGKILL)
    stand_in.until("working", "respawner-1", count=2)
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    stand_in.until("working", "successor")
    assert pipe(process.stderr).read() == b""
    versions = {stand_in.until("hello", role).facts["python"] for role in ("leader", "bare-daemon", "successor", *PAIR)}
    assert len(versions) == 1
    assert descriptors(bare) is not None
    assert log_lines(workspace, "bare-daemon")
