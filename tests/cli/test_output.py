"""What a command's output does not do to it: nothing of it may be read, and its end is the same."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.sample_verdicts import SAMPLES
from tests.cli.test_judge_and_show import KEPT_STORY, SURVIVOR_STORY, write
from tests.plugin.conftest import FAST

WITHIN_S = 60.0
LEAVES, LEFT, FULL, CLOSED, ASCII = "a reader of one line", "no reader", "a full disk", "a closed descriptor", "an encoding without ü"
FAST_WORDS = [word.replace("cancel-", "") for word in FAST]
AGENT = f"{shlex.quote(sys.executable)} {shlex.quote(str(SAMPLES))}/leaves_its_tools.py {{provider}} {{workspace}} {{prompt}} ü"
pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def told_to(where: str, folder: Path, *words: str) -> tuple[int, str]:
    """Run ``cancelcontract`` with its stdout there; returns its exit status, and what it said on stderr."""
    argv = [sys.executable, "-m", "pytest_cancelcontract.cli", *words]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"} if where == ASCII else dict(os.environ)
    if where == CLOSED:
        argv = ["sh", "-c", 'exec "$@" >&-', "sh", *argv]
    reads, writes = os.pipe()
    if where == FULL:
        os.close(writes)
        writes = os.open("/dev/full", os.O_WRONLY)
    with (
        os.fdopen(reads, "rb") as reader,
        subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=writes, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            os.close(writes)
            if where == LEAVES:
                assert reader.readline()
            if where != ASCII:
                reader.close()
            else:
                assert b"\\xfc" in reader.read()
            _, errors = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert "Traceback" not in errors and "Exception ignored" not in errors
    return process.returncode, errors


@pytest.mark.parametrize("where", [LEAVES, *(pytest.param(one, marks=pytest.mark.slow) for one in (FULL, CLOSED, ASCII))])
def test_a_broken_agent_is_one_and_its_report_is_written(tmp_path: Path, where: str) -> None:
    quick = ["--grace", "1", "--kill-within", "0.5", "--retry", "0.7", "--settle", "0.1", "--spend-within", "0.3"]
    status, errors = told_to(where, tmp_path, "run", "--agent", AGENT, *quick, "--scenario", "tool-term", "-v", "--report", "r.json")
    assert status == 1, errors
    assert [one["verdict"] for one in json.loads((tmp_path / "r.json").read_text())["drills"]] == ["broken"]


@pytest.mark.parametrize("where", [LEAVES, *(pytest.param(one, marks=pytest.mark.slow) for one in (FULL, CLOSED, ASCII))])
def test_a_broken_wrapper_is_one_and_its_report_is_written(pytester: pytest.Pytester, broken: list[str], where: str) -> None:
    words = ["--scenario=deaf-child", "--report=r.json", "--", *broken, "ü"]
    status, errors = told_to(where, pytester.path, "run", *FAST_WORDS, *words)
    assert status == pytest.ExitCode.TESTS_FAILED, errors
    assert [one["verdict"] for one in json.loads((pytester.path / "r.json").read_text())["drills"]] == ["broken"]


@pytest.mark.parametrize(
    ("form", "where"),
    [("text", LEFT), ("text", FULL), ("text", CLOSED), ("text", ASCII), ("json", LEFT), ("json", FULL), ("json", CLOSED)],
)
def test_a_broken_history_is_one(tmp_path: Path, form: str, where: str) -> None:
    path = write(tmp_path / "ü.jsonl", SURVIVOR_STORY)
    assert told_to(where, tmp_path, "judge", "--format", form, path)[0] == 1


@pytest.mark.parametrize("words", [("list",), ("--help",), ("judge", "kept.jsonl")])
@pytest.mark.parametrize(
    ("where", "told"),
    [
        (LEFT, ""),
        (CLOSED, ""),
        (FULL, "cancelcontract: not all of the output could be written: No space left on device\n"),
    ],
)
def test_what_is_told_to_nobody_ends_as_ever_and_a_reason_that_is_none_of_the_readers_is_told(
    tmp_path: Path, where: str, told: str, words: tuple[str, ...]
) -> None:
    write(tmp_path / "kept.jsonl", KEPT_STORY)
    assert told_to(where, tmp_path, *words) == (0, told)


def test_with_no_descriptor_at_all_none_of_its_files_gets_what_is_printed(pytester: pytest.Pytester, broken: list[str]) -> None:
    words = [sys.executable, "-m", "pytest_cancelcontract.cli", "run", *FAST_WORDS, "--scenario=deaf-child", "--report=r.json", "-v"]
    argv = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words, "--", *broken]
    assert subprocess.run(argv, cwd=pytester.path, timeout=WITHIN_S, check=False).returncode == pytest.ExitCode.TESTS_FAILED
    (drill,) = json.loads((pytester.path / "r.json").read_text())["drills"]
    assert all(json.loads(line) for line in Path(drill["history"]).read_text().splitlines())


@pytest.mark.slow
def test_a_descriptor_that_does_not_wait_is_waited_for(tmp_path: Path) -> None:
    """As other programs leave a terminal or a pipe that they share with it; the list fills this one."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    filled = 0
    with pytest.raises(BlockingIOError):
        while True:
            filled += os.write(writes, b"." * 512)
    argv = [sys.executable, "-m", "pytest_cancelcontract.cli", "list"]
    with os.fdopen(reads, "rb") as reader, subprocess.Popen(argv, cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE) as process:
        os.close(writes)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=4.0)
        text = reader.read()[filled:]
        assert process.stderr is not None
        assert (process.wait(timeout=WITHIN_S), process.stderr.read()) == (0, b"")
    assert text.startswith(b"scenarios ") and text.endswith(b"\n")
