"""What a drill of the walk found, beside what the table says of it, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pytest_cancelcontract.clauses.words import LIST_AT_MOST
from pytest_cancelcontract.conduct import DrillResult
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.plan import FIRST
from tests.walk.walking import Cell, histories

NOT_JUDGED = (Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)


@dataclass(slots=True)
class Compared:
    """``wrong`` and ``left_open`` in words, a line a clause; ``not_kept`` as the table would have it."""

    wrong: list[str] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    not_kept: dict[str, str] = field(default_factory=dict)


def compare(cell: Cell, result: DrillResult, *, is_loaded: bool) -> Compared:
    """Compare; on a machine that is kept busy, what it spoilt twice is left open and not wrong."""
    seen = {check.clause: check.verdict for check in result.checks if check.verdict not in NOT_JUDGED}
    expected = dict.fromkeys(_judged(cell), Verdict.KEPT)
    expected |= {clause: Verdict(verdict) for clause, verdict in cell.sample.expected(cell.scenario).items()}
    found = Compared(not_kept={clause: str(verdict) for clause, verdict in seen.items() if verdict is not Verdict.KEPT})
    for clause in dict.fromkeys((*expected, *seen)):
        want, got = expected.get(clause), seen.get(clause)
        if want is got:
            continue
        line = f"{clause}: expected {want or 'not judged'}, got {got or 'not judged'}. {_evidence(result, clause)}"
        # The machine's doing, and said so; any other inconclusive is wrong on a busy machine too.
        is_spoilt_twice = got is Verdict.INCONCLUSIVE and is_loaded and result.attempts > 1
        (found.left_open if is_spoilt_twice else found.wrong).append(line)
    found.wrong += [line for path in histories(result) for line in _acquitted_for_want_of_a_witness(load(path))]
    found.wrong += _not_named(result)
    return found


def _not_named(result: DrillResult) -> list[str]:
    """Whom no-survivors does not name of those that were alive at the deadline, by the look that the recorder took then."""
    finding = next((check.finding for check in result.checks if check.clause == "no-survivors"), None)
    if finding is None or finding.verdict is not Verdict.BROKEN or len(histories(result)) > 1:
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
    """The scenario's clauses."""
    return list(cell.scenario.clauses)


def _evidence(result: DrillResult, clause: str) -> str:
    return next((f"observed: {check.finding.observed}" for check in result.checks if check.clause == clause), "")
