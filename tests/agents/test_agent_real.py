"""One real agent command line on loopback, at a fixed version: that what is measured of it by hand is what its trials say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.agent_install import NotInstalled, environment, install
from pytest_cancelcontract.agents import report
from pytest_cancelcontract.agents.profiles import agent_of
from pytest_cancelcontract.finding import Verdict
from tests.agents.conftest import Try, all_of

CLAUDE = "@anthropic-ai/claude-code@2.1.197"
INSTALL_WITHIN_S = 90.0
TOOL_LIVES = ("no-survivors", "outcome-not-early", "no-late-writes")
pytestmark = pytest.mark.timeout(INSTALL_WITHIN_S + 90)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where claude is, installed if need be."""
    try:
        return install([CLAUDE], within_s=INSTALL_WITHIN_S)
    except NotInstalled as error:
        pytest.skip(f"{CLAUDE}: {error}")


@pytest.fixture
def claude(tries: Try, programs: Path) -> Try:
    """Put claude-code through a trial."""
    given = environment(programs)
    # What stands on PATH has to be found by the recorder, whose own environment is another.
    assert shutil.which("claude", path=given["PATH"]) is not None
    return lambda agent, id, terms, **more: tries(agent, id, terms, environment=given, **more)


def test_term_while_a_tool_runs_leaves_the_tool_writing(claude: Try) -> None:
    results = list(all_of(claude, agent_of("claude-code", origin="test"), ["tool-term", "tool-setsid-term", "tool-int"]).values())
    left, also_left, kept = results
    assert left.broken == also_left.broken == TOOL_LIVES
    assert set(kept.broken) <= {"outcome-not-success"}  # it ends with 1, and now and then with 0
    tool = next(one for one in report.left_over(report.facts_of(left.history)) if one.role == "agent-tool")
    survivors, writes = (
        next(check.finding for check in left.checks if check.clause == clause) for clause in ("no-survivors", "no-late-writes")
    )
    assert f"pid {tool.pid} (start {tool.subject.partition(':')[2]}, agent-tool) running" in survivors.observed
    assert f"session {tool.held['sid']}" in survivors.observed
    assert f"pid {tool.pid}: pidfd, readable only when the drill ended it" in survivors.seen_by and "found by descent" in survivors.seen_by
    assert f"uncooperative-tool.log by pid {tool.pid}" in writes.observed
    assert tool.held["sid"] != next(one for one in report.facts_of(left.history).first_run if one.is_leader).held["sid"]


@pytest.mark.slow
def test_the_same_trial_of_it_twice_has_the_same_verdicts(claude: Try) -> None:
    agent = agent_of("claude-code", origin="test")
    once, again = (all_of(claude, agent, ["tool-term", "streaming-int"]) for _ in range(2))
    verdicts = [{id: [(check.id, check.verdict) for check in one.checks] for id, one in results.items()} for results in (once, again)]
    assert verdicts[0] == verdicts[1]
    status = next(check for check in once["streaming-int"].checks if check.clause == "outcome-not-success")
    assert status.verdict is Verdict.BROKEN and "exit status 0" in status.finding.observed
