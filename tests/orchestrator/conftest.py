"""One orchestrator for the tests of a file, a desk for each test, and the options, drills and last lines of the walk (``walk.py``).

The options exist only where this folder is named on the command line (``python -m pytest tests/orchestrator/walk.py --orchestrator-load``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.local import Orchestrator
from tests.orchestrator.cells import cells
from tests.orchestrator.desk import Desk
from tests.walk.walking import Cell, Tally, Walk, last_lines, walking

JOBS = 6
OVERLOAD = 4
TALLY = pytest.StashKey[Tally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often the walk is made, and how busy the machine is meanwhile."""
    group = parser.getgroup("orchestrator", "the walk over the orchestrator")
    group.addoption("--orchestrator-times", type=int, default=1, metavar="N", help="each drill N times")
    group.addoption(
        "--orchestrator-load",
        type=int,
        nargs="?",
        default=0,
        const=OVERLOAD * (os.cpu_count() or 1),
        metavar="N",
        help=f"with N busy processes ({OVERLOAD} a core) meanwhile; what the machine spoilt twice is then counted and not wrong",
    )
    group.addoption("--orchestrator-jobs", type=int, default=JOBS, metavar="N", help="drills in flight at once")


def pytest_configure(config: pytest.Config) -> None:
    """One tally a test run."""
    config.stash[TALLY] = Tally()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each drill of the walk."""
    if "cell" in metafunc.fixturenames:
        times = int(metafunc.config.getoption("--orchestrator-times", 1))
        all_cells = [cell for turn in range(times) for cell in cells(turn)]
        metafunc.parametrize("cell", all_cells, ids=[cell.name if times == 1 else f"{cell.name}-{cell.turn + 1}" for cell in all_cells])


@pytest.fixture(scope="module")
def orchestrator() -> Iterator[Orchestrator]:
    made = Orchestrator()
    yield made
    made.close()
    assert not made.folder.exists()


@pytest.fixture
def desk(orchestrator: Orchestrator, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(orchestrator, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def walk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """All drills that were chosen, with a leak guard around them."""
    option = request.config.getoption
    specs = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    chosen: list[Cell] = [spec.params["cell"] for spec in specs if spec is not None]
    settings = {"jobs": int(option("--orchestrator-jobs", JOBS)), "load": int(option("--orchestrator-load", 0))}
    with walking(chosen, tmp_path_factory.mktemp("walk"), name="orchestrator-walk", **settings) as walk:
        yield walk


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """What the walk has seen so far."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line of totals, and what was wrong or left open."""
    for line in last_lines("walk over the orchestrator", config.stash[TALLY], int(config.getoption("--orchestrator-load", 0))):
        terminalreporter.write_line(line)
