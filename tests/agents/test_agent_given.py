"""What an agent is given: its user's paths, no blocked signal of whoever started pytest, and variables that are printed nowhere."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.words import BadCommand
from pytest_cancelcontract.agents.profiles import agent_of
from pytest_cancelcontract.agents.trials import trial
from pytest_cancelcontract.agents.verdict import AgentResult, try_agent
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.underway import TAIL_BYTES, EndedBeforePress, read_tail
from tests.agents.conftest import TERMS, Try
from tests.agents.sample_verdicts import SAMPLES

SLEEPS = "import time; time.sleep(60)"


def not_kept(result: AgentResult) -> dict[str, str]:
    """What is broken, or was left open, with what was seen."""
    return {check.clause: check.finding.observed for check in result.checks if check.verdict in {Verdict.BROKEN, Verdict.INCONCLUSIVE}}


def test_a_program_that_its_user_gives_by_a_path_from_here_is_found(tries: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "start").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    result = tries(
        agent_of(["./start", str(SAMPLES / "ends_its_tools.py"), "{provider}", "{workspace}", "{prompt}"], origin="test"), "streaming-term"
    )
    assert not_kept(result) == {}


def test_a_file_that_is_looked_for_in_the_workspace_is_told_to_be(tries: Try) -> None:
    with pytest.raises(EndedBeforePress, match="is started in its workspace: a file of yours needs its absolute path"):
        tries(agent_of([sys.executable, "mine.py", "{provider}"], origin="test"), "streaming-term")


def test_a_signal_that_was_blocked_where_pytest_was_started_reaches_the_agent(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        recorder = Recorder.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        agent = agent_of([sys.executable, "-c", SLEEPS], origin="test")
        result = try_agent(recorder, agent, trial("spawn-term"), TERMS, history=tmp_path / "h.jsonl")
    finally:
        recorder.close()
    assert not_kept(result) == {}


def test_the_value_of_a_variable_that_is_passed_is_not_printed(tries: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a-real-one")
    says = agent_of([sys.executable, "-c", "import os; raise SystemExit('with ' + os.environ['MY_KEY'])"], origin="test")
    with pytest.raises(EndedBeforePress, match=r"with \(the value of MY_KEY\)") as told:
        tries(says.passing(["MY_KEY"]), "streaming-term", terms=replace(TERMS, start_s=5.0))
    assert "a-real-one" not in str(told.value)


def test_one_text_is_no_list_of_names() -> None:
    with pytest.raises(BadCommand, match=r"write \['MY_KEY'\]"):
        agent_of("agent {provider}", origin="test").passing("MY_KEY")


KEY = "0123456789-SECRET"


@pytest.mark.parametrize(
    ("hidden", "printed", "shown"),
    [
        ({"PEM": f"{KEY}\n"}, KEY.encode(), "(the value of PEM)"),
        ({"LINES": "user\r\npass-SECRET"}, b"user\r\npass-SECRET", "(the value of LINES)"),
        ({"A": KEY[:5], "B": KEY}, f"{KEY} {KEY[:5]}".encode(), "(the value of B) (the value of A)"),
        ({"ONE": "1"}, b"11 of 1", "11 of 1"),
        ({"KEY": KEY}, KEY.encode() + b"." * (TAIL_BYTES - 5), "(the value of KEY)" + "." * (TAIL_BYTES - 5)),
        ({"KEY": KEY}, KEY.encode() + b"." * TAIL_BYTES, "." * TAIL_BYTES),
        ({"KEY": KEY}, KEY.encode() * 200, "(the value of KEY)" * 121),
        ({}, b"x" * TAIL_BYTES + b"y", "x" * (TAIL_BYTES - 1) + "y"),
    ],
    ids=[
        "a line end",
        "unprintable letters",
        "one begins another",
        "too short",
        "the tail begins in it",
        "before the tail",
        "again and again",
        "none",
    ],
)
def test_nothing_of_a_value_is_left_in_the_end_of_an_output(tmp_path: Path, hidden: dict[str, str], printed: bytes, shown: str) -> None:
    (tmp_path / "output").write_bytes(printed)
    assert read_tail(tmp_path / "output", hidden) == shown
