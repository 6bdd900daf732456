"""The command line: what is understood, and what is refused in one line that says what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uncooperative_runner.command import parse
from uncooperative_runner.habits import HABITS, BadHabits, Plan
from uncooperative_runner.options import BadCommand, Options

SCRIPT = Path(__file__).parents[2] / "uncooperative_runner" / "run.py"


def run(*words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, str(SCRIPT), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def understood(*words: str) -> Options:
    options = parse(words, started_s=100.0)
    assert isinstance(options, Options)
    return options


def test_all_options_are_understood_and_what_follows_the_dashes_is_left_alone() -> None:
    options = understood(
        *("--recorder", "unix:/a", "--recorder=abstract:b", "--token", "t", "--habit", "deaf", "--habit=poison"),
        *("--cleanup", "0.25", "--lifetime", "30", "--", "--bogus", "--habit", "nonsense"),
    )
    assert options.recorders == ["unix:/a", "abstract:b"]
    assert options.token == "t"
    assert options.plan.names == ["deaf", "poison"]
    assert (options.cleanup_s, options.deadline_s) == (0.25, 130.0)


def test_defaults_are_a_clean_up_of_1_s_and_a_lifetime_of_600_s() -> None:
    options = understood("--habit", "polite")
    assert (options.cleanup_s, options.deadline_s) == (1.0, 700.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "at least one --habit is needed; the habits are polite, "),
        ("--habit ded", "unknown habit 'ded'; the habits are polite, slow-cleanup, "),
        ("--habit", "--habit needs a value"),
        ("--habit deaf --token --", "--token needs a value"),
        ("--habit deaf --habits", "unknown option '--habits'; the options are --habit, --recorder, "),
        ("deaf", "unknown option 'deaf'; the options are"),
        ("--habit polite --habit deaf", "the habits polite and deaf contradict each other"),
        ("--habit silent --habit poison", "the habits silent and poison contradict each other"),
        ("--habit deaf --lifetime 0", "--lifetime must be a finite number of seconds above 0, got '0'"),
        ("--habit deaf --lifetime inf", "--lifetime must be a finite number of seconds above 0, got 'inf'"),
        ("--habit deaf --cleanup nan", "--cleanup must be a finite number of seconds not below 0, got 'nan'"),
        ("--habit deaf --cleanup soon", "--cleanup must be a finite number of seconds not below 0, got 'soon'"),
        ("--habit deaf --recorder unix:/x", "--recorder and --token go together"),
        ("--habit deaf --token t", "--recorder and --token go together"),
    ],
)
def test_a_bad_command_line_is_refused(words: str, says: str) -> None:
    with pytest.raises((BadCommand, BadHabits)) as refused:
        parse(words.split(), started_s=0.0)
    assert str(refused.value).startswith(says)


def test_a_refusal_is_one_line_and_status_2() -> None:
    done = run("--habit", "d\udce9f")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("uncooperative runner: unknown habit")
    assert done.stderr.count("\n") == 1


def test_the_list_holds_every_habit_with_its_sentence() -> None:
    done = run("--list")
    assert done.returncode == 0
    assert [line.split(None, 1) for line in done.stdout.splitlines()] == [[row.name, row.sentence] for row in HABITS]


def test_help_is_printed_by_the_module_as_well() -> None:
    by_module = subprocess.run(
        [sys.executable, "-m", "uncooperative_runner", "--help"], capture_output=True, text=True, cwd=SCRIPT.parents[1], check=True
    )
    assert by_module.stdout == run("--help").stdout
    assert by_module.stdout.startswith("usage: uncooperative_runner --habit NAME")


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.8"])
def test_an_interpreter_that_is_too_old_is_told_in_one_line(version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} below ~/.pyenv/versions")
    done = run("--habit", "polite", python=str(found[-1]))
    assert done.returncode == 2
    assert done.stderr == f"uncooperative runner: needs Python 3.9 or later, this is {version} ({found[-1]})\n"


def test_a_habit_without_an_opinion_leaves_the_leader_polite() -> None:
    plan = Plan(["daemon", "silent", "daemon"])
    assert (plan.manner, plan.at_notice, plan.is_silent) == ("polite", "end", True)
    assert plan.names == ["daemon", "silent"]
    assert [child.role for child in plan.children] == ["daemon"]


def test_children_go_with_any_manner_of_the_leader() -> None:
    plan = Plan(["deaf-child", "slow-cleanup", "pipe-holder"])
    assert (plan.manner, plan.at_notice) == ("slow-cleanup", "clean up, then end")
    assert [child.role for child in plan.children] == ["deaf-child", "pipe-holder"]
