"""How long after a SIGKILL the recorder has the death, beside the parent's own ``waitid``, for the same deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.sides import quantile, ratio, show
from pytest_cancelcontract.history import load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms

TIMES = 200
TERMS = settle_terms({"settle": (0.05, "benchmark")})


def one(recorder: Recorder, history: Path) -> tuple[float, float, float]:
    """Kill a working runner: seconds until the recorder had it, until waitid returned, and the worst lateness meanwhile."""
    header = {"scenario": "deaf", "run_id": "r", "task_id": "t", "wrapper": "none", "capabilities": [], "attempt": 1}
    drill = recorder.open_drill(header=header, habits=["deaf"], terms=TERMS, history=history)
    with subprocess.Popen(drill.run.argv, cwd=drill.run.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as runner:
        assert recorder.wait(drill, "working", at_most_s=20).state["working"], "the runner did not work"
        recorder.observe(drill, "adapter", "pressed", trigger=True, how="SIGKILL")
        pidfd = os.pidfd_open(runner.pid)
        killed_s = time.monotonic()
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        waited_s = time.monotonic()
        os.close(pidfd)
        recorder.observe(drill, "adapter", "cancel-returned", error=None)
        recorder.wait(drill, "over", at_most_s=20)
        recorder.finish(drill, "benchmark")
    recorder.discard(drill)
    seen = load(history)
    died = seen.first("process-table", "died")
    assert died is not None
    late = max(row.data["worst_s"] for row in seen.of("clock", "lateness"))
    return died.at_s - killed_s, waited_s - killed_s, late


def main() -> None:
    """Print both sides, and the clock error that the drills themselves would have claimed."""
    recorder = Recorder.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = [one(recorder, Path(folder) / "h.jsonl") for _ in range(TIMES)]
    finally:
        recorder.close()
    ours, theirs, late = zip(*rows, strict=True)
    show("SIGKILL until the recorder has it", ours)
    show("SIGKILL until waitid returns", theirs)
    show("clock error stated by the drill", late)
    ratio(ours, theirs, "both hold the time that the kernel takes to end the process")
    behind = [max(0.0, one - other) for one, other in zip(ours, theirs, strict=True)]
    median, p99 = quantile(behind, 0.5) * 1000, quantile(behind, 0.99) * 1000
    reached = "reached" if median <= 1 and p99 <= 10 else "NOT reached"
    print(f"  the recorder has it later than waitid: median {median:.2f} ms, p99 {p99:.2f} ms (figure: 1 ms and 10 ms, {reached})")


if __name__ == "__main__":
    main()
