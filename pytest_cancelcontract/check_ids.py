"""Which checks there can be: the clauses by which a drill of a scenario may come to be judged."""

from __future__ import annotations

from pytest_cancelcontract.contract import HEARTBEATS
from pytest_cancelcontract.scenarios import Scenario, Trigger

JUDGED_WHEN_PROVEN = "bystander-unharmed"
"""The clause that any drill is judged by in which a cancel was seen to kill the adapter's host, whatever the scenario names."""


def may_be_judged(scenario: Scenario) -> tuple[str, ...]:
    """The scenario's own clauses, and those that join where a drill shows them; each once, the scenario's own first."""
    joining = HEARTBEATS if scenario.act.trigger is Trigger.PRESSED else ()
    return tuple(dict.fromkeys((*scenario.clauses, *joining, JUDGED_WHEN_PROVEN)))
