"""All scenarios over a kept sample through ``cancelcontract run --jobs 8``, beside the longest single one of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.core_set import run
from benchmarks.sides import ratio, show
from pytest_cancelcontract.scenarios import select

TIMES = 3
JOBS = 8


def main() -> None:
    """Print both sides: the whole catalogue, and the scenario that takes longest by itself."""
    everything = [row.id for row in select("all") if not row.needs]
    with tempfile.TemporaryDirectory() as folder:
        alone = {scenario: run([scenario], Path(folder)) for scenario in everything}
        longest = max(alone, key=lambda scenario: alone[scenario])
        whole, single = [], []
        for _ in range(TIMES):
            whole.append(run(everything, Path(folder), jobs=JOBS))
            single.append(run([longest], Path(folder)))
    print(f"  each alone, seconds: {json.dumps({scenario: round(took, 2) for scenario, took in alone.items()})}")
    show(f"all {len(everything)} scenarios, {JOBS} jobs", whole)
    show(f"the longest of them alone, {longest}", single)
    ratio(whole, single, "figure: at most 2.5")


if __name__ == "__main__":
    main()
