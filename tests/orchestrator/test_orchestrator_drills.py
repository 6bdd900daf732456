"""The orchestrator as a team's wrapper, drilled by the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.adapter import OrchestratorAdapter
from pytest_cancelcontract.adapters.driver import OPTIONAL, Driver
from pytest_cancelcontract.conduct import DrillResult, conduct
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import SCENARIOS, by_id, select
from pytest_cancelcontract.terms import settle_terms
from tests.orchestrator.half_measures import BREAKS

GIVEN = {"delivery": 1.0, "grace": 1.0, "kill_within": 1.5, "settle": 0.3, "retry": 1.0, "start": 15.0, "call": 10.0}
GIVEN |= {"time_limit": 4.0, "stall_after": 1.5, "lease": 1.5, "heartbeat_timeout": 0.6}
TERMS = settle_terms({name: (value, "the test") for name, value in GIVEN.items()})
GRACE_S = 0.7
Conduct = Callable[[Driver, str], DrillResult]


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    started = Recorder.start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    adapter = OrchestratorAdapter(grace_s=GRACE_S)
    assert adapter.orchestrator  # brought up here, or the first test's leak guard would take it for that test's
    made = Driver(adapter)
    yield made
    made.close()


@pytest.fixture
def drill(recorder: Recorder, tmp_path: Path) -> Conduct:
    """Runs a drill with its scenario's id."""

    def conducted(driver: Driver, scenario: str) -> DrillResult:
        return conduct(recorder, driver, by_id(scenario), TERMS, history=tmp_path / f"{scenario}.jsonl")

    return conducted


def _not_kept(result: DrillResult) -> dict[str, str]:
    passed = (Verdict.KEPT, Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)
    return {check.clause: f"{check.verdict}: {check.finding.observed}" for check in result.checks if check.verdict not in passed}


def test_the_adapter_can_do_all_that_an_adapter_can_but_wait(driver: Driver) -> None:
    assert set(driver.capabilities()) == {name for name, _ in OPTIONAL} - {"wait"} | {"limit", "stall"}


@pytest.mark.parametrize("scenario", [row.id for row in select("core")] + ["bystander", "next-task", "cancel-at-start", "cancel-twice"])
def test_the_whole_contract_is_kept(driver: Driver, drill: Conduct, scenario: str) -> None:
    assert _not_kept(drill(driver, scenario)) == {}


@pytest.mark.parametrize("scenario", [row.id for row in SCENARIOS if row.needs])
def test_the_floor_the_progress_check_and_the_fence_are_kept(driver: Driver, drill: Conduct, scenario: str) -> None:
    result = drill(driver, scenario)
    assert (_not_kept(result), result.verdict) == ({}, Verdict.KEPT)


@pytest.mark.parametrize(("bridge", "scenario", "clause"), [pytest.param(*row, id=" ".join(row)) for row in BREAKS])
def test_a_half_measure_breaks_its_clause(drill: Conduct, bridge: str, scenario: str, clause: str) -> None:
    driver = Driver(OrchestratorAdapter(bridge, grace_s=GRACE_S))
    try:
        found = _not_kept(drill(driver, scenario))
    finally:
        driver.close()
    assert found.get(clause, "").startswith("broken"), found


def test_a_heartbeat_that_follows_the_output_is_enough_for_a_child_that_prints(drill: Conduct) -> None:
    driver = Driver(OrchestratorAdapter("tied_to_output", grace_s=GRACE_S))
    try:
        assert _not_kept(drill(driver, "polite")) == {}
    finally:
        driver.close()
