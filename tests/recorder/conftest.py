"""Real processes to look at, each of which says when it is ready and is ended by its own handle; and a recorder, with what it is asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.recorder.plan import Plan
from pytest_cancelcontract.terms import settle_terms
from tests.recorder.hidden_drill import Drill

Start = Callable[[str], "subprocess.Popen[str]"]
Open = Callable[..., Drill]
TERMS = settle_terms({name: (value, "test") for name, value in {"delivery": 0.5, "grace": 0.5, "kill_within": 0.5, "settle": 0.1}.items()})


def header(scenario: str, capabilities: tuple[str, ...] = ("exit",)) -> dict[str, Any]:
    """What a drill's history begins with."""
    return {"scenario": scenario, "run_id": "r", "task_id": "t", "wrapper": "test", "capabilities": list(capabilities), "attempt": 1}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A recorder, which is closed after the test."""
    one = Recorder.start()
    yield one
    one.close()


@pytest.fixture
def open_drill(recorder: Recorder, tmp_path: Path) -> Open:
    """Open a drill with these habits."""

    def go(*habits: str, **plan: Any) -> Drill:
        opened = recorder.open_drill(
            header=header(habits[0]), habits=habits, terms=TERMS, history=tmp_path / f"{habits[0]}.jsonl", plan=Plan(**plan)
        )
        return Drill(recorder, opened)

    return go


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program that prints ``ready``; returns once it has."""
    started: list[subprocess.Popen[str]] = []

    def go(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield go
    for process in started:
        process.kill()
        process.communicate()
