"""The scenarios that take a platform above the wrapper: skipped where there is none, and drilled where there is, from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.plugin.conftest import FAST, KEPT

PLATFORM = KEPT.replace(
    "while not stop and alive():\n    time.sleep(0.01)\n",
    "limit = time.monotonic() + float(sys.argv[2])\n"
    "wrapper = alive()[0]\n"
    "while not stop and time.monotonic() < limit and wrapper in alive() and wrapper.status() != 'stopped':\n"
    "    time.sleep(0.01)\n",
).replace("sys.argv[2:]", "sys.argv[3:]")
"""Ends everything below it at TERM, at its limit (the second argument), and when the wrapper is gone or stands still."""
WRAPPER = """
import subprocess, sys, threading
import psutil

child = subprocess.Popen(sys.argv[3:], stdout=subprocess.DEVNULL)

def end_all():
    below = psutil.Process().children(recursive=True)
    for process in below if sys.argv[2] == "all" else below[:1]:
        process.kill()

if float(sys.argv[1]):
    threading.Timer(float(sys.argv[1]), end_all).start()
child.wait()
"""
"""Starts the runner, and kills it after the seconds of its first argument (0: never): all below it, or the leader alone."""
LIMITS = ("--cancel-time-limit=2", *FAST)
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def words(pytester: pytest.Pytester) -> Callable[..., str]:
    """A command line: a wrapper that may have a limit, and above it nothing, a platform without a limit, or one with it."""
    for name, text in (("above.py", PLATFORM), ("without.py", KEPT), ("wrapper.py", WRAPPER)):
        (pytester.path / name).write_text(text)

    def made(above: str = "", *, wrapper: str = "0", reaches: str = "all") -> str:
        platform = f"{sys.executable} {pytester.path}/{above} " if above else ""
        return f"{platform}{sys.executable} {pytester.path}/wrapper.py {wrapper} {reaches} {{runner}}"

    return made


def _drill(run: Run, command: str, *scenarios: str, more: tuple[str, ...] = ()) -> pytest.RunResult:
    chosen = [f"--cancel-scenario={one}" for one in scenarios]
    return run("--pyargs", "pytest_cancelcontract.conformance", f"--cancel-wrapper={command}", *chosen, *LIMITS, "-rs", "-v", *more)


def test_what_a_wrapper_cannot_show_is_skipped_with_what_is_lacking(run: Run, words: Callable[..., str]) -> None:
    result = _drill(run, words(), "wrapper-killed", "wedged", "engine-lost")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(
        [
            "*wrapper-killed is not covered: it takes a platform that is given the time limit: {time_limit} in the command*",
            "*wedged is not covered: it takes {stall_after} in the command*",
            "*engine-lost is not covered: it takes engine(handle, state) in the adapter*",
            "not covered: floor-holds (lacks a platform*",
        ]
    )


def test_it_fails_where_that_is_asked_for(run: Run, words: Callable[..., str]) -> None:
    result = _drill(run, words(), "wrapper-killed", more=("--cancel-not-covered=fail",))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*wrapper-killed:floor-holds*"])


@pytest.mark.slow
def test_a_wrapper_that_is_the_command_itself_has_no_platform(run: Run, words: Callable[..., str]) -> None:
    result = _drill(run, words(wrapper="{time_limit}"), "wrapper-killed", "never-cancelled")
    result.assert_outcomes(skipped=1, passed=1)
    result.stdout.fnmatch_lines(["*a platform above the wrapper: the leader's parent is the command itself*"])


def test_a_platform_that_ends_what_its_wrapper_leaves_is_kept(run: Run, words: Callable[..., str]) -> None:
    _drill(run, words("above.py 0.3 {time_limit}"), "wrapper-killed", "wrapper-frozen", "never-cancelled").assert_outcomes(passed=3)


@pytest.mark.slow
def test_a_limit_that_lives_in_the_wrapper_dies_with_it(run: Run, words: Callable[..., str]) -> None:
    result = _drill(run, words("without.py 0.3", wrapper="{time_limit}"), "wrapper-killed", "never-cancelled")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*wrapper-killed:floor-holds*", "*the limit lives in the wrapper, and died with it*"])


def test_a_limit_that_reaches_the_leader_alone_is_no_floor(run: Run, words: Callable[..., str]) -> None:
    """Its child in a session of its own works on."""
    result = _drill(run, words("without.py 0.3", wrapper="{time_limit}", reaches="leader"), "never-cancelled")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*never-cancelled:floor-holds*", "*, own-session-child) running*", "*what reaches it ends the wrapper only*"]
    )


IDLE = """
import sys


class Idle:
    def start(self, run):
        words = [sys.executable, "%s", "0.3", str(run.time_limit), *run.argv]
        return run.spawn([sys.executable, "%s", "0", "all", *words])

    def cancel(self, handle):
        pass

    def disrupt(self, handle, how):
        pass
"""
"""Its wrapper has a limit of its own, and what shall disrupt that does nothing."""


@pytest.mark.slow
def test_a_limit_in_a_wrapper_above_a_shell_is_not_kept(run: Run, words: Callable[..., str]) -> None:
    """Not the shell alone is killed, and with several it is not told which one had the limit."""
    command = words("without.py 0.3", wrapper="{time_limit}").replace("{runner}", "sh -c '\"$@\"; exit' sh {runner}")
    result = _drill(run, command, "wrapper-killed", "wrapper-frozen")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*inconclusive: wrapper-killed:floor-holds*", "*killed as the wrapper: pid * (python*), pid * (sh); one of*"]
    )
    result.stdout.fnmatch_lines(
        ["*inconclusive: wrapper-frozen:floor-holds*", "*stopped as the wrapper: pid * (python*), pid * (sh); one of*"]
    )


@pytest.mark.slow
def test_a_platform_that_ends_what_a_wrapper_above_a_shell_leaves_is_kept(run: Run, words: Callable[..., str]) -> None:
    command = words("above.py 0.3 {time_limit}").replace("{runner}", "sh -c '\"$@\"; exit' sh {runner}")
    _drill(run, command, "wrapper-killed", "wrapper-frozen").assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_disrupt_that_disrupts_nobody_shows_nothing(run: Run, words: Callable[..., str], pytester: pytest.Pytester) -> None:
    assert words()  # the programs are there
    (pytester.path / "idle.py").write_text(IDLE % (pytester.path / "above.py", pytester.path / "wrapper.py"))
    chosen = ("--cancel-scenario=wrapper-killed", "--cancel-scenario=wrapper-frozen")
    result = run("--pyargs", "pytest_cancelcontract.conformance", "--cancel-adapter=idle:Idle", *chosen, *LIMITS)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*inconclusive: wrapper-killed:floor-holds*", "*the leader's parent, pid * and all above it lived on*"])


SLOW_ENGINE = """
import os, signal, sys, time
from pathlib import Path


class Slow:
    def start(self, run):
        return run.spawn([sys.executable, "%s", "0.3", *run.argv])

    def cancel(self, handle):
        os.kill(handle.pid, signal.SIGTERM)

    def outcome(self, handle):
        status = Path(f"/proc/{handle.pid}/stat").read_text().rpartition(") ")[2]
        return "cancelled" if status[0] == "Z" else "running"

    def engine(self, handle, state):
        if state == "refuse":
            self.cancel(handle)
            time.sleep(1.0)
"""
"""A run that ends at its engine's first refusal, and a command that takes a second to come back when it has made the engine refuse."""


def test_a_run_that_ends_at_the_first_refusal_is_kept_before_the_engine_call_is_back(
    run: Run, words: Callable[..., str], pytester: pytest.Pytester
) -> None:
    assert words()  # the programs are there
    (pytester.path / "slow_engine.py").write_text(SLOW_ENGINE % (pytester.path / "without.py"))
    conformance = ("--pyargs", "pytest_cancelcontract.conformance", "--cancel-scenario=engine-lost")
    run(*conformance, "--cancel-adapter=slow_engine:Slow", "--cancel-lease=1", *LIMITS).assert_outcomes(passed=1)
