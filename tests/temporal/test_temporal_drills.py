"""Sample activities under the real server: which clauses each of them keeps, and that the ones which people write are found out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms
from tests.conftest import GONE_WITHIN_S, STAMP, stamped
from tests.temporal.conftest import MakeAdapter

pytestmark = [pytest.mark.xdist_group("temporal"), pytest.mark.timeout(120)]
JOBS = 4
NEVER_TOLD = {
    "cancel-delivered": "broken",
    "no-survivors": "broken",
    "no-zombies": "inconclusive",
    "outcome-not-early": "broken",
    "no-late-writes": "broken",
}
"""What the workflow's word is worth where the run never hears of it."""


@dataclass(frozen=True)
class Cell:
    """One drill: an activity in a scenario, and the clauses that are not kept."""

    activity: str
    scenario: str
    not_kept: dict[str, str] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.activity}-{self.scenario}"


CELLS = (
    *(Cell("kept", id) for id in ("polite", "slow-cleanup", "deaf", "deaf-child", "daemon", "second-run", "bystander", "next-task")),
    Cell("kept_in_a_thread", "deaf-child"),
    Cell("calls_a_fixed_program", "second-run", more={"shims": ("claude",), "options": lambda run: {"id": run.task_id}}),
    # The server closes the workflow at once where it does not have to wait for the activity.
    Cell("no_heartbeat", "polite", NEVER_TOLD, {"cancellation": "TRY_CANCEL", "heartbeat_timeout": None}),
    Cell("no_heartbeat_in_a_thread", "polite", NEVER_TOLD, {"cancellation": "TRY_CANCEL", "heartbeat_timeout": None}),
    Cell("no_kill", "deaf", {**NEVER_TOLD, "grace-bounded": "inconclusive"}),
    Cell(
        "heartbeat_unread",
        "polite",
        {**NEVER_TOLD, "outcome-reported": "broken", "outcome-not-early": "inconclusive", "outcome-not-success": "inconclusive"},
    ),
    Cell(
        "terminates_the_leader", "deaf-child", {name: NEVER_TOLD[name] for name in ("no-survivors", "outcome-not-early", "no-late-writes")}
    ),
    Cell("swallows", "deaf", {"outcome-not-success": "broken"}),
)


@pytest.fixture(autouse=True)
def leak_guard() -> None:
    """Not after each test: the drills of the next ones are under way. ``result_of`` looks when all are over."""


@pytest.fixture(scope="module")
def result_of(
    request: pytest.FixtureRequest, make_adapter: MakeAdapter, recorder: Recorder, terms: Terms, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Cell], DrillResult]]:
    """The drills of the tests that were chosen, a few at once, ahead of the tests that wait for them."""
    chosen = [item.callspec.params["cell"] for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    folder, lanes, stamp = tmp_path_factory.mktemp("temporal"), Lanes(), f"temporal-{os.getpid()}"

    def drill(cell: Cell) -> DrillResult:
        driver = Driver(make_adapter(cell.activity, more=cell.more, **cell.given))
        history = Path(folder, f"{id(cell)}.jsonl")
        try:
            return conduct(recorder, driver, by_id(cell.scenario), terms, history=history, lanes=lanes)
        finally:
            driver.close()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(JOBS) as pool:
        patch.setenv(STAMP, stamp)
        results: dict[int, Future[DrillResult]] = {id(cell): pool.submit(drill, cell) for cell in chosen}
        yield lambda cell: results[id(cell)].result()
        pool.shutdown(cancel_futures=True)
    until = time.monotonic() + GONE_WITHIN_S
    while left := stamped(stamp):
        if time.monotonic() > until:
            pytest.fail("the drills left behind: " + "; ".join(f"{identity} {command}" for identity, command in left.items()))
        time.sleep(0.01)  # polls to a deadline: there is no event for "nobody carries the stamp"


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_activity_gets_exactly_these_verdicts(cell: Cell, result_of: Callable[[Cell], DrillResult]) -> None:
    result = result_of(cell)
    unjudged = (Verdict.KEPT, Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)
    not_kept = {check.clause: str(check.finding.verdict) for check in result.checks if check.finding.verdict not in unjudged}
    assert not_kept == cell.not_kept, [check.finding for check in result.checks if check.finding.verdict not in unjudged]


def _never_told() -> list[Cell]:
    return [cell for cell in CELLS if cell.activity.startswith("no_heartbeat")]


@pytest.mark.parametrize("cell", _never_told(), ids=str)
def test_the_workflow_says_cancelled_at_once_and_the_process_writes_on(cell: Cell, result_of: Callable[[Cell], DrillResult]) -> None:
    """The server's word comes in a fraction of a second; the runner never hears of it, and writes to the end of the drill."""
    result = result_of(cell)
    assert result.measured["cancel_to_reported_s"] < 1.0
    assert (result.measured["cancel_to_gone_s"], result.measured["survivors"]) == (None, 1)
    told = {check.clause: check.finding.observed for check in result.checks}
    assert "'cancelled' reported" in told["outcome-not-early"] and "alive as it was reported" in told["outcome-not-early"]
    history = load(Path(result.history))
    answered = next(seen for seen in history.of("outcome", "answer") if seen.data["outcome"] == "cancelled")
    written = [seen for seen in history.of("lifeline", "wrote") if seen.at_s > answered.at_s]
    assert len(written) > 1 and "by pid" in told["no-late-writes"]
