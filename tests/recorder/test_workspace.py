"""What a look at a workspace and a stamp are by themselves; whose logs are removed; and the source that workspaces are filled from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder import birth, folders, marks, workspace
from pytest_cancelcontract.recorder.workspace import Moment
from tests.recorder.watched import TOKEN, line


def test_a_look_sees_the_folder_all_below_it_and_the_runs_own_names_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "link").symlink_to("nowhere")
    for name in ("uncooperative-leader.log", "somebody.txt"):
        (tmp_path / name).touch()
    seen = workspace.look(str(folder))
    names = {os.path.relpath(path, folder) for path in seen.entries}
    assert names == {".", "inner", "inner/link", "../uncooperative-leader.log"}
    assert seen.exists


def test_a_folder_that_is_gone_does_not_exist_and_what_is_beside_it_is_seen(tmp_path: Path) -> None:
    (tmp_path / "uncooperative-leader.log").touch()
    seen = workspace.look(str(tmp_path / "workspace"))
    assert (list(seen.entries), seen.exists) == ([str(tmp_path / "uncooperative-leader.log")], False)


def test_which_names_beside_it_count_can_be_said(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "mine").touch()
    (tmp_path / "theirs").touch()
    seen = workspace.look(str(folder), lambda name: name != "theirs")
    assert set(seen.entries) == {str(folder), str(tmp_path / "mine")}


def test_what_is_touched_after_a_stamp_is_after_it_and_what_was_before_is_not(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    moment = workspace.stamp(str(tmp_path))
    assert not moment.is_before(file.stat().st_ctime_ns)
    while not moment.is_before(file.stat().st_ctime_ns):
        file.write_text("again")


def test_a_stamp_leaves_no_file_and_no_open_descriptor(tmp_path: Path) -> None:
    """An open file would keep a wrapper from unmounting its workspace."""
    before = list(Path("/proc/self/fd").iterdir())
    workspace.stamp(str(tmp_path / "gone" / "deeper"))
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


@pytest.mark.parametrize(("is_fine", "is_after"), [(True, True), (False, False)])
def test_the_very_time_of_a_stamp_is_after_it_only_by_a_clock_that_ticks_at_every_touch(is_fine: bool, is_after: bool) -> None:
    assert Moment(7, is_fine).is_before(7) is is_after
    assert Moment(7, is_fine).is_before(8)
    assert not Moment(7, is_fine).is_before(6)


def test_a_file_made_anew_is_born_later_whatever_its_number(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    first = birth.birth_ns(str(file))
    if first is None:
        pytest.skip("this file system tells no time of birth")
    while birth.birth_ns(str(file)) == first:
        file.unlink()
        file.touch()
    again = birth.birth_ns(str(file))
    assert again is not None and again > first
    assert birth.birth_ns(str(tmp_path / "nothing")) is None


def test_only_the_runs_own_logs_are_removed_from_a_folder_that_is_somebodys(tmp_path: Path) -> None:
    (tmp_path / "uncooperative-leader.log").write_text(line(7, 1) * 3)
    (tmp_path / "uncooperative-child.log").write_text(line(7, 1) + line(7, 1).replace("tok", "other"))
    (tmp_path / "uncooperative-notes.txt").write_text(line(7, 1))
    (tmp_path / "mine.log").write_text(line(7, 1))
    workspace.remove_logs(str(tmp_path), [TOKEN])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.log", "uncooperative-child.log", "uncooperative-notes.txt"]
    workspace.remove_logs(str(tmp_path), [TOKEN, "other"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.log", "uncooperative-notes.txt"]


def read(path: Path) -> marks.Reading:
    got = marks.read(str(path), workspace.entry_of(path.lstat()), TOKEN)
    assert got is not None
    return got


def test_a_line_that_was_cut_in_front_or_is_of_another_run_is_nobodys(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(line(7, 1)[3:] + line(8, 1).replace(TOKEN, "other") + f"uncooperative {TOKEN} short\n" + line(9, 1))
    assert marks.writers(read(file).lines) == ((9, "tok-1", 1),)


def test_a_line_that_is_padded_to_its_slot_is_its_writers(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(line(7, 1).rstrip("\n").ljust(127) + "\n")
    assert marks.writers(read(file).lines) == ((7, "tok-1", 1),)
    assert marks.said_at_s(read(file).lines[0]) == 1.5


def test_of_a_long_file_its_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "READ_AT_MOST", 100)
    file = tmp_path / "file"
    file.write_text(line(7, 1) + "x" * 90 + "\n" + line(8, 1))
    got = read(file)
    assert (marks.writers(got.lines), got.is_whole) == (((8, "tok-1", 1),), False)
    assert got.behind(file.stat().st_size - len(line(8, 1))) == got.lines
    assert got.behind(file.stat().st_size) == ()


def test_what_is_no_file_any_more_is_not_read(tmp_path: Path) -> None:
    """A FIFO has no writer, and opening it would wait for one."""
    file = tmp_path / "file"
    file.touch()
    entry = workspace.entry_of(file.lstat())
    file.unlink()
    assert marks.read(str(file), entry, TOKEN) is None
    os.mkfifo(file)
    assert marks.read(str(file), entry, TOKEN) is None


def test_the_order_is_told_where_two_attempts_wrote_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(line(7, 1) * 2 + line(8, 1, "tok-2") + line(7, 3))
    assert marks.order(read(file).lines) == ((7, "tok-1", 2), (8, "tok-2", 1), (7, "tok-1", 1))
    file.write_text(line(7, 1) + line(8, 1))
    assert marks.order(read(file).lines) == ()
    file.write_text((line(7, 1) + line(8, 1, "tok-2")) * 50)
    assert len(marks.order(read(file).lines)) == marks.RUNS_AT_MOST


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
