"""The orchestrator's own processes: what is left when one of them ends, in whatever way, and an engine that is started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.local import NotUp, Orchestrator
from fixtures.orchestrator.processes import descendants, read_stat
from fixtures.orchestrator.wire import Unanswered
from tests.orchestrator.desk import Desk, until

# Brings up an orchestrator with a run in it, says where and what, and waits to be killed.
OWNER = """
import pathlib, sys, tempfile
sys.path.insert(0, sys.argv[1])
from fixtures.orchestrator.local import Orchestrator
from tests.orchestrator.desk import Desk
orchestrator = Orchestrator()
run = Desk(orchestrator, pathlib.Path(sys.argv[2])).submit("deaf", "daemon").until_working(processes=2)
print(orchestrator.folder, orchestrator.pid("server"), orchestrator.pid("platform"), *run.living(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own() -> Iterator[Orchestrator]:
    """An orchestrator of the test's own, whose processes the leak guard looks for."""
    made = Orchestrator()
    yield made
    made.close()


def _is_alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state not in "ZX"


def test_close_ends_every_run_and_every_process_and_removes_the_folder(own: Orchestrator, tmp_path: Path) -> None:
    run = Desk(own, tmp_path).submit("deaf", "daemon", "own-session-child").until_working(processes=3)
    pids = [own.pid("server"), own.pid("platform"), *descendants(own.pid("platform")), *run.living()]
    assert len(pids) >= 2 + 2 + 3  # engine, platform; floor, bridge; the run
    own.close()
    assert [pid for pid in pids if _is_alive(pid)] == []
    assert not own.folder.exists()
    own.close()


def test_a_folder_that_was_given_stays(tmp_path: Path) -> None:
    with_folder = Orchestrator(tmp_path / "kept")
    with_folder.close()
    assert (tmp_path / "kept" / "record.sqlite").exists()


def test_all_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen([sys.executable, "-c", OWNER, root, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        folder, *pids = owner.stdout.readline().decode().split()
        owner.kill()
    until(lambda: not any(_is_alive(int(pid)) for pid in pids), lambda: [pid for pid in pids if _is_alive(int(pid))])
    until(lambda: not Path(folder).exists())


def test_floors_end_their_runs_when_the_platform_is_killed(own: Orchestrator, tmp_path: Path) -> None:
    run = Desk(own, tmp_path).submit("deaf", "daemon").until_working(processes=2)
    below = [*descendants(own.pid("platform"))]
    os.kill(own.pid("platform"), signal.SIGKILL)
    until(lambda: not run.living() and not any(_is_alive(pid) for pid in below))
    assert run.state == "running"  # nobody is left that could say how it ended; the engine takes it for lost in the end


def test_a_bridge_ends_its_run_when_its_floor_is_killed(own: Orchestrator, tmp_path: Path) -> None:
    run = Desk(own, tmp_path).submit("deaf", "daemon").until_working(processes=2)
    floor = next(iter(descendants(own.pid("platform"))))
    os.kill(floor, signal.SIGKILL)
    until(lambda: not run.living())
    until(lambda: [*descendants(own.pid("platform"))] == [])


def test_an_engine_that_is_killed_and_started_again_goes_on_with_its_record(own: Orchestrator, tmp_path: Path) -> None:
    desk = Desk(own, tmp_path)
    run, address = desk.submit("polite").until_working(), own.address
    before = len(run.heartbeats)
    own.kill_server()
    with pytest.raises(Unanswered):
        _ = run.state
    own.restart_server()
    assert own.address == address
    until(lambda: len(run.heartbeats) > before + 2)
    assert (run.state, len(run.row["attempts"])) == ("running", 1)
    run.cancel()
    assert run.until_ended().state == "cancelled"
    assert desk.submit(runner=["true"]).until_ended().state == "succeeded"


def test_a_cancel_that_was_pressed_before_the_engine_was_killed_is_not_forgotten(own: Orchestrator, tmp_path: Path) -> None:
    run = Desk(own, tmp_path).submit("polite").until_working()
    own.set_door(run.id, "refuse")
    run.cancel()
    own.kill_server()
    own.restart_server()
    assert run.state == "cancelling"
    own.set_door(run.id, "up")
    assert run.until_ended().state == "cancelled"


def test_a_run_finds_its_engine_though_its_door_was_taken_before_it_began(own: Orchestrator, tmp_path: Path) -> None:
    desk = Desk(own, tmp_path)
    first = desk.submit("polite", task="same").until_working()
    second = desk.submit("polite", task="same")
    port = second.row["door_port"]
    own.kill_server()
    with socket.create_server(("127.0.0.1", port)):
        own.restart_server()
    assert second.row["door_port"] != port
    first.cancel()
    second.until_working().cancel()
    assert second.until_ended().state == "cancelled"


def test_what_ended_while_the_engine_was_away_is_reported_when_it_is_back(own: Orchestrator, tmp_path: Path) -> None:
    run = Desk(own, tmp_path).submit("deaf").until_working()
    own.kill_server()
    for pid in run.living():
        os.kill(pid, signal.SIGKILL)
    own.restart_server()
    run.until_ended()
    assert (run.state, run.attempt["why"], run.attempt["status"]) == ("failed", "ended", -signal.SIGKILL)


def test_what_does_not_come_up_is_told_with_the_end_of_its_log() -> None:
    with pytest.raises(NotUp, match="no_such_bridge_or_floor"):
        Orchestrator(floor="no_such_bridge_or_floor")
