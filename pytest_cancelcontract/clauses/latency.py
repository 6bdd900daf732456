"""How long a cancel is on its way before the run hears of it: when the engine had taken it, and which heartbeat carried it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cancelcontract.clauses.cancel_delivered import delivered
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.heartbeats import beats

TAKEN = frozenset({"cancelling", "cancelled"})
"""The outcomes that say that a cancel was taken; a run that failed or succeeded may have done so by itself."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A heartbeat: when the engine had it, and how long after the one before it; None where there was none before."""

    at_s: float
    interval_s: float | None


def answered_s(facts: Facts) -> float | None:
    """When the engine is first known to have taken the cancel: the call came back without an error, or the record said so.

    None where neither was seen, or nobody pressed.
    """
    if facts.act_done is None or facts.act_done.kind != "pressed":
        return None
    returned = facts.history.first("adapter", "cancel-returned")
    moments = [returned.at_s] if returned is not None and not returned.data.get("error") else []
    moments += [one.at_s for one in facts.history.of("outcome", "answer") if one.data.get("outcome") in TAKEN]
    return min((one for one in moments if facts.pressed_s <= one <= facts.end_s), default=None)


def carrier(facts: Facts) -> Carrier | None:
    """The heartbeat on whose answer the run heard of the cancel: the only one between when the engine had taken it and the notice.

    None where there were several, so that an answer was lost, or slow, or did not have it yet; where there was none, so that the cancel
    came another way; and where the engine does not tell, or when the run heard of the cancel is not exactly known.
    """
    told, came, taken_s = beats(facts), delivered(facts), answered_s(facts)
    if told is None or taken_s is None or came.earliest_s != came.latest_s:
        return None
    since_press = [one for one in told.moments if facts.pressed_s <= one <= came.latest_s]
    # The call comes back a moment after the record took the cancel, and a heartbeat of that moment may have its answer already.
    between = [one for one in since_press if one >= taken_s] or since_press
    if len(between) != 1:
        return None
    before = [one for one in told.moments if one < between[0]]
    return Carrier(between[0], between[0] - before[-1] if before else None)
