"""Work that goes on without a path: through a mapping, and through a descriptor that was opened before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder.workspace import remove_logs
from tests.runner.stand_in import TOKEN, StandIn, Start, pipe, send_all_four, until

MAPPED = "uncooperative-mapped.log"
APPENDED = "uncooperative-descriptor.log"
PAGE_BYTES = 4096


def numbers(path: Path, attempt: str = "a-1") -> list[int]:
    """The numbers of an attempt's lines in a file, as they stand in it."""
    return [int(words[4]) for words in map(str.split, path.read_text().splitlines()) if words[2] == attempt]


def goes_on(folder: Path, attempt: str = "a-1") -> bool:
    """See more of both in the files of that folder."""
    before = {name: last(folder / name, attempt) for name in (MAPPED, APPENDED)}
    until(lambda: all(last(folder / name, attempt) > count + 2 for name, count in before.items()), "more in both files")
    return True


def last(path: Path, attempt: str) -> int:
    """The highest of the numbers; 0 where it has no line, as in a page that another attempt has just filled."""
    return max(numbers(path, attempt), default=0)


def open_on(pid: int) -> list[str]:
    return [path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir()]


def mappings(pid: int) -> list[list[str]]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split() for line in lines if MAPPED in line]


def test_it_is_deaf_and_writes_on_through_both(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("mapped-writer", to=stand_in)
    send_all_four(process, stand_in)
    assert goes_on(workspace)
    assert process.poll() is None
    assert sorted(path.name for path in workspace.iterdir()) == [APPENDED, MAPPED]


def test_the_mapping_alone_holds_the_one_file_and_a_descriptor_the_other(start: Start, stand_in: StandIn) -> None:
    process = start("mapped-writer", to=stand_in)
    stand_in.until("working")
    assert [words[1] for words in mappings(process.pid)] == ["rw-s"]
    assert APPENDED in open_on(process.pid)
    assert MAPPED not in open_on(process.pid)


def test_it_is_proven_by_path_before_it_says_that_it_works(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("mapped-writer", to=stand_in)
    armed = stand_in.until("working").facts["armed"]
    assert [row["habit"] for row in armed] == ["mapped-writer", "mapped-writer"]
    assert armed[1]["proof"].startswith(f"stored through a shared mapping of {workspace / MAPPED} and read there by path, 32 lines; ")
    assert armed[1]["proof"].endswith(f"to {workspace / APPENDED} and read there by path")
    wrote = stand_in.until("wrote", count=2).facts
    assert (wrote["path"], wrote["count"]) == (str(workspace / MAPPED), 5)


def test_the_page_is_full_of_lines_of_one_width_and_is_rewritten_in_place(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("mapped-writer", to=stand_in)
    stand_in.until("working")
    inode = (workspace / MAPPED).stat().st_ino
    until(lambda: max(numbers(workspace / MAPPED)) > 40, "it has been once around the page")
    content = (workspace / MAPPED).read_bytes()
    lines = content.splitlines(keepends=True)
    assert (len(content), {len(line) for line in lines}) == (PAGE_BYTES, {128})
    assert {tuple(line.split()[:4]) for line in lines} == {(b"uncooperative", TOKEN.encode(), b"a-1", b"%d" % process.pid)}
    assert len(set(numbers(workspace / MAPPED))) == len(lines)
    assert (workspace / MAPPED).stat().st_ino == inode
    appended = numbers(workspace / APPENDED)
    assert appended == list(range(1, len(appended) + 1))


def test_a_folder_that_is_moved_away_takes_the_writes_with_it(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("mapped-writer", to=stand_in)
    stand_in.until("working")
    moved = workspace.rename(workspace.with_name("moved"))
    assert goes_on(moved)
    assert not workspace.exists()


def test_a_folder_that_is_taken_away_stops_nothing(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("mapped-writer", to=stand_in)
    stand_in.until("working")
    shutil.rmtree(workspace)
    said = len(stand_in.all("wrote"))
    later = stand_in.until("wrote", count=said + 2).facts
    assert later["count"] >= 5 * (said + 1)
    assert mappings(process.pid)[0][-1] == "(deleted)"
    assert not workspace.exists()
    assert process.poll() is None


def test_another_file_at_the_path_is_not_written(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("mapped-writer", to=stand_in)
    stand_in.until("working")
    for name in (MAPPED, APPENDED):
        (workspace / name).unlink()
        (workspace / name).write_text("another\n")
    said = len(stand_in.all("wrote"))
    stand_in.until("wrote", count=said + 2)
    assert [(workspace / name).read_text() for name in (MAPPED, APPENDED)] == ["another\n"] * 2


def test_two_attempts_can_write_into_one_page(start: Start, stand_in: StandIn, workspace: Path) -> None:
    first = start("mapped-writer", to=stand_in)
    stand_in.until("working", pid=first.pid)
    second = start("mapped-writer", to=stand_in)
    stand_in.until("working", pid=second.pid)
    for attempt in ("a-1", "a-2"):
        assert goes_on(workspace, attempt)
    # The second one has filled the whole page at its start, and each rewrites one line after the other.
    until(lambda: pids_in(workspace / MAPPED) == {first.pid, second.pid}, "both have lines in the page")
    assert (workspace / MAPPED).stat().st_size == PAGE_BYTES


def pids_in(path: Path) -> set[int]:
    """Whose lines stand there."""
    return {int(line.split()[3]) for line in path.read_text().splitlines()}


def test_its_files_are_removed_with_the_logs_of_a_run_that_is_over(start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("mapped-writer", to=stand_in)
    stand_in.until("wrote", count=2)
    process.kill()
    process.wait(10)
    remove_logs(str(workspace), ["another"])
    assert len(list(workspace.iterdir())) == 2
    remove_logs(str(workspace), [TOKEN])
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("name", [MAPPED, APPENDED])
def test_what_cannot_be_opened_leaves_it_unarmed(name: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    (workspace / name).mkdir()
    process = start("mapped-writer", to=stand_in)
    unarmed = stand_in.until("unarmed").facts
    assert unarmed["habit"] == "mapped-writer"
    assert name in unarmed["why"]
    assert process.wait(10) == 70
    assert not stand_in.all("working")


def test_its_children_write_as_ever(start: Start, stand_in: StandIn, workspace: Path) -> None:
    start("mapped-writer", "deaf-child", to=stand_in)
    for role in ("leader", "deaf-child"):
        stand_in.until("working", role)
    assert sorted(path.name for path in workspace.iterdir()) == ["uncooperative-deaf-child.log", APPENDED, MAPPED]


def test_by_hand_it_is_told_in_words(start: Start, workspace: Path) -> None:
    process = start("mapped-writer", more=("--lifetime", "20"), stderr=subprocess.PIPE, text=True)
    while "works; proven" not in (line := pipe(process.stderr).readline()):
        assert process.poll() is None
    assert f"mapped-writer (stored through a shared mapping of {workspace / MAPPED}" in line
    assert goes_on(workspace, f"by-hand-{process.pid}")
    process.kill()
    assert process.wait(10) == -signal.SIGKILL


def test_it_writes_so_on_every_interpreter(interpreter: str, start: Start, stand_in: StandIn, workspace: Path) -> None:
    process = start("mapped-writer", to=stand_in, python=interpreter, stderr=subprocess.PIPE)
    stand_in.until("working")
    assert goes_on(workspace)
    assert MAPPED not in open_on(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    stand_in.until("notice")
    stand_in.tell(process.pid, "end")
    assert process.wait(10) == 0
    assert pipe(process.stderr).read() == b""
