"""Every sample wrapper gets exactly the verdicts that ``fixtures/expected.toml`` gives it, in both directions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.clauses.words import LIST_AT_MOST
from pytest_cancelcontract.conduct import DrillResult
from pytest_cancelcontract.contract import CLAUSES, judge
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.plan import FIRST
from pytest_cancelcontract.scenarios import SCENARIOS
from tests.walk.samples import FIXTURES, files, samples
from tests.walk.walking import Cell, Tally, Walk

NOT_JUDGED = (Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)
KEPT_HISTORIES = FIXTURES.parent / ".walk"


def test_sample_gets_exactly_the_expected_verdicts(cell: Cell, walk: Walk, tally: Tally, request: pytest.FixtureRequest) -> None:
    """A cell that is not in the table must be kept; one that is must have the verdict that stands there."""
    if cell.sample.lacks:
        pytest.skip(f"there is no {cell.sample.lacks} here")
    result = walk.result(cell).result()
    tally.drills += 1
    tally.rerun += result.attempts > 1
    seen = {check.clause: check.verdict for check in result.checks if check.verdict not in NOT_JUDGED}
    expected = dict.fromkeys(_judged(cell), Verdict.KEPT)
    expected |= {clause: Verdict(verdict) for clause, verdict in cell.sample.expected(cell.scenario).items()}
    not_kept = {clause: str(verdict) for clause, verdict in seen.items() if verdict is not Verdict.KEPT}
    if not_kept:
        tally.seen.setdefault(cell.sample.name, {})[cell.scenario.id] = not_kept
    is_loaded = bool(request.config.getoption("--walk-load", 0))
    wrong = []
    for clause in dict.fromkeys((*expected, *seen)):
        want, got = expected.get(clause), seen.get(clause)
        if got is Verdict.INCONCLUSIVE and want is not Verdict.INCONCLUSIVE:
            tally.inconclusive.append(f"{cell.name} {clause}: expected {want}. {_evidence(result, clause)}")
            if is_loaded and result.attempts > 1:  # the machine's doing, and said so; any other is wrong on a busy machine too
                continue
        if want is not got:
            wrong.append(f"{clause}: expected {want or 'not judged'}, got {got or 'not judged'}. {_evidence(result, clause)}")
    wrong += [line for path in _histories(result) for line in _acquitted_for_want_of_a_witness(load(path))]
    wrong += _not_named(result)
    if wrong:
        kept = _keep(result, request.node.name)
        tally.wrong += [f"{cell.sample.name} {cell.scenario.id} {line}" for line in wrong]
        pytest.fail("\n".join([f"{cell.sample.name} over {cell.scenario.id}:", *wrong, f"history  {kept}"]), pytrace=False)


def _histories(result: DrillResult) -> list[Path]:
    """All that the drill left: one for each moment at which it pressed, and for each that was run again."""
    return sorted(Path(result.history).parent.glob("*.jsonl"))


def _not_named(result: DrillResult) -> list[str]:
    """Whom no-survivors does not name of those that were alive at the deadline, by the look that the recorder took then."""
    finding = next((check.finding for check in result.checks if check.clause == "no-survivors"), None)
    if finding is None or finding.verdict is not Verdict.BROKEN or len(_histories(result)) > 1:
        return []
    history = load(result.history)
    first = {one.subject for one in history.of("process-table", "held") if one.data.get("run") == FIRST}
    look = next(one.data["processes"] for one in history.of("process-table", "look") if one.data["moment"] == "deadline")
    alive = [(row["subject"].replace(":", " (start "), row["role"]) for row in look if row["alive"] and row["subject"] in first]
    named = [who for who in alive if f"pid {who[0]}, {who[1]})" in finding.observed]
    return [] if len(named) == min(len(alive), LIST_AT_MOST) else [f"no-survivors names {named}; alive at the deadline were {alive}"]


def _acquitted_for_want_of_a_witness(whole: History) -> list[str]:
    """Take each witness in turn out of the recorded history: what was not kept with it must not be kept without it."""
    found = []
    before = {check.clause: check.verdict for check in judge(whole)}
    for witness in sorted({seen.witness for seen in whole.observations}):
        rest = replace(whole, observations=tuple(seen for seen in whole.observations if seen.witness != witness))
        for check in judge(rest):
            if check.verdict is Verdict.KEPT and before[check.clause] is not Verdict.KEPT:
                found.append(f"{check.clause}: {before[check.clause]}, but kept without the witness {witness} ({whole.path})")
    return found


def _judged(cell: Cell) -> list[str]:
    """The scenario's clauses that this release can judge."""
    built = {row.id for row in CLAUSES if row.check is not None}
    return [clause for clause in cell.scenario.clauses if clause in built]


def _evidence(result: DrillResult, clause: str) -> str:
    return next((f"observed: {check.finding.observed}" for check in result.checks if check.clause == clause), "")


def _keep(result: DrillResult, name: str) -> Path:
    kept = KEPT_HISTORIES / name.partition("[")[2].rstrip("]").replace("/", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in _histories(result):
        shutil.copy(path, kept)
    return kept


def test_each_built_clause_has_a_sample_that_breaks_it() -> None:
    """A clause that no sample breaks might as well never say no."""
    shown = {sample.example_of for sample in samples()}
    assert {row.id for row in CLAUSES if row.check is not None} - shown == set()


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
    assert {row.id for row in SCENARIOS} - broken == set()


def test_each_sample_file_is_in_the_table() -> None:
    """A sample that the walk does not know shows nothing."""
    assert set(files()) == {sample.name for sample in samples()}
