"""Ways to start the runner, and its stand-in recorder, that are undone after each test."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.meter.provider import Provider
from tests.runner.stand_in import SCRIPT, TOKEN, Make, StandIn, Start


@pytest.fixture
def make_stand_in() -> Iterator[Make]:
    """Make a stand-in that listens on a UNIX socket, or on ``listener`` under ``address``."""
    made: list[StandIn] = []
    with tempfile.TemporaryDirectory(prefix="cc-") as folder:

        def make(answer: str = "go {attempt} work", listener: socket.socket | None = None, address: str = "") -> StandIn:
            if listener is None:
                path = f"{folder}/{len(made)}"
                listener, address = socket.socket(socket.AF_UNIX), f"unix:{path}"
                listener.bind(path)
            listener.listen(32)
            made.append(StandIn(listener, addresses=[address], answer=answer))
            return made[-1]

        yield make
        for stand_in in made:
            stand_in.close()


@pytest.fixture
def stand_in(make_stand_in: Make) -> StandIn:
    """A stand-in that lets everybody work."""
    return make_stand_in()


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A real meter."""
    one = Provider()
    yield one
    one.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder for the runner to work in."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def start(workspace: Path) -> Iterator[Start]:
    """Start the runner in ``workspace``, in a session of its own, with the given habits; it is ended by its handle at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def go(*habits: str, to: StandIn | None = None, python: str = sys.executable, more: tuple[str, ...] = (), **popen: Any) -> Any:
        argv = [python, "-I", "-S", str(SCRIPT), *[word for habit in habits for word in ("--habit", habit)]]
        if to:
            argv += [*[word for address in to.addresses for word in ("--recorder", address)], "--token", TOKEN]
        settings: dict[str, Any] = {"cwd": workspace, "start_new_session": True, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen([*argv, *more], **{**settings, **popen})
        started.append(process)
        return process

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise ``interpreter`` over what pyenv has, from 3.9 on, and say what is missing."""
    if "interpreter" in metafunc.fixturenames:
        metafunc.parametrize("interpreter", [_interpreter(minor) for minor in range(9, 14)])


def _interpreter(minor: int) -> Any:
    found = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    missing = pytest.mark.skip(reason=f"no Python 3.{minor} below ~/.pyenv/versions")
    return pytest.param(str(found[-1]) if found else "", id=f"3.{minor}", marks=[] if found else [missing])
