"""The ways in which the runner is obedient: refused, told to end, hung up on, past its lifetime; stopped or not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.runner.stand_in import SCRIPT, TOKEN, WITHIN_S, Make, StandIn, Start, is_dead, pipe, state_of, stop, until
from uncooperative_runner.habits import HABITS

ALL = ("deaf", "deaf-child", "own-session-child", "daemon")
ROLES = ("leader", "deaf-child", "own-session-child", "daemon")


def working_pids(stand_in: StandIn) -> list[int]:
    return [stand_in.until("working", role).pid for role in ROLES]


def test_a_refused_runner_says_why_and_ends_with_status_70(start: Start, make_stand_in: Make, workspace: Path) -> None:
    stand_in = make_stand_in(answer="refused the token's drill has ended")
    process = start("deaf", "deaf-child", to=stand_in, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 70
    assert told == b"uncooperative runner: refused by the recorder: the token's drill has ended\n"
    assert list(workspace.iterdir()) == []
    stand_in.until("closed")
    assert [said.what for said in stand_in.said] == ["hello", "closed"]


def test_without_a_recorder_it_ends_with_status_70(start: Start, workspace: Path) -> None:
    more = ("--recorder", "unix:/nowhere/at/all", "--recorder", "abstract:cc-nobody", "--token", TOKEN)
    process = start("deaf", more=more, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 70
    assert told.startswith(b"uncooperative runner: no recorder answers: unix:/nowhere/at/all: ")
    assert told.count(b"\n") == 1
    assert list(workspace.iterdir()) == []


def test_a_recorder_that_hangs_up_instead_of_answering_ends_it(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        process = start("deaf", more=("--recorder", f"unix:{tmp_path}/s", "--token", TOKEN), stderr=subprocess.PIPE)
        listener.accept()[0].close()
        process.communicate(timeout=WITHIN_S)
    assert process.returncode in (70, -signal.SIGKILL)


def test_every_process_ends_when_told_to(start: Start, stand_in: StandIn) -> None:
    process = start(*ALL, to=stand_in)
    for pid in working_pids(stand_in):
        stand_in.tell(pid, "end")
    assert process.wait(WITHIN_S) == 0
    for role in ROLES:
        assert stand_in.until("goodbye", role).facts["status"] == 0
        stand_in.until("closed", role)


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_every_process_dies_when_the_recorder_does(is_stopped: bool, start: Start, stand_in: StandIn) -> None:
    process = start(*ALL, to=stand_in)
    pids = working_pids(stand_in)
    if is_stopped:
        stop(*pids)
    stand_in.close_connections()
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


@pytest.mark.parametrize("habit", [row.name for row in HABITS if row.name not in ("poison", "heavy-children")])
def test_with_any_habit_and_poison_all_of_it_works_and_dies_with_the_recorder(
    habit: str, start: Start, stand_in: StandIn, workspace: Path
) -> None:
    (workspace / ".cancel-contract-workspace").touch()
    process = start(habit, "poison", to=stand_in, stderr=subprocess.DEVNULL)
    pids = [stand_in.until("working", role).pid for role in stand_in.until("hello").facts["roles"]]
    assert [bool(said.facts["poison"]) for said in list(stand_in.said) if said.what == "planted"] == [True]
    stand_in.stop_listening()
    stand_in.close_connections()
    assert process.wait(WITHIN_S) == -signal.SIGKILL or habit == "ends-itself"  # which may be quicker
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


@pytest.mark.parametrize("kind", ["unix", "abstract", "tcp"])
def test_the_guard_alone_kills_a_stopped_process(kind: str, start: Start, make_stand_in: Make) -> None:
    """Only the guard connections are closed: the lifelines, which a stopped process cannot read anyway, stay open."""
    if kind == "unix":
        stand_in = make_stand_in()
    else:
        listener = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX)
        listener.bind(("127.0.0.1", 0) if kind == "tcp" else f"\0cc-test-{os.getpid()}")
        name = f"tcp:127.0.0.1:{listener.getsockname()[1]}" if kind == "tcp" else f"abstract:cc-test-{os.getpid()}"
        stand_in = make_stand_in(listener=listener, address=name)
    process = start("deaf", "daemon", to=stand_in)
    pids = [stand_in.until("working", role).pid for role in ("leader", "daemon")]
    stand_in.until_guards(2)
    stop(*pids)
    assert process.poll() is None
    stand_in.drop_guards()
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


def test_words_of_the_recorder_do_not_trip_the_guard(start: Start, stand_in: StandIn) -> None:
    process = start("deaf", to=stand_in)
    stand_in.until("working")
    stand_in.until_guards(1)
    for count in range(1, 21):
        stand_in.tell(process.pid, "notice")
        stand_in.until("notice", count=count)
    assert process.poll() is None


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_the_lifetime_ends_every_process(is_stopped: bool, start: Start, stand_in: StandIn) -> None:
    began_s = time.monotonic()
    process = start(*ALL, to=stand_in, more=("--lifetime", "1.2"))
    pids = working_pids(stand_in)
    if is_stopped:
        stop(*pids)
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    assert time.monotonic() - began_s >= 1.2
    until(lambda: all(is_dead(pid) for pid in pids), "all of them dead")


def test_without_ctypes_the_alarm_is_the_cap(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "ctypes.py").write_text("raise ImportError('not built')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.path.append({str(Path(__file__).parents[2])!r})\n"
        "from uncooperative_runner.command import run; run(sys.argv[1:])"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, "--habit", "deaf", "--recorder", stand_in.addresses[0], "--token", TOKEN]
    with subprocess.Popen([*argv, "--lifetime", "0.9"], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        stand_in.until("working")
        assert process.wait(WITHIN_S) == -signal.SIGALRM


@pytest.mark.parametrize("habit", ["frozen", "main-thread-gone"])
def test_what_cannot_be_proven_or_capped_as_the_first_process_of_a_namespace_is_not_armed(habit: str, workspace: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace can be made here")
    argv = [*alone, sys.executable, "-I", "-S", str(SCRIPT), "--habit", habit, "--lifetime", "20"]
    done = subprocess.run(argv, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 70
    assert f"unarmed habit={habit} why=" in done.stderr
    assert not list(workspace.iterdir())


def test_by_hand_it_tells_what_it_does_and_how_to_end_it(start: Start, workspace: Path) -> None:
    process = start("deaf", "deaf-child", "daemon", more=("--lifetime", "20"), stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE)
    lines: list[str] = []
    while not lines or not (lines[-1].startswith(f"uncooperative leader {process.pid}") and "works; proven" in lines[-1]):
        lines.append(pipe(process.stderr).readline())
        assert lines[-1], lines
    told = "".join(lines)
    assert "deaf (took its own SIGTERM, SIGINT, SIGHUP, SIGQUIT; all blocked)" in told
    ending = next(line for line in lines if "kill -KILL" in line)
    assert "it ends by itself in 20 s" in ending
    pids = [int(word) for word in ending.split("kill -KILL ")[1].split("(")[0].split()]
    pidfds = [os.pidfd_open(pid) for pid in pids]
    assert [state_of(pid) in "SR" for pid in pids] == [True] * 3
    process.terminate()
    assert f"noticed SIGTERM from pid {os.getpid()}" in pipe(process.stderr).readline()
    pipe(process.stdin).close()
    process.stdin = None
    assert "input-ended" in pipe(process.stderr).readline()
    assert "noticed input ended" in pipe(process.stderr).readline()
    for pidfd in pidfds:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    assert {path.name for path in workspace.iterdir()} == {f"uncooperative-{role}.log" for role in ("leader", "deaf-child", "daemon")}


def test_by_hand_polite_says_goodbye(start: Start) -> None:
    process = start("polite", stderr=subprocess.PIPE, text=True)
    while "works; proven" not in pipe(process.stderr).readline():
        assert process.poll() is None
    process.terminate()
    _, told = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert told.endswith("leaves with status 143: noticed SIGTERM\n")


def test_by_hand_the_lifetime_holds_while_it_is_stopped(start: Start) -> None:
    process = start("deaf", more=("--lifetime", "0.6"), stderr=subprocess.PIPE, text=True)
    while "works; proven" not in pipe(process.stderr).readline():
        pass
    stop(process.pid)
    assert process.wait(WITHIN_S) == -signal.SIGKILL
