"""What hides a process from others is seen by the recorder all the same: it said hello, is held, and its life and its death are seen.

What the recorder says is checked against the tests' own reading of the process table (hidden_table.py).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recorder import hidden_table
from tests.recorder.conftest import Open
from tests.recorder.hidden_drill import Drill
from tests.recorder.hidden_places import (
    FIRST_OF_ALL,
    FIRST_WITH_PROC,
    MOVED_WORKSPACE,
    NEEDS_OF_RECORDER,
    NEEDS_OF_RUNNER,
    OTHER_USER,
    OTHER_WORKSPACE,
    PATH_OF_RECORDER,
    PLACES,
    PLAIN,
    UNREACHABLE,
    Place,
    why_not,
)
from tests.runner.stand_in import stop, until

HABITS = ("deaf", "own-session-child", "daemon")
ENDS_WITH_RECORDER_S = 2.0
BARE_ENDS_WITH_RECORDER_S = 3.0
STAYS_GONE_S = 0.5


@pytest.fixture(params=PLACES, ids=lambda place: place.name)
def place(request: pytest.FixtureRequest) -> Place:
    """Every place that this machine allows."""
    one: Place = request.param
    return allowed(one)


def allowed(place: Place, needs: str = NEEDS_OF_RUNNER) -> Place:
    """The place, where this machine allows it."""
    if why := why_not(place, needs):
        pytest.skip(why)
    return place


def put(drill: Drill, place: Place, own: Path) -> None:
    """Start the drill's runner there."""
    drill.start(*place.way_from(drill.run.folder.parent, own))


def kill_and_see_dead(drill: Drill, one: hidden_table.Row) -> None:
    """Kill a process from here; the death is in the process table, and noted."""
    killed_s = time.monotonic()
    os.kill(one.pid, signal.SIGKILL)
    until(lambda: one.subject not in drill.living(), f"the death of {one}")
    assert drill.until_noted("process-table", "died", subject=one.subject).at_s >= killed_s


def stays_gone(drill: Drill) -> None:
    """Nothing of the run is there, or comes."""
    until_s = time.monotonic() + STAYS_GONE_S
    while time.monotonic() < until_s:
        assert drill.living() == {}


# --- Places -----------------------------------------------------------------------------------------------------------


def test_a_hidden_runner_is_seen_from_its_hello_to_its_death(open_drill: Open, place: Place, tmp_path: Path) -> None:
    drill = open_drill(*HABITS)
    put(drill, place, tmp_path)
    living = drill.living()
    assert len(living) == 3
    assert [row.pid for row in living.values() if not place.is_there(row.pid)] == []
    assert drill.subjects("lifeline", "hello") == drill.subjects("process-table", "held") == set(living)

    leader, daemon = drill.of_role("leader"), drill.of_role("daemon")
    drill.press(leader.pid)
    notice = drill.until_noted("lifeline", "notice", subject=leader.subject)
    assert notice.data["from_pid"] in {os.getpid(), 0}, "0 is what a process outside of a PID namespace is called in it"
    kill_and_see_dead(drill, daemon)
    assert drill.subjects("process-table", "died") == {daemon.subject}
    told = [(seen.at_s, seen.data.get("said_at_s")) for seen in drill.history().of("lifeline")]
    assert [one for one in told if one[1] is not None and abs(one[1] - one[0]) > 10] == [], "a time of another clock is not believed"

    assert drill.finish() == set(living) - {daemon.subject}
    assert drill.living() == {}
    end = drill.noted("process-table", "look", moment="end")[0]
    assert {row["subject"] for row in end.data["processes"] if row["alive"]} == set(living) - {daemon.subject}


def test_a_runner_that_reaches_no_address_is_not_seen_and_ends_at_once(open_drill: Open, tmp_path: Path) -> None:
    """As in a container with a network of its own, into which the drills' folder is not mounted."""
    drill = open_drill("deaf")
    way = allowed(UNREACHABLE).way_from(drill.run.folder.parent, tmp_path)
    ran = subprocess.run([*way, *drill.run.argv], cwd=drill.run.workspace, capture_output=True, text=True, timeout=20)
    assert ran.returncode == 70
    assert "no recorder answers: unix:" in ran.stderr
    assert drill.noted("lifeline", "hello") == []


def test_a_workspace_that_is_another_one_outside_of_its_mount_namespace_is_told(open_drill: Open, tmp_path: Path) -> None:
    drill = open_drill("deaf")
    drill.run.spawn([*allowed(OTHER_WORKSPACE).way_from(drill.run.folder.parent, tmp_path), *drill.run.argv])
    told = drill.until_noted("drill", "problem")
    assert "is another one here (a mount namespace?), so it is not watched" in told.data["what"]
    assert drill.finish() == drill.subjects("lifeline", "hello")
    assert drill.living() == {}


def test_a_workspace_that_a_mount_namespace_has_in_another_place_is_watched(open_drill: Open, tmp_path: Path) -> None:
    """As a sandbox does that mounts it to where the agent expects it."""
    drill = open_drill("deaf")
    put(drill, allowed(MOVED_WORKSPACE), tmp_path)
    hello, opened = drill.noted("lifeline", "hello")[0], drill.noted("workspace", "opened")[0]
    assert hello.data["cwd"] == str(tmp_path)
    assert (opened.data["path"], opened.data["offered"]) == (str(drill.run.workspace), True)
    drill.press()
    changed = drill.until_noted("workspace", "changed")
    assert [row["pid"] for row in changed.data["writers"]] == [hello.data["pid"]]


# --- Signals that a runner inherits -----------------------------------------------------------------------------------

IGNORES = ("sh", "-c", 'trap "" TERM HUP; "$@"; exit $?', "sh")
BLOCKS = """
import signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
subprocess.Popen(sys.argv[1:]).wait()
"""


@pytest.mark.parametrize(("field", "way"), [("SigIgn", IGNORES), ("SigBlk", (sys.executable, "-c", BLOCKS))], ids=["ignored", "blocked"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_inherited_ignored_or_blocked_is_noticed(
    open_drill: Open, field: str, way: tuple[str, ...], number: signal.Signals
) -> None:
    drill = open_drill("polite")
    wrapper = drill.start(*way)
    assert hidden_table.signals(wrapper, field) >= {"SIGTERM", "SIGHUP"}
    leader = drill.of_role("leader")
    drill.press(leader.pid, number)
    notice = drill.until_noted("lifeline", "notice", subject=leader.subject)
    assert (notice.data["by"], notice.data["from_pid"]) == (number.name, os.getpid())
    drill.until_noted("process-table", "died", subject=leader.subject)
    assert drill.living() == {}


# --- Processes that hide themselves -----------------------------------------------------------------------------------


def test_a_bare_daemon_is_seen_though_it_has_nothing_that_could_be_seen(open_drill: Open) -> None:
    drill = open_drill("polite", "bare-daemon")
    drill.start()
    bare = drill.of_role("bare-daemon")
    drill.until_noted("lifeline", "closed", subject=bare.subject)
    until(lambda: hidden_table.descriptors(bare.pid) == set(), "no descriptor is open, but when it looks for the recorder")
    assert Path(f"/proc/{bare.pid}/environ").read_bytes() == b""
    assert Path(f"/proc/{bare.pid}/cwd").readlink() == Path("/")
    assert drill.subjects("process-table", "held") == set(drill.living())

    leader = drill.of_role("leader")
    drill.press(leader.pid)
    drill.until_noted("process-table", "died", subject=leader.subject)
    drill.until_noted("process-table", "look", moment="deadline")
    look = drill.noted("process-table", "look", moment="deadline")[0]
    assert [row["subject"] for row in look.data["processes"] if row["alive"]] == [bare.subject]
    kill_and_see_dead(drill, bare)
    assert drill.finish() == set()


def test_a_bare_daemon_is_ended_with_its_drill(open_drill: Open) -> None:
    drill = open_drill("bare-daemon")
    drill.start()
    living = set(drill.living())
    assert len(living) == 2
    assert drill.finish() == living
    assert drill.living() == {}


def test_a_process_whose_first_thread_is_gone_is_alive_until_the_last_one_is(open_drill: Open) -> None:
    drill = open_drill("main-thread-gone", "daemon")
    drill.start()
    leader = drill.of_role("leader")
    assert leader.state == "Z"
    assert leader.threads
    drill.press(leader.pid)
    drill.until_noted("lifeline", "notice", subject=leader.subject)
    pressed = drill.noted("process-table", "look", moment="pressed")[0]
    row = next(row for row in pressed.data["processes"] if row["subject"] == leader.subject)
    assert (row["alive"], row["dying"], row["zombie"]) == (True, False, True)
    assert drill.noted("process-table", "died") == []
    kill_and_see_dead(drill, leader)
    assert drill.subjects("process-table", "died") == {leader.subject}
    assert drill.finish() == set(drill.subjects("lifeline", "hello")) - {leader.subject}
    stays_gone(drill)


# --- Processes that are started during the kill ------------------------------------------------------------------------


def test_a_successor_is_held_and_ended_though_nobody_announced_it(open_drill: Open) -> None:
    drill = open_drill("successor")
    drill.start()
    leader = drill.of_role("leader")
    assert set(drill.living()) == {leader.subject}
    drill.press(leader.pid)
    successor = drill.until_noted("lifeline", "hello", role="successor")
    drill.until_noted("process-table", "died", subject=leader.subject)
    until(lambda: set(drill.living()) == {successor.subject}, "the successor alone")
    assert drill.subjects("process-table", "held", role="successor") == {successor.subject}
    drill.until_noted("lifeline", "working", subject=successor.subject)
    assert drill.finish() == {successor.subject}
    stays_gone(drill)


def newcomer(drill: Drill, role: str) -> hidden_table.Row:
    """Who is held in this role and has not died."""
    until(lambda: bool(drill.subjects("process-table", "held", role=role) - died(drill)), f"a new {role}")
    return drill.of_role(role)


def died(drill: Drill) -> set[str]:
    """All whose death was noted."""
    return drill.subjects("process-table", "died")


def test_each_that_is_started_again_is_held_and_none_is_started_after_the_end(open_drill: Open) -> None:
    drill = open_drill("respawner")
    drill.start()
    drill.press(drill.of_role("leader").pid)
    until(lambda: len(drill.living()) == 2, "the leader's end")
    for role in ("respawner-1", "respawner-2", "respawner-1", "respawner-2"):
        kill_and_see_dead(drill, drill.of_role(role))
        drill.until_noted("lifeline", "working", subject=newcomer(drill, role).subject)
    living = drill.living()
    assert len(living) == 2
    assert set(living) == drill.subjects("process-table", "held") - died(drill)
    assert len(drill.subjects("process-table", "held")) == 1 + 2 + 4
    assert drill.finish() == set(living)
    until(lambda: drill.living() == {}, "whoever was started meanwhile is refused")
    stays_gone(drill)


# --- Without a recorder ------------------------------------------------------------------------------------------------


def kill_recorder(drill: Drill) -> None:
    """As the kernel does where memory is short."""
    os.kill(drill.recorder.pid, signal.SIGKILL)


def test_a_hidden_runner_ends_with_its_recorder(open_drill: Open, place: Place, tmp_path: Path) -> None:
    drill = open_drill(*HABITS)
    put(drill, place, tmp_path)
    assert len(drill.living()) == 3
    kill_recorder(drill)
    until(lambda: drill.living() == {}, "its end", ENDS_WITH_RECORDER_S)


@pytest.mark.parametrize(
    "habit",
    [
        "frozen",
        "main-thread-gone",
        "respawner",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("slow-child", "launcher", "chatty")),
    ],
)
def test_a_runner_of_any_habit_ends_with_its_recorder(open_drill: Open, habit: str) -> None:
    drill = open_drill(habit)
    drill.start()
    kill_recorder(drill)
    until(lambda: drill.living() == {}, "its end", ENDS_WITH_RECORDER_S)
    stays_gone(drill)


def _bound(stranger: socket.socket, port: int) -> bool:
    try:
        stranger.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def test_a_bare_daemon_takes_no_stranger_on_its_recorders_port_for_the_recorder(open_drill: Open) -> None:
    drill = open_drill("bare-daemon")
    drill.start()
    port = next(int(word.rpartition(":")[2]) for word in drill.run.argv if word.startswith("tcp:"))
    kill_recorder(drill)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        until(lambda: _bound(stranger, port), "a port that is free again", ENDS_WITH_RECORDER_S)
        stranger.listen(64)
        until(lambda: drill.living() == {}, "its end", BARE_ENDS_WITH_RECORDER_S)


def test_a_successor_ends_with_its_recorder(open_drill: Open) -> None:
    drill = open_drill("successor")
    drill.start()
    drill.press(drill.of_role("leader").pid)
    drill.until_noted("lifeline", "hello", role="successor")
    kill_recorder(drill)
    until(lambda: drill.living() == {}, "its end", ENDS_WITH_RECORDER_S)


def test_a_bare_daemon_ends_soon_after_its_recorder(open_drill: Open) -> None:
    """It has no lifeline, and looks once a second."""
    drill = open_drill("bare-daemon")
    drill.start()
    kill_recorder(drill)
    until(lambda: drill.living() == {}, "its end", BARE_ENDS_WITH_RECORDER_S)


@pytest.mark.parametrize(
    ("place", "habits"),
    [(FIRST_OF_ALL, ("deaf", "daemon")), (PLAIN, ("bare-daemon",)), (FIRST_OF_ALL, ("bare-daemon",))],
    ids=["the first of a PID namespace", "a bare daemon", "both"],
)
def test_a_stopped_runner_that_nothing_ends_but_a_kill_from_outside_is_ended_by_the_plugin(
    open_drill: Open, place: Place, habits: tuple[str, ...], tmp_path: Path
) -> None:
    """Its guards do not reach it: it has closed them, or is one that no signal from inside its namespace ends."""
    drill = open_drill(*habits)
    put(drill, allowed(place), tmp_path)
    stop(*(row.pid for row in drill.living().values()))
    kill_recorder(drill)
    drill.recorder.close()
    until(lambda: drill.living() == {}, "its end", ENDS_WITH_RECORDER_S)
    assert not drill.run.folder.parent.exists()


def test_a_bare_daemon_cannot_make_its_folder_again_after_the_plugin_has_removed_it(open_drill: Open) -> None:
    drill = open_drill("bare-daemon")
    drill.start()
    kill_recorder(drill)
    drill.recorder.close()
    assert drill.living() == {}
    assert not drill.run.folder.parent.exists()


# --- A recorder in a place of its own ----------------------------------------------------------------------------------

HOST = """
import json, sys
from pathlib import Path
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms
recorder = Recorder.start()
head = dict(scenario="deaf", run_id="r", task_id="t", wrapper="w", capabilities=[], attempt=1)
drill = recorder.open_drill(header=head, habits=sys.argv[1:], terms=settle_terms({}), history=Path("h.jsonl").absolute())
print(json.dumps([drill.run.argv, str(drill.run.workspace), recorder.pid]), flush=True)
for line in sys.stdin:
    if line == "wait\\n":
        print(json.dumps(recorder.wait(drill, "working", at_most_s=20).state), flush=True)
    else:
        print(json.dumps(recorder.finish(drill, "test")), flush=True)
recorder.close()
"""


class Host:
    """A process in another place that has the recorder; the tests start the runner."""

    def __init__(self, place: Place, folder: Path, habits: tuple[str, ...]) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATH_OF_RECORDER)}
        command = [*place.way_from(folder, folder), sys.executable, "-c", HOST, *habits]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.argv, self.workspace, self.recorder = self._answer()
        self.token = self.argv[self.argv.index("--token") + 1]
        self.history = folder / "h.jsonl"

    def ask(self, word: str) -> Any:
        """What it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self, *, with_recorder: bool) -> None:
        """As nobody can be warned of."""
        if with_recorder:
            os.kill(self.recorder, signal.SIGKILL)
        self._process.kill()

    def close(self) -> None:
        """End it, and its recorder."""
        self._process.communicate(timeout=20)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@pytest.fixture
def make_host() -> Iterator[Callable[..., Host]]:
    """Put a recorder into a place."""
    hosts: list[Host] = []
    with tempfile.TemporaryDirectory() as folder:

        def go(place: Place, *habits: str) -> Host:
            hosts.append(Host(allowed(place, NEEDS_OF_RECORDER), Path(folder), habits))
            return hosts[-1]

        yield go
        for host in hosts:
            host.close()


def test_a_runner_in_a_namespace_above_the_recorders_is_refused_with_that_reason(make_host: Callable[..., Host]) -> None:
    """The kernel gives it no pid here, so nothing could ever prove its death."""
    host = make_host(FIRST_WITH_PROC, "deaf")
    ran = subprocess.run(host.argv, cwd=host.workspace, capture_output=True, text=True, timeout=20)
    assert ran.returncode == 70
    assert "refused by the recorder: it cannot be held by the recorder: the peer ended, or is not visible from here" in ran.stderr
    assert "cannot be held" in host.ask("wait")["problems"][0]
    assert hidden_table.runners(host.token) == {}


@pytest.mark.parametrize("with_recorder", [False, True], ids=["alone", "with its recorder"])
def test_when_the_plugin_is_killed_nothing_that_hides_itself_is_left(make_host: Callable[..., Host], with_recorder: bool) -> None:
    host = make_host(PLAIN, "frozen", "bare-daemon", "respawner")
    runner = subprocess.Popen(host.argv, cwd=host.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    alive = host.ask("wait")["alive"]
    assert sorted(row["role"] for row in alive) == ["bare-daemon", "leader", "respawner-1", "respawner-2"]
    assert {row["subject"] for row in alive} == set(hidden_table.runners(host.token))
    host.kill(with_recorder=with_recorder)
    runner.wait(timeout=20)
    until(lambda: hidden_table.runners(host.token) == {}, "its end", BARE_ENDS_WITH_RECORDER_S if with_recorder else ENDS_WITH_RECORDER_S)


def test_a_runner_that_may_not_be_signalled_ends_by_its_lifeline_and_a_bare_one_with_the_recorder(make_host: Callable[..., Host]) -> None:
    host = make_host(OTHER_USER, "deaf", "own-session-child", "bare-daemon")
    runner = subprocess.Popen(host.argv, cwd=host.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    alive = host.ask("wait")["alive"]
    living = hidden_table.runners(host.token)
    assert {row["subject"] for row in alive} == set(living)
    assert {hidden_table.status(row.pid, "Uid") for row in living.values()} == {"\t".join([str(os.getuid())] * 4)}
    assert {row["subject"] for row in host.ask("finish")} == set(living)
    runner.wait(timeout=20)
    assert set(hidden_table.runners(host.token)) == {row["subject"] for row in alive if row["role"] == "bare-daemon"}
    host.close()
    until(lambda: hidden_table.runners(host.token) == {}, "its end", BARE_ENDS_WITH_RECORDER_S)
