"""What a history tells of the cancelled run's requests: when each was open at the provider, and what it cost and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate
from pytest_cancelcontract.clauses.members import FIRST, Member
from pytest_cancelcontract.finding import Finding
from pytest_cancelcontract.history import Observation

ENDINGS = ("ended", "disconnected", "cancelled")
NEVER_ASKED = "the provider was never asked anything"


@dataclass(frozen=True, slots=True)
class Tokens:
    """So many were produced between two moments."""

    count: int
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the provider saw it; ``ended_s`` is infinite where it was open to the last, ``ending`` empty then."""

    id: str
    began_s: float
    ended_s: float
    ending: str
    asked: Observation
    tokens: tuple[Tokens, ...]

    @property
    def is_background(self) -> bool:
        """It goes on without a connection."""
        return bool(self.asked.data.get("background"))

    def tokens_after(self, at_s: float) -> int:
        """How many were surely produced after this moment."""
        return sum(one.count for one in self.tokens if one.since_s > at_s)


def requests_of(facts: Facts) -> tuple[Request, ...]:
    """The requests of the run that was cancelled, in the order in which they began; none of a run beside it, or of its second start."""
    others = {one.attempt for one in facts.second_run}
    came: dict[str, Observation] = {}
    ended: dict[str, Observation] = {}
    tokens: dict[str, list[Tokens]] = {}
    for seen in facts.history.of("meter"):
        id = str(seen.data.get("request", ""))
        if str(seen.data.get("run", FIRST)) != FIRST or seen.at_s >= facts.end_s:
            continue
        if seen.kind == "request" and not seen.data.get("side") and seen.data.get("attempt") not in others:
            came.setdefault(id, seen)
        elif seen.kind in ENDINGS:
            ended.setdefault(id, seen)
        elif seen.kind == "tokens":
            count, since_s = int(seen.data.get("count", 0)), float(seen.data.get("since_s", seen.at_s))
            tokens.setdefault(id, []).append(Tokens(count, since_s, seen.at_s))
    return tuple(
        Request(
            id, began_s(asked), end.at_s if (end := ended.get(id)) else math.inf, end.kind if end else "", asked, tuple(tokens.get(id, ()))
        )
        for id, asked in came.items()
    )


def began_s(asked: Observation) -> float:
    """When its last bytes reached the machine, by the kernel; a recorder that is late reads them later. Half a request is none."""
    return float(asked.data.get("came_s", asked.at_s))


def tokens_after(requests: Sequence[Request], at_s: float) -> int:
    """How many tokens were surely produced for them after this moment."""
    return sum(one.tokens_after(at_s) for one in requests)


def limit_s(facts: Facts) -> float:
    """From when on nothing may be spent any more: ``spend_within`` after the handover."""
    return facts.handover_s + facts.terms.spend_within_s


def from_limit(facts: Facts) -> str:
    """``"from +1.5 s on (handover +0.5 s; spend_within 1; …)"``, as both promises end."""
    handover = f"handover {words.after_press(facts, facts.handover_s)}; {words.numbers(facts.terms, 'spend_within')}"
    return f"from {words.after_press(facts, limit_s(facts))} on ({handover})"


def margin_s(facts: Facts, until_s: float) -> float:
    """By how much a moment beyond the limit could be the machine's own lateness; infinite where the clock says nothing of it."""
    return facts.lateness_s(facts.handover_s, max(facts.handover_s, until_s))


def living_spenders(facts: Facts, at_s: float) -> list[Member]:
    """Processes that said that they spend, are not proven dead at this moment, and neither stopped, stuck nor cleaning up."""
    return [
        one
        for one in facts.first_run
        if any(said.kind == "spending" for said in one.said)
        and facts.fate_at(one, at_s) not in {Fate.DEAD, Fate.DYING}
        and not any(said.kind in {"cleanup-started", "wedged"} for said in one.said)
        and not any(sight.is_stopped for sight in one.sights)
    ]


def doubt(facts: Facts, requests: Sequence[Request], expected: str) -> Finding | None:
    """Why the meter cannot acquit the run, if so."""
    looks = _looks(facts)
    # An agent may be cancelled before it has asked anything; a runner spends before it says that it works.
    if not facts.is_agent and not any(one.began_s <= facts.pressed_s for one in requests):
        why = words.several([str(one.data.get("why")) for member in facts.first_run for one in member.said if one.kind == "not-spending"])
        return words.inconclusive(f"the run was never seen to spend before cancel was pressed{': ' if why else ''}{why}", expected)
    last = max((one.at_s for one in looks), default=-math.inf)
    limit = limit_s(facts)
    handed_over = next((one for one in looks if one.data.get("moment") == "handover"), None)
    if handed_over is not None and handed_over.at_s < facts.handover_s - ROUNDING_S:
        observed = f"the meter was read for a handover {words.after_press(facts, handed_over.at_s)}, of which no outcome tells"
        return words.inconclusive(observed, expected)
    if missing := missing_of(facts):
        return words.inconclusive(f"the meter's book and its entries disagree: {missing}", expected)
    if last >= limit:
        spenders = [one for one in living_spenders(facts, limit) if not _is_seen_after(one, requests, limit)]
        if spenders:
            names = words.several([words.who(one) for one in spenders], ", ")
            observed = f"{names} was alive and spending after the limit, as far as is known, and no request of it was seen"
            return words.inconclusive(observed, expected, spoilt=True, likely=words.SLOW_MACHINE)
        return None
    left = looks[-1].data.get("open") if looks else ["unknown"]
    if left or not facts.gone.is_closed or facts.gone.latest_s > last:
        return words.inconclusive("the meter was not watched until `spend_within` after the handover", expected)
    return None


def missing_of(facts: Facts) -> str:
    """What the book's own totals, and its list of open requests, say that no entry tells; empty where they agree."""
    looks = _looks(facts)
    if not looks:
        return "it was never read"
    book, before = looks[-1].data, [one for one in facts.history.of("meter") if one.at_s <= looks[-1].at_s and not one.data.get("run")]
    asked = {str(one.data.get("request")) for one in before if one.kind == "request" and not one.data.get("side")}
    if book.get("requests") != len(asked):
        return f"{book.get('requests')} requests, of which {len(asked)} are told of"
    produced = sum(int(one.data.get("count", 0)) for one in before if one.kind == "tokens")
    if book.get("tokens") != produced:
        return f"{book.get('tokens')} tokens, of which {produced} are told of"
    ended = {str(one.data.get("request")) for one in before if one.kind in ENDINGS}
    told = {str(one.data.get("request")) for one in before if one.kind == "request"} - ended
    return "" if told == set(book.get("open") or ()) else f"open are {words.several(sorted(told ^ set(book.get('open') or ())), ', ')}"


def _looks(facts: Facts) -> list[Observation]:
    return [one for one in facts.history.of("meter", "look") if one.at_s <= facts.end_s or one.data.get("moment") == "end"]


def _is_seen_after(member: Member, requests: Sequence[Request], at_s: float) -> bool:
    return any(one.ended_s > at_s and one.asked.data.get("attempt") in {member.attempt, ""} for one in requests)


def seen_by(facts: Facts, requests: Sequence[Request]) -> str:
    """Who saw it: the provider's own book."""
    produced = sum(one.count for request in requests for one in request.tokens)
    late = words.lateness(facts, facts.handover_s, limit_s(facts))
    return f"meter, at the provider's side: {len(requests)} requests, {produced} tokens in all; {late}"


def describe(request: Request, facts: Facts) -> str:
    """``"r7 of the leader (background work), from +0.2 s, open at the end"``."""
    role = str(request.asked.data.get("role") or "")
    of = f" of the {role}" if role else ""
    kind = " (work without a connection)" if request.is_background else " (streamed)" if request.asked.data.get("stream") else ""
    until = f"{request.ending} {words.after_press(facts, request.ended_s)}" if request.ending else "open to the last"
    return f"{request.id}{of}{kind}, begun {words.after_press(facts, request.began_s)}, {until}"


def likely_of(facts: Facts, requests: Sequence[Request], at_s: float) -> str:
    """What the late requests come of: living processes, work without a connection, or somebody who holds a connection in their stead."""
    if any(one.is_background for one in requests):
        return "work that the run had begun at the provider was never cancelled: it goes on without any process"
    living = [one for one in facts.first_run if facts.fate_at(one, at_s) is Fate.ALIVE]
    if living:
        return f"{words.several([words.who(one) for one in living], ', ')} was still alive"
    return "nothing of the run was alive: something else, a proxy say, keeps its connection to the provider open"


def is_after(at_s: float, limit: float, margin: float) -> bool:
    """Whether a moment is proven to lie beyond the limit."""
    return at_s > limit + margin + ROUNDING_S
