"""A recorder, and sample agents to be tried by it; trials that are asked for together run at once, since they mostly wait."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.agents.profiles import Agent, agent_of
from pytest_cancelcontract.agents.trials import trial
from pytest_cancelcontract.agents.verdict import AgentResult, try_agent
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import Terms, settle_terms
from tests.agents.sample_verdicts import SAMPLES

TERMS = settle_terms(
    {
        name: (value, "test")
        for name, value in {"grace": 1.0, "kill_within": 0.5, "retry": 0.7, "settle": 0.1, "spend_within": 0.3, "start": 20.0}.items()
    }
)
AT_ONCE = 4
Try = Callable[..., AgentResult]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A recorder, which is closed after the test."""
    one = Recorder.start()
    yield one
    one.close()


def sample(name: str) -> Agent:
    """A sample agent by its name."""
    return program(SAMPLES / f"{name}.py")


def program(path: Path) -> Agent:
    """An agent that is a Python program, which takes the provider, the workspace and the prompt."""
    return agent_of([sys.executable, str(path), "{provider}", "{workspace}", "{prompt}"], origin="test")


@pytest.fixture
def tries(recorder: Recorder, tmp_path: Path) -> Try:
    """Put an agent through a trial, by its short id."""

    def go(agent: Agent, id: str, terms: Terms = TERMS, **given: Any) -> AgentResult:
        return try_agent(recorder, agent, trial(id), terms, history=tmp_path / f"{id}.jsonl", **given)

    return go


def all_of(tries: Try, agent: Agent, ids: list[str], terms: Terms = TERMS) -> dict[str, AgentResult]:
    """Put an agent through several trials at once."""
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        return dict(zip(ids, lanes.map(lambda id: tries(agent, id, terms), ids), strict=True))
