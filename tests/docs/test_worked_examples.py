"""The clause and the scenario that the documentation adds, over real drills of samples that keep and break them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docs.examples import chatty_cleanup, told_before_force
from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.hosting import driver_for
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.conduct import DrillResult, conduct
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import SCENARIOS, Scenario, by_id
from pytest_cancelcontract.terms import Terms, settle_terms
from tests.docs.conftest import ROOT
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, story, without

Drill = Callable[[str, Scenario], DrillResult]
UNTOLD_CHILD = story(told=0.1, deaths={"leader": 0.2, "deaf-child": 5.3}, goodbyes=["leader"])
TOLD_CHILD = story(told={"leader": 0.1, "deaf-child": 0.1}, deaths={"leader": 0.2, "deaf-child": 5.3}, goodbyes=["leader"])
ROWS = (
    Row("the child was told, and then killed", TOLD_CHILD, KEPT),
    Row("nothing was killed", story(goodbyes=["leader"]), KEPT, says=["none was killed"]),
    Row("the child was killed and never told", UNTOLD_CHILD, BROKEN, says=["deaf-child"]),
    Row("nobody saw the child end", without(TOLD_CHILD, "process-table"), INCONCLUSIVE),
)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    started = Recorder.start()
    yield started
    started.close()


@pytest.fixture
def drill(recorder: Recorder, tmp_path: Path) -> Drill:
    """Drill a sample wrapper in a scenario, one of the table or not."""
    terms = settle_terms({name: (value, "the test") for name, value in {"grace": 1.0, "delivery": 1.0, "kill_within": 1.5}.items()})

    def drill(sample: str, scenario: Scenario) -> DrillResult:
        path = ROOT / "fixtures" / "wrappers" / f"{sample}.py"
        driver = driver_for(CommandAdapter([sys.executable, str(path), "--grace", "0.8", "{workspace}", "{source}", "{runner}"]))
        try:
            return conduct(recorder, driver, scenario, terms, history=tmp_path / "drill.jsonl")
        finally:
            driver.close()

    return drill


def _found(result: DrillResult) -> Finding:
    history = load(result.history)
    return told_before_force.ROW.check(Facts(history, Terms.from_dict(history.header["terms"])))


def test_the_scenario_is_kept_by_a_wrapper_that_waits_for_the_clean_up(drill: Drill) -> None:
    result = drill("kept/subreaper", chatty_cleanup.ROW)
    assert result.verdict is Verdict.KEPT
    assert "grace-given" in {check.clause for check in result.checks}


def test_the_scenario_shows_a_wrapper_that_kills_at_once(drill: Drill) -> None:
    result = drill("broken/kills_at_once", chatty_cleanup.ROW)
    assert [check.clause for check in result.checks if check.verdict is Verdict.BROKEN] == ["grace-given"]
    assert _found(result).verdict is Verdict.BROKEN, "the clause says the same of it"


def test_the_clause_is_kept_by_a_wrapper_that_tells_the_whole_run(drill: Drill) -> None:
    result = drill("kept/subreaper", by_id("deaf-child"))
    found = _found(result)
    assert (found.verdict, found.observed) == (Verdict.KEPT, "1 killed, all of them told before")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_clauses_table(row: Row) -> None:
    found = told_before_force.check(Facts(row.history(), row.given))
    assert found.verdict is row.verdict
    assert all(words in f"{found}" for words in row.says)


def test_the_scenario_is_not_in_the_table_yet() -> None:
    assert chatty_cleanup.ROW.id not in {row.id for row in SCENARIOS}, "show another one in the documentation"
