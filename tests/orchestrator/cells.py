"""The drills of the walk over the orchestrator: its bridge in every scenario, and each half measure where it shows. Nothing is run here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.orchestrator.adapter import OrchestratorAdapter
from pytest_cancelcontract.contract import HEARTBEATS
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.scenarios import SCENARIOS, Act, Scenario, Trigger, by_id
from pytest_cancelcontract.terms import Terms, settle_terms
from tests.orchestrator.half_measures import BREAKS
from tests.walk.walking import Cell

GIVEN = {
    "delivery": 1.0,
    "grace": 1.0,
    "kill_within": 1.5,
    "settle": 0.3,
    "retry": 1.0,
    "start": 15.0,
    "call": 10.0,
    "heartbeat_timeout": 0.6,
}
LIMITS = {"limit": ("time_limit", 4.0, 60.0), "stall": ("stall_after", 1.5, None), "engine": ("lease", 1.5, None)}
"""The term of what a scenario needs, with its value there and elsewhere: on a busy machine another drill may take longer than that."""
GRACE_S = 0.7
LONG_GRACE_S = 3.0
"""For what is shown while an old run is being ended: on a busy machine a new one takes its time to come up."""
WALKED_KILL_WITHIN_S = 2.5
"""From gone to reported a killed run's workspace is built anew and the report is sent, by processes of which the recorder does not know
how long a busy machine kept them waiting."""
SHOWN = {(bridge, scenario): tuple(clause for *where, clause in BREAKS if where == [bridge, scenario]) for bridge, scenario, _ in BREAKS}
"""What each half measure breaks, by bridge and scenario."""
NEEDS = frozenset({"disrupt", *LIMITS})
"""What the orchestrator's adapter brings of what scenarios may need; the rest is for the command line to give."""
DRILLED = tuple(row for row in SCENARIOS if NEEDS.issuperset(row.needs))


def terms_for(scenario: Scenario, **more: float) -> Terms:
    """The terms of a scenario: only the limit that it is about is short."""
    limits = {term: short if need in scenario.needs else other for need, (term, short, other) in LIMITS.items()}
    return settle_terms({name: (value, "the test") for name, value in {**GIVEN, **limits, **more}.items()})


@dataclass(frozen=True, slots=True)
class BridgeSample:
    """The orchestrator with one bridge. It stands in a cell where the walk over the sample wrappers has one of those."""

    terms: Terms
    bridge: str = "bridge"
    grace_s: float = GRACE_S
    breaks: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def name(self) -> str:
        """As it is called in the report."""
        return f"orchestrator/{self.bridge}"

    def expected(self, scenario: Scenario) -> dict[str, str]:
        """``{clause: verdict}`` of what is not as the scenario's row has it: heartbeats are judged besides, wherever cancel is pressed."""
        joining = HEARTBEATS if scenario.act.trigger is Trigger.PRESSED and scenario.act is not Act.CANCEL_AT_START else ()
        return {**dict.fromkeys(joining, str(Verdict.KEPT)), **dict.fromkeys(self.breaks, str(Verdict.BROKEN))}

    def adapter(self, _records: Path | None = None) -> OrchestratorAdapter:
        """An orchestrator of its own, which keeps its records to itself."""
        return OrchestratorAdapter(self.bridge, grace_s=self.grace_s)


def cells(turn: int) -> list[Cell]:
    """All of them, once."""
    kept = [_cell(BridgeSample(terms_for(row, kill_within=WALKED_KILL_WITHIN_S)), row, turn) for row in DRILLED]
    halves = [(by_id(scenario), half_measure(bridge, scenario, clauses)) for (bridge, scenario), clauses in SHOWN.items()]
    return kept + [_cell(sample, scenario, turn) for scenario, sample in halves]


def half_measure(bridge: str, scenario: str, breaks: tuple[str, ...]) -> BridgeSample:
    """The orchestrator with a half measure, for the scenario that shows what it breaks."""
    grace_s = LONG_GRACE_S if "no-overlap" in breaks else GRACE_S
    return BridgeSample(terms_for(by_id(scenario), grace=grace_s + 0.3), bridge, grace_s, breaks)


def _cell(sample: Any, scenario: Scenario, turn: int) -> Cell:
    """``sample`` is Any, since it only has of a sample what is walked."""
    return Cell(sample, scenario, turn)
