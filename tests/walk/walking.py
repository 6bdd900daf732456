"""The drills of the walk: a few at once, each from beginning to verdict, ahead of the tests that wait for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cancelcontract.adapters.hosting import driver_for
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import Scenario
from tests.conftest import STAMP, refuse_leftovers
from tests.walk.samples import FIXTURES, Sample

if TYPE_CHECKING:
    from tests.walk.verdicts import Compared

KEPT_HISTORIES = FIXTURES.parent / ".walk"
# Ends itself with the test run, however that ends: its input is a pipe that only the test run holds.
BUSY = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One drill of the walk."""

    sample: Sample
    scenario: Scenario
    turn: int

    @property
    def name(self) -> str:
        """``broken/kills_at_once-polite``."""
        return f"{self.sample.name}-{self.scenario.id}"


@dataclass(slots=True)
class Tally:
    """What the walk has seen as a whole, for its last lines."""

    drills: int = 0
    rerun: int = 0
    left_open: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def add(self, cell: Cell, result: DrillResult, seen: Compared) -> None:
        """Count one more drill."""
        self.drills += 1
        self.rerun += result.attempts > 1
        self.wrong += [f"{cell.sample.name} {cell.scenario.id} {line}" for line in seen.wrong]
        self.left_open += [f"{cell.name}: {'; '.join(seen.left_open)}"] if seen.left_open else []
        if seen.not_kept:
            self.seen.setdefault(cell.sample.name, {})[cell.scenario.id] = seen.not_kept

    def as_line(self) -> str:
        """The totals."""
        return f"{self.drills} drills, {self.rerun} run again, {len(self.left_open)} left open, {len(self.wrong)} wrong verdicts"

    def as_table(self) -> list[str]:
        """The cells that were not kept, as lines for ``expected.toml``."""
        lines = []
        for name, cells in self.seen.items():
            lines.append(f'[wrappers."{name}".not_kept]')
            for scenario, clauses in cells.items():
                inside = ", ".join(f'{clause} = "{verdict}"' for clause, verdict in clauses.items())
                lines.append(f"{scenario} = {{ {inside} }}")
        return lines


@contextlib.contextmanager
def busy_machine(number: int) -> Iterator[None]:
    """Keep the cores busy with so many processes."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def walking(cells: list[Cell], folder: Path, *, jobs: int, load: int, name: str) -> Iterator[Walk]:
    """A walk over these cells, with so many busy processes beside it, that leaves nothing behind."""
    stamp = f"{name}-{os.getpid()}"
    with busy_machine(load), pytest.MonkeyPatch.context() as patch:
        patch.setenv(STAMP, stamp)
        walk = Walk(cells, folder, jobs=jobs)
        yield walk
        walk.close()
    refuse_leftovers(stamp, "the walk")


def histories(result: DrillResult) -> list[Path]:
    """All that the drill left: one for each moment at which it pressed, and for each that was run again."""
    return sorted(Path(result.history).parent.glob("*.jsonl"))


def keep_histories(result: DrillResult, name: str) -> Path:
    """Copy the histories of a drill that disagrees to a folder named after its test, and return that."""
    kept = KEPT_HISTORIES / name.partition("[")[2].rstrip("]").replace("/", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in histories(result):
        shutil.copy(path, kept)
    return kept


def last_lines(name: str, tally: Tally, load: int) -> list[str]:
    """The totals of a walk, and what was wrong or left open; nothing where nothing was walked."""
    if not tally.drills:
        return []
    told = [f"  {line}" for line in (*tally.wrong, *tally.left_open)]
    return [f"{name}: {tally.as_line()}; {load} busy processes on {os.cpu_count()} cores", *told]


class Walk:
    """Runs the drills of the tests that were chosen, ahead of the tests that wait for them."""

    def __init__(self, cells: list[Cell], folder: Path, *, jobs: int) -> None:
        self._folder = folder
        self._recorder = Recorder.start()
        self._lanes = Lanes()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="walk")
        able = [(number, cell) for number, cell in enumerate(cells) if not cell.sample.lacks]
        self._results = {id(cell): self._pool.submit(self._drill, number, cell) for number, cell in able}

    def result(self, cell: Cell) -> Future[DrillResult]:
        """The drill's result, to be waited for."""
        return self._results[id(cell)]

    def close(self) -> None:
        """Give up what has not begun, wait for the rest, and end the recorder."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._recorder.close()

    def _drill(self, number: int, cell: Cell) -> DrillResult:
        folder = self._folder / f"{number:04}"
        records = folder / "records"
        records.mkdir(parents=True)
        driver = driver_for(cell.sample.adapter(records))
        try:
            history = folder / f"{cell.scenario.id}.jsonl"
            return conduct(
                self._recorder, driver, cell.scenario, cell.sample.terms, history=history, wrapper=cell.sample.name, lanes=self._lanes
            )
        finally:
            driver.close()
