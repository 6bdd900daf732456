"""The contract's tables as a page, from the same rows that drills are run and judged by. Pure.

``python -m pytest_cancelcontract.report.contract_page > docs/contract.md`` writes the page; a test holds it up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_cancelcontract.contract import CLAUSES, ClauseRow
from pytest_cancelcontract.scenarios import AFTER_PRESS, SCENARIOS, Act, Scenario
from pytest_cancelcontract.terms import TERMS, TermRow

_HEAD = """\
# The contract

Made by `python -m pytest_cancelcontract.report.contract_page` from the tables that drills are run and judged by; change it there.

A *drill* starts an uncooperative runner under a wrapper, waits until it works, does the scenario's *act*, and watches. Each *clause* is one
promise, judged from the drill's [history](history.md). `scenario:clause` names one check, as in `deaf-child:no-survivors`."""
_AFTER_TERMS = """\
The deadline is pressed + `delivery` + `grace` + `kill_within`. The handover is reported + `early`, or the deadline if that comes first.
Terms are finite, not negative, and at most 1,000,000 s; `cleanup` is at most 0.8 of `grace`."""


def page() -> str:
    """The whole page, with a newline at its end."""
    parts = [
        _HEAD,
        "## Clauses",
        _table(("clause", "level", "the promise"), (_clause(row) for row in CLAUSES)),
        "## Scenarios",
        f"*After a press* means {_names(AFTER_PRESS)}. **Bold** is the core set, the default.",
        _table(("scenario", "the runner", "the act", "judges"), (_scenario(row) for row in SCENARIOS)),
        "## Terms",
        _table(("term", "default", "meaning"), (_term(row) for row in TERMS)),
        _AFTER_TERMS,
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _names(ids: Iterable[str]) -> str:
    return ", ".join(f"`{id}`" for id in ids)


def _clause(row: ClauseRow) -> tuple[str, str, str]:
    return f"`{row.id}`", str(row.level).upper(), row.promise


def _scenario(row: Scenario) -> tuple[str, str, str, str]:
    is_after_press = set(AFTER_PRESS) <= set(row.clauses)
    own = [clause for clause in row.clauses if not (is_after_press and clause in AFTER_PRESS)]
    judged = ["after a press"] if is_after_press else []
    act = "cancel" if row.act is Act.CANCEL else row.act.words
    name = f"`{row.id}`"
    return f"**{name}**" if row.is_core else name, row.what, act, ", ".join([*judged, *(f"`{clause}`" for clause in own)])


def _term(row: TermRow) -> tuple[str, str, str]:
    return f"`{row.name}`", "none" if row.default_s is None else f"{row.default_s:g} s", row.meaning


if __name__ == "__main__":
    print(page(), end="")
