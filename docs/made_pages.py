"""The pages that say what the code's tables say: clauses, scenarios, options, ladders, the trials of agents.

``python docs/made_pages.py`` writes them beside this file; a test holds them up to date. The contract's own tables are a page of their
own, made by :mod:`pytest_cancelcontract.report.contract_page`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_cancelcontract.adapters.ladders import LADDERS
from pytest_cancelcontract.agents.profiles import PROFILES
from pytest_cancelcontract.agents.trials import CLAUSES as AGENT_CLAUSES
from pytest_cancelcontract.agents.trials import MOMENTS, TRIALS, WAYS
from pytest_cancelcontract.contract import CLAUSES, NEEDS, ClauseRow
from pytest_cancelcontract.explanations import CLAUSES as WORDS_FOR_CLAUSES
from pytest_cancelcontract.explanations import SCENARIOS as WORDS_FOR_SCENARIOS
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS, OptionRow
from pytest_cancelcontract.scenarios import SCENARIOS, Scenario

HERE = Path(__file__).resolve().parent
WRAPPERS = HERE.parent / "fixtures" / "wrappers"
_MADE = "Made by `python docs/made_pages.py` from the tables that the code itself uses; change it there."


# ---------------------------------------------------------------------- clauses and scenarios


def clauses_page() -> str:
    """What each clause promises, how it is judged, how it is usually broken, and how to keep it."""
    intro = (
        "What each clause of [the contract](contract.md) promises, how it is judged, how it is usually broken, and how to keep it."
        " `cancelcontract explain no-survivors` prints the same."
    )
    samples = _samples()
    return _page("The clauses, one by one", intro, *("\n\n".join(_clause(row, samples.get(row.id, ()))) for row in CLAUSES))


def _clause(row: ClauseRow, samples: Iterable[str]) -> Iterator[str]:
    words = WORDS_FOR_CLAUSES[row.id]
    yield f"## `{row.id}`"
    yield f"{str(row.level).upper()}: {row.promise}."
    yield f"**How it is judged.** {words.judged}"
    yield f"**How it is usually broken.** {words.broken_by}"
    yield f"**How to keep it.** {words.keep}"
    if takes := "; ".join(part for part in (row.lacks, f"a value of the term `{row.term}`" if row.term else "") if part):
        yield f"**What it takes.** {takes}."
    if shown_by := [f"[`{scenario.id}`](scenarios.md#{scenario.id})" for scenario in SCENARIOS if row.id in scenario.clauses]:
        yield f"**Shown by** {', '.join(shown_by)}."
    if links := ", ".join(samples):
        yield f"**Samples that break it, and what rests on it:** {links}."


def _samples() -> Mapping[str, tuple[str, ...]]:
    """Links to the sample wrappers by the clause that each is there to break, as ``fixtures/expected.toml`` says."""
    expected = tomllib.loads((WRAPPERS.parent / "expected.toml").read_text(encoding="utf-8"))
    links: dict[str, tuple[str, ...]] = {}
    for name, row in expected["wrappers"].items():
        if clause := row.get("example_of"):
            [path] = WRAPPERS.glob(f"{name}.*")
            links[clause] = (*links.get(clause, ()), f"[{path.name}](../fixtures/wrappers/{path.relative_to(WRAPPERS)})")
    return links


def scenarios_page() -> str:
    """What each scenario does, and what it stands for in the world."""
    intro = (
        "What each scenario stands for in the world. The same as a table, with what every one of them judges, is in"
        " [the contract](contract.md). `cancelcontract list` tells how long each takes with your terms, `cancelcontract explain deaf-child`"
        " prints what is here."
    )
    return _page("The scenarios, one by one", intro, *("\n\n".join(_scenario(row)) for row in SCENARIOS))


def _scenario(row: Scenario) -> Iterator[str]:
    yield f"## `{row.id}`"
    yield WORDS_FOR_SCENARIOS[row.id]
    core = " It is in the core set." if row.is_core else ""
    yield f"The runner: {row.what}. The act: {row.act.words}.{core}"
    if row.needs:
        yield f"It takes {'; '.join(NEEDS[need] for need in row.needs)}."
    yield f"Judged by {', '.join(f'[`{clause}`](clauses.md#{clause})' for clause in row.clauses)}."


# ---------------------------------------------------------------------- options


def options_page() -> str:
    """Every option, with its name in the three places where it can be given."""
    intro = (
        "Each option is `--cancel-…` for pytest, the same without `cancel-` for `cancelcontract run`, and a key of the ini file"
        " (`[tool.pytest.ini_options]` in `pyproject.toml`). The terms are arguments of the marker, too. Where a number is given in several"
        " places, the command line goes before the marker, the marker before the ini file, and that before the default; every message says"
        " where a number came from."
    )
    ladders = (
        "A platform that cancels a job sends one signal after another, with a pause between. `--cancel-with=@docker` presses like that."
        " The numbers are the seconds between the signals. The signals go to the wrapper's own process and stop when it ends; what a"
        " platform's last sweep through a process tree or a container would still find is left alone, and judged. A ladder's own pauses are"
        " part of the grace: with `@docker` promise `--cancel-grace 10`. One of your own is written `\"@'INT 2 TERM 1 KILL'\"`."
    )
    return _page(
        "Options and terms",
        intro,
        "## Options",
        _table(("option", "ini key", "what it says"), (_option(row) for row in OPTIONS)),
        "## Terms",
        "In seconds, finite and not negative. What they bound, and from when they count, is in [the contract](contract.md#terms).",
        _table(("option", "ini key", "what it bounds"), (_option(row) for row in TERM_ROWS.values())),
        "## Ladders",
        ladders,
        _table(
            ("name", "steps", "what it is", "source"),
            ((f"`@{row.name}`", f"`{row.steps}`", row.about, f"[its documentation]({row.source})") for row in LADDERS),
        ),
    )


def _option(row: OptionRow) -> tuple[str, str, str]:
    flag = f"{row.flag} {row.metavar}".rstrip()
    return f"`{flag}`", f"`{row.key}`" if row.is_setting else "none: it is done once", f"{row.help}"


# ---------------------------------------------------------------------- agents


def agent_trials_page() -> str:
    """When and how an agent's own command line is cancelled, what judges it, and which agents are known by name."""
    core = ", ".join(f"`{one.id}`" for one in TRIALS if one.is_core)
    return _page(
        "The trials of an agent",
        "[Testing an agent runner](agents.md) says what these are for. A trial is a moment and a signal, `agent-MOMENT-SIGNAL`.",
        "## Moments",
        _table(("moment", "when it is cancelled"), ((f"`{one.id}`", one.words) for one in MOMENTS)),
        "## Signals",
        _table(("signal", "what is sent"), ((f"`{one.id}`", one.words) for one in WAYS)),
        f"The core set, the default: {core}.",
        "## Clauses",
        f"A trial is judged by {', '.join(f'[`{id}`](clauses.md#{id})' for id in AGENT_CLAUSES)}.",
        "## Profiles",
        _table(
            ("profile", "npm package", "command"),
            ((f"`{one.id}`", f"`{one.package}`", f"`{' '.join(one.command.words)}`") for one in PROFILES),
        ),
    )


# ---------------------------------------------------------------------- Markdown


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", _MADE, *parts]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [tuple(head), ("---",) * len(head), *(tuple(cell.replace("|", "\\|").replace("*", "\\*") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


PAGES: Mapping[str, Callable[[], str]] = {
    "clauses.md": clauses_page,
    "scenarios.md": scenarios_page,
    "options.md": options_page,
    "agent_trials.md": agent_trials_page,
}
"""The pages by their files' names."""

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
