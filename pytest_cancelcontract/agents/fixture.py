"""The object behind the fixture ``agent_runner``: put an agent's command line through a trial, inside a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_cancelcontract.agents.profiles import agent_of
from pytest_cancelcontract.agents.trials import trial_of
from pytest_cancelcontract.agents.verdict import AgentResult, try_agent
from pytest_cancelcontract.answers import Answer
from pytest_cancelcontract.options import settle_drill

if TYPE_CHECKING:
    import pytest

    from pytest_cancelcontract.pytest_side import PytestSide


class AgentRunner:
    """What a test calls: ``agent_runner("claude-code", moment="tool", signal="TERM")``; the result goes into any ``assert_*``."""

    def __init__(self, side: PytestSide, item: pytest.Item) -> None:
        self._side = side
        self._item = item

    def __call__(
        self,
        agent: str | Sequence[str],
        *,
        moment: str = "tool",
        signal: str = "TERM",
        to: str = "pid",
        script: Sequence[Answer] | None = None,
        allow: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        passed: Sequence[str] = (),
        **terms: float,
    ) -> AgentResult:
        """Run one trial and judge it; nothing is raised for what is broken, that is for the assertions behind it.

        Args:
            agent: a profile (``"claude-code"``, ``"codex"``, ``"gemini-cli"``, ``"opencode"``), or a command line with ``{prompt}``,
                ``{provider}``, ``{workspace}`` and ``{home}`` in it.
            moment: when it is cancelled: ``"streaming"``, ``"tool"``, ``"tool-nohup"``, ``"tool-setsid"``, ``"tool-daemon"``, ``"start"``
                or ``"spawn"``.
            signal: by which signal, sent ``to`` its process (``"pid"``) or its group (``"group"``).
            script: what the provider answers, in place of the trial's own answers; ``{tool}`` in the command of a ``ToolCall`` stands
                for the one that writes.
            allow: helpers that may live on, by their names in the process table, each with the reason.
            environment: what the agent's is made of in place of the test's own; of either it gets what a program needs to run.
            passed: names of variables that it gets as well.
            terms: ``grace=2`` and the like, as for ``cancel_drill``.
        Raises:
            BadCommand: the command is refused, or a helper that has no reason.
            UnknownTrial: there is no such moment or signal.
            DrillError: the trial could not be run.
        """
        tried = agent_of(agent, origin="agent_runner").allowing(allow or {}).passing(passed)
        chosen = trial_of(moment, signal, to)
        settled, _ = settle_drill(self._item, self._side.settings, terms, by="agent_runner")
        session = self._side.session
        result = try_agent(
            session.recorder(),
            tried,
            chosen,
            settled,
            history=session.history_path(self._item.nodeid, chosen.id),
            script=script,
            environment=environment,
        )
        result.rerun = self._side.rerun(self._item, None)
        self._side.record(self._item, {**result.row, "asserted": True})
        return result
