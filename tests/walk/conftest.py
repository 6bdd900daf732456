"""The options of the walk, its drills as a fixture, and its last lines.

The options exist only where this folder is named on the command line (``python -m pytest tests/walk --walk-all``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.walk.samples import samples
from tests.walk.walking import Cell, Tally, Walk, last_lines, walking

JOBS = 12
OVERLOAD = 4
TALLY = pytest.StashKey[Tally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Without these options each broken sample is walked only over ``polite`` and where its fault is shown."""
    group = parser.getgroup("walk", "the walk over the sample wrappers")
    group.addoption("--walk-all", action="store_true", help="every sample over every scenario")
    group.addoption("--walk-times", type=int, default=1, metavar="N", help="each drill N times")
    group.addoption(
        "--walk-load",
        type=int,
        nargs="?",
        default=0,
        const=OVERLOAD * (os.cpu_count() or 1),
        metavar="N",
        help=f"with N busy processes ({OVERLOAD} a core) meanwhile; what the machine spoilt twice is then counted and not wrong",
    )
    group.addoption("--walk-jobs", type=int, default=JOBS, metavar="N", help="drills in flight at once")
    group.addoption("--walk-print", action="store_true", help="print the cells that were not kept, as expected.toml wants them")


def pytest_configure(config: pytest.Config) -> None:
    """One tally a test run."""
    config.stash[TALLY] = Tally()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each drill."""
    if "cell" in metafunc.fixturenames:
        whole = bool(metafunc.config.getoption("--walk-all", False))
        times = int(metafunc.config.getoption("--walk-times", 1))
        cells = [Cell(sample, row, turn) for turn in range(times) for sample in samples() for row in sample.scenarios(whole=whole)]
        metafunc.parametrize("cell", cells, ids=[cell.name if times == 1 else f"{cell.name}-{cell.turn + 1}" for cell in cells])


@pytest.fixture(autouse=True)
def leak_guard() -> None:
    """Not after each test: the drills of the next ones are under way. ``walk`` looks when all are over."""


@pytest.fixture(scope="session")
def walk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """All drills of this test run, with a leak guard around them."""
    option = request.config.getoption
    cells = [cell for item in request.session.items if (cell := _cell_of(item))]
    settings = {"jobs": int(option("--walk-jobs", JOBS)), "load": int(option("--walk-load", 0))}
    with walking(cells, tmp_path_factory.mktemp("walk"), name="walk", **settings) as walk:
        yield walk


def _cell_of(item: pytest.Item) -> Cell | None:
    callspec = getattr(item, "callspec", None)
    cell = callspec.params.get("cell") if callspec is not None else None
    return cell if isinstance(cell, Cell) else None


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """What the walk has seen so far."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line of totals, what was wrong, and the cells where they were asked for."""
    tally = config.stash[TALLY]
    table = tally.as_table() if config.getoption("--walk-print", False) else []
    for line in (*last_lines("walk", tally, int(config.getoption("--walk-load", 0))), *table):
        terminalreporter.write_line(line)
