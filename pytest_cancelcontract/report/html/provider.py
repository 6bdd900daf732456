"""The lanes of what a provider saw: the requests, each as long as it was open, and the tokens that were produced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_cancelcontract.clauses import requests as meter
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import FIRST
from pytest_cancelcontract.clauses.requests import Request, Tokens
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Lane, LaneKind, Mark, MarkKind
from pytest_cancelcontract.report.html.spells import count_of, rows_of

MOST_ROWS = 6
"""Requests beside each other get a row each, up to this many; what is beyond shares the last one."""
MOST_NAMES = 6
"""More names than this would say nothing any more."""
_PAUSE_S = 0.25
"""Tokens that come no further apart than this are drawn as one spell."""
_ENDS = {
    "ended": (MarkKind.DONE, ""),
    "disconnected": (MarkKind.DISCONNECTED, "disconnected"),
    "cancelled": (MarkKind.CANCELLED, "cancelled"),
}


def provider_lanes(facts: Facts, end_s: float) -> Iterator[Lane]:
    """The requests and the tokens of the cancelled run, and the other requests of the drill, where a provider watched."""
    own, end_s = meter.requests_of(facts), min(end_s, facts.end_s)
    limit = meter.limit_s(facts) if facts.is_pressed else math.inf
    if own or facts.history.first("meter", "refused"):
        yield _request_lane(facts, own, limit, end_s)
    if any(one.tokens for one in own):
        yield _token_lane(own, limit)
    others = _others(facts, own)
    if others:
        yield _other_lane(facts, others, end_s)


def _request_lane(facts: Facts, requests: Sequence[Request], limit: float, end_s: float) -> Lane:
    handover = facts.handover_s if facts.is_pressed else math.inf
    spans = [(one.began_s, min(one.ended_s, end_s)) for one in requests]
    bars, marks = [], list(_refused(facts))
    late = 0
    for request, (since_s, until_s), row in zip(requests, spans, rows_of(spans), strict=True):
        row, words = min(row, MOST_ROWS - 1), _words(request.asked, sum(one.count for one in request.tokens))
        bars.append(Bar(since_s, until_s, BarKind.REQUEST, words, request.id if len(requests) <= MOST_NAMES else "", row))
        # Open too long, or begun when all was over: what begins between the handover and the limit is neither.
        if until_s > limit and (since_s <= handover or since_s > limit):
            late += 1
            bars.append(
                Bar(max(limit, since_s), until_s, BarKind.OVERDUE, f"{request.id} was open though the meter had to stand still", "", row)
            )
        kind, label = _ENDS.get(request.ending, (MarkKind.UNSEEN, "still open"))
        marks.append(Mark(until_s, kind, f"{words}: {request.ending or 'open to the last'}", label))
    note = f"{late} of {len(requests)} too late" if late else str(len(requests))
    over = limit if math.isfinite(limit) else None
    ordered = tuple(sorted(marks, key=lambda one: one.at_s))
    return Lane(LaneKind.REQUESTS, "requests", "", note, tuple(bars), ordered, is_grave=bool(late), over_s=over)


def _refused(facts: Facts) -> Iterator[Mark]:
    for one in facts.history.of("meter", "refused"):
        yield Mark(one.at_s, MarkKind.REFUSED, f"refused with status {one.data.get('status')}: {one.data.get('why')}", "refused")


def _words(asked: Observation, tokens: int) -> str:
    data = asked.data
    kinds = ", ".join(word for word in ("stream", "background", "side") if data.get(word))
    role = f" of the {data['role']}" if data.get("role") else ""
    model = f", {data['model']}" if data.get("model") else ""
    made = f", {count_of(tokens, 'token')}" if tokens else ""
    return f"{data.get('request')}{role}: {data.get('wire')} {data.get('path')}{model}{f' ({kinds})' if kinds else ''}{made}"


def _token_lane(requests: Sequence[Request], limit: float) -> Lane:
    tokens = sorted((one for request in requests for one in request.tokens), key=lambda one: one.since_s)
    late = [one for one in tokens if one.since_s > limit]
    bars = [_token_bar(spell, BarKind.TOKENS) for spell in _spells(one for one in tokens if one.since_s <= limit)]
    bars += [_token_bar(spell, BarKind.OVERDUE) for spell in _spells(late)]
    total, late_total = sum(one.count for one in tokens), sum(one.count for one in late)
    note = f"{late_total:,} of {total:,} too late" if late else f"{total:,}"
    over = limit if math.isfinite(limit) else None
    return Lane(LaneKind.TOKENS, "tokens", "", note, tuple(bars), is_grave=bool(late), over_s=over)


def _spells(tokens: Iterable[Tokens]) -> Iterator[Tokens]:
    current: Tokens | None = None
    for one in tokens:
        if current is not None and one.since_s <= current.until_s + _PAUSE_S:
            current = Tokens(current.count + one.count, current.since_s, max(current.until_s, one.until_s))
        else:
            if current is not None:
                yield current
            current = one
    if current is not None:
        yield current


def _token_bar(spell: Tokens, kind: BarKind) -> Bar:
    is_late = kind is BarKind.OVERDUE
    words = f"{count_of(spell.count, 'token')}{' though the meter had to stand still' if is_late else ''}"
    return Bar(spell.since_s, spell.until_s, kind, words, f"{spell.count:,}{' too late' if is_late else ''}")


def _others(facts: Facts, own: Sequence[Request]) -> list[Observation]:
    """Side requests, and those of a run beside or behind the cancelled one."""
    shown = {_name(one.asked) for one in own}
    return [one for one in facts.history.of("meter", "request") if _name(one) not in shown]


def _name(seen: Observation) -> tuple[str, str]:
    """The run and the request, which each run counts anew."""
    return str(seen.data.get("run") or FIRST), str(seen.data.get("request"))


def _other_lane(facts: Facts, asked: Sequence[Observation], end_s: float) -> Lane:
    ends = {_name(one): one for one in facts.history.of("meter", *meter.ENDINGS)}
    spans = [(one.at_s, ends[_name(one)].at_s if _name(one) in ends else end_s) for one in asked]
    bars = [
        Bar(since_s, until_s, BarKind.SIDE_REQUEST, _words(one, 0), "", min(row, 1))
        for one, (since_s, until_s), row in zip(asked, spans, rows_of(spans), strict=True)
    ]
    marks = [Mark(end.at_s, _ENDS[end.kind][0], f"{_words(one, 0)}: {end.kind}") for one in asked if (end := ends.get(_name(one)))]
    return Lane(LaneKind.REQUESTS, "other requests", "", f"{len(asked)}, not judged", tuple(bars), tuple(marks))
