"""What a subcommand prints of a judged history, and the exit status that says the worst of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cancelcontract.finding import Check, Finding
    from pytest_cancelcontract.history import History

BROKEN, INCONCLUSIVE = 1, 2


def _for_operator(finding: Finding) -> Finding:
    """The words of a live run's finding, for somebody who has a console and a command line, and no adapter."""
    told = {name: getattr(finding, name) for name in ("observed", "expected", "seen_by", "likely", "advice", "lacks")}
    for name, text in told.items():
        for said, here in IN_OTHER_WORDS:
            text = text.replace(said, here)
        told[name] = text
    return replace(finding, **told)


IN_OTHER_WORDS = (
    ("wait(handle) or outcome(handle) in the adapter", "the word of your console: --reported-with, or Enter as soon as it says the end"),
    ("adapter and outcome, each asked by the plugin", "the press, and the answers of --reported-with"),
    ("outcome, by outcome", "the answers of --reported-with"),
    ("outcome, by operator", "the operator's Enter"),
    ("outcome, by an unknown way", "the report"),
    ("let outcome answer faster, or give the adapter wait(handle); or", "let the command of --reported-with answer faster; or"),
    ("the question itself failed", "the command of --reported-with itself failed"),
    ("a question for the outcome was under way", "a question of --reported-with was under way"),
    ("the cancel call", "the press"),
    ("; lifeline, no later write told", ""),
)
"""What the clauses say of a drill, and what stands in its place where a live run was watched."""


def finding_lines(history: History, checks: Sequence[Check]) -> Iterator[str]:
    """The drill in one line, its checks a line each, and what is not kept in full."""
    from pytest_cancelcontract.contract import verdict_of
    from pytest_cancelcontract.finding import Verdict
    from pytest_cancelcontract.report.text import failure_message, plain

    if history.header.get("live"):
        checks = [replace(check, finding=_for_operator(check.finding)) for check in checks]
    yield plain(f"{history.header.get('scenario')}: {verdict_of(checks)}  ({history.path})")
    width = max((len(check.clause) for check in checks), default=0)
    for check in checks:
        told = check.finding.observed or (f"lacks {check.finding.lacks}" if check.finding.lacks else "")
        first = (plain(told).splitlines() or [""])[0]
        yield f"  {check.clause:<{width}}  {check.verdict:<14}  {first}".rstrip()
    told_in_full = [check for check in checks if check.verdict in {Verdict.BROKEN, Verdict.INCONCLUSIVE}]
    for check in told_in_full:
        yield ""
        # The timeline is the same for all of them, so that it is shown with the last.
        yield failure_message(check, history if check is told_in_full[-1] else None)


def exit_status(all_checks: Sequence[Sequence[Check]], level: str) -> int:
    """0 where all that counts at that level is kept, 1 where something is broken, 2 where it is inconclusive or nothing was judged."""
    from pytest_cancelcontract.finding import Level
    from pytest_cancelcontract.judging import Fault, failures, is_nothing_judged

    faults = {one.fault for checks in all_checks for one in failures(checks, level=Level(level), fails_not_covered=False, expected={})}
    if Fault.BROKEN in faults:
        return BROKEN
    return INCONCLUSIVE if faults or any(map(is_nothing_judged, all_checks)) else 0
