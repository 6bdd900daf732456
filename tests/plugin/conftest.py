"""What the plugin's tests share: pytest runs of their own, with fixed widths and no colours, and small wrappers and adapters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

KEPT = """
import ctypes, os, signal, subprocess, sys, time
import psutil

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: whatever detaches becomes our child
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)

def alive():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return psutil.Process().children(recursive=True)

def tell(send):
    for process in alive():
        try:
            send(process)
        except psutil.NoSuchProcess:
            pass

while not stop and alive():
    time.sleep(0.01)
tell(psutil.Process.terminate)
ends = time.monotonic() + float(sys.argv[1])
while alive() and time.monotonic() < ends:
    time.sleep(0.01)
while alive():
    tell(psutil.Process.kill)
sys.exit(143)
"""
"""A wrapper that keeps the contract: ends everything below it, by force after the seconds of its first argument."""

BROKEN = """
import signal, subprocess, sys

child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)

def stop(*_):
    child.terminate()
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
child.wait()
"""
"""A wrapper that signals the process it started, and leaves."""

NO_HEAVY_PLUGINS = "-p no:hypothesispytest -p no:anyio"
"""Of the plugins that happen to be installed here, those that cost each run of pytest half a second, and are not needed by it."""
FAST = ("--cancel-grace=0.6", "--cancel-delivery=0.6", "--cancel-kill-within=0.8", "--cancel-settle=0.2")

Run = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", NO_HEAVY_PLUGINS)
    for name in ("PYTEST_PLUGINS", "PYTEST_TIMEOUT", "FORCE_COLOR", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run pytest in a process of its own; warnings are errors there too."""

    def run(*words: str, timeout: float = 50.0) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *words, timeout=timeout)

    return run


@pytest.fixture
def command(pytester: pytest.Pytester) -> Run:
    """Run ``cancelcontract`` in a process of its own, in the test's folder."""

    def command(*words: str, timeout: float = 50.0) -> pytest.RunResult:
        return pytester.run(sys.executable, "-m", "pytest_cancelcontract.cli", *words, timeout=timeout)

    return command


@pytest.fixture
def kept(pytester: pytest.Pytester) -> list[str]:
    """The words that start the wrapper that keeps the contract, with a grace of 0.3 s."""
    return [sys.executable, str(_write(pytester, "kept.py", KEPT)), "0.3", "{runner}"]


@pytest.fixture
def broken(pytester: pytest.Pytester) -> list[str]:
    """The words that start the wrapper that breaks the contract."""
    return [sys.executable, str(_write(pytester, "broken.py", BROKEN)), "{runner}"]


def _write(pytester: pytest.Pytester, name: str, text: str) -> Path:
    path = pytester.path / name
    path.write_text(text)
    return path
