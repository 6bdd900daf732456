"""The phrases that findings share: durations, moments, processes, and where the promised numbers came from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member, Sight, Span, said_at_s
from pytest_cancelcontract.escapes import escaped
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.terms import Terms

LIST_AT_MOST = 3
"""A message names this many things of a kind; the history has them all."""


def seconds(value_s: float) -> str:
    """``"14.2 s"``: short times to the millisecond, others to the hundredth."""
    if math.isinf(value_s):
        return "an unknown time"
    text = f"{value_s:.3f}" if abs(value_s) < 1 else f"{value_s:.2f}"
    whole, _, part = text.partition(".")
    return f"{whole}.{part.rstrip('0') or '0'} s"


def after_press(facts: Facts, at_s: float) -> str:
    """``"+14.2 s"``: a moment, told from the press."""
    return "never" if math.isinf(at_s) else f"{'+' if at_s >= facts.pressed_s else ''}{seconds(at_s - facts.pressed_s)}"


def between(span: Span, since_s: float) -> str:
    """``"1.2 s"``, or ``"between 1.0 s and 1.5 s"`` for an end that was seen by looks only."""
    if not span.is_closed:
        return f"more than {seconds(span.earliest_s - since_s)}" if math.isfinite(span.earliest_s) else "an unknown time"
    if span.earliest_s < since_s < span.latest_s:
        return f"at most {seconds(span.latest_s - since_s)}"
    if span.earliest_s == span.latest_s or math.isinf(span.earliest_s):
        return seconds(span.latest_s - since_s)
    return f"between {seconds(span.earliest_s - since_s)} and {seconds(span.latest_s - since_s)}"


def several(items: Sequence[str], separator: str = "; ") -> str:
    """The first few of them, each on one line, and how many more there are."""
    more = len(items) - LIST_AT_MOST
    return separator.join(escaped(item) for item in items[:LIST_AT_MOST]) + (f"{separator}and {more} more" if more > 0 else "")


def who(member: Member) -> str:
    """``"pid 4711 (start 8812734, deaf-child)"``."""
    pid, _, start = member.subject.partition(":")
    return f"pid {pid} (start {start}, {member.role or 'unknown role'})"


def by(notice: Observation) -> str:
    """``"SIGTERM"``, or how else a process was told to stop."""
    if notice.kind == "pending":
        return f"{' and '.join(str(one) for one in notice.data.get('signals') or ['a signal'])} (pending, as it is stopped)"
    if notice.kind == "input-ended":
        return "the end of its input (unread, as it is stopped)"
    return str(notice.data.get("by", "a notice"))


def ending(status: int) -> str:
    """``"was ended by SIGTERM"``, or ``"ended with status 3"``."""
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {_SIGNALS.get(-status, f'signal {-status}')}"


_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
"""By their numbers on Linux, where histories are made; the signal module would look at the machine that judges."""


def where_from(member: Member, sight: Sight | None) -> str:
    """A process's parent, group and session, as last seen."""
    data = {**member.hello, **member.held, **(sight.data if sight is not None and sight.is_readable and not sight.is_dead else {})}
    return f"parent {data.get('ppid', '?')}, group {data.get('pgid', '?')}, session {data.get('sid', '?')}"


def last_write(facts: Facts, member: Member) -> str:
    """What the process last said that it wrote."""
    wrote = member.last("wrote")
    return "no write told" if wrote is None else f"write {wrote.data.get('count', '?')}, {after_press(facts, said_at_s(wrote))}"


def numbers(terms: Terms, *names: str) -> str:
    """``"delivery 5 + grace 5; grace from pyproject.toml, the others default"``: the terms, and where each came from."""
    values = " + ".join(f"{name} {terms.value(name):g}" for name in names)
    origins: dict[str, list[str]] = {}
    for name in names:
        origins.setdefault(terms.origin(name), []).append(name)
    given = [f"{' and '.join(of)} from {origin}" for origin, of in origins.items() if origin != "default"]
    if "default" not in origins:
        return f"{values}; {', '.join(given)}"
    if not given:
        return f"{values}; {'the default' if len(names) == 1 else 'all default'}"
    return f"{values}; {', '.join(given)}, the others default"


def lateness(facts: Facts, since_s: float, until_s: float) -> str:
    """How late the machine was, as a witness."""
    worst_s = facts.lateness_s(min(since_s, until_s), max(since_s, until_s))
    return "clock, silent in that time" if math.isinf(worst_s) else f"clock, late by {seconds(worst_s)} at most"


def inconclusive(observed: str, expected: str, *, seen_by: str = "", likely: str = "", advice: str = "", spoilt: bool = False) -> Finding:
    """A finding that says why nothing can be said."""
    return Finding(Verdict.INCONCLUSIVE, observed, expected, seen_by, likely, advice, spoilt=spoilt)


SLOW_MACHINE = "the machine itself was too late to tell on which side of the limit this is"
QUIETER = "run it on a quieter machine, or give the terms more room"
SEE_THE_TABLE = "let the test's user read the process table (/proc without hidepid), on the machine that runs the wrapper"
