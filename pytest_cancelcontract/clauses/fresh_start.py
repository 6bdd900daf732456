"""fresh-start: the next start of the task finds nothing of a run that was killed."""

from __future__ import annotations

from typing import Any

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = (
    "throw the workspace of a killed run away and build it anew from its source, and start a new session instead of resuming the old one"
)
EXPECTED = "the second run finds no file, lock or session of the first"


def check(facts: Facts) -> Finding:
    """Judge what the second run found of the first.

    Returns:
        inconclusive when the first run left no poison, or no second run came up and looked.
    """
    planted = next((one.last("planted") for one in facts.pressed_members if one.last("planted")), None)
    if planted is None or not planted.data.get("poison"):
        return words.inconclusive(f"the first run left nothing to find{_why_not_planted(facts)}", EXPECTED)
    if facts.first_run and not facts.missing_roles and all(one.died_alone and one.death.is_closed for one in facts.first_run):
        return Finding(Verdict.NOT_APPLICABLE, "the first run ended by itself, and what it left may be built on", EXPECTED)
    looks = [
        one for member in facts.second_run if member.is_leader for one in member.said if one.kind == "found" and one.data.get("looked")
    ]
    if not looks:
        return _not_looked(facts)
    kinds = words.several(sorted({str(item.get("kind")) for item in planted.data["poison"]}), ", ")
    seen_by = f"lifeline of the second run's leader, {words.after_press(facts, looks[0].at_s)}; planted by the first: {kinds}"
    found = [item for look in looks for item in _found(look)]
    if not found:
        return Finding(Verdict.KEPT, f"nothing of the first run, of {len(planted.data['poison'])} things planted", EXPECTED, seen_by)
    return Finding(Verdict.BROKEN, f"found of the first run: {'; '.join(found)}", EXPECTED, seen_by, _likely(looks), ADVICE)


def _found(look: Observation) -> list[str]:
    items = [f"{item.get('kind')} {item.get('path')}" for item in look.data.get("poison") or ()]
    session = look.data.get("session")
    return items + ([f"session in {_place(session)}"] if session else [])


def _place(session: Any) -> str:
    return "its command line" if session["where"] == "argv" else "its environment"


def _why_not_planted(facts: Facts) -> str:
    why = next((one.last("not-planted") for one in facts.pressed_members if one.last("not-planted")), None)
    return f": {why.data.get('why')}" if why else ""


def _not_looked(facts: Facts) -> Finding:
    restarted = facts.history.first("adapter", "restarted")
    if restarted is not None and restarted.data.get("error"):
        observed = f"the second start failed: {restarted.data['error']}"
    elif facts.second_leader is not None:
        observed = "the second run came up and did not look"
    elif facts.restarting_s < float("inf"):
        observed = f"the second run never came up{_why_not_up(facts)}"
    else:
        observed = "the task was not started again"
    return words.inconclusive(observed, EXPECTED)


def _why_not_up(facts: Facts) -> str:
    """What the plugin saw of a second start that came to nothing."""
    failed = facts.history.first("adapter", "not-restarted")
    return f": {failed.data.get('why')}" if failed else ""


def _likely(looks: list[Observation]) -> str:
    has_files = any(look.data.get("poison") for look in looks)
    if has_files and any(look.data.get("session") for look in looks):
        return "the second run continues the first: its workspace and its session"
    return "the workspace of the killed run was used again, or copied" if has_files else "the session of the killed run was resumed"
