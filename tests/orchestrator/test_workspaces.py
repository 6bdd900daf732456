"""The workspace's lock and its rebuilding, and what counts as progress; files only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fixtures.orchestrator.progress import fingerprint
from fixtures.orchestrator.workspaces import Busy, held, rebuild


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "folder").mkdir(parents=True)
    (made / "folder" / "file").write_text("pristine\n")
    (made / "link").symlink_to("nowhere")
    return made


def test_a_workspace_is_held_by_one_and_by_whatever_name_it_is_called(tmp_path: Path) -> None:
    workspace, locks = tmp_path / "w", tmp_path / "locks"
    workspace.mkdir()
    (tmp_path / "alias").symlink_to(workspace)
    with held(workspace, locks):
        with pytest.raises(Busy, match="another attempt still holds"), held(tmp_path / "alias", locks):
            pass
        with held(tmp_path / "another", locks):
            pass
    with held(workspace, locks):
        pass


def can_be_held(workspace: Path) -> bool:
    """Whether nobody holds it now."""
    try:
        with held(workspace, workspace / "locks"):
            return True
    except Busy:
        return False


def test_what_is_started_under_the_lock_does_not_hold_it(tmp_path: Path) -> None:
    with held(tmp_path, tmp_path / "locks"):
        lives_on = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        # What is closed on exec is closed a moment after whoever started it goes on.
        until = time.monotonic() + 5.0
        while not can_be_held(tmp_path):
            assert time.monotonic() < until
        assert lives_on.poll() is None
    finally:
        lives_on.communicate()


def test_a_rebuilt_workspace_is_the_source_and_nothing_else(tmp_path: Path, source: Path) -> None:
    workspace = tmp_path / "w"
    rebuild(workspace, source)
    (workspace / "folder" / "file").write_text("changed\n")
    (workspace / ".hidden" / "deep").mkdir(parents=True)
    (workspace / ".hidden" / "deep").chmod(0o500)
    (workspace / ".hidden").chmod(0o500)
    rebuild(workspace, source)
    assert sorted(path.name for path in workspace.iterdir()) == ["folder", "link"]
    assert (workspace / "folder" / "file").read_text() == "pristine\n"
    assert (workspace / "link").is_symlink()
    assert workspace.stat().st_mode == source.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "w"]


def test_a_source_that_cannot_be_copied_costs_nothing(tmp_path: Path, source: Path) -> None:
    workspace = tmp_path / "w"
    rebuild(workspace, source)
    (workspace / "work").touch()
    os.mkfifo(source / "fifo")  # cannot be copied
    with pytest.raises(OSError, match="named pipe"):
        rebuild(workspace, source)
    assert sorted(path.name for path in workspace.iterdir()) == ["folder", "link", "work"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "w"]  # and nothing half copied lies beside it


OVERLAPS = {
    "the same": "source",
    "the same by another name": "alias",
    "the source in the workspace": ".",
    "the workspace in the source": "source/folder",
    "the workspace in the source by another name": "alias/new/one",
    "by dots": "source/folder/../../source",
}


@pytest.mark.parametrize("name", OVERLAPS.values(), ids=OVERLAPS)
def test_a_workspace_that_would_be_removed_with_its_source_is_not(name: str, tmp_path: Path, source: Path) -> None:
    (tmp_path / "alias").symlink_to(source)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OSError, match="would be removed with its source"):
        rebuild(tmp_path / name, source)
    assert sorted(tmp_path.rglob("*")) == before


def test_every_change_below_is_progress_and_none_is_none(tmp_path: Path, source: Path) -> None:
    seen = [fingerprint(source)]
    assert fingerprint(source) == seen[0]
    (source / "folder" / "file").write_text("longer than before\n")
    seen.append(fingerprint(source))
    (source / "folder" / "new").touch()
    seen.append(fingerprint(source))
    (source / "folder" / "new").rename(source / "folder" / "renamed")
    seen.append(fingerprint(source))
    (source / "link").unlink()
    seen.append(fingerprint(source))
    assert len(set(seen)) == len(seen)
    assert fingerprint(tmp_path / "absent") == 0
