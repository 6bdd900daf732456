"""pytest runs as a workflow's step has them, and none of what this very run may be told by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.conftest import FAST, Run, broken, command, kept, plain_output, run

__all__ = ["broken", "command", "kept", "on_github", "plain_output", "run", "team"]

Team = Callable[..., Path]
OnGitHub = Callable[..., pytest.RunResult]
TEAM = """\
import pytest
from pytest_cancelcontract import CommandAdapter

KEPT = CommandAdapter({kept!r})
WORDS = {broken!r}
BROKEN = CommandAdapter(WORDS)

"""
BROKEN_TEST = """
@pytest.mark.cancel_contract(scenarios=["polite", "deaf-child"], clauses=["no-survivors", "no-late-writes", "cancel-delivered"])
def test_worker(cancel_contract):
    cancel_contract.check(BROKEN)
"""
MARKER_LINE = TEAM.count("\n") + 2
"""At which the marker of the broken test stands in a team's file."""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs these tests, the runs inside of them are on no platform unless they say so."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def team(pytester: pytest.Pytester, kept: list[str], broken: list[str]) -> Team:
    """Write a team's file ``tests/test_cancel.py`` with adapters ``KEPT`` and ``BROKEN``."""

    def team(tests: str) -> Path:
        path = pytester.path / "tests" / "test_cancel.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEAM.format(kept=kept, broken=broken) + tests)
        return path

    return team


@pytest.fixture
def on_github(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run) -> OnGitHub:
    """Run pytest in the test's folder as a step of a workflow, whose repository is the folder and whose summary is ``summary.md``."""

    def on_github(*words: str) -> pytest.RunResult:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
        return run(*FAST, *words)

    return on_github
