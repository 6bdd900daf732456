"""floor-holds: the run ends by its time limit, whatever has become of the wrapper, and with nobody pressing cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_cancelcontract.clauses import no_survivors, words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.scenarios import Act

ADVICE = "give the wall-clock limit to a process that outlives the wrapper (a platform, a guard, a cgroup), and let it end the whole run"
UNTOUCHED = "let disrupt(handle, how) signal the process that the run is under, and raise where it cannot"
WHICH = "start the platform itself as the command, with the wrapper right below it; or write an adapter whose disrupt(handle, how) knows it"


def check(facts: Facts) -> Finding:
    """Judge whether every process was dead by the time limit, its grace and ``kill_within``, from the leader's hello on.

    A wrapper that is alive and well may keep a limit of its own, so a drill that leaves it alone shows only half.
    Returns:
        inconclusive when the run was gone and nothing shows that the wrapper was disrupted, or when it was not and what was disrupted
        is several processes, of which one may have been the platform.
    """
    found = no_survivors.dead_by_deadline(facts, _why, ADVICE)
    if facts.act == Act.LEAVE_ALONE:
        half = "; the wrapper lived meanwhile, so whether the limit holds without it is for wrapper-killed and wrapper-frozen to show"
        return replace(found, observed=found.observed + half) if found.verdict is Verdict.KEPT else found
    if facts.act not in {Act.KILL_WRAPPER, Act.FREEZE_WRAPPER}:
        return found
    signalled = [one for one in facts.history.of("process-table", "disrupted") if one.data.get("how") in {"kill", "freeze"}]
    if signalled:
        return _of_signalled(found, signalled)
    return _of_line(found, [one.data.get("line") or [] for one in facts.history.of("process-table", "line")])


def _of_signalled(found: Finding, signalled: Sequence[Observation]) -> Finding:
    """Name whom the recorder signalled; of several one may have been what has the limit."""
    names = ", ".join(_name(one.subject, one.data) for one in signalled)
    done = "killed" if signalled[0].data.get("how") == "kill" else "stopped"
    observed = f"{found.observed}; {done} as the wrapper: {names}"
    if found.verdict is Verdict.BROKEN and len(signalled) > 1:
        observed += "; one of them may have been the platform"
        return words.inconclusive(observed, found.expected, seen_by=found.seen_by, likely=found.likely, advice=WHICH)
    return replace(found, observed=observed)


def _of_line(found: Finding, lines: Sequence[Sequence[Mapping[str, Any]]]) -> Finding:
    """Say where the leader's parent lived on; a run that was gone shows nothing where all above it did."""
    if found.verdict is not Verdict.KEPT or len(lines) != 2 or not lines[0]:
        return found
    before, after = lines[0], {str(one.get("subject")): one for one in lines[1]}
    touched = [one for one in before if _is_touched(one, after.get(str(one.get("subject"))))]
    if before[0] in touched:
        return found
    parent = f"the leader's parent, {_name(str(before[0].get('subject')), before[0])},"
    if touched:
        return replace(found, observed=f"{found.observed}; {parent} was seen alive after the wrapper was disrupted")
    observed = f"{parent} and all above it lived on, and were not stopped, after the wrapper was disrupted; {found.observed}"
    return words.inconclusive(observed, found.expected, seen_by=found.seen_by, advice=UNTOUCHED)


def _is_touched(before: Mapping[str, Any], after: Mapping[str, Any] | None) -> bool:
    """It is gone from above the runner, or it has been stopped."""
    return after is None or (str(after.get("state")) in _HALTED and str(before.get("state")) not in _HALTED)


_HALTED = frozenset("TtZXx")
"""Stopped or dead, proc(5)."""


def _name(subject: str, data: Mapping[str, Any]) -> str:
    pid = subject.partition(":")[0]
    return f"pid {pid} ({data['comm']})" if data.get("comm") else f"pid {pid}"


def _why(facts: Facts, _survivor: Member) -> str:
    return {
        Act.KILL_WRAPPER: "the limit lives in the wrapper, and died with it; or what stands above it ends the wrapper only",
        Act.FREEZE_WRAPPER: "the limit lives in the wrapper, which was stopped with it; or what stands above it waits for its answer",
    }.get(Act(facts.act), "there is no limit, or what reaches it ends the wrapper only")
