"""stall-detected: a run that makes no progress is ended, though it is alive and its wrapper heartbeats."""

from __future__ import annotations

from pytest_cancelcontract.clauses import no_survivors, words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.finding import Finding

ADVICE = "watch what the run gets done (output, files, requests), not that it is alive, and end it as a cancel would"


def check(facts: Facts) -> Finding:
    """Judge whether every process was dead by ``stall_after``, the grace and ``kill_within`` after the last progress.

    Returns:
        inconclusive where the runner did not say that its progress has ended.
    """
    if not any(one.kind == "wedged" for member in facts.pressed_members for one in member.said):
        return words.inconclusive("the runner never said that it makes no progress any more", "a run that makes none")
    return no_survivors.dead_by_deadline(facts, _why, ADVICE)


def _why(_facts: Facts, _survivor: Member) -> str:
    return "that it is alive was taken for progress"
