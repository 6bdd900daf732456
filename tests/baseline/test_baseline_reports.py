"""What turns a run red beside its drills stands in the reports that are files, too: they must not look green where the run is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.baseline.test_baseline_runs import BROKEN_TEST, MENDED_TEST, MUTE_TEST, SHOWN, day, entries, gate, team
from tests.plugin.conftest import FAST, Run

__all__ = ["team"]
REPORTS = ("--cancel-report=x.json", "--cancel-report=x.html")
STALE = "known.toml:1: deaf-child:no-survivors is broken no more, it is kept: take the entry out"

ZERO_TEST = """
    import sys
    ZERO = CommandAdapter([sys.executable, "-c", "import signal, subprocess as s, sys; child = s.Popen(sys.argv[1:], stdout=s.DEVNULL);"
        " signal.signal(signal.SIGTERM, lambda *_: child.terminate()); child.wait()", "{runner}"])

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["outcome-not-success"])
    def test_zero(cancel_contract):
        cancel_contract.check(ZERO)
"""


def told(folder: Path) -> list[str]:
    """What the JSON says of it; the page must say the same, and nothing where that says nothing."""
    lines: list[str] = json.loads((folder / "x.json").read_text()).get("gate", [])
    page = (folder / "x.html").read_text()
    assert all(line in page for line in lines)
    assert ("What fails the run" in page) is bool(lines)
    return lines


@pytest.mark.parametrize("words", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "a worker"])
def test_a_stale_entry_stands_in_both_reports(team: Any, run: Run, words: tuple[str, ...]) -> None:
    path = team(MENDED_TEST, entries("no-survivors"))
    assert gate(run, *REPORTS, *words).ret == pytest.ExitCode.TESTS_FAILED
    assert told(path.parent) == [STALE]
    page = (path.parent / "x.html").read_text()
    assert "<title>2 of 2 drills kept, but the run fails" in page


@pytest.mark.slow
def test_an_expired_entry_stands_in_both_reports_and_a_known_fault_in_none(team: Any, run: Run) -> None:
    path = team(BROKEN_TEST, entries(*SHOWN))
    assert gate(run, *REPORTS).ret == pytest.ExitCode.OK
    assert told(path.parent) == []
    path.write_text(entries("no-survivors", expires=day(-1)) + "\n" + entries(*SHOWN[1:]))
    assert gate(run, *REPORTS).ret == pytest.ExitCode.TESTS_FAILED
    (line,) = told(path.parent)
    assert line.startswith(f"known.toml:1: deaf-child:no-survivors expired on {day(-1)}: mend it")


@pytest.mark.slow
def test_what_is_not_covered_and_fails_stands_in_both_reports(team: Any, run: Run) -> None:
    path = team(MUTE_TEST, entries("outcome-reported", scenario="polite", kind="not-covered"))
    run(*FAST, *REPORTS, "--cancel-not-covered=fail").assert_outcomes(failed=1)
    (line,) = told(path.parent)
    start = "test_cancel.py::test_mute polite:outcome-reported: not covered, which fails here (--cancel-not-covered is fail); it lacks "
    assert line.startswith(start)
    gate(run, *REPORTS, "--cancel-not-covered=fail").assert_outcomes(passed=1)
    assert told(path.parent) == []


@pytest.mark.slow
def test_an_exceeded_limit_stands_in_both_reports(team: Any, run: Run) -> None:
    path = team(MENDED_TEST, None)
    run(*FAST, "--cancel-report=old.json", "-k", "polite")
    old = json.loads((path.parent / "old.json").read_text())
    old["drills"][0]["measured"]["cancel_to_gone_s"] = -9.0
    (path.parent / "old.json").write_text(json.dumps(old))
    run(*FAST, *REPORTS, "-k", "polite", "--cancel-compare=old.json", "--cancel-compare-limit=gone:0.2s")
    (line,) = told(path.parent)
    assert line.startswith("limit: polite gone: -9.000 s")


@pytest.mark.slow
def test_a_broken_should_that_fails_stands_in_both_reports(team: Any, run: Run) -> None:
    """An exit status of 0 after a cancel is a SHOULD, where nothing else tells the outcome."""
    path = team(ZERO_TEST, None)
    run(*FAST, *REPORTS).assert_outcomes(passed=1)
    assert told(path.parent) == []
    run(*FAST, *REPORTS, "--cancel-level=should").assert_outcomes(failed=1)
    wanted = "test_cancel.py::test_zero polite:outcome-not-success: broken, a SHOULD, which fails here (--cancel-level is should)"
    assert told(path.parent) == [wanted]


@pytest.mark.slow
def test_a_mended_fault_that_the_marker_expects_stands_in_both_reports(team: Any, run: Run) -> None:
    path = team(MENDED_TEST.replace("scenarios", 'expected={"deaf-child:no-survivors": "ticket 1"}, scenarios'), "")
    run(*FAST, *REPORTS, "-k", "deaf-child").assert_outcomes(failed=1, deselected=1)
    assert told(path.parent) == ["test_cancel.py::test_worker deaf-child:no-survivors: expected to be broken, and kept"]
