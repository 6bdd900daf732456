"""Every clause by its table of rows, and what must hold of all tables."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.cli import findings
from pytest_cancelcontract.contract import CLAUSES, judge
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import History, Observation, header_line, load
from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, without
from tests.unit.rows import (
    bystander_unharmed,
    cancel_any_time,
    cancel_delivered,
    cancel_idempotent,
    floor_holds,
    fresh_start,
    grace_bounded,
    grace_given,
    heartbeat_ends,
    heartbeat_steady,
    lease_fenced,
    no_late_writes,
    no_overlap,
    no_survivors,
    no_zombies,
    outcome_not_early,
    outcome_not_success,
    outcome_reported,
    requests_closed,
    slot_reusable,
    spend_stops,
    stall_detected,
    stays_ended,
)

TABLES: dict[str, tuple[Row, ...]] = {
    "cancel-delivered": cancel_delivered.ROWS,
    "grace-given": grace_given.ROWS,
    "grace-bounded": grace_bounded.ROWS,
    "no-survivors": no_survivors.ROWS,
    "no-zombies": no_zombies.ROWS,
    "outcome-reported": outcome_reported.ROWS,
    "outcome-not-early": outcome_not_early.ROWS,
    "outcome-not-success": outcome_not_success.ROWS,
    "no-late-writes": no_late_writes.ROWS,
    "fresh-start": fresh_start.ROWS,
    "no-overlap": no_overlap.ROWS,
    "spend-stops": spend_stops.ROWS,
    "requests-closed": requests_closed.ROWS,
    "stays-ended": stays_ended.ROWS,
    "floor-holds": floor_holds.ROWS,
    "stall-detected": stall_detected.ROWS,
    "heartbeat-steady": heartbeat_steady.ROWS,
    "heartbeat-ends": heartbeat_ends.ROWS,
    "lease-fenced": lease_fenced.ROWS,
    "bystander-unharmed": bystander_unharmed.ROWS,
    "cancel-idempotent": cancel_idempotent.ROWS,
    "cancel-any-time": cancel_any_time.ROWS,
    "slot-reusable": slot_reusable.ROWS,
}
RESTS_ON = {
    "cancel-delivered": ("lifeline", "adapter", "clock"),
    "grace-given": ("lifeline", "adapter"),
    "grace-bounded": ("lifeline", "process-table", "adapter", "clock"),
    "no-survivors": ("lifeline", "process-table", "adapter"),
    "no-zombies": ("lifeline", "process-table", "adapter"),
    "outcome-reported": ("lifeline", "process-table", "outcome", "adapter", "clock"),
    "outcome-not-early": ("lifeline", "process-table", "outcome", "adapter"),
    "outcome-not-success": ("lifeline", "outcome", "adapter"),
    "no-late-writes": ("lifeline", "workspace", "adapter", "clock"),
    "fresh-start": ("lifeline", "adapter"),
    "no-overlap": ("lifeline", "process-table", "adapter"),
    "spend-stops": ("adapter", "meter"),
    "requests-closed": ("adapter", "meter"),
    "stays-ended": ("lifeline", "process-table", "adapter"),
    "floor-holds": ("lifeline", "process-table", "adapter"),
    "stall-detected": ("lifeline", "process-table", "adapter"),
    "heartbeat-steady": ("lifeline", "process-table", "adapter", "engine"),
    "heartbeat-ends": ("lifeline", "process-table", "adapter", "engine"),
    "lease-fenced": ("lifeline", "process-table", "adapter"),
    "bystander-unharmed": ("lifeline", "process-table", "outcome", "adapter"),
    "cancel-idempotent": ("lifeline", "process-table", "outcome", "adapter", "clock"),
    "cancel-any-time": ("process-table", "adapter"),
    "slot-reusable": ("lifeline", "process-table", "outcome", "adapter"),
}
"""Without any one of these witnesses a clause can never be kept."""
NOT_BY_LIFE_AND_DEATH = {"cancel-delivered", "no-zombies", "outcome-not-success", "fresh-start"}
"""Clauses that do not rest on who was alive when."""
WITNESSES = ("lifeline", "process-table", "workspace", "outcome", "adapter", "clock", "engine", "meter", "drill")


def _each() -> Iterator[tuple[str, Row]]:
    return ((clause, row) for clause, rows in TABLES.items() for row in rows)


def _found(clause: str, row: Row, seen: list[Observation] | None = None) -> Finding:
    (check,) = judge(row.history(seen), [clause])
    return check.finding


def _of_verdict(verdict: Verdict, clauses: Collection[str] = TABLES.keys()) -> list[object]:
    return [pytest.param(clause, row, id=f"{clause}: {row.id}") for clause, row in _each() if row.verdict is verdict and clause in clauses]


@pytest.mark.parametrize(("clause", "row"), [pytest.param(clause, row, id=f"{clause}: {row.id}") for clause, row in _each()])
def test_row(clause: str, row: Row) -> None:
    found = _found(clause, row)
    text = " | ".join([found.observed, found.expected, found.seen_by, found.likely, found.advice, found.lacks])
    assert (found.verdict, found.spoilt) == (row.verdict, row.spoilt), text
    for words in row.says:
        assert words in text
    assert "\n" not in text


@pytest.mark.parametrize("clause", [row.id for row in CLAUSES])
def test_every_clause_is_shown_kept_broken_and_inconclusive(clause: str) -> None:
    assert {row.verdict for row in TABLES[clause]} >= {KEPT, BROKEN, INCONCLUSIVE}


@pytest.mark.parametrize("clause", TABLES)
def test_ids_of_rows_are_not_used_twice(clause: str) -> None:
    ids = [row.id for row in TABLES[clause]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("clause", "row"), _of_verdict(BROKEN))
def test_a_broken_finding_says_everything_that_a_person_needs(clause: str, row: Row) -> None:
    found = _found(clause, row)
    assert all([found.observed, found.expected, found.seen_by, found.likely, found.advice])


@pytest.mark.parametrize(("clause", "row"), [*_of_verdict(BROKEN), *_of_verdict(INCONCLUSIVE), *_of_verdict(Verdict.NOT_APPLICABLE)])
def test_what_is_not_kept_is_never_kept_for_want_of_a_witness(clause: str, row: Row) -> None:
    for witness in WITNESSES:
        assert _found(clause, row, without(row.seen, witness)).verdict is not KEPT, witness


@pytest.mark.parametrize(("clause", "row"), _of_verdict(KEPT))
def test_a_kept_clause_is_not_kept_without_what_it_rests_on(clause: str, row: Row) -> None:
    for witness in RESTS_ON[clause]:
        if not any(one.witness == witness for one in row.seen):
            continue  # Of a run that never came up, or an outcome that nobody can tell, some witnesses have nothing to say.
        assert _found(clause, row, without(row.seen, witness)).verdict is not KEPT, witness


def _is_the_very_proof(clause: str, one: Observation) -> bool:
    """What alone carries an accusation: nothing else in a history could tell of it.

    A goodbye tells a process that left from one that was killed; that a clean-up began, a first notice, a list of poison and
    an outcome are each said once; a write is all that tells of a process that works on while it is being killed, and that one was
    stopped for a while is seen once.
    """
    proofs = {
        "grace-given": {"cleanup-started"},
        "grace-bounded": {"notice"},
        "no-survivors": {"wrote"},
        "cancel-delivered": {"goodbye"},
        "fresh-start": {"found"},
        "outcome-not-success": {"answer"},
        "bystander-unharmed": {"notice", "stopped"},
        "slot-reusable": {"notice"},
    }
    return one.kind in proofs.get(clause, set())


@pytest.mark.parametrize(("clause", "row"), _of_verdict(BROKEN))
def test_a_broken_clause_is_never_kept_for_want_of_one_observation(clause: str, row: Row) -> None:
    for one in row.seen:
        if not _is_the_very_proof(clause, one):
            left = [other for other in row.seen if other is not one]
            assert _found(clause, row, left).verdict is not KEPT, one


@pytest.mark.parametrize(("clause", "row"), [pytest.param(clause, row, id=f"{clause}: {row.id}") for clause, row in _each()])
def test_no_subset_of_a_history_makes_a_clause_raise(clause: str, row: Row) -> None:
    chance = random.Random(f"{clause}: {row.id}")
    for _ in range(40):
        share = chance.random()
        found = _found(clause, row, [one for one in row.seen if chance.random() < share])
        assert "raised" not in found.observed, found.seen_by
        assert "cannot be read:" not in found.observed, found.seen_by


@pytest.mark.parametrize(("clause", "row"), _of_verdict(BROKEN, TABLES.keys() - NOT_BY_LIFE_AND_DEATH))
def test_a_random_loss_of_death_and_life_acquits_nobody(clause: str, row: Row) -> None:
    """Whatever the process table lost, in any mixture: what is left never proves that all was well."""
    chance = random.Random(f"table {clause}: {row.id}")
    for _ in range(40):
        share = chance.random()
        may_be_lost = [one for one in row.seen if one.witness == "process-table" and one.kind != "stopped"]
        left = [one for one in row.seen if one not in may_be_lost or chance.random() < share]
        assert _found(clause, row, left).verdict is not KEPT


@pytest.mark.parametrize(("clause", "row"), [pytest.param(clause, row, id=f"{clause}: {row.id}") for clause, row in _each()])
def test_a_saved_history_is_judged_the_same(clause: str, row: Row, tmp_path: Path) -> None:
    fresh = row.history()
    again = load(_saved(fresh, tmp_path / "drill.jsonl"))
    assert judge(again, [clause]) == judge(fresh, [clause])


def _saved(fresh: History, path: Path) -> Path:
    path.write_text("\n".join([header_line(fresh.header), *(one.as_json() for one in fresh.observations)]) + "\n", encoding="utf-8")
    return path


def test_what_is_put_in_other_words_for_an_operator_is_what_the_clauses_say() -> None:
    """A phrase that no clause says any more would leave the words of a drill standing in what a live run is told by."""
    found = [_found(clause, row) for clause, row in _each()]
    said = " | ".join(text for one in found for text in (one.observed, one.expected, one.seen_by, one.likely, one.advice, one.lacks))
    assert [phrase for phrase, _ in findings.IN_OTHER_WORDS if phrase not in said] == []
