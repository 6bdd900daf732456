"""A cancel whose answer is lost on its way, from the command line to what is read: the floor ends the run, and the report says so."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.history import load

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S, DELIVERY_S = 2.0, 0.4
WORDS = (
    *("--adapter=fixtures.orchestrator.adapter:AnswersDropped", "--scenario=polite"),
    *(f"--time-limit={TIME_LIMIT_S}", f"--delivery={DELIVERY_S}", "--grace=1", "--kill-within=2", "--heartbeat-timeout=0.8"),
)


@pytest.fixture
def drilled(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """What ``cancelcontract run`` prints of that drill, and its entry in the JSON report."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("COLUMNS", "160")
    report = pytester.path / "report.json"
    result = pytester.run(sys.executable, "-m", "pytest_cancelcontract.cli", "run", *WORDS, f"--report={report}", timeout=60)
    (drill,) = json.loads(report.read_text())["drills"]
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    return result.stdout.str(), drill


def test_with_its_answers_dropped_a_cancel_is_taken_and_never_comes_and_the_floor_ends_the_run(drilled: tuple[str, dict[str, Any]]) -> None:
    """The record takes the cancel at once, the engine has every heartbeat, and the run works on until its time limit."""
    shown, drill = drilled
    checks = {check["clause"]: check for check in drill["checks"]}
    assert {clause for clause, check in checks.items() if check["verdict"] != "kept"} == {"cancel-delivered"}
    delivered = checks["cancel-delivered"]
    assert delivered["verdict"] == "broken"
    assert delivered["expected"].startswith(f"notice or force within {DELIVERY_S} s of pressed")
    assert delivered["why"].startswith("the cancel never came: the run worked on until its time limit was over, and that is what ended it")
    for words in ("cancel contract broken: polite:cancel-delivered", "outcome reported: failed", delivered["observed"]):
        assert words in shown
    measured = drill["measured"]
    assert measured["answered_s"] < DELIVERY_S < measured["delivery_s"] <= measured["cancel_to_gone_s"] <= measured["cancel_to_reported_s"]
    assert measured["heartbeat_interval_s"] is None, "many came between press and notice, and none of them carried it"
    assert checks["heartbeat-steady"]["verdict"] == "kept"
    history = load(drill["history"])
    starting, notice = history.first("adapter", "starting"), history.first("lifeline", "notice")
    assert starting is not None and notice is not None and notice.at_s >= starting.at_s + TIME_LIMIT_S
    assert list(dict.fromkeys(seen.data["outcome"] for seen in history.of("outcome", "answer"))) == ["running", "cancelling", "failed"]
