"""Words for ``cancelcontract list``: the scenarios with their time, and the clauses with the scenarios that judge them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_cancelcontract.scenarios import AFTER_PRESS, Act, Scenario
from pytest_cancelcontract.terms import TERM_NAMES, Terms

_START_S = 0.5
"""What a start of the runner usually takes, the wrapper's own share left out."""


class _Row(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def promise(self) -> str: ...
    @property
    def check(self) -> object | None: ...


def expected_s(scenario: Scenario, terms: Terms) -> float:
    """About how long the drill of a wrapper that keeps the contract takes, in seconds."""
    waits_s = terms.grace_s if scenario.is_deaf else terms.cleanup_s if scenario.cleans_up else 0.0
    runs = 2 if scenario.act is Act.CANCEL_THEN_RESTART else 1
    return runs * _START_S + waits_s + terms.settle_s


def longest_s(scenario: Scenario, terms: Terms) -> float:
    """The most that the drill waits from cancel on, in seconds, whatever the wrapper does."""
    restart_s = terms.start_s if scenario.act is Act.CANCEL_THEN_RESTART else 0.0
    return terms.deadline_after_press_s + terms.kill_within_s + terms.settle_s + restart_s


def scenario_lines(scenarios: Sequence[Scenario], terms: Terms) -> list[str]:
    """The scenarios, with what the runner does, what is judged, and the time by these terms."""
    given = ", ".join(f"{name} {terms.value(name):g} ({terms.origin(name)})" for name in TERM_NAMES if terms.origin(name) != "default")
    lines = [f"scenarios (* is the core set, the default); terms: {given or 'the defaults'}", ""]
    width = max(len(row.id) for row in scenarios)
    for row in scenarios:
        time = f"about {expected_s(row, terms):.1f} s, at most {longest_s(row, terms):.1f} s from cancel"
        lines.append(f"{'*' if row.is_core else ' '} {row.id:<{width}}  {row.what}")
        lines.append(f"  {'':<{width}}  judges {_judges(row)}")
        lines.append(f"  {'':<{width}}  {time}")
    return [*lines, "", f"after a press: {', '.join(AFTER_PRESS)}"]


def _judges(row: Scenario) -> str:
    own = [clause for clause in row.clauses if clause not in AFTER_PRESS]
    is_after_press = set(AFTER_PRESS) <= set(row.clauses)
    return ", ".join([*(["after a press"] if is_after_press else []), *own] if is_after_press else row.clauses)


def clause_lines(clauses: Sequence[_Row]) -> list[str]:
    """The clauses, with their level and their promise, and which are not judged in this release."""
    width = max((len(row.id) for row in clauses), default=0)
    return ["clauses", "", *(f"  {row.id:<{width}}  {str(row.level).upper():<6}  {row.promise}{_later(row)}" for row in clauses)]


def _later(row: _Row) -> str:
    return " (not judged in this release)" if row.check is None else ""
