"""Whom the recorder finds of an agent, by which means, and whom it leaves alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cancelcontract.agents.report import facts_of
from pytest_cancelcontract.clauses.no_survivors import allowed
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.roll import Member, Roll
from tests.agents.conftest import Try, program, sample

STREAMS = """
import os, sys
sys.path.insert(0, {samples!r})
from _agent import Agent, arguments, leave_at_once
import signal
signal.signal(signal.SIGTERM, leave_at_once)
{before}
Agent(*arguments()).run()
"""
DAEMON = """
import ctypes, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        # Nothing is left of its parents, and its session is its own, when it is looked for the first time.
        {strip}
        open('/proc/self/comm', 'w').write({name!r})
        os.close(writing)
        time.sleep(60)
    os._exit(0)
os.close(writing)
os.wait()
os.read(reading, 1)
"""
SLEEPER = "import time; open('/proc/self/comm', 'w').write({name!r}); print('up', flush=True); time.sleep(60)"


def agent_with(tmp_path: Path, before: str) -> Path:
    """An agent that does something before it asks, and leaves everything at TERM."""
    path = tmp_path / "agent.py"
    path.write_text(STREAMS.format(samples=str(Path(__file__).parents[2] / "fixtures" / "agents"), before=before))
    return path


def held_as(history: History, name: str) -> Observation | None:
    """How the process that bears this name in the end was found."""
    held = {one.subject: one for one in history.of("process-table", "held")}
    named = {one.subject: str(one.data["comm"]) for one in history.of("process-table", "held", "named")}
    return next((held[subject] for subject, comm in named.items() if comm == name), None)


def survivors(history: History) -> set[str]:
    """Who had to be ended in the end, by name."""
    named = {one.subject: str(one.data["comm"]) for one in history.of("process-table", "held", "named")}
    return {named[str(one["subject"])] for seen in history.of("drill", "reaped") for one in seen.data["processes"]}


def test_a_child_is_found_by_descent(tries: Try) -> None:
    history = tries(sample("leaves_its_tools"), "tool-term").history
    found = held_as(history, "agent-tool")
    assert found is not None and found.data["by"] == "descent"


def test_a_double_fork_that_nobody_saw_is_found_by_its_environment(tries: Try, tmp_path: Path) -> None:
    result = tries(program(agent_with(tmp_path, DAEMON.format(strip="", name="lost-daemon"))), "streaming-term")
    found = held_as(result.history, "lost-daemon")
    assert found is not None and found.data["by"] in {"its environment", "descent"}
    assert "lost-daemon" in survivors(result.history)
    assert "no-survivors" in result.broken


def test_a_child_without_the_stamp_is_found_by_descent(tries: Try, tmp_path: Path) -> None:
    start = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {SLEEPER.format(name='bare-child')!r}], env={{}}, stdout=-3)"
    result = tries(program(agent_with(tmp_path, start)), "streaming-term")
    found = held_as(result.history, "bare-child")
    assert found is not None and found.data["by"] == "descent"
    assert "no-survivors" in result.broken


def test_what_stays_in_the_session_is_found_by_it(tries: Try, tmp_path: Path) -> None:
    """Its parent is gone and its environment empty by the first look; the session is the agent's."""
    start = f"""
import subprocess
code = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], env={{}}, stdout=-3)"
subprocess.run([sys.executable, '-S', '-c', code, {SLEEPER.format(name="session-mate")!r}], env={{}})
"""
    result = tries(program(agent_with(tmp_path, start)), "streaming-term")
    found = held_as(result.history, "session-mate")
    assert found is not None and found.data["by"] in {"its session", "descent"}
    assert "session-mate" in survivors(result.history)


def test_a_stranger_that_works_in_the_workspace_is_nobody_of_the_agents(tries: Try, tmp_path: Path) -> None:
    """A process that the agent's folder is the only thing in common with is not accused, and not ended."""
    mailbox = tmp_path / "where"
    os.mkfifo(mailbox)
    code = f"import os, time; os.chdir(open({str(mailbox)!r}).read()); print('there', flush=True); time.sleep(60)"
    stranger = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        tell = f"import os; box = open({str(mailbox)!r}, 'w'); box.write(os.getcwd()); box.close()"
        result = tries(program(agent_with(tmp_path, tell)), "streaming-term")
        assert stranger.stdout is not None and stranger.stdout.readline() == "there\n"
        assert stranger.poll() is None
        assert not any(one.subject.startswith(f"{stranger.pid}:") for one in result.history.of("process-table", "held"))
        assert result.broken == ()
    finally:
        stranger.kill()
        stranger.communicate()


SERVER = """
import json, os, socket, subprocess, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind({socket!r})
listening.listen()
print("up", flush=True)
talking, _ = listening.accept()
environment = json.loads(talking.makefile().readline())
asked_for = [sys.executable, "-c", {asked_for!r}]
own = [sys.executable, "-c", {own!r}]
for command, given in ((asked_for, environment), (own, None)):
    subprocess.Popen(command, env=given, stdout=subprocess.PIPE).stdout.readline()
talking.sendall(b"done\\n")
sys.stdin.read()
"""
ASKS_SERVER = """
import json, socket
talking = socket.socket(socket.AF_UNIX)
talking.connect({socket!r})
talking.sendall(json.dumps(dict(os.environ)).encode() + b"\\n")
talking.recv(9)
"""


def test_a_server_that_was_there_before_is_left_alone_with_all_of_its_session(tries: Try, tmp_path: Path) -> None:
    """It starts something for the agent, with the agent's environment and in its own session, and something of its own as well."""
    place = str(tmp_path / "server")
    code = SERVER.format(socket=place, asked_for=SLEEPER.format(name="asked-for"), own=SLEEPER.format(name="servers-own"))
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert server.stdout is not None and server.stdout.readline() == "up\n"
        result = tries(program(agent_with(tmp_path, ASKS_SERVER.format(socket=place))), "streaming-term")
        found = held_as(result.history, "asked-for")
        assert found is not None and found.data["by"] == "its environment" and found.data["sid"] == server.pid
        assert server.poll() is None
        assert survivors(result.history) == {"asked-for"}
        assert held_as(result.history, "servers-own") is None
        living = {one.comm for one in process_table.all_processes().values() if one.sid == server.pid and one.state not in "ZX"}
        assert "servers-own" in living and "asked-for" not in living
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


BECOMES_ANOTHER = """
import json, os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind({socket!r})
listening.listen()
print("up", flush=True)
talking, _ = listening.accept()
environment = json.loads(talking.makefile().readline())
os.set_inheritable(talking.fileno(), True)
program = "import os, sys, time; os.write(int(sys.argv[1]), b'done'); time.sleep(60)"
os.execve(sys.executable, [sys.executable, "-c", program, str(talking.fileno())], environment)
"""


def test_a_server_that_was_there_before_is_not_ended_though_it_takes_the_stamp(tries: Try, tmp_path: Path) -> None:
    """It goes on as another program, with the agent's environment; it was started before the agent all the same."""
    place = str(tmp_path / "server")
    code = BECOMES_ANOTHER.format(socket=place)
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert server.stdout is not None and server.stdout.readline() == "up\n"
        result = tries(program(agent_with(tmp_path, ASKS_SERVER.format(socket=place))), "streaming-term")
        assert b"CANCELCONTRACT_COMMAND=" in Path(f"/proc/{server.pid}/environ").read_bytes()
        assert server.poll() is None and result.broken == ()
    finally:
        server.kill()
        server.communicate()


WRITER = """
import os, pathlib, sys, time
place = sys.argv[1]
# Nothing tells whose it is: it is not the agent's child, nor in its session, and its environment is empty.
watched = pathlib.Path(place)
while not watched.exists():
    time.sleep(0.01)
pid = int(watched.read_text())
while os.path.exists(f'/proc/{pid}') and open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] != 'Z':
    time.sleep(0.005)
time.sleep(0.1)
open(open(place + '.workspace').read() + '/late.txt', 'w').write('late')
time.sleep(60)
"""


def test_a_late_change_whose_writer_nobody_found_acquits_no_agent(tries: Try, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place)], env={}, start_new_session=True)
    try:
        tell = (
            f"open({str(place)!r} + '.workspace', 'w').write(os.getcwd())\n"
            f"open({str(place)!r} + '.new', 'w').write(str(os.getpid()))\nos.rename({str(place)!r} + '.new', {str(place)!r})"
        )
        result = tries(program(agent_with(tmp_path, tell)), "streaming-term")
        told = next(check.finding for check in result.checks if check.clause == "no-late-writes")
        assert told.verdict is Verdict.INCONCLUSIVE
        assert "late.txt changed after the handover" in told.observed
    finally:
        writer.kill()
        writer.wait()


@pytest.mark.slow
def test_a_helper_that_may_live_on_may_not_write_on(tries: Try) -> None:
    result = tries(sample("leaves_its_tools").allowing({"agent-tool": "it may", "sh": "it waits for it"}), "tool-term")
    assert result.broken == ("no-late-writes",)


def test_an_allowed_helper_is_told_and_accuses_nobody(tries: Try, tmp_path: Path) -> None:
    agent = program(agent_with(tmp_path, DAEMON.format(strip="", name="known-helper")))
    result = tries(agent.allowing({"known-helper": "it serves the next run as well"}), "streaming-term")
    told = next(check.finding.observed for check in result.checks if check.clause == "no-survivors")
    assert result.broken == ()
    assert "allowed to live on: pid " in told and "known-helper): it serves the next run as well" in told
    assert survivors(result.history) == {"known-helper"}  # it is ended with the trial all the same
    assert len(allowed(facts_of(result.history))) == 1


@pytest.mark.slow
def test_a_name_that_is_allowed_and_does_not_live_on_is_not_told(tries: Try) -> None:
    result = tries(sample("ends_its_tools").allowing({"agent-tool": "it may"}), "tool-term")
    assert allowed(facts_of(result.history)) == []


def test_what_starts_after_all_are_dead_is_a_new_attempt() -> None:
    """And what was started before the last one died, but found later, is of the old one."""
    roll = Roll("token")
    first, second = (subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2))
    try:
        one, other = (_held(process.pid) for process in (first, second))
        attempt = roll.attempt_of_found(one.identity)
        roll.members[one.identity] = member = Member(one, "leader", attempt)
        assert roll.attempt_of_found(other.identity) is attempt  # while the first lives
        member.died_s = time.monotonic()
        assert roll.attempt_of_found(other.identity) is attempt  # it was there before
        member.died_s -= 60
        assert roll.attempt_of_found(other.identity).id != attempt.id
    finally:
        for process in (first, second):
            process.communicate(b"\n")


def _held(pid: int) -> Held:
    identity = process_table.identity_of(pid)
    held = Held.take(identity) if identity is not None else None
    assert isinstance(identity, Identity) and held is not None
    return held
