"""A drill's wall time, beside what its wrapper and its terms forced it to wait: from pressed until reported, and then ``settle``."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.sides import ratio, show
from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import conduct
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import settle_terms

TIMES = 10
GRACE_S = 2.0
SAMPLE = Path(__file__).parents[1] / "fixtures" / "wrappers" / "kept" / "subreaper.py"


def main() -> None:
    """Print both sides for one scenario that forces a wait, and for one that forces none."""
    terms = settle_terms({"grace": (GRACE_S, "benchmark")})
    command = f"python3 {SAMPLE} --grace {GRACE_S * 0.8:g} {{workspace}} {{source}} {{runner}}"
    recorder = Recorder.start()
    driver = Driver(CommandAdapter(command))
    try:
        for scenario in ("deaf", "slow-cleanup", "polite"):
            with tempfile.TemporaryDirectory() as folder:
                walls, forced = [], []
                for number in range(TIMES):
                    began = time.perf_counter()
                    result = conduct(recorder, driver, by_id(scenario), terms, history=Path(folder) / f"{number}.jsonl")
                    walls.append(time.perf_counter() - began)
                    assert result.verdict is Verdict.KEPT, result.verdict
                    forced.append(result.measured["cancel_to_reported_s"] + terms.settle_s)
            show(f"{scenario}: the whole drill", walls)
            show(f"{scenario}: forced by wrapper and terms", forced)
            ratio(walls, forced, "figure: at most 1.15 at grace 2 s" if scenario == "deaf" else "no figure: next to nothing is forced")
    finally:
        driver.close()
        recorder.close()


if __name__ == "__main__":
    main()
