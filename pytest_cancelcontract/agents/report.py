"""What became of an agent in a trial, in a few lines for people: words from a history, nothing judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_cancelcontract.agents.verdict import AgentResult
from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.clauses.no_late_writes import late_writes
from pytest_cancelcontract.clauses.no_survivors import allowed
from pytest_cancelcontract.clauses.requests import requests_of
from pytest_cancelcontract.clauses.spend_stops import late_tokens
from pytest_cancelcontract.history import History
from pytest_cancelcontract.report.text import flat
from pytest_cancelcontract.terms import Terms


def facts_of(history: History) -> Facts:
    """The facts of a trial's history, by its own terms."""
    return Facts(history, Terms.from_dict(history.header["terms"]))


def left_over(facts: Facts) -> tuple[Member, ...]:
    """The agent's processes that were never seen to die by themselves."""
    return tuple(one for one in facts.first_run if not one.death.is_closed)


def lines(result: AgentResult) -> list[str]:
    """How the agent ended, what of it is left and how that was found, what it wrote and spent afterwards, and what lies around."""
    facts = facts_of(result.history)
    if not facts.is_pressed:
        return []
    trial = result.trial
    told = [("cancelled", f"{trial.moment.words}, by {trial.way.words}"), ("ended", _ended(facts))]
    told += [("left", _left(one)) for one in left_over(facts)]
    told += [("allowed", one) for one in allowed(facts)]
    if passed := result.history.header.get("passed"):
        told.append(("given", f"of your environment also {words.several(passed, ', ')}"))
    told += [("writes on", f"{one.path}, {one.lines} lines after the handover") for one in late_writes(facts)]
    told.append(("spent on", _spent(facts)))
    told += [("around", one) for one in _around(result.history)]
    return [f"  {label:<10}{flat(text)}" for label, text in told]


def _ended(facts: Facts) -> str:
    answer = next((one for one in facts.history.of("outcome", "answer") if one.data.get("by") == "exit"), None)
    if answer is None:
        return f"not at all, until {words.after_press(facts, facts.watched_until_s)}"
    return f"{words.after_press(facts, answer.at_s)}, {answer.data.get('detail')}"


def _left(member: Member) -> str:
    sight = next((one for one in reversed(member.sights) if not one.is_dead), None)
    return f"{words.who(member)}, {words.where_from(member, sight)}; found by {member.found_by}"


def _spent(facts: Facts) -> str:
    if not requests_of(facts):
        return "nothing: it never asked the provider"
    begun = sum(one.began_s > facts.handover_s for one in requests_of(facts))
    return f"{late_tokens(facts)} tokens and {begun} new requests after the handover"


def _around(history: History) -> Iterator[str]:
    """What lies in its home, its folder for temporary files, and its workspace."""
    seen = history.last("workspace", "lies-around")
    for place, found in (seen.data.get("places") or {} if seen is not None else {}).items():
        if any(found.get(label) for label in ("files", "sockets", "mounts", "link")):
            yield f"{place}: {_found(found)}"


def _found(found: Mapping[str, Any]) -> str:
    count = f"{'at least ' if found.get('more') else ''}{found['files']} files"
    parts = [f"{count}, in {', '.join(found['names'])}"] if found["files"] else []
    if link := found.get("link"):
        parts.append(f"it has become a link, which was not followed: {link}")
    parts += [f"{label}: {words.several(found[label], ', ')}" for label in ("sockets", "locks") if found[label]]
    if mounts := found.get("mounts"):
        parts.append(f"mounted, so that this folder cannot be removed: {words.several(mounts, ', ')}")
    return "; ".join(parts)
