"""The recorder as a whole, with real runners and real wrappers: what it writes down, and what it ends."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder, RecorderFailed, SpawnFailed
from pytest_cancelcontract.recorder.clock import Clock, Lateness
from pytest_cancelcontract.recorder.server import serve
from tests.conftest import STAMP, stamped
from tests.recorder.conftest import TERMS, header

FORWARDS = """
import os, signal, subprocess, sys
runner = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: runner.send_signal(signal.SIGTERM))
sys.exit(3 if runner.wait() else 0)
"""
DEAF_TO_TERM = "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); subprocess.Popen(sys.argv[1:]).wait()"


Begin = Callable[..., OpenDrill]


@pytest.fixture
def begin(recorder: Recorder, tmp_path: Path) -> Begin:
    def go(*habits: str, program: str = FORWARDS) -> OpenDrill:
        drill = recorder.open_drill(header=header(habits[0]), habits=habits, terms=TERMS, history=tmp_path / "h.jsonl")
        spawned = drill.run.spawn([sys.executable, "-c", program, *drill.run.argv])
        state = recorder.wait(drill, "working-or-exited", at_most_s=20).state
        assert state["working"], (state, spawned.output.read_text())
        return drill

    return go


def test_a_recorder_that_can_look_no_more_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it does not see any more must not be taken for what is not there."""

    def fails(_self: Clock) -> Lateness:
        raise RuntimeError("no clock")

    monkeypatch.setattr(Clock, "take", fails)
    me = process_table.identity_of(os.getpid())
    assert me is not None
    ours, its = socket.socketpair()
    with ours, its, pytest.raises(RuntimeError, match="no clock"):
        asyncio.run(asyncio.wait_for(serve(its, me, None, tmp_path), timeout=20))


def press(recorder: Recorder, drill: OpenDrill, pid: int, number: int = signal.SIGTERM) -> None:
    recorder.observe(drill, "adapter", "pressed", trigger=True, how="signal")
    os.kill(pid, number)
    recorder.observe(drill, "adapter", "cancel-returned", error=None)


def wrapper_pid(recorder: Recorder, drill: OpenDrill) -> int:
    pid: int = recorder.wait(drill, "working", at_most_s=20).state["wrapper"]["pid"]
    return pid


def end(recorder: Recorder, drill: OpenDrill) -> History:
    recorder.finish(drill, "test")
    recorder.discard(drill)
    return load(drill.history)


def kinds(history: History) -> set[str]:
    return {f"{seen.witness}.{seen.kind}" for seen in history.observations}


def test_a_polite_drill_is_on_disk_with_every_witness(recorder: Recorder, begin: Begin) -> None:
    drill = begin("polite")
    press(recorder, drill, wrapper_pid(recorder, drill))
    over = recorder.wait(drill, "over", at_most_s=20)
    history = end(recorder, drill)
    assert over.reached
    assert over.state["reported"] == "cancelled"
    assert kinds(history) >= {
        "lifeline.hello",
        "lifeline.working",
        "lifeline.notice",
        "lifeline.goodbye",
        "lifeline.closed",
        "process-table.held",
        "process-table.died",
        "process-table.look",
        "process-table.spawned",
        "process-table.wrapper-exited",
        "workspace.opened",
        "workspace.look",
        "workspace.stamp",
        "outcome.answer",
        "adapter.pressed",
        "clock.lateness",
        "drill.ended",
    }
    notice = history.first("lifeline", "notice")
    assert notice is not None
    assert (notice.data["by"], notice.data["from_pid"]) == ("SIGTERM", notice.data["from_pid"])
    looks = {seen.data["moment"] for seen in history.of("process-table", "look")}
    assert looks >= {"pressed", "reported", "handover", "end"}


def test_a_survivor_is_seen_at_the_deadline_and_its_late_writes_bear_its_pid(recorder: Recorder, begin: Begin) -> None:
    drill = begin("own-session-child")
    press(recorder, drill, wrapper_pid(recorder, drill))
    state = recorder.wait(drill, "over", at_most_s=20).state
    assert [one["role"] for one in state["alive"]] == ["own-session-child"]
    survivor = Identity.parse(state["alive"][0]["subject"])
    history = end(recorder, drill)
    deadline = next(seen for seen in history.of("process-table", "look") if seen.data["moment"] == "deadline")
    assert [row["role"] for row in deadline.data["processes"] if row["alive"]] == ["own-session-child"]
    assert {row["pid"] for seen in history.of("workspace", "changed") for row in seen.data["writers"]} == {survivor.pid}
    reaped = history.last("drill", "reaped")
    assert reaped is not None
    assert [row["subject"] for row in reaped.data["processes"]] == [str(survivor)]
    assert process_table.sight(survivor).alive is False


def test_what_a_wrapper_starts_and_detaches_is_ended_with_the_drill(recorder: Recorder, begin: Begin) -> None:
    program = "import os, subprocess, sys; subprocess.Popen(['sleep', '300'], start_new_session=True); os.execv(sys.argv[1], sys.argv[1:])"
    drill = begin("polite", program=program)
    until = time.monotonic() + 10
    while not any("sleep 300" in command for command in stamped(os.environ[STAMP]).values()):
        assert time.monotonic() < until
    sleeper = next(identity for identity, command in stamped(os.environ[STAMP]).items() if "sleep 300" in command)
    recorder.wait(drill, "wrapper-exited", at_most_s=0.2)  # lets the sampling of descent come round
    recorder.finish(drill, "test")
    assert process_table.sight(sleeper).alive is False


def test_a_notice_before_the_press_is_stray(recorder: Recorder, begin: Begin) -> None:
    drill = begin("deaf")
    os.kill(wrapper_pid(recorder, drill), signal.SIGTERM)
    runner = Identity.parse(recorder.wait(drill, "working", at_most_s=5).state["alive"][0]["subject"])
    until = time.monotonic() + 10
    while not (stray := recorder.wait(drill, "over", at_most_s=0.05).state["stray"]):
        assert time.monotonic() < until
    assert f"SIGTERM to leader {runner}" in stray[0]


def test_a_hello_without_a_valid_token_is_refused_and_recorded(recorder: Recorder, begin: Begin) -> None:
    drill = begin("polite")
    stranger = list(drill.run.argv)
    stranger[stranger.index("--token") + 1] = "somebody-elses"
    refused = subprocess.run(stranger, cwd=drill.run.workspace, capture_output=True, text=True, timeout=20)
    assert refused.returncode == 70
    assert "refused" in refused.stderr
    seen = end(recorder, drill).first("lifeline", "refused")
    assert seen is not None
    assert "token" in seen.data["reason"]


def test_a_runner_of_a_drill_that_has_ended_is_refused(recorder: Recorder, begin: Begin, tmp_path: Path) -> None:
    drill = begin("polite")
    recorder.finish(drill, "test")
    late = subprocess.run(drill.run.argv, cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert late.returncode == 70


def test_a_claimed_pid_is_never_looked_up(recorder: Recorder, tmp_path: Path) -> None:
    """A peer over TCP says that it is this very test process; it is refused, and this process is not held."""
    drill = recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
    argv = drill.run.argv
    address = next(word for word in argv if word.startswith("tcp:"))
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    token = argv[argv.index("--token") + 1]
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(f'{{"say":"hello","token":"{token}","role":"leader","pid":{os.getpid()},"cwd":"/","at_s":0}}\n'.encode())
        assert link.recv(200).startswith(b"refused")
    assert recorder.finish(drill, "test") == []
    history = load(drill.history)
    assert not list(history.of("process-table", "held"))
    assert "TCP" in str(next(history.of("drill", "problem")).data["what"])


def test_a_command_that_does_not_exist_is_named(recorder: Recorder, tmp_path: Path) -> None:
    drill = recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
    with pytest.raises(SpawnFailed, match="cannot start '/no/such/program': No such file"):
        drill.run.spawn(["/no/such/program"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_history_that_cannot_be_written_is_an_error_that_names_it(recorder: Recorder) -> None:
    with pytest.raises(RecorderFailed, match="cannot write the history /dev/full: No space left"):
        recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=Path("/dev/full"))


def test_a_root_too_long_for_a_socket_still_serves(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    recorder = Recorder.start(long)
    try:
        drill = recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
        assert not any(word.startswith("unix:") for word in drill.run.argv)
        drill.run.spawn(drill.run.argv)
        assert recorder.wait(drill, "working-or-exited", at_most_s=20).state["working"]
    finally:
        recorder.close()
    assert list(long.iterdir()) == []


def test_a_workspace_that_vanishes_is_seen_as_gone(recorder: Recorder, begin: Begin) -> None:
    drill = begin("deaf")
    drill.run.workspace.rename(drill.run.workspace.with_name("moved"))
    press(recorder, drill, wrapper_pid(recorder, drill))
    recorder.wait(drill, "over", at_most_s=20)
    looks = [seen.data for seen in end(recorder, drill).of("workspace", "look")]
    assert {look["moment"] for look in looks} >= {"handover", "end"}


HOST = f"""
import os, signal, sys
from pathlib import Path
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms
fork, stop = sys.argv[2] == "fork", sys.argv[3] == "stop"
recorder = Recorder.start()
head = dict(scenario="deaf", run_id="r", task_id="t", wrapper="w", capabilities=["exit"], attempt=1)
drills = []
for number, habits in enumerate((["deaf"], ["daemon"], ["own-session-child"])):
    drill = recorder.open_drill(header=head, habits=habits, terms=settle_terms({{}}), history=Path(sys.argv[1]) / f"{{number}}.jsonl")
    drill.run.spawn([sys.executable, "-c", {DEAF_TO_TERM!r}, *drill.run.argv])
    drills.append(drill)
for drill in drills:
    state = recorder.wait(drill, "working-or-exited", at_most_s=20).state
    assert state["working"], state
    if stop:
        for one in state["alive"]:
            os.kill(int(one["subject"].split(":")[0]), signal.SIGSTOP)
if fork and os.fork() == 0:
    del os.environ["{STAMP}"]
    os.execv("/bin/sh", ["sh", "-c", "exec sleep 10"])
print("ready", recorder.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("fork", ["fork", "alone"])
@pytest.mark.parametrize("stop", ["stop", "run"])
def test_when_pytest_is_killed_everything_of_every_drill_is_gone_within_two_seconds(tmp_path: Path, fork: str, stop: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path), fork, stop], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    ready = host.stdout.readline().split()
    assert ready[:1] == ["ready"]
    # Three wrappers, five runner processes, the recorder and the host itself.
    assert len(stamped(os.environ[STAMP])) >= 3 + 5 + 1 + 1
    host.kill()
    host.stdout.close()
    host.wait()
    until = time.monotonic() + 2.0
    while left := stamped(os.environ[STAMP]):
        assert time.monotonic() < until, left


def test_a_recorder_that_is_killed_takes_its_runners_with_it(begin: Begin, recorder: Recorder) -> None:
    """Its sockets end with it, stopped runners included; the wrapper then has nothing left to wait for."""
    drill = begin("deaf-child")
    state = recorder.wait(drill, "working", at_most_s=5).state
    pidfds = []
    for one in state["alive"]:
        pidfd = process_table.open_pidfd(Identity.parse(one["subject"]))
        assert pidfd is not None
        os.kill(Identity.parse(one["subject"]).pid, signal.SIGSTOP)
        pidfds.append(pidfd)
    os.kill(recorder.pid, signal.SIGKILL)
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 2)[0]
        os.close(pidfd)
    with pytest.raises(RecorderFailed):
        recorder.ask("ping")


def test_when_the_recorder_is_killed_the_plugin_ends_the_wrappers(begin: Begin, recorder: Recorder) -> None:
    begin("deaf", program="import signal, subprocess, sys; subprocess.Popen(sys.argv[1:]).wait(); print(flush=True); signal.pause()")
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.close()  # what the leak guard then finds would be the wrapper


def test_the_recorder_is_deaf_to_the_terminals_signals_and_hands_none_of_that_on(recorder: Recorder, begin: Begin) -> None:
    program = FORWARDS + "# the runner is started with what the wrapper got"
    os.kill(recorder.pid, signal.SIGINT)
    os.kill(recorder.pid, signal.SIGHUP)
    drill = begin("deaf", program=program)
    pid = wrapper_pid(recorder, drill)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    ignored = int(status["SigIgn"], 16)
    assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGHUP - 1) | 1 << (signal.SIGTERM - 1))


NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"]


needs_namespace = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0,
    reason="this machine does not allow a PID namespace of one's own (unshare --pid)",
)


@needs_namespace
@pytest.mark.parametrize("habit", ["deaf-child", "own-session-child", "daemon", "pipe-holder"])
def test_processes_of_a_pid_namespace_are_held_by_the_pids_that_they_have_here(recorder: Recorder, tmp_path: Path, habit: str) -> None:
    drill = recorder.open_drill(header=header(habit), habits=[habit], terms=TERMS, history=tmp_path / "h.jsonl")
    spawned = drill.run.spawn([*NAMESPACE, *drill.run.argv])
    state = recorder.wait(drill, "working-or-exited", at_most_s=20).state
    assert state["working"], (state, spawned.output.read_text())
    said = {seen.subject: seen.data["pid"] for seen in load(drill.history).of("lifeline", "hello")}
    assert len(said) == 2
    assert all(Identity.parse(subject).pid != pid for subject, pid in said.items())
    commands = [stamped(os.environ[STAMP])[Identity.parse(subject)] for subject in said]
    assert all("uncooperative_runner" in command for command in commands)


HOPS = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
for descriptor in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
for hop in range(200):
    if os.fork():
        os._exit(0)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.execvp("sleep", ["sleep", "300"])
"""
"""Changes its pid faster than anybody can look, in a session of its own, while its command is over."""


def test_what_detaches_at_once_is_ended_too(recorder: Recorder, tmp_path: Path) -> None:
    """Its parents are gone before descent can be sampled; the command's stamp in its environment tells whose it is."""
    drill = recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
    pid_file = tmp_path / "pid"
    ran = drill.run.command([sys.executable, "-c", HOPS, str(pid_file)], at_most_s=10)
    assert ran.status == 0
    until = time.monotonic() + 10
    while not pid_file.exists():
        assert time.monotonic() < until
    sleeper = process_table.identity_of(int(pid_file.read_text()))
    assert sleeper is not None
    recorder.finish(drill, "test")
    assert process_table.sight(sleeper).alive is False


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(recorder: Recorder, tmp_path: Path) -> None:
    drill = recorder.open_drill(header=header("polite"), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
    ran = drill.run.command(["sh", "-c", "sleep 300 & echo begun; wait"], at_most_s=0.3)
    assert (ran.status, ran.output.read_text()) == (None, "begun\n")
    assert not [command for command in stamped(os.environ[STAMP]).values() if "sleep 300" in command]


POPEN_HOST = """
import subprocess, sys
from pathlib import Path
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms
recorder = Recorder.start()
head = dict(scenario="deaf", run_id="r", task_id="t", wrapper="w", capabilities=[], attempt=1)
drill = recorder.open_drill(header=head, habits=["deaf"], terms=settle_terms({}), history=Path(sys.argv[1]) / "h.jsonl")
shell = ["sh", "-c", 'trap "" TERM; "$@"; sleep 300', "sh"]
wrapper = subprocess.Popen([*shell, *drill.run.argv], cwd=drill.run.workspace, stdout=subprocess.DEVNULL, start_new_session=True)
assert recorder.wait(drill, "working", at_most_s=20).state["working"]
print("ready", flush=True)
sys.stdin.read()
recorder.finish(drill, "test")
print("finished", wrapper.poll(), flush=True)
sys.stdin.read()
wrapper.kill()
wrapper.wait()
recorder.close()
"""


def test_a_wrapper_that_the_adapter_started_itself_goes_with_a_killed_pytest(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", POPEN_HOST, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    host.kill()
    host.communicate()
    until = time.monotonic() + 2.0
    while left := stamped(os.environ[STAMP]):
        assert time.monotonic() < until, left


@needs_namespace
def test_the_first_process_of_a_pid_namespace_ends_with_its_recorder_and_with_its_lifetime(
    begin: Begin, recorder: Recorder, tmp_path: Path
) -> None:
    """No signal from inside its namespace ends it, its own included, so it has to leave by itself."""
    drill = begin("deaf", program="import os, sys; os.execvp('unshare', ['unshare', '--pid', '--fork', *sys.argv[1:]])")
    subject = recorder.wait(drill, "working", at_most_s=5).state["alive"][0]["subject"]
    pidfd = process_table.open_pidfd(Identity.parse(subject))
    assert pidfd is not None
    os.kill(recorder.pid, signal.SIGKILL)
    assert select.select([pidfd], [], [], 5)[0]
    os.close(pidfd)
    runner = drill.run.argv[3]
    command = [*NAMESPACE, sys.executable, "-I", "-S", runner, "--habit", "deaf", "--lifetime", "0.5"]
    assert subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=20).returncode != 0


def test_a_pytest_that_is_killed_while_drills_are_opened_leaves_no_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    program = HOST.replace("Recorder.start()", f"Recorder.start(Path({str(root)!r}))").replace("print(", "print('x') or print(")
    for number in range(6):
        host = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), "alone", "run"], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not list(root.glob("ccd-*/d*")):
            assert time.monotonic() < until
        host.kill()
        host.wait()
        until = time.monotonic() + 4.0
        while left := list(root.iterdir()):
            assert time.monotonic() < until, (number, left)


DAEMON = """
import os, socket, subprocess, sys
# Starts itself at the first call, as job services do, and serves the later ones.
path, argv = sys.argv[1], sys.argv[2:]
link = socket.socket(socket.AF_UNIX)
try:
    link.connect(path)
except OSError:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if os.fork() == 0:
        os.setsid()
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        while True:
            accepted = listener.accept()[0]
            words = accepted.makefile().readline().rstrip("\\n").split("\\0")
            subprocess.Popen(words[1:], cwd=words[0])
            accepted.close()
    link.connect(path)
link.sendall(("\\0".join([os.getcwd(), *argv]) + "\\n").encode())
link.recv(1)
"""


def test_a_service_that_one_drill_started_and_another_uses_lives_until_the_last_of_them_ends(recorder: Recorder, tmp_path: Path) -> None:
    drills = []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        drill = recorder.open_drill(header=header("deaf", ()), habits=["deaf"], terms=TERMS, history=path)
        ran = drill.run.command([sys.executable, "-c", DAEMON, str(tmp_path / "s"), *drill.run.argv], at_most_s=20)
        assert ran.status == 0, ran.output.read_text()
        assert recorder.wait(drill, "working", at_most_s=20).state["working"]
        drills.append(drill)
    first, second = (
        [Identity.parse(one["subject"]) for one in recorder.wait(one, "working", at_most_s=5).state["alive"]] for one in drills
    )
    service = process_table.read_stat(second[0].pid)
    assert service is not None
    daemon = process_table.identity_of(service.ppid)
    assert daemon is not None
    recorder.finish(drills[0], "test")
    assert process_table.sight(first[0]).alive is False
    assert process_table.sight(second[0]).alive is True
    assert process_table.sight(daemon).alive is True
    recorder.finish(drills[1], "test")
    assert process_table.sight(second[0]).alive is False
    assert process_table.sight(daemon).alive is False


def test_init_is_nobodys_wrapper(recorder: Recorder, tmp_path: Path) -> None:
    """The leader's own starter has ended before it says hello; that init does not wait for it is no fault of a wrapper's."""
    drill = recorder.open_drill(header=header("polite", ()), habits=["polite"], terms=TERMS, history=tmp_path / "h.jsonl")
    words = shlex.join(drill.run.argv)
    drill.run.command(["sh", "-c", f"(sleep 0.2; exec {words}) > /dev/null 2>&1 &"], at_most_s=20)
    state = recorder.wait(drill, "working", at_most_s=20).state
    press(recorder, drill, Identity.parse(state["alive"][0]["subject"]).pid)
    recorder.wait(drill, "over", at_most_s=20)
    checks = {check.clause: check for check in judge(end(recorder, drill))}
    assert checks["no-zombies"].verdict == "kept", checks["no-zombies"].finding.observed
