"""Each habit is shown uncooperative with no wrapper at all: real signals, and the process table asked what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.runner.stand_in import FOUR, TOKEN, Make, StandIn, Start, keeps_writing, log_lines, pipe, send_all_four, state_of, until


@pytest.mark.parametrize("number", FOUR)
def test_polite_ends_at_the_first_notice_and_says_whose_it_was(number: signal.Signals, start: Start, stand_in: StandIn) -> None:
    process = start("polite", to=stand_in)
    stand_in.until("working")
    process.send_signal(number)
    assert process.wait(10) == 128 + number
    notice = stand_in.until("notice").facts
    assert (notice["by"], notice["from_pid"], notice["from_uid"]) == (number.name, os.getpid(), os.getuid())
    assert stand_in.until("goodbye").facts["status"] == 128 + number
    stand_in.until("closed")


def test_exits_zero_does(start: Start, stand_in: StandIn) -> None:
    process = start("exits-zero", to=stand_in)
    stand_in.until("working")
    process.terminate()
    assert process.wait(10) == 0


def test_slow_cleanup_cleans_up_as_long_as_it_was_told_and_writes_nothing_meanwhile(
    start: Start, stand_in: StandIn, workspace: Path
) -> None:
    process = start("slow-cleanup", to=stand_in, more=("--cleanup", "0.3"))
    stand_in.until("working")
    process.terminate()
    began = stand_in.until("cleanup-started").facts["at_s"]
    lines = len(log_lines(workspace))
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert stand_in.until("cleanup-finished").facts["at_s"] - began >= 0.3
    assert len(log_lines(workspace)) == lines
    assert len(stand_in.all("notice")) == 2


def test_endless_cleanup_starts_and_never_ends(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("endless-cleanup", to=stand_in)
    send_all_four(process, stand_in)
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None
    assert len(stand_in.all("cleanup-started")) == 1
    assert not stand_in.all("cleanup-finished")


def test_deaf_notices_all_four_and_goes_on(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("deaf", to=stand_in)
    send_all_four(process, stand_in)
    assert {said.facts["by"] for said in stand_in.all("notice")} == {number.name for number in FOUR}
    assert keeps_writing(workspace, "leader")
    assert process.poll() is None


@pytest.mark.parametrize("role", ["deaf-child", "own-group-child", "own-session-child", "daemon", "pipe-holder"])
def test_the_child_outlives_its_leader_in_the_place_that_it_claims(role: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start(role, to=stand_in)
    child = stand_in.until("working", role).pid
    stand_in.until("working")
    place = (os.getpgid(child), os.getsid(child))
    hello = stand_in.until("hello", role).facts
    assert (hello["pgid"], hello["sid"]) == place
    in_group = role in ("deaf-child", "pipe-holder")
    own = {"own-session-child": (child, child), "own-group-child": (child, process.pid)}
    assert place == own.get(role, (process.pid, process.pid) if in_group else place)
    if role == "daemon":
        assert place[1] not in (child, process.pid)
        assert hello["ppid"] != process.pid
    else:
        assert hello["ppid"] == process.pid
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    if in_group:
        assert stand_in.until("notice", role).facts["from_pid"] == os.getpid()
    assert keeps_writing(workspace, role)
    assert state_of(child) in "SR"
    os.kill(child, signal.SIGTERM)
    stand_in.until("notice", role, count=2 if in_group else 1)
    assert keeps_writing(workspace, role)
    assert {words[2] for words in log_lines(workspace, role)} == {stand_in.until("hello", role).facts["attempt"]}


def test_the_hello_says_who_where_and_how(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("deaf-child", "exits-zero", to=stand_in, stdin=subprocess.PIPE, stdout=subprocess.PIPE, more=("--", b"\xff"))
    stand_in.until("working", "deaf-child")
    hello = stand_in.until("hello").facts
    assert hello["token"] == TOKEN
    assert hello["attempt"] is None
    assert (hello["pid"], hello["ppid"], hello["pgid"], hello["sid"], hello["uid"]) == (
        process.pid,
        os.getpid(),
        process.pid,
        process.pid,
        os.getuid(),
    )
    status = workspace.stat()
    assert (hello["cwd"], hello["cwd_dev"], hello["cwd_ino"]) == (str(workspace), status.st_dev, status.st_ino)
    assert hello["argv"][-1] == "\udcff"
    assert hello["habits"] == ["deaf-child", "exits-zero"]
    assert hello["roles"] == ["leader", "deaf-child"]
    assert (hello["stdin"], hello["stdout_kind"]) == ("open", "pipe")
    child = stand_in.until("hello", "deaf-child").facts
    assert child["attempt"] == "a-1"
    assert (child["stdin"], child["stdout_kind"]) == ("null", "null")
    assert "roles" not in child


def test_working_is_said_with_proofs_and_after_the_first_write(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("pipe-holder", "deaf", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working", "pipe-holder").facts["armed"]
    assert [row["habit"] for row in armed] == ["deaf", "pipe-holder"]
    assert armed[0]["proof"] == "took its own SIGTERM, SIGINT, SIGHUP, SIGQUIT; all blocked"
    assert "holds the leader's standard output, a pipe, and standard error" in armed[1]["proof"]
    assert [row["habit"] for row in stand_in.until("working").facts["armed"]] == ["deaf"]
    wrote = stand_in.until("wrote").facts
    assert (wrote["path"], wrote["count"]) == (str(workspace / "uncooperative-leader.log"), 1)
    assert log_lines(workspace)[0][:2] == ["uncooperative", TOKEN]
    later = stand_in.until("wrote", count=3).facts
    assert later["count"] == 10


def test_probes_are_never_reported_as_notices(start: Start, stand_in: StandIn) -> None:
    start("deaf", "deaf-child", "own-session-child", "daemon", to=stand_in)
    roles = ("leader", "deaf-child", "own-session-child", "daemon")
    for role in roles:
        stand_in.until("wrote", role, count=2)
    assert not [said for role in roles for said in stand_in.all("notice", role)]


def test_a_signal_that_comes_while_it_starts_is_reported(start: Start, make_stand_in: Make) -> None:
    """All four are pending when its own probes begin: none of them may be taken for a probe, or be swallowed by one."""
    stand_in = make_stand_in(answer="")
    process = start("deaf", to=stand_in)
    stand_in.until("hello")
    for number in FOUR:
        process.send_signal(number)
    stand_in.tell(process.pid, "go a-1 work")
    stand_in.until("working")
    stand_in.until("notice", count=4)
    assert {(said.facts["by"], said.facts["from_pid"]) for said in stand_in.all("notice")} == {
        (number.name, os.getpid()) for number in FOUR
    }


def test_signals_that_come_during_the_probes_are_reported_as_ours(start: Start, make_stand_in: Make) -> None:
    """A stream of the four before, during and after the probes: every number is reported, and from us alone."""
    stand_in = make_stand_in(answer="")
    process = start("deaf", to=stand_in)
    stand_in.until("hello")
    stand_in.tell(process.pid, "go a-1 work")
    until_s = time.monotonic() + 10
    while not stand_in.all("working") and time.monotonic() < until_s:
        for number in FOUR:
            process.send_signal(number)
    for number in FOUR:
        process.send_signal(number)
    stand_in.until("working")
    ours = {(number.name, os.getpid()) for number in FOUR}
    until(lambda: {(said.facts["by"], said.facts["from_pid"]) for said in stand_in.all("notice")} == ours, "all four, from us alone")


def test_an_inherited_ignored_hangup_is_noticed_all_the_same(start: Start, stand_in: StandIn) -> None:
    process = start("polite", to=stand_in, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    stand_in.until("working")
    process.send_signal(signal.SIGHUP)
    assert process.wait(10) == 128 + signal.SIGHUP


def test_a_wrapper_that_ignores_the_death_of_children_changes_nothing(start: Start, stand_in: StandIn) -> None:
    start("daemon", to=stand_in, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    stand_in.until("working", "daemon")
    stand_in.until("working")


def test_the_pipe_holder_keeps_stdout_open_after_its_leader_and_others_do_not(start: Start, stand_in: StandIn) -> None:
    process = start("pipe-holder", to=stand_in, stdout=subprocess.PIPE)
    child = stand_in.until("working", "pipe-holder").pid
    stand_in.until("working")
    process.terminate()
    process.wait(10)
    os.set_blocking(pipe(process.stdout).fileno(), False)
    with pytest.raises(BlockingIOError):
        while os.read(pipe(process.stdout).fileno(), 1 << 16):
            pass
    stand_in.tell(child, "end")
    stand_in.until("closed", "pipe-holder")
    os.set_blocking(pipe(process.stdout).fileno(), True)
    assert os.read(pipe(process.stdout).fileno(), 1 << 16) == b""


def test_a_deaf_child_holds_none_of_the_wrappers_pipes(start: Start, stand_in: StandIn) -> None:
    reading, writing = os.pipe()
    process = start("deaf-child", to=stand_in, stdout=writing, pass_fds=(writing,))
    os.close(writing)
    child = stand_in.until("working", "deaf-child").pid
    stand_in.until("working")
    process.terminate()
    process.wait(10)
    while os.read(reading, 1 << 16):
        pass
    os.close(reading)
    assert state_of(child) in "SR"


def test_it_prints_a_line_again_and_again_and_silent_does_not(start: Start, stand_in: StandIn, workspace: Path) -> None:
    with (workspace / "out").open("wb") as out:
        start("deaf", to=stand_in, stdout=out)
        stand_in.until("wrote", count=3)
    lines = (workspace / "out").read_text().splitlines()
    assert len(lines) >= 5
    assert lines[0].endswith("line 1")


def test_silent_prints_nothing(start: Start, stand_in: StandIn) -> None:
    process = start("silent", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert [row["habit"] for row in armed] == ["polite", "silent"]
    stand_in.until("wrote", count=2)
    process.terminate()
    assert process.communicate(timeout=10)[0] == b""


def test_a_pipe_that_nobody_reads_holds_nothing_up(start: Start, stand_in: StandIn, workspace: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    start("deaf", "poison", to=stand_in, stdout=writing)
    stand_in.until("working")
    assert keeps_writing(workspace, "leader")
    os.close(reading)
    os.close(writing)
    assert keeps_writing(workspace, "leader")
    assert not stand_in.all("closed")


def test_the_end_of_its_input_is_passed_on_and_counts_only_if_the_recorder_says_so(
    start: Start, stand_in: StandIn, workspace: Path
) -> None:
    process = start("polite", to=stand_in, stdin=subprocess.PIPE)
    stand_in.until("working")
    pipe(process.stdin).write(b"unread")
    pipe(process.stdin).close()
    process.stdin = None
    stand_in.until("input-ended")
    assert keeps_writing(workspace, "leader")
    stand_in.tell(process.pid, "notice")
    assert process.wait(10) == 129
    notice = stand_in.until("notice").facts
    assert (notice["by"], notice["from_pid"], notice["from_uid"]) == ("input ended", None, None)


@pytest.mark.parametrize("already", ["null", "closed", "ended", "file"])
def test_an_input_that_was_not_open_is_not_watched(already: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    (workspace / "in").touch()
    with (workspace / "in").open() as file:
        stdin: dict[str, int] = {"null": subprocess.DEVNULL, "closed": subprocess.DEVNULL, "ended": reading, "file": file.fileno()}
        close_it = (lambda: os.close(0)) if already == "closed" else None
        start("polite", to=stand_in, stdin=stdin[already], preexec_fn=close_it)
    os.close(reading)
    assert stand_in.until("hello").facts["stdin"] == already
    stand_in.until("wrote", count=2)
    assert not stand_in.all("input-ended")


def test_a_workspace_that_is_taken_away_is_made_again(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("deaf", to=stand_in)
    stand_in.until("working")
    workspace.rename(workspace.with_name("moved"))
    until((workspace / "uncooperative-leader.log").exists, "the folder is there again")


def test_a_workspace_that_cannot_be_written_leaves_it_unarmed(start: Start, stand_in: StandIn, workspace: Path) -> None:
    (workspace / "uncooperative-leader.log").mkdir()
    process = start("deaf", to=stand_in)
    unarmed = stand_in.until("unarmed").facts
    assert unarmed["habit"] == "writes"
    assert "uncooperative-leader.log" in unarmed["why"]
    assert process.wait(10) == 70
    assert not stand_in.all("working")


def test_heavy_children_have_touched_their_memory(start: Start, stand_in: StandIn) -> None:
    process = start("heavy-children", to=stand_in)
    for number in range(1, 5):
        child = stand_in.until("working", f"heavy-child-{number}").pid
        resident_pages = int(Path(f"/proc/{child}/statm").read_text().split()[1])
        assert resident_pages * os.sysconf("SC_PAGE_SIZE") > 100 * 1024 * 1024
        assert os.getpgid(child) == process.pid


def test_polite_works_and_ends_on_every_interpreter(interpreter: str, start: Start, stand_in: StandIn) -> None:
    process = start("polite", "daemon", "pipe-holder", to=stand_in, python=interpreter, stderr=subprocess.PIPE)
    assert stand_in.until("hello").facts["python"].startswith("3.")
    for role in ("leader", "daemon", "pipe-holder"):
        stand_in.until("working", role)
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert state_of(stand_in.until("hello", "daemon").pid) in "SR"
    for role in ("daemon", "pipe-holder"):
        stand_in.tell(stand_in.until("hello", role).pid, "end")
    assert pipe(process.stderr).read() == b""
