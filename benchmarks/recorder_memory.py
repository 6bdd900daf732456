"""The recorder's memory with 200 live runner processes, beside the same recorder with none."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.sides import show_amount
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from pytest_cancelcontract.terms import settle_terms

DRILLS = 50
"""Of four runner processes each: the leader and three children."""
HABITS = ("deaf-child", "own-session-child", "own-group-child")


def resident_mb(pid: int) -> float:
    """The resident memory of a process, in megabytes (10**6 bytes), as the kernel counts it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"no VmRSS of process {pid}")


def begin(recorder: Recorder, number: int, folder: Path) -> OpenDrill:
    """Open a drill and start its runner, which is left to work."""
    header = {"scenario": "own-session-child", "run_id": f"r{number}", "task_id": f"t{number}", "wrapper": "none", "capabilities": []}
    drill = recorder.open_drill(header={**header, "attempt": 1}, habits=HABITS, terms=settle_terms({}), history=folder / f"{number}.jsonl")
    drill.run.spawn(drill.run.argv)
    return drill


def main() -> None:
    """Print both sides, and the number of processes that were alive."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder.start()
        try:
            idle = resident_mb(recorder.pid)
            drills = [begin(recorder, number, Path(folder)) for number in range(DRILLS)]
            states = [recorder.wait(drill, "working", at_most_s=120).state for drill in drills]
            alive = sum(len(state["alive"]) for state in states)
            busy = resident_mb(recorder.pid)
        finally:
            recorder.close()
    show_amount("with no drill", idle, "MB")
    show_amount(f"with {alive} live runner processes", busy, "MB")
    print(f"  ratio {busy / idle:.2f} (figure: below 60 MB)")


if __name__ == "__main__":
    main()
