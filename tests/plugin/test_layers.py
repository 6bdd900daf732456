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

child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
if float(sys.argv[1]):
    threading.Timer(float(sys.argv[1]), child.kill).start()
child.wait()
"""
"""Starts the runner, and kills it after the seconds of its first argument (0: never)."""
LIMITS = ("--cancel-time-limit=2", *FAST)
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def words(pytester: pytest.Pytester) -> Callable[..., str]:
    """A command line: a wrapper that may have a limit, and above it nothing, a platform without a limit, or one with it."""
    for name, text in (("above.py", PLATFORM), ("without.py", KEPT), ("wrapper.py", WRAPPER)):
        (pytester.path / name).write_text(text)

    def made(above: str = "", *, wrapper: str = "0") -> str:
        platform = f"{sys.executable} {pytester.path}/{above} " if above else ""
        return f"{platform}{sys.executable} {pytester.path}/wrapper.py {wrapper} {{runner}}"

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
