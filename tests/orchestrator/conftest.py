"""One orchestrator for the tests of a file, a desk for each test, and the options, drills and last lines of the walk (``walk.py``).

The options exist only where this folder is named on the command line (``python -m pytest tests/orchestrator/walk.py --orchestrator-load``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.local import Orchestrator
from tests.conftest import GONE_WITHIN_S, STAMP, stamped
from tests.orchestrator.cells import cells
from tests.orchestrator.desk import Desk
from tests.walk.walking import Cell, Tally, Walk, busy_machine

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
    option, stamp = request.config.getoption, f"orchestrator-walk-{os.getpid()}"
    specs = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    chosen: list[Cell] = [spec.params["cell"] for spec in specs if spec is not None]
    with busy_machine(int(option("--orchestrator-load", 0))), pytest.MonkeyPatch.context() as patch:
        patch.setenv(STAMP, stamp)
        walk = Walk(chosen, tmp_path_factory.mktemp("walk"), jobs=int(option("--orchestrator-jobs", JOBS)))
        yield walk
        walk.close()
    until = time.monotonic() + GONE_WITHIN_S
    while left := stamped(stamp):
        if time.monotonic() > until:
            pytest.fail("the walk left behind: " + "; ".join(f"{identity} {command}" for identity, command in left.items()))
        time.sleep(0.01)  # polls to a deadline: there is no event for "nobody carries the stamp"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """What the walk has seen so far."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line of totals, and what was wrong or left open."""
    tally = config.stash[TALLY]
    if not tally.drills:
        return
    load = f"{config.getoption('--orchestrator-load', 0)} busy processes on {os.cpu_count()} cores"
    terminalreporter.write_line(f"walk over the orchestrator: {tally.as_line()}; {load}")
    for line in (*tally.wrong, *tally.left_open):
        terminalreporter.write_line(f"  {line}")
