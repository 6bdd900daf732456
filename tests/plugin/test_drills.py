"""Whole drills through the plugin: results, failures, overlap, and that nothing outlives pytest. Each runs in a process of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import FAST, Run

TEAM = """
    import asyncio, os, subprocess, sys
    import pytest
    from pytest_cancelcontract import CommandAdapter, ContractBroken, assert_no_survivors, assert_outcome_not_early

    KEPT_WORDS = {kept!r}
    KEPT = CommandAdapter(KEPT_WORDS)
    BROKEN = CommandAdapter({broken!r})
"""


@pytest.fixture
def team(pytester: pytest.Pytester, kept: list[str], broken: list[str]) -> Any:
    """Write a team's test file: adapters ``KEPT`` and ``BROKEN``, and the given tests."""

    def team(body: str) -> None:
        pytester.makepyfile(TEAM.format(kept=kept, broken=broken) + body)

    return team


def test_a_kept_and_a_broken_wrapper_are_told_apart(team: Any, run: Run) -> None:
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["polite", "deaf-child"])
    def test_kept(cancel_contract):
        result = cancel_contract.check(KEPT)
        assert result.verdict == "kept" and result.history

    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    def test_broken(cancel_contract):
        cancel_contract.check(BROKEN)
        """
    )
    result = run(*FAST, "--cancel-report=report.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "cancel drill polite: 30 s at most until the runner works, then 2 s from cancel until it must be gone",
            "E *ContractBroken: cancel contract broken: deaf-child:no-survivors",
            "E * observed  pid *",
            "E * expected  no process of this run alive at the deadline, 2.0 s after pressed (*grace from --cancel-grace*",
            "E * timeline *runner works*",
            "E * rerun     pytest '*::test_broken[[]deaf-child]' --cancel-delivery 0.6 *",
            "E * history   */.cancelcontract/*/*test_broken-deaf-child.jsonl",
            "test * scenario * verdict * delivered * gone *",
            "*::test_kept * deaf-child  kept *",
            "*::test_broken * deaf-child  broken: no-survivors*",
        ]
    )


def test_the_report_has_the_contracts_format(pytester: pytest.Pytester, command: Run, kept: list[str]) -> None:
    result = command(
        "run",
        *(word.replace("cancel-", "") for word in FAST),
        "--scenario=polite",
        "--scenario=wedged",
        "--report=out/report.json",
        "--",
        *kept,
    )
    assert result.ret == pytest.ExitCode.OK
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    assert list(report) == ["format", "format_version", "contract", "wrapper", "terms", "machine", "drills", "not_covered"]
    assert (report["format"], report["format_version"], report["contract"]) == ("cancel-contract-report", 1, 1)
    assert report["wrapper"] == " ".join(kept)
    assert report["terms"]["grace"] == {"value": 0.6, "origin": "--grace"}
    assert report["terms"]["lease"] == {"value": None, "origin": "default"}
    drill, _ = report["drills"]
    assert list(drill) == ["test", "scenario", "verdict", "attempts", "measured", "checks", "history"]
    assert (drill["scenario"], drill["verdict"]) == ("polite", "kept")
    assert drill["measured"]["survivors"] == 0
    assert drill["measured"]["late_tokens"] == 0
    assert list(drill["checks"][0]) == ["clause", "level", "verdict", "observed", "expected", "why", "try"]
    assert Path(drill["history"]).is_file()
    assert [(row["scenario"], row["clause"]) for row in report["not_covered"]] == [("wedged", "stall-detected")]
    assert "{stall_after}" in report["not_covered"][0]["lacks"]


def test_what_is_expected_to_be_broken_passes_and_is_stale_when_kept(team: Any, run: Run) -> None:
    team(
        """
    known = {"deaf-child:no-survivors": "ticket 1", "deaf-child:outcome-not-early": "ticket 1", "deaf-child:no-late-writes": "ticket 1"}

    @pytest.mark.cancel_contract(scenarios=["deaf-child"], expected=known)
    def test_known(cancel_contract):
        cancel_contract.check(BROKEN)

    @pytest.mark.cancel_contract(scenarios=["polite"], expected={"polite:no-survivors": "ticket 2"})
    def test_stale(cancel_contract):
        cancel_contract.check(KEPT)
        """
    )
    result = run(*FAST)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * cancel contract kept, though expected to be broken: polite:no-survivors",
            "E * expected  broken, because: ticket 2",
            "expected broken: deaf-child:no-survivors: ticket 1",
        ]
    )


def test_not_covered_fails_where_it_is_asked_for(team: Any, run: Run) -> None:
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_kept(cancel_contract):
        cancel_contract.check(KEPT)

    class Mute:
        def start(self, run):
            return KEPT.start(run)
        def cancel(self, handle):
            KEPT.cancel(handle)

    @pytest.mark.cancel_contract(scenarios=["polite", "second-run"])
    def test_mute(cancel_contract):
        cancel_contract.check(Mute())
        """
    )
    result = run(*FAST, "--cancel-not-covered=fail", "-k", "polite")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E * cancel contract not covered: polite:outcome-reported", "E * note      not covered fails here*", "E * lacks *outcome(handle)*"]
    )
    run(*FAST, "-k", "polite").assert_outcomes(passed=2)


def test_an_outcome_in_words_that_nobody_explained_is_no_broken_clause(team: Any, run: Run) -> None:
    team(
        """
    class Cryptic:
        def start(self, run):
            return KEPT.start(run)
        def cancel(self, handle):
            KEPT.cancel(handle)
            self.cancelled = True
        def outcome(self, handle):
            return "REVOKED" if getattr(self, "cancelled", False) else "running"

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_cryptic(cancel_contract):
        cancel_contract.check(Cryptic())
        """
    )
    result = run(*FAST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the drill polite could not be run*the outcome cannot be read: outcome must answer with one of*'REVOKED'*"]
    )


def test_an_async_test_awaits_acheck_while_its_loop_goes_on(team: Any, run: Run) -> None:
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_async(cancel_contract):
        async def checks():
            ticks = []
            async def tick():
                while True:
                    ticks.append(1)
                    await asyncio.sleep(0.02)
            ticking = asyncio.create_task(tick())
            result = await cancel_contract.acheck(KEPT)
            ticking.cancel()
            assert len(ticks) > 5
            return result
        assert asyncio.run(checks()).verdict == "kept"
        """
    )
    run(*FAST).assert_outcomes(passed=1)


@pytest.mark.slow
def test_an_async_test_awaits_acheck_on_either_loop_of_anyio(team: Any, run: Run) -> None:
    pytest.importorskip("anyio.pytest_plugin")
    team(
        """
    import anyio

    @pytest.mark.anyio
    @pytest.mark.cancel_contract(scenarios=["polite"])
    async def test_async(cancel_contract):
        ticks = []
        async def tick():
            while True:
                ticks.append(1)
                await anyio.sleep(0.02)
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            result = await cancel_contract.acheck(KEPT)
            group.cancel_scope.cancel()
        assert len(ticks) > 5
        assert result.verdict == "kept"

    @pytest.mark.anyio
    @pytest.mark.cancel_contract(scenarios=["polite"])
    async def test_given_up(cancel_contract):
        with anyio.move_on_after(0.3) as scope:
            await cancel_contract.acheck(KEPT)
        assert scope.cancelled_caught

    @pytest.mark.anyio
    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    async def test_broken(cancel_contract):
        await cancel_contract.acheck(BROKEN)
        """
    )
    result = run(*FAST, "-v")
    result.assert_outcomes(passed=4, failed=2)
    for loop in ("asyncio", "trio"):
        result.stdout.fnmatch_lines([f"*::test_async[[]{loop}-polite] *", "cancel drill polite: *", "*PASSED*"])
        result.stdout.fnmatch_lines(
            [f"*::test_broken[[]{loop}-deaf-child] *", "E *ContractBroken: cancel contract broken: deaf-child:no-survivors"]
        )


def test_step_by_step_a_test_presses_the_buttons_itself(team: Any, run: Run) -> None:
    team(
        """
    @pytest.mark.cancel_contract(delivery=0.6, kill_within=0.8, settle=0.2)
    def test_steps(cancel_drill):
        with cancel_drill("deaf", grace=0.6) as drill:
            assert drill.terms.origin("grace") == "cancel_drill(grace=…)" and drill.terms.origin("delivery") == "marker delivery"
            job = subprocess.Popen(drill.run.argv, cwd=drill.run.workspace, stdout=subprocess.DEVNULL)
            drill.watch(lambda: "RUNS" if job.poll() is None else "REVOKED", {"REVOKED": "cancelled"})
            drill.until_working()
            with drill.pressing():
                job.terminate()
                try:
                    job.wait(0.3)
                except subprocess.TimeoutExpired:
                    job.kill()
                    job.wait()
            drill.until_over()
        assert_no_survivors(drill)
        assert_outcome_not_early(drill)
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_worker_that_is_up_before_any_drill_takes_the_shim(team: Any, run: Run) -> None:
    team(
        """
    class Worker:
        def __init__(self, folder):
            self.path = f"{folder}:{os.environ['PATH']}"
        def start(self, run):
            env = {**run.env, "PATH": self.path}
            return subprocess.Popen(["claude", "-p", "some words"], cwd=run.workspace, env=env, stdout=subprocess.DEVNULL)
        def cancel(self, job):
            job.kill()
            job.wait()
        def outcome(self, job):
            return "running" if job.poll() is None else "cancelled"

    @pytest.fixture(scope="session")
    def worker(cancel_runner_path):
        return Worker(cancel_runner_path.shim("claude"))

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf"], clauses=["no-survivors", "outcome-reported"])
    def test_worker(cancel_contract, worker):
        cancel_contract.check(worker)

    def test_no_drill_in_flight(worker):
        idle = subprocess.run(["claude"], env={**os.environ, "PATH": worker.path}, capture_output=True, text=True)
        assert idle.returncode == 70 and "no drill is in flight, so this claude has nothing to run" in idle.stderr
        """
    )
    run(*FAST).assert_outcomes(passed=3)


def test_drills_of_the_shared_adapter_overlap_and_each_test_gets_its_own(pytester: pytest.Pytester, command: Run, kept: list[str]) -> None:
    fast = [word.replace("cancel-", "") for word in FAST]
    scenarios = ("deaf", "deaf-child", "own-session-child", "pipe-holder")
    result = command("run", *fast, "-v", *(f"--scenario={one}" for one in scenarios), "--", *kept)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"*::test_cancel_contract[[]{one}] PASSED*" for one in scenarios])
    times = sorted(_pressed_and_over(path) for path in (pytester.path / ".cancelcontract").rglob("*.jsonl"))
    assert len(times) == len(scenarios)
    assert any(later[0] < earlier[1] for earlier, later in itertools.pairwise(times)), "no two drills overlapped"


def _pressed_and_over(path: Path) -> tuple[float, float]:
    seen = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return next(one["at_s"] for one in seen if one["kind"] == "pressed"), seen[-1]["at_s"]


@pytest.mark.parametrize("where", [pytest.param("CI", marks=pytest.mark.slow), "NOWHERE"])
def test_pytests_last_lines_name_all_that_is_broken_and_show_no_evidence_again(
    team: Any, run: Run, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Where CI is set, pytest ends with the whole message of each failure."""
    monkeypatch.setenv(where, "true")
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    def test_team(cancel_contract):
        cancel_contract.check(BROKEN)
        """
    )
    lines = run(*FAST).outlines
    clauses = ("no-survivors", "outcome-not-early", "no-late-writes")
    assert len([line for line in lines if " observed  " in line]) == len(clauses)
    [last] = [line.partition(" - ") for line in lines if line.startswith("FAILED ")]
    assert last[0].endswith("::test_team[deaf-child]")
    assert ("cancel contract broken: " + ", ".join(f"deaf-child:{clause}" for clause in clauses)).startswith(last[2].removesuffix("..."))
    assert "deaf-child:no-survivors" in last[2]


@pytest.mark.slow
def test_a_path_that_is_not_utf_8_crosses_xdist(team: Any, run: Run, pytester: pytest.Pytester, broken: list[str]) -> None:
    """A worker that cannot send a result is an internal error, and the run could end as a success."""
    folder = pytester.path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "broken.py").write_bytes(Path(broken[1]).read_bytes())
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    def test_team(cancel_contract):
        place = os.path.abspath(os.fsdecode(b"caf\\xe9/broken.py"))
        cancel_contract.check(CommandAdapter([sys.executable, place, "{runner}"]))
        """
    )
    result = run(*FAST, "-n2", "--cancel-report=report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (drill,) = json.loads((pytester.path / "report.json").read_text())["drills"]
    assert "no-survivors" in drill["verdict"] or drill["verdict"] == "broken"


def test_an_internal_error_that_costs_drills_is_no_success(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
    import pytest

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_team(cancel_contract, record_property):
        record_property("name", "x\\udcff")  # xdist cannot send this
        assert False
        """
    )
    result = run("-n1")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "ERROR: an internal error of pytest, above: not all that was to be drilled was judged" in result.outlines


def test_stopping_at_the_first_failure_leaves_no_drill_behind(command: Run, broken: list[str]) -> None:
    """The leak guard looks; here, that the drills which were started ahead do not delay the end."""
    fast = [word.replace("cancel-", "") for word in FAST]
    result = command("run", *fast, "-x", "--scenario=exits-zero", "--scenario=deaf-child", "--scenario=daemon", "--", *broken)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])


def test_results_cross_xdist(run: Run, kept: list[str], pytester: pytest.Pytester) -> None:
    words = ("-n2", "--pyargs", "pytest_cancelcontract.conformance", f"--cancel-wrapper={' '.join(kept)}", "--cancel-report=report.json")
    result = run(*FAST, *words, "--cancel-scenario=polite", "--cancel-scenario=deaf")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines_random(["polite * kept *", "deaf * kept *"])
    assert {drill["scenario"] for drill in json.loads((pytester.path / "report.json").read_text())["drills"]} == {"polite", "deaf"}


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        pytest.param(
            ["/nonexistent/wrap", "{runner}"], ["*cannot start '/nonexistent/wrap': No such file or directory*"], id="it does not exist"
        ),
        pytest.param(
            ["sh", "-c", "echo no config >&2; printf '\\033[2J\\377'; exit 3; {runner}"],
            ["*the wrapper ended with status 3 before the runner worked*", "no config", "\\x1b[[]2J\\xff"],
            id="it exits before the runner is up",
        ),
        pytest.param(
            ["sh", "-c", "head -c 3000000 /dev/urandom; echo the end; exit 3; {runner}"],
            ["*the wrapper ended with status 3 before the runner worked*", "*the end"],
            id="it prints megabytes of anything",
        ),
        pytest.param(
            ["sh", "-c", "echo idle; sleep 60; {runner}"],
            ["*the runner did not work within 0.5 s (start, from --start-within)*", "idle"],
            id="its runner never works",
        ),
    ],
)
def test_a_wrapper_that_cannot_be_drilled_is_an_error_with_its_output(command: Run, wrapper: list[str], message: list[str]) -> None:
    result = command("run", "--start-within=0.5", "--grace=0.5", "--scenario=polite", "--", *wrapper)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["the drill polite could not be run, so no clause was judged: *"])
    result.stdout.fnmatch_lines(message)
    result.stdout.no_fnmatch_line("*cancel contract broken*")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_adapter_is_closed_after_its_last_drill_and_before_its_fixture(team: Any, run: Run) -> None:
    team(
        """
    told = []

    class Closing:
        def __init__(self, name):
            self.name = name
        def start(self, run):
            return subprocess.Popen(run.argv, cwd=run.workspace, stdout=subprocess.DEVNULL)
        def cancel(self, job):
            job.kill()
            job.wait()
        def close(self):
            told.append(self.name)

    @pytest.fixture(scope="session")
    def cancel_adapter():
        yield Closing("shared")
        told.append("fixture")
        assert told == ["own", "shared", "fixture"]

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf"], clauses=["no-survivors"])
    def test_shared(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        assert told == []

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors"])
    def test_own(cancel_contract):
        cancel_contract.check(Closing("own"))
        assert told == ["own"]
        """
    )
    run(*FAST).assert_outcomes(passed=3)


def test_an_object_that_is_no_adapter_is_named(team: Any, run: Run) -> None:
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_none(cancel_contract):
        cancel_contract.check(object())
        """
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * TypeError: an adapter needs start(run) and cancel(handle); object lacks *"])


@pytest.mark.slow
def test_a_failed_contract_test_that_is_run_again_fails_again_without_a_drill(team: Any, run: Run) -> None:
    """As a rerun plugin would do it, by running the protocol a second time."""
    team(
        """
    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    def test_broken(cancel_contract):
        cancel_contract.check(BROKEN)
        """
    )
    Path("conftest.py").write_text(
        "from _pytest.runner import runtestprotocol\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    runtestprotocol(item, nextitem=nextitem)\n"
        "    item._initrequest()\n"
        "    runtestprotocol(item, nextitem=nextitem)\n"
        "    return True\n"
    )
    result = run(*FAST)
    result.assert_outcomes(failed=2)
    assert len(list(Path(".cancelcontract").rglob("*.jsonl"))) == 1


@pytest.mark.parametrize(
    "blows", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)], ids=["ctrl-c", "ctrl-c twice", "sigterm"]
)
def test_an_interrupted_run_leaves_nothing_behind(kept: list[str], blows: tuple[signal.Signals, ...]) -> None:
    """That everything is gone is what the leak guard says of this very test."""
    kept[2] = "20"  # a grace in which nothing happens
    words = ["run", "-v", "--grace=20", "--scenario=deaf", "--scenario=daemon", "--", *kept]
    pytest_run = subprocess.Popen(
        [sys.executable, "-m", "pytest_cancelcontract.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell that starts these tests in the background has them ignore Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with pytest_run:
        assert pytest_run.stdout is not None
        guard = threading.Timer(45, pytest_run.kill)
        guard.start()
        for line in pytest_run.stdout:
            if "until everything is over" in line:  # pressed, and both runners are deaf
                break
        for blow in blows:
            os.kill(pytest_run.pid, blow)
        pytest_run.stdout.read()
        guard.cancel()
    assert pytest_run.returncode in {pytest.ExitCode.INTERRUPTED, -signal.SIGINT, -signal.SIGTERM}


def test_a_step_by_step_drill_is_reported_with_what_was_asserted(team: Any, run: Run, pytester: pytest.Pytester) -> None:
    team(
        """
    def drilled(drill):
        process = KEPT.start(drill.run)
        drill.until_working()
        with drill.pressing():
            KEPT.cancel(process)
        drill.until_over()

    def test_asserts(cancel_drill):
        with cancel_drill("deaf") as drill:
            drilled(drill)
        assert_no_survivors(drill)

    def test_asserts_nothing(cancel_drill):
        with cancel_drill("polite") as drill:
            drilled(drill)
        """
    )
    result = run(*FAST, "--cancel-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the drill polite was made, and nothing was asserted of it*", "deaf * kept *"])
    (drill,) = json.loads((pytester.path / "r.json").read_text())["drills"]
    assert (drill["scenario"], drill["verdict"], [check["clause"] for check in drill["checks"]]) == ("deaf", "kept", ["no-survivors"])
    assert drill["test"].endswith("::test_asserts")
    assert drill["measured"]["survivors"] == 0


def test_faults_of_the_adapter_are_no_broken_clauses(team: Any, run: Run) -> None:
    team(
        """
    class Skips:
        def start(self, run):
            pytest.skip("no engine here")
        def cancel(self, handle):
            pass

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_skips(cancel_contract):
        cancel_contract.check(Skips())

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_no_such_cancel(cancel_contract):
        cancel_contract.check(CommandAdapter(KEPT_WORDS, cancel_with="/no/such/cancel {wrapper_pid}"))
        """
    )
    result = run(*FAST)
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*polite could not be run*cancel could not be pressed: cannot start '/no/such/cancel'*"])


@pytest.mark.slow
def test_a_unittest_case_or_a_run_without_a_terminal_is_no_internal_error(pytester: pytest.Pytester, run: Run, kept: list[str]) -> None:
    pytester.makepyfile(
        test_case="""
        import unittest, pytest
        @pytest.mark.usefixtures("cancel_contract")
        class TestCase(unittest.TestCase):
            def test_it(self):
                pass
        """,
        test_plain=f"""
        import pytest
        from pytest_cancelcontract import CommandAdapter
        @pytest.mark.cancel_contract(scenarios=["polite"])
        def test_it(cancel_contract):
            cancel_contract.check(CommandAdapter({kept!r}))
        """,
    )
    result = run(*FAST)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*which needs a plain test function*unittest.TestCase*"])
    assert run(*FAST, "-p", "no:terminal", "test_plain.py").ret == pytest.ExitCode.OK


def test_an_enormous_term_is_refused(command: Run) -> None:
    result = command("run", "--grace", "1e12", "--", "timeout", "5", "{runner}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*grace must be at most 1000000 seconds, got 1000000000000.0 from --grace"])


def test_seconds_for_the_start_command_are_told_where_they_belong(command: Run) -> None:
    result = command("run", "--start", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--start takes the command that starts a run, got '2'; the term start (*) is --start-within"])
