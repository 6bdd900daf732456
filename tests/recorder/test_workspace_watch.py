"""The workspace witness of a drill notes where the leader is, and what changes there after the handover, once each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.workspace_watch import Opened, WorkspaceWatch
from tests.recorder.conftest import header
from tests.recorder.test_workspace_held import PAGE
from tests.recorder.watched import TOKEN, Holder, holding, line

Drill = Callable[[WorkspaceWatch], Awaitable[None]]


@pytest.fixture
def offered(tmp_path: Path) -> Path:
    folder = tmp_path / "drill" / "workspace"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def holder() -> Iterator[Holder]:
    with holding() as one:
        yield one


def hello(folder: Path, **more: Any) -> dict[str, Any]:
    status = folder.stat()
    return {"cwd": str(folder), "cwd_dev": status.st_dev, "cwd_ino": status.st_ino, "uid": os.getuid(), **more}


def history_of(offered: Path, drill: Drill, *, at: Path | None = None, **options: Any) -> History:
    """What a watch notes of a drill; the leader is in the workspace that it was offered, or ``at`` another place."""
    path = offered.parents[1] / "history.jsonl"
    journal = Journal(path, header("deaf"))
    watch = WorkspaceWatch(journal, TOKEN, offered, **options)

    async def go() -> None:
        assert watch.open(hello(at or offered)) == ""
        await drill(watch)

    asyncio.run(go())
    journal.close()
    return load(path)


def changed(history: History, folder: Path) -> list[tuple[str, str]]:
    return [(os.path.relpath(one.data["path"], folder), one.data["what"]) for one in history.of("workspace", "changed")]


async def handover(watch: WorkspaceWatch) -> None:
    watch.stamp("handover")
    await watch.look("handover")


def test_where_the_leader_is_and_who_it_is_is_known(offered: Path) -> None:
    async def drill(watch: WorkspaceWatch) -> None:
        status = offered.stat()
        assert watch.opened == Opened(str(offered), (status.st_dev, status.st_ino), os.getuid())

    opened = history_of(offered, drill, ignore=("cache",)).first("workspace", "opened")
    assert opened is not None
    assert (opened.data["offered"], opened.data["ignore"]) == (True, ["cache"])


def test_a_folder_that_is_another_one_here_is_not_opened(offered: Path, tmp_path: Path) -> None:
    watch = WorkspaceWatch(Journal(tmp_path / "history.jsonl", header("deaf")), TOKEN, offered)
    assert "is another one here" in watch.open(hello(offered, cwd_ino=1))
    assert watch.opened is None


def test_a_change_is_noted_once_and_again_when_it_changes(offered: Path) -> None:
    log = offered / "uncooperative-leader.log"

    async def drill(watch: WorkspaceWatch) -> None:
        await handover(watch)
        log.write_text(line(7, 1))
        for moment in ("", "", "gone"):
            await watch.note_changes(moment)
        log.write_text(line(7, 1) + line(7, 2))
        await watch.note_changes("end")

    history = history_of(offered, drill)
    assert changed(history, offered) == [(log.name, "created")] * 2
    assert [one.data["writers"][0]["count"] for one in history.of("workspace", "changed")] == [1, 2]
    assert [one.data["moment"] for one in history.of("workspace", "look")] == ["handover", "gone", "end"]


def test_what_living_processes_hold_is_read_and_told(offered: Path, holder: Holder) -> None:
    file = offered / "state.db"
    file.write_text("a" * PAGE)
    holder.map(file)
    holder.store(0, "a")

    async def drill(watch: WorkspaceWatch) -> None:
        await handover(watch)
        holder.store(1, "b")
        await watch.note_changes("end")

    history = history_of(offered, drill, living=lambda: [holder.identity])
    (row,) = history.of("workspace", "changed")
    assert (row.data["what"], row.data["by_reading"]) == ("content", True)
    assert {(one["subject"], one["how"]) for one in row.data["holders"]} == {
        (str(holder.identity), "mapping"),
        (str(holder.identity), "descriptor"),
    }
    assert changed(history_of(offered, drill), offered) == [], "whoever does not know that it lives reads nothing"


def test_in_the_drills_own_folder_all_names_beside_the_workspace_count_but_ours(offered: Path) -> None:
    async def drill(watch: WorkspaceWatch) -> None:
        await handover(watch)
        for name in ("source", "shim", "bystander", "output-3.txt", "host-00ff", "backup", "uncooperative-leader.log"):
            (offered.parent / name).touch()
        await watch.note_changes("end")

    assert set(changed(history_of(offered, drill), offered)) == {("../backup", "created"), ("../uncooperative-leader.log", "created")}


def test_in_somebodys_folder_only_the_runs_own_names_beside_the_workspace_count(offered: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "work"
    own.mkdir(parents=True)

    async def drill(watch: WorkspaceWatch) -> None:
        await handover(watch)
        for name in ("backup", "uncooperative-leader.log"):
            (own.parent / name).touch()
        await watch.note_changes("end")

    assert changed(history_of(offered, drill, at=own), own) == [("../uncooperative-leader.log", "created")]


def test_what_is_left_out_is_counted_in_the_look(offered: Path) -> None:
    async def drill(watch: WorkspaceWatch) -> None:
        await handover(watch)
        (offered / "cache").mkdir()
        (offered / "cache" / "file").touch()
        await watch.note_changes("end")

    history = history_of(offered, drill, ignore=("cache",))
    assert changed(history, offered) == []
    assert [one.data["ignored"] for one in history.of("workspace", "look")] == [0, 2]
