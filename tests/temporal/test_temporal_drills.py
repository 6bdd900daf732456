"""Sample activities under the real server: which clauses each of them keeps, and that the ones which people write are found out."""

from __future__ import annotations

import os
import re
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
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import settle_terms
from tests.conftest import GONE_WITHIN_S, STAMP, stamped
from tests.temporal.conftest import GRACE_S, TERMS, WORKER, MakeAdapter

pytestmark = [pytest.mark.xdist_group("temporal"), pytest.mark.timeout(120)]
JOBS = 6
LIMITS = {"time_limit": 3.0, "stall_after": 1.5, "lease": 1.5, "grace": 1.0, "kill_within": 1.5}
"""The terms of the drills that nobody cancels."""
KEEPS = {"floor_limit": LIMITS["time_limit"], "stall_after": LIMITS["stall_after"], "lease": LIMITS["lease"]}
NEVER_TOLD = {
    "cancel-delivered": "broken",
    "no-survivors": "broken",
    "no-zombies": "inconclusive",
    "outcome-not-early": "broken",
    "no-late-writes": "broken",
    "spend-stops": "broken",
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
    terms: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        without = [f"-without-{name}" for name in ("stall_after", "lease") if self.terms and self.given.get(name, 0) is None]
        below = "-in-a-child-workflow" if "generations" in self.given else ""
        return f"{self.activity}-{self.scenario}{''.join(without)}{below}"


INTERVAL_S = 1.2
BEATING = Cell(
    "kept",
    "deaf",
    given={"heartbeat_timeout": INTERVAL_S / 0.8},
    more={"worker": f"{WORKER}_as_by_default"},
    terms={"delivery": 3.0, "heartbeat_timeout": 2.5},
)
"""With heartbeats as far apart as the SDK lets them be: one of them carries the cancel, and it can be told which."""
CELLS = (
    *(Cell("kept", id) for id in ("polite", "slow-cleanup", "deaf-child", "daemon", "second-run", "bystander", "next-task")),
    BEATING,
    Cell("kept_in_a_thread", "deaf-child"),
    # Its run lives longer than the timeout: without the child's heartbeats they would not be steady.
    Cell("kept", "deaf", given={"generations": 1, "grace": 1.8}, terms={"grace": 2.0, "heartbeat_timeout": 1.5}),
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
    Cell(
        "silent_in_the_grace",
        "deaf",
        {"heartbeat-steady": "broken"},
        {"heartbeat_timeout": 5.0, "grace": 1.8},
        terms={"grace": 2.0, "heartbeat_timeout": 1.0},
    ),
    # Nobody cancels: the guard is outside of the worker and has the limit, and the activity minds progress and lease.
    *(Cell("kept", id, given=KEEPS, terms=LIMITS) for id in ("wrapper-killed", "never-cancelled", "wedged", "engine-lost")),
    Cell("no_kill", "wrapper-killed", {"floor-holds": "broken"}, terms=LIMITS),
    # The server's own limit ends the attempt in its record, and nothing in the world.
    Cell(
        "no_heartbeat",
        "never-cancelled",
        {"floor-holds": "broken"},
        {"heartbeat_timeout": None, "start_to_close": LIMITS["time_limit"]},
        terms=LIMITS,
    ),
    Cell("kept", "wedged", {"stall-detected": "broken"}, {**KEEPS, "stall_after": None, "floor_limit": 60.0}, terms=LIMITS),
    Cell("kept", "engine-lost", {"lease-fenced": "broken"}, {**KEEPS, "lease": None, "floor_limit": 60.0}, terms=LIMITS),
)


@pytest.fixture(autouse=True)
def leak_guard() -> None:
    """Not after each test: the drills of the next ones are under way. ``result_of`` looks when all are over."""


@pytest.fixture(scope="module")
def result_of(
    request: pytest.FixtureRequest, make_adapter: MakeAdapter, recorder: Recorder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Cell], DrillResult]]:
    """The drills of the tests that were chosen, a few at once, ahead of the tests that wait for them."""
    chosen = [item.callspec.params["cell"] for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    if any(item.path == request.path and not hasattr(item, "callspec") for item in request.session.items):
        chosen.append(BEATING)
    folder, lanes, stamp = tmp_path_factory.mktemp("temporal"), Lanes(), f"temporal-{os.getpid()}"

    def drill(cell: Cell) -> DrillResult:
        driver = Driver(make_adapter(cell.activity, more=cell.more, **cell.given))
        history = Path(folder, f"{id(cell)}.jsonl")
        try:
            given = settle_terms({name: (value, "the test") for name, value in {**TERMS, **cell.terms}.items()})
            return conduct(recorder, driver, by_id(cell.scenario), given, history=history, lanes=lanes)
        finally:
            driver.close()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(JOBS) as pool:
        patch.setenv(STAMP, stamp)
        results: dict[int, Future[DrillResult]] = {id(cell): pool.submit(drill, cell) for cell in {id(one): one for one in chosen}.values()}
        yield lambda cell: results[id(cell)].result()
        pool.shutdown(cancel_futures=True)
    until = time.monotonic() + GONE_WITHIN_S
    while left := stamped(stamp):
        if time.monotonic() > until:
            pytest.fail("the drills left behind: " + "; ".join(f"{identity} {command}" for identity, command in left.items()))
        time.sleep(0.01)  # polls to a deadline: there is no event for "nobody carries the stamp"


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_activity_gets_exactly_these_verdicts(cell: Cell, result_of: Callable[[Cell], DrillResult]) -> None:
    result = result_of(cell)
    unjudged = (Verdict.KEPT, Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)
    not_kept = {check.clause: str(check.finding.verdict) for check in result.checks if check.finding.verdict not in unjudged}
    assert not_kept == cell.not_kept, [check.finding for check in result.checks if check.finding.verdict not in unjudged]


def _never_told() -> list[Cell]:
    return [cell for cell in CELLS if cell.activity.startswith("no_heartbeat") and cell.not_kept is NEVER_TOLD]


@pytest.mark.parametrize("cell", _never_told(), ids=str)
def test_the_workflow_says_cancelled_at_once_and_the_process_writes_and_spends_on(
    cell: Cell, result_of: Callable[[Cell], DrillResult]
) -> None:
    """The server's word comes in a fraction of a second; the runner never hears of it, and writes and spends to the end of the drill."""
    result = result_of(cell)
    measured, told = result.measured, {check.clause: check.finding.observed for check in result.checks}
    assert measured["answered_s"] <= measured["cancel_to_reported_s"] < 1.0
    assert (measured["delivery_s"], measured["cancel_to_gone_s"], measured["survivors"]) == (None, None, 1)
    assert "'cancelled' reported" in told["outcome-not-early"] and "alive as it was reported" in told["outcome-not-early"]
    history = load(Path(result.history))
    answered = next(seen for seen in history.of("outcome", "answer") if seen.data["outcome"] == "cancelled")
    written = [seen for seen in history.of("lifeline", "wrote") if seen.at_s > answered.at_s]
    assert len(written) > 1 and "by pid" in told["no-late-writes"]
    _spends_on(history, answered.at_s, measured["late_tokens"], told["spend-stops"])


def _spends_on(history: History, handover_s: float, late_tokens: int, observed: str) -> None:
    """The provider's own book has tokens and requests after the handover, and the report tells of no more than that."""
    ends_s = next(seen.at_s for seen in history.of("process-table", "look") if seen.data["moment"] == "end")
    tokens = [seen for seen in history.of("meter", "tokens") if seen.data["since_s"] > handover_s and seen.at_s < ends_s]
    requests = [seen for seen in history.of("meter", "request") if handover_s < seen.at_s < ends_s and not seen.data["side"]]
    assert late_tokens == sum(seen.data["count"] for seen in tokens) > 0
    said = re.match(r"(\d+) tokens and (\d+) new requests after the handover", observed)
    assert said is not None, observed
    assert 0 < int(said[1]) <= late_tokens and 1 < int(said[2]) <= len(requests)


@pytest.mark.slow
def test_the_way_of_a_cancel_is_measured(result_of: Callable[[Cell], DrillResult]) -> None:
    """Taken by the server, then carried by a heartbeat, then noticed; gone after the grace, and reported last."""
    result = result_of(BEATING)
    measured = result.measured
    way = [measured[name] for name in ("answered_s", "delivery_s", "cancel_to_gone_s", "cancel_to_reported_s")]
    assert way[0] > 0.0 and way == sorted(way)
    assert way[2] - way[1] > 0.5 * GRACE_S
    history = load(Path(result.history))
    told, returned = history.first("engine", "heartbeats"), history.first("adapter", "cancel-returned")
    assert told is not None and returned is not None
    taken_s, noticed_s = (returned.data["acted_at_s"] + one for one in way[:2])
    *before, last = [one for one in told.data["moments"] if one <= noticed_s + 1e-5]
    # A heartbeat that comes when the server has taken the cancel, and its workflow has not yet, carries nothing.
    is_told = before[-1] < taken_s <= last
    assert measured["heartbeat_interval_s"] == (pytest.approx(last - before[-1], abs=1e-5) if is_told else None)
    assert last - before[-1] > 0.9 * INTERVAL_S
