"""How many files the recorder may have open, and what it starts."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder.client import Recorder
from tests.recorder.conftest import TERMS, header
from tests.runner.stand_in import until

SOFT = 400
SHOW = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)"


@pytest.fixture
def low() -> Iterator[int]:
    """A soft limit below the hard one, for as long as the test; the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert before[1] > SOFT
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_recorder_may_open_more_than_pytest_and_what_it_starts_may_not(low: int, tmp_path: Path) -> None:
    recorder = Recorder.start()
    try:
        opened = recorder.open_drill(header=header("respawner"), habits=("respawner",), terms=TERMS, history=tmp_path / "h.jsonl")
        spawned = opened.run.spawn([sys.executable, "-c", SHOW])
        until(lambda: spawned.output.read_text().endswith("\n"), "the limit of what was started")
        assert spawned.output.read_text() == f"{SOFT}\n"
        assert resource.prlimit(recorder.pid, resource.RLIMIT_NOFILE)[0] == min(low, 65_536)
    finally:
        recorder.close()
