"""The orchestrator's four parts, with real processes and the uncooperative runner by hand: no plugin, no recorder."""

from __future__ import annotations

import itertools
import os
import signal
import time

import pytest

from fixtures.orchestrator.processes import read_stat
from fixtures.orchestrator.wire import Address, Refused, call
from tests.orchestrator.desk import Desk, Run, until


def _bridge(run: Run) -> int:
    return int(until(lambda: run.attempt.get("bridge_pid"), lambda: run.row))


def _gaps_s(run: Run, until_s: float) -> list[float]:
    moments = [row["at_s"] for row in run.heartbeats] + [until_s]
    return [after - before for before, after in itertools.pairwise(moments)]


# ---------------------------------------------------------------------- the cancel


def test_a_cancel_is_delivered_on_the_answer_to_a_heartbeat_and_nowhere_else(desk: Desk) -> None:
    run = desk.submit("polite").until_working()
    desk.orchestrator.set_door(run.id, "silent")
    assert run.cancel() == "cancelling"
    until(lambda: [row["answer"] for row in run.heartbeats].count("cancel") >= 5)
    assert "noticed" not in run.output
    desk.orchestrator.set_door(run.id, "up")
    run.until_ended()
    assert "noticed SIGINT" in run.output
    assert (run.state, run.attempt["why"], run.attempt["killed"]) == ("cancelled", "cancel", 0)


def test_a_polite_end_leaves_the_workspace_as_it_is(desk: Desk) -> None:
    run = desk.submit("polite").until_working()
    run.cancel()
    run.until_ended()
    assert run.attempt["workspace"] == "clean"
    assert (run.workspace / "uncooperative-leader.log").exists()


def test_after_the_grace_everything_is_killed_and_the_workspace_is_built_anew(desk: Desk) -> None:
    run = desk.submit("deaf", "deaf-child", "daemon").until_working(processes=3)
    run.cancel()
    run.until_ended()
    assert run.living() == []
    assert (run.state, run.attempt["killed"], run.attempt["workspace"]) == ("cancelled", 1, "rebuilt")
    assert [path.name for path in run.workspace.iterdir()] == ["README.md"]
    told_s = next(row["at_s"] for row in run.heartbeats if row["answer"] == "cancel")
    assert 0.5 <= run.row["ended_s"] - told_s < 5.0


def test_heartbeats_go_on_through_the_grace_and_end_with_the_run(desk: Desk) -> None:
    run = desk.submit("deaf", grace_s=1.0).until_working()
    run.cancel()
    run.until_ended()
    in_the_grace = [row for row in run.heartbeats if row["answer"] == "cancel"]
    assert len(in_the_grace) >= 5
    assert max(_gaps_s(run, run.row["ended_s"])) < 0.9
    assert run.heartbeats[-1]["at_s"] <= run.row["ended_s"]


def test_heartbeats_are_steady_though_the_engine_takes_long_to_answer(desk: Desk) -> None:
    run = desk.submit("polite").until_working()
    desk.orchestrator.set_door(run.id, "up", slow_s=1.0)
    before = len(run.heartbeats)
    until(lambda: len(run.heartbeats) > before + 15)
    assert max(_gaps_s(run, run.heartbeats[-1]["at_s"])[before:]) < 0.9
    run.cancel()
    assert run.until_ended().state == "cancelled"


def test_a_run_that_is_cancelled_before_its_bridge_asks_never_begins(desk: Desk) -> None:
    run = desk.submit("deaf")
    run.cancel()
    run.until_ended()
    assert run.state == "cancelled"
    assert run.output == ""


def test_a_second_cancel_and_one_after_the_end_change_nothing(desk: Desk) -> None:
    run = desk.submit("polite").until_working()
    assert [run.cancel(), run.cancel()] == ["cancelling", "cancelling"]
    run.until_ended()
    assert run.cancel() == "cancelled"


def test_a_run_that_ends_by_itself_is_what_its_status_says(desk: Desk) -> None:
    good, bad = desk.submit(runner=["true"]), desk.submit(runner=["false"])
    assert good.until_ended().state == "succeeded"
    assert bad.until_ended().state == "failed"
    absent = desk.submit(runner=["/no/such/program"]).until_ended()
    assert absent.state == "failed"
    assert "could not be started" in absent.row["why"]


# ---------------------------------------------------------------------- the floor


def test_the_floor_ends_what_a_killed_bridge_leaves(desk: Desk) -> None:
    run = desk.submit("deaf", "daemon").until_working(processes=2)
    os.kill(_bridge(run), signal.SIGKILL)
    run.until_ended()
    assert run.living() == []
    assert (run.state, run.row["why"], run.attempt["workspace"]) == ("failed", "the bridge died", "rebuilt")


def test_the_floor_ends_a_run_whose_bridge_is_frozen_at_the_limit(desk: Desk) -> None:
    run = desk.submit("deaf", time_limit_s=2.0).until_working()
    bridge = _bridge(run)
    os.kill(bridge, signal.SIGSTOP)
    run.until_ended()
    assert run.living() == []
    assert read_stat(bridge) is None
    assert (run.state, run.row["why"]) == ("failed", "the time limit")
    assert 2.0 <= run.row["ended_s"] - run.attempt["claimed_s"] < 8.0


def test_a_bridge_without_a_sign_of_life_is_ended_long_before_the_limit(desk: Desk) -> None:
    run = desk.submit("deaf", lease_s=1.5).until_working()
    os.kill(_bridge(run), signal.SIGSTOP)
    run.until_ended()
    assert run.living() == []
    assert (run.state, run.row["why"]) == ("failed", "the bridge gave no sign of life")


def test_a_run_that_nobody_cancels_is_told_at_the_limit_first(desk: Desk) -> None:
    run = desk.submit("polite", time_limit_s=1.5).until_working()
    run.until_ended()
    assert "noticed SIGINT" in run.output
    assert (run.state, run.row["why"], run.attempt["workspace"]) == ("failed", "the time limit", "clean")


def test_at_the_limit_a_bridge_that_lives_kills_by_itself_and_has_its_last_word(desk: Desk) -> None:
    run = desk.submit("deaf", time_limit_s=1.0).until_working().until_ended()
    assert "noticed SIGINT" in run.output
    assert (run.row["why"], run.attempt["status"], run.attempt["workspace"]) == ("the time limit", -signal.SIGKILL, "rebuilt")


def test_a_cancel_whose_grace_goes_on_beyond_the_limit_is_still_a_cancel(desk: Desk) -> None:
    run = desk.submit("deaf", time_limit_s=2.5, grace_s=2.0).until_working()
    run.cancel()
    assert run.until_ended().state == "cancelled"


def test_with_the_answers_to_its_heartbeats_dropped_a_cancelled_run_lives_until_the_floor_ends_it(desk: Desk) -> None:
    run = desk.submit("polite", time_limit_s=2.0).until_working()
    desk.orchestrator.set_door(run.id, "drop")
    assert run.cancel() == "cancelling"
    until(lambda: [row["answer"] for row in run.heartbeats].count("cancel") >= 5)
    assert "noticed" not in run.output
    run.until_ended()
    assert (run.state, run.row["why"]) == ("failed", "the time limit")
    assert run.row["ended_s"] - run.attempt["claimed_s"] >= 2.0


# ---------------------------------------------------------------------- the lease


@pytest.mark.parametrize("state", ["refuse", "silent", "drop"])
def test_a_bridge_without_an_answer_stops_its_run_when_the_lease_is_over(desk: Desk, state: str) -> None:
    run, other = desk.submit("deaf", lease_s=1.0).until_working(), desk.submit("polite").until_working()
    desk.orchestrator.set_door(run.id, state)  # type: ignore[arg-type]
    run.until_ended()
    assert run.living() == []
    assert (run.state, run.row["why"]) == ("failed", "the lease was over: no answer of the engine")
    assert other.state == "running"


def test_an_engine_that_is_back_before_the_lease_is_over_finds_the_run_at_work(desk: Desk) -> None:
    run = desk.submit("polite").until_working()
    desk.orchestrator.set_door(run.id, "refuse")
    seen = run.heartbeats
    until(lambda: time.monotonic() > seen[-1]["at_s"] + 0.5)
    assert len(run.heartbeats) == len(seen)
    desk.orchestrator.set_door(run.id, "up")
    until(lambda: len(run.heartbeats) > len(seen) + 3)
    assert run.state == "running"
    assert "noticed" not in run.output


# ---------------------------------------------------------------------- progress


def test_a_run_that_is_alive_and_gets_nowhere_is_stopped(desk: Desk) -> None:
    run = desk.submit("frozen", stall_after_s=1.0)
    run.until_ended()
    assert run.living() == []
    assert (run.state, run.row["why"]) == ("failed", "no progress")
    assert len(run.heartbeats) >= 10


def test_a_run_that_only_writes_gets_somewhere(desk: Desk) -> None:
    run = desk.submit("polite", "silent", stall_after_s=2.0, time_limit_s=4.0).until_working()
    assert run.until_ended().row["why"] == "the time limit"
    assert len({row["progress"] for row in run.heartbeats}) > 5


# ---------------------------------------------------------------------- one after another, and afresh


def test_an_attempt_that_failed_is_made_again_afresh_and_after_the_first_is_gone(desk: Desk) -> None:
    run = desk.submit("deaf", "own-session-child", attempts=2).until_working(processes=2)
    first = run.attempt
    mark = run.workspace / "left-by-the-first"
    mark.write_text("dirty\n")
    os.kill(_bridge(run), signal.SIGKILL)
    run.until_working(attempt=2)
    before, after = run.row["attempts"]
    assert (before["number"], before["workspace"]) == (first["number"], "rebuilt")
    assert after["claimed_s"] >= before["ended_s"]
    assert not mark.exists()
    run.cancel()
    assert run.until_ended().state == "cancelled"


def test_runs_of_one_task_and_runs_in_one_workspace_go_one_after_another(desk: Desk) -> None:
    first = desk.submit("deaf", task="the same", workspace="one").until_working()
    second = desk.submit("polite", task="the same", workspace="two")
    third = desk.submit("polite", task="another", workspace="one")
    desk.submit("polite").until_working()  # one that may begin is not held up
    assert (second.state, third.state) == ("queued", "queued")
    first.cancel()
    for later in (second, third):
        later.until_working()
        assert later.attempt["claimed_s"] >= first.attempt["ended_s"]
    assert first.living() == []


def test_several_runs_are_under_way_at_once(desk: Desk) -> None:
    runs = [desk.submit("deaf") for _ in range(5)]
    for run in runs:
        run.until_working()
    runs[0].cancel()
    runs[0].until_ended()
    assert [run.state for run in runs[1:]] == ["running"] * 4
    assert all(run.living() for run in runs[1:])


# ---------------------------------------------------------------------- who may ask


def test_a_door_takes_heartbeats_only_and_a_stale_attempt_has_lost_its_lease(desk: Desk) -> None:
    first, second = desk.submit("polite").until_working(), desk.submit("polite").until_working()
    door = Address(second.row["door_port"], desk.orchestrator.address.token)
    first.cancel()
    first.until_ended()
    with pytest.raises(Refused, match="heartbeats only"):
        call(door, "POST", f"/runs/{second.id}/cancel")
    body = {"pid": 1, "start": 1, "progress": ""}
    assert call(door, "POST", f"/attempts/{first.attempt['number']}/heartbeat", body) == {"answer": "lost lease"}


def test_nobody_is_heard_without_the_token(desk: Desk) -> None:
    with pytest.raises(Refused, match="token") as refused:
        call(Address(desk.orchestrator.address.port, "guessed"), "POST", "/claim", {"owner": "me"})
    assert refused.value.status == 401
    folder = desk.orchestrator.folder
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "address.json").stat().st_mode & 0o077 == 0
    assert (folder / "record.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"argv": []}, "argv must be a list of words", id="no words"),
        pytest.param({"workspace": "here"}, "workspace must be an absolute path, got 'here'", id="a relative path"),
        pytest.param({"limits": {"grace_s": float("inf")}}, "grace_s must be a finite number", id="a grace without end"),
        pytest.param({"limits": {"lease_s": 1, "heartbeat_every_s": 1}}, "must be below lease_s", id="a lease that cannot hold"),
        pytest.param({"limits": {"patience_s": 1}}, "patience_s", id="an unknown limit"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(desk: Desk, change: dict[str, object], says: str) -> None:
    body = {"id": "odd", "task_id": "odd", "argv": ["true"], "env": {}, "workspace": "/w", "source": "/s", **change}
    with pytest.raises(Refused, match=says):
        desk.orchestrator.ask("POST", "/runs", body)
