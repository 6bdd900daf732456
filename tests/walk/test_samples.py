"""Every sample wrapper gets exactly the verdicts that ``fixtures/expected.toml`` gives it, in both directions."""

from __future__ import annotations

import pytest

from pytest_cancelcontract.contract import CLAUSES
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.scenarios import SCENARIOS
from tests.orchestrator.half_measures import BREAKS
from tests.walk.samples import files, samples
from tests.walk.verdicts import compare
from tests.walk.walking import Cell, Tally, Walk, keep_histories

MANY = 100


def test_sample_gets_exactly_the_expected_verdicts(cell: Cell, walk: Walk, tally: Tally, request: pytest.FixtureRequest) -> None:
    """A cell that is not in the table must be kept; one that is must have the verdict that stands there."""
    if cell.sample.lacks:
        pytest.skip(f"there is no {cell.sample.lacks} here")
    result = walk.result(cell).result()
    seen = compare(cell, result, is_loaded=bool(request.config.getoption("--walk-load", 0)))
    tally.add(cell, result, seen)
    wrong = seen.wrong
    if wrong:
        kept = keep_histories(result, request.node.name)
        pytest.fail("\n".join([f"{cell.sample.name} over {cell.scenario.id}:", *wrong, f"history  {kept}"]), pytrace=False)


def test_no_more_than_two_in_a_hundred_were_left_open(tally: Tally) -> None:
    """What a busy machine spoils twice is no wrong verdict, but there may not be much of it. Last of the walk's drills, so behind them."""
    allowed = 0.02 * tally.drills if tally.drills >= MANY else 1
    assert len(tally.left_open) <= allowed, tally.left_open


def test_each_built_clause_has_a_sample_that_breaks_it() -> None:
    """A clause that no sample breaks might as well never say no."""
    shown = {sample.example_of for sample in samples()} | {clause for _, _, clause in BREAKS}
    assert {row.id for row in CLAUSES} - shown == set()


def test_each_sample_breaks_what_it_is_the_example_of() -> None:
    """Where the walk shows it, its own clause is among the cells that are broken."""
    for sample in samples():
        if sample.is_kept:
            assert not sample.cells and not sample.in_every
        else:
            shown = [sample.expected(row) for row in sample.scenarios(whole=False)]
            assert any(cells.get(sample.example_of or "") == Verdict.BROKEN for cells in shown), sample.name


def test_each_scenario_has_a_sample_that_does_not_keep_it() -> None:
    """A scenario in which nothing is ever broken might as well not be run; and where the walk is not whole, it shows that too."""
    broken = {row.id for sample in samples() for row in sample.scenarios(whole=False) if Verdict.BROKEN in sample.expected(row).values()}
    elsewhere = {"second-run-after-end"}  # it takes a rule that no sample is walked with: tests/drills/test_second_run.py
    assert {row.id for row in SCENARIOS} - broken - elsewhere - {scenario for _, scenario, _ in BREAKS} == set()


def test_each_sample_file_is_in_the_table() -> None:
    """A sample that the walk does not know shows nothing."""
    assert set(files()) == {sample.name for sample in samples()}
