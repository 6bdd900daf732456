"""What each act does to a real run, as its history tells it; what is made of it is judged elsewhere."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.adapters.protocol import Adapter, Outcome
from pytest_cancelcontract.drill import RunnerNeverWorked, WrapperNotStarted, run_drill
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import Moment, by_id
from pytest_cancelcontract.terms import Terms

WRAPPERS = Path(__file__).with_name("wrappers.py")
RETRY_S = 0.4
Read = Callable[[], History]
RunDrill = Callable[..., History]


def _command(name: str) -> CommandAdapter:
    return CommandAdapter(f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} {name} {{runner}}")


@pytest.fixture
def drill(recorder: Recorder, terms: Terms, path: Path, read: Read) -> RunDrill:
    def run(adapter: Adapter, scenario: str, moment: Moment | None = None, heartbeat_timeout_s: float | None = None) -> History:
        driver = Driver(adapter)
        try:
            given = replace(terms, retry_s=RETRY_S, heartbeat_timeout_s=heartbeat_timeout_s)
            run_drill(recorder, driver, by_id(scenario), given, wrapper=driver.name, history=path, moment=moment)
        finally:
            driver.close(within_s=1.0)
        return read()

    return run


def _only(history: History, witness: str, kind: str) -> Observation:
    (seen,) = history.of(witness, kind)
    return seen


def _runs(history: History) -> list[str]:
    return [str(seen.data["run"]) for seen in history.of("lifeline", "hello")]


class _InProcess:
    """A wrapper in this process, which the adapter waits for; ``states`` is what its outcomes become when a run ends by itself."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.runs: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, run: Run) -> str:
        self.runs[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True, stdout=subprocess.DEVNULL)
        return run.id

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)
        if self.runs[run_id].poll() is None:
            os.killpg(self.runs[run_id].pid, signal.SIGKILL)

    def wait(self, run_id: str) -> Outcome:
        self.runs[run_id].wait()
        return Outcome.CANCELLED if run_id in self.cancelled else Outcome.SUCCEEDED


# ---------------------------------------------------------------------- cancel-twice


def test_the_second_cancel_comes_once_the_first_has_arrived(drill: RunDrill) -> None:
    history = drill(_command("kept"), "cancel-twice")
    first_notice = next(history.of("lifeline", "notice"))
    again = _only(history, "adapter", "pressed-again")
    assert _only(history, "adapter", "pressed").at_s < first_notice.at_s <= again.at_s
    assert _only(history, "adapter", "cancel-again-returned").data == {"error": None, "clean": True}
    # What cancels is a signal, and the moment at which it was sent is the press.
    pressed, returned = _only(history, "adapter", "pressed"), _only(history, "adapter", "cancel-returned")
    assert pressed.at_s <= returned.data["acted_at_s"] <= min(first_notice.at_s, returned.at_s)
    assert history.header["act"] == "cancel-twice"


def test_a_second_cancel_does_not_wait_for_a_first_one_that_hangs(drill: RunDrill) -> None:
    class Hangs(_InProcess):
        """The first cancel ends the run, and returns only when the drill is over."""

        def __init__(self) -> None:
            super().__init__()
            self.let_go = threading.Event()

        def cancel(self, run_id: str) -> None:
            is_first = not self.cancelled
            super().cancel(run_id)
            if is_first:
                self.let_go.wait(20)

    adapter = Hangs()
    history = drill(adapter, "cancel-twice")
    adapter.let_go.set()
    assert len(adapter.cancelled) == 2
    assert history.first("adapter", "cancel-returned") is None
    assert _only(history, "adapter", "cancel-again-returned")


# ---------------------------------------------------------------------- cancel-at-start


def test_a_press_right_after_start_needs_no_runner(drill: RunDrill) -> None:
    history = drill(_command("never_starts_it"), "cancel-at-start", Moment.AFTER_START)
    assert history.header["moment"] == "after-start"
    assert history.header["may_not_start"] is True
    assert _only(history, "drill", "reached").data == {"what": "no runner yet"}
    assert _runs(history) == []
    # Whether it comes up after all is watched for as long as `retry`.
    pressed, ended = _only(history, "adapter", "pressed"), _only(history, "drill", "ended")
    assert ended.at_s - pressed.at_s > RETRY_S


def test_a_leader_is_held_before_its_first_handler_and_dies_of_the_signal(drill: RunDrill) -> None:
    history = drill(_command("kept"), "cancel-at-start", Moment.BEFORE_HANDLERS)
    assert _only(history, "drill", "reached").data == {"what": "before its first handler"}
    hello, pressed, died = (_only(history, *one) for one in (("lifeline", "hello"), ("adapter", "pressed"), ("process-table", "died")))
    assert hello.data["held"] == "before-handlers"
    assert hello.at_s < pressed.at_s < died.at_s
    assert not list(history.of("lifeline", "notice", "working", "goodbye"))
    assert not list(history.of("drill", "released"))


def test_a_leader_is_held_before_it_works_and_notices(drill: RunDrill) -> None:
    history = drill(_command("kept"), "cancel-at-start", Moment.BEFORE_WORK)
    assert _only(history, "drill", "reached").data == {"what": "before it works"}
    assert [seen.kind for seen in history.of("lifeline", "ready", "working", "notice", "goodbye")] == ["ready", "notice", "goodbye"]


@pytest.mark.parametrize("moment", [pytest.param(Moment.BEFORE_HANDLERS, marks=pytest.mark.slow), Moment.BEFORE_WORK])
def test_a_run_whose_cancel_is_lost_goes_on_to_work(drill: RunDrill, terms: Terms, moment: Moment) -> None:
    history = drill(_command("deaf"), "cancel-at-start", moment)
    released, working = _only(history, "drill", "released"), _only(history, "lifeline", "working")
    pressed = _only(history, "adapter", "pressed")
    assert terms.delivery_s <= released.at_s - pressed.at_s < working.at_s - pressed.at_s
    assert [one["role"] for one in _only(history, "drill", "reaped").data["processes"]] == ["leader"]


def test_a_start_that_waits_for_the_runners_work_is_not_held_for_ever(drill: RunDrill) -> None:
    class WaitsForOutput(_InProcess):
        """Comes back when the runner has printed a line."""

        def start(self, run: Run) -> str:
            command = [*run.argv]
            self.runs[run.id] = process = subprocess.Popen(
                command, cwd=run.workspace, env=run.env, start_new_session=True, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            process.stdout.readline()
            return run.id

        def wait(self, run_id: str) -> Outcome:
            outcome = super().wait(run_id)
            output = self.runs[run_id].stdout
            assert output is not None
            output.close()
            return outcome

    history = drill(WaitsForOutput(), "cancel-at-start", Moment.BEFORE_WORK)
    assert _only(history, "drill", "released").data["why"] == "start does not return while the runner is held"
    assert _only(history, "adapter", "start-overdue").at_s < _only(history, "adapter", "pressed").at_s
    assert _only(history, "drill", "reached").data["what"] in {"said hello", "working"}


def test_a_barrier_that_is_never_reached_is_no_verdict(drill: RunDrill) -> None:
    with pytest.raises(WrapperNotStarted, match="ended with status 3"):
        drill(_command("fails_to_start"), "cancel-at-start", Moment.BEFORE_WORK)


def test_a_runner_that_never_comes_to_its_barrier_is_no_verdict(recorder: Recorder, terms: Terms, path: Path) -> None:
    driver = Driver(_command("never_starts_it"))
    with pytest.raises(RunnerNeverWorked, match="still missing: leader"):
        run_drill(
            recorder,
            driver,
            by_id("cancel-at-start"),
            replace(terms, start_s=0.5),
            wrapper="w",
            history=path,
            moment=Moment.BEFORE_HANDLERS,
        )
    driver.close()


# ---------------------------------------------------------------------- cancel-after-end


def test_the_press_comes_when_the_run_has_ended_and_its_exit_is_known(drill: RunDrill) -> None:
    history = drill(_command("kept"), "cancel-after-end")
    died, answer, pressed = (_only(history, *one) for one in (("process-table", "died"), ("outcome", "answer"), ("adapter", "pressed")))
    assert max(died.at_s, answer.at_s) < pressed.at_s
    assert answer.data["outcome"] == "succeeded"
    returned = _only(history, "adapter", "cancel-returned")
    # The recorder keeps the wrapper unreaped, so the signal reaches nobody and is no error.
    assert (returned.data["error"], returned.data["clean"]) == (None, True)


def test_an_outcome_that_is_waited_for_is_told_before_and_after_the_press(drill: RunDrill) -> None:
    history = drill(_InProcess(), "cancel-after-end")
    pressed = _only(history, "adapter", "pressed")
    answers = [(seen.at_s > pressed.at_s, seen.data["outcome"]) for seen in history.of("outcome", "answer")]
    # This wrapper calls a run cancelled that had succeeded: both are in the history.
    assert answers == [(False, "succeeded"), (True, "cancelled")]


# ---------------------------------------------------------------------- two runs


def test_a_bystander_works_before_the_press_and_is_looked_at_behind_the_end(drill: RunDrill) -> None:
    history = drill(_command("kept"), "bystander")
    assert sorted(_runs(history)) == ["bystander", "first"]
    pressed = _only(history, "adapter", "pressed")
    assert all(seen.at_s < pressed.at_s for seen in history.of("lifeline", "working"))
    (look,) = [seen for seen in history.of("process-table", "look") if seen.data["moment"] == "bystander"]
    bystander = next(seen.subject for seen in history.of("lifeline", "hello") if seen.data["run"] == "bystander")
    rows = {row["subject"]: row["alive"] for row in look.data["processes"]}
    assert rows.pop(bystander) is True
    assert not any(rows.values())
    folders = {seen.data["cwd"] for seen in history.of("lifeline", "hello")}
    assert len(folders) == 2


def test_an_outcome_that_blocks_says_that_the_bystander_goes_on(drill: RunDrill) -> None:
    adapter = _InProcess()
    history = drill(adapter, "bystander")
    answer = _only(history, "outcome", "other-answer")
    assert (answer.data["run"], answer.data["outcome"]) == ("bystander", "running")
    assert len(adapter.cancelled) == 2, "the bystander is let go in the end"


def test_the_next_task_comes_when_the_first_is_over_and_runs_to_its_end(drill: RunDrill) -> None:
    history = drill(_command("kept"), "next-task")
    assert _runs(history) == ["first", "next"]
    first, following = (seen.subject for seen in history.of("lifeline", "hello"))
    died = {seen.subject: seen.at_s for seen in history.of("process-table", "died")}
    assert died[first] < _only(history, "adapter", "other-starting").at_s < died[following]
    answer = _only(history, "outcome", "other-answer")
    assert (answer.data["run"], answer.data["outcome"], answer.data["by"]) == ("next", "succeeded", "exit")
    assert [seen.data["outcome"] for seen in history.of("outcome", "answer")] == ["cancelled"]


def test_a_next_task_that_cannot_be_started_is_noted(drill: RunDrill) -> None:
    class Once(_InProcess):
        """Takes one run."""

        def start(self, run: Run) -> str:
            if self.runs:
                raise RuntimeError("the slot is taken")
            return super().start(run)

    history = drill(Once(), "next-task")
    assert _only(history, "adapter", "other-started").data == {"run": "next", "error": "RuntimeError: the slot is taken"}
    assert not list(history.of("outcome", "other-answer"))


# ---------------------------------------------------------------------- watched


def test_the_world_is_watched_for_retry_after_everything_is_quiet(drill: RunDrill) -> None:
    history = drill(_command("kept"), "watched")
    gone = max(seen.at_s for seen in history.of("process-table", "died"))
    assert _only(history, "drill", "ended").at_s - gone > RETRY_S


# ---------------------------------------------------------------------- heartbeats


@pytest.mark.parametrize("timeout_s", [0.4, 60.0])
def test_heartbeats_are_asked_for_two_timeouts_after_gone_and_at_most_three_seconds(drill: RunDrill, timeout_s: float) -> None:
    """A timer that nobody ends has shown itself by then; with a long timeout a drill does not take a minute."""
    history = drill(_Beats(), "polite", heartbeat_timeout_s=timeout_s)
    gone_s = max(seen.at_s for seen in history.of("process-table", "died"))
    after_s = _only(history, "engine", "heartbeats").at_s - gone_s
    assert min(2 * timeout_s, 3.0) <= after_s < 10.0


def test_heartbeats_that_nobody_judges_are_not_waited_for(drill: RunDrill) -> None:
    """A run that may never start is cancelled at its start."""
    history = drill(_Beats(), "cancel-at-start", heartbeat_timeout_s=60.0)
    over_s = max(seen.at_s for seen in history.of("outcome", "answer"))
    assert _only(history, "engine", "heartbeats").at_s - over_s < 2.0


class _Beats(_InProcess):
    """Its engine tells of nothing; when it was asked is all that is looked at."""

    def heartbeats(self, run_id: str) -> list[float]:
        assert run_id in self.runs
        return []
