"""What becomes of the task's second start in a real drill: it comes, it is blocked, it is refused, or it comes too early."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.drill import run_drill
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.recorder import folders
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.workspace_rules import WorkspaceRules
from tests.drills.test_acts import _InProcess as InProcess

START_S = 3.0
RunDrill = Callable[..., History]


@pytest.fixture
def drill(recorder: Recorder, terms: Terms, path: Path, read: Callable[[], History]) -> RunDrill:
    def run(adapter: InProcess, *, start_s: float = 10.0, rules: WorkspaceRules | None = None, scenario: str = "second-run") -> History:
        driver = Driver(adapter)
        try:
            given = replace(terms, start_s=start_s, call_s=start_s)
            run_drill(
                recorder,
                driver,
                by_id(scenario),
                given,
                wrapper=driver.name,
                history=path,
                rules=rules or WorkspaceRules(),
            )
        finally:
            driver.close(within_s=1.0)
            for process in adapter.runs.values():
                process.wait(5)  # the recorder has ended it, and whoever started it has to say that he knows
        return read()

    return run


def _finding(history: History, clause: str) -> Finding:
    (check,) = judge(history, [clause])
    return check.finding


RETRIES = """
import os, pathlib, shutil, signal, subprocess, sys, time
workspace, source, words = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
flag = workspace.parent / "was-started"
if flag.exists():
    time.sleep(1.0)
    sys.exit(subprocess.call(words, cwd=workspace))
flag.touch()
process = subprocess.Popen(words, cwd=workspace, start_new_session=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.sigwait({signal.SIGTERM})
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
os.killpg(process.pid, signal.SIGKILL)
process.wait()
if os.fork():
    os._exit(143)
os.setsid()
time.sleep(0.05)
shutil.copytree(source, workspace.parent / "retry", symlinks=True)
sys.exit(subprocess.call(words, cwd=workspace.parent / "retry"))
"""
"""Tries the task again by itself, in a clean folder, and is slow to start it where it is asked to: in the folder of the killed run."""


def test_a_retry_of_the_engines_own_is_not_taken_for_the_start_that_was_asked_for(
    recorder: Recorder, terms: Terms, path: Path, read: Callable[[], History]
) -> None:
    program = path.with_name("retries.py")
    program.write_text(RETRIES)
    driver = Driver(CommandAdapter([sys.executable, str(program), "{workspace}", "{source}", "{runner}"]))
    run_drill(recorder, driver, by_id("second-run"), terms, wrapper=driver.name, history=path, rules=WorkspaceRules())
    driver.close(within_s=1.0)
    history = read()
    assert len([seen for seen in history.of("lifeline", "found") if seen.data["looked"]]) >= 3
    found = _finding(history, "fresh-start")
    assert found.verdict is Verdict.BROKEN, found.observed


class Rebuilds(InProcess):
    """Builds the workspace of a second run anew."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[str] = []

    def start(self, run: Run) -> str:
        if run.task_id in self.tasks:
            self.again(run)
        self.tasks.append(run.task_id)
        return super().start(run)

    def again(self, run: Run) -> None:
        folders.remove(run.workspace)
        folders.copy(run.source, run.workspace)


def test_a_workspace_that_is_built_anew_at_the_same_path_is_fresh(drill: RunDrill) -> None:
    history = drill(Rebuilds())
    found = _finding(history, "fresh-start")
    assert found.verdict is Verdict.KEPT, found
    hello = [seen for seen in history.of("lifeline", "hello") if seen.data["role"] == "leader"][-1]
    assert f"(device {hello.data['cwd_dev']}, inode {hello.data['cwd_ino']}" in found.observed
    assert not list(history.of("adapter", "not-restarted"))
    assert [seen.data["run"] for seen in history.of("adapter", "other-starting")] == []


NEVER = WorkspaceRules(resume="never")


class Tells(Rebuilds):
    """Ends its run by a notice that the run heeds."""

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)
        self.runs[run_id].terminate()
        self.runs[run_id].wait(10)


class BuildsOn(Tells):
    """Goes on with what a run left that nobody had to kill."""

    def again(self, run: Run) -> None:
        """Nothing is built anew."""


def test_a_run_that_ended_by_itself_may_not_be_built_on_where_that_is_forbidden(drill: RunDrill) -> None:
    found = _finding(drill(BuildsOn(), rules=NEVER, scenario="second-run-after-end"), "fresh-start")
    assert found.verdict is Verdict.BROKEN, found
    assert "untracked" in found.observed


def test_a_workspace_that_is_always_built_anew_is_fresh_after_an_end_as_well(drill: RunDrill) -> None:
    found = _finding(drill(Tells(), rules=NEVER, scenario="second-run-after-end"), "fresh-start")
    assert found.verdict is Verdict.KEPT, found


class Blocks(Rebuilds):
    """Its second start of a task waits for a lock that the run itself holds, by a descriptor that it inherited."""

    def __init__(self, folder: Path, *, raises: bool = False) -> None:
        super().__init__()
        self.folder = folder
        self.raises = raises
        self.is_over = threading.Event()

    def start(self, run: Run) -> str:
        descriptor = os.open(self.folder / f"{run.task_id}.lock", os.O_RDWR | os.O_CREAT)
        try:
            while not self._has_locked(descriptor):
                if self.raises:
                    raise RuntimeError("another run of this task is at it")
                if self.is_over.wait(0.05):
                    raise RuntimeError("nobody waits for this start any more")
            self.runs[run.id] = subprocess.Popen(
                run.argv, cwd=run.workspace, env=run.env, start_new_session=True, stdout=subprocess.DEVNULL, pass_fds=(descriptor,)
            )
        finally:
            os.close(descriptor)
        return run.id

    def cancel(self, run_id: str) -> None:
        """Kills the leader, and nothing that it has started."""
        self.cancelled.append(run_id)
        self.runs[run_id].kill()

    @staticmethod
    def _has_locked(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def blocks(tmp_path: Path) -> Iterator[Blocks]:
    adapter = Blocks(tmp_path)
    yield adapter
    adapter.is_over.set()


def test_a_task_that_is_blocked_while_another_is_not_is_no_fresh_start(drill: RunDrill, blocks: Blocks) -> None:
    """An orphan holds the wrapper's own lock, and another task shows that nothing else is in the way."""
    history = drill(blocks, start_s=START_S)
    blocks.is_over.set()
    found = _finding(history, "fresh-start")
    assert found.verdict is Verdict.BROKEN, found
    assert "another task of the same wrapper came up" in found.observed
    assert ".lock (FLOCK) by pid" in found.observed and "lock-holder" in found.observed
    assert _finding(history, "no-overlap").verdict is Verdict.INCONCLUSIVE


def test_a_start_that_is_refused_says_nothing_of_what_was_left(drill: RunDrill, tmp_path: Path) -> None:
    history = drill(Blocks(tmp_path, raises=True))
    found = _finding(history, "fresh-start")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the second start was refused: RuntimeError: another run of this task is at it" in found.observed


class Starts(InProcess):
    """Kills the leader only, and starts again beside what it left."""

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)
        self.runs[run_id].kill()


def test_two_runs_at_once_are_shown_with_the_writes_of_both(drill: RunDrill) -> None:
    history = drill(Starts())
    found = _finding(history, "no-overlap")
    assert found.verdict is Verdict.BROKEN, found
    second = [seen for seen in history.of("lifeline", "wrote") if seen.data.get("path", "").endswith("-leader.log")]
    assert len({seen.subject for seen in second}) == 2
    fresh = _finding(history, "fresh-start")
    assert fresh.verdict is Verdict.BROKEN and "the first run's own folder" in fresh.observed
    assert "poison.flock, which is locked still" in fresh.observed


def test_rules_stand_in_the_history(drill: RunDrill) -> None:
    history = drill(Rebuilds(), rules=WorkspaceRules(ignore=("cache",), resume="never"))
    assert (history.header["ignore"], history.header["resume"]) == (["cache"], "never")
