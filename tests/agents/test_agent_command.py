"""``cancelcontract run --agent``, as a user types it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cancelcontract import cli
from pytest_cancelcontract.agents import verdict
from pytest_cancelcontract.agents.trials import Trial
from pytest_cancelcontract.history import load
from tests.agents.sample_verdicts import SAMPLES

QUICK = ["--grace", "1", "--kill-within", "0.5", "--retry", "0.7", "--settle", "0.1", "--spend-within", "0.3"]
WITHIN_S = 60.0
SAYS_SUCCESS = """
import os, signal, sys
sys.path.insert(0, {samples!r})
from _agent import Agent, arguments
signal.signal(signal.SIGINT, lambda number, frame: os._exit(0))
Agent(*arguments()).run()
"""
pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def agent(name: str) -> str:
    """A sample's command line."""
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(SAMPLES / name))}.py {{provider}} {{workspace}} {{prompt}}"


def words(*more: str, name: str = "leaves_its_tools") -> list[str]:
    """The whole command."""
    return [sys.executable, "-m", "pytest_cancelcontract.cli", "run", "--agent", agent(name), *QUICK, *more]


def run(folder: Path, *more: str, name: str = "leaves_its_tools") -> subprocess.CompletedProcess[str]:
    """Run it in that folder, to its end."""
    return subprocess.run(
        words(*more, name=name), cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, stdin=subprocess.DEVNULL, check=False
    )


def test_a_broken_agent_is_told_with_what_is_left_and_by_which_means_it_was_found(tmp_path: Path) -> None:
    done = run(tmp_path, "--scenario", "streaming-term", "--scenario", "tool-term", "--report", "r.json")
    assert done.returncode == 1, done.stderr
    assert "agent-streaming-term: kept\n" in done.stdout
    assert "agent-tool-term: broken: no-survivors, outcome-not-early, no-late-writes\n" in done.stdout
    assert "  cancelled while it runs a tool, by SIGTERM to its process\n" in done.stdout
    left = next(line for line in done.stdout.splitlines() if line.startswith("  left ") and "agent-tool" in line)
    assert "session " in left and left.endswith("found by descent")
    assert "uncooperative-tool.log, " in done.stdout and "  around    workspace: " in done.stdout
    assert "cancel contract broken: agent-tool-term:no-survivors" in done.stdout
    assert "--grace 1 --kill-within 0.5 --settle 0.1 --retry 0.7 --spend-within 0.3 --scenario agent-tool-term\n" in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert [one["verdict"] for one in report["drills"]] == ["kept", "broken"]
    assert "  the agent exited with status 143\n" in done.stdout and "wrapper" not in done.stdout
    table = [re.split(" {2,}", line) for line in done.stdout.splitlines()[-3:]]
    assert [table[0].index("delivered"), *(line[table[0].index("delivered")] for line in table[1:])] == [2, "-", "-"]
    assert [line[-1] for line in table] == ["runs", "1", "1"]
    history = load(report["drills"][1]["history"])
    again = subprocess.run(
        [sys.executable, "-m", "pytest_cancelcontract.cli", "judge", history.path],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert again.returncode == 1 and "cancel contract broken: agent-tool-term:no-late-writes" in again.stdout
    assert history.header["agent"] is True and Path(history.path).is_relative_to(tmp_path / ".cancelcontract")


def test_an_agent_that_keeps_the_contract_ends_with_0(tmp_path: Path) -> None:
    done = run(tmp_path, "--scenario", "tool-daemon-term", name="ends_its_tools")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agent-tool-daemon-term: kept\n" in done.stdout


def test_a_should_fails_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """The settings of the folder hold, as for a wrapper."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ncancel_level = should\ncancel_history = kept-here\n")
    done = run(tmp_path, "--scenario", "spawn-term", "-q", name="ends_its_tools")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "kept-here").is_dir()


def test_a_broken_should_is_told_at_once_and_not_called_kept(tmp_path: Path) -> None:
    """Its status 0 says that it did its work, and nothing else is amiss."""
    program = tmp_path / "says_success.py"
    program.write_text(SAYS_SUCCESS.format(samples=str(SAMPLES)))
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} {{provider}} {{workspace}} {{prompt}}"
    done = run(tmp_path, "--scenario", "streaming-int", "--agent", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agent-streaming-int: broken (SHOULD): outcome-not-success\n" in done.stdout
    assert "\nagent-streaming-int  broken (SHOULD): outcome-not-success  " in done.stdout
    assert "kept" not in done.stdout


def test_all_that_is_not_kept_is_told_and_what_counts_comes_first(tmp_path: Path) -> None:
    done = run(tmp_path, "--scenario", "tool-int", name="streams_on")
    told = "broken: no-survivors, outcome-reported, no-late-writes; inconclusive: outcome-not-early"
    assert f"agent-tool-int: {told}; inconclusive (SHOULD): outcome-not-success\n" in done.stdout


def test_what_would_be_tried_can_be_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "--collect-only", "--scenario", "tool-*-hup", "-k", "daemon")
    assert (done.returncode, done.stdout) == (
        0,
        "agent-tool-daemon-hup: while its tool runs in a session of its own, double-forked, by SIGHUP to its process\n",
    )


def test_an_agent_that_cannot_be_tried_is_red_and_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "--scenario", "streaming-term", name="no_such_sample")
    assert done.returncode == 1
    assert "the trial agent-streaming-term could not be run, so no clause was judged: the agent " in done.stdout
    assert "No such file or directory" in done.stdout


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("gemini-cli", "gemini is not on PATH: npm install -g @google/gemini-cli"),
        ("codex-sandbox", "codex is not on PATH: npm install -g @openai/codex"),
        ("no-such-agent {prompt}", "'no-such-agent' from --agent is not on PATH"),
    ],
)
def test_what_is_not_installed_is_refused_once_and_what_would_be_tried_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(tmp_path, "--agent", given)
    assert (done.returncode, done.stdout) == (4, "") and done.stderr.count("is not on PATH") == 1
    assert told in done.stderr and not (tmp_path / ".cancelcontract").exists()
    assert run(tmp_path, "--agent", given, "--collect-only").returncode == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("./nope {prompt}", "'./nope' from --agent does not exist"),
        ("tools/nope {prompt}", "'tools/nope' from --agent does not exist"),
        ("/nonexistent/nope {prompt}", "'/nonexistent/nope' from --agent does not exist"),
        ("tools/plain {prompt}", "'tools/plain' from --agent is not executable"),
        ("./tools {prompt}", "'./tools' from --agent is a folder"),
    ],
)
def test_a_path_to_what_cannot_be_run_is_refused_once(tmp_path: Path, given: str, told: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "plain").write_text("#!/bin/sh\n")
    done = run(tmp_path, "--agent", given)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", f"cancelcontract run: {told}\n")
    assert not (tmp_path / ".cancelcontract").exists()


def test_a_program_beside_the_user_is_found_though_it_is_started_in_its_workspace(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(SAMPLES))}/ends_its_tools.py "$@"\n')
    program.chmod(0o755)
    done = run(tmp_path, "--agent", "./agent.sh {provider} {workspace} {prompt}", "--scenario", "streaming-term")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_report_that_cannot_be_written_keeps_none_of_the_others_from_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reports = [word for name in ("file/r.json", "a.json", "file/s.json", "b.json") for word in ("--report", name)]
    done = run(tmp_path, "--scenario", "tool-term", *reports)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert all(f"the report could not be written to file/{name}.json: " in done.stderr for name in "rs")
    assert "cancel contract broken: agent-tool-term:no-survivors" in done.stdout and "\nagent-tool-term  broken: " in done.stdout
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["drills"][0]["verdict"] == "broken"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--scenario", "deaf"), "there is no trial 'deaf'"),
        (("--with", "INT"), "--with is about a wrapper"),
        (("--agent-allow", "helperd"), "--agent-allow takes a name and a reason"),
        (("--agent-env", "NAME=value"), "--agent-env takes the name of a variable"),
        (("--", "wrap.sh"), "give one of the two"),
        (("--jobs", "0"), "--jobs must be at least 1"),
        (("--grace", "-1"), "grace must be a finite number"),
        (("-k", "nothing"), "no trial is left"),
        (("--agent", "no-such-agent"), "'no-such-agent' from --agent is no profile and no program here; the profiles are claude-code, "),
        (("--report", "r.txt"), "got 'r.txt' from --report"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: tuple[str, ...], told: str) -> None:
    done = run(tmp_path, *more)
    assert done.returncode == 4
    assert told in done.stderr and "Traceback" not in done.stderr


def test_a_setting_of_the_folder_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ncancel_level = may\n")
    done = run(tmp_path)
    assert (done.returncode, "got 'may' from cancel_level in pytest.ini" in done.stderr) == (4, True)


def test_a_helper_is_allowed_without_an_agent_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_cancelcontract.cli", "run", "--agent-allow", "x=y", "--", "wrap", "{runner}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, "--agent-allow goes with --agent" in done.stderr) == (4, True)


def test_ctrl_c_ends_the_agents_and_says_so(tmp_path: Path) -> None:
    """Once the first stage of a trial is told, an agent is up; the leak guard sees whether anything of it is left."""
    process = subprocess.Popen(
        words("--scenario", "all", "-v"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        while "waits" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 2, errors
    assert "interrupted" in errors and "Traceback" not in errors


def test_a_fault_of_ours_in_one_trial_costs_that_trial_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = verdict.try_agent

    def faulty(recorder: object, agent: object, trial: Trial, *more: object, **given: object) -> object:
        if trial.id == "agent-start-term":
            raise RecursionError("too deep")
        return whole(recorder, agent, trial, *more, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(verdict, "try_agent", faulty)
    monkeypatch.chdir(tmp_path)
    status = cli.main([*words("--scenario", "streaming-term", "--scenario", "start-term", "--report", "r.json")[3:]])
    said = capsys.readouterr()
    assert status == 1
    assert "agent-streaming-term: kept\n" in said.out and "agent-start-term: could not be tried\n" in said.out
    assert "an internal error: RecursionError: too deep (test_agent_command.py:" in said.out + said.err
    assert len(json.loads((tmp_path / "r.json").read_text())["drills"]) == 2
