"""An adapter of one's own, for workers that keep a record: the two methods that are needed, and one for the outcome."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_cancelcontract import Run

WORKER = str(Path(__file__).with_name("record.py"))


@dataclass
class Job:
    """What is needed to cancel a run, and to ask for it; the plugin hands it back as it is."""

    pid: int
    record: Path


class WorkerAdapter:
    """Starts a worker for each run, cancels it as its operators do, and reads its record."""

    def start(self, run: Run) -> Job:
        record = run.folder / f"{run.id}.record"
        words = ["--record", str(record), "--grace", "0.8", str(run.workspace), str(run.source), *run.argv]
        # run.spawn and not Popen: it is ended with the drill, whatever happens to pytest.
        return Job(run.spawn([sys.executable, WORKER, *words]).pid, record)

    def cancel(self, job: Job) -> None:
        os.kill(job.pid, signal.SIGTERM)

    def outcome(self, job: Job) -> str:
        """One of running, cancelling, cancelled, failed, succeeded; asked again and again."""
        return job.record.read_text().strip() if job.record.exists() else "running"


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child", "second-run"])
def test_cancel_stops_the_worker(cancel_contract):
    cancel_contract.check(WorkerAdapter())
