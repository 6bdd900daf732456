"""Drills whose buttons the test presses itself, and what is said when they are pressed in the wrong order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.assertions import (
    ContractBroken,
    ContractInconclusive,
    assert_bystander_unharmed,
    assert_cancel_any_time,
    assert_cancel_delivered,
    assert_cancel_idempotent,
    assert_fresh_start,
    assert_grace_bounded,
    assert_no_overlap,
    assert_no_survivors,
    assert_outcome_not_success,
    assert_outcome_reported,
    assert_spend_stops,
)
from pytest_cancelcontract.drill import Drill, DrillMisused, EndedBeforePress, RunnerNeverWorked
from pytest_cancelcontract.history import History
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.terms import Terms

Read = Callable[[], History]


class _Queue:
    """A wrapper in the test's own process, with names of its own for its states."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []
        self.final = "REVOKED"

    def enqueue(self, run: Run, *, cwd: Path | None = None) -> None:
        self.children.append(
            subprocess.Popen(run.argv, cwd=cwd or run.workspace, env=run.env, start_new_session=True, stdout=subprocess.DEVNULL)
        )

    def state(self) -> str:
        return "STARTED" if self.children[0].poll() is None else self.final

    def cancel(self) -> None:
        """TERM, then KILL to the group after half a second."""
        child = self.children[0]
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@pytest.fixture
def queue() -> Iterator[_Queue]:
    made = _Queue()
    yield made
    for child in made.children:
        child.wait(5)


@pytest.fixture
def make(recorder: Recorder, terms: Terms, path: Path) -> Callable[[str], Drill]:
    return lambda scenario: Drill(recorder, scenario, terms, wrapper="queue", history=path, rerun='pytest "test_x.py::test_y"')


Make = Callable[[str], Drill]


def test_every_step_of_a_kept_queue(make: Make, queue: _Queue, read: Read) -> None:
    with make("deaf") as drill:
        queue.enqueue(drill.run)
        drill.watch(queue.state, {"REVOKED": "cancelled", "DONE": "succeeded"})
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
    assert_no_survivors(drill)
    assert_cancel_delivered(drill)
    assert_grace_bounded(drill)
    assert_outcome_reported(drill)
    assert_outcome_not_success(drill)
    history = read()
    assert history.capabilities == {"outcome"}
    answers = [(seen.data["outcome"], seen.data["detail"]) for seen in history.of("outcome", "answer")]
    assert answers[0] == ("running", "STARTED")
    assert answers[-1] == ("cancelled", "REVOKED")


def test_a_broken_clause_says_what_was_seen_and_how_to_run_it_again(make: Make, queue: _Queue, read: Read) -> None:
    queue.final = "DONE"
    with make("polite") as drill:
        queue.enqueue(drill.run)
        drill.watch(queue.state, {"DONE": "succeeded"})
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        with pytest.raises(ContractBroken) as broken:
            assert_outcome_not_success(drill)
    text = str(broken.value)
    assert text.startswith("cancel contract broken: polite:outcome-not-success")
    assert 'pytest "test_x.py::test_y"' in text
    assert str(drill.history.path) in text
    read()


def test_a_survivor_is_found_and_ended(make: Make, queue: _Queue, read: Read) -> None:
    with make("deaf") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            pass
        drill.until_over()
    with pytest.raises(ContractBroken, match="deaf:no-survivors"):
        assert_no_survivors(drill)
    read()


def test_without_a_watch_the_outcome_is_not_covered_in_the_file_too(make: Make, queue: _Queue, read: Read) -> None:
    with make("polite") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        assert_no_survivors(drill)
        with pytest.raises(ContractInconclusive, match="not covered: polite:outcome-reported"):
            assert_outcome_reported(drill)
        assert_spend_stops(drill)
    assert read().header["capabilities"] == []


def test_a_second_run_in_the_same_workspace_finds_the_first_one(make: Make, queue: _Queue, read: Read) -> None:
    with make("deaf") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        with drill.restarting():
            queue.enqueue(drill.run)
    assert_no_overlap(drill)
    with pytest.raises(ContractBroken, match="deaf:fresh-start"):
        assert_fresh_start(drill)
    read()


def test_a_second_run_in_a_new_workspace_is_fresh(make: Make, queue: _Queue, read: Read, tmp_path: Path) -> None:
    with make("deaf") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        fresh = tmp_path / "fresh"
        subprocess.run(["cp", "-r", str(drill.run.source), str(fresh)], check=True)
        with drill.restarting():
            queue.enqueue(drill.run, cwd=fresh)
    assert_fresh_start(drill)
    read()


def test_cancel_twice_has_two_presses_and_no_third(make: Make, queue: _Queue, read: Read) -> None:
    with make("cancel-twice") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            os.killpg(queue.children[0].pid, signal.SIGTERM)
        with drill.pressing():
            queue.cancel()
        with pytest.raises(DrillMisused, match="was entered already"), drill.pressing():
            pass
        drill.until_over()
        assert_cancel_idempotent(drill)
    kinds = [seen.kind for seen in read().of("adapter")]
    assert kinds[-4:] == ["pressed", "cancel-returned", "pressed-again", "cancel-again-returned"]


def test_a_bystander_that_the_test_starts_itself(make: Make, queue: _Queue, read: Read) -> None:
    with make("bystander") as drill:
        queue.enqueue(drill.run)
        drill.watch(queue.state, {"REVOKED": "cancelled"})
        other = drill.another()
        assert other.workspace != drill.run.workspace
        queue.enqueue(other)
        drill.until_working()
        drill.until_another_works()
        with pytest.raises(DrillMisused, match="two runs at most"):
            drill.another()
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        assert_bystander_unharmed(drill)
    read()


def test_a_run_that_ended_by_itself_is_cancelled_afterwards(make: Make, queue: _Queue, read: Read) -> None:
    queue.final = "DONE"
    with make("cancel-after-end") as drill:
        queue.enqueue(drill.run)
        drill.watch(queue.state, {"DONE": "succeeded"})
        with pytest.raises(DrillMisused, match=r"until_ended\(\) is missing"), drill.pressing():
            pass
        drill.until_ended()
        with drill.pressing():
            pass
        drill.until_over()
        assert_cancel_any_time(drill)
    read()


def test_a_press_before_anything_works(make: Make, queue: _Queue, read: Read) -> None:
    with make("cancel-at-start") as drill:
        queue.enqueue(drill.run)
        drill.watch(queue.state, {"REVOKED": "cancelled"})
        with drill.pressing():
            queue.cancel()
        drill.until_over()
        assert_cancel_any_time(drill)
    read()


def test_an_act_that_was_not_done_is_not_kept(make: Make, queue: _Queue) -> None:
    with make("cancel-twice") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        with pytest.raises(DrillMisused, match="a second with pressing"):
            drill.until_over()


def test_a_bystander_that_was_never_started_shows_nothing(make: Make, queue: _Queue) -> None:
    with make("bystander") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with drill.pressing():
            queue.cancel()
        with pytest.raises(DrillMisused, match=r"another\(\)"):
            drill.until_over()


def test_steps_that_a_scenario_does_not_have_are_refused(make: Make, queue: _Queue) -> None:
    with make("deaf") as drill:
        queue.enqueue(drill.run)
        with pytest.raises(DrillMisused, match="belongs to cancel-after-end"):
            drill.until_ended()
        with pytest.raises(DrillMisused, match="deaf has one run only"):
            drill.another()
    with pytest.raises(DrillMisused, match="next-task cannot be run step by step"):
        make("next-task")


def test_a_press_that_raises_is_noted_and_raised(make: Make, queue: _Queue, read: Read) -> None:
    with make("polite") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with pytest.raises(ConnectionError, match="no broker"), drill.pressing():
            queue.cancel()
            raise ConnectionError("no broker")
        drill.until_over()
    returned = read().first("adapter", "cancel-returned")
    assert returned is not None
    assert returned.data["error"] == "ConnectionError: no broker"


def test_a_test_that_fails_half_way_leaves_nothing(make: Make, queue: _Queue, read: Read) -> None:
    with pytest.raises(ZeroDivisionError), make("deaf") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        raise ZeroDivisionError("in the test")
    ended = read().last("drill", "ended")
    assert ended is not None
    assert ended.data["why"] == "ZeroDivisionError: in the test"


def test_a_run_that_is_over_cannot_be_cancelled(make: Make, queue: _Queue, read: Read) -> None:
    with make("polite") as drill:
        queue.enqueue(drill.run)
        drill.watch(lambda: "REVOKED" if "working" in drill._done else "STARTED", {"REVOKED": "cancelled"})
        drill.until_working()
        with pytest.raises(EndedBeforePress, match="its outcome was cancelled already"), drill.pressing():
            raise AssertionError("never entered")
    read()


def test_a_test_on_an_event_loop_keeps_its_loop(make: Make, queue: _Queue, read: Read) -> None:
    async def test() -> Drill:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        with make("deaf") as drill:
            queue.enqueue(drill.run)
            await drill.until_working_async()
            assert turns > 1
            with drill.pressing():
                await asyncio.to_thread(queue.cancel)
            await drill.until_over_async()
            with drill.restarting():
                queue.enqueue(drill.run)
            await drill.until_working_async()
        turning.cancel()
        return drill

    drill = asyncio.run(test())
    assert_no_survivors(drill)
    with pytest.raises(ContractBroken):
        assert_fresh_start(drill)
    read()


# ---------------------------------------------------------------------- wrong order

_ORDER: list[tuple[Callable[[Drill], object], str]] = [
    (lambda drill: drill.pressing().__enter__(), "pressing() comes too early: until_working() is missing before it"),
    (lambda drill: drill.until_over(), "until_over() comes too early: with pressing(): is missing before it"),
    (lambda drill: drill.restarting().__enter__(), "restarting() comes too early: with pressing(): is missing before it"),
    (lambda drill: drill.history, "judging comes too early: until_over() is missing before it"),
    (assert_no_survivors, "judging comes too early: until_over() is missing before it"),
]


@pytest.mark.parametrize(("step", "message"), _ORDER)
def test_a_step_that_comes_too_early_names_the_missing_one(step: Callable[[Drill], object], message: str, make: Make, read: Read) -> None:
    with make("polite") as drill, pytest.raises(DrillMisused) as misused:
        step(drill)
    assert str(misused.value) == message
    read()


def test_steps_that_may_be_taken_once_say_so(make: Make, queue: _Queue, read: Read) -> None:
    with make("polite") as drill:
        queue.enqueue(drill.run)
        drill.until_working()
        with pytest.raises(DrillMisused, match=r"until_working\(\) was called already"):
            drill.until_working()
        with drill.pressing():
            with pytest.raises(DrillMisused, match=r"until_over\(\) comes too early"):
                drill.until_over()
            queue.cancel()
        with pytest.raises(DrillMisused, match="a drill has one press"), drill.pressing():
            pass
        with pytest.raises(DrillMisused, match=r"watch\(\) belongs before pressing\(\)"):
            drill.watch(queue.state)
        drill.until_over()
        assert_no_survivors(drill)
        with pytest.raises(DrillMisused, match="belongs before the first assertion"), drill.restarting():
            pass
    read()


def test_a_drill_that_is_not_entered_says_so(make: Make) -> None:
    with pytest.raises(DrillMisused, match="use it as a context manager"):
        _ = make("polite").run


def test_a_mapping_to_nothing_is_refused(make: Make, read: Read) -> None:
    with make("polite") as drill, pytest.raises(ValueError, match=r"which outcome 'REVOKED' means, one of .*; got 'canceled'"):
        drill.watch(lambda: "REVOKED", {"REVOKED": "canceled"})
    read()


def test_a_runner_that_never_comes_is_the_tests_to_see(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    short = replace(terms, start_s=0.2)
    with (
        pytest.raises(RunnerNeverWorked, match="no runner said hello"),
        Drill(recorder, "polite", short, wrapper="q", history=path) as drill,
    ):
        drill.until_working()
    read()
