"""From a history to the lanes of its picture. Pure: what is drawn is what the clauses read, by the same :class:`Facts`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.words import numbers
from pytest_cancelcontract.history import History
from pytest_cancelcontract.report.html.processes import process_lanes, wrapper_lanes
from pytest_cancelcontract.report.html.provider import provider_lanes
from pytest_cancelcontract.report.html.shapes import Course, Lane, Line, LineKind
from pytest_cancelcontract.report.html.witnesses import call_lane, heartbeat_lane, machine_lane, outcome_lanes, write_lanes
from pytest_cancelcontract.scenarios import Trigger
from pytest_cancelcontract.terms import BadTerm, Terms

_LEAD_SHARE = 0.3
"""What came before the press gets at most this share of what came after it: a slow start would push the rest together."""
_LEAD_LEAST_S = 0.5
_REACH = 1.35
"""A line that lies behind the drill's end is still drawn in its place up to this many times the time that the drill took."""


def course(history: History, terms: Terms) -> Course:
    """All that is drawn of one drill; whatever a witness did not tell has no lane.

    Args:
        history: ordered by ``at_s``.
        terms: those that the drill ran by.
    """
    facts = Facts(history, terms)
    origin_s, origin = _origin(facts)
    end_s = _end(facts)
    lines = tuple(sorted(_lines(facts), key=lambda one: one.at_s))
    until_s = max([end_s, *(one.at_s for one in lines if one.at_s - origin_s <= _REACH * (end_s - origin_s))])
    lanes = tuple(_lanes(facts, end_s))
    return Course(origin_s, origin, _since(lanes, origin_s, until_s), until_s, lanes, lines)


def _lanes(facts: Facts, end_s: float) -> Iterator[Lane]:
    origin_s, _ = _origin(facts)
    found = [
        call_lane(facts, origin_s, end_s),
        *wrapper_lanes(facts, origin_s, end_s),
        *process_lanes(facts, origin_s, end_s),
        *write_lanes(facts),
        *provider_lanes(facts, end_s),
        heartbeat_lane(facts),
        *outcome_lanes(facts, origin_s),
        machine_lane(facts),
    ]
    yield from (lane for lane in found if lane is not None)


def _origin(facts: Facts) -> tuple[float, str]:
    """What times are told from, and its name."""
    if not facts.is_pressed:
        first = facts.history.observations[0].at_s if facts.history.observations else 0.0
        return first, "the first observation (cancel was never pressed)"
    name, how = _act(facts)
    return facts.pressed_s, f"{name} ({how})" if how else name


def _act(facts: Facts) -> tuple[str, str]:
    """What was done to the run, and how."""
    done = facts.act_done
    how = str(done.data.get("how") or "") if done is not None else ""
    if done is None or done.kind == "pressed":
        return "pressed", how
    return (how, "") if done.kind == "disrupted" and how else (done.kind.replace("-", " "), how)


def _end(facts: Facts) -> float:
    """When the last of it was seen: what the recorder cleared up is in the picture, too."""
    times = [one.at_s for one in facts.history.observations]
    return max(times, default=0.0)


def _since(lanes: tuple[Lane, ...], origin_s: float, until_s: float) -> float:
    starts = [bar.since_s for lane in lanes for bar in lane.bars] + [mark.at_s for lane in lanes for mark in lane.marks]
    earliest = origin_s - max(_LEAD_LEAST_S, _LEAD_SHARE * (until_s - origin_s))
    return min(max(min(starts, default=origin_s), earliest), origin_s)


def _lines(facts: Facts) -> Iterator[Line]:
    if not facts.is_pressed:
        return
    name, how = _act(facts)
    yield Line(facts.pressed_s, LineKind.PRESSED, name, f"{name}: {how}" if how else name)
    for again in facts.history.of("adapter", "pressed-again"):
        yield Line(again.at_s, LineKind.PRESSED_AGAIN, "pressed again", f"pressed again: {again.data.get('how') or 'cancel'}")
    if math.isfinite(facts.restarting_s):
        yield Line(facts.restarting_s, LineKind.RESTART, "started again", "the same task is started again by the drill")
    try:
        yield from _limits(facts)
    except BadTerm:
        return  # a drill whose deadline has no value has none to draw


def _limits(facts: Facts) -> Iterator[Line]:
    terms, trigger = facts.terms, facts.trigger
    begins, *_ = terms.limit_after(trigger)
    notice = facts.notice
    deadline_s, handover_s = facts.deadline_s, facts.handover_s
    if notice is not None:
        grace_s, of = notice.at_s + terms.grace_s, f"first notice + {numbers(terms, 'grace')}"
    else:
        grace_s, of = facts.triggered_s + (terms.value(begins) or 0.0) + terms.grace_s, f"no notice; {numbers(terms, begins, 'grace')}"
    yield Line(grace_s, LineKind.GRACE, "grace over", f"the grace is over ({of})")
    words = f"the deadline ({numbers(terms, *terms.limit_after(trigger))}, {trigger.words})"
    yield Line(deadline_s, LineKind.DEADLINE, "deadline", words)
    if trigger is not Trigger.PRESSED and math.isinf(facts.restarting_s):
        return  # nobody asked anything to be over by then, and nothing follows
    why = "as reported" if handover_s < deadline_s else "which is the deadline"
    yield Line(
        handover_s,
        LineKind.HANDOVER,
        "handover",
        f"the handover, {why}: from here on nothing of the run may happen any more",
    )
