"""One drill as tests see it from both sides: what its history says by now, and what the process table has of its runner."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from pytest_cancelcontract.history import History, Observation, load
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from pytest_cancelcontract.run import Run
from tests.recorder import hidden_table
from tests.runner.stand_in import until

WORKS_WITHIN_S = 20.0
Facts = dict[str, Any]


class Drill:
    """An open drill of a recorder."""

    def __init__(self, recorder: Recorder, opened: OpenDrill) -> None:
        self.recorder = recorder
        self.opened = opened
        self.run = opened.run

    def start(self, *way: str) -> int:
        """Start the runner by a way that goes before its command line, and wait until it works; the pid of what was started."""
        spawned = self.run.spawn([*way, *self.run.argv])
        state = self.recorder.wait(self.opened, "working-or-exited", at_most_s=WORKS_WITHIN_S).state
        assert state["working"], (state, spawned.output.read_text())
        return spawned.pid

    # --- What is seen -------------------------------------------------------------------------------------------------

    def living(self, run: Run | None = None) -> dict[str, hidden_table.Row]:
        """The processes of the drill's first run, or of another one, as the tests see them alive."""
        return hidden_table.runners(token_of(run or self.run))

    def history(self) -> History:
        """What the recorder has noted by now."""
        return load(self.opened.history)

    def subjects(self, witness: str, kind: str, **facts: object) -> set[str]:
        """Of whom the recorder has noted this, with these facts."""
        return {seen.subject for seen in self.noted(witness, kind, **facts)}

    def noted(self, witness: str, kind: str, **facts: object) -> list[Observation]:
        """What the recorder has noted of this kind, with these facts, in order of time."""
        return [seen for seen in self.history().of(witness, kind) if facts.items() <= {**seen.data, "subject": seen.subject}.items()]

    def until_noted(self, witness: str, kind: str, **facts: object) -> Observation:
        """The first such observation, as soon as it is there."""
        until(lambda: bool(self.noted(witness, kind, **facts)), f"{witness}.{kind} {facts} in {self.opened.history}")
        return self.noted(witness, kind, **facts)[0]

    def of_role(self, role: str) -> hidden_table.Row:
        """The living process that said hello in this role last; the tests' own reading of it."""
        living = self.living()
        return living[[seen.subject for seen in self.noted("lifeline", "hello", role=role) if seen.subject in living][-1]]

    # --- What is done -------------------------------------------------------------------------------------------------

    def press(self, pid: int | None = None, number: int = signal.SIGTERM) -> None:
        """Note that cancel is pressed, and send the signal to one process; without one, cancel goes nowhere."""
        self.recorder.observe(self.opened, "adapter", "pressed", trigger=True, how="signal")
        if pid is not None:
            os.kill(pid, number)
        self.recorder.observe(self.opened, "adapter", "cancel-returned", error=None, clean=True)

    def finish(self) -> set[str]:
        """End the drill; the subjects of what had to be ended."""
        return {row["subject"] for row in self.recorder.finish(self.opened, "test")}


def token_of(run: Run) -> str:
    """The token that the processes of a run bear."""
    argv: Sequence[str] = run.argv
    return argv[argv.index("--token") + 1]
