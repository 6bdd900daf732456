"""What a cancelled run still spends, in real drills: by the provider's count, whatever the record, the books or the run itself say."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.contract import judge, measure
from pytest_cancelcontract.drill import run_drill
from pytest_cancelcontract.finding import Check, Verdict
from pytest_cancelcontract.history import TERMINAL, History
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms

WRAPPERS = Path(__file__).resolve().parents[2] / "fixtures" / "wrappers"
Drill = Callable[..., History]


@pytest.fixture
def drill(recorder: Recorder, terms: Terms, path: Path, read: Callable[[], History], tmp_path: Path) -> Drill:
    """Drill a sample that keeps a record, which lies beside the history."""

    def run(sample: str, scenario: str) -> History:
        words = [sys.executable, str(WRAPPERS / sample), "--grace", "0.8", "--record", str(tmp_path / "record")]
        ask = f"sh {shlex.quote(str(WRAPPERS / 'kept' / 'ask.sh'))} {shlex.quote(str(tmp_path / 'record'))} {{wrapper_pid}}"
        driver = Driver(CommandAdapter(f"{shlex.join(words)} {{workspace}} {{source}} {{runner}}", outcome=ask))
        try:
            given = replace(terms, spend_within_s=0.5)
            run_drill(recorder, driver, by_id(scenario), given, wrapper=sample, history=path)
        finally:
            driver.close(within_s=1.0)
        return read()

    return run


def _check(history: History, clause: str) -> Check:
    (check,) = judge(history, [clause])
    return check


def _handover_s(history: History) -> float:
    return next(one.at_s for one in history.of("outcome", "answer") if one.data["outcome"] in TERMINAL)


def test_the_record_says_cancelled_and_the_meter_runs_on(drill: Drill) -> None:
    history = drill("broken/reports_at_the_press.py", "deaf")
    finding = _check(history, "spend-stops").finding
    assert finding.verdict is Verdict.BROKEN
    handover = _handover_s(history)
    produced = [one for one in history.of("meter", "tokens") if one.data["since_s"] > handover]
    begun = [one for one in history.of("meter", "request") if one.at_s > handover]
    tokens = sum(one.data["count"] for one in produced)
    assert finding.observed.startswith(f"{tokens} tokens and {len(begun)} new requests after the handover")
    assert tokens == measure(history)["late_tokens"] > 0
    assert "was still alive" in finding.likely


def test_the_books_of_a_gateway_are_not_believed(drill: Drill, tmp_path: Path) -> None:
    history = drill("broken/closes_its_books_only.py", "streaming")
    books = json.loads((tmp_path / "record.books").read_text())
    assert books["open"] == 0
    handover = _handover_s(history)
    (stream,) = [one.data["request"] for one in history.of("meter", "request") if one.data["stream"]]
    spend, closed = _check(history, "spend-stops").finding, _check(history, "requests-closed").finding
    assert (spend.verdict, closed.verdict) == (Verdict.BROKEN, Verdict.BROKEN)
    produced = [one.data["count"] for one in history.of("meter", "tokens") if one.data["since_s"] > handover]
    told = re.match(r"(\d+) tokens after the handover", spend.observed)
    # What was made while the recorder took its last look may be in the book already.
    assert told is not None
    assert sum(produced) - 5 <= int(told[1]) <= sum(produced)
    assert stream in spend.observed and stream in closed.observed
    assert "nothing of the run was alive" in spend.likely


def test_a_gateway_that_hangs_up_is_kept(drill: Drill, tmp_path: Path) -> None:
    history = drill("kept/gateway.py", "streaming")
    assert [_check(history, name).verdict for name in ("spend-stops", "requests-closed")] == [Verdict.KEPT, Verdict.KEPT]
    assert json.loads((tmp_path / "record.books").read_text())["bytes"] > 0


def test_work_without_a_connection_outlives_a_run_that_was_killed_at_once(drill: Drill) -> None:
    history = drill("broken/kills_at_once.py", "background-request")
    finding = _check(history, "spend-stops").finding
    assert finding.verdict is Verdict.BROKEN
    assert "work without a connection" in finding.observed and "never cancelled" in finding.likely
