"""From a drill's checks to a test's result: which of them fail it, given the level, what is expected, and what is not covered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pytest_cancelcontract.finding import Check, Level, Verdict

if TYPE_CHECKING:
    from pytest_cancelcontract.report.baseline import Accepted


class Fault(StrEnum):
    """Why a check fails a test, the gravest first."""

    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    STALE = "expected to be broken, and kept"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Failure:
    """One check that fails the test."""

    check: Check
    fault: Fault


def failures(
    checks: Sequence[Check], *, level: Level, fails_not_covered: bool, expected: Mapping[str, str], accepted: Accepted | None = None
) -> list[Failure]:
    """The checks that fail a test, the gravest faults first, in report order within each.

    Args:
        level: with ``MUST`` a SHOULD fails nothing.
        expected: reasons by ``scenario:clause``; those checks fail when they are kept, and when nothing can be said.
        accepted: what the baseline accepts; whether it still has to is judged of the run as a whole.
    """
    found = [
        Failure(check, fault)
        for check in checks
        if (fault := _fault(check, level, fails_not_covered, check.id in expected)) is not None and not _is_accepted(check, fault, accepted)
    ]
    order = list(Fault)
    return sorted(found, key=lambda failure: order.index(failure.fault))


def _is_accepted(check: Check, fault: Fault, accepted: Accepted | None) -> bool:
    if accepted is None:
        return False
    return (fault is Fault.BROKEN and check.id in accepted.broken) or (fault is Fault.NOT_COVERED and check.id in accepted.not_covered)


def is_nothing_judged(checks: Sequence[Check]) -> bool:
    """Whether no clause was judged at all: that proves nothing, so it is no pass."""
    return not any(check.verdict in {Verdict.KEPT, Verdict.BROKEN, Verdict.INCONCLUSIVE} for check in checks)


def _fault(check: Check, level: Level, fails_not_covered: bool, is_expected: bool) -> Fault | None:
    counts = check.level is Level.MUST or level is Level.SHOULD
    if check.verdict is Verdict.KEPT:
        return Fault.STALE if is_expected else None
    if check.verdict is Verdict.BROKEN:
        return Fault.BROKEN if counts and not is_expected else None
    if check.verdict is Verdict.INCONCLUSIVE:
        return Fault.INCONCLUSIVE if counts or is_expected else None
    if check.verdict is Verdict.NOT_COVERED and fails_not_covered and counts:
        return Fault.NOT_COVERED
    return None
