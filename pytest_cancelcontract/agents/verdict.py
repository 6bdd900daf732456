"""What a trial shows: run it, read its history, judge it, and run it once more where the machine spoilt it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.agents.profiles import Agent
from pytest_cancelcontract.agents.trial import run_trial
from pytest_cancelcontract.agents.trials import CLAUSES, Trial
from pytest_cancelcontract.answers import Answer
from pytest_cancelcontract.conduct import DrillResult, Lanes, once_more_if_spoilt, result_of
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Check, Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import Terms


@dataclass(slots=True, eq=False)
class AgentResult:
    """One trial of an agent, judged; the ``assert_*`` helpers take it for a drill.

    ``checks`` are in report order; what is asserted later is added. ``attempts`` is 2 where the machine spoilt the first.
    """

    agent: Agent
    trial: Trial
    history: History
    checks: list[Check]
    attempts: int = 1
    rerun: str = field(default="", compare=False)

    @property
    def result(self) -> DrillResult:
        """The same in the shape in which drills are reported."""
        return replace(result_of(self.history, self.checks), attempts=self.attempts)

    @property
    def row(self) -> dict[str, Any]:
        """The same as the reports take it."""
        header = self.history.header
        return {**self.result.as_dict(), "terms": header.get("terms"), "machine": header.get("machine")}

    @property
    def broken(self) -> tuple[str, ...]:
        """The clauses that are broken, whatever their level."""
        return tuple(check.clause for check in self.result.checks if check.verdict is Verdict.BROKEN)


def try_agent(
    recorder: Recorder,
    agent: Agent,
    trial: Trial,
    terms: Terms,
    *,
    history: Path,
    clauses: Collection[str] = CLAUSES,
    script: Sequence[Answer] | None = None,
    environment: Mapping[str, str] | None = None,
    lanes: Lanes | None = None,
    progress: Callable[[str, float], None] = lambda _stage, _at_most_s: None,
) -> AgentResult:
    """Run one trial and judge it; once more, with nothing of ``lanes`` beside it, where the first attempt was too close to a limit to tell.

    Args:
        history: the file for the history; a second attempt writes beside it (``….again.jsonl``).
        script: what the provider answers in place of the moment's own answers.
    Raises:
        DrillError: the trial could not be run.
        RecorderFailed: the recorder is gone.
    """

    def attempt(number: int, path: Path) -> History:
        given = {"script": script, "environment": environment, "progress": progress}
        return load(run_trial(recorder, agent, trial, terms, history=path, attempt=number, **given))  # type: ignore[arg-type]

    seen, checks, attempts = once_more_if_spoilt(
        attempt, lambda seen: judge(seen, clauses), history=history, lanes=lanes or Lanes(), progress=progress
    )
    return AgentResult(agent, trial, seen, list(checks), attempts)
