"""What changed in a workspace since the handover is found by the status of its entries, and whose it is by the marks in it."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder import folders, since_handover, workspace
from pytest_cancelcontract.recorder.birth import birth_ns
from tests.recorder.watched import TOKEN, Watched, line

Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Make a watched workspace below the test's folder."""
    return functools.partial(Watched, tmp_path)


def whats(watched: Watched) -> dict[str, str]:
    return {path: change.what for path, change in watched.changes().items()}


def needs_births(folder: Path) -> None:
    if birth_ns(str(folder)) is None:
        pytest.skip("this file system tells no time of birth, so that a number which is used again cannot be told")


# --- What is reported -------------------------------------------------------------------------------------------------


def test_nothing_changed_is_no_change(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "log").write_text(line(7, 1))
    watched.take()
    assert whats(watched) == {}


def test_a_rewrite_of_the_same_size_with_its_old_mtime_is_content(watch: Watch) -> None:
    watched = watch()
    file = watched.folder / "file"
    file.write_text("aaaa")
    before = file.stat()
    watched.take()
    file.write_text("bbbb")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert whats(watched) == {"file": "content"}


def test_a_write_through_a_descriptor_that_was_open_before_is_content(watch: Watch) -> None:
    watched = watch()
    file = watched.folder / "file"
    with file.open("wb", buffering=0) as early:
        early.write(b"first")
        watched.take()
        early.write(b"second")
        assert whats(watched) == {"file": "content"}


def test_permissions_owners_and_links_are_meta(watch: Watch) -> None:
    watched = watch()
    for name in ("mode", "linked"):
        (watched.folder / name).write_text("x")
    (watched.folder / "inner").mkdir()
    watched.take()
    (watched.folder / "mode").chmod(0o600)
    (watched.folder / "inner").chmod(0o700)
    (watched.folder / "another").hardlink_to(watched.folder / "linked")
    (watched.folder / "symbolic").symlink_to("nowhere")
    assert whats(watched) == {"mode": "meta", "inner": "meta", "linked": "meta", "another": "created", "symbolic": "created"}


def test_a_link_that_is_set_to_another_place_is_replaced(watch: Watch) -> None:
    watched = watch()
    link = watched.folder / "link"
    link.symlink_to("here")
    needs_births(link)
    watched.take()
    link.unlink()
    link.symlink_to("there")
    assert whats(watched) == {"link": "replaced"}


def test_a_file_that_is_renamed_is_told_once_with_its_old_path(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "old").write_text("x")
    (watched.folder / "inner").mkdir()
    watched.take()
    (watched.folder / "old").rename(watched.folder / "inner" / "new")
    (change,) = watched.changes().values()
    assert (change.path, change.what, change.was) == (str(watched.folder / "inner/new"), "renamed", str(watched.folder / "old"))


def test_a_folder_that_is_renamed_takes_what_is_below_it_along(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "old" / "inner").mkdir(parents=True)
    for name in ("a", "b", "inner/c"):
        (watched.folder / "old" / name).write_text("x")
    watched.take()
    (watched.folder / "old").rename(watched.folder / "new")
    (watched.folder / "new" / "a").write_text("another")
    (watched.folder / "new" / "inner" / "c").unlink()
    changes = watched.changes()
    assert {path: (one.what, Path(one.was).name) for path, one in changes.items()} == {
        "new": ("renamed", "old"),
        "new/a": ("content", "a"),
        "old/inner/c": ("deleted", ""),
    }


def test_a_log_that_is_rotated_is_renamed_and_the_new_one_replaces_it(watch: Watch) -> None:
    watched = watch()
    log = watched.folder / "log"
    log.write_text("x")
    watched.take()
    log.rename(watched.folder / "log.1")
    log.write_text("y")
    assert whats(watched) == {"log.1": "renamed", "log": "replaced"}


def test_a_file_that_was_written_beside_and_moved_over_it_replaces_it(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "file").write_text("x")
    watched.take()
    (watched.folder / ".file.tmp").write_text("y")
    (watched.folder / ".file.tmp").replace(watched.folder / "file")
    assert whats(watched) == {"file": "replaced"}


def test_a_new_file_with_the_number_of_a_deleted_one_is_no_rename(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "old").write_text("x")
    needs_births(watched.folder / "old")
    watched.take()
    (watched.folder / "old").unlink()
    (watched.folder / "new").write_text("x")
    assert whats(watched) == {"old": "deleted", "new": "created"}


def test_a_folder_that_is_removed_and_made_again_is_replaced_with_all_in_it(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "old").write_text("x")
    needs_births(watched.folder / "old")
    watched.take()
    folders.remove(watched.folder)
    watched.folder.mkdir()
    (watched.folder / "uncooperative-leader.log").write_text(line(7, 9))
    changes = watched.changes()
    assert {path: one.what for path, one in changes.items()} == {".": "replaced", "old": "deleted", "uncooperative-leader.log": "created"}
    assert changes["uncooperative-leader.log"].writers == ((7, "tok-1", 1),)


def test_a_folder_that_only_won_and_lost_entries_is_not_told_beside_them(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "inner").mkdir()
    (watched.folder / "inner" / "a").touch()
    watched.take()
    (watched.folder / "inner" / "a").unlink()
    (watched.folder / "inner" / "b").touch()
    assert set(whats(watched)) == {"inner/a", "inner/b"}


def test_what_came_and_went_between_two_looks_is_seen_by_its_folder(watch: Watch) -> None:
    watched = watch()
    watched.take()
    (watched.folder / "file").touch()
    (watched.folder / "file").unlink()
    assert whats(watched) == {".": "meta"}


def test_when_the_workspace_is_gone_what_is_written_beside_it_is_seen(watch: Watch) -> None:
    watched = watch()
    watched.take()
    watched.folder.rmdir()
    (watched.folder.parent / "uncooperative-leader.log").write_text(line(7, 9))
    changes = watched.changes()
    assert {path: (one.what, one.beside) for path, one in changes.items()} == {
        ".": ("deleted", False),
        "../uncooperative-leader.log": ("created", True),
    }


def test_the_runs_own_names_beside_the_workspace_are_found_and_nobody_elses(watch: Watch) -> None:
    watched = watch()
    watched.take()
    (watched.folder.parent / "uncooperative-leader.log").write_text(line(7, 9))
    (watched.folder.parent / "somebody.txt").write_text(line(7, 9))
    assert list(watched.changes()) == ["../uncooperative-leader.log"]


def test_all_names_beside_the_workspace_are_found_where_the_folder_is_the_drills(watch: Watch) -> None:
    watched = watch(watches_beside=lambda name: name != "source")
    (watched.folder.parent / "left").touch()
    watched.take()
    for name in ("source", "new", "left"):
        (watched.folder.parent / name).write_text("x")
    assert whats(watched) == {"../new": "created", "../left": "content"}


# --- Whose it is ------------------------------------------------------------------------------------------------------


def test_only_the_lines_added_since_count_as_written_since(watch: Watch) -> None:
    watched = watch()
    log = watched.folder / "uncooperative-leader.log"
    log.write_text(line(7, 1) * 5)
    watched.take()
    with log.open("a") as file:
        file.write(line(7, 6) + line(7, 7) + line(8, 1))
    assert watched.changes()["uncooperative-leader.log"].writers == ((7, "tok-1", 2), (8, "tok-1", 1))


def test_of_a_file_that_nobody_had_a_reason_to_read_only_the_end_counts(watch: Watch) -> None:
    watched = watch()
    (watched.folder / "notes").write_text(line(7, 1) * 5)
    watched.take()
    with (watched.folder / "notes").open("a") as file:
        file.write(line(7, 6))
    assert watched.changes()["notes"].writers == ((7, "tok-1", 1),)


@pytest.mark.parametrize("how", ["copied", "moved", "sorted"])
def test_lines_that_stood_at_the_handover_are_not_written_since(watch: Watch, how: str) -> None:
    """By a wrapper that keeps, moves or works over the log of a run whose processes may be alive."""
    watched = watch()
    log = watched.folder / "uncooperative-leader.log"
    log.write_text(line(7, 2) + line(7, 1))
    watched.take()
    if how == "copied":
        (watched.folder / "kept.txt").write_text(log.read_text())
    elif how == "moved":
        log.rename(watched.folder / "kept.txt")
    else:
        log.write_text("".join(sorted(log.read_text().splitlines(keepends=True))))
    (change,) = watched.changes().values()
    assert change.writers == ()


def test_another_runs_marks_are_nobodys(watch: Watch) -> None:
    watched = watch()
    watched.take()
    (watched.folder / "log").write_text(line(7, 1).replace(TOKEN, "other"))
    change = watched.changes()["log"]
    assert (change.what, change.writers) == ("created", ())


def test_two_attempts_in_one_workspace_are_told_in_their_order(watch: Watch) -> None:
    watched = watch()
    log = watched.folder / "uncooperative-leader.log"
    log.write_text(line(7, 1))
    watched.take()
    with log.open("a") as file:
        file.write(line(7, 2) + line(8, 1, "tok-2") + line(7, 3))
    assert watched.changes()[log.name].order == ((7, "tok-1", 1), (8, "tok-2", 1), (7, "tok-1", 1))


# --- Between the stamp and the first look -----------------------------------------------------------------------------


def test_what_changed_between_the_stamp_and_the_look_is_told_without_saying_how(watch: Watch) -> None:
    watched = watch()
    file = watched.folder / "file"
    file.write_text("x")
    # Older kernels' clocks tick every few milliseconds, and the change must be a tick later than the stamp.
    watched.in_between = lambda: _until_later(file, lambda: file.write_text("y"))
    first = watched.take()
    assert {path: (one.what, one.writers) for path, one in first.items()} == {"file": ("", ())}
    assert whats(watched) == {"file": ""}
    file.write_text("again")
    assert whats(watched) == {"file": "content"}


def test_marks_of_between_the_stamp_and_the_look_count_where_they_say_so_themselves(watch: Watch) -> None:
    watched = watch()
    log = watched.folder / "uncooperative-leader.log"
    log.write_text(line(7, 1))

    def write() -> None:
        now = time.monotonic()
        log.write_text(line(7, 1) + line(7, 2, at_s=now) + line(8, 1, at_s=now - 60) + line(9, 1, at_s=now + 60))

    watched.in_between = lambda: _until_later(log, write)
    assert watched.take()[log.name].writers == ((7, "tok-1", 1),), "a mark of another clock dates nothing"
    with log.open("a") as file:
        file.write(line(7, 3))
    assert watched.changes()[log.name].writers == ((7, "tok-1", 2),)


def _until_later(file: Path, write: Callable[[], object]) -> None:
    before = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == before:
        write()


# --- What is not told -------------------------------------------------------------------------------------------------


def test_what_falls_under_a_pattern_is_counted_and_not_told(watch: Watch) -> None:
    watched = watch(ignore=["cache", "*.pyc"])
    (watched.folder / "cache" / "deep").mkdir(parents=True)
    watched.take()
    for name in ("cache/deep/file", "src.pyc", "cache-not", "file"):
        (watched.folder / name).write_text("x")
    seen = watched.look()
    assert {Path(one.path).name for one in seen.changes} == {"cache-not", "file"}
    assert seen.ignored == 2


def test_the_runs_own_marks_are_told_also_where_they_fall_under_a_pattern(watch: Watch) -> None:
    watched = watch(ignore=["*.log"])
    watched.take()
    (watched.folder / "uncooperative-leader.log").write_text(line(7, 1))
    change = watched.changes()["uncooperative-leader.log"]
    assert (change.ignored, change.writers) == ("*.log", ((7, "tok-1", 1),))


def test_of_very_many_changes_those_of_the_run_are_told_and_the_others_counted(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since_handover, "ROWS_AT_MOST", 3)
    watched = watch()
    watched.take()
    for number in range(9):
        (watched.folder / f"{number}").touch()
    (watched.folder / "z.log").write_text(line(7, 1))
    seen = watched.look()
    assert (len(seen.changes), seen.unlisted) == (4, 6)
    assert seen.changes[0].writers == ((7, "tok-1", 1),)


def test_a_change_is_json_shaped(watch: Watch) -> None:
    watched = watch()
    watched.take()
    (watched.folder / "file").write_text(line(7, 1))
    row = watched.changes()["file"].as_dict()
    assert (row["writers"], row["holders"], row["others_hold"], row["span_s"]) == (
        [{"pid": 7, "attempt": "tok-1", "count": 1}],
        [],
        None,
        None,
    )
    assert row["path"] == str(watched.folder / "file")
    assert workspace.OWN_PREFIX not in row["path"]
