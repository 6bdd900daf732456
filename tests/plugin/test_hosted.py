"""Wrappers that live in Python, drilled by a team's own test file: what is wrong with them is told, and pytest lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import STAMP, stamped
from tests.plugin.conftest import FAST, Run

TEAM = """
    import asyncio, os, signal, subprocess
    import pytest
    from pytest_cancelcontract import CallableAdapter, CoroutineAdapter, Hosted

    processes = {}

    async def forgets(run):
        process = await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env)
        await process.wait()

    def runs(run):
        processes[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True)
        return "succeeded" if processes[run.id].wait() == 0 else "cancelled"

    def ends_its_group(run):
        os.killpg(os.getpgid(processes[run.id].pid), signal.SIGKILL)

    def runs_in_our_group(run):
        processes[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env)
        processes[run.id].wait()

    class Team:
        def start(self, run):
            return subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True)

        def cancel(self, handle):
            os.killpg(handle.pid, signal.SIGTERM)

        def wait(self, handle):
            return "cancelled" if handle.wait() else "succeeded"

    def test_pytest_is_alive():
        assert not processes
"""


@pytest.fixture
def team(pytester: pytest.Pytester) -> None:
    """A team's test file, with a test for each of its wrappers."""
    pytester.makepyfile(
        test_team=TEAM
        + """
    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_forgets(cancel_contract):
        cancel_contract.check(CoroutineAdapter(forgets))

    @pytest.mark.cancel_contract(scenarios=["bystander"])
    def test_own_group(cancel_contract):
        cancel_contract.check(CallableAdapter(runs_in_our_group, cancel=ends_its_group))

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_kept(cancel_contract):
        cancel_contract.check(Hosted(Team()))

    @pytest.mark.cancel_contract(scenarios=["deaf"], clauses=["no-survivors", "outcome-not-success"])
    def test_by_functions(cancel_contract):
        cancel_contract.check(CallableAdapter(runs, cancel=ends_its_group))
        """
    )


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("mode", [pytest.param("prepend", marks=pytest.mark.slow), "importlib"])
def test_an_asyncio_wrapper_that_forgets_its_process_is_told(mode: str, run: Run) -> None:
    result = run(*FAST, f"--import-mode={mode}", "-k", "forgets or alive")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "E *ContractBroken: cancel contract broken: polite:cancel-delivered",
            "E *cancel contract broken: polite:no-survivors",
            "polite * broken: cancel-delivered, no-survivors*",
        ]
    )


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("mode", ["prepend", pytest.param("importlib", marks=pytest.mark.slow)])
def test_a_wrapper_that_kills_its_own_group_does_not_kill_pytest(mode: str, run: Run) -> None:
    result = run(*FAST, f"--import-mode={mode}", "-k", "own_group or alive")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines_random(["E *cancel contract broken: bystander:bystander-unharmed", "E * observed *SIGKILL*"])


@pytest.mark.slow
def test_a_host_that_is_killed_may_be_expected_in_any_scenario(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_team=TEAM
        + """
    known = {"polite:bystander-unharmed": "ticket 1"}

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors"])
    def test_proven(cancel_contract):
        cancel_contract.check(CallableAdapter(runs_in_our_group, cancel=ends_its_group))

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors"], expected=known)
    def test_known(cancel_contract):
        cancel_contract.check(CallableAdapter(runs_in_our_group, cancel=ends_its_group))

    @pytest.mark.cancel_contract(scenarios=["polite"], clauses=["no-survivors"], expected=known)
    def test_not_judged(cancel_contract):
        cancel_contract.check(CallableAdapter(runs, cancel=ends_its_group))
        """
    )
    result = run(*FAST)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *cancel contract broken: polite:bystander-unharmed",
            "expected broken: polite:bystander-unharmed: ticket 1",
            "FAILED *test_proven*",
        ]
    )
    result.stdout.no_fnmatch_line("*though expected to be broken*")


@pytest.mark.slow
@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_hosted_wrappers_that_keep_the_contract_are_kept(mode: str, run: Run) -> None:
    run(f"--import-mode={mode}", "-k", "kept or by_functions").assert_outcomes(passed=2)


def test_an_adapter_that_cannot_go_to_a_host_is_refused_in_its_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import threading
        import pytest
        from pytest_cancelcontract import CallableAdapter

        @pytest.mark.cancel_contract(scenarios=["polite"])
        def test_holds_a_lock(cancel_contract):
            lock = threading.Lock()

            def run_agent(run):
                with lock:
                    pass

            cancel_contract.check(CallableAdapter(run_agent, cancel=print))
        """
    )
    result = run(*FAST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *CannotHost: the adapter cannot go to a process of its own, since CallableAdapter → _fn → lock, a lock, *hosted=False*"]
    )


def test_an_adapter_that_is_named_on_the_command_line_may_be_hosted(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        agents="""
        import asyncio, os, signal
        from pytest_cancelcontract import CoroutineAdapter

        async def run_agent(run):
            process = await asyncio.create_subprocess_exec(*run.argv, cwd=run.workspace, env=run.env, start_new_session=True)
            try:
                await process.wait()
            except asyncio.CancelledError:
                os.killpg(process.pid, signal.SIGTERM)
                await process.wait()
                raise

        adapter = CoroutineAdapter(run_agent)
        """
    )
    words = ["--pyargs", "pytest_cancelcontract.conformance", "--cancel-adapter=agents:adapter", "--cancel-scenario=polite"]
    result = run(*words)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*polite*kept*"])


SHARED = """
    import os, signal, subprocess
    import pytest
    from pytest_cancelcontract import Hosted

    class Team:
        def start(self, run):
            return subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, start_new_session=True)

        def cancel(self, handle):
            os.killpg(handle.pid, signal.SIGKILL)

        def wait(self, handle):
            return "cancelled" if handle.wait() else "succeeded"

    @pytest.fixture(scope="session")
    def cancel_adapter():
        return Hosted(Team())
"""
CHECKS = """
    import pytest

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "silent"], clauses=["no-survivors", "outcome-not-success"])
    def test_shared(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_drills_of_a_shared_hosted_adapter_overlap(mode: str, pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(CHECKS)
    run(f"--import-mode={mode}", "--cancel-jobs=3").assert_outcomes(passed=3)


def test_an_interrupt_leaves_no_host(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SHARED.replace("signal.SIGKILL", "0"))
    pytester.makepyfile(CHECKS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cancel-jobs=3", "--cancel-grace=20"]
    run = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell that starts these tests in the background has them ignore Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until = time.monotonic() + 30
        while sum("adapters.host" in command for command in stamped(os.environ[STAMP]).values()) < 3:
            assert time.monotonic() < until
            time.sleep(0.02)  # polls to a deadline: nobody tells when a host is up
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=20)
    finally:
        run.kill()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output  # what is left is found by the leak guard
