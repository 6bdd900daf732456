"""pytest runs as the plugin's own tests have them, and the folder that the documentation's examples are run in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugin.conftest import command, plain_output, run

__all__ = ["command", "plain_output", "run"]

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
KEPT = ROOT / "fixtures" / "wrappers" / "kept"
AGENTS = ROOT / "fixtures" / "agents"


@pytest.fixture
def examples(pytester: pytest.Pytester) -> Path:
    """The test's folder, with the examples in it and the samples that they start, as a reader would have copied them."""
    for path in (*DOCS.glob("examples/*.py"), KEPT / "subreaper.py", KEPT / "record.py", *AGENTS.glob("*.py")):
        shutil.copy(path, pytester.path)
    return pytester.path
