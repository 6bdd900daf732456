"""Very many drills at once, and very many in one go on a machine that is overloaded four times over: the verdicts are the same."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from tests.walk.conftest import OVERLOAD
from tests.walk.samples import samples
from tests.walk.verdicts import compare
from tests.walk.walking import Cell, Tally, Walk, busy_machine

AT_MOST_OPEN = 0.02
CORES = os.cpu_count() or 1


def _cells(count: int) -> list[Cell]:
    """So many of the whole matrix, in a mixture that is the same each time.

    Without the samples whose fault is a delay of a fixed length: so many at once stretch it, and what they break is then another thing.
    """
    chosen = [sample for sample in samples() if not sample.is_a_delay]
    every = [Cell(sample, row, 0) for sample in chosen for row in sample.scenarios(whole=True)]
    random.Random("a mixture").shuffle(every)
    return list(itertools.islice(itertools.cycle(every), count))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A few by themselves; hundreds where the whole matrix is walked."""
    if "count" in metafunc.fixturenames:
        sizes = [(100, 100, 0), (300, 16, OVERLOAD * CORES)] if metafunc.config.getoption("--walk-all", False) else [(16, 16, 0)]
        metafunc.parametrize(("count", "jobs", "load"), sizes, ids=[f"{count} drills, {jobs} at once" for count, jobs, _ in sizes])


@pytest.mark.timeout(1800)
def test_many_drills_have_the_verdicts_that_each_has_alone(count: int, jobs: int, load: int, tmp_path: Path) -> None:
    """No wrong verdict, and at most two in a hundred left open."""
    tally = Tally()
    cells = [Cell(cell.sample, cell.scenario, number) for number, cell in enumerate(_cells(count))]
    with busy_machine(load):
        walk = Walk(cells, tmp_path, jobs=jobs)
        try:
            for cell in cells:
                if not cell.sample.lacks:
                    result = walk.result(cell).result()
                    # So many at once are a load of their own.
                    tally.add(cell, result, compare(cell, result, is_loaded=True))
        finally:
            walk.close()
    print(f"{tally.as_line()}; {load} busy processes on {CORES} cores")
    assert not tally.wrong
    assert len(tally.left_open) <= AT_MOST_OPEN * count + 1, tally.left_open
