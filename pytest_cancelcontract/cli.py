"""The command ``cancelcontract``: the contract for a wrapper in any language, without a line of test code.

It runs pytest on one module with a configuration of its own, so that nothing of the project around it (conftest files, plugins,
options) changes what is proved. Only the ``cancel_*`` settings of the folder are read, and shown with the file they came from.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS, OptionRow

USAGE_ERROR = 4
"""As pytest's own."""
_NAMES_A_WRAPPER = ("cancel_wrapper", "cancel_start", "cancel_adapter")
_ROWS: tuple[OptionRow, ...] = (*OPTIONS, *TERM_ROWS.values())
_NOT_REPEATED = {"cancel_scenario", "cancel_report", "cancel_history", "cancel_jobs"}
"""What the command that runs one drill again leaves out."""
_EXAMPLES = """\
examples:
  cancelcontract run -- node wrap.mjs {workspace} {runner}
  cancelcontract run --grace 2 --scenario all --report report.json -- ./wrap.sh {runner}
  cancelcontract run --with INT --scenario deaf-child -- python wrap.py {runner}
  cancelcontract run --with @docker --grace 10 -- python wrap.py {runner}
  cancelcontract run --start 'jobs submit {runner}' --with 'jobs cancel {id}' --outcome 'jobs state {id}'

{runner} stands for the command line of the uncooperative runner, which your wrapper must start; write it as a word of its
own for its words, or inside a word ('sh -c "exec {runner}"') for a quoted text. {workspace} is the folder that it offers;
without it the wrapper is started there.
"""


class BadUse(ValueError):
    """The command line, or a setting of the folder, is refused; the message names the value and where it came from."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, which for ``run`` is pytest's."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(_before_command(given))
    try:
        return _run(options, _command_in(given)) if options.action == "run" else _list(options)
    except BadUse as error:
        print(f"cancelcontract {options.action}: {error}", file=sys.stderr)
        return USAGE_ERROR


def _before_command(words: Sequence[str]) -> list[str]:
    return list(words[: words.index("--")]) if "--" in words else list(words)


def _command_in(words: Sequence[str]) -> list[str]:
    return list(words[words.index("--") + 1 :]) if "--" in words else []


# ---------------------------------------------------------------------- the options


class _Parser(argparse.ArgumentParser):
    """Ends with pytest's status for a usage error: argparse's own, 2, would say that a run was interrupted."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += " (the wrapper's command comes last, behind a word of its own: --)"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    about = "Does your wrapper's cancel button really end what it started?"
    parser = _Parser(prog="cancelcontract", description=about, epilog=_EXAMPLES, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    actions = parser.add_subparsers(dest="action", required=True, metavar="run | list")
    run = actions.add_parser(
        "run",
        help="drill a wrapper",
        usage="cancelcontract run [options] -- COMMAND…",
        description="Drill the wrapper that COMMAND starts: under each scenario's runner, press cancel and look at what is left.",
        epilog=_EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    for row in _ROWS:
        if row.is_built and row.key != "cancel_wrapper":
            _add(run, row)
    _add_passed(run)
    listing = actions.add_parser(
        "list",
        help="show the scenarios, the clauses and the ladders",
        description="Show the scenarios, what each judges and how long it takes with the given terms; then the clauses, and the ladders"
        " that --with takes.",
        allow_abbrev=False,
    )
    for row in TERM_ROWS.values():
        _add(listing, row)
    return parser


def _add(parser: argparse.ArgumentParser, row: OptionRow) -> None:
    reading: dict[str, Any] = {"choices": row.choices} if row.choices else {}
    if row.kind == "words":
        reading = {"action": "append"}
    elif row.kind in {"seconds", "count"}:
        reading = {"type": float if row.kind == "seconds" else int}
    words = row.help.replace("--cancel-", "--").replace("%", "%%")
    parser.add_argument(_flag(row), dest=row.key, default=None, metavar=row.metavar, help=words, **reading)


def _add_passed(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("passed on to pytest")
    group.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="only the scenarios whose ids match")
    group.add_argument("-x", "--exitfirst", action="store_true", help="stop at the first that fails")
    group.add_argument("--maxfail", type=int, metavar="N", help="stop after N that fail")
    group.add_argument("-v", "--verbose", action="count", default=0, help="a line for every wait of a drill")
    group.add_argument("-q", "--quiet", action="count", default=0, help="say less")
    group.add_argument("--collect-only", action="store_true", help="show what would be run")


def _flag(row: OptionRow) -> str:
    return row.flag.replace("--cancel-", "--")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pytest-cancelcontract")
    except PackageNotFoundError:
        return "(not installed)"


# ---------------------------------------------------------------------- run


def _run(options: argparse.Namespace, command: Sequence[str]) -> int:
    given = {row.key: value for row in _ROWS if (value := getattr(options, row.key, None)) is not None}
    if command:
        given["cancel_wrapper"] = _join(command)
    settings, origins = folder_settings(Path.cwd())
    if any(key in given for key in _NAMES_A_WRAPPER):
        # The command line names a wrapper: how the folder's own would be started and pressed says nothing about it.
        about_another = {*_NAMES_A_WRAPPER, "cancel_with", "cancel_outcome", "cancel_outcome_map"}
        settings = {key: value for key, value in settings.items() if key not in about_another}
    if not any(key in {**settings, **given} for key in _NAMES_A_WRAPPER):
        raise BadUse("nothing says which wrapper to drill: put its command behind --, as in: cancelcontract run -- ./wrap.sh {runner}")
    import pytest

    from pytest_cancelcontract.options import RunSettings

    # The surroundings of a project's own test runs must not change what is proved.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    words = [*_own_configuration(), *_as_words(settings, given), *_passed_words(options)]
    return int(pytest.main(words, plugins=[RunSettings(origins, _rerun(given))]))


def _own_configuration() -> list[str]:
    return [
        *("-c", str(Path(__file__).with_name("run.ini")), f"--rootdir={Path.cwd()}", "--noconftest", "--disable-plugin-autoload"),
        *("-p", "pytest_cancelcontract.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"),
        # The package and not the module: a test's name would otherwise begin with nothing, where it lies outside of the root.
        *("--pyargs", "pytest_cancelcontract"),
    ]


def _as_words(settings: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    flags = {row.key: row.flag for row in _ROWS}
    words = [f"--override-ini={key}={value}" for key, value in settings.items()]
    for key, value in given.items():
        words += [f"{flags[key]}={one}" for one in (value if isinstance(value, list) else [value])]
    return words


def _passed_words(options: argparse.Namespace) -> list[str]:
    words = ["-k", options.keyword] if options.keyword else []
    words += ["-x"] if options.exitfirst else []
    words += [f"--maxfail={options.maxfail}"] if options.maxfail is not None else []
    words += ["--collect-only"] if options.collect_only else []
    return [*words, *["-v"] * options.verbose, *["-q"] * options.quiet]


def _rerun(given: Mapping[str, Any]) -> tuple[str, str]:
    """The command that runs one drill again, in front of ``--scenario ID`` and behind it."""
    before = ["cancelcontract", "run"]
    for row in _ROWS:
        if row.key in given and row.key != "cancel_wrapper" and row.key not in _NOT_REPEATED:
            value = given[row.key]
            before += [_flag(row), f"{value:g}" if isinstance(value, float) else str(value)]
    wrapper = given.get("cancel_wrapper")
    return shlex.join(before), f" -- {wrapper}" if wrapper is not None else ""


def _join(command: Sequence[str]) -> str:
    """The words as one text that splits into them again; unlike in a shell, braces need no quotes there."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./{}-]+", word, re.ASCII) else shlex.quote(word) for word in command)


# ---------------------------------------------------------------------- the folder's settings


def folder_settings(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The ``cancel_*`` settings of a folder's pytest configuration as ini texts, and the origin of each, for people.

    The file is the one that pytest would take in that folder; folders above it are not looked at.

    Raises:
        BadUse: the file cannot be read, or has a ``cancel_*`` setting that does not exist.
    """
    for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
        path = folder / name
        section = _section(path) if path.is_file() else None
        if section is None:
            continue
        found = {key: value for key, value in section.items() if key.startswith("cancel_")}
        known = {row.key for row in _ROWS}
        for key in found:
            if key not in known:
                raise BadUse(f"{path} has {key}, which is no setting; the settings are {', '.join(sorted(known))}")
        return {key: _ini_text(value) for key, value in found.items()}, {key: f"{key} in {name}" for key in found}
    return {}, {}


def _section(path: Path) -> Mapping[str, Any] | None:
    """pytest's part of a configuration file; None where it has none."""
    try:
        return _toml_section(path) if path.suffix == ".toml" else _ini_section(path)
    except (OSError, ValueError) as error:
        raise BadUse(f"{path} cannot be read: {error}") from error


def _toml_section(path: Path) -> Mapping[str, Any] | None:
    import tomllib

    read = tomllib.loads(path.read_text(encoding="utf-8"))
    if path.name != "pyproject.toml":
        section: Mapping[str, Any] = read.get("pytest", {})
        return section
    pytest_table = read.get("tool", {}).get("pytest")
    if pytest_table is None:
        return None
    return {**pytest_table, **pytest_table.get("ini_options", {})}


def _ini_section(path: Path) -> Mapping[str, Any] | None:
    import iniconfig

    try:
        read = iniconfig.IniConfig(str(path))
    except iniconfig.ParseError as error:
        raise ValueError(str(error)) from error
    name = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    if name in read:
        return dict(read[name].items())
    return {} if path.name.endswith("pytest.ini") else None


def _ini_text(value: object) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


# ---------------------------------------------------------------------- list


def _list(options: argparse.Namespace) -> int:
    from pytest_cancelcontract.adapters.ladders import LADDERS
    from pytest_cancelcontract.contract import CLAUSES
    from pytest_cancelcontract.report.listing import clause_lines, ladder_lines, scenario_lines
    from pytest_cancelcontract.scenarios import SCENARIOS
    from pytest_cancelcontract.terms import BadTerm, settle_terms

    settings, origins = folder_settings(Path.cwd())
    found: dict[str, tuple[object, str]] = {}
    for term, row in TERM_ROWS.items():
        if (value := getattr(options, row.key)) is not None:
            found[term] = (value, _flag(row))
        elif row.key in settings:
            found[term] = (settings[row.key], origins[row.key])
    try:
        terms = settle_terms(found)
    except BadTerm as error:
        raise BadUse(str(error)) from None
    print("\n".join([*scenario_lines(SCENARIOS, terms), "", *clause_lines(CLAUSES), "", *ladder_lines(LADDERS)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
