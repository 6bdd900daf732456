"""What the plugin does in a run that has drills: settings, collected tests, results, summary and report.

One object for each pytest process, kept in its stash; :mod:`pytest_cancelcontract.plugin` makes it when it is first needed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_cancelcontract.ahead import Ground, adapter_origin
from pytest_cancelcontract.gate import Conclusion, Gate
from pytest_cancelcontract.option_table import NOT_FOR_ONE_DRILL
from pytest_cancelcontract.options import (
    DEFAULT_JOBS_COMMAND,
    DEFAULT_JOBS_OBJECT,
    MARKER,
    Request,
    Settings,
    command_adapter,
    read_settings,
    request_of,
    run_settings,
    settle,
    settle_drill,
)
from pytest_cancelcontract.report import json_report, text
from pytest_cancelcontract.report.files import write_report
from pytest_cancelcontract.report.listing import longest_s
from pytest_cancelcontract.report.names import portable
from pytest_cancelcontract.scenarios import Scenario
from pytest_cancelcontract.terms import Terms

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.protocol import Adapter
    from pytest_cancelcontract.adapters.temporal import TemporalServer
    from pytest_cancelcontract.checking import CancelContract
    from pytest_cancelcontract.drill import Drill
    from pytest_cancelcontract.meter import Meter
    from pytest_cancelcontract.session import Session

REPORT_ATTRIBUTE = "cancelcontract"
"""Where a test report carries its drills, as JSON: xdist takes no string that is not UTF-8, and paths need not be. JUnit leaves it out."""
_ROWS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
_DRILLS: pytest.StashKey[list[Drill]] = pytest.StashKey()
_REFUSED: pytest.StashKey[str] = pytest.StashKey()
_RERUNS_NO_MORE: dict[tuple[str, ...], dict[str, int]] = {
    ("rerunfailures", "pytest_rerunfailures"): {"reruns": 0},
    ("flaky", "flaky.flaky_pytest_plugin"): {"max_runs": 1, "min_passes": 1},
}
"""What the marker ``flaky``, which two plugins share, says to each of them so that a test is run once."""
_TIMEOUT_PLUGINS = ("timeout", "pytest_timeout")
_TIMEOUT_SLACK_S = 30.0


class Chosen(NamedTuple):
    """What a test's parameter ``cancel_contract`` holds."""

    request: Request
    scenario: Scenario

    def __repr__(self) -> str:
        # Allure shows parameters, and tells by them which test of an earlier run is the same: the terms do not make it another one.
        return self.scenario.id


class PytestSide:
    """Everything of one pytest process that has to do with drills.

    Raises:
        pytest.UsageError: an option is refused.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings: Settings = read_settings(config)
        self.gate = Gate(self.settings, config.rootpath, config.invocation_params.dir)
        self.is_worker = hasattr(config, "workerinput")
        self._session: Session | None = None
        self._adapter: Adapter | None = None
        self._shared: list[Adapter] = []
        self._drills_seen: set[tuple[str, str]] = set()
        self._files_seen: set[str] = set()
        self.ground = Ground()
        config.pluginmanager.register(self.ground, "cancelcontract-ground")

    # ------------------------------------------------------------------ collection

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """One test a scenario; a marker that is refused is a collection error which is just its message."""
        refused = ""
        try:
            request = request_of(metafunc.definition, self.settings)
        except pytest.UsageError as error:
            refused = str(error)
        if refused:  # outside of the handler, or the message would be shown once more, as what happened before
            pytest.fail(refused, pytrace=False)
        chosen = [Chosen(request, scenario) for scenario in request.scenarios]
        metafunc.parametrize("cancel_contract", chosen, indirect=True, ids=[scenario.id for scenario in request.scenarios])

    def collected(self, session: pytest.Session, items: Sequence[pytest.Item], marked: Sequence[pytest.Collector]) -> None:
        """All tests are known, none is deselected yet: refuse what makes no sense, and give each its limits.

        Args:
            items: the tests that use a fixture of ours.
            marked: the classes and modules that carry the marker.
        Raises:
            pytest.UsageError: options without a test of the contract, histories that cannot be written, an adapter that cannot be made.
        """
        self._remember(session, items)
        if self.is_worker:
            told = {"items": len(items), "drills": sorted(self._drills_seen), "files": sorted(self._files_seen)}
            self.config.workeroutput["cancelcontract"] = json.dumps(told)  # type: ignore[attr-defined]
        elif not session.testsfailed:
            self._refuse_idle_options(len(items))
            self._refuse_idle_markers(items, marked)
            if items and not self.config.option.collectonly:
                self._refuse_useless_places()
            if any("cancel_adapter" in getattr(item, "fixturenames", ()) for item in items):
                self._named_adapter()
        for item in items:
            if "cancel_contract" in getattr(item, "fixturenames", ()):
                self._heed_own_marks(item)
                self._limit(item)

        if items:
            self._skip_where_nothing_can_be_proven(items)

    def _remember(self, session: pytest.Session, items: Iterable[pytest.Item]) -> None:
        """What was collected, for the baseline: an entry of a drill that is left out of this run says nothing."""
        for item in items:
            callspec = getattr(item, "callspec", None)
            if callspec is not None and "cancel_contract" in callspec.params:
                _, scenario = callspec.params["cancel_contract"]
                self._drills_seen.add((portable(_name(item)), scenario.id))
        asks_for_parts = any("::" in word for word in self.config.args) or getattr(self.config.option, "lf", False)
        if not asks_for_parts and not session.testsfailed:
            self._files_seen = {item.nodeid.partition("::")[0] for item in session.items}

    @staticmethod
    def _skip_where_nothing_can_be_proven(items: Sequence[pytest.Item]) -> None:
        from pytest_cancelcontract.recorder.client import why_no_drills_here

        if missing := why_no_drills_here():
            for item in items:
                item.add_marker(pytest.mark.skip(reason=missing))

    def _refuse_idle_options(self, count: int) -> None:
        if not count and self.settings.flags_on_command_line:
            raise pytest.UsageError(self._idle_text())

    def _refuse_idle_markers(self, items: Sequence[pytest.Item], marked: Sequence[pytest.Collector]) -> None:
        if any("::" in word for word in self.config.args):
            return  # then the tests that use the fixture may just not be among those that were asked for
        used = {id(node) for item in items for node in item.listchain()}
        for node in marked:
            if id(node) not in used:
                raise pytest.UsageError(
                    f"{node.nodeid} is marked with cancel_contract, but no test in it uses the fixture cancel_contract or cancel_drill"
                )

    def _idle_text(self) -> str:
        return (
            f"{', '.join(self.settings.flags_on_command_line)} given, but no test of the cancel contract was collected; a test that uses"
            " the fixture cancel_contract is one, or add: --pyargs pytest_cancelcontract.conformance"
        )

    def _refuse_useless_places(self) -> None:
        """Find out now, not after the first drill, whether histories and the report can be written."""
        history, origin = self.settings.history, self.settings.origin("cancel_history")
        problem = _why_not_writable(history)
        if problem:
            raise pytest.UsageError(f"histories cannot be written to {history} (from {origin}): {problem}")
        for report in self.settings.reports:
            if problem := _why_not_writable(report.parent):
                raise pytest.UsageError(
                    f"the report cannot be written to {report} (from {self.settings.origin('cancel_report')}): {problem}"
                )

    def _heed_own_marks(self, item: pytest.Item) -> None:
        """Terms that stand on one of a test's own parameters: ``pytest.param(…, marks=pytest.mark.cancel_contract(grace=9))``."""
        callspec = getattr(item, "callspec", None)
        if callspec is None or "cancel_contract" not in callspec.params or all(mark.name != MARKER for mark in callspec.marks):
            return
        _, scenario = callspec.params["cancel_contract"]
        try:
            callspec.params["cancel_contract"] = Chosen(request_of(item, self.settings), scenario)
        except pytest.UsageError as error:
            item.stash[_REFUSED] = str(error)  # told by the fixture: raised here, it would be an internal error under xdist

    def _limit(self, item: pytest.Item) -> None:
        """A time limit from the test's own terms, and no second try: it would turn broken into green."""
        callspec = getattr(item, "callspec", None)
        if callspec is None or "cancel_contract" not in callspec.params:
            return  # a unittest's method, a doctest: the fixture itself says that it cannot be used there
        request, scenario = callspec.params["cancel_contract"]
        plugins = self.config.pluginmanager
        if any(plugins.hasplugin(name) for name in _TIMEOUT_PLUGINS) and not self._has_timeout(item):
            item.add_marker(pytest.mark.timeout(time_limit_s(request.terms, scenario)))
        words = [said for names, said in _RERUNS_NO_MORE.items() if any(plugins.hasplugin(name) for name in names)]
        if len(words) == 1:
            # With both, each refuses the other's words; then a second run of the test just fails as the first did (see checking).
            item.add_marker(pytest.mark.flaky(**words[0]), append=False)

    def _has_timeout(self, item: pytest.Item) -> bool:
        return (
            item.get_closest_marker("timeout") is not None
            or self.config.getoption("timeout", None) is not None
            or bool(os.environ.get("PYTEST_TIMEOUT"))
        )

    # ------------------------------------------------------------------ fixtures

    def contract(self, request: pytest.FixtureRequest) -> CancelContract:
        """What the fixture ``cancel_contract`` gives to one test."""
        from pytest_cancelcontract.checking import CancelContract, Place

        if not hasattr(request, "param"):
            pytest.fail(
                "cancel_contract makes a test of each scenario, which needs a plain test function (or a method of a plain class) that names"
                " it, or a fixture that does; it cannot be asked for by getfixturevalue(), nor by a unittest.TestCase or a doctest",
                pytrace=False,
            )
        item: pytest.Item = request.node
        if _REFUSED in item.stash:
            pytest.fail(item.stash[_REFUSED], pytrace=False)
        asked, scenario = request.param
        place = Place(
            nodeid=item.nodeid,
            rerun=self.rerun(item, scenario),
            request=asked,
            scenario=scenario,
            settings=self.settings,
            session=self.session,
            say=self.say(scenario, asked.terms),
            before=functools.partial(self._before, item),
            after=functools.partial(self._after, item),
            record=functools.partial(self.record, item),
            accepted=self.gate.accepted(_name(item)),
        )
        return CancelContract(place)

    def default_adapter(self) -> Adapter:
        """The adapter of ``--cancel-wrapper``, ``--cancel-start`` or ``--cancel-adapter``."""
        adapter = self._named_adapter()
        if adapter is not None:
            return adapter
        if self.settings.text("cancel_wrapper") is None and self.settings.text("cancel_start") is None:
            pytest.fail(
                "nothing says which wrapper to drill: give --cancel-wrapper, --cancel-start or --cancel-adapter,"
                " or override the session fixture cancel_adapter in a conftest.py",
                pytrace=False,
            )
        return command_adapter(self.settings)

    def make_meter(self) -> Meter:
        """The provider of one test."""
        from pytest_cancelcontract.meter import Meter

        return Meter(self.session.recorder())

    def temporal_server(self) -> TemporalServer:
        """The server of the fixture ``cancel_temporal``; the test is skipped, and says what to install, where the extra is missing."""
        try:
            from pytest_cancelcontract.adapters.temporal import TemporalServer

            return TemporalServer(self.settings.text("cancel_temporal"))
        except ImportError as error:
            pytest.skip(str(error))

    def make_drill(self, item: pytest.Item) -> Callable[..., Drill]:
        """What the fixture ``cancel_drill`` gives to one test: a maker of drills."""
        return functools.partial(self._drill, item)

    def _drill(self, item: pytest.Item, scenario_id: str, /, **settings: object) -> Drill:
        from pytest_cancelcontract.drill import Drill
        from pytest_cancelcontract.scenarios import by_id

        scenario = by_id(scenario_id)
        settled, rules = settle_drill(item, self.settings, settings)
        drill = Drill(
            self.session.recorder(),
            scenario,
            settled,
            wrapper=item.name,
            history=self.session.history_path(item.nodeid, scenario.id),
            progress=self.say(scenario, settled),
            rerun=self.rerun(item, None),
            rules=rules,
        )
        item.stash.setdefault(_DRILLS, []).append(drill)
        return drill

    def complaint_of_drills(self, item: pytest.Item) -> str:
        """What is wrong with a test whose drills ran and were not judged; ``""`` if nothing."""
        idle = [drill.scenario.id for drill in item.stash.get(_DRILLS, ()) if not drill.checks]
        if not idle:
            return ""
        return f"the drill {', '.join(idle)} was made, and nothing was asserted of it: call assert_no_survivors(drill), or another assert_*"

    def _record_drills(self, item: pytest.Item) -> None:
        from pytest_cancelcontract.conduct import result_of

        for drill in item.stash.get(_DRILLS, ()):
            if drill.checks:
                self.record(item, {**result_of(drill.history, drill.checks).as_dict(), "asserted": True})
        item.stash.setdefault(_DRILLS, []).clear()

    def _named_adapter(self) -> Adapter | None:
        given = self.settings.given.get("cancel_adapter")
        if given is None:
            return None
        if self._adapter is None:
            self._adapter = _import_adapter(str(given.value), given.origin, self.config.invocation_params.dir)
        return self._adapter

    # ------------------------------------------------------------------ drills

    @property
    def session(self) -> Session:
        """The drills of this process."""
        if self._session is None:
            from pytest_cancelcontract.session import Session

            self._session = Session(histories=self.settings.history, origin=self.settings.origin("cancel_history"), jobs=self.settings.jobs)
        return self._session

    def _before(self, item: pytest.Item, adapter: Adapter) -> None:
        """Where the adapter is that of ``cancel_adapter``, the drills behind may start too; under xdist another worker may get them."""
        if not _is_shared(item, adapter):
            return
        if all(known is not adapter for known in self._shared):
            self._shared.append(adapter)
            # What is added last is done first: the adapter is closed before the fixture that made it takes its ground away.
            adapter_origin(item).addfinalizer(functools.partial(self._close_shared, adapter))
        if self.is_worker:
            return
        from pytest_cancelcontract.adapters.command import CommandAdapter
        from pytest_cancelcontract.session import Order

        jobs = DEFAULT_JOBS_COMMAND if isinstance(adapter, CommandAdapter) else DEFAULT_JOBS_OBJECT
        orders = []
        for other in self.ground.those_that_follow(item):
            request, scenario = other.callspec.params["cancel_contract"]  # type: ignore[attr-defined]
            orders.append(Order(other.nodeid, scenario, request.terms, request.clauses, request.rules))
        self.session.order_ahead(orders, adapter, jobs=jobs)

    def _close_shared(self, adapter: Adapter) -> None:
        self._shared = [known for known in self._shared if known is not adapter]
        self.session.close_driver(adapter)

    def ended(self, item: pytest.Item) -> None:
        """A test is over: a drill that was started ahead for it, and which it never asked for, is not wanted."""
        if self._session is not None:
            self._session.drop(item.nodeid)

    def _after(self, item: pytest.Item, adapter: Adapter) -> None:
        """An adapter that the test made has had its last drill; one that a fixture made may be used again."""
        if not any(value is adapter for value in getattr(item, "funcargs", {}).values()):
            self.session.close_driver(adapter)

    def say(self, scenario: Scenario, terms: Terms) -> Callable[[str, float], None]:
        """A function that prints what a drill waits for: one line a drill unless it is over already, with -v a line for every wait."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        verbosity = getattr(self.config.option, "verbose", 0)  # not there without a terminal (-p no:terminal)
        if self.is_worker or reporter is None or verbosity < 0:
            return lambda _text, _at_most_s: None
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        has_spoken = False

        def say(waits_for: str, at_most_s: float) -> None:
            nonlocal has_spoken
            line = text.progress_line(scenario.id, waits_for, at_most_s)
            if verbosity == 0 and not waits_for.endswith(text.RUNS_ONCE_MORE):
                if has_spoken or not at_most_s:
                    return
                line = text.drill_line(scenario.id, terms)
            has_spoken = True
            _print(reporter, capture, line)

        return say

    def rerun(self, item: pytest.Item, scenario: Scenario | None) -> str:
        """The command that runs a test's drill again, with the options that this run was given."""
        by_run = run_settings(self.config)
        if by_run is not None and scenario is not None:
            before, after = by_run.rerun
            return f"{before} --scenario {scenario.id}{after}"
        words = ["pytest"]
        if _is_conformance(item) and scenario is not None:
            words += ["--pyargs", "pytest_cancelcontract.conformance", "--cancel-scenario", scenario.id]
        else:
            words.append(item.nodeid)
        for key, given in self.settings.given.items():
            if given.is_command_line and key not in NOT_FOR_ONE_DRILL:
                for value in given.value if isinstance(given.value, list) else [given.value]:
                    # pytest takes a word that begins with @, as a ladder does, for a file of arguments.
                    words += [f"{given.origin}={value}"] if str(value).startswith("@") else [given.origin, str(value)]
        return shlex.join(words)

    # ------------------------------------------------------------------ results

    def record(self, item: pytest.Item, row: Mapping[str, Any]) -> None:
        """Keep a drill's result until its test's report is made."""
        item.stash.setdefault(_ROWS, []).append({**row, "test": _name(item)})

    def before_report(self, item: pytest.Item) -> None:
        """A test's call is over: give it its drills' properties, which every report that is made from here on shows."""
        from pytest_cancelcontract.platforms import add_properties

        self._record_drills(item)
        rows = item.stash.get(_ROWS, None)
        if rows:
            add_properties(item, rows)

    def attach(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Put the drills of a test on the report of its call; a failure of our own test is just its message, and pytest's last lines,
        which would give all of the message once more in CI, name the clauses."""
        from pytest_cancelcontract.platforms import attach, is_message

        rows = item.stash.get(_ROWS, None)
        if rows:
            setattr(report, REPORT_ATTRIBUTE, json.dumps(rows))
            attach(item, rows, report)
            del item.stash[_ROWS]
        if call.excinfo is None or not is_message(call.excinfo.value):
            return
        if _is_conformance(item) and not self.config.option.fulltrace:
            report.longrepr = _only_message(call.excinfo)
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = text.in_one_line(text.plain(str(call.excinfo.value)))

    def note_fault(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Put on the report of a failure, in whatever phase of a test, what GitHub would be told of it."""
        from pytest_cancelcontract.platforms import FAULT_ATTRIBUTE, fault_of

        setattr(report, FAULT_ATTRIBUTE, json.dumps(fault_of(item, call, report, has_place=not _is_conformance(item))))

    def tell_platforms(
        self, rows: Sequence[Mapping[str, Any]], faults: Iterable[Mapping[str, Any]], conclusion: Conclusion, problem: str
    ) -> None:
        """Tell GitHub of the run, where it listens; a worker leaves that to its controller."""
        from pytest_cancelcontract.platforms import is_on_github, tell_github, told_by_nobody_else

        if not self.is_worker and is_on_github():
            faults = told_by_nobody_else(self.config, faults)
            tell_github(rows, faults, conclusion, problem, root=self.config.rootpath, baseline=self.settings.baseline)

    def header(self) -> list[str]:
        """The lines for the top of the output."""
        given = self.settings.given
        if not given:
            return []
        shown = [f"{key.removeprefix('cancel_')} {_shown(one.value)} ({one.origin})" for key, one in given.items()]
        return [f"cancel contract: {', '.join(shown)}", *self._ladder_lines(), f"cancel contract: histories in {self.settings.history}"]

    def _ladder_lines(self) -> list[str]:
        """Where cancel is pressed by a ladder that takes longer than the terms let a run live: a line that says so."""
        if self.settings.text("cancel_wrapper") is None:
            return []
        adapter, terms = command_adapter(self.settings), settle(self.settings, {})
        if adapter.cancel_takes_s <= terms.deadline_after_press_s:
            return []
        return [
            f"cancel contract: the ladder ({adapter.how}) takes {adapter.cancel_takes_s:g} s, but {terms.deadline_after_press_s:g} s after"
            f" cancel the run must be gone (delivery + grace + kill_within): a grace of {adapter.cancel_takes_s:g} s shows all of its steps"
        ]

    def write_reports(self, rows: Sequence[Mapping[str, Any]], gate: Sequence[str]) -> str:
        """Write the reports that were asked for, with what the gate says of the run; returns why one could not be written, or ``""``."""
        problems = []
        for path in () if self.is_worker else self.settings.reports:
            try:
                write_report(path, rows, terms=settle(self.settings, {}).as_dict(), gate=gate)
            except OSError as error:
                origin = self.settings.origin("cancel_report")
                problems.append(f"the report could not be written to {path} (from {origin}): {error.strerror or error}")
        return "; ".join(problems)

    def conclude(self, rows: Sequence[Mapping[str, Any]], told_by_workers: Sequence[Mapping[str, Any]]) -> Conclusion:
        """Judge the run as a whole; a worker leaves that to its controller, which has collected nothing itself."""
        if self.is_worker or self.config.option.collectonly:
            return Conclusion()
        from pytest_cancelcontract.report.baseline import Seen

        drills = self._drills_seen.union(*({(test, scenario) for test, scenario in told["drills"]} for told in told_by_workers))
        files = self._files_seen.union(*(told["files"] for told in told_by_workers))
        report = json_report.document(rows, terms=settle(self.settings, {}).as_dict())
        return self.gate.conclude(rows, report, Seen(frozenset(drills), frozenset(files)))

    def idle_under_xdist(self, told_by_workers: Iterable[Mapping[str, Any]]) -> str:
        """What is wrong with a run under xdist whose workers collected no test of the contract; ``""`` if nothing."""
        counts = [told["items"] for told in told_by_workers]
        return self._idle_text() if counts and not any(counts) and self.settings.flags_on_command_line else ""

    def close(self) -> None:
        """End every drill and the recorder."""
        if self._session is not None:
            self._session.close()

    @property
    def left(self) -> list[str]:
        """What could not be removed at the end, a line each."""
        return [f"could not be removed: {path}" for path in self._session.left] if self._session is not None else []


def time_limit_s(terms: Terms, scenario: Scenario) -> float:
    """How long a contract test may take: its drill and the one rerun, each after the drills that are in flight before it."""
    calls_s = scenario.starts * (terms.start_s + terms.call_s) + len(scenario.moments) * terms.call_s
    return 3 * (calls_s + longest_s(scenario, terms)) + _TIMEOUT_SLACK_S


def _is_conformance(item: pytest.Item) -> bool:
    return item.path == Path(__file__).with_name("conformance.py")


def _only_message(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """pytest's own kind of text for a failure, with nothing in it but the message."""
    shown: Any = excinfo.getrepr(style="value")
    message = text.plain(str(excinfo.value))
    shown.reprtraceback.reprentries[0].lines[:] = message.splitlines()
    return shown


def _name(item: pytest.Item) -> str:
    """A test's node id without the scenario, which has a column of its own: ``test_x.py::test_it[slow]``."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or "cancel_contract" not in callspec.params:
        return item.nodeid
    _, scenario = callspec.params["cancel_contract"]
    own = f"-{callspec.id}-".replace(f"-{scenario.id}-", "-", 1).strip("-")
    return f"{item.nodeid.partition('[')[0]}{f'[{own}]' if own else ''}"


def _is_shared(item: pytest.Item, adapter: object) -> bool:
    return getattr(item, "funcargs", {}).get("cancel_adapter") is adapter


def _import_adapter(name: str, origin: str, folder: Path) -> Adapter:
    """The object ``MODULE:NAME``; a class or a function that makes one is called."""
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise pytest.UsageError(f"an adapter must be given as MODULE:NAME, got {name!r} from {origin}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
        if inspect.isclass(found) or (callable(found) and not hasattr(found, "start")):
            found = found()
    except Exception as error:  # the team's own code may raise anything
        raise pytest.UsageError(f"the adapter {name!r} from {origin} cannot be made: {type(error).__name__}: {error}") from error
    lacking = [method for method in ("start", "cancel") if not callable(getattr(found, method, None))]
    if lacking:
        raise pytest.UsageError(
            f"the adapter {name!r} from {origin} lacks {' and '.join(lacking)}; an adapter needs start(run) and cancel(handle)"
        )
    adapter: Adapter = found
    return adapter


def _why_not_writable(folder: Path) -> str:
    """Why no file can be made in a folder, which need not be there yet; ``""`` where it can. Leaves nothing behind."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    made: list[Path] = []
    probe = folder / f".probe-{os.getpid()}"
    try:
        for place in reversed(missing):
            place.mkdir()
            made.append(place)
        # A full disk takes the name of a file, but not its bytes.
        probe.write_bytes(b"x" * 4096)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
        for place in reversed(made):
            with contextlib.suppress(OSError):
                place.rmdir()
    return ""


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else f"{value:g}" if isinstance(value, float) else repr(value)


def _print(reporter: Any, capture: Any, line: str) -> None:
    if capture is None:
        _print_now(reporter, line)
        return
    with capture.global_and_fixture_disabled():
        _print_now(reporter, line)


def _print_now(reporter: Any, line: str) -> None:
    reporter.ensure_newline()
    reporter.write_line(line)
    reporter.flush()
