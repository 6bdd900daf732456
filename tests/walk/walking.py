"""The drills of the walk: a few at once, each from beginning to verdict, ahead of the tests that wait for them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pytest_cancelcontract.adapters.hosting import driver_for
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import Scenario
from tests.walk.samples import Sample, terms


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
    inconclusive: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def as_table(self) -> list[str]:
        """The cells that were not kept, as lines for ``expected.toml``."""
        lines = []
        for name, cells in self.seen.items():
            lines.append(f'[wrappers."{name}".not_kept]')
            for scenario, clauses in cells.items():
                inside = ", ".join(f'{clause} = "{verdict}"' for clause, verdict in clauses.items())
                lines.append(f"{scenario} = {{ {inside} }}")
        return lines


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
            return conduct(self._recorder, driver, cell.scenario, terms(), history=history, wrapper=cell.sample.name, lanes=self._lanes)
        finally:
            driver.close()
