"""What a workflow's step prints and writes: whole pytest runs over a wrapper that is broken, and one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.platforms.conftest import BROKEN_TEST, MARKER_LINE, OnGitHub, Team
from tests.plugin.conftest import FAST, Run

STALE = '[[broken]]\ncheck = "polite:no-survivors"\nreason = "ticket 1"\nexpires = 2999-01-31\n'
PLACE = f"file=tests/test_cancel.py,line={MARKER_LINE}"


def annotations_in(result: pytest.RunResult) -> list[str]:
    return [line for line in [*result.outlines, *result.errlines] if "::error" in line or "::warning" in line]


def head(annotation: str) -> str:
    return annotation.removeprefix("::").partition("::")[0]


@pytest.mark.parametrize(
    "words",
    [(), *(pytest.param(words, marks=pytest.mark.slow) for words in [("-n", "2"), ("-q", "-q"), ("--no-summary",), ("-p", "no:terminal")])],
    ids=lambda words: " ".join(words) or "alone",
)
def test_a_broken_wrapper_is_one_annotation_at_the_marker_and_a_step_summary(
    pytester: pytest.Pytester, team: Team, on_github: OnGitHub, words: tuple[str, ...]
) -> None:
    team(BROKEN_TEST)
    summary = pytester.path / "summary.md"
    summary.write_text("of another tool")
    result = on_github(*words)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (only,) = annotations_in(result)
    assert only.startswith(f"::error {PLACE},title=cancel contract broken%3A deaf-child%3Ano-survivors (and 1 more)::  observed  pid ")
    assert "cancel contract broken: deaf-child:no-late-writes%0A  observed  changed after" in only
    assert "%0A  rerun     pytest " in only and "timeline" not in only
    text = summary.read_text()
    assert text.startswith("of another tool\n### Cancel contract: 2 drills: 1 kept, 1 broken\n")
    assert text.count("cancel contract broken: deaf-child:no-survivors\n  observed  pid ") == 1
    assert text.count("### Cancel contract") == 1 and "What fails the run" not in text


@pytest.mark.slow
def test_nothing_is_printed_or_written_elsewhere(pytester: pytest.Pytester, team: Team, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    team(BROKEN_TEST)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    result = run(*FAST)
    result.assert_outcomes(passed=1, failed=1)
    assert annotations_in(result) == []
    assert not (pytester.path / "summary.md").exists()


@pytest.mark.slow
def test_a_change_that_mends_the_wrapper_is_an_annotation_in_the_baseline(
    pytester: pytest.Pytester, team: Team, on_github: OnGitHub
) -> None:
    team(BROKEN_TEST.replace("BROKEN", "KEPT"))
    (pytester.path / "ci").mkdir()
    (pytester.path / "ci" / "known.toml").write_text("# Ours.\n\n" + STALE + STALE.replace("polite", "deaf-child"))
    result = on_github("--cancel-baseline=ci/known.toml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert annotations_in(result) == [
        f"::error file=ci/known.toml,line={line},title=cancel contract%3A baseline::{entry}:no-survivors is broken no more, it is kept:"
        " take the entry out"
        for line, entry in ((3, "polite"), (7, "deaf-child"))
    ]
    text = (pytester.path / "summary.md").read_text()
    assert text.startswith("\n### Cancel contract: 2 drills: 2 kept\n") and "**What fails the run**\n\n- ci\\/known\\.toml\\:3\\:" in text


@pytest.mark.slow
def test_paths_are_those_of_the_repository_and_not_of_the_folder_that_pytest_runs_in(
    pytester: pytest.Pytester, team: Team, on_github: OnGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    team(BROKEN_TEST.replace('"polite", ', ""))
    (pytester.path / "tests" / "pytest.ini").write_text("[pytest]\n")
    (pytester.path / "tests" / "known.toml").write_text(STALE + "test = 'test_gone.py::test_it'\n")
    monkeypatch.chdir(pytester.path / "tests")
    result = on_github("--rootdir=.", "--cancel-baseline=known.toml", "test_cancel.py")
    assert [head(one) for one in annotations_in(result)] == [
        f"error {PLACE},title=cancel contract broken%3A deaf-child%3Ano-survivors (and 1 more)",
        "error file=tests/known.toml,line=1,title=cancel contract%3A baseline",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "line", "title", "says"),
    [
        pytest.param(
            """
import subprocess
from pytest_cancelcontract import assert_no_survivors

pytestmark = pytest.mark.cancel_contract(grace=0.5)

def test_steps(cancel_drill):
    with cancel_drill("deaf-child") as drill:
        wrapper = subprocess.Popen([*WORDS[:-1], *drill.run.argv])
        drill.until_working()
        with drill.pressing():
            wrapper.terminate()
        wrapper.wait()
        drill.until_over()
    assert_no_survivors(drill)
""",
            4,
            "cancel contract broken%3A deaf-child%3Ano-survivors",
            "  observed  pid ",
            id="a test that presses the buttons itself",
        ),
        pytest.param(
            """
class TestThem:
    @pytest.fixture(autouse=True)
    def broken_ground(self):
        yield
        raise OSError("100% full, and\\nno more")

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_it(self, cancel_contract):
        raise OSError("at once")
""",
            7,
            "cancel contract not judged%3A test_it[polite]",
            "OSError: at once",
            id="a test that fails twice",
        ),
        pytest.param(
            """
@pytest.fixture(scope="session")
def cancel_adapter():
    raise OSError("100% full, and\\nno more")

@pytest.mark.cancel_contract(scenarios=["polite"])
def test_it(cancel_contract, cancel_adapter):
    cancel_contract.check(cancel_adapter)
""",
            5,
            "cancel contract not judged%3A test_it[polite]",
            "OSError: 100%25 full, and%0Ano more",
            id="a fixture",
        ),
        pytest.param(
            """
@pytest.mark.cancel_contract(scenarios=["polite"])
def test_it(cancel_contract):
    cancel_contract.check(CommandAdapter("false {runner}"))
""",
            1,
            "cancel contract not judged%3A test_it[polite]",
            "the drill polite could not be run, so no clause was judged: ",
            id="a wrapper that starts nothing",
        ),
        pytest.param(
            """
@pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors"], expected={"polite:no-survivors": "ticket 1"})
def test_it(cancel_contract):
    cancel_contract.check(KEPT)
""",
            1,
            "cancel contract kept%2C though expected to be broken%3A polite%3Ano-survivors",
            "  expected  broken, because: ticket 1",
            id="an expectation that is none any more",
        ),
    ],
)
def test_a_test_that_fails_otherwise_is_one_annotation_too(
    team: Team, on_github: OnGitHub, tests: str, line: int, title: str, says: str
) -> None:
    team(tests)
    (only,) = annotations_in(on_github())
    assert only.startswith(f"::error file=tests/test_cancel.py,line={MARKER_LINE - 2 + line + 1},title={title}::{says}")


@pytest.mark.slow
def test_tests_that_are_none_of_ours_are_left_alone(team: Team, on_github: OnGitHub) -> None:
    team(BROKEN_TEST + '\n\ndef test_other():\n    assert not "ours"\n')
    result = on_github("-k", "test_other")
    result.assert_outcomes(failed=1, deselected=2)
    assert annotations_in(result) == []


@pytest.mark.slow
def test_without_a_test_file_there_is_no_place(
    pytester: pytest.Pytester, command: Run, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", "/")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    words = [word.replace("--cancel-", "--") for word in FAST]
    result = command("run", *words, "--scenario", "deaf-child", "--", *broken)
    (only,) = annotations_in(result)
    assert only.startswith("::error title=cancel contract broken%3A deaf-child%3Ano-survivors (and 2 more)::  observed  pid ")
    assert "### Cancel contract: 1 drill: 1 broken" in (pytester.path / "summary.md").read_text()


@pytest.mark.slow
def test_a_failing_call_that_another_plugin_annotates_is_not_told_again(pytester: pytest.Pytester, team: Team, on_github: OnGitHub) -> None:
    """pytest-github-actions-annotate-failures registers its part under this name, on the controller only."""
    pytester.makeconftest("def pytest_configure(config):\n    config.pluginmanager.register(object(), 'annotate_errors')\n")
    team(BROKEN_TEST)
    (pytester.path / "known.toml").write_text(STALE)
    result = on_github("--cancel-baseline=known.toml")
    result.assert_outcomes(passed=1, failed=1)
    assert [head(one) for one in annotations_in(result)] == ["error file=known.toml,line=1,title=cancel contract%3A baseline"]


@pytest.mark.slow
def test_a_limit_and_a_report_that_fail_the_run_are_told_without_a_place(
    pytester: pytest.Pytester, team: Team, on_github: OnGitHub
) -> None:
    team(BROKEN_TEST.replace("BROKEN", "KEPT"))
    path = pytester.path / "old.json"
    on_github(f"--cancel-report={path}", "-k", "polite")
    old = json.loads(path.read_text())
    old["drills"][0]["measured"]["cancel_to_reported_s"] = -10.0
    path.write_text(json.dumps(old))
    pytester.makeconftest("def pytest_runtest_call(item):\n    (item.config.rootpath / 'new.json').mkdir()\n")
    result = on_github(f"--cancel-compare={path}", "--cancel-compare-limit=reported:5s", "--cancel-report=new.json", "-k", "polite")
    limit, problem = annotations_in(result)
    assert limit.startswith("::error title=cancel contract%3A limit::polite reported: ")
    assert problem.startswith("::error title=cancel contract%3A error::the report could not be written to ")


@pytest.mark.slow
def test_a_summary_that_cannot_be_written_is_a_warning(pytester: pytest.Pytester, team: Team, on_github: OnGitHub) -> None:
    team(BROKEN_TEST.replace("BROKEN", "KEPT"))
    Path(pytester.path / "summary.md").mkdir()
    result = on_github("-k", "polite")
    assert result.ret == pytest.ExitCode.OK
    assert annotations_in(result) == ["::warning title=cancel contract::the step's summary cannot be written: Is a directory"]


@pytest.mark.slow
def test_an_output_that_takes_no_umlauts_gets_their_escapes(team: Team, on_github: OnGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    team('@pytest.mark.cancel_contract(scenarios=["polite"])\ndef test_it(cancel_contract):\n    raise OSError("grün")\n')
    (only,) = annotations_in(on_github())
    assert only.endswith("::OSError: gr\\xfcn")
