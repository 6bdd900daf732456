"""no-zombies: a wrapper that lives on has waited for what it started."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import Member, Sight
from pytest_cancelcontract.finding import Finding, Verdict

ADVICE = "whoever starts a child has to wait for it, also after it was killed: poll() or wait() in Python, waitpid(2) underneath"

INIT = "1:"
"""How the identity of the first process begins, which adopts everybody's orphans and is nobody's wrapper."""


def check(facts: Facts) -> Finding:
    """Judge whether what started the run left a zombie of it, at the drill's end.

    Zombies of another parent are another's to wait for, and none are left once the parent itself has ended.
    Returns:
        inconclusive without the last look, without knowing who started the leader, and for a child of it that is still alive.
    """
    expected = "no zombie of this run whose parent is what started it"
    look = facts.look("end")
    parents = {str(one.held["parent"]) for one in facts.first_run if one.is_leader and one.held.get("parent")}
    starters = {parent for parent in parents if not parent.startswith(INIT)}
    if look is None:
        return words.inconclusive("the process table was not read at the end", expected)
    seen_by = f"process table, {words.after_press(facts, look.at_s)}"
    if _leader_is_wrapper(facts):
        return Finding(Verdict.KEPT, "the wrapper became the runner itself (exec), so nobody else had to wait for it", expected, seen_by)
    if parents and not starters:
        return Finding(Verdict.KEPT, "what started the run had ended before it said hello: it belonged to init then", expected, seen_by)
    if not starters:
        return words.inconclusive("it is not known what started the leader", expected, advice=words.SEE_THE_TABLE)
    rows = {one: _sight_at_end(one) for one in facts.first_run}
    zombies = [one for one, sight in rows.items() if sight and sight.is_dead and sight.data.get("zombie") and _parent(sight) in starters]
    if zombies:
        parent = words.several([_starter(facts, one) for one in sorted(starters)], ", ")
        observed = f"zombies whose parent ({parent}) lives on: {words.several([words.who(one) for one in zombies])}"
        return Finding(Verdict.BROKEN, observed, expected, seen_by, "it started the run and never waited for it", ADVICE)
    if look.data.get("starter_alive") is False:
        return Finding(Verdict.KEPT, "what started the run has ended too, so nothing is left for it to wait for", expected, seen_by)
    unclear = [words.who(one) for one, sight in rows.items() if sight is None or not sight.is_readable]
    unclear += [f"nothing is known of {role}" for role in facts.missing_roles]
    if unclear:
        return words.inconclusive(f"could not be told: {words.several(unclear)}", expected, seen_by=seen_by, advice=words.SEE_THE_TABLE)
    alive = [words.who(one) for one, sight in rows.items() if sight and not sight.is_dead and _parent(sight) in starters]
    if alive:
        observed = f"still alive, so nothing could be waited for: {words.several(alive)}"
        return words.inconclusive(observed, expected, seen_by=seen_by, advice="see no-survivors")
    return Finding(Verdict.KEPT, "no zombie of what started the run", expected, seen_by)


def _starter(facts: Facts, subject: str) -> str:
    """What started the run, by its pid; by its role, too, where it was started for the adapter."""
    if subject == facts.history.header.get("test_process"):
        return f"pid {subject.partition(':')[0]}, the test process"
    role = next((str(one.data.get("role")) for one in facts.history.of("process-table", "spawned") if one.subject == subject), "")
    named = {"wrapper": ", the wrapper", "host": ", the process that hosts the adapter"}
    return f"pid {subject.partition(':')[0]}{named.get(role, '')}"


def _leader_is_wrapper(facts: Facts) -> bool:
    """The command that was started as the wrapper is the runner's leader: it called exec, as ``env`` and ``nice`` do."""
    return any(one.is_leader and one.held.get("is_command") for one in facts.first_run)


def _sight_at_end(member: Member) -> Sight | None:
    return next((sight for sight in member.sights if sight.moment == "end"), None)


def _parent(sight: Sight) -> str:
    return str(sight.data.get("parent") or "")
