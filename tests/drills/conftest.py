"""One recorder for the real drills of this folder, and a look that nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.recorder.process_table import sight
from pytest_cancelcontract.terms import Terms, settle_terms


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    started = Recorder.start()
    yield started
    started.close()


@pytest.fixture
def terms() -> Terms:
    """Short, but long enough that a loaded machine does not turn them over."""
    given = {"delivery": 1.0, "grace": 1.0, "kill_within": 0.5, "settle": 0.1, "start": 10.0, "call": 5.0}
    return settle_terms({name: (value, "the test") for name, value in given.items()})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "drill.jsonl"


@pytest.fixture
def read(path: Path) -> Callable[[], History]:
    """Reads the history, after a look that every process named in it is dead."""

    def loaded() -> History:
        history = load(path)
        named = [seen.subject for seen in history.observations if seen.kind in {"held", "spawned", "found"} and seen.subject]
        alive = [subject for subject in named if sight(Identity.parse(subject)).is_running]
        assert not alive, f"left behind: {alive}"
        return history

    return loaded
