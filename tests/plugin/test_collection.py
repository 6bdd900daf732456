"""Which tests there are, and what is refused before anything is started: in-process, no drill runs."""

from __future__ import annotations

import pytest

CHECKS = """
    import pytest
    {marker}
    def test_cancel(cancel_contract):
        cancel_contract.check(None)
"""
CORE = ("polite", "slow-cleanup", "deaf", "deaf-child", "own-session-child", "daemon", "pipe-holder", "silent", "second-run")


@pytest.fixture
def collect(pytester: pytest.Pytester) -> object:
    def collect(marker: str, *words: str, ini: str = "") -> pytest.RunResult:
        pytester.makepyfile(CHECKS.format(marker=marker))
        if ini:
            pytester.makeini(f"[pytest]\n{ini}\n")
        return pytester.runpytest("--collect-only", "-q", *words)

    return collect


def _ids(result: pytest.RunResult) -> list[str]:
    return [line.partition("[")[2].rstrip("]") for line in result.outlines if "::test_cancel[" in line]


@pytest.mark.parametrize(
    ("marker", "words", "ini", "expected"),
    [
        pytest.param("", (), "", list(CORE), id="the fixture alone makes a test of each core scenario"),
        pytest.param(
            "@pytest.mark.cancel_contract(scenarios=['daemon', 'deaf'])", (), "", ["deaf", "daemon"], id="the table's order holds"
        ),
        pytest.param("@pytest.mark.cancel_contract(scenarios='deaf')", (), "", ["deaf"], id="one id as a word"),
        pytest.param("", ("--cancel-scenario=deaf", "--cancel-scenario=polite"), "", ["polite", "deaf"], id="the option is repeatable"),
        pytest.param("", (), "cancel_scenario = deaf polite", ["polite", "deaf"], id="the ini file"),
        pytest.param(
            "@pytest.mark.cancel_contract(scenarios='deaf')", (), "cancel_scenario = polite", ["deaf"], id="a marker wins over the ini file"
        ),
        pytest.param(
            "@pytest.mark.cancel_contract(scenarios='deaf')", ("--cancel-scenario=polite",), "", ["polite"], id="the command line wins"
        ),
        pytest.param(
            "@pytest.mark.cancel_contract(scenarios=['deaf', 'polite'])",
            ("--cancel-scenario=!deaf",),
            "",
            ["polite"],
            id="an exclusion on the command line is taken from the marker's",
        ),
        pytest.param(
            "@pytest.mark.cancel_contract(clauses=['fresh-start'])",
            (),
            "",
            ["second-run"],
            id="scenarios that judge no chosen clause are left out",
        ),
    ],
)
def test_scenarios_become_tests(collect, marker: str, words: tuple[str, ...], ini: str, expected: list[str]) -> None:  # type: ignore[no-untyped-def]
    result = collect(marker, *words, ini=ini)
    assert result.ret == pytest.ExitCode.OK
    assert _ids(result) == expected


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("graze=5", "unknown argument of the marker cancel_contract: 'graze'; the arguments are delivery, grace, *"),
        ("grace=float('inf')", "grace must be a finite number of seconds not below 0, got inf from marker grace"),
        ("grace=-1", "grace must be a finite number of seconds not below 0, got -1 from marker grace"),
        ("grace='soon'", "grace must be a finite number of seconds not below 0, got 'soon' from marker grace"),
        ("grace=1, cleanup=0.9", "cleanup must be at most 0.8 of grace (0.8 s; grace is 1 from marker grace), got 0.9 from marker cleanup"),
        ("scenarios=['dead']", "unknown scenario 'dead'; the scenarios are polite, * (from the marker cancel_contract)"),
        ("scenarios=['polite', '!polite']", "no scenario is left of polite !polite (from the marker cancel_contract)"),
        ("scenarios=5", "scenarios= must be a word or a list of words, got 5 from the marker cancel_contract"),
        (
            "clauses=['no-survivor']",
            "unknown clause in clauses= of the marker cancel_contract: 'no-survivor'; the clauses are cancel-delivered, *",
        ),
        ("scenarios='polite', clauses=['fresh-start']", "none of the chosen scenarios (polite) judges fresh-start; they judge *"),
        ("notice=['SIGUSR1']", "notice= is not in this release, *"),
        ("5", "the marker cancel_contract takes arguments by name only, got 5"),
        ("expected=['daemon:no-survivors']", 'expected= must be like {"daemon:no-survivors": "why, and a link"}, got *'),
        ("expected={'daemon:no-survivors': ''}", 'expected= must be like {"daemon:no-survivors": "why, and a link"}, got *'),
        (
            "expected={'daemon:fresh-start': 'why'}",
            "unknown clause in expected= for the scenario daemon: 'fresh-start'; *, bystander-unharmed",
        ),
        ("expected={'demon:no-survivors': 'why'}", "unknown scenario 'demon'; *"),
    ],
)
def test_a_marker_that_is_refused_is_one_clear_collection_error(collect, marker: str, message: str) -> None:  # type: ignore[no-untyped-def]
    result = collect(f"@pytest.mark.cancel_contract({marker})")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    name = "test_a_marker_that_is_refused_is_one_clear_collection_error.py::test_cancel"
    result.stdout.fnmatch_lines([f"{name}: {_literal(message)}"])
    assert "Traceback" not in result.stdout.str()


def _literal(message: str) -> str:
    """fnmatch takes brackets for a choice of letters."""
    return message.replace("[", "[[]")


@pytest.mark.parametrize(
    ("words", "ini", "message"),
    [
        (["--cancel-grace=nan"], "", "grace must be a finite number of seconds not below 0, got nan from --cancel-grace"),
        (["--cancel-grace=soon"], "", "*argument --cancel-grace: invalid float value: 'soon'"),
        ([], "cancel_grace = inf", "grace must be a finite number of seconds not below 0, got inf from ini cancel_grace"),
        ([], "cancel_grace = soon", "cancel_grace must be a number of seconds, from ini cancel_grace: *"),
        (["--cancel-scenario=dead"], "", "unknown scenario 'dead'; the scenarios are polite, * (from --cancel-scenario)"),
        (["--cancel-level=may"], "", "*argument --cancel-level: invalid choice: 'may'*"),
        ([], "cancel_level = may", "cancel_level must be must or should, got 'may' from ini cancel_level"),
        ([], "cancel_not_covered = ignore", "cancel_not_covered must be skip or fail, got 'ignore' from ini cancel_not_covered"),
        (["--cancel-jobs=0"], "", "jobs must be a whole number above 0, got 0 from --cancel-jobs"),
        (["--cancel-baseline=x.toml"], "", "the baseline x.toml (from --cancel-baseline) is not there; --cancel-baseline-update makes it"),
        (["--cancel-report=x.xml"], "", "a report's file must end in .json or .html, got 'x.xml' from --cancel-report"),
        (["--cancel-history=/dev/null/x"], "", "histories cannot be written to /dev/null/x (from --cancel-history): Not a directory"),
        (["--cancel-report=/dev/null/x.json"], "", "the report cannot be written to /dev/null/x.json (from --cancel-report): *"),
        (["--cancel-wrapper=python wrap.py"], "", "the command 'python wrap.py' from --cancel-wrapper never starts the runner: *"),
        (["--cancel-wrapper=wrap {runer}"], "", "unknown brace {runer} in '{runer}' from --cancel-wrapper; *"),
        (
            ["--cancel-wrapper=wrap {runner}", "--cancel-with=@dokcer"],
            "",
            "no such ladder: '@dokcer' from --cancel-with; allowed are @github-actions, *",
        ),
        (
            ["--cancel-wrapper=wrap {runner}"],
            "cancel_with = @INT TERM",
            "the pause between INT and TERM is missing in the ladder '@INT TERM' from ini cancel_with; *",
        ),
        (
            ["--cancel-start=submit {runner}", "--cancel-with=@docker"],
            "",
            "@docker from --cancel-with has no process to go to: *",
        ),
        (
            ["--cancel-wrapper=a {runner}", "--cancel-adapter=m:A"],
            "",
            "an adapter or a command, not both: got --cancel-adapter and --cancel-wrapper",
        ),
        (["--cancel-with=INT"], "", "--cancel-with is about a command: it needs --cancel-wrapper or --cancel-start"),
    ],
)
def test_an_option_that_is_refused_is_a_usage_error(pytester: pytest.Pytester, words: list[str], ini: str, message: str) -> None:
    pytester.makepyfile(CHECKS.format(marker=""))
    if ini:
        pytester.makeini(f"[pytest]\n{ini}\n")
    before = sorted(path.name for path in pytester.path.iterdir())
    result = pytester.runpytest("-p", "no:cacheprovider", *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = f"ERROR: {_literal(message)}" if not message.startswith("*") else _literal(message)
    result.stderr.fnmatch_lines([shown])
    assert [name for name in sorted(path.name for path in pytester.path.iterdir()) if name != "__pycache__"] == before


def test_terms_come_from_the_command_line_then_markers_the_nearest_first_then_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncancel_grace = 1\ncancel_delivery = 1\ncancel_early = 1\ncancel_settle = 1\n")
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.cancel_contract(grace=2, delivery=2, early=2, scenarios="polite")

        @pytest.mark.cancel_contract(grace=3, delivery=3)
        class TestWrapper:
            @pytest.mark.cancel_contract(grace=4, kill_within=4)
            def test_cancel(self, cancel_contract):
                terms = cancel_contract.terms
                names = ("grace", "delivery", "early", "settle", "kill_within", "retry")
                assert {name: (terms.value(name), terms.origin(name)) for name in names} == {
                    "grace": (4, "marker grace"),
                    "delivery": (3, "marker delivery"),
                    "early": (2, "marker early"),
                    "settle": (1, "ini cancel_settle"),
                    "kill_within": (5, "--cancel-kill-within"),
                    "retry": (3, "default"),
                }
                assert cancel_contract.scenario.id == "polite"
                pytest.skip("seen")
        """
    )
    result = pytester.runpytest("--cancel-kill-within=5")
    result.assert_outcomes(skipped=1)


def test_terms_in_toml_may_be_whole_numbers(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\ncancel_grace = 3\n")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract):
            assert cancel_contract.terms.grace_s == 3
            pytest.skip("seen")
        """
    )
    pytester.runpytest().assert_outcomes(skipped=1)


def test_the_marker_without_the_fixture_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.cancel_contract(grace=1)\ndef test_cancel(): pass\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*::test_cancel: it is marked with cancel_contract, but uses neither the fixture cancel_contract nor*"])


def test_a_marked_class_or_module_that_nothing_of_uses_the_fixture_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\npytestmark = pytest.mark.cancel_contract(grace=1)\ndef test_plain(): pass\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *.py is marked with cancel_contract, but no test in it uses the fixture cancel_contract or cancel_drill"]
    )


def test_a_marked_module_may_hold_other_tests_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.cancel_contract(scenarios="polite")
        def test_plain(): pass
        def test_cancel(cancel_contract): pytest.skip("seen")
        """
    )
    pytester.runpytest().assert_outcomes(passed=1, skipped=1)
    pytester.runpytest("-k", "plain").assert_outcomes(passed=1, deselected=1)


def test_the_fixture_without_a_check_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*::test_cancel[[]polite]: the test uses the fixture cancel_contract but never called cancel_contract.check(adapter)*"]
    )


def test_a_check_that_is_promised_and_not_awaited_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract):
            cancel_contract.acheck(None).close()
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*called cancel_contract.acheck() but did not await it*"])


def test_check_on_a_running_loop_names_acheck(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio, pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract):
            async def on_the_loop():
                cancel_contract.check(None)
            asyncio.run(on_the_loop())
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E * RuntimeError: cancel_contract.check() was called on a running event loop*await cancel_contract.acheck(adapter)"]
    )


def test_a_check_on_trio_names_acheck_and_acheck_without_a_loop_names_check(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, trio
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_on_trio(cancel_contract):
            async def on_the_loop():
                cancel_contract.check(None)
            trio.run(on_the_loop)
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_on_none(cancel_contract):
            cancel_contract.acheck(None).send(None)
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E * RuntimeError: cancel_contract.check() was called on a running event loop*await cancel_contract.acheck(adapter)",
            "E * RuntimeError: cancel_contract.acheck() was awaited where neither asyncio nor trio runs*cancel_contract.check(adapter)",
        ]
    )


def test_options_without_a_test_of_the_contract_are_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest("--cancel-grace=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --cancel-grace given, but no test of the cancel contract was collected; *"])


def test_ini_settings_without_a_test_of_the_contract_are_none(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncancel_grace = 1\n")
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.mark.slow
def test_options_without_a_test_of_the_contract_are_a_usage_error_under_xdist_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_subprocess("-n1", "--cancel-grace=1", timeout=30)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["ERROR: --cancel-grace given, but no test of the cancel contract was collected; *"])


def test_a_ladder_that_is_longer_than_a_run_may_live_is_told_at_the_top(pytester: pytest.Pytester) -> None:
    words = ("--pyargs", "pytest_cancelcontract.conformance", "--collect-only", "--cancel-wrapper=wrap {runner}")
    told = "cancel contract: the ladder (@kubernetes: SIGTERM, 30 s, SIGKILL to the wrapper) takes 30 s, but 12 s after cancel *"
    pytester.runpytest(*words, "--cancel-with=@kubernetes").stdout.fnmatch_lines([told])
    for enough in (["--cancel-with=@kubernetes", "--cancel-grace=30"], ["--cancel-with=@docker"]):
        pytester.runpytest(*words, *enough).stdout.no_fnmatch_line("*the ladder*")


def test_a_ladder_in_the_command_that_runs_a_drill_again_is_no_file_of_arguments(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract):
            assert cancel_contract._place.rerun.endswith(" '--cancel-with=@INT 2 KILL'")
            pytest.skip("seen")
        """
    )
    pytester.runpytest("--cancel-wrapper=wrap {runner}", "--cancel-with=@INT 2 KILL").assert_outcomes(skipped=1)


def test_contract_tests_get_a_time_limit_unless_they_carry_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite", start=1, call=1, grace=1)
        def test_from_terms(cancel_contract, request):
            assert request.node.get_closest_marker("timeout").args[0] == 3 * (1 + 1 + 5 + 1 + 2 + 2 + 0.5 + 1 + 1) + 30
            pytest.skip("seen")

        @pytest.mark.timeout(77)
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_own(cancel_contract, request):
            assert request.node.get_closest_marker("timeout").args[0] == 77
            pytest.skip("seen")
        """
    )
    pytester.runpytest().assert_outcomes(skipped=2)


def test_a_time_limit_on_the_command_line_stays(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cancel_contract(scenarios="polite")
        def test_cancel(cancel_contract, request):
            assert request.node.get_closest_marker("timeout") is None
            pytest.skip("seen")
        """
    )
    pytester.runpytest("--timeout=99").assert_outcomes(skipped=1)


def test_the_suite_is_collected_whatever_the_project_calls_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npython_files = check_*.py\npython_functions = check_*\n")
    result = pytester.runpytest("--pyargs", "pytest_cancelcontract.conformance", "--collect-only", "-q", "--cancel-scenario=polite")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*::test_cancel_contract[[]polite]"])


def test_the_suite_can_be_imported_into_a_file_of_the_team(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cancelcontract.conformance import test_cancel_contract
        pytestmark = pytest.mark.cancel_contract(scenarios=["deaf"])
        """
    )
    result = pytester.runpytest("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*.py::test_cancel_contract[[]deaf]"])


def test_nothing_is_said_and_little_is_imported_in_a_run_without_drills(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        def test_plain():
            ours = sorted(name for name in sys.modules if name.startswith(("pytest_cancelcontract", "uncooperative_runner", "psutil")))
            assert ours == ["pytest_cancelcontract", "pytest_cancelcontract.option_table", "pytest_cancelcontract.plugin"]
        """
    )
    result = pytester.runpytest_subprocess(timeout=30)
    result.assert_outcomes(passed=1)
    # The list of plugins, which pytest prints, is all.
    assert result.stdout.str().count("cancel") == result.stdout.str().count("plugins: cancelcontract")


def test_a_machine_on_which_no_death_can_be_proven_skips_with_that_reason(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import os\ndel os.pidfd_open\n")
    pytester.makepyfile("def test_cancel(cancel_contract):\n    cancel_contract.check(None)\n")
    result = pytester.runpytest_subprocess("-rs", timeout=60)
    result.assert_outcomes(skipped=9)
    result.stdout.fnmatch_lines(["*drills need Linux 5.3 or newer*(pidfd_open)*"])
