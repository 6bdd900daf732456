"""How much of a run's own files is read, and of what only looks like one of them."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_cancelcontract.recorder import marks
from pytest_cancelcontract.recorder.workspace import MARK, OWN_PREFIX, remove_logs

LINE = MARK + b"t0ken a-1 4711 1 5.5\n"


def test_lines_are_counted_in_the_fullest_of_the_runs_own_files(tmp_path: Path) -> None:
    (tmp_path / f"{OWN_PREFIX}leader.log").write_bytes(LINE * 2)
    (tmp_path / f"{OWN_PREFIX}child.log").write_bytes(LINE * 3 + b"something else\n" + LINE.replace(b"t0ken", b"an0ther"))
    (tmp_path / "notes.txt").write_bytes(LINE * 9)
    assert marks.count(tmp_path, "t0ken") == 3
    assert marks.count(tmp_path, "nobody") == 0


def test_what_bears_the_name_and_is_no_file_is_not_read(tmp_path: Path) -> None:
    """Reading a device would never end, and opening a FIFO would wait for a writer."""
    (tmp_path / f"{OWN_PREFIX}zero.log").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"{OWN_PREFIX}fifo.log")
    (tmp_path / f"{OWN_PREFIX}folder.log").mkdir()
    (tmp_path / f"{OWN_PREFIX}loop.log").symlink_to(tmp_path / f"{OWN_PREFIX}loop.log")
    before = sorted(tmp_path.iterdir())
    assert marks.count(tmp_path, "t0ken") == 0
    remove_logs(str(tmp_path), ["t0ken"])
    assert sorted(tmp_path.iterdir()) == before


def test_of_a_large_file_the_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / f"{OWN_PREFIX}large.log").open("wb") as file:
        file.truncate(8 << 30)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + LINE * 4)
    assert marks.count(tmp_path, "t0ken") == 4
    remove_logs(str(tmp_path), ["t0ken"])
    assert [path.name for path in tmp_path.iterdir()] == [f"{OWN_PREFIX}large.log"], "it is not the run's alone"
