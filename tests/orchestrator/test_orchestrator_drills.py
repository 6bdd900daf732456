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
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms
from tests.orchestrator.cells import DRILLED, GIVEN, GRACE_S, terms_for

Conduct = Callable[..., DrillResult]


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
    """Runs a drill with its scenario's id, by the terms of the scenario or by those given."""

    def conducted(driver: Driver, scenario: str, terms: Terms | None = None) -> DrillResult:
        row = by_id(scenario)
        return conduct(recorder, driver, row, terms or terms_for(row), history=tmp_path / f"{scenario}.jsonl")

    return conducted


def _not_kept(result: DrillResult) -> dict[str, str]:
    passed = (Verdict.KEPT, Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)
    return {check.clause: f"{check.verdict}: {check.finding.observed}" for check in result.checks if check.verdict not in passed}


def test_the_adapter_can_do_all_that_an_adapter_can_but_wait(driver: Driver) -> None:
    assert set(driver.capabilities()) == {name for name, _ in OPTIONAL} - {"wait"} | {"limit", "stall"}


def test_the_way_of_a_cancel_is_measured(driver: Driver, drill: Conduct) -> None:
    """Taken by the record, then carried by a heartbeat, then noticed; gone after the grace, and reported last."""
    measured = drill(driver, "deaf").measured
    way = [measured[name] for name in ("answered_s", "delivery_s", "cancel_to_gone_s", "cancel_to_reported_s")]
    assert way[0] > 0.0 and way == sorted(way)
    assert way[2] - way[1] >= 0.9 * GRACE_S
    every_s = GIVEN["heartbeat_timeout"] / 4
    assert measured["heartbeat_interval_s"] is None or measured["heartbeat_interval_s"] >= 0.5 * every_s


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(row.id, marks=() if row.id in {"wrapper-killed", "wedged", "engine-lost"} else pytest.mark.slow)
        for row in DRILLED
        if row.needs
    ],
)
def test_the_floor_the_progress_check_and_the_fence_are_kept(driver: Driver, drill: Conduct, scenario: str) -> None:
    result = drill(driver, scenario)
    assert (_not_kept(result), result.verdict) == ({}, Verdict.KEPT)


def test_a_heartbeat_that_follows_the_output_is_enough_for_a_child_that_prints(drill: Conduct) -> None:
    driver = Driver(OrchestratorAdapter("tied_to_output", grace_s=GRACE_S))
    try:
        assert _not_kept(drill(driver, "polite")) == {}
    finally:
        driver.close()
