"""The fixture ``agent_runner``, in tests as a user writes them."""

from __future__ import annotations

import json
import sys

import pytest

from tests.agents.sample_verdicts import SAMPLES

TEST = """
import pytest
from pytest_cancelcontract import assert_no_late_writes, assert_no_survivors, assert_spend_stops
from pytest_cancelcontract.meter import Stream, ToolCall

QUICK = dict(grace=1, kill_within=0.5, retry=0.7, settle=0.1, spend_within=0.3)
QUICKER = {{name: value for name, value in QUICK.items() if name != "grace"}}

def agent(name):
    return [{python!r}, {samples!r} + f"/{{name}}.py", "{{provider}}", "{{workspace}}", "{{prompt}}"]
"""
BODY = TEST.format(python=sys.executable, samples=str(SAMPLES))
WITHIN_S = 60
pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def test_what_is_asserted_of_an_agent_passes_or_fails_with_the_evidence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        BODY
        + """
def test_keeps(agent_runner):
    result = agent_runner(agent("ends_its_tools"), moment="tool-daemon", signal="TERM", **QUICK)
    assert_no_survivors(result)
    assert_no_late_writes(result)
    assert result.broken == ()

def test_breaks(agent_runner):
    result = agent_runner(agent("leaves_its_tools"), script=[ToolCall("{tool}; true"), Stream()], **QUICK)
    assert_spend_stops(result)
    assert_no_survivors(result)

@pytest.mark.cancel_contract(grace=0.7)
def test_group(agent_runner):
    result = agent_runner(agent("orphans_its_worker"), moment="streaming", signal="SIGTERM", to="group", **QUICKER)
    assert result.history.header["terms"]["grace"]["value"] == 0.7
    assert result.trial.id == "agent-streaming-term-group"
    assert_spend_stops(result)
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--cancel-report=r.json", timeout=WITHIN_S)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*ContractBroken: cancel contract broken: agent-tool-term:no-survivors",
            "*observed*agent-tool) running*",
            "*grace from agent_runner(grace=*",
            "*seen by*found by descent*",
        ]
    )
    result.stdout.fnmatch_lines(["*agent-tool-daemon-term *kept*", "*agent-tool-term *broken: no-survivors*"])
    drills = json.loads((pytester.path / "r.json").read_text())["drills"]
    assert [(one["scenario"], one["verdict"]) for one in drills] == [
        ("agent-tool-daemon-term", "kept"),
        ("agent-tool-term", "broken"),
        ("agent-streaming-term-group", "kept"),
    ]


def test_what_cannot_be_tried_is_an_error_and_no_verdict(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        BODY
        + """
def test_no_moment(agent_runner):
    agent_runner(agent("ends_its_tools"), moment="never")

def test_no_brace(agent_runner):
    agent_runner("agent {runner}")

def test_no_program(agent_runner):
    agent_runner("no-such-agent")
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=WITHIN_S)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*UnknownTrial: there is no moment 'never'*",
            "*BadCommand: unknown brace*agent_runner*",
            "*AgentNotStarted: the agent no-such-agent*",
        ]
    )
