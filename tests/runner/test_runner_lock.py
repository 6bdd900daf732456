"""Locks that a killed run leaves: one that an orphan holds on, and a file that nobody holds; each as the filelock library meets it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock, SoftFileLock, Timeout

from tests.runner.stand_in import TOKEN, WITHIN_S, Make, StandIn, Start, keeps_writing, pipe
from uncooperative_runner import poison

HABITS = ("deaf", "poison", "lock-holder")
LOCK = "poison.flock"


@pytest.fixture
def marked(workspace: Path) -> Path:
    """A workspace in which poison may be left."""
    (workspace / poison.WORKSPACE_MARK).touch()
    return workspace


def orphan(start: Start, stand_in: StandIn, *, python: str = "") -> int:
    """Run a leader until its lock is held on, and kill it alone; its child's pid."""
    process = start(*HABITS, to=stand_in, **({"python": python} if python else {}))
    child = stand_in.until("working", "lock-holder").pid
    stand_in.until("working", pid=process.pid)
    process.kill()
    process.wait(10)
    return child


def end(pid: int) -> None:
    """End the orphan, and wait until all of its threads are dead: a lock is held until the last of them has let its files go."""
    held = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(held, signal.SIGKILL)
        assert select.select([held], [], [], WITHIN_S)[0], "the orphan does not die"
    finally:
        os.close(held)


def found_by_a_look(start: Start, make_stand_in: Make) -> list[dict[str, object]]:
    """The lock, as the next attempt finds it."""
    stand_in = make_stand_in("go next-1 look")
    assert start(*HABITS, to=stand_in).wait(10) == 0
    return [row for row in stand_in.until("found").facts["poison"] if row["kind"] == "flock"]


def can_be_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def open_on(pid: int) -> list[str]:
    return [path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir()]


def test_the_lock_of_a_killed_leader_is_held_on_by_its_child(start: Start, stand_in: StandIn, marked: Path) -> None:
    child = orphan(start, stand_in)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(child, number)
    stand_in.until("notice", "lock-holder", count=4)
    assert keeps_writing(marked, "lock-holder")
    assert not can_be_locked(marked / LOCK)
    end(child)
    assert can_be_locked(marked / LOCK)


def test_a_file_lock_of_the_library_waits_for_the_orphan_and_is_to_be_had_once_it_is_dead(
    start: Start, stand_in: StandIn, marked: Path
) -> None:
    child = orphan(start, stand_in)
    lock = FileLock(marked / LOCK)
    with pytest.raises(Timeout):
        lock.acquire(timeout=0)
    end(child)
    with lock.acquire(timeout=0):
        assert lock.is_locked


def test_a_soft_file_lock_of_the_library_waits_for_ever_though_everybody_is_dead(start: Start, stand_in: StandIn, marked: Path) -> None:
    """The library takes over what a dead process of its own host left, and after 2 s what it cannot read; this is neither."""
    end(orphan(start, stand_in))
    with pytest.raises(Timeout):
        SoftFileLock(marked / "poison.lock").acquire(timeout=2.5)
    assert poison.marker_of(TOKEN, "a-1") in (marked / "poison.lock").read_text().splitlines()


def test_the_next_attempt_finds_it_held_and_later_left(start: Start, make_stand_in: Make, stand_in: StandIn, marked: Path) -> None:
    child = orphan(start, stand_in)
    row = {"kind": "flock", "path": str(marked / LOCK), "attempt": "a-1"}
    assert found_by_a_look(start, make_stand_in) == [{**row, "held": True}]
    end(child)
    assert found_by_a_look(start, make_stand_in) == [{**row, "held": False}]
    assert can_be_locked(marked / LOCK)


def test_a_look_does_not_make_the_file_or_wait_for_it(start: Start, make_stand_in: Make, marked: Path) -> None:
    assert found_by_a_look(start, make_stand_in) == []
    assert not (marked / LOCK).exists()
    os.mkfifo(marked / LOCK)
    assert found_by_a_look(start, make_stand_in) == []


def test_it_is_planted_with_the_others_and_proven_by_the_child(start: Start, stand_in: StandIn, marked: Path) -> None:
    start(*HABITS, to=stand_in)
    planted = stand_in.until("planted").facts["poison"]
    assert planted[-1] == {"kind": "flock", "path": str(marked / LOCK)}
    assert len(planted) == 10
    assert (marked / LOCK).read_text() == f"uncooperative-poison {TOKEN} a-1\n"
    assert stand_in.until("hello").facts["roles"] == ["leader", "lock-holder"]
    armed = stand_in.until("working", "lock-holder").facts["armed"]
    assert [row["habit"] for row in armed] == ["deaf", "lock-holder"]
    assert "same group" in armed[1]["proof"]
    assert f"holds {marked / LOCK} locked through descriptor " in armed[1]["proof"]


def test_poison_alone_has_no_such_lock(start: Start, stand_in: StandIn, marked: Path) -> None:
    start("deaf", "poison", to=stand_in)
    stand_in.until("working")
    assert "flock" not in [row["kind"] for row in stand_in.until("planted").facts["poison"]]
    assert not (marked / LOCK).exists()


def test_it_alone_leaves_the_lock_and_nothing_else(start: Start, stand_in: StandIn, marked: Path) -> None:
    start("deaf", "lock-holder", to=stand_in)
    for role in ("leader", "lock-holder"):
        stand_in.until("working", role)
    planted = stand_in.until("planted").facts
    assert (planted["poison"], planted["session"]) == ([{"kind": "flock", "path": str(marked / LOCK)}], None)
    names = {LOCK, poison.WORKSPACE_MARK, "uncooperative-leader.log", "uncooperative-lock-holder.log"}
    assert {path.name for path in marked.iterdir()} == names


def test_only_the_leader_and_that_child_have_it_open(start: Start, stand_in: StandIn, marked: Path) -> None:
    process = start("deaf", "lock-holder", "deaf-child", "daemon", "bare-daemon", "respawner", to=stand_in)
    roles = ("lock-holder", "deaf-child", "daemon", "bare-daemon", "respawner-1", "respawner-2")
    pids = {role: stand_in.until("working", role).pid for role in roles}
    stand_in.until("working")
    assert [role for role, pid in pids.items() if LOCK in open_on(pid)] == ["lock-holder"]
    assert LOCK in open_on(process.pid)
    assert (marked / LOCK).exists()


def test_in_an_unmarked_folder_the_child_just_lives(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("deaf", "lock-holder", to=stand_in)
    assert poison.WORKSPACE_MARK in stand_in.until("not-planted").facts["why"]
    stand_in.until("working")
    assert "holds no lock: " in stand_in.until("working", "lock-holder").facts["armed"][-1]["proof"]
    assert keeps_writing(workspace, "lock-holder")
    assert not (workspace / LOCK).exists()


def test_a_run_that_is_tried_again_in_the_same_folder_works_though_an_orphan_holds_the_lock(
    start: Start, make_stand_in: Make, stand_in: StandIn, marked: Path
) -> None:
    first = orphan(start, stand_in)
    process = start(*HABITS, to=stand_in)
    second = stand_in.until("working", "lock-holder", count=2)
    stand_in.until("working", pid=process.pid)
    assert second.facts["armed"][-1]["proof"].endswith(f"holds no lock: {marked / LOCK} is locked by another process already")
    assert "flock" not in [row["kind"] for row in stand_in.until("planted", pid=process.pid).facts["poison"]]
    held = {"kind": "flock", "path": str(marked / LOCK), "attempt": "a-1", "held": True}
    assert held in stand_in.until("found", pid=process.pid).facts["poison"]
    assert found_by_a_look(start, make_stand_in) == [held]
    end(first)
    assert can_be_locked(marked / LOCK)


def test_a_run_that_is_tried_again_takes_the_lock_of_a_dead_one(start: Start, make_stand_in: Make, stand_in: StandIn, marked: Path) -> None:
    end(orphan(start, stand_in))
    process = start(*HABITS, to=stand_in)
    stand_in.until("working", pid=process.pid)
    assert stand_in.until("planted", pid=process.pid).facts["poison"][-1]["kind"] == "flock"
    assert found_by_a_look(start, make_stand_in) == [{"kind": "flock", "path": str(marked / LOCK), "attempt": "a-2", "held": True}]


def test_a_lock_that_cannot_be_made_leaves_it_unarmed(start: Start, stand_in: StandIn, marked: Path) -> None:
    (marked / LOCK).mkdir()
    process = start(*HABITS, to=stand_in)
    unarmed = stand_in.until("unarmed").facts
    assert (unarmed["habit"], LOCK in unarmed["why"]) == ("lock-holder", True)
    assert process.wait(10) == 70
    assert not stand_in.all("hello", "lock-holder")


def test_the_worker_of_a_launcher_lists_it(start: Start, stand_in: StandIn, marked: Path) -> None:
    start("launcher", "poison", "lock-holder", to=stand_in)
    stand_in.until("working")
    planted = stand_in.until("planted", "worker").facts["poison"]
    assert planted[-1] == {"kind": "flock", "path": str(marked / LOCK)}


def test_by_hand_it_is_told_in_words(start: Start, marked: Path) -> None:
    process = start("lock-holder", more=("--lifetime", "20"), stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    while not lines or not (lines[-1].startswith(f"uncooperative leader {process.pid}") and "works; proven" in lines[-1]):
        lines.append(pipe(process.stderr).readline())
        assert lines[-1], lines
    assert [line for line in lines if line.startswith("uncooperative lock-holder ") and f"holds {marked / LOCK} locked" in line]
    ending = next(line for line in lines if "kill -KILL" in line)
    leader, child = (int(word) for word in ending.split("kill -KILL ")[1].split("(")[0].split())
    assert leader == process.pid
    process.kill()
    process.wait(10)
    assert not can_be_locked(marked / LOCK)
    end(child)


def test_it_is_held_on_on_every_interpreter(interpreter: str, start: Start, stand_in: StandIn, marked: Path) -> None:
    child = orphan(start, stand_in, python=interpreter)
    assert not can_be_locked(marked / LOCK)
    end(child)
    assert can_be_locked(marked / LOCK)
