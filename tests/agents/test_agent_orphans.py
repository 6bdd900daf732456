"""Who loses its parent below an agent: found as the agent's however it detached, and waited for; and what the launcher of an agent is."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.agents.report import lines
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder, SpawnFailed
from pytest_cancelcontract.recorder.plan import Plan
from tests.agents.conftest import TERMS, Try, program
from tests.agents.test_agent_found import agent_with, held_as, survivors

WITHIN_S = 20.0
STRIPPED = """
import os, sys
SLEEPS = "import sys, time; open('/proc/self/comm', 'w').write(sys.argv[1]); time.sleep(60)"
for name in sys.argv[1:]:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir('/')
            os.closerange(0, 64)
            os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', SLEEPS, name], {})
        os._exit(0)
    os.wait()
"""
"""Nothing tells whose these are: no parent, no session, no environment, no folder and no descriptor."""
NAMES = [f"stripped-{number}" for number in range(5)]


def test_an_orphan_that_stripped_itself_of_everything_is_found_by_adoption(tries: Try, tmp_path: Path) -> None:
    """Several of them: one alone may by chance be seen in the millisecond before it has let go."""
    tool = tmp_path / "tool.py"
    tool.write_text(STRIPPED)
    runs_it = f"import subprocess; subprocess.run([sys.executable, '-I', '-S', {str(tool)!r}, *{NAMES!r}])"
    result = tries(program(agent_with(tmp_path, runs_it)), "streaming-term")
    found = {name: held_as(result.history, name) for name in NAMES}
    means = {str(one.data["by"]) for one in found.values() if one is not None}
    assert None not in found.values()
    assert "adoption" in means and means <= {"adoption", "its environment", "its session", "descent"}
    assert survivors(result.history) == set(NAMES)
    assert "no-survivors" in result.broken
    assert any("found by adoption" in line for line in lines(result))


# ---------------------------------------------------------------------- a launcher, without a trial around it

Begin = Callable[..., tuple[OpenDrill, int]]


@pytest.fixture
def begin(recorder: Recorder, tmp_path: Path) -> Begin:
    """Start a command as an agent, or as a wrapper; the drill and the pid."""

    def go(*argv: str, agent: bool = True, cwd: Path | None = None) -> tuple[OpenDrill, int]:
        header = {"scenario": "agent", "run_id": "r", "task_id": "t", "wrapper": "test", "capabilities": ["exit"], "attempt": 1}
        history = tmp_path / f"{agent}.jsonl"
        drill = recorder.open_drill(header=header, habits=["agent"], terms=TERMS, history=history, plan=Plan(agent=agent))
        return drill, drill.run.spawn(list(argv), cwd=cwd or drill.run.workspace, env=drill.run.env).pid

    return go


def stat_of(pid: int) -> process_table.Stat:
    """What the process table says of a process that is there, dead or alive."""
    stat = process_table.read_stat(pid)
    assert stat is not None
    return stat


def until(happened: Callable[[], object], what: str) -> None:
    """Poll until something has happened."""
    ends_s = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < ends_s, what
        time.sleep(0.005)


def read_when_there(path: Path) -> str:
    """What a process has written, once its whole line is there."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} was not written")
    return path.read_text()


def is_gone(pid: int) -> bool:
    """Nobody has this pid, not even somebody who is dead and was not waited for."""
    return not Path(f"/proc/{pid}").exists()


@contextlib.contextmanager
def watched(*pids: int) -> Iterator[Callable[[], list[int]]]:
    """Which of these processes live, by pidfds that are taken now."""
    held = {pid: os.pidfd_open(pid) for pid in pids}
    try:
        yield lambda: [pid for pid, pidfd in held.items() if not select.select([pidfd], [], [], 0)[0]]
    finally:
        for pidfd in held.values():
            os.close(pidfd)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
    ids=["well", "by a status", "by TERM", "by KILL"],
)
def test_how_an_agent_has_ended_is_told_as_it_was(recorder: Recorder, begin: Begin, code: str, status: int) -> None:
    drill, pid = begin(sys.executable, "-I", "-S", "-c", code)
    seen = recorder.wait(drill, "wrapper-exited", at_most_s=WITHIN_S).state["wrapper"]
    assert seen == {"pid": pid, "exited": True, "status": status}
    assert stat_of(pid).state == "Z"  # its pid is nobody else's until the drill is over
    recorder.finish(drill, "over")
    until(lambda: is_gone(pid), "the agent was not waited for")


def test_a_failed_start_names_what_is_missing_as_for_any_command(begin: Begin, tmp_path: Path) -> None:
    no_program = tmp_path / "no-program"
    no_program.write_text("")
    for argv, cwd in ((["no-such-agent"], None), ([str(no_program)], None), (["sleep", "60"], tmp_path / "no-folder")):
        told = []
        for agent in (True, False):
            with pytest.raises(SpawnFailed) as refused:
                begin(*argv, agent=agent, cwd=cwd)
            told.append(str(refused.value))
        assert told[0] == told[1]
    assert told[0] == f"cannot start {str(tmp_path / 'no-folder')!r}: No such file or directory"


def test_an_agent_gets_what_any_command_gets(begin: Begin) -> None:
    """And stands alone in its session and group, as any command; only its parent is another one."""
    seen = []
    for agent in (True, False):
        _, pid = begin("sh", "-c", "kill -STOP $$; :", agent=agent)
        until(lambda pid=pid: stat_of(pid).state == "T", "it did not come to where it stops")  # type: ignore[misc]
        place, stat = Path("/proc", str(pid)), stat_of(pid)
        assert stat.pgid == stat.sid == pid
        status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
        environment = {line.partition("=")[0] for line in (place / "environ").read_text().split("\0")}
        links = {one.name: re.sub(".*/output-.*", "output", str(one.readlink())) for one in (place / "fd").iterdir()}
        wanted = [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "Umask", "CapEff", "NoNewPrivs", "Seccomp")]
        seen.append((links, wanted, environment, (place / "limits").read_text(), (place / "cmdline").read_bytes()))
    assert seen[0] == seen[1]
    assert seen[0][0] == {"0": "/dev/null", "1": "output", "2": "output"}


ORPHANS = """
import os, sys, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, b"%d\\n" % os.getpid())
        while os.path.exists({lives!r}):
            time.sleep(0.005)
        os._exit(0)
    os._exit(0)
os.wait()
orphan = int(os.read(reading, 99))
open({told!r} + ".new", "w").write("%d\\n" % orphan)
os.rename({told!r} + ".new", {told!r})
{then}
"""


@pytest.mark.parametrize("outlived", [False, True], ids=["while the agent lives", "when the agent is dead"])
def test_an_adopted_orphan_that_ends_is_waited_for(recorder: Recorder, begin: Begin, tmp_path: Path, outlived: bool) -> None:
    """As init would: who waits for a pid to vanish must not wait until the trial is over."""
    lives, told = tmp_path / "lives", tmp_path / "told"
    lives.write_text("")
    code = ORPHANS.format(lives=str(lives), told=str(told), then="os._exit(5)" if outlived else "time.sleep(60)")
    drill, pid = begin(sys.executable, "-I", "-S", "-c", code)
    orphan = int(read_when_there(told))
    assert stat_of(orphan).ppid == stat_of(pid).ppid
    if outlived:
        assert recorder.wait(drill, "wrapper-exited", at_most_s=WITHIN_S).state["wrapper"]["status"] == 5
    lives.unlink()
    until(lambda: is_gone(orphan), "the orphan was not waited for")
    assert not is_gone(pid)
    subjects = {one["subject"] for one in recorder.wait(drill, "over", at_most_s=0.0).state["alive"]}
    assert subjects <= {str(process_table.identity_of(pid))}


def test_the_launcher_is_nobody_of_the_agents_and_stays_where_a_notice_goes_astray(recorder: Recorder, begin: Begin) -> None:
    drill, pid = begin("sleep", "60")
    launcher = stat_of(pid).ppid
    seen = stat_of(launcher)
    assert seen.ppid == recorder.pid and seen.sid not in {pid, recorder.pid} and seen.pgid != pid
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.killpg(seen.pgid, number)
    recorder.signal(drill, "SIGTERM", to="group")
    state = recorder.wait(drill, "wrapper-exited", at_most_s=WITHIN_S).state
    assert state["wrapper"]["status"] == -signal.SIGTERM and state["alive"] == [] and process_table.identity_of(launcher) == seen.identity
    assert recorder.finish(drill, "over") == []
    assert str(seen.identity) not in drill.history.read_text().replace(f'"parent":"{seen.identity}"', "")
    until(lambda: is_gone(launcher), "the launcher was left behind, or not waited for")


def test_a_launcher_that_is_killed_is_told_and_its_agent_is_ended(recorder: Recorder, begin: Begin) -> None:
    drill, pid = begin("sleep", "60")
    identity = process_table.identity_of(pid)
    os.kill(stat_of(pid).ppid, signal.SIGKILL)
    until(lambda: recorder.wait(drill, "over", at_most_s=0.0).state["problems"], "nothing was told")
    assert "how the agent ends is not known" in recorder.wait(drill, "over", at_most_s=0.0).state["problems"][0]
    assert [one["subject"] for one in recorder.finish(drill, "over")] == [str(identity)]


@pytest.mark.parametrize("ends", ["finish", "close"])
def test_an_agent_that_stops_its_parent_again_and_again_holds_nobody_up(recorder: Recorder, begin: Begin, ends: str) -> None:
    drill, pid = begin("sh", "-c", "trap '' TERM; while kill -STOP $PPID; do sleep 0.01; done")
    launcher = stat_of(pid).ppid
    until(lambda: stat_of(launcher).state == "T", "it was not stopped")
    with watched(launcher, pid) as living:
        if ends == "finish":
            recorder.finish(drill, "over")
        else:
            recorder.close()
        until(lambda: not living(), f"left behind: {living()}")


def test_a_launcher_that_is_stopped_goes_on_when_the_recorder_is_killed(recorder: Recorder, begin: Begin) -> None:
    _, pid = begin("sh", "-c", "sleep 0.5; kill -STOP $PPID; sleep 60")
    launcher = stat_of(pid).ppid
    os.kill(recorder.pid, signal.SIGSTOP)  # so that it does not see to it before
    until(lambda: stat_of(launcher).state == "T", "it was not stopped")
    with watched(launcher, pid) as living:
        os.kill(recorder.pid, signal.SIGKILL)
        until(lambda: not living(), f"left behind: {living()}")


def test_nothing_of_an_agent_outlives_a_recorder_that_is_killed(recorder: Recorder, begin: Begin, tmp_path: Path) -> None:
    """Not the orphan either, of which nothing tells whose it is; and nobody else has to see to it."""
    tool = tmp_path / "tool.py"
    tool.write_text(STRIPPED)
    _, pid = begin("sh", "-c", f"trap '' TERM HUP INT; {sys.executable} -I -S {tool} {NAMES[0]}; echo done >done; sleep 60; :")
    launcher = stat_of(pid).ppid
    read_when_there(Path(f"/proc/{pid}/cwd/done"))
    orphan = next(one for one in process_table.all_processes().values() if one.ppid == launcher and one.identity.pid != pid)
    with watched(launcher, pid, orphan.identity.pid) as living:
        assert len(living()) == 3
        os.kill(recorder.pid, signal.SIGKILL)
        until(lambda: not living(), f"left behind: {living()}")


def test_an_agent_that_is_started_while_everything_ends_is_not_left_behind(tmp_path: Path) -> None:
    """The recorder is told to go in the middle of the start; the leak guard looks for what is left."""
    one = Recorder.start()
    header = {"scenario": "agent", "run_id": "r", "task_id": "t", "wrapper": "test", "capabilities": ["exit"], "attempt": 1}
    drill = one.open_drill(header=header, habits=["agent"], terms=TERMS, history=tmp_path / "h.jsonl", plan=Plan(agent=True))
    given = {"argv": ["sleep", "60"], "cwd": "/", "env": dict(os.environ), "role": "", "run": "first"}
    one._send({"id": 0, "method": "spawn", "params": {"drill": drill.id, **given}})
    one.close()
    assert not [seen for seen in process_table.all_processes().values() if seen.ppid == one.pid]
