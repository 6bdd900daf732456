"""Words for ``cancelcontract list``: the scenarios with their time, the clauses, and the ladders by which platforms press. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_cancelcontract.scenarios import AFTER_PRESS, Act, Scenario, Trigger
from pytest_cancelcontract.terms import TERM_NAMES, Terms

_WATCHES_FOR_RETRY = frozenset({Act.CANCEL_THEN_WATCH, Act.CANCEL_AT_START})
_START_S = 0.5
"""What a start of the runner usually takes, the wrapper's own share left out."""


class _Row(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def promise(self) -> str: ...


class _Ladder(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def steps(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def about(self) -> str: ...


def expected_s(scenario: Scenario, terms: Terms) -> float:
    """About how long the drill of a wrapper that keeps the contract takes, in seconds."""
    waits_s = terms.grace_s if scenario.is_deaf else terms.cleanup_s if scenario.cleans_up else 0.0
    if scenario.act.trigger is not Trigger.PRESSED:
        waits_s += terms.value(terms.limit_after(scenario.act.trigger)[0]) or 0.0
    settles_s = terms.retry_s if scenario.act in _WATCHES_FOR_RETRY else 0.0
    return scenario.starts * _START_S + waits_s + len(scenario.moments) * terms.settle_s + settles_s


def longest_s(scenario: Scenario, terms: Terms) -> float:
    """The most that the drill waits from cancel on (or what stands in its place), in seconds, whatever the wrapper does."""
    begins, *_ = terms.limit_after(scenario.act.trigger)
    limit_s = terms.deadline_after_press_s if terms.value(begins) is None else terms.deadline_after_s(scenario.act.trigger)
    each_s = limit_s + terms.kill_within_s + terms.settle_s + terms.spend_within_s
    # A second start that does not come is followed by another task, as a control.
    later_s = 3 * terms.start_s if scenario.act.restarts else terms.start_s if scenario.act is Act.CANCEL_THEN_NEXT_TASK else 0.0
    watched_s = terms.retry_s if scenario.act in _WATCHES_FOR_RETRY else 0.0
    return len(scenario.moments) * (each_s + watched_s) + later_s


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
    """The clauses, with their level and their promise."""
    width = max((len(row.id) for row in clauses), default=0)
    return ["clauses", "", *(f"  {row.id:<{width}}  {str(row.level).upper():<6}  {row.promise}" for row in clauses)]


def ladder_lines(ladders: Sequence[_Ladder]) -> list[str]:
    """The platforms' ladders: the steps as one would spell them out, where they go there, and the page that says so."""
    width = max((len(row.name) for row in ladders), default=0) + 1
    lines = [
        "ladders for --with (signals to the wrapper's own process, and the seconds between them; @'INT 2 TERM 1 KILL' is one's own)",
        "",
    ]
    for row in ladders:
        lines += [f"  {'@' + row.name:<{width}}  {row.steps}", f"  {'':<{width}}  {row.about}", f"  {'':<{width}}  {row.source}"]
    return lines
