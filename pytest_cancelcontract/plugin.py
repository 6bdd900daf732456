"""The pytest plugin: hooks and fixtures, and nothing that a run without drills would have to pay for.

What they do is in the modules that they import when they are first needed; what one pytest process keeps is in its stash.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.option_table import declare, is_anything_given

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.protocol import Adapter
    from pytest_cancelcontract.adapters.temporal import TemporalServer
    from pytest_cancelcontract.agents.fixture import AgentRunner
    from pytest_cancelcontract.checking import CancelContract
    from pytest_cancelcontract.drill import Drill
    from pytest_cancelcontract.gate import Conclusion
    from pytest_cancelcontract.meter import Meter
    from pytest_cancelcontract.pytest_side import PytestSide
    from pytest_cancelcontract.runner_path import RunnerPath

_SIDE: pytest.StashKey[PytestSide] = pytest.StashKey()
_RESULTS: pytest.StashKey[_Results] = pytest.StashKey()
_CONTRACT: pytest.StashKey[CancelContract] = pytest.StashKey()
_FIXTURES = frozenset({"cancel_contract", "cancel_drill", "agent_runner"})


class _Results:
    """The drills that test reports brought, in the process that prints the summary (the controller, under xdist)."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.faults: dict[str, dict[str, Any]] = {}
        self.told_by_workers: list[dict[str, Any] | None] = []
        self.conclusion: Conclusion | None = None
        self.problem = ""
        self._had_internal_error = False

    def why_red(self) -> list[str]:
        """What fails the run as a whole, beside its tests."""
        failures = self.conclusion.failures if self.conclusion is not None else ()
        return [*(f"FAILED {one}" for one in failures), *([f"ERROR: {self.problem}"] if self.problem else [])]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.rows.extend(json.loads(getattr(report, "cancelcontract", "[]")))
        if fault := json.loads(getattr(report, "cancelcontract_fault", "null")):
            self.faults.setdefault(report.nodeid, fault)  # a test that fails in several phases is told once

    def pytest_internalerror(self) -> None:
        self._had_internal_error = True

    def heard(self) -> list[dict[str, Any]]:
        """What the workers told that told something."""
        return [told for told in self.told_by_workers if told is not None]

    def has_lost_drills(self) -> bool:
        """An internal error of pytest may have cost drills of a worker: a distributed run can end as a success all the same.

        A worker that fails in the last of its tests tells nothing at its end, or is not heard of any more: what it had to do is not known.
        """
        told = self.told_by_workers
        return self._had_internal_error and (not told or any(one is None or one["items"] for one in told))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """The outermost, so that what platforms read stands behind the summary, whoever printed the last of it."""
        result = yield
        if _SIDE in session.config.stash:
            from pytest_cancelcontract.gate import Conclusion

            side = session.config.stash[_SIDE]
            side.tell_platforms(self.rows, self.faults.values(), self.conclusion or Conclusion(), self.problem)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("cancelcontract", "null")
        self.told_by_workers.append(json.loads(told))


def _side(config: pytest.Config) -> PytestSide:
    """What this pytest process keeps for its drills, made when it is first needed."""
    if _SIDE not in config.stash:
        from pytest_cancelcontract.pytest_side import PytestSide

        config.stash[_SIDE] = PytestSide(config)
    return config.stash[_SIDE]


# ---------------------------------------------------------------------- the whole run


def pytest_addoption(parser: pytest.Parser) -> None:
    declare(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "cancel_contract(grace=..., scenarios=..., clauses=..., expected=...): what a test that uses the fixture cancel_contract asks for;"
        " grace and the other terms are in seconds.",
    )
    results = config.stash[_RESULTS] = _Results()
    config.pluginmanager.register(results, "cancelcontract-results")
    if is_anything_given(config):
        _side(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return _side(config).header() if _SIDE in config.stash else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    results = session.config.stash[_RESULTS]
    if session.config.pluginmanager.hasplugin("dsession") and results.has_lost_drills():
        results.problem = "an internal error of pytest, above: not all that was to be drilled was judged"
        if exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            exitstatus = session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    if _SIDE not in session.config.stash and not results.rows:
        return
    side = _side(session.config)
    side.close()  # now, while the fixtures that drills in flight may need are still up
    gate: tuple[str, ...] = ()
    if exitstatus not in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR}:
        results.conclusion = side.conclude(results.rows, results.heard())
        gate = results.conclusion.for_reports
        if results.conclusion.failures and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    results.problem = results.problem or side.write_reports(results.rows, gate) or side.idle_under_xdist(results.heard())
    results.problem = results.problem or (results.conclusion.problem if results.conclusion is not None else "")
    if results.problem and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    if not session.config.pluginmanager.hasplugin("terminalreporter"):
        for line in results.why_red():
            print(line, file=sys.stderr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results = config.stash[_RESULTS]
    if results.rows:
        from pytest_cancelcontract.report.text import summary

        terminalreporter.section("cancel contract")
        for line in summary(results.rows):
            terminalreporter.line(line)
    for line in results.conclusion.lines if results.conclusion is not None else ():
        terminalreporter.line(line)
    for line in results.why_red():
        terminalreporter.line(line, red=True)
    for line in _side(config).left if _SIDE in config.stash else ():
        terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SIDE in config.stash:
        config.stash[_SIDE].close()


# ---------------------------------------------------------------------- collection


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cancel_contract" in metafunc.fixturenames:
        _side(metafunc.config).parametrize(metafunc)
    elif _FIXTURES.isdisjoint(metafunc.fixturenames) and any(mark.name == "cancel_contract" for mark in metafunc.definition.own_markers):
        pytest.fail(
            f"{metafunc.definition.nodeid}: it is marked with cancel_contract, but uses neither the fixture cancel_contract nor"
            " cancel_drill, so nothing would be checked",
            pytrace=False,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    contract_items = [item for item in items if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))]
    classes = {item.parent for item in items if item.parent is not None}
    modules = {node.parent for node in classes if node.parent is not None}
    marked = [node for node in classes | modules if any(mark.name == "cancel_contract" for mark in node.own_markers)]
    if contract_items or marked or _SIDE in config.stash:
        _side(config).collected(session, contract_items, marked)


# ---------------------------------------------------------------------- each test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    contract = item.stash.get(_CONTRACT, None)
    if contract is not None and (complaint := contract.complaint()):
        pytest.fail(f"{item.nodeid}: {complaint}", pytrace=False)
    if "cancel_drill" in getattr(item, "fixturenames", ()) and (complaint := _side(item.config).complaint_of_drills(item)):
        pytest.fail(f"{item.nodeid}: {complaint}", pytrace=False)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if _SIDE in item.config.stash:
        item.config.stash[_SIDE].ended(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return (yield)
    side = _side(item.config)
    if call.when == "call":
        side.before_report(item)
    report = yield
    if call.when == "call":
        side.attach(item, call, report)
    if report.failed:
        side.note_fault(item, call, report)
    return report


# ---------------------------------------------------------------------- fixtures


@pytest.fixture
def cancel_contract(request: pytest.FixtureRequest) -> Iterator[CancelContract]:
    """Run this test's drill and judge it: ``cancel_contract.check(adapter)``. Makes one test a scenario."""
    contract = _side(request.config).contract(request)
    request.node.stash[_CONTRACT] = contract
    yield contract
    del request.node.stash[_CONTRACT]


@pytest.fixture
def cancel_drill(request: pytest.FixtureRequest) -> Callable[..., Drill]:
    """Make a drill whose buttons the test presses itself: ``with cancel_drill("deaf", grace=2) as drill:``."""
    return _side(request.config).make_drill(request.node)


@pytest.fixture
def agent_runner(request: pytest.FixtureRequest) -> AgentRunner:
    """Cancel an agent's own command line: ``agent_runner("claude-code", moment="tool", signal="TERM")``; the result can be asserted."""
    from pytest_cancelcontract.agents.fixture import AgentRunner

    return AgentRunner(_side(request.config), request.node)


@pytest.fixture(scope="session")
def cancel_adapter(request: pytest.FixtureRequest) -> Adapter:
    """The adapter that the options describe; override it in a conftest.py so that the drills of several tests overlap."""
    return _side(request.config).default_adapter()


@pytest.fixture
def cancel_meter(request: pytest.FixtureRequest) -> Iterator[Meter]:
    """A scripted provider on loopback that speaks as Anthropic, OpenAI and Gemini do, and counts requests and tokens."""
    meter = _side(request.config).make_meter()
    yield meter
    meter.close()


@pytest.fixture(scope="session")
def cancel_temporal(request: pytest.FixtureRequest) -> Iterator[TemporalServer]:
    """A Temporal server for ``TemporalAdapter(…, server=cancel_temporal)``: a development server, or the one at ``--cancel-temporal``."""
    with _side(request.config).temporal_server() as server:
        yield server


@pytest.fixture(scope="session")
def cancel_runner_path(request: pytest.FixtureRequest) -> RunnerPath:
    """For workers that are up before any drill: ``cancel_runner_path.shim("claude")`` is a folder for the front of their PATH."""
    return _side(request.config).session.runner_path()
