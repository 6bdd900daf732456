"""floor-holds: the run ends by its time limit, whatever has become of the wrapper, and with nobody pressing cancel."""

from __future__ import annotations

from dataclasses import replace

from pytest_cancelcontract.clauses import no_survivors
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.scenarios import Act

ADVICE = "give the wall-clock limit to a process that outlives the wrapper (a platform, a guard, a cgroup), and let it end the whole run"


def check(facts: Facts) -> Finding:
    """Judge whether every process was dead by the time limit, its grace and ``kill_within``, from the leader's hello on.

    A wrapper that is alive and well may keep a limit of its own, so a drill that leaves it alone shows only half.
    """
    found = no_survivors.dead_by_deadline(facts, _why, ADVICE)
    if found.verdict is Verdict.KEPT and facts.act == Act.LEAVE_ALONE:
        half = "; the wrapper lived meanwhile, so whether the limit holds without it is for wrapper-killed and wrapper-frozen to show"
        return replace(found, observed=found.observed + half)
    return found


def _why(facts: Facts, _survivor: Member) -> str:
    return {
        Act.KILL_WRAPPER: "the limit lives in the wrapper, and died with it; or what stands above it ends the wrapper only",
        Act.FREEZE_WRAPPER: "the limit lives in the wrapper, which was stopped with it; or what stands above it waits for its answer",
    }.get(Act(facts.act), "there is no limit, or what reaches it ends the wrapper only")
