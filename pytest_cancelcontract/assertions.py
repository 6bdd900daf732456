"""One ``assert_*`` for each clause of the contract, for tests that run a drill step by step.

Each judges by the terms that the drill ran with, and fails on inconclusive, not covered and not applicable as well: silence is no proof.
They raise outright, since a bare ``assert`` in a helper passes under ``python -O``. Knows nothing of pytest.
"""

from __future__ import annotations

from typing import Protocol

from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Check, Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.report.text import failure_message

__all__ = [
    "ContractBroken",
    "ContractInconclusive",
    "assert_bystander_unharmed",
    "assert_cancel_any_time",
    "assert_cancel_delivered",
    "assert_cancel_idempotent",
    "assert_floor_holds",
    "assert_fresh_start",
    "assert_grace_bounded",
    "assert_grace_given",
    "assert_heartbeat_ends",
    "assert_heartbeat_steady",
    "assert_lease_fenced",
    "assert_no_late_writes",
    "assert_no_overlap",
    "assert_no_survivors",
    "assert_no_zombies",
    "assert_outcome_not_early",
    "assert_outcome_not_success",
    "assert_outcome_reported",
    "assert_requests_closed",
    "assert_slot_reusable",
    "assert_spend_stops",
    "assert_stall_detected",
    "assert_stays_ended",
]


class ContractBroken(AssertionError):
    """A clause of the contract is proven broken."""


class ContractInconclusive(AssertionError):
    """Nothing can be said of a clause: it could not be judged, or the drill does not cover it. That is no pass."""


class Drilled(Protocol):
    """What can be judged: a finished :class:`pytest_cancelcontract.drill.Drill`, or anything else with a history."""

    @property
    def history(self) -> History:
        """All that was seen."""

    @property
    def rerun(self) -> str:
        """The command line that runs the drill again, or ``""``."""

    @property
    def checks(self) -> list[Check]:
        """Takes what was asserted, for the summary and the report."""


def assert_cancel_delivered(drill: Drilled) -> None:
    """The runner had notice, or was being ended by force, within ``delivery`` of the press (``cancel-delivered``)."""
    __tracebackhide__ = True
    _require("cancel-delivered", drill)


def assert_grace_given(drill: Drilled) -> None:
    """A clean-up of ``cleanup`` seconds finished, in the leader and in a child whose leader has left (``grace-given``)."""
    __tracebackhide__ = True
    _require("grace-given", drill)


def assert_grace_bounded(drill: Drilled) -> None:
    """A runner that ignores every notice was gone within ``grace`` + ``kill_within`` of it (``grace-bounded``)."""
    __tracebackhide__ = True
    _require("grace-bounded", drill)


def assert_no_survivors(drill: Drilled) -> None:
    """No process of the run was alive after the deadline (``no-survivors``)."""
    __tracebackhide__ = True
    _require("no-survivors", drill)


def assert_no_zombies(drill: Drilled) -> None:
    """A wrapper that lives on has waited for what it started (``no-zombies``)."""
    __tracebackhide__ = True
    _require("no-zombies", drill)


def assert_outcome_reported(drill: Drilled) -> None:
    """The cancel call returned and the outcome was terminal within ``kill_within`` of gone (``outcome-reported``)."""
    __tracebackhide__ = True
    _require("outcome-reported", drill)


def assert_outcome_not_early(drill: Drilled) -> None:
    """The outcome was not reported more than ``early`` before gone (``outcome-not-early``)."""
    __tracebackhide__ = True
    _require("outcome-not-early", drill)


def assert_outcome_not_success(drill: Drilled) -> None:
    """The outcome was not ``succeeded``, at once or after ``settle`` (``outcome-not-success``)."""
    __tracebackhide__ = True
    _require("outcome-not-success", drill)


def assert_stays_ended(drill: Drilled) -> None:
    """Nothing of the cancelled task started again by itself within ``retry`` (``stays-ended``)."""
    __tracebackhide__ = True
    _require("stays-ended", drill)


def assert_no_late_writes(drill: Drilled) -> None:
    """From the handover until it was gone the run changed nothing in or beside the workspace (``no-late-writes``)."""
    __tracebackhide__ = True
    _require("no-late-writes", drill)


def assert_fresh_start(drill: Drilled) -> None:
    """The next start of the same task found nothing of the killed run (``fresh-start``)."""
    __tracebackhide__ = True
    _require("fresh-start", drill)


def assert_no_overlap(drill: Drilled) -> None:
    """The next start did not begin while a process of the last run was alive (``no-overlap``)."""
    __tracebackhide__ = True
    _require("no-overlap", drill)


def assert_spend_stops(drill: Drilled) -> None:
    """The meter stood still ``spend_within`` after the handover (``spend-stops``)."""
    __tracebackhide__ = True
    _require("spend-stops", drill)


def assert_requests_closed(drill: Drilled) -> None:
    """No request of the run was open at the provider after that (``requests-closed``)."""
    __tracebackhide__ = True
    _require("requests-closed", drill)


def assert_floor_holds(drill: Drilled) -> None:
    """With the wrapper killed or frozen, or with no one pressing cancel, the run was gone by its deadline (``floor-holds``)."""
    __tracebackhide__ = True
    _require("floor-holds", drill)


def assert_stall_detected(drill: Drilled) -> None:
    """A run without progress for ``stall_after`` was gone by its deadline (``stall-detected``)."""
    __tracebackhide__ = True
    _require("stall-detected", drill)


def assert_heartbeat_steady(drill: Drilled) -> None:
    """No two heartbeats were further apart than ``heartbeat_timeout``, the grace included (``heartbeat-steady``)."""
    __tracebackhide__ = True
    _require("heartbeat-steady", drill)


def assert_heartbeat_ends(drill: Drilled) -> None:
    """At most one interval after gone there was no heartbeat (``heartbeat-ends``)."""
    __tracebackhide__ = True
    _require("heartbeat-ends", drill)


def assert_lease_fenced(drill: Drilled) -> None:
    """A wrapper that could not reach its engine for ``lease`` had stopped its runner by the deadline (``lease-fenced``)."""
    __tracebackhide__ = True
    _require("lease-fenced", drill)


def assert_bystander_unharmed(drill: Drilled) -> None:
    """Cancelling one run left another run of the same wrapper working, and the test process alive (``bystander-unharmed``)."""
    __tracebackhide__ = True
    _require("bystander-unharmed", drill)


def assert_cancel_idempotent(drill: Drilled) -> None:
    """A second cancel harmed nothing, and its error, if any, was clean (``cancel-idempotent``)."""
    __tracebackhide__ = True
    _require("cancel-idempotent", drill)


def assert_cancel_any_time(drill: Drilled) -> None:
    """A cancel before the runner was up ended it too, and one after its end changed nothing (``cancel-any-time``)."""
    __tracebackhide__ = True
    _require("cancel-any-time", drill)


def assert_slot_reusable(drill: Drilled) -> None:
    """The next task ran normally on the same wrapper (``slot-reusable``)."""
    __tracebackhide__ = True
    _require("slot-reusable", drill)


def _require(clause: str, drill: Drilled) -> None:
    """Judge one clause.

    Raises:
        ContractBroken: it is broken.
        ContractInconclusive: anything else but kept.
    """
    __tracebackhide__ = True
    history = drill.history
    for check in judge(history, (clause,)):
        drill.checks.append(check)
        if check.verdict is not Verdict.KEPT:
            raise _error(check)(failure_message(check, history, rerun=drill.rerun))


def _error(check: Check) -> type[AssertionError]:
    return ContractBroken if check.verdict is Verdict.BROKEN else ContractInconclusive
