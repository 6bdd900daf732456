"""Prove by evidence whether a wrapper's cancel button ends what it started.

The public names; each is loaded when it is first used, so that pytest runs without a drill do not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.command import CommandAdapter
    from pytest_cancelcontract.adapters.coroutine import CoroutineAdapter
    from pytest_cancelcontract.adapters.function import CallableAdapter
    from pytest_cancelcontract.adapters.hosting import Hosted
    from pytest_cancelcontract.adapters.protocol import Adapter, Outcome
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter, TemporalServer
    from pytest_cancelcontract.assertions import (
        ContractBroken,
        ContractInconclusive,
        assert_bystander_unharmed,
        assert_cancel_any_time,
        assert_cancel_delivered,
        assert_cancel_idempotent,
        assert_floor_holds,
        assert_fresh_start,
        assert_grace_bounded,
        assert_grace_given,
        assert_heartbeat_ends,
        assert_heartbeat_steady,
        assert_lease_fenced,
        assert_no_late_writes,
        assert_no_overlap,
        assert_no_survivors,
        assert_no_zombies,
        assert_outcome_not_early,
        assert_outcome_not_success,
        assert_outcome_reported,
        assert_requests_closed,
        assert_slot_reusable,
        assert_spend_stops,
        assert_stall_detected,
        assert_stays_ended,
    )
    from pytest_cancelcontract.checking import CancelContract
    from pytest_cancelcontract.drill import Drill, DrillError
    from pytest_cancelcontract.run import Run
    from pytest_cancelcontract.terms import Terms

__all__ = [
    "Adapter",
    "CallableAdapter",
    "CancelContract",
    "CommandAdapter",
    "ContractBroken",
    "ContractInconclusive",
    "CoroutineAdapter",
    "Drill",
    "DrillError",
    "Hosted",
    "Outcome",
    "Run",
    "TemporalAdapter",
    "TemporalServer",
    "Terms",
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

_MODULES = {
    "Adapter": "adapters.protocol",
    "CallableAdapter": "adapters.function",
    "CancelContract": "checking",
    "CommandAdapter": "adapters.command",
    "CoroutineAdapter": "adapters.coroutine",
    "Drill": "drill",
    "DrillError": "drill",
    "Hosted": "adapters.hosting",
    "Outcome": "adapters.protocol",
    "Run": "run",
    "TemporalAdapter": "adapters.temporal",
    "TemporalServer": "adapters.temporal",
    "Terms": "terms",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = _MODULES.get(name, "assertions")
    value: object = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
