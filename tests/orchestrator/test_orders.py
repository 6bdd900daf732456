"""What is refused of a submitted run, before it is one: what its programs could not be given, and a workspace that is no other folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.orchestrator.order import BadRun, Task
from fixtures.orchestrator.record import Record
from fixtures.orchestrator.server import Engine

RUN: dict[str, Any] = {"id": "a", "task_id": "a", "argv": ["true"], "env": {"A": "b=c"}, "workspace": "/w/w", "source": "/w/s"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param({"env": {"A": "secret\0"}}, "env must map names to strings without NUL", id="NUL in a value"),
        pytest.param({"env": {"A": "\ud800"}}, "env must map names to strings without NUL", id="half a pair in a value"),
        pytest.param({"env": {"A": 1}}, "env must map names to strings without NUL", id="a number for a value"),
        pytest.param({"env": {"A\0": ""}}, "a name in env must not be empty, and have no '=' and no NUL, got 'A\\x00'", id="NUL in a name"),
        pytest.param({"env": {"A=B": ""}}, "a name in env must not be empty, and have no '=' and no NUL, got 'A=B'", id="= in a name"),
        pytest.param({"env": {"": "x"}}, "a name in env must not be empty", id="no name"),
        pytest.param({"argv": ["true", "\0"]}, "argv must be a list of words, without NUL, that is not empty", id="NUL in a word"),
        pytest.param({"argv": []}, "argv must be a list of words, without NUL, that is not empty", id="no words"),
        pytest.param({"id": "a\0"}, "id must be a string, without NUL, that is not empty", id="NUL in its id"),
        pytest.param({"source": "/s\0"}, "source must be a string, without NUL, that is not empty", id="NUL in a path"),
    ],
)
def test_what_no_program_can_be_given_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRun) as refused:
        Task.read({**RUN, **given})
    assert str(refused.value).startswith(says)
    assert "secret" not in str(refused.value)


def test_an_environment_may_hold_all_else() -> None:
    assert Task.read({**RUN, "env": {"A": "b=c", "odd name": "", "B": "\udcff"}}).env["A"] == "b=c"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    record = Record(tmp_path / "record.sqlite")
    yield Engine(record, "token")
    record.close()


@pytest.mark.parametrize("name", ["source", "alias", ".", "source/folder", "alias/folder"])
def test_a_workspace_that_would_be_removed_with_its_source_is_not_taken(name: str, tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "source" / "folder").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "source")
    body = {**RUN, "workspace": str(tmp_path / name), "source": str(tmp_path / "source")}
    status, told = asyncio.run(engine.office("POST", ["runs"], body))
    assert status == 400
    assert told["error"].startswith("workspace and source must lie apart, since a workspace is removed, got ")
    assert asyncio.run(engine.office("GET", ["runs", "a"], {}))[0] == 404
