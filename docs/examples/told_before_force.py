"""told-before-force: nothing of the run is killed that had no notice before."""

from __future__ import annotations

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.contract import ClauseRow
from pytest_cancelcontract.finding import Finding, Level, Verdict

ADVICE = "tell every process that the run started, not only its leader, and wait for the grace before force is used"


def check(facts: Facts) -> Finding:
    """Judge whether each process of the run that died by force had noticed something by then.

    Returns:
        inconclusive where the end of a process is not known: it may have been killed, and nobody saw it.
    """
    expected = "every process that is ended by force has had notice before"
    seen_by = "lifeline, for what each process noticed; pidfd, for its death"
    killed = facts.killed_among(facts.pressed_members)
    untold = [one for one in killed if (notice := facts.notice_of(one)) is None or notice.at_s > one.death.latest_s]
    if untold:
        observed = f"killed without notice: {words.several([words.who(one) for one in untold])}"
        return Finding(Verdict.BROKEN, observed, expected, seen_by, "force came first, or only the leader was told", ADVICE)
    if not facts.gone.is_closed:
        return words.inconclusive("not every process of the run was seen to die", expected, seen_by=seen_by, advice=words.SEE_THE_TABLE)
    return Finding(Verdict.KEPT, f"{len(killed)} killed, all of them told before" if killed else "none was killed", expected, seen_by)


ROW = ClauseRow("told-before-force", Level.SHOULD, "nothing of the run is killed that had no notice before", check)
