"""The team's repository in miniature at its gate: green as it is, red by a change that breaks it, red by one that mends it unsaid."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.conftest import plain_output

__all__ = ["plain_output"]

ROOT = Path(__file__).resolve().parents[2]
TEAM = ROOT / "fixtures" / "teams"
SUBREAPER = ROOT / "fixtures" / "wrappers" / "kept" / "subreaper.py"
CHECKS = ["no-survivors", "outcome-not-early", "no-late-writes"]
"""What a process that outlives the cancel breaks."""
pytestmark = pytest.mark.timeout(150)


@dataclass(frozen=True, slots=True)
class Gate:
    """What the workflow's own pytest command came to, as GitHub would see it."""

    status: int
    lines: list[str]
    summary: str

    @property
    def annotations(self) -> list[tuple[str, int]]:
        """The file and the line of each error that is shown in the change."""
        return [_place(line) for line in self.lines if line.startswith("::error")]


@pytest.fixture
def team(pytester: pytest.Pytester) -> Path:
    """A copy of the repository, as it would be checked out, in the folder that pytest is run in."""
    shutil.copytree(
        TEAM, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".cancelcontract", ".pytest_cache")
    )
    return pytester.path


@pytest.fixture
def gate(team: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Gate]:
    """Run what the workflow runs."""
    words = _command(team)
    summary = team / "summary.md"
    summary.touch()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(team))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    def gate() -> Gate:
        ran = pytester.run(sys.executable, *words, timeout=120)
        return Gate(int(ran.ret), ran.outlines, summary.read_text())

    return gate


def _command(team: Path) -> list[str]:
    """The words of the workflow's pytest command, behind ``python``."""
    workflow = (team / ".github" / "workflows" / "cancel.yml").read_text()
    [line] = re.findall(r"- run: python (-m pytest .*)", workflow)
    return shlex.split(line)


def _place(annotation: str) -> tuple[str, int]:
    found = dict(part.split("=", 1) for part in annotation.removeprefix("::error ").partition("::")[0].split(","))
    return found["file"], int(found["line"])


def _line_of(path: Path, words: str) -> int:
    """The number of the line that has these words; there is one."""
    [number] = [number for number, line in enumerate(path.read_text().splitlines(), 1) if words in line]
    return number


def test_as_it_is_the_gate_is_green(team: Path, gate: Callable[[], Gate]) -> None:
    seen = gate()
    assert seen.status == pytest.ExitCode.OK
    assert [
        line.partition(": TEAM")[0].split(":")[2] for line in seen.lines if line.startswith("expected broken: own-session-child:")
    ] == CHECKS
    assert seen.annotations == []
    assert (team / "cancel.json").exists()
    assert (team / "cancel.html").exists()


def test_a_change_that_breaks_the_wrapper_turns_it_red_with_one_annotation_at_the_marker(team: Path, gate: Callable[[], Gate]) -> None:
    wrap = team / "wrap.py"
    wrap.write_text(wrap.read_text().replace("(signal.SIGTERM, signal.SIGKILL)", "(signal.SIGTERM,)"))
    seen = gate()
    assert seen.status == pytest.ExitCode.TESTS_FAILED
    failed = [line for line in seen.lines if line.startswith("FAILED")]
    assert len(failed) == 1
    assert failed[0].startswith("FAILED test_cancel.py::test_cancel_stops_the_agent[deaf-child]")
    assert seen.annotations == [("test_cancel.py", _line_of(team / "test_cancel.py", "@pytest.mark.cancel_contract"))]
    assert "deaf-child" in seen.summary


def test_a_change_that_mends_what_the_baseline_accepts_turns_its_entries_red(team: Path, gate: Callable[[], Gate]) -> None:
    shutil.copy(SUBREAPER, team / "wrap.py")
    seen = gate()
    assert seen.status == pytest.ExitCode.TESTS_FAILED
    baseline = team / "cancel-baseline.toml"
    lines = [_line_of(baseline, f'"own-session-child:{clause}"') - 1 for clause in CHECKS]
    assert [line for line in seen.lines if line.startswith("FAILED")] == [
        f"FAILED cancel-baseline.toml:{line}: own-session-child:{clause} is broken no more, it is kept: take the entry out"
        for line, clause in zip(lines, CHECKS, strict=True)
    ]
    assert seen.annotations == [("cancel-baseline.toml", line) for line in lines]


@pytest.mark.slow
def test_the_change_that_mends_it_and_takes_the_entries_out_is_green(team: Path, gate: Callable[[], Gate]) -> None:
    shutil.copy(SUBREAPER, team / "wrap.py")
    (team / "cancel-baseline.toml").write_text("")
    seen = gate()
    assert seen.status == pytest.ExitCode.OK
    assert not any(line.startswith("expected broken") for line in seen.lines)
