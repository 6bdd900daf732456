"""``cancelcontract run``: the contract for a wrapper in any language, without a line of test code.

It runs pytest on one module with a configuration of its own, so that nothing of the project around it (conftest files, plugins,
options) changes what is proved. Only the ``cancel_*`` settings of the folder are read, and shown with the file they came from.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cancelcontract.cli import agent
from pytest_cancelcontract.cli.folder import folder_settings
from pytest_cancelcontract.cli.parser import Actions, BadUse, add_option, flag
from pytest_cancelcontract.option_table import NOT_FOR_ONE_DRILL, OPTIONS, TERM_ROWS, OptionRow

NAME = "run"
_NAMES_A_WRAPPER = ("cancel_wrapper", "cancel_start", "cancel_adapter")
_ROWS: tuple[OptionRow, ...] = (*OPTIONS, *TERM_ROWS.values())
_SAYS = {"cancel_jobs": "drills in flight at once (default 4)"}
"""What the contract's options say here, where there is no test file."""
EXAMPLES = """\
examples:
  cancelcontract run -- node wrap.mjs {workspace} {source} {runner}
  cancelcontract run --grace 2 --scenario all --report report.json -- "$PWD/wrap.sh" {runner}
  cancelcontract run --with INT --scenario deaf-child -- python wrap.py {workspace} {source} {runner}
  cancelcontract run --with @docker --grace 10 -- python wrap.py {workspace} {source} {runner}
  cancelcontract run --start 'jobs submit {runner}' --with 'jobs cancel {id}' --outcome 'jobs state {id}'
  cancelcontract run --agent claude-code --scenario 'tool-*'

{runner} stands for the command line of the uncooperative runner, which your wrapper must start; write it as a word of its
own for its words, or inside a word ('sh -c "exec {runner}"') for a quoted text. {workspace} is the folder that it offers;
without it the wrapper is started there. {source} is a pristine repository, from which the workspace of a killed run can be
built anew; where that is not your wrapper's business, leave it out: --scenario '!second-run'.

GRACE is what you promise: a little more than your wrapper waits before it sends SIGKILL.
"""


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="drill a wrapper",
        usage="cancelcontract run [options] -- COMMAND…\n       cancelcontract run [options] --agent PROFILE|CMD",
        description="Drill the wrapper that COMMAND starts: under each scenario's runner, press cancel and look at what is left.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for row in _ROWS:
        if row.key != "cancel_wrapper":
            add_option(parser, row, _SAYS.get(row.key, ""))
    _add_passed(parser)
    agent.add_options(parser)


def _add_passed(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("passed on to pytest")
    group.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="only the scenarios whose ids match")
    group.add_argument("-x", "--exitfirst", action="store_true", help="stop at the first that fails")
    group.add_argument("--maxfail", type=int, metavar="N", help="stop after N that fail")
    group.add_argument("-v", "--verbose", action="count", default=0, help="a line for every wait of a drill")
    group.add_argument("-q", "--quiet", action="count", default=0, help="say less")
    group.add_argument("--collect-only", action="store_true", help="show what would be run")


def main(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Drill the wrapper, or try the agent; returns pytest's exit status, or one like it.

    Raises:
        BadUse: nothing says which wrapper to drill, or a setting of the folder does not exist.
    """
    if options.agent is not None:
        return agent.main(options, command)
    if options.agent_allow:
        raise BadUse("--agent-allow goes with --agent")
    if options.agent_env:
        raise BadUse("--agent-env goes with --agent")
    given = {row.key: value for row in _ROWS if (value := getattr(options, row.key, None)) is not None}
    if command:
        given["cancel_wrapper"] = join_words(command)
    settings, origins = folder_settings(Path.cwd())
    if any(key in given for key in _NAMES_A_WRAPPER):
        # The command line names a wrapper: how the folder's own would be started and pressed says nothing about it.
        about_another = {*_NAMES_A_WRAPPER, "cancel_with", "cancel_outcome", "cancel_outcome_map"}
        settings = {key: value for key, value in settings.items() if key not in about_another}
    if not any(key in {**settings, **given} for key in _NAMES_A_WRAPPER):
        raise BadUse(
            "nothing says which wrapper to drill: put its command behind --, as in:"
            " cancelcontract run -- ./wrap.sh {workspace} {source} {runner}"
        )
    import pytest

    from pytest_cancelcontract.options import RunSettings

    # The surroundings of a project's own test runs must not change what is proved.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    words = [*_own_configuration(), *_as_words(settings, given), *_passed_words(options)]
    return int(pytest.main(words, plugins=[RunSettings(origins, _rerun(given))]))


def _own_configuration() -> list[str]:
    return [
        *("-c", str(Path(__file__).parents[1] / "run.ini"), f"--rootdir={Path.cwd()}", "--noconftest", "--disable-plugin-autoload"),
        *("-p", "pytest_cancelcontract.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"),
        # The package and not the module: a test's name would otherwise begin with nothing, where it lies outside of the root.
        *("--pyargs", "pytest_cancelcontract"),
    ]


def _as_words(settings: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    flags = {row.key: row.flag for row in _ROWS}
    words = [f"--override-ini={key}={value}" for key, value in settings.items()]
    for key, value in given.items():
        # A flag takes no value.
        words += [flags[key]] if value is True else [f"{flags[key]}={one}" for one in (value if isinstance(value, list) else [value])]
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
        if row.key in given and row.key != "cancel_wrapper" and row.key not in NOT_FOR_ONE_DRILL:
            value = given[row.key]
            for one in value if isinstance(value, list) else [value]:
                before += [flag(row), f"{one:g}" if isinstance(one, float) else str(one)]
    wrapper = given.get("cancel_wrapper")
    return shlex.join(before), f" -- {wrapper}" if wrapper is not None else ""


def join_words(command: Sequence[str]) -> str:
    """The words as one text that splits into them again; unlike in a shell, braces need no quotes there."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./{}-]+", word, re.ASCII) else shlex.quote(word) for word in command)
