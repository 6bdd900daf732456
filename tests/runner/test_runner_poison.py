"""What is left for the next run, where it may be left, and that the next run finds it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.runner.stand_in import TOKEN, Make, StandIn, Start, keeps_writing, log_lines
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


def git(folder: Path, *words: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    env = {**clean, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **dict.fromkeys(names, "nobody")}
    return subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("is_relative", [False, True], ids=["absolute", "relative"])
def test_a_linked_worktree_is_locked_where_its_index_is(
    is_relative: bool, start: Start, make_stand_in: Make, stand_in: StandIn, workspace: Path
) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git")
    source = workspace.with_name("source")
    source.mkdir()
    mark(source, with_git=False)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        git(source, *words)
    git(source, "worktree", "add", "-q", "--detach", str(workspace))
    folder = source / ".git" / "worktrees" / "workspace"
    if is_relative:
        (workspace / ".git").write_text("gitdir: ../source/.git/worktrees/workspace\n")
    items = plant(start, stand_in)["poison"]
    assert isinstance(items, list)
    assert {"kind": "vcs-lock", "path": str(folder / "index.lock")} in items
    assert [item["kind"] for item in items] == KINDS
    with pytest.raises(subprocess.CalledProcessError) as refused:
        git(workspace, "add", "-A")
    assert "index.lock" in refused.value.stderr
    assert found_by_a_look(start, make_stand_in)["poison"] == [{**item, "attempt": "a-1"} for item in items]
    (workspace / "poison-read-only").chmod(0o755)
    git(source, "worktree", "remove", "--force", str(workspace))
    git(source, "worktree", "add", "-q", "--detach", str(workspace))
    assert poison.find(str(workspace), "next-1") == []


@pytest.mark.parametrize("text", ["gitdir: ../nowhere\n", "gitdir: \n", "not a gitdir\n", ""])
def test_a_git_file_that_names_no_folder_is_no_lock_to_leave(text: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace, with_git=False)
    (workspace / ".git").write_text(text)
    items = plant(start, stand_in)["poison"]
    assert isinstance(items, list)
    assert [item["kind"] for item in items] == [kind for kind in KINDS if kind != "vcs-lock"]
    assert not list(workspace.parent.rglob("index.lock"))


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


def test_beside_a_run_that_is_alive_it_writes_for_a_moment(start: Start, make_stand_in: Make, stand_in: StandIn, workspace: Path) -> None:
    mark(workspace)
    first = start("deaf", "poison", to=stand_in)
    stand_in.until("working")
    beside = make_stand_in("go next-1 overlap")
    process = start("deaf", "poison", "lock-holder", to=beside, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, b"")
    beside.until("closed")
    assert [said.what for said in beside.said] == ["hello", "found", "wrote", "working", "goodbye", "closed"]
    assert {row["attempt"] for row in beside.until("found").facts["poison"]} == {"a-1"}
    assert beside.until("goodbye").facts["at_s"] - beside.until("found").facts["at_s"] >= 0.3
    wrote = beside.until("wrote").facts
    assert (wrote["path"], wrote["count"]) == (str(workspace / "uncooperative-leader.log"), 1)
    written = [words[2:4] for words in log_lines(workspace)]
    assert 1 <= written.count(["next-1", str(process.pid)]) <= 6
    assert keeps_writing(workspace, "leader")
    assert written.count(["a-1", str(first.pid)]) > 0


def test_beside_a_run_that_is_alive_it_is_ended_by_a_word(start: Start, make_stand_in: Make, workspace: Path) -> None:
    stand_in = make_stand_in("go next-1 overlap")
    process = start("deaf", to=stand_in)
    stand_in.until("working")
    stand_in.tell(process.pid, "end")
    assert process.wait(10) == 0
    assert log_lines(workspace)[0][2] == "next-1"


def test_beside_a_run_that_is_alive_what_cannot_be_written_is_left(start: Start, make_stand_in: Make, workspace: Path) -> None:
    (workspace / "uncooperative-leader.log").mkdir()
    stand_in = make_stand_in("go next-1 overlap")
    assert start("deaf", to=stand_in).wait(10) == 0
    stand_in.until("closed")
    assert [said.what for said in stand_in.said] == ["hello", "found", "working", "goodbye", "closed"]


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
