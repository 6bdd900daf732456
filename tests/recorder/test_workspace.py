"""A workspace's changes after a stamp are found by change time, and those of the run by the marks it leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder import folders, workspace
from pytest_cancelcontract.recorder.workspace import Change

TOKEN = "tok"


class Watched:
    """A workspace with a look and a stamp taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stamp = workspace.Stamp(str(folder))

    def take(self) -> None:
        self.stamp_ns = self.stamp.touch()
        self.before = workspace.look(str(self.folder))
        # The change time of what follows must differ from the stamp's: wait for the file system's clock to tick.
        while self.stamp.touch() <= self.stamp_ns:
            pass

    def changes(self) -> dict[str, Change]:
        found = workspace.changes(self.before, str(self.folder), self.stamp_ns, TOKEN)[1]
        return {os.path.relpath(change.path, self.folder): change for change in found}


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Watched(folder)


def line(pid: int, seq: int, attempt: str = "tok-1") -> str:
    return f"uncooperative {TOKEN} {attempt} {pid} {seq} {seq}.5\n"


def test_nothing_changed_is_no_change(watched: Watched) -> None:
    (watched.folder / "log").write_text(line(7, 1))
    watched.take()
    assert watched.changes() == {}


def test_only_the_lines_added_since_count_as_written_since(watched: Watched) -> None:
    log = watched.folder / "uncooperative-leader.log"
    log.write_text(line(7, 1) * 5)
    watched.take()
    with log.open("a") as file:
        file.write(line(7, 6) + line(7, 7) + line(8, 1))
    assert watched.changes()["uncooperative-leader.log"].writers == ((7, "tok-1", 2), (8, "tok-1", 1))


def test_another_runs_marks_are_nobodys(watched: Watched) -> None:
    watched.take()
    (watched.folder / "log").write_text(line(7, 1).replace("tok", "other"))
    change = watched.changes()["log"]
    assert (change.what, change.writers) == ("created", ())


def test_a_rewrite_of_the_same_size_with_its_old_mtime_is_found(watched: Watched) -> None:
    file = watched.folder / "file"
    file.write_text("aaaa")
    before = file.stat()
    watched.take()
    file.write_text("bbbb")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watched.changes()["file"].what == "content"


def test_a_folder_that_is_made_again_is_found(watched: Watched) -> None:
    (watched.folder / "old").write_text("x")
    watched.take()
    folders.remove(watched.folder)
    watched.folder.mkdir()
    (watched.folder / "uncooperative-leader.log").write_text(line(7, 9))
    changes = watched.changes()
    assert changes["old"].what == "deleted"
    assert changes["uncooperative-leader.log"].writers == ((7, "tok-1", 1),)


def test_the_runs_own_names_beside_the_workspace_are_found_and_nobody_elses(watched: Watched) -> None:
    watched.take()
    (watched.folder.parent / "uncooperative-leader.log").write_text(line(7, 9))
    (watched.folder.parent / "somebody.txt").write_text(line(7, 9))
    changes = watched.changes()
    assert list(changes) == ["../uncooperative-leader.log"]
    assert changes["../uncooperative-leader.log"].beside


def test_an_entry_of_the_stamps_own_moment_is_not_counted(watched: Watched) -> None:
    watched.take()
    file = watched.folder / "file"
    file.write_text(line(7, 1))
    watched.stamp_ns = file.stat().st_ctime_ns
    assert "file" not in watched.changes()


def test_only_the_runs_own_logs_are_removed_from_a_folder_that_is_somebodys(tmp_path: Path) -> None:
    (tmp_path / "uncooperative-leader.log").write_text(line(7, 1) * 3)
    (tmp_path / "uncooperative-child.log").write_text(line(7, 1) + line(7, 1).replace("tok", "other"))
    (tmp_path / "uncooperative-notes.txt").write_text(line(7, 1))
    (tmp_path / "mine.log").write_text(line(7, 1))
    workspace.remove_logs(str(tmp_path), [TOKEN])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.log", "uncooperative-child.log", "uncooperative-notes.txt"]
    workspace.remove_logs(str(tmp_path), [TOKEN, "other"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.log", "uncooperative-notes.txt"]


def test_a_line_that_was_cut_in_front_is_nobodys() -> None:
    assert workspace.marks(line(7, 1)[3:].encode(), TOKEN) == ()


def test_the_source_is_a_repository_of_one_commit_and_its_hashes_tell_a_change(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    folders.make_source(source)
    before = folders.digests(source)
    assert folders.MARKER in before
    (source / "README.md").write_text("changed")
    assert [name for name in before if folders.digests(source)[name] != before[name]] == ["README.md"]


def test_a_read_only_folder_is_removed_too(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    inner = folder / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0o555)
    folders.remove(folder)
    assert not folder.exists()
