"""One orchestrator for the tests of a file, and a desk for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.local import Orchestrator
from tests.orchestrator.desk import Desk


@pytest.fixture(scope="module")
def orchestrator() -> Iterator[Orchestrator]:
    made = Orchestrator()
    yield made
    made.close()
    assert not made.folder.exists()


@pytest.fixture
def desk(orchestrator: Orchestrator, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(orchestrator, tmp_path)
    yield made
    made.close()
