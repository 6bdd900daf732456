"""The core scenarios over a kept sample through ``cancelcontract run``, beside the longest single one of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sides import ratio, show
from pytest_cancelcontract.scenarios import select

TIMES = 3
SAMPLE = Path(__file__).parents[1] / "fixtures" / "wrappers" / "kept" / "subreaper.py"


def run(scenarios: list[str], folder: Path, *, jobs: int | None = None) -> float:
    """Seconds of one whole ``cancelcontract run`` at grace 1 s with so many drills at once (None: the default)."""
    chosen = [word for scenario in scenarios for word in ("--scenario", scenario)]
    report = folder / "report.json"
    at_once = [] if jobs is None else ["--jobs", str(jobs)]
    where = ["--report", str(report), "--history", str(folder / "histories")]
    wrapper = ["--", sys.executable, str(SAMPLE), "--grace", "0.8", "{workspace}", "{source}", "{runner}"]
    began = time.perf_counter()
    subprocess.run(
        [str(Path(sys.executable).with_name("cancelcontract")), "run", "--grace", "1", *at_once, *chosen, *where, *wrapper],
        check=True,
        capture_output=True,
    )
    took = time.perf_counter() - began
    drills = json.loads(report.read_text())["drills"]
    assert [drill["verdict"] for drill in drills] == ["kept"] * len(scenarios), drills
    return took


def main() -> None:
    """Print both sides: the whole core set, and its longest scenario alone."""
    with tempfile.TemporaryDirectory() as folder:
        core = [row.id for row in select("core")]
        whole = [run(core, Path(folder)) for _ in range(TIMES)]
        longest = [run(["second-run"], Path(folder)) for _ in range(TIMES)]
    show("the core set, default jobs", whole)
    show("its longest scenario alone", longest)
    ratio(whole, longest, "figure: the core set within 15 s")


if __name__ == "__main__":
    main()
