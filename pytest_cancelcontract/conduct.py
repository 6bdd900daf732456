"""A drill from beginning to verdict: run it, read its history, judge it, and run it once more where the machine spoilt it.

The only place where acting and judging meet; the history on disk is all that passes between them.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.contract import NOT_MEASURED, clauses_of, is_spoilt, judge, measure, not_covered, uncovered, verdict_of
from pytest_cancelcontract.drill import DrillNotCovered, run_drill
from pytest_cancelcontract.finding import Check, Finding, Level, Verdict, worst
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.report.text import RUNS_ONCE_MORE
from pytest_cancelcontract.scenarios import Moment, Scenario
from pytest_cancelcontract.terms import Terms
from pytest_cancelcontract.workspace_rules import WorkspaceRules

_NOT_JUDGED = (Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE)


class Lanes:
    """Who may run beside whom: any number of drills share the road, or ``at_most`` of them; one that asks for it has it alone.

    Whoever waits to be alone goes before those that come after, or a steady stream of drills would keep it waiting.
    """

    def __init__(self, at_most: int | None = None) -> None:
        if at_most is not None and at_most < 1:
            raise ValueError(f"at least one lane is needed, got {at_most}")
        self._at_most = at_most
        self._changed = threading.Condition()
        self._sharing = 0
        self._is_taken = False
        self._want_alone = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Wait for a lane, and hold it."""
        with self._changed:
            self._changed.wait_for(self._has_lane)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody else is on the road, and keep everybody else off it. Not to be asked for from a lane."""
        with self._changed:
            self._want_alone += 1
            try:
                self._changed.wait_for(lambda: not self._sharing and not self._is_taken)
                self._is_taken = True
            finally:
                self._want_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def _has_lane(self) -> bool:
        if self._is_taken or self._want_alone:
            return False
        return self._at_most is None or self._sharing < self._at_most


@dataclass(frozen=True, slots=True)
class DrillResult:
    """One drill and what the clauses say of it.

    ``history`` is the path of the attempt that was judged last; ``attempts`` is 2 where the first was spoilt by the machine.
    """

    scenario: str
    verdict: Verdict
    attempts: int
    measured: Mapping[str, Any]
    checks: tuple[Check, ...]
    history: str
    wrapper: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-shaped: the entry of the contract's report, with ``not_covered``, ``not_applicable`` and ``wrapper`` beside it."""
        return {
            "scenario": self.scenario,
            "verdict": str(self.verdict),
            "attempts": self.attempts,
            "measured": dict(self.measured),
            "checks": [_check_as_dict(check) for check in self.checks if check.verdict not in _NOT_JUDGED],
            "not_covered": [self._unjudged(check) for check in self.checks if check.verdict is Verdict.NOT_COVERED],
            "not_applicable": [self._unjudged(check) for check in self.checks if check.verdict is Verdict.NOT_APPLICABLE],
            "history": self.history,
            "wrapper": self.wrapper,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DrillResult:
        """Read what :meth:`as_dict` wrote; checks that were not judged come last."""
        rows = [*data["checks"], *data["not_covered"], *data["not_applicable"]]
        return cls(
            scenario=data["scenario"],
            verdict=Verdict(data["verdict"]),
            attempts=data["attempts"],
            measured=dict(data["measured"]),
            checks=tuple(_check_from_dict(data["scenario"], row) for row in rows),
            history=data["history"],
            wrapper=data["wrapper"],
        )

    def _unjudged(self, check: Check) -> dict[str, Any]:
        return {"scenario": self.scenario, **_check_as_dict(check)}


def conduct(
    recorder: Recorder,
    driver: Driver,
    scenario: Scenario,
    terms: Terms,
    *,
    history: Path,
    wrapper: str | None = None,
    clauses: Collection[str] | None = None,
    lanes: Lanes | None = None,
    rules: WorkspaceRules = WorkspaceRules(),  # noqa: B008 - frozen
    progress: Callable[[str, float], None] = lambda _stage, _at_most_s: None,
) -> DrillResult:
    """Run a drill and judge it.

    A drill that was spoilt by the machine (late, or a stray signal) is run once more, with no other drill of ``lanes`` beside
    it. What the first attempt proved broken stays broken: the machine did not do that.

    Args:
        history: the file that the history is written to; a second attempt writes beside it (``deaf.again.jsonl``).
        wrapper: what is under test, for the report; the driver's name where it is None.
        clauses: ids to judge, as far as the scenario can show them; None for all that it can.
    Raises:
        DrillError: the drill could not be run.
        RecorderFailed: the recorder is gone.
    """
    lanes = lanes or Lanes()
    wrapper = driver.name if wrapper is None else wrapper
    if lacks := uncovered(scenario, {*driver.capabilities(), *rules.opens}, terms):
        return _not_run(scenario, lacks, clauses, wrapper)
    judged = [clause for clause in scenario.clauses if clauses is None or clause in clauses]

    def attempt(moment: Moment | None, number: int, path: Path) -> History:
        run_drill(
            recorder,
            driver,
            scenario,
            terms,
            wrapper=wrapper,
            history=path,
            attempt=number,
            moment=moment,
            rules=rules,
            progress=progress,
        )
        return load(path)

    def at(moment: Moment | None) -> DrillResult:
        path = history if moment is None or moment is scenario.moments[0] else history.with_name(f"{history.stem}.{moment}{history.suffix}")
        seen, checks, attempts = once_more_if_spoilt(
            functools.partial(attempt, moment),
            lambda history: judge(history, clauses_of(history, judged, clauses)),
            history=path,
            lanes=lanes,
            progress=progress,
        )
        return DrillResult(scenario.id, verdict_of(checks), attempts, measure(seen), checks, str(seen.path), wrapper)

    try:
        return _worst_of([at(moment) for moment in scenario.moments], scenario)
    except DrillNotCovered as lacking:
        return _not_run(scenario, str(lacking), clauses, wrapper)


def once_more_if_spoilt(
    attempt: Callable[[int, Path], History],
    judged: Callable[[History], tuple[Check, ...]],
    *,
    history: Path,
    lanes: Lanes,
    progress: Callable[[str, float], None],
) -> tuple[History, tuple[Check, ...], int]:
    """Run and judge; once more, with nothing of ``lanes`` beside it, where the first attempt was too close to a limit to tell.

    Args:
        attempt: runs the attempt of that number, 1 or 2, and writes its history to the path.
    Returns:
        what the last attempt saw, its checks with what the first had proven broken, and the number of attempts.
    """
    with lanes.shared():
        seen = attempt(1, history)
    first = judged(seen)
    if not is_spoilt(first):
        return seen, first, 1
    progress(f"waits until it is alone, to run once more: {RUNS_ONCE_MORE}", 0.0)
    with lanes.alone():
        seen = attempt(2, history.with_name(f"{history.stem}.again{history.suffix}"))
    return seen, _keep_proven(judged(seen), first, history), 2


def _not_run(scenario: Scenario, lacks: str, clauses: Collection[str] | None, wrapper: str) -> DrillResult:
    """The result of a drill that the wrapper, as it is, cannot be put through."""
    checks = not_covered(scenario, lacks, clauses)
    return DrillResult(scenario.id, Verdict.NOT_COVERED, 0, dict(NOT_MEASURED), checks, "", wrapper)


def _worst_of(results: Sequence[DrillResult], scenario: Scenario) -> DrillResult:
    """The results of a scenario's moments as one: each clause with its worst verdict, and what was seen where it was the worst."""
    if len(results) == 1:
        return results[0]
    told: dict[str, list[Check]] = {}
    for moment, result in zip(scenario.moments, results, strict=True):
        for check in result.checks:
            told.setdefault(check.clause, []).append(_at_moment(check, moment, result.history))
    checks = tuple(_worst_check(found) for found in told.values())
    verdict = verdict_of(checks)
    shown = next((one for one in results if one.verdict is verdict), results[0])
    return replace(shown, verdict=verdict, attempts=max(one.attempts for one in results), checks=checks)


def _at_moment(check: Check, moment: Moment | None, path: str) -> Check:
    observed = f"pressed {moment}: {check.finding.observed} ({path})"
    return replace(check, finding=replace(check.finding, observed=observed))


def _worst_check(found: Sequence[Check]) -> Check:
    """Of one clause at several moments the check that is the worst; all that is kept is told."""
    verdict = worst(check.verdict for check in found)
    shown = next((check for check in found if check.verdict is verdict), found[0])
    if verdict is not Verdict.KEPT:
        return shown
    observed = "; ".join(check.finding.observed for check in found)
    return replace(shown, finding=replace(shown.finding, observed=observed))


def result_of(history: History, checks: Iterable[Check]) -> DrillResult:
    """The result of a drill that somebody else ran, and of which these checks were asked for."""
    found = tuple({check.clause: check for check in checks}.values())
    scenario, wrapper = str(history.header.get("scenario", "")), str(history.header.get("wrapper", ""))
    return DrillResult(scenario, verdict_of(found), 1, measure(history), found, history.path, wrapper)


def _keep_proven(checks: tuple[Check, ...], first: tuple[Check, ...], path: Path) -> tuple[Check, ...]:
    """The second attempt's checks, but what was proven broken in the first one stays so: running again must not turn it green."""
    proven = {check.clause: check for check in first if check.verdict is Verdict.BROKEN and not check.finding.spoilt}
    left = [check for check in checks if check.clause not in proven]
    kept = {check.clause: check for check in (*left, *(_from_first(check, path) for check in proven.values()))}
    # In the order of the second attempt; what only the first one was judged by (a host that was killed in it) comes last.
    return tuple(kept[clause] for clause in dict.fromkeys([*(check.clause for check in checks), *proven]))


def _from_first(check: Check, path: Path) -> Check:
    return replace(check, finding=replace(check.finding, observed=f"{check.finding.observed} (in the first of two attempts, {path})"))


def _check_as_dict(check: Check) -> dict[str, Any]:
    finding = check.finding
    return {
        "clause": check.clause,
        "level": str(check.level),
        "verdict": str(finding.verdict),
        "observed": finding.observed,
        "expected": finding.expected,
        "why": finding.likely,
        "try": finding.advice,
        "seen_by": finding.seen_by,
        "spoilt": finding.spoilt,
        "lacks": finding.lacks,
    }


def _check_from_dict(scenario: str, row: Mapping[str, Any]) -> Check:
    finding = Finding(
        Verdict(row["verdict"]),
        observed=row["observed"],
        expected=row["expected"],
        seen_by=row["seen_by"],
        likely=row["why"],
        advice=row["try"],
        spoilt=row["spoilt"],
        lacks=row["lacks"],
    )
    return Check(scenario, row["clause"], Level(row["level"]), finding)
