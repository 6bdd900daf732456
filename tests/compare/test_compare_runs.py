"""The comparison at the gate and as a command: real drills, and reports that were changed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import FAST, Run

EMPTY = {"format": "cancel-contract-report", "format_version": 1, "drills": []}
OPTIONS = [word.replace("cancel-", "") for word in FAST]


@pytest.fixture
def old(pytester: pytest.Pytester, command: Run, kept: list[str]) -> Path:
    """The report of a real run, of ``polite`` and ``deaf``, under ``old.json``."""
    result = command("run", *OPTIONS, "--scenario=polite", "--scenario=deaf", "--report=old.json", "--", *kept)
    assert result.ret == pytest.ExitCode.OK
    return pytester.path / "old.json"


def changed(path: Path, name: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a report, under another name, with every drill changed."""
    report = json.loads(path.read_text())
    for drill in report["drills"]:
        change(drill)
    copy = path.with_name(name)
    copy.write_text(json.dumps(report))
    return copy


def faster(by_s: float) -> Callable[[dict[str, Any]], None]:
    def change(drill: dict[str, Any]) -> None:
        drill["measured"]["cancel_to_gone_s"] -= by_s

    return change


def worse(drill: dict[str, Any]) -> None:
    drill["verdict"] = "broken"
    drill["checks"][0]["verdict"] = "broken"


def test_a_run_shows_what_has_changed_since_an_earlier_report(old: Path, command: Run, kept: list[str]) -> None:
    """The same wrapper against a report that says that it was 10 s faster."""
    changed(old, "faster.json", faster(10.0))
    words = ("run", *OPTIONS, "--scenario=polite", "--compare=faster.json")
    shown = command(*words, "--", *kept)
    assert shown.ret == pytest.ExitCode.OK
    shown.stdout.fnmatch_lines(
        ["compared with faster.json", "  only before: deaf", "  polite  gone  *-9.* s (clock *) -> 0.* s (clock *)  +*"]
    )
    limited = command(*words, "--compare-limit=gone:50%+1s", "--compare-limit=survivors:0", "--", *kept)
    assert limited.ret == pytest.ExitCode.TESTS_FAILED
    assert [line for line in limited.outlines if line.startswith("FAILED")] == [
        line for line in limited.outlines if line.startswith("FAILED limit: polite gone: ") and line.endswith("which exceeds gone:50%+1s")
    ]
    limited.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_run_within_its_limits_passes_and_two_reports_count_by_their_median(
    pytester: pytest.Pytester, old: Path, run: Run, kept: list[str]
) -> None:
    changed(old, "faster.json", faster(10.0))
    changed(old, "slower.json", faster(-10.0))
    settings = [
        f"cancel_wrapper = {' '.join(kept)}",
        "cancel_compare = old.json faster.json slower.json",
        "cancel_compare_limit = gone:5s verdict",
    ]
    pytester.makeini("\n".join(["[pytest]", *settings]))
    result = run(*FAST, "--cancel-scenario=polite", "--pyargs", "pytest_cancelcontract.conformance", "-n", "1")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["compared with old.json and faster.json and slower.json"])
    result.stdout.no_fnmatch_line("*FAILED*")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cancel-compare=none.json"], "ERROR: the report none.json (from --cancel-compare) cannot be read: *No such file*"),
        (["--cancel-compare=other.json"], "ERROR: other.json is no report of the cancel contract, * (from --cancel-compare)"),
        (["--cancel-compare=bad.json"], "ERROR: bad.json is malformed: drill 1 is no object but 1 (from --cancel-compare)"),
        (["--cancel-compare-limit=gone:1s"], "ERROR: --cancel-compare-limit needs a file: --cancel-compare"),
        (
            ["--cancel-compare=empty.json", "--cancel-compare-limit=gone:fast"],
            "ERROR: a limit must be like 'gone:20%+0.2s', got 'gone:fast' from --cancel-compare-limit",
        ),
    ],
)
def test_what_cannot_be_compared_ends_the_run_before_it_begins(pytester: pytest.Pytester, run: Run, words: list[str], message: str) -> None:
    (pytester.path / "other.json").write_text("{}")
    (pytester.path / "empty.json").write_text(json.dumps(EMPTY))
    (pytester.path / "bad.json").write_text(json.dumps(EMPTY | {"drills": [1]}))
    result = run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_command_compares_two_reports(old: Path, command: Run) -> None:
    new = changed(old, "new.json", faster(-3.0))
    shown = command("compare", old.name, new.name)
    assert shown.ret == 0 and not shown.errlines
    shown.stdout.fnmatch_lines(
        [
            "compared with old.json",
            "  polite  gone  *",
            "  deaf    gone  *+3.000 s*",
            "  no verdict of a drill has changed, of 2 that are in both",
        ]
    )
    failed = command("compare", old.name, new.name, "--limit", "gone:20%+0.2s")
    assert failed.ret == 1
    failed.stderr.fnmatch_lines(["limit: polite gone: *which exceeds gone:20%+0.2s", "limit: deaf gone: *which exceeds gone:20%+0.2s"])
    assert command("compare", old.name, new.name, "--new", old.name, "--new", old.name, "--limit", "gone:0.1s").ret == 0, "the median"


@pytest.mark.slow
def test_the_command_fails_on_a_verdict_that_got_worse_where_that_is_asked_for(old: Path, command: Run) -> None:
    new = changed(old, "new.json", worse)
    assert command("compare", old.name, new.name).ret == 0
    assert command("compare", new.name, old.name, "--limit", "verdict").ret == 0
    failed = command("compare", old.name, new.name, "--limit", "verdict")
    assert failed.ret == 1
    failed.stderr.fnmatch_lines(
        ["limit: polite verdict: kept before, broken now, which exceeds verdict", "limit: polite cancel-delivered: kept before*"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.json", "none.json"], "cancelcontract compare: none.json cannot be read: No such file or directory"),
        (["none.json"], "cancelcontract compare: the following arguments are required: NEW.json; *"),
        (["a", "b", "--limit", "left:1"], "cancelcontract compare: a limit must begin with what is measured (*"),
    ],
)
def test_bad_use_of_the_comparison_is_one_clear_error(command: Run, words: list[str], message: str) -> None:
    result = command("compare", *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_malformed_report_is_one_clear_error_of_the_command(pytester: pytest.Pytester, command: Run) -> None:
    (pytester.path / "bad.json").write_text(json.dumps(EMPTY | {"drills": [{"scenario": "deaf"}]}))
    result = command("compare", "bad.json", "bad.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines == ["cancelcontract compare: bad.json is malformed: drill 1 has no verdict"] and not result.outlines


@pytest.mark.parametrize("change", [{"verdict": "kepr"}, {"checks": [{"clause": "no-survivors", "verdict": "kepr"}]}], ids=str)
def test_a_verdict_that_is_not_known_is_one_clear_error_of_the_command(pytester: pytest.Pytester, command: Run, change: Any) -> None:
    drill = {"scenario": "deaf", "verdict": "kept", "measured": {}, "checks": []}
    (pytester.path / "good.json").write_text(json.dumps(EMPTY | {"drills": [drill]}))
    (pytester.path / "bad.json").write_text(json.dumps(EMPTY | {"drills": [drill | change]}))
    result = command("compare", "good.json", "bad.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and not result.outlines
    (line,) = result.errlines
    assert line.startswith('cancelcontract compare: bad.json is malformed: drill 1 has the verdict "kepr"')
