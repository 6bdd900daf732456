"""What the runner does in each drill, and what happens to it: a table of data.

A scenario is changed, or added, by one row here. The rows stand in the order in which they are run and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What is done to the run once it works."""

    CANCEL = "cancel"
    CANCEL_THEN_RESTART = "cancel, then start the same task again at the handover"


AFTER_PRESS: tuple[str, ...] = (
    "cancel-delivered",
    "no-survivors",
    "no-zombies",
    "outcome-reported",
    "outcome-not-early",
    "outcome-not-success",
    "no-late-writes",
    "spend-stops",
    "requests-closed",
)
"""The clauses judged after every single press, in report order."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row: the runner's habits (as ``uncooperative_runner --habit``), the act, the clauses that judge it.

    ``is_deaf`` says that a wrapper must use force, so that it is forced to wait for the grace; ``cleans_up`` that it must
    wait for the clean-up. They serve to foretell how long a drill takes.
    """

    id: str
    habits: tuple[str, ...]
    clauses: tuple[str, ...]
    what: str
    act: Act = Act.CANCEL
    is_core: bool = False
    is_deaf: bool = False
    cleans_up: bool = False


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("polite", ("polite",), AFTER_PRESS, "ends at the first notice", is_core=True),
    Scenario("slow-cleanup", ("slow-cleanup",), ("grace-given", *AFTER_PRESS), "cleans up, then ends", is_core=True, cleans_up=True),
    Scenario("endless-cleanup", ("endless-cleanup",), ("grace-bounded", *AFTER_PRESS), "starts to clean up and never ends", is_deaf=True),
    Scenario(
        "deaf", ("deaf",), ("grace-bounded", *AFTER_PRESS), "notices TERM, INT, HUP, QUIT and does nothing", is_core=True, is_deaf=True
    ),
    Scenario("exits-zero", ("exits-zero",), AFTER_PRESS, "ends with status 0 at notice"),
    Scenario("deaf-child", ("deaf-child",), AFTER_PRESS, "the leader obeys, a child of its group is deaf", is_core=True, is_deaf=True),
    Scenario("own-session-child", ("own-session-child",), AFTER_PRESS, "a deaf child in a session of its own", is_core=True, is_deaf=True),
    Scenario("daemon", ("daemon",), AFTER_PRESS, "a deaf, double-forked child in a session of its own", is_core=True, is_deaf=True),
    Scenario(
        "pipe-holder",
        ("pipe-holder",),
        AFTER_PRESS,
        "the leader ends at notice, its deaf child keeps stdout open",
        is_core=True,
        is_deaf=True,
    ),
    Scenario("silent", ("polite", "silent"), AFTER_PRESS, "prints nothing, ends at the first notice", is_core=True),
    Scenario(
        "second-run",
        ("deaf", "poison"),
        ("fresh-start", "no-overlap"),
        "deaf, leaves poison of every kind; the same task is started again",
        act=Act.CANCEL_THEN_RESTART,
        is_core=True,
        is_deaf=True,
    ),
)


class UnknownScenario(ValueError):
    """No scenario of that id; the message lists the ids that exist."""


def by_id(scenario_id: str) -> Scenario:
    """The scenario of that id.

    Raises:
        UnknownScenario: there is none.
    """
    for scenario in SCENARIOS:
        if scenario.id == scenario_id:
            return scenario
    raise UnknownScenario(f"unknown scenario {scenario_id!r}; the scenarios are {', '.join(row.id for row in SCENARIOS)}")


def select(wanted: str | tuple[str, ...] | list[str]) -> tuple[Scenario, ...]:
    """Turn ``"core"``, ``"all"``, ids and ``"!id"`` into rows, in the table's order.

    Only exclusions: they are taken from the core set.

    Raises:
        UnknownScenario: an id that does not exist.
    """
    words = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    chosen: set[str] = set()
    left_out: set[str] = set()
    for word in words:
        if word == "core":
            chosen |= {row.id for row in SCENARIOS if row.is_core}
        elif word == "all":
            chosen |= {row.id for row in SCENARIOS}
        elif word.startswith("!"):
            left_out.add(by_id(word[1:]).id)
        else:
            chosen.add(by_id(word).id)
    if not chosen:
        chosen = {row.id for row in SCENARIOS if row.is_core}
    return tuple(row for row in SCENARIOS if row.id in chosen - left_out)
