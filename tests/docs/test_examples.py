"""The examples that the documentation shows are run as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import shown_files
from tests.docs.conftest import DOCS
from tests.plugin.conftest import Run

pytestmark = pytest.mark.timeout(150)
PASSES = {
    "test_agent.py": 1,
    "test_buttons.py": 1,
    "test_callable.py": 2,
    "test_command.py": 3,
    "test_coroutine.py": 2,
    "test_fixed_program.py": 2,
    "test_meter.py": 1,
    "test_own_adapter.py": 3,
    "test_service.py": 2,
}
"""How many tests each example has, all of which pass."""
TOLD_ELSEWHERE = {"test_hosted.py", "test_temporal.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_the_example_passes(name: str, examples: Path, run: Run) -> None:
    run(str(examples / name), timeout=120).assert_outcomes(passed=PASSES[name])


def test_the_adapter_that_kills_its_own_group_is_told_of_and_pytest_lives_on(examples: Path, run: Run) -> None:
    result = run(str(examples / "test_hosted.py"), timeout=120)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *cancel contract broken: polite:bystander-unharmed", "polite *broken: *bystander-unharmed *"])


@pytest.mark.slow
@pytest.mark.xdist_group("temporal")
def test_the_temporal_example_passes(examples: Path, run: Run) -> None:
    pytest.importorskip("temporalio", reason="needs the extra [temporal]")
    result = run("-p", "no:warnings", str(examples / "test_temporal.py"), timeout=120)
    if "skipped" in result.parseoutcomes():
        pytest.skip("there is no Temporal server here")
    result.assert_outcomes(passed=2)


def test_every_example_is_run_and_every_example_is_shown() -> None:
    names = {path.name for path in DOCS.glob("examples/*.py")}
    assert {name for name in names if name.startswith("test_")} == {*PASSES, *TOLD_ELSEWHERE}
    shown = {path.name for page in shown_files.pages() for path in shown_files.shown_in(page)}
    assert names <= shown, "an example that no page shows"
