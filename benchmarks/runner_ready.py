"""How long the ``polite`` runner takes from its start until it works, beside a bare interpreter with the same three imports."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.sides import in_turn, ratio, show
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from pytest_cancelcontract.terms import settle_terms

TIMES = 60
HEADER = {"scenario": "polite", "run_id": "r", "task_id": "t", "wrapper": "none", "capabilities": [], "attempt": 1}
BARE = [sys.executable, "-I", "-S", "-c", "import socket, signal, threading"]


def main() -> None:
    """Print both sides; the runner's side ends with the recorder's answer that all of it works."""
    recorder = Recorder.start()
    terms = settle_terms({})
    with tempfile.TemporaryDirectory() as folder:
        drills = iter(
            [
                recorder.open_drill(header=HEADER, habits=["polite"], terms=terms, history=Path(folder) / f"{n}.jsonl")
                for n in range(TIMES + 1)
            ]
        )
        started: list[tuple[subprocess.Popen[bytes], OpenDrill]] = []

        def ready() -> None:
            drill = next(drills)
            process = subprocess.Popen(drill.run.argv, cwd=drill.run.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            started.append((process, drill))
            assert recorder.wait(drill, "working", at_most_s=20).state["working"]

        def bare() -> None:
            # The last runner is ended first, outside of what is timed for the runner.
            end_last()
            subprocess.run(BARE, check=True)

        def end_last() -> None:
            if started and started[-1][0].poll() is None:
                started[-1][0].kill()
                started[-1][0].wait()

        ours, theirs = in_turn(ready, bare, TIMES)
        end_last()
        recorder.close()
    show("polite runner works", ours)
    show("bare interpreter, three imports", theirs)
    ratio(ours, theirs, "figure: at most 1.6")


if __name__ == "__main__":
    main()
