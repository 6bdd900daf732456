"""The command line: what is understood, and what is refused in one line that says what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uncooperative_runner.command import parse
from uncooperative_runner.habits import HABITS, BadHabits, Plan
from uncooperative_runner.options import MEMBER_NAMES, BadCommand, Options

NOTICES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "input ended")
TOLD = "--attempt a --folder /w --until 9"
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
        ("--habit silent --habit chatty", "the habits silent and chatty contradict each other"),
        ("--habit launcher --habit mapped-writer", "the habits mapped-writer and launcher contradict each other"),
        ("--habit second-signal --habit obeys-int", "the habits second-signal and obeys-int contradict each other"),
        ("--habit polite --hold before", "--hold must be before-handlers or before-work, got 'before'"),
        ("--habit bare-daemon --member bare-daemon", "--attempt, --folder, --until missing: a --member is started by the runner itself"),
        ("--habit bare-daemon --attempt a --folder /w --until 9", "--member missing: a --member is started by the runner itself"),
        (f"--habit daemon --member daemon {TOLD}", "no habit has a --member 'daemon'; these have none"),
        (f"--habit bare-daemon --member leader {TOLD}", "no habit has a --member 'leader'; these have bare-daemon"),
        (f"--habit respawner --member respawner-1 {TOLD}", "--partner is for respawner-1, respawner-2, which needs it"),
        (f"--habit successor --member successor {TOLD} --partner 7", "--partner is for a respawner, which needs it"),
        (f"--habit respawner --member respawner-1 {TOLD} --partner -7", "--partner must be a whole number, got '-7'"),
        (f"--habit bare-daemon --member bare-daemon {TOLD} --folder w", "--folder must be an absolute path, got 'w'"),
        (f"--habit bare-daemon --member bare-daemon {TOLD} --until nan", "--until must be a finite number of seconds above 0, got 'nan'"),
        (f"--habit bare-daemon --member bare-daemon {TOLD} --hold before-work", "--hold is for the leader alone"),
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
    assert (plan.manner.name, plan.is_silent) == ("polite", True)
    assert {plan.manner.answer_to(notice) for notice in NOTICES} == {"end"}
    assert plan.names == ["daemon", "silent"]
    assert plan.roles == ["leader", "daemon"]


def test_children_go_with_any_manner_of_the_leader() -> None:
    plan = Plan(["deaf-child", "slow-cleanup", "respawner", "pipe-holder"])
    assert {plan.manner.answer_to(notice) for notice in NOTICES} == {"clean up, then end"}
    assert plan.roles == ["leader", "deaf-child", "respawner-1", "respawner-2", "pipe-holder"]


@pytest.mark.parametrize("name", ["int", "term", "hup"])
def test_a_habit_can_answer_each_signal_by_itself(name: str) -> None:
    manner = Plan([f"obeys-{name}"]).manner
    assert [notice for notice in NOTICES if manner.answer_to(notice) == "end"] == [f"SIG{name.upper()}"]
    assert [manner.answer_to(notice) for notice in NOTICES].count("nothing") == 4


@pytest.mark.parametrize("name", [row.name for row in HABITS])
def test_every_habit_goes_with_poison(name: str) -> None:
    assert Plan([name, "poison"]).leaves_poison


@pytest.mark.parametrize("manner", [row.name for row in HABITS if row.at_notice is not None])
def test_every_manner_goes_with_all_habits_that_are_none(manner: str) -> None:
    no_others = {"silent", *(["launcher"] if manner == "mapped-writer" else [])}
    spends = any(row.spends for row in HABITS if row.name == manner)
    others = [row.name for row in HABITS if row.at_notice is None and row.name not in no_others and not (spends and row.spends)]
    assert Plan([manner, *others]).manner.name == manner


def test_what_the_runner_tells_itself_is_neither_in_the_help_nor_in_a_refusal() -> None:
    told = run("--help").stdout + run("--habits").stderr
    assert not [name for name in MEMBER_NAMES if name in told]
