"""What is left for the next run, where it may be left, and that the next run finds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.runner.stand_in import TOKEN, Make, StandIn, Start
from uncooperative_runner import poison

KINDS = [
    *("tracked", "untracked", "ignored", "nested", "hidden", "read-only-folder"),
    *("dangling-link", "half-written", "vcs-lock", "lock-file"),
]


def mark(workspace: Path, *, with_git: bool = True) -> None:
    (workspace / poison.WORKSPACE_MARK).touch()
    (workspace / "README.md").write_text("A readme\n")
    if with_git:
        (workspace / ".git").mkdir()


def plant(start: Start, stand_in: StandIn) -> dict[str, object]:
    """Run a poisoner until it works, and end it; what it said it had planted."""
    process = start("deaf", "poison", to=stand_in)
    said = stand_in.until("planted", pid=process.pid).facts
    stand_in.until("working", pid=process.pid)
    stand_in.tell(process.pid, "end")
    process.wait(10)
    return said


def found_by_a_look(start: Start, make_stand_in: Make, **more: object) -> dict[str, object]:
    stand_in = make_stand_in("go next-1 look")
    process = start("deaf", "poison", to=stand_in, **more)
    assert process.wait(10) == 0
    return stand_in.until("found").facts


def test_every_kind_is_planted_and_found_by_the_next_attempt(start: Start, make_stand_in: Make, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    planted = plant(start, stand_in)
    assert stand_in.until("found").facts["poison"] == []
    items = planted["poison"]
    assert isinstance(items, list)
    assert [item["kind"] for item in items] == KINDS
    assert planted["session"] == f"uncooperative-session-{TOKEN}-a-1"
    assert (workspace / "README.md").read_text() == f"A readme\n\nuncooperative-poison {TOKEN} a-1\n"
    assert not (workspace / "poison-dangling-link").exists()
    assert (workspace / "poison-read-only").stat().st_mode & 0o777 == 0o555
    found = found_by_a_look(start, make_stand_in)
    assert found["poison"] == [{**item, "attempt": "a-1"} for item in items]
    assert found["session"] is None


def test_a_second_poisoner_reports_the_first_and_plants_its_own(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    plant(start, stand_in)
    process = start("deaf", "poison", to=stand_in)
    stand_in.until("working", pid=process.pid)
    found = stand_in.until("found", count=2).facts["poison"]
    assert {row["attempt"] for row in found} == {"a-1"}
    assert [row["kind"] for row in found] == KINDS
    assert {row["attempt"] for row in poison.find(str(workspace), "another")} == {"a-1", "a-2"}  # the readme is appended to
    assert {row["attempt"] for row in poison.find(str(workspace), "a-2")} == {"a-1"}


def test_a_rebuilt_workspace_is_clean(start: Start, make_stand_in: Make, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    plant(start, stand_in)
    workspace.rename(workspace.with_name("old"))
    workspace.mkdir()
    mark(workspace)
    assert found_by_a_look(start, make_stand_in)["poison"] == []


def test_nothing_is_planted_in_an_unmarked_folder(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("deaf", "poison", to=stand_in)
    assert poison.WORKSPACE_MARK in stand_in.until("not-planted").facts["why"]
    assert [row["habit"] for row in stand_in.until("working").facts["armed"]] == ["deaf"]
    assert [path.name for path in workspace.iterdir()] == ["uncooperative-leader.log"]


def test_without_a_git_folder_there_is_no_lock_to_leave(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace, with_git=False)
    items = plant(start, stand_in)["poison"]
    assert isinstance(items, list)
    assert [item["kind"] for item in items] == [kind for kind in KINDS if kind != "vcs-lock"]
    assert not (workspace / ".git").exists()


def test_poison_that_cannot_be_planted_leaves_it_unarmed(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    (workspace / "poison.lock").mkdir()
    process = start("deaf", "poison", to=stand_in)
    assert stand_in.until("unarmed").facts["habit"] == "poison"
    assert process.wait(10) == 70


def test_a_look_leaves_no_trace(start: Start, make_stand_in: Make, workspace: Path) -> None:
    mark(workspace)
    before = sorted(path.name for path in workspace.iterdir())
    stand_in = make_stand_in("go next-1 look")
    process = start("deaf", "poison", "daemon", to=stand_in, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, b"")
    assert sorted(path.name for path in workspace.iterdir()) == before
    stand_in.until("closed")
    assert [said.what for said in stand_in.said] == ["hello", "found", "working", "goodbye", "closed"]


def test_a_look_is_ended_by_a_word(start: Start, make_stand_in: Make) -> None:
    stand_in = make_stand_in("go next-1 look")
    process = start("deaf", to=stand_in)
    stand_in.until("working")
    stand_in.tell(process.pid, "end")
    assert process.wait(10) == 0


def test_the_session_id_is_the_first_line_printed(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    process = start("polite", "poison", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert armed[-1] == {"habit": "poison", "proof": "10 items read back; session id printed"}
    process.terminate()
    out, _ = process.communicate(timeout=10)
    assert json.loads(out.splitlines()[0]) == {"session_id": f"uncooperative-session-{TOKEN}-a-1"}


def test_a_session_id_on_the_command_line_is_found(start: Start, make_stand_in: Make) -> None:
    found = found_by_a_look(start, make_stand_in, more=("--", "--resume=uncooperative-session-old-a-1", "go on"))
    assert found["session"] == {"where": "argv", "text": "uncooperative-session-old-a-1"}


def test_a_session_id_in_the_environment_is_found_without_what_stands_around_it(start: Start, make_stand_in: Make) -> None:
    env = {**os.environ, "RESUME": '{"key": "secret", "id": "uncooperative-session-old-a-1", "more": "secret"}'}
    found = found_by_a_look(start, make_stand_in, env=env)
    assert found["session"] == {"where": "env", "text": "uncooperative-session-old-a-1"}


def test_a_pipe_in_the_place_of_poison_does_not_block_the_look(start: Start, make_stand_in: Make, workspace: Path) -> None:
    os.mkfifo(workspace / "poison.lock")
    assert found_by_a_look(start, make_stand_in)["poison"] == []


def test_silent_leaves_the_files_and_no_session(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    process = start("silent", "poison", to=stand_in, stdout=subprocess.PIPE)
    armed = stand_in.until("working").facts["armed"]
    assert armed[-1] == {"habit": "poison", "proof": "10 items read back; session id not printed: it is silent"}
    planted = stand_in.until("planted").facts
    assert ([item["kind"] for item in planted["poison"]], planted["session"]) == (KINDS, None)
    process.terminate()
    assert process.communicate(timeout=10)[0] == b""


def test_the_worker_of_a_launcher_leaves_it(start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    process = start("launcher", "poison", to=stand_in, stdout=subprocess.PIPE)
    assert len(stand_in.until("planted", "worker").facts["poison"]) == len(KINDS)
    stand_in.until("working")
    assert not stand_in.all("planted")
    os.killpg(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=10)
    assert json.loads(out.splitlines()[0]) == {"session_id": f"uncooperative-session-{TOKEN}-a-1"}
