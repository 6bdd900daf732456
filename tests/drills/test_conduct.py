"""From a drill to its result: judged, run once more where the machine spoilt it, and carried as plain data."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import DrillResult, Lanes, _keep_proven, conduct
from pytest_cancelcontract.finding import Check, Finding, Level, Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms

WRAPPERS = Path(__file__).with_name("wrappers.py")
Read = Callable[[], History]


def _command(name: str) -> Driver:
    return Driver(CommandAdapter(f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} {name} {{runner}}"))


def _verdicts(result: DrillResult) -> dict[str, str]:
    return {check.clause: str(check.verdict) for check in result.checks}


def test_a_kept_wrapper_is_kept(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    result = conduct(recorder, _command("kept"), by_id("deaf-child"), terms, history=path)
    assert result.verdict is Verdict.KEPT, _verdicts(result)
    assert result.attempts == 1
    assert result.history == str(path)
    assert "kept {runner}" in result.wrapper
    assert result.measured["survivors"] == 0
    assert _verdicts(result)["spend-stops"] == "kept"
    read()


def test_a_wrapper_that_leaves_its_runner_is_broken(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    result = conduct(recorder, _command("ignores_its_child"), by_id("polite"), terms, history=path, clauses=("no-survivors", "fresh-start"))
    assert result.verdict is Verdict.BROKEN
    assert _verdicts(result) == {"no-survivors": "broken"}
    read()


class _Disturbed:
    """A wrapper whose first run is signalled by a stranger before cancel is pressed."""

    def __init__(self, times: int) -> None:
        self.disturbances = times
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, run: Run, /) -> subprocess.Popen[bytes]:
        self.children.append(subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True, stdout=subprocess.DEVNULL))
        self.workspace, self.is_disturbed = run.workspace, False
        return self.children[-1]

    def cancel(self, handle: subprocess.Popen[bytes], /) -> None:
        os.killpg(handle.pid, signal.SIGKILL)
        handle.wait(5)

    def outcome(self, handle: subprocess.Popen[bytes], /) -> str:
        if self.disturbances and not self.is_disturbed and list(self.workspace.glob("uncooperative-*")):
            self.disturbances -= 1
            self.is_disturbed = True
            os.kill(handle.pid, signal.SIGTERM)
            self._until_it_has_written_twice_more()
        return "running" if handle.poll() is None else "cancelled"

    def _until_it_has_written_twice_more(self) -> None:
        """It tells of the signal at once and writes every 50 ms, so the press that follows comes after the telling."""
        (log,) = self.workspace.glob("uncooperative-*")
        wanted, ends_s = len(log.read_text().splitlines()) + 2, time.monotonic() + 5
        while len(log.read_text().splitlines()) < wanted:
            assert time.monotonic() < ends_s, "the runner writes no more"
            time.sleep(0.005)


def _conduct_disturbed(recorder: Recorder, terms: Terms, path: Path, times: int) -> DrillResult:
    adapter = _Disturbed(times)
    driver = Driver(adapter)
    stages: list[str] = []
    lanes = Lanes()
    try:
        result = conduct(
            recorder, driver, by_id("deaf"), terms, history=path, lanes=lanes, progress=lambda stage, _at_most_s: stages.append(stage)
        )
    finally:
        driver.close()
        for child in adapter.children:
            child.wait(5)
    assert any("the first attempt was too close to a limit to tell" in stage for stage in stages)
    with lanes.alone():
        return result


def test_a_spoilt_drill_is_run_once_more(recorder: Recorder, terms: Terms, path: Path) -> None:
    result = _conduct_disturbed(recorder, terms, path, 1)
    assert result.attempts == 2
    assert result.history == str(path.with_name("drill.again.jsonl"))
    assert path.exists()
    assert Verdict.INCONCLUSIVE not in {check.verdict for check in result.checks}, _verdicts(result)


def test_a_drill_that_is_spoilt_twice_is_inconclusive(recorder: Recorder, terms: Terms, path: Path) -> None:
    result = _conduct_disturbed(recorder, terms, path, 2)
    assert (result.attempts, result.verdict) == (2, Verdict.INCONCLUSIVE)


def _check(clause: str, verdict: Verdict, *, spoilt: bool = False) -> Check:
    finding = Finding(
        verdict, "seen", "wanted", "pidfd", "because", "do", spoilt=spoilt, lacks="wait" if verdict is Verdict.NOT_COVERED else ""
    )
    return Check("deaf", clause, Level.MUST, finding)


def test_what_the_first_attempt_proved_broken_is_not_made_green_by_the_second() -> None:
    first = (_check("no-survivors", Verdict.BROKEN), _check("grace-bounded", Verdict.INCONCLUSIVE, spoilt=True))
    second = (_check("no-survivors", Verdict.KEPT), _check("grace-bounded", Verdict.KEPT))
    kept = _keep_proven(second, first, Path("/h/deaf.jsonl"))
    assert [check.verdict for check in kept] == [Verdict.BROKEN, Verdict.KEPT]
    assert kept[0].finding.observed == "seen (in the first of two attempts, /h/deaf.jsonl)"


def test_a_result_crosses_as_plain_json() -> None:
    checks = (
        _check("no-survivors", Verdict.BROKEN),
        _check("outcome-reported", Verdict.NOT_COVERED),
        _check("fresh-start", Verdict.NOT_APPLICABLE),
    )
    result = DrillResult("deaf", Verdict.BROKEN, 2, {"delivery_s": 0.1, "early_s": None}, checks, "/h/deaf.jsonl", "TeamAdapter")
    data = json.loads(json.dumps(result.as_dict()))
    assert DrillResult.from_dict(data) == result
    assert [set(row) >= {"clause", "level", "verdict", "observed", "expected", "why", "try"} for row in data["checks"]] == [True]
    assert data["checks"][0]["why"] == "because"
    assert {name: data["not_covered"][0][name] for name in ("scenario", "clause", "lacks")} == {
        "scenario": "deaf",
        "clause": "outcome-reported",
        "lacks": "wait",
    }
    assert replace(result, attempts=1) != result
