"""no-overlap: the task's next start waits until nothing of its last run is alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts, Fate
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "let a start wait until every process of the task's last run was seen dead, and end what is left of it first"
EXPECTED = "every process of the first run dead when the second begins"


SHOWN_AT_MOST = 8


def check(facts: Facts) -> Finding:
    """Judge whether a process of the first run was alive as the second run's leader said hello.

    Returns:
        inconclusive when no second run came up, or a process could not be told dead or alive at that moment.
    """
    second = facts.second_leader
    if second is None:
        failed = facts.history.first("adapter", "not-restarted")
        if failed is not None and failed.data.get("refused"):
            return Finding(Verdict.NOT_APPLICABLE, f"the second start was refused, so nothing began: {failed.data.get('why')}", EXPECTED)
        restarted = facts.history.first("adapter", "restarted")
        error = f": {restarted.data['error']}" if restarted and restarted.data.get("error") else ""
        return words.inconclusive(f"no second run came up{error}", EXPECTED)
    # By when it was heard, not by its own word: the look at the others is taken then.
    hello = next(one for one in facts.history.observations if one.subject == second.subject and one.kind in {"hello", "held"})
    when = words.after_press(facts, hello.at_s)
    look = facts.look("second-hello")
    looked = f"process table, {words.after_press(facts, look.at_s)}" if look else "process table, not read then"
    seen_by = f"lifeline of the second run's leader, {when}; {looked}; pidfd"
    fates = {one: facts.fate_at(one, hello.at_s) for one in facts.first_run}
    alive = [one for one, fate in fates.items() if fate is Fate.ALIVE]
    if alive:
        observed = f"the second run began {when}; alive then: {words.several([words.who(one) for one in alive])}{_together(facts)}"
        return Finding(Verdict.BROKEN, observed, EXPECTED, seen_by, "a start does not look for what is left of the last run", ADVICE)
    unclear = [words.who(one) for one, fate in fates.items() if fate is Fate.UNKNOWN] + list(facts.missing_roles)
    if unclear or not fates:
        return words.inconclusive(
            f"not known whether alive when the second run began: {words.several(unclear, ', ')}", EXPECTED, seen_by=seen_by
        )
    gone = words.after_press(facts, facts.gone.latest_s)
    return Finding(Verdict.KEPT, f"the second run began {when}, the first was gone {gone}", EXPECTED, seen_by)


def _together(facts: Facts) -> str:
    """What both runs wrote into one file of one workspace, as it stands there."""
    rows = {str(row.data.get("path")): row for row in facts.history.of("workspace", "changed")}
    mixed = [(path, row.data["order"]) for path, row in rows.items() if row.data.get("order")]
    if not mixed:
        return ""
    path, order = max(mixed, key=lambda one: len(one[1]))
    whose = {
        **{one.attempt: "the first run" for one in facts.first_run},
        **{one.attempt: "the second run" for one in facts.second_run},
    }
    turns = [_turn(one, whose.get(str(one.get("attempt")), "another")) for one in order[:SHOWN_AT_MOST]]
    more = f", and {len(order) - SHOWN_AT_MOST} more turns" if len(order) > SHOWN_AT_MOST else ""
    return f"; both write into {path}, in turn: {', '.join(turns)}{more}"


def _turn(one: Mapping[str, Any], whose: str) -> str:
    count = int(one.get("count") or 0)
    return f"{count} line{'' if count == 1 else 's'} of {whose} (pid {one.get('pid')})"
