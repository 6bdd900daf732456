"""A drill in JUnit's file: short strings, in every family, and one way or the other under xdist."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from pytest_cancelcontract.report import junit
from tests.platforms.conftest import BROKEN_TEST, Team
from tests.plugin.conftest import FAST, Run

ROW: dict[str, Any] = {
    "scenario": "deaf",
    "verdict": "broken",
    "attempts": 2,
    "measured": {"cancel_to_gone_s": 1.23456789, "early_s": None, "late_writes": 0},
    "checks": [{"clause": clause, "verdict": verdict} for clause, verdict in (("a", "broken"), ("b", "kept"), ("c", "broken"))],
    "history": "/x/deaf.jsonl",
}


def test_a_drill_is_told_in_short_strings_and_what_was_not_measured_is_left_out() -> None:
    assert junit.properties([ROW]) == [
        ("cancel_contract.scenario", "deaf"),
        ("cancel_contract.verdict", "broken"),
        ("cancel_contract.broken", "a, c"),
        ("cancel_contract.cancel_to_gone_s", "1.23457"),
        ("cancel_contract.late_writes", "0"),
        ("cancel_contract.attempts", "2"),
        ("cancel_contract.history", "/x/deaf.jsonl"),
    ]


def test_a_second_drill_of_a_test_has_names_of_its_own() -> None:
    not_run = {"scenario": "deaf", "verdict": "inconclusive", "error": f"a\x1b\ud800\n{'x' * 1000}"}
    names, values = zip(*junit.properties([ROW, not_run])[-3:], strict=True)
    assert names == ("cancel_contract.2.scenario", "cancel_contract.2.verdict", "cancel_contract.2.error")
    assert values[2].startswith("a\\x1b\\ud800 xxx") and len(values[2]) == 300


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "2"), ("-o", "junit_family=xunit1")], ids=["xunit2", "two workers", "xunit1"])
def test_the_file_has_the_properties_of_each_test(pytester: pytest.Pytester, team: Team, run: Run, words: tuple[str, ...]) -> None:
    team(BROKEN_TEST + "\n\ndef test_other():\n    pass\n")
    result = run(*FAST, "--junitxml=x.xml", *words)
    result.assert_outcomes(passed=2, failed=1)
    cases = {case.get("name"): case for case in ET.parse(pytester.path / "x.xml").iter("testcase")}
    assert sorted(map(str, cases)) == ["test_other", "test_worker[deaf-child]", "test_worker[polite]"]
    polite, deaf = (properties(cases[f"test_worker[{scenario}]"]) for scenario in ("polite", "deaf-child"))
    assert properties(cases["test_other"]) == {}
    assert (polite["verdict"], deaf["verdict"], deaf["broken"]) == ("kept", "broken", "no-survivors, no-late-writes")
    assert float(polite["cancel_to_gone_s"]) > 0 and "broken" not in polite and "cancel_to_gone_s" not in deaf
    assert polite["history"].endswith(".jsonl")


def properties(case: ET.Element) -> dict[str, str]:
    found = [(str(one.get("name")), str(one.get("value"))) for one in case.iter("property")]
    assert len(dict(found)) == len(found), "each once"
    return {name.removeprefix("cancel_contract."): value for name, value in found}


@pytest.mark.slow
def test_a_drill_that_the_test_presses_itself_has_them_too(pytester: pytest.Pytester, team: Team, run: Run) -> None:
    team(
        """
import subprocess
from pytest_cancelcontract import assert_outcome_reported

@pytest.mark.parametrize("scenario", ["polite"])
def test_steps(cancel_drill, scenario):
    for _ in range(2):
        with cancel_drill(scenario) as drill:
            wrapper = subprocess.Popen(drill.run.argv)
            drill.watch(lambda: "running" if wrapper.poll() is None else "cancelled", {})
            drill.until_working()
            with drill.pressing():
                wrapper.terminate()
            drill.until_over()
        assert_outcome_reported(drill)
"""
    )
    run(*FAST, "--junitxml=x.xml").assert_outcomes(passed=1)
    (case,) = ET.parse(pytester.path / "x.xml").iter("testcase")
    found = properties(case)
    assert (found["scenario"], found["verdict"], found["2.scenario"], found["2.verdict"]) == ("polite", "kept", "polite", "kept")
    assert found["history"] != found["2.history"]
