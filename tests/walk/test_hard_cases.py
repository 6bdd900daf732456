"""Two cases that are hard to get right every time: a report right after a heavy kill, and a pytest that is killed at any moment."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import conduct
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.scenarios import AFTER_PRESS, Scenario
from pytest_cancelcontract.terms import settle_terms
from tests.conftest import STAMP, stamped
from tests.walk.samples import FIXTURES

HEAVY = Scenario("heavy", ("heavy-children",), AFTER_PRESS, "four deaf children of 100 MB each", is_deaf=True)
KILLS_ITS_GROUP = """
import os, signal, subprocess, sys
runner = subprocess.Popen(sys.argv[1:], process_group=0)
def cancel(*_):
    os.killpg(runner.pid, signal.SIGTERM)
    try:
        runner.wait(0.3)
    except subprocess.TimeoutExpired:
        pass
    os.killpg(runner.pid, signal.SIGKILL)
    os.waitid(os.P_PID, runner.pid, os.WEXITED)
    os._exit(3)
signal.signal(signal.SIGTERM, cancel)
runner.wait()
signal.pause()
"""


def _times(request: pytest.FixtureRequest, few: int, many: int) -> int:
    return many if request.config.getoption("--walk-all", False) else few


@pytest.mark.timeout(600)
def test_a_report_right_after_the_kill_of_heavy_processes_is_not_early(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The wrapper is right: it killed everything and waited for its child. What is still dying then must not count as alive."""
    recorder = Recorder.start()
    driver = Driver(CommandAdapter([sys.executable, "-c", KILLS_ITS_GROUP, "{runner}"]))
    terms = settle_terms({"grace": (1, "test"), "settle": (0.1, "test")})
    try:
        for number in range(_times(request, 4, 100)):
            result = conduct(recorder, driver, HEAVY, terms, history=tmp_path / f"{number}.jsonl")
            early = next(check for check in result.checks if check.clause == "outcome-not-early")
            assert early.verdict is Verdict.KEPT, (early.finding.observed, result.history)
    finally:
        driver.close()
        recorder.close()


def _stop_runners(stamp: str) -> None:
    for identity, command in stamped(stamp).items():
        if "uncooperative_runner" in command and (held := Held.take(identity)) is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(held.pidfd, signal.SIGSTOP)
            held.release()


@pytest.mark.timeout(600)
def test_a_pytest_that_is_killed_at_any_moment_leaves_no_process(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL to pytest at random moments of its drills; two seconds later nothing that it started is alive, stopped runners included."""
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    sample = FIXTURES / "wrappers" / "broken" / "never_kills.py"
    wrapper = shlex.join([sys.executable, str(sample), "--grace", "0.9", "{workspace}", "{source}", "{runner}"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "pytest_cancelcontract.conformance"]
    command += ["--cancel-wrapper", wrapper, "--cancel-grace", "1", "--cancel-jobs", "4", "--cancel-history", str(tmp_path / "histories")]
    for number in range(_times(request, 4, 50)):
        monkeypatch.setenv(STAMP, f"{os.getpid()}-killed-{number}")
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.1, 4.0))
        if number % 2:
            _stop_runners(os.environ[STAMP])
        process.kill()
        process.wait()
        until = time.monotonic() + 2.0
        while left := stamped(os.environ[STAMP]):
            assert time.monotonic() < until, f"seed {seed}, number {number}: {left}"
