"""As pytest users work, with several drills in flight: order of output, -x, --lf, reruns, Ctrl-C, parameters, classes, marks, fixtures."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import FAST, Run

TEAM = """
    import subprocess, sys, time
    import pytest
    from pytest_cancelcontract import CommandAdapter

    KEPT_WORDS = {kept!r}
    BROKEN_WORDS = {broken!r}
"""
SHARED = """
    @pytest.fixture(scope="session")
    def cancel_adapter():
        return CommandAdapter(KEPT_WORDS)
"""
LONG = ("300", "--cancel-grace=400")
"""A wrapper's grace, and the term that lets it be: a drill of a deaf runner that is not cut short outlasts its test."""
AT_ONCE_S = 10.0
"""Half a second as a rule; all clocks are the machine's one monotonic clock."""
WITHIN_S = 120.0
"""How long a pytest run may take on a busy machine; most need two seconds."""

pytestmark = pytest.mark.timeout(4 * WITHIN_S)


@pytest.fixture
def team(pytester: pytest.Pytester, kept: list[str], broken: list[str]) -> Callable[[str], None]:
    """Write a team's test file with the words of a kept and of a broken wrapper."""

    def team(body: str) -> None:
        pytester.makepyfile(test_team=TEAM.format(kept=kept, broken=broken) + body)

    return team


def _results(result: pytest.RunResult) -> list[tuple[str, str]]:
    """What ``-v`` says of each test, in the order in which it says so."""
    return re.findall(r"^test_team\.py::(\S+) (PASSED|FAILED|RERUN|XFAIL|XPASS|SKIPPED|ERROR)", result.stdout.str(), re.MULTILINE)


def _histories() -> dict[str, Path]:
    """The histories of the tests' drills by the end of their names; a second attempt, for a machine that was late, is no other drill."""
    found = {path.stem.partition("test_team.py-")[2]: path for path in Path(".cancelcontract").rglob("*.jsonl")}
    return {name: path for name, path in found.items() if not name.endswith(".again")}


def _began_and_over(path: Path) -> tuple[float, float]:
    """When a drill's wrapper was being started and when the drill ended; zeros of one that was cut short before."""
    seen = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return next((one["at_s"] for one in seen if one["kind"] == "starting"), 0.0), seen[-1]["at_s"] if seen else 0.0


# ---------------------------------------------------------------------- in what order


def test_drills_overlap_and_the_output_stays_in_pytests_order(team: Any, run: Run) -> None:
    team(
        SHARED
        + """
    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "silent", "daemon"])
    def test_first(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)

    def test_plain():
        pass

    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_second(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    result = run(*FAST, "-v", timeout=WITHIN_S)
    tests = ["test_first[polite]", "test_first[deaf]", "test_first[daemon]", "test_first[silent]", "test_plain", "test_second[polite]"]
    assert _results(result) == [(name, "PASSED") for name in tests]
    rows = re.findall(r"^test_team\.py::(test_\w+) +(\S+) +kept", result.stdout.str(), re.MULTILINE)
    assert [f"{test}[{scenario}]" for test, scenario in rows] == [name for name in tests if "[" in name]
    times = sorted(_began_and_over(path) for path in _histories().values())
    assert any(later[0] < earlier[1] for earlier, later in itertools.pairwise(times)), "no two drills overlapped"


def test_a_drill_that_is_over_when_its_test_comes_says_nothing_of_waiting(team: Any, run: Run) -> None:
    team(
        SHARED
        + """
    @pytest.mark.cancel_contract(scenarios=["deaf", "silent"])
    def test_it(cancel_contract, cancel_adapter, request):
        ahead = cancel_contract._place.session._jobs.get(request.node.nodeid)
        assert (ahead is not None) == (cancel_contract.scenario.id == "silent")
        if ahead is not None:
            ahead.result.result(30)
        cancel_contract.check(cancel_adapter)
        """
    )
    result = run(*FAST, timeout=WITHIN_S)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["cancel drill deaf: *"])
    result.stdout.no_fnmatch_line("cancel drill silent: *")


def test_no_more_drills_than_asked_for_are_in_flight_and_the_longest_go_first(team: Any, run: Run) -> None:
    team(
        SHARED
        + """
    @pytest.mark.cancel_contract(scenarios=["polite", "slow-cleanup", "deaf", "daemon", "silent"])
    def test_it(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    run(*FAST, "--cancel-jobs=2", timeout=WITHIN_S).assert_outcomes(passed=5)
    times = {name.removeprefix("test_it-"): _began_and_over(path) for name, path in _histories().items()}
    for began_s, _ in times.values():
        assert sum(other[0] <= began_s < other[1] for other in times.values()) <= 2
    started = sorted(times, key=lambda name: times[name][0])
    assert sorted(started[:2]) == ["deaf", "polite"], "what a test waits for, and beside it the longest"
    assert started[-1] == "silent", "the shortest that nobody waited for"


@pytest.mark.slow
def test_one_drill_at_a_time_is_one(team: Any, run: Run) -> None:
    """Objects are driven one at a time unless it is asked otherwise, and a test that brings its own adapter is no exception then."""
    team(
        """
    class Alone:
        flying = []
        def start(self, run):
            assert not self.flying
            self.flying.append(run.id)
            return subprocess.Popen(run.argv, cwd=run.workspace, stdout=subprocess.DEVNULL)
        def cancel(self, job):
            job.kill()
            job.wait()
            self.flying.clear()

    @pytest.fixture(scope="session")
    def cancel_adapter():
        return Alone()

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "silent"], clauses=["no-survivors"])
    def test_it(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        if cancel_contract.scenario.id == "polite":
            cancel_contract.check(Alone())
        """
    )
    run(*FAST, timeout=WITHIN_S).assert_outcomes(passed=3)


# ---------------------------------------------------------------------- what is run, and what not


@pytest.mark.slow
def test_only_selected_tests_are_drilled_and_last_failed_and_failed_first_work(
    team: Any, pytester: pytest.Pytester, broken: list[str]
) -> None:
    team(
        f"""
    @pytest.fixture(scope="session")
    def cancel_adapter():
        return CommandAdapter({broken!r})

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf-child", "daemon", "silent"])
    def test_it(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    polite, child, daemon, silent = (f"test_it[{one}]" for one in ("polite", "deaf-child", "daemon", "silent"))

    def results(*words: str) -> list[tuple[str, str]]:
        return _results(pytester.runpytest_subprocess("-W", "error", "-v", *FAST, *words, timeout=WITHIN_S))

    assert results("-k", "not daemon") == [(polite, "PASSED"), (child, "FAILED"), (silent, "PASSED")]
    assert sorted(_histories()) == ["test_it-deaf-child", "test_it-polite", "test_it-silent"]
    assert results("--lf", "--maxfail=1") == [(child, "FAILED")]
    assert results("--ff") == [(child, "FAILED"), (polite, "PASSED"), (daemon, "FAILED"), (silent, "PASSED")]


@pytest.mark.parametrize("words", [("-x",), pytest.param(("--maxfail=1",), marks=pytest.mark.slow)], ids=["-x", "--maxfail"])
def test_drills_ahead_of_a_test_that_stops_the_run_are_ended_at_once(team: Any, run: Run, kept: list[str], words: tuple[str, ...]) -> None:
    kept[2], term = LONG
    team(
        SHARED
        + """
    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "daemon"])
    def test_it(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        assert cancel_contract.scenario.id != "polite", "the team's own"
        """
    )
    result = run(*FAST, term, *words, timeout=WITHIN_S)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["polite * kept *", "*stopping after 1 failures*"])
    over = {name: _began_and_over(path)[1] for name, path in _histories().items()}
    assert sorted(over) == ["test_it-daemon", "test_it-deaf", "test_it-polite"], "they were started ahead"
    assert max(over.values()) - over["test_it-polite"] < AT_ONCE_S


def test_a_drill_whose_test_never_asks_for_it_is_ended_with_its_test_and_the_adapter_has_peace(team: Any, run: Run) -> None:
    team(
        """
    told, jobs = [], []

    class Watched:
        def start(self, run):
            jobs.append(subprocess.Popen(run.argv, cwd=run.workspace, stdout=subprocess.DEVNULL))
            return jobs[-1]
        def cancel(self, job):
            job.terminate()
        def outcome(self, job):
            assert "over" not in told, "asked although its ground is gone"
            if job.poll() is None:
                return "running"
            return "cancelled"

    @pytest.fixture(scope="session")
    def cancel_adapter():
        yield Watched()
        told.append("over")
        for job in jobs:
            job.wait(5)  # whoever is deaf was ended by its drill
        time.sleep(0.5)  # in which a drill that was still in flight would ask

    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "silent"], clauses=["no-survivors"])
    def test_it(cancel_contract, cancel_adapter):
        if cancel_contract.scenario.id == "deaf":
            pytest.fail("no database")
        if cancel_contract.scenario.id == "silent":
            pytest.skip("not today")
        cancel_contract.check(cancel_adapter)
        """
    )
    result = run(*FAST, LONG[1], "--cancel-jobs=3", timeout=WITHIN_S)
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    assert len(_histories()) == 3, "they were started ahead"


# ---------------------------------------------------------------------- run again


@pytest.mark.slow
def test_a_broken_contract_stays_broken_where_tests_are_run_again(team: Any, run: Run) -> None:
    pytest.importorskip("pytest_rerunfailures")
    team(
        SHARED
        + """
    tries = []

    def test_flaky():
        tries.append(1)
        assert len(tries) == 2

    @pytest.mark.flaky(reruns=3)
    @pytest.mark.cancel_contract(scenarios=["deaf-child"])
    def test_broken(cancel_contract):
        cancel_contract.check(CommandAdapter(BROKEN_WORDS))

    @pytest.mark.cancel_contract(scenarios=["polite", "silent"])
    def test_kept(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    result = run(*FAST, "-v", "--reruns=2", timeout=WITHIN_S)
    assert _results(result) == [
        ("test_flaky", "RERUN"),
        ("test_flaky", "PASSED"),
        ("test_broken[deaf-child]", "FAILED"),
        ("test_kept[polite]", "PASSED"),
        ("test_kept[silent]", "PASSED"),
    ]
    assert len(_histories()) == 3


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(
    ("words", "to_group"),
    [
        ((), False),
        pytest.param((), True, marks=pytest.mark.slow),
        *(pytest.param(("-n2",), to_group, marks=pytest.mark.slow) for to_group in (False, True)),
    ],
    ids=["pytest", "terminal", "-n2", "-n2 terminal"],
)
def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing(team: Any, kept: list[str], words: tuple[str, ...], to_group: bool) -> None:
    """That nothing is left is what the leak guard says of this very test. A terminal sends the signal to the whole group."""
    kept[2], term = LONG
    team(
        SHARED
        + """
    @pytest.mark.cancel_contract(scenarios=["polite", "deaf", "daemon", "pipe-holder"])
    def test_it(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    all_words = ["-p", "no:cacheprovider", "-v", *FAST, term, "--cancel-report=report.json", *words]
    with _Pytest(*all_words) as (process, lines):
        for line in lines:
            if "PASSED" in line:  # then those that are deaf are in flight, in this process or in the workers
                break
        blow_s = time.monotonic()
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        said = "".join(lines)
        assert process.wait(WITHIN_S) == pytest.ExitCode.INTERRUPTED
    # A worker that is not signalled itself is told by execnet, which waits for its test for five seconds first.
    told_s = blow_s + (5.0 if words and not to_group else 0.0)
    assert max(_began_and_over(path)[1] for path in _histories().values()) - told_s < AT_ONCE_S
    assert "KeyboardInterrupt" in said and "1 passed" in said
    assert re.search(r"^polite +kept ", said, re.MULTILINE) and not re.search(r"^deaf +", said, re.MULTILINE)
    drills = json.loads(Path("report.json").read_text())["drills"]
    assert [(drill["scenario"], drill["verdict"]) for drill in drills] == [("polite", "kept")]


class _Pytest:
    """A pytest of its own, in a session of its own, with its lines as they come; killed if it takes too long."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __enter__(self) -> tuple[subprocess.Popen[str], Iterator[str]]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *self._words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A shell that starts these tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._guard = threading.Timer(WITHIN_S, self._process.kill)
        self._guard.start()
        assert self._process.stdout is not None
        return self._process, iter(self._process.stdout)

    def __exit__(self, *_: object) -> None:
        self._guard.cancel()
        self._process.kill()
        self._process.wait(5)
        assert self._process.stdout is not None
        self._process.stdout.close()


# ---------------------------------------------------------------------- parameters, classes, marks

MARKED = """
    known = {"deaf-child:no-survivors": "ticket 1", "deaf-child:outcome-not-early": "ticket 1", "deaf-child:no-late-writes": "ticket 1"}
    pytestmark = pytest.mark.cancel_contract(scenarios=["deaf-child"], settle=0.3)

    @pytest.fixture(scope="session", params=["left", "right"])
    def cancel_adapter(request):
        return CommandAdapter(KEPT_WORDS)

    @pytest.mark.cancel_contract(scenarios=["polite", "silent"])
    class TestWrapper:
        def test_both(self, cancel_contract, cancel_adapter):
            assert cancel_contract.terms.settle_s == 0.3
            cancel_contract.check(cancel_adapter)

    @pytest.mark.parametrize("words", [
        pytest.param(KEPT_WORDS, id="kept"),
        pytest.param(BROKEN_WORDS, id="broken", marks=pytest.mark.cancel_contract(expected=known, settle=0.4)),
        pytest.param(BROKEN_WORDS, id="strict", marks=pytest.mark.xfail(strict=True, reason="ticket 2")),
        pytest.param(KEPT_WORDS, id="mended", marks=pytest.mark.xfail(strict=False)),
        pytest.param(KEPT_WORDS, id="stale", marks=pytest.mark.xfail(strict=True)),
        pytest.param(KEPT_WORDS, id="skipped", marks=pytest.mark.skip(reason="not here")),
        pytest.param(KEPT_WORDS, id="never", marks=pytest.mark.xfail(run=False)),
    ])
    def test_words(cancel_contract, words, request):
        assert cancel_contract.terms.settle_s == (0.4 if request.node.callspec.id.endswith("broken") else 0.3)
        cancel_contract.check(CommandAdapter(words))

    @pytest.mark.parametrize("late", [pytest.param(1, marks=pytest.mark.cancel_contract(scenarios="polite"))])
    def test_refused(cancel_contract, late):
        cancel_contract.check(CommandAdapter(KEPT_WORDS))
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n2",)], ids=["alone", "-n2"])
def test_parameters_classes_and_marks_work_together(team: Any, run: Run, words: tuple[str, ...]) -> None:
    team(MARKED)
    result = run(*(word for word in FAST if "settle" not in word), "--cancel-report=report.json", "-rX", *words, timeout=WITHIN_S)
    result.assert_outcomes(passed=6, xfailed=2, xpassed=1, failed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "test_team.py::test_refused[[]deaf-child-1]: scenarios= cannot stand on a parameter, got 'polite' from the marker *",
            "[[]XPASS(strict)] *",
            "expected broken: deaf-child:no-survivors: ticket 1",
        ]
    )
    drills = json.loads(Path("report.json").read_text())["drills"]
    assert sorted((drill["test"].partition("::")[2], drill["scenario"], drill["verdict"]) for drill in drills) == [
        ("TestWrapper::test_both[left]", "polite", "kept"),
        ("TestWrapper::test_both[left]", "silent", "kept"),
        ("TestWrapper::test_both[right]", "polite", "kept"),
        ("TestWrapper::test_both[right]", "silent", "kept"),
        ("test_words[broken]", "deaf-child", "broken"),
        ("test_words[kept]", "deaf-child", "kept"),
        ("test_words[mended]", "deaf-child", "kept"),
        ("test_words[stale]", "deaf-child", "kept"),
        ("test_words[strict]", "deaf-child", "broken"),
    ]


# ---------------------------------------------------------------------- whose adapter


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "starts"),
    [("function", [1] * 6), ("class", [3, 3]), ("module", [6]), ("session", [6])],
)
def test_each_test_gets_the_drill_of_its_own_adapter_and_no_other_is_run(team: Any, run: Run, scope: str, starts: list[int]) -> None:
    team(
        f"""
    made = []

    class Counting(CommandAdapter):
        def __init__(self):
            super().__init__(KEPT_WORDS)
            self.starts = []
            made.append(self)
        def start(self, run):
            self.starts.append(run.id)
            return super().start(run)

    @pytest.fixture(scope="{scope}")
    def cancel_adapter():
        return Counting()

    class _Tests:
        @pytest.mark.skipif(False, reason="always here")
        @pytest.mark.parametrize("mode", [1])
        @pytest.mark.cancel_contract(scenarios=["polite", "silent"])
        def test_one(self, cancel_contract, cancel_adapter, mode):
            cancel_contract.check(cancel_adapter)

        @pytest.mark.cancel_contract(scenarios=["polite"])
        def test_two(self, cancel_contract, cancel_adapter):
            cancel_contract.check(cancel_adapter)

    class TestA(_Tests):
        pass

    class TestB(_Tests):
        pass

    def test_last():
        assert [len(one.starts) for one in made] == {starts}
        """
    )
    run(*FAST, timeout=WITHIN_S).assert_outcomes(passed=7)


# ---------------------------------------------------------------------- whose world


@pytest.mark.slow
def test_a_drill_runs_in_the_world_of_its_own_test_and_of_no_other(
    team: Any, pytester: pytest.Pytester, run: Run, kept: list[str], broken: list[str]
) -> None:
    """What a test's fixtures change holds for all of its drills, and for none before, beside or behind them."""
    pytester.makepyfile(
        switch=f"""
        import os, sys
        words = {broken[:-1]!r} if os.environ.get("WORLD") == "broken" else {kept[:-1]!r}
        os.execvp(words[0], [*words, *sys.argv[1:]])
        """
    )
    team(
        """
    contract = pytest.mark.cancel_contract(scenarios=["polite", "deaf-child"], clauses=["no-survivors"])
    child = pytest.mark.cancel_contract(scenarios=["deaf-child"], clauses=["no-survivors"])

    @pytest.fixture(scope="session")
    def cancel_adapter():
        return CommandAdapter([sys.executable, __file__.replace("test_team", "switch"), "{runner}"])

    @pytest.fixture
    def world(monkeypatch):
        monkeypatch.setenv("WORLD", "broken")

    @contract
    def test_first(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)

    @contract
    @pytest.mark.usefixtures("world")
    def test_fixture(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)

    @child
    def test_between(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)

    @contract
    def test_body(monkeypatch, cancel_contract, cancel_adapter):
        monkeypatch.setenv("WORLD", "broken")
        cancel_contract.check(cancel_adapter)

    @child
    def test_behind(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)

    class TestXunit:
        def setup_method(self):
            self.patch = pytest.MonkeyPatch()
            self.patch.setenv("WORLD", "broken")

        def teardown_method(self):
            self.patch.undo()

        @child
        def test_it(self, cancel_contract, cancel_adapter):
            cancel_contract.check(cancel_adapter)

    @child
    def test_last(cancel_contract, cancel_adapter):
        cancel_contract.check(cancel_adapter)
        """
    )
    result = run(*FAST, "-v", timeout=WITHIN_S)
    failed = [name for name, outcome in _results(result) if outcome == "FAILED"]
    assert failed == ["test_fixture[deaf-child]", "test_body[deaf-child]", "TestXunit::test_it[deaf-child]"]
    assert len(_results(result)) == 10


AHEAD = """
    import os
    import pytest
    from pytest_cancelcontract.plugin import _side

    pytestmark = pytest.mark.cancel_contract(scenarios=["polite"])

    def follow(request):
        with open("followers.txt", "a") as file:
            names = [one.name.removesuffix("[polite]") for one in _side(request.config).ground.those_that_follow(request.node)]
            print(request.node.name.removesuffix("[polite]"), *names, file=file)
        pytest.skip("nothing is drilled here")

    def test_first(cancel_contract, cancel_adapter, request):
        follow(request)

    def test_second(cancel_contract, cancel_adapter, request):
        follow(request)
"""
TAIL = """
    def test_last(cancel_contract, cancel_adapter, request):
        follow(request)
"""
CONFTEST = """
    import pytest

    @pytest.fixture(scope="session")
    def ground():
        return object()

    @pytest.fixture(scope="session")
    def cancel_adapter(ground):
        return object()
"""
ALL_FOLLOW = ["test_first test_second test_it test_last", "test_second test_it test_last", "test_it test_last", "test_last"]
NONE_PAST_IT = ["test_first test_second", "test_second", "test_it", "test_last"]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param("def test_it(cancel_contract, cancel_adapter, request): follow(request)", ALL_FOLLOW, id="a plain test"),
        pytest.param("def test_it(cancel_contract, cancel_adapter, request, ground): follow(request)", ALL_FOLLOW, id="the adapter's own"),
        pytest.param(
            """
    @pytest.mark.parametrize("mode", [pytest.param(1, id="polite")])
    @pytest.mark.cancel_contract(scenarios=["polite"])
    def test_it(cancel_contract, cancel_adapter, request, mode):
        request.node.name = "test_it"
        follow(request)
            """,
            [line.replace("test_it", "test_it[polite-polite]") for line in ALL_FOLLOW[:2]] + ALL_FOLLOW[2:],
            id="a parameter",
        ),
        pytest.param("def test_it(cancel_contract, cancel_adapter, request, tmp_path): follow(request)", NONE_PAST_IT, id="tmp_path"),
        pytest.param("def test_it(cancel_contract, cancel_adapter, request, monkeypatch): follow(request)", NONE_PAST_IT, id="monkeypatch"),
        pytest.param("def test_it(request): follow(request)", NONE_PAST_IT, id="no contract"),
        pytest.param("def test_it(cancel_contract, request): follow(request)", NONE_PAST_IT, id="no shared adapter"),
        pytest.param(
            """
    @pytest.fixture(scope="session")
    def other():
        pass

    @pytest.mark.usefixtures("other")
    def test_it(cancel_contract, cancel_adapter, request):
        follow(request)
            """,
            NONE_PAST_IT,
            id="the team's for the session",
        ),
        pytest.param(
            """
    class TestIt:
        @classmethod
        def setup_class(cls):
            pass

        def test_it(self, cancel_contract, cancel_adapter, request):
            follow(request)
            """,
            NONE_PAST_IT,
            id="setup_class",
        ),
        pytest.param(
            """
    class TestIt:
        @pytest.fixture
        def ground(self):
            pytest.skip("never")

        def test_it(self, cancel_contract, cancel_adapter, request):
            follow(request)
            """,
            [*NONE_PAST_IT[:2], *NONE_PAST_IT[3:]],
            id="another of the adapter's own",
        ),
        pytest.param(
            """
    def test_it(cancel_contract, cancel_adapter, request):
        request.getfixturevalue("monkeypatch")
        follow(request)
            """,
            [*ALL_FOLLOW[:2], "test_it", "test_last"],
            id="asked for in the body",
        ),
        pytest.param(
            "def test_it(cancel_contract, cancel_adapter, request, tmp_path_factory): follow(request)",
            [*NONE_PAST_IT[:2], "test_it test_last", "test_last"],
            id="a plugin's that is not up yet",
        ),
    ],
)
@pytest.mark.slow
def test_only_directly_following_tests_without_fixtures_of_their_own_start_ahead(
    pytester: pytest.Pytester, run: Run, between: str, expected: list[str]
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(AHEAD + ("" if between.startswith("\n") else "\n    ") + between + TAIL)
    run(timeout=WITHIN_S)
    assert Path("followers.txt").read_text().splitlines() == expected


FOR_ALL = """
    import pytest

    @pytest.fixture(scope="{scope}", autouse=True)
    def for_all():
        yield
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "scope", "follows"),
    [
        ("site-packages", "session", True),
        ("site-packages", "function", False),
        ("site-packages", "module", False),
        ("tools", "session", False),
    ],
)
def test_what_plugins_do_for_the_whole_session_keeps_nothing_from_starting_ahead(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, folder: str, scope: str, follows: bool
) -> None:
    place = pytester.mkdir(folder)
    (place / "for_all_of_it.py").write_text(textwrap.dedent(FOR_ALL.format(scope=scope)))
    monkeypatch.setenv("PYTHONPATH", str(place))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(AHEAD)
    run("-p", "for_all_of_it", timeout=WITHIN_S)
    assert Path("followers.txt").read_text().splitlines()[0] == ("test_first test_second" if follows else "test_first")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("", "", "test_first test_second test_first test_second", id="nothing"),
        pytest.param("", "def setup_module():\n        pass", "test_first test_second", id="what begins"),
        pytest.param(
            """
    @pytest.fixture(scope="module")
    def ground_of_all():
        pass

    class TestBefore:
        def test_before(self, ground_of_all):
            pass
            """,
            "",
            "test_first test_second",
            id="what is up until the module ends",
        ),
    ],
)
@pytest.mark.slow
def test_a_modules_own_ground_ends_what_may_start_ahead(pytester: pytest.Pytester, run: Run, one: str, other: str, expected: str) -> None:
    pytester.makeconftest(CONFTEST)
    # Before the tests of its module: what is used there is up when they come.
    head, tests = AHEAD.split("    def test_first", 1)
    texts = {f"test_{name}": f"{head}\n    {text}\n\n    def test_first{tests}" for name, text in (("a", one), ("b", other))}
    pytester.makepyfile(**texts)
    run(timeout=WITHIN_S)
    assert Path("followers.txt").read_text().splitlines()[0] == expected


def test_a_packages_own_ground_ends_what_may_start_ahead(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(CONFTEST)
    for name in ("one", "other"):
        package = pytester.mkpydir(name)
        (package / "__init__.py").write_text("def setup_module():\n    pass\n")
        (package / f"test_{name}.py").write_text(textwrap.dedent(AHEAD))
    run(timeout=WITHIN_S)
    assert Path("followers.txt").read_text().splitlines()[0] == "test_first test_second"
