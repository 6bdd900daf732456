"""The options of the contract, as a table: what they are called, what they take, what they mean.

Loaded in every pytest run, so it imports nothing of the package; :mod:`pytest_cancelcontract.options` reads the values.
"""

from __future__ import annotations

from typing import Any

import pytest


class OptionRow:
    """One option: ``--cancel-<name>`` on the command line, ``cancel_<name with _>`` in the ini file.

    ``kind`` is ``"text"``, ``"seconds"``, ``"count"``, ``"words"`` (may be given again and again), ``"path"`` or ``"flag"`` (takes no
    value, and stands on the command line only: what it asks for is done once).
    """

    # No dataclass: making one costs every pytest run of a project a millisecond.
    def __init__(self, name: str, kind: str, metavar: str, help: str, choices: tuple[str, ...] = ()) -> None:
        self.name = name
        self.kind = kind
        self.metavar = metavar
        self.help = help
        self.choices = choices

    @property
    def flag(self) -> str:
        """As it is written on pytest's command line."""
        return f"--cancel-{self.name}"

    @property
    def key(self) -> str:
        """As it is written in the ini file; pytest's name for the value too."""
        return f"cancel_{self.name.replace('-', '_')}"

    @property
    def is_setting(self) -> bool:
        """Whether it can stand in the ini file."""
        return self.kind != "flag"


TERM_HELP: dict[str, str] = {
    "delivery": "from pressed to noticed, or to the first use of force (default 5)",
    "grace": "the most that may pass from there until force is used (default 5)",
    "cleanup": "the clean-up that must be allowed to finish (default: the smaller of 1 and half of the grace)",
    "kill_within": "from the end of the grace until gone, and from gone until reported (default 2)",
    "early": "how long before gone the outcome may already be reported (default 0)",
    "settle": "how long the world is watched after everything is quiet (default 0.5)",
    "retry": "how long nothing new may start after a cancelled run (default 3)",
    "spend_within": "how long after the handover the meter may still run (default 1)",
    "time_limit": "the wall-clock limit given to the platform (default 10)",
    "stall_after": "a live run without progress for so long must be stopped (default: not covered)",
    "lease": "a live run without an answer of the engine for so long must be stopped (default: not covered)",
    "heartbeat_timeout": "the engine's heartbeat timeout (default: not covered)",
    "start": "until the runner works, in each run of a drill (default 30)",
    "call": "any one call into the adapter (default 30)",
}
"""The terms, in the order of :data:`pytest_cancelcontract.terms.TERMS` (a test holds the two together: that module is too dear here)."""

OPTIONS: tuple[OptionRow, ...] = (
    OptionRow(
        "wrapper",
        "text",
        "CMD",
        "the command that starts your wrapper and lives as long as it; words are split as in a shell, without a shell. {runner} as a word "
        "of its own becomes the runner's words, inside a word it is quoted; also {runner_exe}, {workspace}, {source}, {task_id}, {run_id}, "
        "{time_limit}, {stall_after}. Without {workspace} it is started in the workspace",
    ),
    OptionRow("start", "text", "CMD", "for services: a command that starts the run, ends, and prints its id, {id} in the next two"),
    OptionRow(
        "with",
        "text",
        "SIGNAL|CMD|@LADDER",
        "how cancel is pressed: a signal to the wrapper (default SIGTERM), a command, with {wrapper_pid} too, or a ladder of signals to "
        "the wrapper as a platform sends them: --cancel-with=@docker, @github-actions, @kubernetes, @systemd, @buildkite, @gitlab "
        "(cancelcontract list tells the steps), or your own: --cancel-with=\"@'INT 2 TERM 1 KILL'\"",
    ),
    OptionRow("outcome", "text", "CMD", "a command that prints the outcome; without it the outcome is the wrapper's exit status"),
    OptionRow(
        "outcome-map",
        "text",
        "A=cancelled,…",
        "what the words that --cancel-outcome prints mean: running, cancelling, cancelled, failed, succeeded",
    ),
    OptionRow("adapter", "text", "MODULE:NAME", "an adapter (an object, or a class or function that makes one) instead of a command"),
    OptionRow("scenario", "words", "ID", "which scenarios, repeatable: an id, core, all, or !ID to leave one out"),
    OptionRow("level", "text", "must|should", "what fails a test; a broken SHOULD is a line in the summary by default", ("must", "should")),
    OptionRow(
        "not-covered", "text", "skip|fail", "whether clauses that the adapter cannot show fail the test (default skip)", ("skip", "fail")
    ),
    OptionRow(
        "jobs", "count", "N", "drills in flight at once, for the adapter of the fixture cancel_adapter (commands default to 4, others to 1)"
    ),
    OptionRow(
        "ignore",
        "words",
        "GLOB",
        "changes of paths that match are not looked at, repeatable: relative to the workspace, * crosses folders, a folder covers what is "
        "below it (default: none)",
    ),
    OptionRow(
        "resume",
        "text",
        "allowed|never",
        "whether the next start may build on what a run has left that ended by itself within the grace (default allowed); a killed run "
        "may never be built on",
        ("allowed", "never"),
    ),
    OptionRow(
        "temporal",
        "text",
        "ADDRESS",
        "the Temporal server of the fixture cancel_temporal, as host:port (default: a development server of its own, from the extra "
        "[temporal])",
    ),
    OptionRow("report", "words", "FILE", "write a report, repeatable: .json for programs, .html for people, with a picture of each drill"),
    OptionRow("history", "path", "DIR", "where the histories of the drills are kept (default .cancelcontract at the root)"),
    OptionRow(
        "baseline",
        "path",
        "FILE",
        "faults that are known and accepted for a while: a TOML file with an entry for each scenario:clause, its reason and the day on "
        "which it expires; an entry that no longer fails, has expired or names nothing fails the run",
    ),
    OptionRow(
        "baseline-update",
        "flag",
        "",
        "write what is broken now into the file of --cancel-baseline, and take out what is broken no more; reasons are left to a person",
    ),
    OptionRow(
        "compare", "words", "OLD.json", "show what has changed since an earlier report; repeatable for several runs, whose medians count"
    ),
    OptionRow(
        "compare-limit",
        "words",
        "NAME:LIMIT",
        "what may not have grown by more since --cancel-compare, repeatable: gone:20%+0.2s, reported:0.5s, late-writes:0; verdict fails on "
        "any verdict that got worse",
    ),
)
"""All options but the terms, in the order of ``--help``."""
NOT_FOR_ONE_DRILL = frozenset(
    {
        *("cancel_scenario", "cancel_jobs", "cancel_report", "cancel_history"),
        *("cancel_baseline_update", "cancel_compare", "cancel_compare_limit"),
    }
)
"""The keys of what the command that runs one drill again leaves out."""


def term_row(term: str) -> OptionRow:
    """The option of a term. ``start`` is a command already, so that term's option is ``--cancel-start-within``."""
    return OptionRow(_TERM_OPTION.get(term, term.replace("_", "-")), "seconds", "SECONDS", TERM_HELP[term])


_TERM_OPTION = {"start": "start-within"}

TERM_ROWS: dict[str, OptionRow] = {term: term_row(term) for term in TERM_HELP}
"""The options of the terms by the term's name."""

_INI_TYPES: dict[str, Any] = {"text": "string", "path": "string", "words": "args", "seconds": "float", "count": "int"}


def declare(parser: pytest.Parser) -> None:
    """Make the options known to pytest; nothing has a default here, so that what was given can be told from what was not."""
    group = parser.getgroup("cancelcontract", "cancel contract: does the wrapper's cancel button end what it started?")
    for row in (*OPTIONS, *TERM_ROWS.values()):
        group.addoption(row.flag, dest=row.key, default=None, help=row.help.replace("%", "%%"), **reading(row))
        if row.is_setting:
            parser.addini(row.key, row.help, type=_INI_TYPES[row.kind], default=None)


def reading(row: OptionRow) -> dict[str, Any]:
    """How a parser of command lines reads an option: the arguments of ``add_argument`` that its kind decides."""
    if row.kind == "flag":
        return {"action": "store_true"}
    if row.kind == "words":
        return {"metavar": row.metavar, "action": "append"}
    if row.kind in {"seconds", "count"}:
        return {"metavar": row.metavar, "type": float if row.kind == "seconds" else int}
    return {"metavar": row.metavar, **({"choices": row.choices} if row.choices else {})}


def is_anything_given(config: pytest.Config) -> bool:
    """Whether an option of the contract stands on the command line or in the ini file."""
    return any(config.getoption(row.key, None) is not None or _is_in_ini(config, row) for row in (*OPTIONS, *TERM_ROWS.values()))


def _is_in_ini(config: pytest.Config, row: OptionRow) -> bool:
    try:
        return row.is_setting and config.getini(row.key) is not None
    except (TypeError, ValueError, pytest.UsageError):  # it stands there, and is refused by whoever reads it
        return True
