"""Run a trial: start the agent, wait for the moment, send the signal, watch, and leave a history behind.

Acts and observes; judges nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.agents import tool
from pytest_cancelcontract.agents.profiles import Agent
from pytest_cancelcontract.agents.surroundings import Surroundings
from pytest_cancelcontract.agents.trials import CLAUSES, Trial
from pytest_cancelcontract.answers import Answer, Script, ToolCall
from pytest_cancelcontract.recorder.client import Awaited, OpenDrill, Recorder, RecorderFailed
from pytest_cancelcontract.recorder.plan import Plan
from pytest_cancelcontract.scenarios import Act
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.underway import OVER_SLACK_S, DrillError, EndedBeforePress, read_tail

PROMPT = "Run the command that you are told to run, and report what it says."
ACT = Act.CANCEL_THEN_WATCH
CAPABILITIES = ("exit",)


class AgentNotStarted(DrillError):
    """The agent's command could not be started."""


class AgentNeverWorked(DrillError):
    """The agent did not come to where it was to be cancelled; the message has what it printed."""


def terms_of(terms: Terms) -> Terms:
    """The terms of a trial: the signal is sent directly, so there is no time for its delivery."""
    return replace(terms, delivery_s=0.0, origins={**terms.origins, "delivery": "a signal of ours"})


def run_trial(
    recorder: Recorder,
    agent: Agent,
    trial: Trial,
    terms: Terms,
    *,
    history: Path,
    attempt: int = 1,
    script: Sequence[Answer] | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[str, float], None] = lambda _stage, _at_most_s: None,
) -> Path:
    """Run one trial and return the path of its history; every way out ends what was started and closes the history.

    Args:
        script: what the provider answers, in place of the moment's own answers; ``{tool}`` in a command stands for the one that writes.
        environment: what the agent's is made of, by default this process's; only what a program needs to run is
            taken from it, and the variables that the agent is ``passing``.
    Raises:
        DrillError: the trial could not be run to its end; the message says why.
        RecorderFailed: the recorder is gone.
    """
    settled = terms_of(terms)
    drill = recorder.open_drill(
        header=_header(agent, trial, attempt),
        habits=("agent",),
        terms=settled,
        history=history,
        env=os.environ if environment is None else environment,
        plan=Plan(agent=True, watch_s=settled.retry_s),
    )
    try:
        _Trying(recorder, drill, agent, trial, settled, progress).run(script)
    except BaseException as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}".partition("\n")[0]
        # The first error is the one to be told of; a recorder that is gone has ended everything by itself.
        with contextlib.suppress(RecorderFailed):
            _end(recorder, drill, why)
        raise
    _end(recorder, drill, "over")
    return history


def _end(recorder: Recorder, drill: OpenDrill, why: str) -> None:
    recorder.finish(drill, why)
    recorder.discard(drill)


def _header(agent: Agent, trial: Trial, attempt: int) -> dict[str, object]:
    name = f"{trial.id}-{secrets.token_hex(4)}"
    return {
        "scenario": trial.id,
        "run_id": name,
        "task_id": f"task-{name}",
        "wrapper": agent.name,
        "capabilities": list(CAPABILITIES),
        "attempt": attempt,
        "act": str(ACT),
        "agent": True,
        "clauses": list(CLAUSES),
        "allowed": dict(agent.allowed),
        "passed": list(agent.passed),
    }


class _Trying:
    """One trial on its way."""

    def __init__(
        self, recorder: Recorder, drill: OpenDrill, agent: Agent, trial: Trial, terms: Terms, progress: Callable[[str, float], None]
    ) -> None:
        self._recorder = recorder
        self._drill = drill
        self._agent = agent
        self._trial = trial
        self._terms = terms
        self._progress = progress
        self._output: Path | None = None
        self._secrets: dict[str, str] = {}

    def run(self, script: Sequence[Answer] | None) -> None:
        """From the start to where everything is over."""
        self._instruct(script)
        surroundings = self._start()
        self._until_at_work()
        self._press()
        self._until_over()
        self._observe("workspace", "lies-around", places=surroundings.left())

    def _instruct(self, script: Sequence[Answer] | None) -> None:
        """Say what the provider answers."""
        run, moment, terms = self._drill.run, self._trial.moment, self._terms
        # Longer than any trial: the cap is for the day on which the recorder fails.
        lifetime_s = 60 + terms.start_s + terms.deadline_after_press_s + terms.retry_s
        command = tool.command(run.workspace, self._drill.mark, lifetime_s)
        self._recorder.script(self._drill, moment.script(command) if script is None else _with_tool(script, command))

    def _start(self) -> Surroundings:
        run = self._drill.run
        home = run.folder / "agent" / "home"
        values = {"prompt": PROMPT, "provider": run.provider, "workspace": str(run.workspace), "home": str(home)}
        argv, own, files = self._agent.filled(values)
        # It is started in its workspace, but its user wrote the path of it here.
        argv[0] = str(Path.cwd() / argv[0]) if os.sep in argv[0] else argv[0]
        surroundings = Surroundings.make(run.folder, run.workspace, files)
        self._observe("adapter", "starting")
        try:
            environment = surroundings.environment(run.env, own, self._agent.passed)
            self._secrets = {name: environment[name] for name in self._agent.passed if environment.get(name)}
            spawned = run.spawn(argv, cwd=run.workspace, env=environment)
        except OSError as error:
            raise AgentNotStarted(f"the agent {self._agent.name} cannot be started: {error}") from None
        self._output = spawned.output
        self._observe("adapter", "started", took_s=None)
        return surroundings

    def _until_at_work(self) -> None:
        moment, within_s = self._trial.moment, self._terms.start_s
        if moment.event:
            self._progress(f"waits for the moment: {moment.words}", within_s)
            # The wait for both tells that it is sure by now, and the one for the event alone which of the two it was.
            self._wait(f"{moment.event}-or-exited", within_s)
            got = self._wait(moment.event, 0.0)
            if _status(got) is not None:
                raise EndedBeforePress(f"the agent {self._agent.name} {_ended(got)} before it was cancelled{self._printed()}")
            if not got.reached:
                raise AgentNeverWorked(
                    f"the agent {self._agent.name} was to be cancelled {moment.words}, and did not come to that within {within_s:g} s"
                    f" (the term start, --start-within of the command){self._printed()}"
                )
        self._observe("adapter", "at-work", what=moment.words)

    def _press(self) -> None:
        way = self._trial.way
        self._observe("adapter", "pressed", trigger=True, how=way.words)
        at_s = self._recorder.signal(self._drill, way.signal, to=way.to)
        self._observe("adapter", "cancel-returned", error=None, clean=True, acted_at_s=at_s)

    def _until_over(self) -> None:
        terms = self._terms
        at_most_s = terms.deadline_after_press_s + terms.kill_within_s + terms.retry_s + terms.spend_within_s + OVER_SLACK_S
        self._progress("waits until everything is over", at_most_s)
        if not self._wait("over", at_most_s).reached:
            self._observe("drill", "problem", what=f"the trial was not over {at_most_s:.3g} s after it was waited for")

    def _wait(self, event: str, at_most_s: float) -> Awaited:
        return self._recorder.wait(self._drill, event, at_most_s=at_most_s)

    def _observe(self, witness: str, kind: str, **data: Any) -> None:
        self._recorder.observe(self._drill, witness, kind, **data)

    def _printed(self) -> str:
        text = read_tail(self._output, self._secrets) if self._output is not None else ""
        if "No such file" in text or "can't open file" in text or "MODULE_NOT_FOUND" in text:
            text += "\n(It is started in its workspace: a file of yours needs its absolute path in the command.)"
        return f"\nIts output ends with:\n{text}" if text else "\nIt printed nothing."


def _with_tool(script: Sequence[Answer], command: str) -> Script:
    """With the command that writes in place of ``{tool}``."""
    return Script(
        tuple(replace(one, command=one.command.replace("{tool}", command)) if isinstance(one, ToolCall) else one for one in script)
    )


def _status(got: Awaited) -> int | None:
    told: int | None = (got.state["wrapper"] or {}).get("status")
    return told


def _ended(got: Awaited) -> str:
    status = _status(got) or 0
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
