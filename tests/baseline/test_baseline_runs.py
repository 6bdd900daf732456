"""The baseline at the gate: whole pytest runs over a wrapper that is broken, and one that is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.report.baseline import parse
from tests.plugin.conftest import FAST, Run

SHOWN = ["no-survivors", "outcome-not-early", "no-late-writes"]
"""What the broken wrapper breaks in ``deaf-child``, and these tests ask for."""
NAMES = f"clauses={[*SHOWN, 'cancel-delivered']!r}"
TEAM = """
    import pytest
    from pytest_cancelcontract import CommandAdapter

    KEPT = CommandAdapter({kept!r})
    BROKEN = CommandAdapter({broken!r})
"""
BROKEN_TEST = f"""
    @pytest.mark.cancel_contract(scenarios=["polite", "deaf-child"], {NAMES})
    def test_worker(cancel_contract):
        cancel_contract.check(BROKEN)
"""
MUTE_TEST = """
    class Mute:
        def start(self, run):
            return KEPT.start(run)
        def cancel(self, handle):
            KEPT.cancel(handle)

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors", "outcome-reported"])
    def test_mute(cancel_contract):
        cancel_contract.check(Mute())
"""
MENDED_TEST = BROKEN_TEST.replace("BROKEN", "KEPT")


def day(days: int) -> str:
    return str(datetime.now(UTC).date() + timedelta(days=days))


def entries(*clauses: str, reason: str = "ticket 1", expires: str = "", scenario: str = "deaf-child", kind: str = "broken") -> str:
    return "\n".join(
        f'[[{kind}]]\ncheck = "{scenario}:{clause}"\nreason = "{reason}"\nexpires = {expires or day(30)}\n' for clause in clauses
    )


@pytest.fixture
def team(pytester: pytest.Pytester, kept: list[str], broken: list[str]) -> Any:
    """Write a team's test file ``test_cancel.py`` with adapters ``KEPT`` and ``BROKEN``, and its baseline ``known.toml``."""

    def team(tests: str, known: str | None) -> Path:
        pytester.makepyfile(test_cancel=TEAM.format(kept=kept, broken=broken) + tests)
        path = pytester.path / "known.toml"
        if known is not None:
            path.write_text(known)
        return path

    return team


def gate(run: Run, *words: str) -> pytest.RunResult:
    return run(*FAST, "--cancel-baseline=known.toml", *words)


def test_what_is_known_passes_and_is_told(team: Any, run: Run) -> None:
    team(BROKEN_TEST, entries(*SHOWN))
    result = gate(run)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            f"expected broken: deaf-child:no-survivors: ticket 1 (known.toml:1, until {day(30)})",
            f"expected broken: deaf-child:outcome-not-early: ticket 1 (known.toml:6, until {day(30)})",
        ]
    )
    result.stdout.no_fnmatch_line("*FAILED*")


@pytest.mark.slow
def test_what_is_not_known_fails_as_ever(team: Any, run: Run) -> None:
    team(BROKEN_TEST, entries(*SHOWN[1:]))
    result = gate(run, "--cancel-ignore=*.tmp", "--cancel-ignore=a b")
    result.assert_outcomes(passed=1, failed=1)
    again = "--cancel-ignore '[*].tmp' --cancel-ignore 'a b' --cancel-baseline known.toml --cancel-delivery 0.6"
    result.stdout.fnmatch_lines(
        [
            "E * cancel contract broken: deaf-child:no-survivors",
            f"E * rerun     pytest 'test_cancel.py::test_worker[[]deaf-child]' {again} *",
        ]
    )
    result.stdout.no_fnmatch_line("*cancel contract broken: deaf-child:outcome-not-early*")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "2"), ("-q",)], ids=["alone", "two workers", "quiet"])
def test_a_change_that_mends_the_wrapper_turns_its_stale_entries_red(team: Any, run: Run, words: tuple[str, ...]) -> None:
    team(MENDED_TEST, entries(*SHOWN))
    result = gate(run, *words)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    told = [line for line in result.outlines if line.startswith("FAILED")]
    assert told == [
        f"FAILED known.toml:{line}: deaf-child:{clause} is broken no more, it is kept: take the entry out"
        for line, clause in zip((1, 6, 11), SHOWN, strict=True)
    ], "each once"


def test_without_a_terminal_what_fails_the_run_is_on_the_standard_error(team: Any, run: Run) -> None:
    team(MENDED_TEST, entries("no-survivors"))
    result = gate(run, "-p", "no:terminal")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.outlines == []
    assert result.errlines == ["FAILED known.toml:1: deaf-child:no-survivors is broken no more, it is kept: take the entry out"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("-k", "polite"), ("--cancel-scenario=polite",), ("-n", "2", "-k", "polite")], ids=str)
def test_an_entry_for_a_drill_that_was_not_run_is_not_stale(team: Any, run: Run, words: tuple[str, ...]) -> None:
    team(MENDED_TEST, entries(*SHOWN))
    result = gate(run, *words)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, deselected=1 if words == ("-k", "polite") else 0)


@pytest.mark.slow
def test_an_expired_entry_accepts_nothing_and_is_told(team: Any, run: Run) -> None:
    team(BROKEN_TEST, entries(*SHOWN[:1], expires=day(-1)) + "\n" + entries(*SHOWN[1:], expires=day(0)))
    result = gate(run)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * cancel contract broken: deaf-child:no-survivors",
            f"FAILED known.toml:1: deaf-child:no-survivors expired on {day(-1)}: mend it*",
        ]
    )
    result.stdout.no_fnmatch_line("*known.toml:6*expired*")


@pytest.mark.slow
def test_an_expired_entry_fails_a_run_that_is_green_otherwise(team: Any, run: Run) -> None:
    team(MENDED_TEST, entries("no-survivors", expires=day(-1)))
    result = gate(run, "-k", "polite")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, deselected=1)


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["alone", "a worker"])
def test_an_entry_whose_test_was_renamed_names_nothing(team: Any, run: Run, words: tuple[str, ...]) -> None:
    old, gone = "test = 'test_cancel.py::test_old'\n", "test = 'test_gone.py::test_worker'\n"
    team(MENDED_TEST, entries("no-survivors") + old + entries("no-survivors") + gone)
    result = gate(run, "-k", "polite", *words)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [line for line in result.outlines if line.startswith("FAILED")] == [
        "FAILED known.toml:1: deaf-child:no-survivors names nothing: test_cancel.py::test_old is no test of the cancel contract",
        "FAILED known.toml:6: deaf-child:no-survivors names nothing: test_gone.py::test_worker is no test of the cancel contract",
    ]


@pytest.mark.slow
def test_a_part_of_a_file_says_nothing_of_its_other_tests(team: Any, run: Run) -> None:
    team(MENDED_TEST, entries("no-survivors") + "test = 'test_cancel.py::test_old'\n")
    assert gate(run, "test_cancel.py::test_worker", "-k", "polite").ret == pytest.ExitCode.OK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "message"),
    [
        (None, "ERROR: the baseline known.toml (from --cancel-baseline) is not there; --cancel-baseline-update makes it"),
        (entries("no-survivors", reason=""), "ERROR: known.toml:1: deaf-child:no-survivors has no reason: a person must write why *"),
        (entries("no-survivor"), "ERROR: known.toml:1: deaf-child:no-survivor names nothing: the scenario deaf-child is judged by *"),
        ("[[broken]]\n", "ERROR: known.toml:1: check must be like *"),
    ],
)
def test_a_file_that_says_nothing_clear_ends_the_run_before_it_begins(team: Any, run: Run, known: str | None, message: str) -> None:
    team(BROKEN_TEST, known)
    result = gate(run)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


@pytest.mark.slow
def test_an_update_needs_a_file(team: Any, run: Run) -> None:
    team(BROKEN_TEST, None)
    result = run("--cancel-baseline-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --cancel-baseline-update needs a file: --cancel-baseline"])


def test_an_update_writes_what_is_broken_now_and_a_person_the_reasons(team: Any, run: Run) -> None:
    path = team(BROKEN_TEST, None)
    result = gate(run, "--cancel-baseline-update", "-n", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["known.toml: 3 entries written, 0 taken out; 3 of 3 have no reason yet, which a person must write"])
    found = parse(path.read_text(), "known.toml", for_update=True).entries
    assert [(one.fault.check, one.fault.test, one.reason) for one in found] == [
        (f"deaf-child:{clause}", "test_cancel.py::test_worker", "") for clause in SHOWN
    ]
    refused = gate(run)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert len([line for line in refused.errlines if "has no reason: a person must write why" in line]) == 3
    path.write_text(path.read_text().replace('reason = ""', 'reason = "ticket 1"'))
    assert gate(run).ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_an_update_takes_out_what_is_broken_no_more_and_leaves_the_rest(team: Any, run: Run) -> None:
    ours = "# Ours.\n\n"
    others = entries("no-survivors", scenario="daemon") + "\n"
    path = team(MENDED_TEST, ours + others + "# mended last week\n" + entries(*SHOWN) + "# the end\n")
    result = gate(run, "--cancel-baseline-update")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["known.toml: 0 entries written, 3 taken out"])
    assert path.read_text() == ours + others + "# the end\n"


@pytest.mark.slow
def test_an_update_never_puts_a_day_off(team: Any, run: Run) -> None:
    known = entries(*SHOWN, expires=day(-1))
    path = team(BROKEN_TEST, known)
    result = gate(run, "--cancel-baseline-update", "-k", "deaf-child")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["FAILED known.toml:1: deaf-child:no-survivors expired on *"])
    assert path.read_text() == known


@pytest.mark.slow
def test_a_waiver_lets_pass_what_the_adapter_lacks(team: Any, run: Run) -> None:
    team(
        MUTE_TEST,
        entries("outcome-reported", scenario="polite", kind="not-covered"),
    )
    strict = "--cancel-not-covered=fail"
    run(*FAST, strict).assert_outcomes(failed=1)
    result = gate(run, strict)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_waiver_for_what_is_covered_is_stale(team: Any, run: Run) -> None:
    team(MENDED_TEST, entries("cancel-delivered", scenario="polite", kind="not-covered"))
    result = gate(run, "-k", "polite")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED known.toml:1: polite:cancel-delivered is not covered no more, it is kept: take the entry out"])


@pytest.mark.slow
def test_an_update_writes_waivers_only_where_not_covered_fails(team: Any, run: Run) -> None:
    path = team(
        MUTE_TEST,
        "",
    )
    assert gate(run, "--cancel-baseline-update").ret == pytest.ExitCode.OK
    assert path.read_text() == ""
    gate(run, "--cancel-baseline-update", "--cancel-not-covered=fail").assert_outcomes(failed=1)
    (entry,) = parse(path.read_text(), "known.toml", for_update=True).entries
    assert (str(entry.fault.kind), entry.fault.check) == ("not-covered", "polite:outcome-reported")


@pytest.mark.slow
def test_a_broken_should_is_no_entry_unless_it_fails(team: Any, run: Run) -> None:
    """An exit status of 0 after a cancel is a SHOULD, where nothing else tells the outcome."""
    path = team(
        """
    import sys
    ZERO = CommandAdapter([sys.executable, "zero.py", "{runner}"])

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["outcome-not-success"])
    def test_zero(cancel_contract):
        cancel_contract.check(ZERO)
        """,
        "",
    )
    (path.parent / "zero.py").write_text(
        "import signal, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "signal.signal(signal.SIGTERM, lambda *_: child.terminate())\n"
        "child.wait()\n"
    )
    zero = path.parent / "test_cancel.py"
    zero.write_text(zero.read_text().replace('"zero.py"', repr(str(path.parent / "zero.py"))))
    assert gate(run, "--cancel-baseline-update").ret == pytest.ExitCode.OK
    assert path.read_text() == ""
    gate(run, "--cancel-baseline-update", "--cancel-level=should").assert_outcomes(failed=1)
    (entry,) = parse(path.read_text(), "known.toml", for_update=True).entries
    assert entry.fault.check == "polite:outcome-not-success"


@pytest.mark.slow
def test_the_command_takes_a_baseline_too(pytester: pytest.Pytester, command: Run, broken: list[str]) -> None:
    fast = [word.replace("cancel-", "") for word in FAST]
    words = ("run", *fast, "--scenario=deaf-child", "--baseline=known.toml")
    result = command(*words, "--baseline-update", "--", *broken)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"  rerun     cancelcontract run --baseline known.toml --delivery * --scenario deaf-child -- {' '.join(broken)}",
            "known.toml: * entries written, 0 taken out; *",
        ]
    )
    path = pytester.path / "known.toml"
    assert {entry.fault.test for entry in parse(path.read_text(), "known.toml", for_update=True).entries} == {""}
    path.write_text(path.read_text().replace('reason = ""', 'reason = "ticket 1"'))
    assert command(*words, "--", *broken).ret == pytest.ExitCode.OK
    missing = command("run", "--baseline=other.toml", "--", *broken)
    missing.stderr.fnmatch_lines(["ERROR: the baseline other.toml (from --baseline) is not there; --baseline-update makes it"])


@pytest.mark.slow
def test_the_ini_file_may_name_it_beside_itself(pytester: pytest.Pytester, team: Any, run: Run) -> None:
    team(BROKEN_TEST, entries(*SHOWN))
    pytester.makeini("[pytest]\ncancel_baseline = known.toml\n")
    (pytester.path / "below").mkdir()
    assert run(*FAST, "--rootdir=.", "-k", "deaf-child").ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_a_step_by_step_drill_is_judged_by_its_own_asserts(team: Any, run: Run) -> None:
    """Neither does the baseline accept what a test itself asserts, nor is an entry stale for it, nor written for it."""
    path = team(
        """
    from pytest_cancelcontract import assert_no_survivors
    import subprocess

    def test_steps(cancel_drill):
        with cancel_drill("deaf-child") as drill:
            wrapper = subprocess.Popen([word for word in BROKEN_WORDS if word != "{runner}"] + list(drill.run.argv))
            drill.until_working()
            with drill.pressing():
                wrapper.terminate()
            wrapper.wait()
            drill.until_over()
        assert_no_survivors(drill)
        """.replace("BROKEN_WORDS", "list(BROKEN.command)"),
        "",
    )
    test = path.parent / "test_cancel.py"
    test.write_text(test.read_text().replace("list(BROKEN.command)", "WORDS").replace("BROKEN = CommandAdapter(", "WORDS = ("))
    result = gate(run, "--cancel-baseline-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * cancel contract broken: deaf-child:no-survivors"])
    assert path.read_text() == ""


@pytest.mark.slow
def test_nothing_is_judged_or_written_where_tests_are_only_shown(team: Any, run: Run) -> None:
    known = entries("no-survivors", expires=day(-1)) + "test = 'test_gone.py::test_worker'\n"
    path = team(BROKEN_TEST, known)
    result = gate(run, "--cancel-baseline-update", "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.OK
    assert path.read_text() == known
    result.stdout.no_fnmatch_line("*known.toml:1*")


@pytest.mark.slow
def test_only_what_failed_last_says_nothing_of_a_files_other_tests(pytester: pytest.Pytester, team: Any) -> None:
    """pytest leaves the tests that passed out while it collects, so that they look as if they were not there."""
    both = BROKEN_TEST.replace('"deaf-child"', '"daemon"') + BROKEN_TEST.replace("test_worker", "test_other")
    team(both, entries("no-survivors", scenario="daemon") + "test = 'test_cancel.py::test_worker'\n")
    words = [*FAST, "--cancel-baseline=known.toml"]
    pytester.runpytest_subprocess(*words, "-k", "test_other and deaf", timeout=50).assert_outcomes(failed=1, deselected=3)
    again = pytester.runpytest_subprocess(*words, "--lf", timeout=50)
    again.assert_outcomes(failed=1)
    again.stdout.no_fnmatch_line("*names nothing*")


@pytest.mark.slow
def test_a_baseline_that_cannot_be_written_is_an_error(pytester: pytest.Pytester, team: Any, run: Run) -> None:
    team(BROKEN_TEST, None)
    (pytester.path / "file").write_text("")
    result = run(*FAST, "--cancel-baseline=file/known.toml", "--cancel-baseline-update", "-k", "polite")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the baseline file/known.toml (from --cancel-baseline) cannot be read: Not a directory"])
