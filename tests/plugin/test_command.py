"""The command ``cancelcontract``: its own words, and the configuration that it gives to pytest."""

from __future__ import annotations

import pytest

from pytest_cancelcontract import cli
from pytest_cancelcontract.cli.run import join_words
from pytest_cancelcontract.option_table import TERM_HELP, TERM_ROWS
from pytest_cancelcontract.scenarios import SCENARIOS
from pytest_cancelcontract.terms import TERM_NAMES
from tests.plugin.conftest import FAST, Run

COLLECT = ("run", "--collect-only", "-q", "--scenario=polite")


def test_the_option_table_has_every_term_in_order() -> None:
    assert tuple(TERM_HELP) == TERM_NAMES
    assert TERM_ROWS["kill_within"].flag == "--cancel-kill-within"
    assert TERM_ROWS["start"].flag == "--cancel-start-within", "--cancel-start is a command"


def test_help_has_examples_and_the_options_without_their_prefix(command: Run) -> None:
    result = command("run", "--help")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["usage: cancelcontract run [[]options] -- COMMAND…", "*--with SIGNAL|CMD|@LADDER*", "*--grace SECONDS*", "examples:", "*{runner}*"]
    )
    assert "--cancel-" not in result.stdout.str()


def test_the_version_is_the_distributions(command: Run) -> None:
    command("--version").stdout.fnmatch_lines(["cancelcontract 0.*"])


def test_the_list_has_every_scenario_with_its_time_by_the_given_terms(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--grace", "2", "--delivery", "1"]) == 0
    shown = capsys.readouterr().out
    for row in SCENARIOS:
        assert f" {row.id} " in shown
    assert "delivery 1 (--delivery), grace 2 (--grace)" in shown
    assert "about 3.0 s, at most 8.5 s from cancel" in shown
    assert "no-survivors " in shown and "MUST" in shown and "SHOULD" in shown
    assert "  @github-actions  INT 7.5 TERM 2.5 KILL\n" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "cancelcontract run: nothing says which wrapper to drill: put its command behind --, *"),
        (["run", "python", "{runner}"], "cancelcontract: unrecognized arguments: python {runner} (the wrapper's command comes last, *"),
        (
            ["run", "--", "wrap"],
            "ERROR: the command 'wrap' from the words behind -- never starts the runner: it needs {runner} or {runner_exe} (*",
        ),
        (["run", "--", "wrap", "{runer}"], "ERROR: unknown brace {runer} in '{runer}' from the words behind --; *"),
        (
            ["run", "--grace=inf", "--", "wrap", "{runner}"],
            "ERROR: grace must be a finite number of seconds not below 0, got inf from --grace",
        ),
        (["run", "--grace=x", "--", "wrap", "{runner}"], "cancelcontract run: argument --grace: invalid float value: 'x'; *"),
        (["list", "--grace=-1"], "cancelcontract list: grace must be a finite number of seconds not below 0, got -1.0 from --grace"),
        ([], "cancelcontract: the following arguments are required: *"),
    ],
)
def test_bad_use_is_one_clear_error(command: Run, words: list[str], message: str) -> None:
    result = command(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert len([line for line in result.errlines if line]) == 1


def test_nothing_of_the_project_around_it_is_loaded(
    pytester: pytest.Pytester, command: Run, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("raise RuntimeError('conftest was loaded')")
    pytester.makeini("[pytest]\naddopts = --no-such-option\npython_functions = none\nfilterwarnings = error\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    result = command(*COLLECT, "--", *kept)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*::test_cancel_contract[[]polite]"])
    assert "xdist" not in result.stdout.str()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\ncancel_grace = 2\ncancel_scenario = ['deaf', 'polite']\n"),
        ("pyproject.toml", "[tool.pytest]\ncancel_grace = 2.0\ncancel_scenario = ['deaf', 'polite']\n"),
        ("pytest.ini", "[pytest]\ncancel_grace = 2\ncancel_scenario = deaf polite\n"),
        ("setup.cfg", "[tool:pytest]\ncancel_grace = 2\ncancel_scenario = deaf polite\n"),
        ("tox.ini", "[pytest]\ncancel_grace = 2\ncancel_scenario = deaf polite\n"),
    ],
)
def test_the_folders_settings_hold_and_are_shown_with_their_file(
    pytester: pytest.Pytester, command: Run, kept: list[str], name: str, text: str
) -> None:
    (pytester.path / name).write_text(text)
    result = command("run", "--collect-only", "--", *kept)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"cancel contract: *scenario deaf polite (cancel_scenario in {name}), grace 2 (cancel_grace in {name})"])
    result.stdout.fnmatch_lines(["*test_cancel_contract[[]polite]*", "*test_cancel_contract[[]deaf]*"])


def test_a_wrapper_on_the_command_line_takes_none_of_the_folders_command_options(
    pytester: pytest.Pytester, command: Run, kept: list[str]
) -> None:
    pytester.makeini("[pytest]\ncancel_start = jobs submit {runner}\ncancel_with = jobs cancel {id}\ncancel_grace = 2\n")
    result = command("run", "--collect-only", "--scenario=polite", "--", *kept)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"cancel contract: wrapper '{' '.join(kept)}' (the words behind --), scenario polite *, grace 2 *"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cancel_grase = 2", "cancelcontract run: *pytest.ini has cancel_grase, which is no setting; the settings are *cancel_grace*"),
        ("cancel_grace = soon", "ERROR: cancel_grace must be a number of seconds, from cancel_grace in pytest.ini: *"),
        ("cancel_grace = -1", "ERROR: grace must be a finite number of seconds not below 0, got -1.0 from cancel_grace in pytest.ini"),
    ],
)
def test_a_bad_setting_names_its_file(pytester: pytest.Pytester, command: Run, kept: list[str], text: str, message: str) -> None:
    (pytester.path / "pytest.ini").write_text(f"[pytest]\n{text}\n")
    result = command("run", "--", *kept)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_broken_wrapper_ends_it_with_pytests_status_and_only_the_message(command: Run, broken: list[str]) -> None:
    fast = [word.replace("cancel-", "") for word in FAST]
    result = command("run", *fast, "--scenario=deaf-child", "--", *broken)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "cancel contract broken: deaf-child:no-survivors",
            "  observed  pid *",
            f"  rerun     cancelcontract run --delivery 0.6 --grace 0.6 --kill-within 0.8 * --scenario deaf-child -- {' '.join(broken)}",
            "FAILED *test_cancel_contract[[]deaf-child] - cancel contract broken: deaf-child:no-survivors, *",
        ]
    )
    result.stdout.no_fnmatch_line("*conformance.py:[0-9]*")


def test_an_adapter_of_the_folder_is_found_by_name(pytester: pytest.Pytester, command: Run) -> None:
    pytester.makepyfile(
        team="""
        import subprocess

        class Queue:
            def start(self, run):
                return subprocess.Popen(run.argv, cwd=run.workspace, stdout=subprocess.DEVNULL)
            def cancel(self, job):
                job.kill()
                job.wait()
            def outcome(self, job):
                return "running" if job.poll() is None else "cancelled"
        """
    )
    fast = [word.replace("cancel-", "") for word in FAST]
    result = command("run", *fast, "--scenario=deaf", "--adapter=team:Queue")
    assert result.ret == pytest.ExitCode.OK
    for name, message in (
        ("team:Nothing", "AttributeError: *Nothing*"),
        ("no_team:Queue", "ModuleNotFoundError: *"),
        ("team", "an adapter must be given as MODULE:NAME, got 'team' from --adapter"),
        ("team:subprocess", "the adapter 'team:subprocess' from --adapter lacks start and cancel; *"),
    ):
        result = command("run", f"--adapter={name}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: *{message}"])


@pytest.mark.parametrize(
    "words", [["node", "wrap.mjs", "{workspace}", "{runner}"], ["sh", "-c", 'exec "$0" {runner}', "a b"], ["é", "", "'"]]
)
def test_a_commands_words_survive_being_joined(words: list[str]) -> None:
    import shlex

    assert shlex.split(join_words(words)) == words
