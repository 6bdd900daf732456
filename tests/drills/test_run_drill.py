"""Real drills with an adapter, against wrappers that are kept, faulty, absent, or in nobody's control."""

# ruff: noqa: ARG002 - an adapter's method takes what it is given, needed or not

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.adapters.protocol import Adapter, Outcome
from pytest_cancelcontract.drill import DrillError, EndedBeforePress, RunnerNeverWorked, WrapperNotStarted, run_drill
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder, RecorderFailed
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms

WRAPPERS = Path(__file__).with_name("wrappers.py")
Read = Callable[[], History]


def _command(name: str) -> CommandAdapter:
    return CommandAdapter(f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} {name} {{runner}}")


class _Drills:
    """Runs drills of one test with one recorder."""

    def __init__(self, recorder: Recorder, terms: Terms, path: Path) -> None:
        self.recorder = recorder
        self.terms = terms
        self.path = path
        self.stages: list[str] = []
        self.interrupt_at = ""

    def run(self, adapter: Adapter, scenario: str = "polite") -> Path:
        driver = Driver(adapter)
        try:
            return run_drill(
                self.recorder, driver, by_id(scenario), self.terms, wrapper=driver.name, history=self.path, progress=self._progress
            )
        finally:
            driver.close(within_s=1.0)

    def _progress(self, stage: str, at_most_s: float) -> None:
        assert at_most_s >= 0
        self.stages.append(stage)
        if self.interrupt_at and self.interrupt_at in stage:
            raise KeyboardInterrupt


@pytest.fixture
def drills(recorder: Recorder, terms: Terms, path: Path) -> _Drills:
    return _Drills(recorder, terms, path)


def _kinds(history: History, *witnesses: str) -> list[str]:
    return [seen.kind for seen in history.observations if seen.witness in witnesses]


def _outcomes(history: History) -> list[str]:
    return [seen.data["outcome"] for seen in history.of("outcome", "answer")]


# ---------------------------------------------------------------------- commands


def test_a_drill_of_a_kept_wrapper_leaves_a_whole_history(drills: _Drills, read: Read) -> None:
    assert drills.run(_command("kept"), "deaf-child") == drills.path
    history = read()
    assert history.header["scenario"] == "deaf-child"
    assert history.header["capabilities"] == ["exit", "disrupt", "recover"]
    assert _kinds(history, "adapter") == ["starting", "started", "pressed", "cancel-returned"]
    pressed = history.first("adapter", "pressed")
    assert pressed is not None
    assert pressed.data == {"trigger": True, "how": "SIGTERM to the wrapper"}
    assert _outcomes(history) == ["cancelled"]
    assert {seen.data["role"] for seen in history.of("process-table", "died")} == {"leader", "deaf-child"}
    assert [seen.data for seen in history.of("drill", "reaped")] == [{"processes": []}]
    assert drills.stages == ["waits until the wrapper is started", "waits until the runner works", "waits until everything is over"]


def test_what_a_faulty_wrapper_leaves_alive_is_ended_and_named(drills: _Drills, read: Read) -> None:
    drills.run(_command("ignores_its_child"), "deaf")
    reaped = read().first("drill", "reaped")
    assert reaped is not None
    assert [one["role"] for one in reaped.data["processes"]] == ["leader"]


def test_the_drills_folder_is_removed(drills: _Drills, read: Read) -> None:
    drills.run(_command("kept"))
    opened = read().first("workspace", "opened")
    assert opened is not None
    folder, until_s = Path(opened.data["path"]).parent, time.monotonic() + 10
    while folder.exists() and time.monotonic() < until_s:
        time.sleep(0.01)  # polls to a deadline: nobody waits for it, so nothing tells of it
    assert not folder.exists()


def test_the_second_run_starts_at_the_handover_and_looks(drills: _Drills, read: Read) -> None:
    drills.run(_command("kept"), "second-run")
    history = read()
    assert _kinds(history, "adapter") == ["starting", "started", "pressed", "cancel-returned", "restarting", "restarted"]
    hello = [seen for seen in history.of("lifeline", "hello") if seen.data["role"] == "leader"]
    died, restarting = history.first("process-table", "died"), history.first("adapter", "restarting")
    assert died is not None
    assert restarting is not None
    assert len(hello) == 2
    assert died.at_s < restarting.at_s < hello[1].at_s
    found = history.last("lifeline", "found")
    assert found is not None
    assert found.data["poison"]


def test_a_program_that_does_not_exist_is_the_wrappers_fault(drills: _Drills, read: Read) -> None:
    with pytest.raises(WrapperNotStarted) as failed:
        drills.run(CommandAdapter("no-such-wrapper {runner}"))
    assert str(failed.value) == "the wrapper was not started: cannot start 'no-such-wrapper': No such file or directory."
    assert _kinds(read(), "drill")[-1] == "ended"


def test_a_wrapper_that_ends_at_once_is_shown_with_its_output(drills: _Drills, read: Read) -> None:
    with pytest.raises(WrapperNotStarted) as failed:
        drills.run(_command("fails_to_start"))
    text = str(failed.value)
    assert text.startswith("the wrapper ended with status 3 before the runner worked (still missing: leader).")
    assert "\nThe wrapper's output ends with:\nstarting\\x1b[31m …\nno configuration found" in text
    read()


def test_a_wrapper_that_starts_nothing_is_told_from_one_that_fails(drills: _Drills, read: Read) -> None:
    drills.terms = replace(drills.terms, start_s=0.5)
    with pytest.raises(RunnerNeverWorked) as failed:
        drills.run(_command("never_starts_it"))
    text = str(failed.value)
    assert text.startswith(
        "the runner did not work within 0.5 s (start, from the test) (still missing: leader); no runner said hello at all"
    )
    assert text.endswith("ends with:\nthinking")
    read()


def test_a_command_that_hands_its_run_on_and_ends_is_told_what_to_use(drills: _Drills, read: Read) -> None:
    with pytest.raises(DrillError) as failed:
        drills.run(CommandAdapter("sh -c '{runner} >/dev/null 2>&1 &'"))
    assert "ended with status 0 before" in str(failed.value)
    assert "--cancel-start" in str(failed.value)
    read()


def test_a_service_is_started_asked_and_cancelled_by_commands(drills: _Drills, read: Read, tmp_path: Path) -> None:
    script = tmp_path / "service.sh"
    script.write_text(
        "case $1 in\n"
        'start) shift; echo queued; setsid "$@" >/dev/null 2>&1 & echo $! ;;\n'
        "cancel) kill -TERM $2 ;;\n"
        # Not kill -0: that answers for the zombie too, which stays for as long as process 1 likes.
        "outcome) case $(cut -d ' ' -f 3 /proc/$2/stat 2>/dev/null) in ''|Z) echo REVOKED ;; *) echo BUSY ;; esac ;;\n"
        "esac\n"
    )
    adapter = CommandAdapter(
        start=f"sh {script} start {{runner}}",
        cancel_with=f"sh {script} cancel {{id}}",
        outcome=f"sh {script} outcome {{id}}",
        outcome_map="BUSY=running,REVOKED=cancelled",
    )
    drills.run(adapter)
    history = read()
    assert history.header["capabilities"] == ["outcome"]
    assert _outcomes(history)[0] == "running"
    assert _outcomes(history)[-1] == "cancelled"
    returned = history.first("adapter", "cancel-returned")
    assert returned is not None
    assert returned.data["error"] is None


def test_a_cancel_command_that_fails_is_noted_with_its_output(drills: _Drills, read: Read) -> None:
    words = f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} kept {{runner}}"
    drills.run(CommandAdapter(words, cancel_with="sh -c 'echo no such job {run_id}; kill {wrapper_pid}; exit 4'"))
    history = read()
    returned = history.first("adapter", "cancel-returned")
    assert returned is not None
    assert "ended with status 4; it printed: no such job polite-" in returned.data["error"]
    assert history.first("lifeline", "goodbye") is not None


def test_a_cancel_command_that_never_ends_is_ended_with_the_drill(drills: _Drills, read: Read, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    words = f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} kept {{runner}}"
    drills.run(CommandAdapter(words, cancel_with=f"sh -c 'kill {{wrapper_pid}}; echo $$ > {mark}; exec sleep 600'"))
    assert not Path(f"/proc/{int(mark.read_text())}").exists()
    assert read().first("adapter", "cancel-returned") is None


# ---------------------------------------------------------------------- objects


_children: list[subprocess.Popen[bytes]] = []


def _child(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """A child of the test process, which is waited for when the test is over."""
    child = subprocess.Popen(argv, **how)
    _children.append(child)
    return child


@pytest.fixture(autouse=True)
def _no_zombies() -> Iterator[None]:
    yield
    while _children:
        _children.pop().wait(5)


class _Popen:
    """A wrapper in the test's own process: starts the runner, ends its group, and says how it stands."""

    def start(self, run: Run, /) -> subprocess.Popen[bytes]:
        return _child(run.argv, cwd=run.workspace, env=run.env, start_new_session=True, stdout=subprocess.DEVNULL)

    def cancel(self, handle: subprocess.Popen[bytes], /) -> None:
        os.killpg(handle.pid, signal.SIGKILL)
        handle.wait(10)


class _Asked(_Popen):
    """The same, and it is asked for the outcome."""

    def __init__(self) -> None:
        self.flips_to: Outcome | None = None
        self.asked_after_end = 0

    def outcome(self, handle: subprocess.Popen[bytes], /) -> Outcome:
        if handle.poll() is None:
            return Outcome.RUNNING
        return Outcome.CANCELLED


def test_an_outcome_is_asked_again_and_again_and_once_more_at_the_end(drills: _Drills, read: Read) -> None:
    drills.run(_Asked())
    history = read()
    outcomes = _outcomes(history)
    assert outcomes[0] == "running"
    assert outcomes[-2:] == ["cancelled", "cancelled"]
    last = history.last("outcome", "answer")
    gone = history.last("process-table", "died")
    assert last is not None
    assert gone is not None
    assert last.at_s > gone.at_s + drills.terms.settle_s
    assert all(seen.data["asked_at_s"] <= seen.at_s for seen in history.of("outcome", "answer"))


def test_without_outcome_and_wait_nothing_is_asked(drills: _Drills, read: Read) -> None:
    drills.run(_Popen())
    history = read()
    assert history.header["capabilities"] == ["stall"]
    assert not list(history.of("outcome"))
    assert _kinds(history, "adapter")[-1] == "cancel-returned"


def test_a_question_that_raises_is_noted_and_asked_again(drills: _Drills, read: Read) -> None:
    class Shaky(_Asked):
        calls = 0

        def outcome(self, handle: subprocess.Popen[bytes], /) -> Outcome:
            self.calls += 1
            if self.calls == 1:
                raise ConnectionError("try again")
            return super().outcome(handle)

    class Late(Shaky):
        def outcome(self, handle: subprocess.Popen[bytes], /) -> Outcome:
            if handle.poll() is not None and self.calls >= 0:
                self.calls = -1
                raise ConnectionError("try again")
            return _Asked.outcome(self, handle)

    drills.run(Late())
    history = read()
    assert [seen.data["error"] for seen in history.of("outcome", "error")] == ["ConnectionError: try again"]
    assert _outcomes(history)[-1] == "cancelled"


def test_a_coroutine_adapter_is_driven_on_its_own_loop(drills: _Drills, read: Read) -> None:
    class Coroutines:
        async def start(self, run: Run, /) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env, stdout=asyncio.subprocess.DEVNULL)

        async def cancel(self, handle: asyncio.subprocess.Process, /) -> None:
            handle.terminate()
            await handle.wait()

        async def wait(self, handle: asyncio.subprocess.Process, /) -> str:
            await handle.wait()
            return "cancelled"

    drills.run(Coroutines())
    history = read()
    assert history.header["capabilities"] == ["wait", "stall"]
    assert [(seen.data["outcome"], seen.data["by"]) for seen in history.of("outcome", "answer")] == [("cancelled", "wait")] * 2


def test_a_cancel_that_raises_is_noted_and_the_drill_goes_on(drills: _Drills, read: Read) -> None:
    class Raises(_Popen):
        def cancel(self, handle: subprocess.Popen[bytes], /) -> None:
            super().cancel(handle)
            raise RuntimeError("already stopped")

    drills.run(Raises())
    returned = read().first("adapter", "cancel-returned")
    assert returned is not None
    assert returned.data["error"] == "RuntimeError: already stopped"


def test_a_cancel_that_hangs_does_not_hang_the_drill(drills: _Drills, read: Read) -> None:
    let_go = threading.Event()

    class Hangs(_Popen):
        def cancel(self, handle: subprocess.Popen[bytes], /) -> None:
            super().cancel(handle)
            let_go.wait(60)

    drills.run(Hangs())
    let_go.set()
    history = read()
    assert history.first("adapter", "pressed") is not None
    assert history.first("adapter", "cancel-returned") is None
    assert history.first("process-table", "died") is not None


def test_a_start_that_raises_shows_the_teams_own_traceback(drills: _Drills, read: Read) -> None:
    class NoService(_Popen):
        def start(self, run: Run, /) -> subprocess.Popen[bytes]:
            raise ConnectionRefusedError("no broker at localhost:5672")

    with pytest.raises(WrapperNotStarted) as failed:
        drills.run(NoService())
    assert str(failed.value).startswith("the wrapper was not started: ConnectionRefusedError: no broker at localhost:5672.")
    assert "in start" in str(failed.value)
    read()


def test_a_start_that_does_not_return_is_an_error_that_says_so(drills: _Drills, read: Read) -> None:
    let_go = threading.Event()
    drills.terms = replace(drills.terms, call_s=0.2)

    class Blocks(_Popen):
        def start(self, run: Run, /) -> subprocess.Popen[bytes]:
            let_go.wait(60)
            raise RuntimeError("the test is over")

    with pytest.raises(WrapperNotStarted, match=r"start did not return within 0\.2.* s; start must return while the run goes on"):
        drills.run(Blocks())
    let_go.set()
    read()


def test_a_run_whose_outcome_is_terminal_before_it_works_is_not_waited_for(drills: _Drills, read: Read) -> None:
    class Lost(_Popen):
        def start(self, run: Run, /) -> subprocess.Popen[bytes]:
            return _child(["true"])

        def cancel(self, handle: subprocess.Popen[bytes], /) -> None:
            raise AssertionError("never pressed")

        def outcome(self, handle: subprocess.Popen[bytes], /) -> str:
            return "running" if handle.poll() is None else "failed"

    with pytest.raises(RunnerNeverWorked, match="the outcome was failed before the runner worked"):
        drills.run(Lost())
    assert "pressed" not in _kinds(read(), "adapter")


def test_a_run_that_is_over_before_the_press_is_no_drill(drills: _Drills, read: Read) -> None:
    class SaysDone(_Popen):
        def __init__(self) -> None:
            self.asked = 0

        def outcome(self, handle: subprocess.Popen[bytes], /) -> str:
            # It says so only once the runner works, as a run that ends at the wrong moment does.
            works = any(name.startswith("uncooperative-") for name in os.listdir(f"/proc/{handle.pid}/cwd"))  # noqa: PTH208 - names are all it takes
            return "succeeded" if works else "running"

    with pytest.raises((EndedBeforePress, RunnerNeverWorked), match=r"outcome was succeeded (already|before)"):
        drills.run(SaysDone())
    assert "pressed" not in _kinds(read(), "adapter")


@pytest.mark.parametrize("stage", ["wrapper is started", "runner works", "everything is over"])
def test_an_interrupt_at_any_moment_ends_everything(stage: str, drills: _Drills, read: Read) -> None:
    drills.interrupt_at = stage
    with pytest.raises(KeyboardInterrupt):
        drills.run(_command("deaf"), "deaf")
    ended = read().last("drill", "ended")
    assert ended is not None
    assert ended.data["why"] == "interrupted"


@pytest.mark.parametrize("stage", ["runner works", "everything is over"])
def test_a_recorder_that_is_killed_is_an_error_and_takes_its_processes_with_it(stage: str, terms: Terms, path: Path) -> None:
    # A recorder that is killed cannot remove its folder; this one is pytest's to remove.
    recorder = Recorder.start(path.parent)

    def kill(text: str, _at_most_s: float) -> None:
        if stage in text:
            os.kill(recorder.pid, signal.SIGKILL)

    driver = Driver(_Popen())
    try:
        with pytest.raises(RecorderFailed):
            run_drill(recorder, driver, by_id("deaf"), terms, wrapper="own", history=path, progress=kill)
    finally:
        driver.close()
        recorder.close()
    assert load(path).header["scenario"] == "deaf"
