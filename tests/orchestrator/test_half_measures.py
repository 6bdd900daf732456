"""Each half measure does what its name says, with real processes and the uncooperative runner by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.adapter import HALF_MEASURES, half_measures, parts
from fixtures.orchestrator.local import Orchestrator
from tests.orchestrator.desk import Desk, Run, until

LIMIT_S, GRACE_S = 1.5, 0.3
WELL_OVER_S = 1.0
Open = Callable[[str], Desk]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Open]:
    """Opens a desk at an orchestrator with a half measure; closing that ends what the half measure leaves."""
    with contextlib.ExitStack() as open_ones:

        def opened(name: str) -> Desk:
            orchestrator = Orchestrator(None, **parts(name))
            open_ones.callback(orchestrator.close)
            return Desk(orchestrator, tmp_path)

        yield opened


def _until_well_over(run: Run, seconds: float, since_s: float | None = None) -> None:
    """Watch until the run's end is overdue by far, with force and all."""
    began_s = run.attempt["claimed_s"] if since_s is None else since_s
    until(lambda: time.monotonic() > began_s + seconds + GRACE_S + WELL_OVER_S)


def _kill_bridge(run: Run) -> None:
    os.kill(int(until(lambda: run.attempt["bridge_pid"])), signal.SIGKILL)


@pytest.mark.parametrize("name", ["no_heartbeat", "answer_unread"])
def test_no_cancel_arrives_and_the_floor_ends_the_run(desk: Open, name: str) -> None:
    run = desk(name).submit("polite", time_limit_s=LIMIT_S).until_working()
    run.cancel()
    run.until_ended()
    assert (run.state, run.row["why"]) == ("failed", "the time limit")
    assert run.row["ended_s"] - run.attempt["claimed_s"] >= LIMIT_S
    answers = [row["answer"] for row in run.heartbeats]
    assert len(answers) == 1 if name == "no_heartbeat" else answers.count("cancel") > 3


def test_heartbeats_that_are_tied_to_the_output_stop_with_it(desk: Open) -> None:
    here = desk("tied_to_output")
    silent, printing = here.submit("polite", "silent", time_limit_s=LIMIT_S), here.submit("polite")
    silent.until_ended()
    printing.until_working()
    until(lambda: len(printing.heartbeats) > 4)
    assert len(silent.heartbeats) <= 3
    printing.cancel()
    assert printing.until_ended().state == "cancelled"


def test_heartbeats_that_stop_in_the_grace_stop_with_the_cancel(desk: Open) -> None:
    run = desk("stops_in_the_grace").submit("deaf", grace_s=1.5).until_working()
    run.cancel()
    run.until_ended()
    assert run.state == "cancelled"
    assert run.row["ended_s"] - run.heartbeats[-1]["at_s"] > 1.0


def test_a_limit_in_the_bridge_holds_as_long_as_the_bridge(desk: Open) -> None:
    here = desk("limit_in_the_bridge")
    kept = here.submit("deaf", time_limit_s=LIMIT_S, grace_s=GRACE_S)
    lost = here.submit("deaf", time_limit_s=LIMIT_S, grace_s=GRACE_S).until_working()
    _kill_bridge(lost)
    assert kept.until_ended().row["why"] == "the time limit"
    _until_well_over(lost, LIMIT_S)
    assert lost.living()


@pytest.mark.slow
def test_timeout_calls_off_the_kill_when_its_child_has_left(desk: Open) -> None:
    run = desk("timeout_k").submit("deaf", time_limit_s=LIMIT_S, grace_s=GRACE_S).until_working()
    _until_well_over(run, LIMIT_S)
    assert run.living()
    assert run.row["why"] == "the bridge died"


def test_a_polite_wait_has_no_end_but_the_floors(desk: Open) -> None:
    run = desk("waits_politely").submit("deaf", time_limit_s=4.0, grace_s=GRACE_S).until_working()
    run.cancel()
    run.until_noticed()
    _until_well_over(run, 0.0, since_s=time.monotonic())
    assert run.living()
    assert run.until_ended().row["why"] == "the time limit"


def test_without_a_progress_check_a_wedged_run_goes_on(desk: Open) -> None:
    run = desk("no_progress_check").submit("frozen", stall_after_s=0.5, grace_s=GRACE_S).until_working()
    _until_well_over(run, 0.5, since_s=time.monotonic())
    assert run.living()
    assert run.state == "running"


def test_without_a_fence_a_run_goes_on_when_its_lease_is_over(desk: Open) -> None:
    here = desk("no_fence")
    run = here.submit("polite", lease_s=0.5, grace_s=GRACE_S).until_working()
    here.orchestrator.set_door(run.id, "refuse")
    _until_well_over(run, 0.5, since_s=time.monotonic())
    assert run.living()
    assert "noticed" not in run.output


def test_a_report_before_the_end_lets_the_next_run_start_beside_the_living(desk: Open) -> None:
    here = desk("starts_over_the_living")
    first = here.submit("deaf", task="same", workspace="same", grace_s=3.0).until_working()
    first.cancel()
    first.until_ended()
    second = here.submit("polite", task="same", workspace="same").until_working()
    assert first.living()
    assert second.state == "running"
    assert first.row["ended_s"] <= second.attempt["claimed_s"]


def test_each_half_measure_is_described_by_its_first_line_and_no_other_is_known() -> None:
    for name in half_measures():
        assert "bridge" in parts(name)
        first = (HALF_MEASURES / f"{name}.py").read_text().splitlines()[0]
        assert first.startswith('"""') and first.endswith('."""'), name
    with pytest.raises(ValueError, match="no_heartbeat"):
        parts("half_of_it")
