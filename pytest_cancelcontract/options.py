"""What was asked for, on the command line, by markers and in the ini file, each value with its origin.

The command line wins over markers, markers over the ini file, the ini file over the defaults. Nothing here starts anything;
whatever is refused is refused with the value, its origin and what is allowed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.finding import Level
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS, OptionRow
from pytest_cancelcontract.report.files import why_not
from pytest_cancelcontract.scenarios import Scenario, UnknownScenario, by_id, select
from pytest_cancelcontract.terms import TERM_NAMES, BadTerm, Terms, settle_terms
from pytest_cancelcontract.workspace_rules import RULE_NAMES, BadRule, WorkspaceRules, settle_rules

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.command import CommandAdapter

MARKER = "cancel_contract"
MARKER_ARGUMENTS = (*TERM_NAMES, *RULE_NAMES, "scenarios", "clauses", "notice", "expected")
DEFAULT_JOBS_COMMAND = 4
DEFAULT_JOBS_OBJECT = 1


@dataclass(frozen=True, eq=False)
class RunSettings:
    """What ``cancelcontract run`` tells the plugin, by being registered as a plugin itself.

    ``origins`` maps a key (``cancel_grace``) of the ini file to words for people; ``rerun`` is the command that runs one drill
    again, in front of ``--scenario ID`` and behind it.
    """

    origins: Mapping[str, str]
    rerun: tuple[str, str]


def run_settings(config: pytest.Config) -> RunSettings | None:
    """What ``cancelcontract run`` said; None under a pytest that was started otherwise."""
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, RunSettings)), None)


@dataclass(frozen=True, slots=True)
class Given:
    """One value that somebody gave, and where."""

    value: Any
    origin: str
    is_command_line: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """All that holds for the whole pytest run.

    ``given`` maps an option's key (``cancel_grace``) to its value; what was not given is absent. All paths are absolute; ``compare`` are
    earlier reports. ``is_run`` says that ``cancelcontract run`` gave the options, under names of its own.
    """

    given: Mapping[str, Given]
    level: Level
    fails_not_covered: bool
    jobs: int | None
    reports: tuple[Path, ...]
    history: Path
    baseline: Path | None = None
    updates_baseline: bool = False
    compare: tuple[Path, ...] = ()
    is_run: bool = False

    def text(self, key: str) -> str | None:
        """The value of a textual option, or None."""
        found = self.given.get(key)
        return None if found is None else str(found.value)

    def origin(self, key: str) -> str:
        """Where an option's value came from."""
        found = self.given.get(key)
        return "default" if found is None else found.origin

    @property
    def flags_on_command_line(self) -> list[str]:
        """The options that were given on the command line, as they are written there."""
        return [given.origin for given in self.given.values() if given.is_command_line]


@dataclass(frozen=True, slots=True)
class Request:
    """What one test asks for: which drills, by which terms, judged by which clauses (None: all of the scenario's).

    ``expected`` maps ``scenario:clause`` to the reason why it is expected to be broken.
    """

    scenarios: tuple[Scenario, ...]
    terms: Terms
    clauses: tuple[str, ...] | None
    expected: Mapping[str, str]
    rules: WorkspaceRules


# ---------------------------------------------------------------------- the whole run


def read_settings(config: pytest.Config) -> Settings:
    """Read and validate the command line and the ini file.

    Raises:
        pytest.UsageError: a value is refused; the message names it and its origin.
    """
    given = _given(config)
    _refuse_contradictions(given)
    for key, choices in (("cancel_level", ("must", "should")), ("cancel_not_covered", ("skip", "fail"))):
        _refuse_unless(given.get(key), choices, key)
    _refuse_seconds_for_a_command(given.get("cancel_start"))
    settings = Settings(
        given=given,
        level=Level(given["cancel_level"].value) if "cancel_level" in given else Level.MUST,
        fails_not_covered="cancel_not_covered" in given and given["cancel_not_covered"].value == "fail",
        jobs=_jobs(given.get("cancel_jobs")),
        reports=_reports(config, given.get("cancel_report")),
        history=_path(config, given["cancel_history"]) if "cancel_history" in given else config.rootpath / ".cancelcontract",
        baseline=_path(config, given["cancel_baseline"]) if "cancel_baseline" in given else None,
        updates_baseline="cancel_baseline_update" in given,
        compare=_paths(config, given["cancel_compare"]) if "cancel_compare" in given else (),
        is_run=run_settings(config) is not None,
    )
    settle(settings, {})
    settle_workspace(settings, {})
    choose(settings, None, "")
    if settings.text("cancel_wrapper") is not None or settings.text("cancel_start") is not None:
        command_adapter(settings)
    return settings


def _refuse_seconds_for_a_command(start: Given | None) -> None:
    if start is not None and re.fullmatch(r"[0-9.]+", str(start.value)):
        within = start.origin.replace("start", "start_within" if "_" in start.origin else "start-within")
        raise pytest.UsageError(
            f"{start.origin} takes the command that starts a run, got {start.value!r}; the term start (until the runner works) is {within}"
        )


def settle(settings: Settings, closer: Mapping[str, tuple[object, str]]) -> Terms:
    """The terms: of the command line, then ``closer`` (a marker's, or a call's, by term), then of the ini file, then the defaults.

    Raises:
        pytest.UsageError: a value is refused.
    """
    found: dict[str, tuple[object, str]] = {}
    for name, row in TERM_ROWS.items():
        given = settings.given.get(row.key)
        if given is not None and given.is_command_line:
            found[name] = (given.value, given.origin)
        elif name in closer and closer[name][0] is not None:
            found[name] = closer[name]
        elif given is not None:
            found[name] = (given.value, given.origin)
    unknown = {name: value for name, value in closer.items() if name not in TERM_ROWS}
    try:
        return settle_terms({**found, **unknown})
    except BadTerm as error:
        raise pytest.UsageError(str(error)) from None


def settle_workspace(settings: Settings, closer: Mapping[str, tuple[object, str]]) -> WorkspaceRules:
    """The rules for the workspace, by the same precedence as the terms: each comes whole from the nearest place that gives it.

    Raises:
        pytest.UsageError: a value is refused.
    """
    found: dict[str, tuple[object, str]] = {}
    for name in RULE_NAMES:
        given = settings.given.get(f"cancel_{name}")
        if name in closer and not (given is not None and given.is_command_line):
            found[name] = closer[name]
        elif given is not None:
            found[name] = (given.value, given.origin)
    try:
        return settle_rules(found)
    except BadRule as error:
        raise pytest.UsageError(str(error)) from None


def choose(settings: Settings, marked: Sequence[str] | None, marker: str) -> tuple[Scenario, ...]:
    """The scenarios: of the command line, else of the marker, else of the ini file, else the core set.

    A command line of exclusions only (``!daemon``) is taken from what the marker or the ini file chose.

    Raises:
        pytest.UsageError: an unknown scenario, or none left.
    """
    given = settings.given.get("cancel_scenario")
    words: tuple[str, ...] = tuple(marked) if marked is not None else ()
    origin = marker
    if given is not None and (given.is_command_line or marked is None):
        asked = tuple(given.value)
        words = (*words, *asked) if all(word.startswith("!") for word in asked) else asked
        origin = given.origin
    try:
        chosen = select(words)
    except UnknownScenario as error:
        raise pytest.UsageError(f"{error}, core and all (from {origin})") from None
    if not chosen:
        raise pytest.UsageError(f"no scenario is left of {' '.join(words)} (from {origin})")
    return chosen


def command_adapter(settings: Settings) -> CommandAdapter:
    """The adapter that the command options describe.

    Raises:
        pytest.UsageError: a command is refused.
    """
    from pytest_cancelcontract.adapters.command import CommandAdapter
    from pytest_cancelcontract.adapters.words import BadCommand

    keys = {name: f"cancel_{option}" for name, option in _COMMAND_OPTIONS.items()}
    flags = {row.key: _origin_in_run(row) if settings.is_run else row.flag for row in OPTIONS}
    try:
        return CommandAdapter(
            settings.text("cancel_wrapper"),
            cancel_with=settings.text("cancel_with") or "SIGTERM",
            start=settings.text("cancel_start"),
            outcome=settings.text("cancel_outcome"),
            outcome_map=settings.text("cancel_outcome_map"),
            origin={name: settings.given[key].origin if key in settings.given else flags[key] for name, key in keys.items()},
        )
    except BadCommand as error:
        raise pytest.UsageError(str(error)) from None


_COMMAND_OPTIONS = {"command": "wrapper", "start": "start", "cancel_with": "with", "outcome": "outcome", "outcome_map": "outcome_map"}


def _given(config: pytest.Config) -> dict[str, Given]:
    found: dict[str, Given] = {}
    by_run = run_settings(config)
    for row in (*OPTIONS, *TERM_ROWS.values()):
        value = config.getoption(row.key, default=None)
        if value is not None:
            found[row.key] = Given(value, row.flag if by_run is None else _origin_in_run(row), is_command_line=True)
            continue
        if not row.is_setting:
            continue
        origin = f"ini {row.key}" if by_run is None else by_run.origins.get(row.key, "default")
        value = _from_ini(config, row, origin)
        if value is not None:
            found[row.key] = Given(value, origin)
    return found


def _origin_in_run(row: OptionRow) -> str:
    return "the words behind --" if row.key == "cancel_wrapper" else row.flag.replace("--cancel-", "--")


def _from_ini(config: pytest.Config, row: OptionRow, origin: str) -> Any:
    try:
        return config.getini(row.key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # the last from pytest 9 on
        kind = {"seconds": "a number of seconds", "count": "a whole number", "words": "a list of words"}.get(row.kind, "a text")
        raise pytest.UsageError(f"{row.key} must be {kind}, from {origin}: {error}") from None


def _refuse_contradictions(given: Mapping[str, Given]) -> None:
    commands = [key for key in ("cancel_wrapper", "cancel_start") if key in given]
    if "cancel_adapter" in given and commands:
        raise pytest.UsageError(f"an adapter or a command, not both: got {given['cancel_adapter'].origin} and {given[commands[0]].origin}")
    for key in ("cancel_with", "cancel_outcome", "cancel_outcome_map"):
        if key in given and not commands and given[key].is_command_line:
            raise pytest.UsageError(f"{given[key].origin} is about a command: it needs {_flags_of(given[key], 'wrapper', 'start')}")
    for key, needed in (("cancel_baseline_update", "baseline"), ("cancel_compare_limit", "compare")):
        if key in given and f"cancel_{needed}" not in given:
            raise pytest.UsageError(f"{given[key].origin} needs a file: {_flags_of(given[key], needed)}")


def _flags_of(given: Given, *names: str) -> str:
    """Options by the names that this run has for them: ``cancelcontract run`` drops the prefix, and takes the wrapper behind ``--``."""
    if given.origin.startswith("--cancel-") or not given.is_command_line:
        return " or ".join(f"--cancel-{name}" for name in names)
    return " or ".join("a command behind --" if name == "wrapper" else f"--{name}" for name in names)


def _refuse_unless(given: Given | None, choices: tuple[str, ...], key: str) -> None:
    if given is not None and given.value not in choices:
        raise pytest.UsageError(f"{key} must be {' or '.join(choices)}, got {given.value!r} from {given.origin}")


def _jobs(given: Given | None) -> int | None:
    if given is None:
        return None
    if isinstance(given.value, bool) or not isinstance(given.value, int) or given.value < 1:
        raise pytest.UsageError(f"jobs must be a whole number above 0, got {given.value!r} from {given.origin}")
    return given.value


def _path(config: pytest.Config, given: Given) -> Path:
    base = config.invocation_params.dir if given.is_command_line else config.rootpath
    return base / str(given.value)


def _paths(config: pytest.Config, given: Given) -> tuple[Path, ...]:
    return tuple(_path(config, replace(given, value=value)) for value in given.value)


def _reports(config: pytest.Config, given: Given | None) -> tuple[Path, ...]:
    if given is None:
        return ()
    for name, path in zip(given.value, paths := _paths(config, given), strict=True):
        if problem := why_not(path, str(name)):
            raise pytest.UsageError(f"{problem} from {given.origin}")
    return paths


# ---------------------------------------------------------------------- one test


def request_of(item: pytest.Item, settings: Settings) -> Request:
    """What a test's markers ask for, merged from module, class and function, the nearest winning.

    Raises:
        pytest.UsageError: an argument, or its value, is refused; the message begins with the test's node id.
    """
    try:
        marked, expected = _merged(item)
        origin = "the marker cancel_contract"
        terms = settle(settings, _those(marked, TERM_NAMES))
        rules = settle_workspace(settings, _those(marked, RULE_NAMES))
        clauses = _clauses(marked.get("clauses"))
        scenarios = choose(settings, _words(marked.get("scenarios"), "scenarios"), origin)
        return Request(_judgeable(scenarios, clauses), terms, clauses, expected, rules)
    except pytest.UsageError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def settle_drill(
    item: pytest.Item, settings: Settings, given: Mapping[str, object], *, by: str = "cancel_drill"
) -> tuple[Terms, WorkspaceRules]:
    """What a drill runs by that a test makes itself: as the test's markers say, unless the call says otherwise (``by`` names it).

    Raises:
        pytest.UsageError: an argument, or its value, is refused.
    """
    marked, _ = _merged(item)
    called = {name: (value, f"{by}({name}=…)") for name, value in given.items()}
    rules = {name: called.pop(name) for name in RULE_NAMES if name in called}
    terms = settle(settings, {**_those(marked, TERM_NAMES), **called})
    return terms, settle_workspace(settings, {**_those(marked, RULE_NAMES), **rules})


def _those(marked: Mapping[str, Any], names: Collection[str]) -> dict[str, tuple[object, str]]:
    return {name: (value, f"marker {name}") for name, value in marked.items() if name in names and value is not None}


def _merged(item: pytest.Item) -> tuple[dict[str, Any], dict[str, str]]:
    merged: dict[str, Any] = {}
    expected: dict[str, str] = {}
    for marker in _from_far_to_near(item):
        if marker.args:
            raise pytest.UsageError(f"the marker cancel_contract takes arguments by name only, got {marker.args[0]!r}")
        _refuse_unknown(marker.kwargs, MARKER_ARGUMENTS, "argument of the marker cancel_contract", "arguments")
        if "notice" in marker.kwargs:
            raise pytest.UsageError(f"notice= is not in this release, got {marker.kwargs['notice']!r} from the marker cancel_contract")
        expected |= _expected(marker.kwargs.get("expected", {}))
        merged |= marker.kwargs
    return merged, expected


def _from_far_to_near(item: pytest.Item) -> list[pytest.Mark]:
    """A test's markers, those of its module first and those of its own parameters last.

    Raises:
        pytest.UsageError: a parameter's marker chooses scenarios; which tests there are is known before its parameters are.
    """
    on_parameters = [mark for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == MARKER]
    for mark in on_parameters:
        if "scenarios" in mark.kwargs:
            raise pytest.UsageError(
                f"scenarios= cannot stand on a parameter, got {mark.kwargs['scenarios']!r} from the marker cancel_contract;"
                " put it on the function, or leave tests out with -k"
            )
    others = [mark for mark in item.iter_markers(MARKER) if all(mark is not own for own in on_parameters)]
    return [*reversed(others), *on_parameters]


def _refuse_unknown(given: Iterable[str], known: Collection[str], what: str, all_of_them: str) -> None:
    for name in given:
        if name not in known:
            raise pytest.UsageError(f"unknown {what}: {name!r}; the {all_of_them} are {', '.join(known)}")


def _expected(given: object) -> dict[str, str]:
    from pytest_cancelcontract.check_ids import may_be_judged

    shape = 'expected= must be like {"daemon:no-survivors": "why, and a link"}'
    if not isinstance(given, Mapping):
        raise pytest.UsageError(f"{shape}, got {given!r} from the marker cancel_contract")
    for check_id, reason in given.items():
        if not isinstance(check_id, str) or not isinstance(reason, str) or not reason.strip() or ":" not in check_id:
            raise pytest.UsageError(f"{shape}, got {check_id!r}: {reason!r} from the marker cancel_contract")
        scenario_id, _, clause_id = check_id.partition(":")
        try:
            scenario = by_id(scenario_id)
        except UnknownScenario as error:
            raise pytest.UsageError(f"{error} (from expected= of the marker cancel_contract)") from None
        _refuse_unknown(
            [clause_id], may_be_judged(scenario), f"clause in expected= for the scenario {scenario_id}", "clauses that it judges"
        )
    return dict(given)


def _words(given: object, name: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    words = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, (list, tuple, set, frozenset)) else ()
    if not words or not all(isinstance(word, str) for word in words):
        raise pytest.UsageError(f"{name}= must be a word or a list of words, got {given!r} from the marker cancel_contract")
    return words


def _clauses(given: object) -> tuple[str, ...] | None:
    words = _words(given, "clauses")
    if words is None:
        return None
    from pytest_cancelcontract.contract import CLAUSES

    _refuse_unknown(words, [row.id for row in CLAUSES], "clause in clauses= of the marker cancel_contract", "clauses")
    return words


def _judgeable(scenarios: tuple[Scenario, ...], clauses: tuple[str, ...] | None) -> tuple[Scenario, ...]:
    """Leave out the scenarios that judge none of the chosen clauses: such a drill could only say nothing."""
    if clauses is None:
        return scenarios
    left = tuple(row for row in scenarios if set(row.clauses) & set(clauses))
    if not left:
        judged = sorted(set(itertools.chain.from_iterable(row.clauses for row in scenarios)))
        chosen = ", ".join(row.id for row in scenarios)
        raise pytest.UsageError(f"none of the chosen scenarios ({chosen}) judges {', '.join(clauses)}; they judge {', '.join(judged)}")
    return left
