"""An operator's desk for the tests: submits runs of the uncooperative runner by hand, and looks at the record and at the world."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fixtures.orchestrator.local import Orchestrator
from fixtures.orchestrator.processes import read_stat

RUNNER = Path(__file__).resolve().parents[2] / "uncooperative_runner" / "run.py"
STAMP = "ORCHESTRATOR_TEST_RUN"
WITHIN_S = 20.0
_NUMBERS = itertools.count(1)


def until(what: Callable[[], Any], why: Callable[[], object] = lambda: "") -> Any:
    """Poll to a deadline; the first answer that is true.

    Raises:
        AssertionError: there was none.
    """
    ends_s = time.monotonic() + WITHIN_S
    while not (found := what()):
        assert time.monotonic() < ends_s, f"not within {WITHIN_S:g} s: {why()}"
        time.sleep(0.005)  # polls: files and records have no event
    return found


class Run:
    """A submitted run."""

    def __init__(self, orchestrator: Orchestrator, run: str, workspace: Path) -> None:
        self.id = run
        self.workspace = workspace
        self._orchestrator = orchestrator

    @property
    def row(self) -> dict[str, Any]:
        """The record's."""
        return self._orchestrator.run(self.id)

    @property
    def state(self) -> str:
        """In the record."""
        return str(self.row["state"])

    @property
    def attempt(self) -> dict[str, Any]:
        """The last one."""
        attempts = self.row["attempts"]
        return dict(attempts[-1]) if attempts else {}

    @property
    def heartbeats(self) -> list[dict[str, Any]]:
        """As the engine saw them."""
        return list(self._orchestrator.ask("GET", f"/runs/{self.id}/heartbeats")["heartbeats"])

    @property
    def output(self) -> str:
        """What the runner of the last attempt has printed."""
        path = self._orchestrator.folder / "attempts" / str(self.attempt.get("number")) / "output.log"
        return path.read_text() if path.exists() else ""

    def cancel(self) -> str:
        """Press; the state after it."""
        return str(self._orchestrator.ask("POST", f"/runs/{self.id}/cancel")["state"])

    def until_working(self, attempt: int = 1, *, processes: int = 1) -> Run:
        """Wait until the leader of this attempt at it has proven its habits, and so many processes are there."""
        until(lambda: len(self.row["attempts"]) == attempt and "; proven: " in self.output, self._seen)
        until(lambda: len(self.living()) >= processes, self._seen)
        return self

    def until_noticed(self) -> Run:
        """Wait until the runner has been told."""
        until(lambda: "noticed" in self.output, self._seen)
        return self

    def until_ended(self) -> Run:
        """Wait until its state is a last one."""
        until(lambda: self.row["ended_s"] is not None, self._seen)
        return self

    def living(self) -> list[int]:
        """The pids of the runner's processes that live, by a stamp in their environment."""
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208 - names, not paths
            try:
                stamped = f"{STAMP}={self.id}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            stat = read_stat(pid)
            if stamped and stat is not None and stat.state not in "ZX":
                found.append(pid)
        return found

    def _seen(self) -> tuple[dict[str, Any], list[int], str]:
        return self.row, self.living(), self.output[-500:]


class Desk:
    """Submits runs to an orchestrator, each with a workspace of its own below ``folder``."""

    def __init__(self, orchestrator: Orchestrator, folder: Path) -> None:
        self.orchestrator = orchestrator
        self._folder = folder
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "README.md").write_text("pristine\n")
        self._runs: list[Run] = []

    def submit(self, *habits: str, task: str = "", workspace: str = "", runner: list[str] | None = None, **limits: float | None) -> Run:
        """Submit a run of a runner with these habits, with short limits where none are given."""
        run = f"run-{os.getpid()}-{next(_NUMBERS)}"
        where = self._folder / (workspace or run)
        words = [part for habit in habits for part in ("--habit", habit)]
        argv = runner or [sys.executable, "-I", "-S", str(RUNNER), "--lifetime", "60", *words]
        short = {"grace_s": 0.5, "heartbeat_every_s": 0.1, "lease_s": 20.0, "time_limit_s": 60.0}
        names = {"id": run, "task_id": task or run, "workspace": str(where), "source": str(self.source)}
        body = {**names, "argv": argv, "env": {**os.environ, STAMP: run}, "limits": {**short, **limits}}
        self.orchestrator.ask("POST", "/runs", body)
        return self.take(run, where)

    def take(self, run: str, workspace: Path) -> Run:
        """A run that somebody has submitted, to be ended with the others."""
        self._runs.append(Run(self.orchestrator, run, workspace))
        return self._runs[-1]

    def close(self) -> None:
        """Nothing of the test's runs may be left for the next test."""
        for run in self._runs:
            if run.row["ended_s"] is None:
                run.cancel()
        for run in self._runs:
            run.until_ended()
            until(lambda run=run: not run.living(), run.living)  # type: ignore[misc]
