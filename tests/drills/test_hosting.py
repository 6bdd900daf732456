"""Adapters in processes of their own: what goes over, what comes back, and that whatever happens to a host harms nobody else."""

# ruff: noqa: ARG002 - an adapter's method takes what it is given, needed or not

from __future__ import annotations

import importlib.util
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.coroutine import CoroutineAdapter
from pytest_cancelcontract.adapters.driver import Driver, Question, Returned
from pytest_cancelcontract.adapters.function import CallableAdapter
from pytest_cancelcontract.adapters.hosting import Hosted, HostedDriver, driver_for
from pytest_cancelcontract.adapters.line import TOKEN
from pytest_cancelcontract.adapters.parcel import CannotHost
from pytest_cancelcontract.adapters.protocol import Adapter, Outcome
from pytest_cancelcontract.contract import uncovered
from pytest_cancelcontract.drill import DrillError, RunnerNeverWorked, WrapperNotStarted, run_drill
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms, settle_terms
from tests.conftest import STAMP, stamped
from tests.runner.stand_in import until

WRAPPERS = Path(__file__).with_name("wrappers.py")
ENDED = "the process that hosts the adapter was ended by {}"
KILLED = f"{ENDED}; had it not been hosted, that would have been pytest"
Read = Callable[[], History]


class Told:
    """Answers what the process that it is in looks like; ``cancel`` writes a word into a file."""

    def __init__(self) -> None:
        self.here = os.getpid()

    def start(self, run: Run) -> Run:
        return run

    def cancel(self, run: Run) -> None:
        with (run.folder / "told").open("a") as file:
            file.write("cancel\n")

    def outcome(self, run: Run) -> Outcome:
        facts = {
            "pid": os.getpid(),
            "made in": self.here,
            "session": os.getsid(0),
            "cwd": str(Path.cwd()),
            "path": sys.path,
            "environ": dict(os.environ),
            "run": [run.id, run.task_id, list(run.argv), dict(run.env), str(run.workspace), str(run.source), run.time_limit],
            "executable": run.executable,
            "stdin": str(Path("/proc/self/fd/0").readlink()),
        }
        (run.folder / "facts").write_text(json.dumps(facts))
        return Outcome.RUNNING

    def close(self) -> None:
        time.sleep(0.1)  # a close that takes its time: whether it is let finish is the test
        print("closed", file=sys.stderr)


class _Bench:
    """Starts hosted adapters on a runner's run that nobody starts: what is looked at is the host."""

    def __init__(self, recorder: Recorder, terms: Terms, path: Path) -> None:
        header = {"scenario": "deaf", "run_id": "r", "task_id": "t", "wrapper": "w", "capabilities": [], "attempt": 1}
        self.recorder = recorder
        self.drill: OpenDrill = recorder.open_drill(header=header, habits=["deaf"], terms=terms, history=path)
        self.driver: Driver | None = None

    def start(self, adapter: Adapter) -> tuple[Driver, int]:
        self.driver = driver_for(adapter)
        answer = self.driver.ask(Question("start", run=self.drill.run), within_s=20)
        assert answer.handle is not None, answer
        return self.driver, answer.handle

    def host(self) -> Identity:
        pid = self.recorder.wait(self.drill, "over", at_most_s=0.0).state["host"]["pid"]
        identity = process_table.identity_of(pid)
        assert identity is not None
        return identity

    def end(self) -> str:
        """End the drill, and return what was printed in the host."""
        output = Path(self.recorder.wait(self.drill, "over", at_most_s=0.0).state["output"])
        self.recorder.finish(self.drill, "over")
        return output.read_text() if output.is_file() else ""

    def close(self) -> None:
        self.recorder.finish(self.drill, "over")
        self.recorder.discard(self.drill)
        if self.driver is not None:
            self.driver.close(within_s=5)


@pytest.fixture
def bench(recorder: Recorder, terms: Terms, path: Path) -> Iterator[_Bench]:
    one = _Bench(recorder, terms, path)
    yield one
    one.close()


# ---------------------------------------------------------------------- what goes over


@pytest.mark.parametrize("adapter", [Told(), Told], ids=["object", "class"])
def test_it_lives_in_a_process_of_its_own_that_is_as_this_one(
    adapter: Any, bench: _Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    driver, handle = bench.start(Hosted(adapter))
    run = bench.drill.run
    assert driver.ask(Question("outcome", handle), within_s=5).outcome is Outcome.RUNNING
    facts = json.loads((run.folder / "facts").read_text())
    assert facts["pid"] == bench.host().pid == facts["session"] != os.getpid()
    assert facts["made in"] == (facts["pid"] if isinstance(adapter, type) else os.getpid())
    assert facts["cwd"] == str(tmp_path)
    assert facts["path"] == sys.path
    assert facts["stdin"] == os.devnull
    theirs = {name: value for name, value in facts["environ"].items() if not name.startswith("CANCELCONTRACT_COMMAND")}
    assert theirs == dict(os.environ)
    assert TOKEN not in facts["environ"]
    assert facts["run"] == [run.id, run.task_id, list(run.argv), dict(run.env), str(run.workspace), str(run.source), run.time_limit]
    assert facts["executable"] == run.executable


def test_capabilities_and_names_are_known_without_a_host() -> None:
    for adapter in (Hosted(Told()), Hosted(Told)):
        driver = driver_for(adapter)
        assert isinstance(driver, HostedDriver)
        assert driver.capabilities() == ("outcome", "disrupt", "recover", "stall")
        assert (driver.name, driver.how) == ("Told", "Told.cancel(handle)")
    driver = driver_for(Hosted(CommandAdapter("wrap {runner}")))
    assert set(driver.capabilities()) == {"exit", "disrupt", "recover"}
    assert driver.name == "wrap {runner}"
    assert not isinstance(driver_for(Told()), HostedDriver)
    assert not isinstance(driver_for(CallableAdapter(print, cancel=print, hosted=False)), HostedDriver)


class _DisruptsAnother(Told):
    """Its wrapper is another process, which it can tell from the host."""

    def disrupt(self, run: Run, how: str) -> None:
        (run.folder / "disrupted").write_text(f"{how} in {os.getpid()}")


def test_a_limit_is_that_of_an_adapter_which_disrupts_its_wrapper_itself_and_it_does_so_in_its_host(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_DisruptsAnother()))
    assert driver.capabilities() == ("outcome", "disrupt", "recover", "limit", "stall")
    assert driver.ask(Question("disrupt", handle, how="freeze"), within_s=5).error is None
    assert (bench.drill.run.folder / "disrupted").read_text() == f"freeze in {bench.host().pid}"
    assert uncovered(by_id("wrapper-frozen"), driver.capabilities(), settle_terms({})) == ""
    assert uncovered(by_id("wrapper-frozen"), driver_for(Hosted(Told())).capabilities(), settle_terms({})).endswith("in the adapter")


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (object(), "an adapter needs start(run) and cancel(handle); object lacks start(run) and cancel(handle)"),
        (dict, "an adapter needs start(run) and cancel(handle); the class dict lacks one"),
        (CommandAdapter, "what CommandAdapter can do depends on how it is made; write Hosted(CommandAdapter(…))"),
    ],
)
def test_what_cannot_be_driven_is_refused_by_name(adapter: Any, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        Hosted(adapter)
    assert str(refused.value) == message


def test_one_that_is_driven_from_inside_another_says_where_it_belongs() -> None:
    assert "give Hosted(…) itself" in str(Driver(Hosted(Told())).ask(Question("start", run=cast("Run", None)), within_s=5).error)


def test_closures_and_lambdas_go_over(bench: _Bench) -> None:
    said = f"by {os.getpid()}"
    adapter = CallableAdapter(lambda run: (run.folder / "said").write_text(said), cancel=lambda _run: None)
    driver, handle = bench.start(adapter)
    assert driver.ask(Question("wait", handle), within_s=5).outcome is Outcome.SUCCEEDED
    assert (bench.drill.run.folder / "said").read_text() == said


def test_what_a_host_changes_is_its_own(bench: _Bench) -> None:
    seen: list[int] = []
    driver, handle = bench.start(CallableAdapter(lambda _run: seen.append(1), cancel=lambda _run: None))
    assert driver.ask(Question("wait", handle), within_s=5).outcome is Outcome.SUCCEEDED
    assert seen == []


TEAM = """
import functools, threading

class Pool:
    def __init__(self):
        self.lock, self.runs = threading.Lock(), {}
    def run(self, run):
        with self.lock:
            self.runs[run.id] = self
        return "cancelled"

def logged(function):
    calls = []
    @functools.wraps(function)
    def wrapper(run):
        calls.append(run.id)
        return function(run)
    wrapper.calls = calls
    return wrapper

pool, runs, pair, late, count = Pool(), {}, (threading.Lock(), {}), None, 0
say = lambda run: runs.setdefault(run.id, runs)

def run_agent(run):
    global count
    count += 1
    pair[1][run.id] = runs[run.id] = 1
    logs(run)
    return pool.run(run)

@logged
def logs(run):
    return calls_late()

def calls_late():
    if late is not None:
        late.append(1)

def set_late():
    global late
    late = late or []
    return late
"""
LOCAL = """
import team
from team import Pool, logs, pair, pool, run_agent, runs, say, set_late

mine, count = {}, 0

class Takes:
    def __init__(self, *taken):
        self.taken = taken
    def __call__(self, run):
        for one in self.taken:
            assert run.id in (one.runs if isinstance(one, Pool) else one), one

class Keeps:
    kept = {}
    def start(self, run):
        mine[run.id] = self.kept[run.id] = run
        return run
    def cancel(self, run):
        Takes(mine, Keeps.kept)(run)

def keep(run):
    global count
    count += 1
    mine[run.id] = 1

def look(run):
    assert count == 1 and run.id in mine

def shared():
    process = None
    def fn(run):
        nonlocal process
        process = run.id
    def cancel(run):
        assert process == run.id, process
    return fn, cancel

def itself():
    seen = {}
    def fn(run, again=True):
        seen[run.id] = 1
        return fn(run, False) if again else None
    return fn, lambda run: Takes(seen)(run)

def in_a_local_class():
    class Team:
        def fn(self, run):
            mine[run.id] = super().__hash__()
        def cancel(self, run):
            Takes(mine)(run)
    team = Team()
    return team.fn, team.cancel

class Later:
    def __init__(self, late):
        self.late = late
    def __call__(self, run):
        assert self.late == [1], self.late

both = {
    "a lambda": lambda: (run_agent, lambda run: Takes(pool, runs)(run)),
    "an attribute": lambda: (run_agent, lambda run: Takes(team.pool, team.pair[1])(run)),
    "an object that holds it": lambda: (run_agent, Takes(pool, runs)),
    "a method": lambda: (pool.run, lambda run: Takes(pool)(run)),
    "a default": lambda: (run_agent, lambda run, one=pool, two=runs, three=pair: Takes(one, two, three[1])(run)),
    "a decorated one": lambda: (run_agent, lambda run: Takes(logs.calls)(run)),
    "a lambda of the module": lambda: (say, lambda run: Takes(runs)(run)),
    "a module's own": lambda: (keep, lambda run: Takes(mine)(run)),
    "what is assigned": lambda: (keep, lambda run: look(run)),
    "what is assigned by a lambda": lambda: (lambda run: keep(run), look),
    "what closures share": shared,
    "a closure that knows itself": itself,
    "a local class": in_a_local_class,
    "what is made late": lambda: (run_agent, Later(set_late())),
}
"""


COUPLES = [line.split('"')[1] for line in LOCAL.partition("both = {")[2].splitlines() if '"' in line]


@pytest.fixture(params=["prepend", "importlib"])
def local(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A test module as pytest imports it: by a name that the path leads to, or by one that it does not."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "team.py").write_text(TEAM)
    file = tmp_path / "local_test.py"
    file.write_text(LOCAL)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    if request.param == "prepend":
        monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("local_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["local_test"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["local_test"], sys.modules["team"]


@pytest.mark.slow
@pytest.mark.parametrize("couple", COUPLES)
def test_there_is_one_copy_of_everything_in_a_host(couple: str, local: Any, bench: _Bench) -> None:
    fn, cancel = local.both[couple]()
    driver, handle = bench.start(CallableAdapter(fn, cancel=cancel))
    assert driver.ask(Question("wait", handle), within_s=5).outcome in {Outcome.SUCCEEDED, Outcome.CANCELLED}
    answer = driver.ask(Question("cancel", handle), within_s=5)
    assert answer.error is None, answer.trace


@pytest.mark.parametrize("is_class", [True, False])
def test_there_is_one_copy_of_what_an_adapter_keeps(is_class: bool, local: Any, bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(local.Keeps if is_class else local.Keeps()))
    answer = driver.ask(Question("cancel", handle), within_s=5)
    assert answer.error is None, answer.trace


def test_what_is_made_late_and_cannot_be_copied_is_named(local: Any, bench: _Bench) -> None:
    local.team.late = threading.Lock()
    driver = driver_for(CallableAdapter(local.Later(local.team.late), cancel=local.look))
    error = str(driver.ask(Question("start", run=bench.drill.run), within_s=20).error)
    assert "LookupError: team.late, a lock, is not there when team is imported, and a copy cannot be pickled" in error


class _Holds(Told):
    """Has something that stays where it is."""

    def __init__(self, held: object) -> None:
        super().__init__()
        self.client = {"held": held}


def _uses(held: Any) -> CallableAdapter:
    def run_agent(_run: Run) -> None:
        print(held)

    return CallableAdapter(run_agent, cancel=lambda _run: None)


def test_what_cannot_go_over_is_named_with_the_way_out() -> None:
    with socket.socket() as link:
        with pytest.raises(CannotHost) as refused:
            driver_for(Hosted(_Holds(link)))
        assert str(refused.value) == (
            "the adapter cannot go to a process of its own, since _Holds → client → 'held', a socket, cannot be pickled (cannot pickle"
            " 'socket' object): make it in start, or drive it without Hosted"
        )
        with pytest.raises(CannotHost) as refused:
            driver_for(_uses([threading.Lock()]))
    assert str(refused.value) == (
        "the adapter cannot go to a process of its own, since CallableAdapter → _fn → held → [0], a lock, cannot be pickled (cannot pickle"
        " '_thread.lock' object): make it in start, or give hosted=False, and it is driven in pytest's own process"
    )


class _NotThere:
    """Cannot be made anywhere but here."""

    def __init__(self) -> None:
        if not os.environ.get("PYTEST_CURRENT_TEST", "").startswith(__name__):
            raise RuntimeError("no configuration found")

    start = Told.start
    cancel = Told.cancel


def test_one_that_cannot_be_made_there_is_an_error_of_its_start(bench: _Bench) -> None:
    driver = driver_for(Hosted(_NotThere))
    answer = driver.ask(Question("start", run=bench.drill.run), within_s=20)
    assert answer.error == "the adapter cannot be made in a process of its own: RuntimeError: no configuration found"
    assert "in __init__" in answer.trace
    driver.close()


# ---------------------------------------------------------------------- what comes back


def test_a_call_is_noted_here_before_it_is_made_there(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(Told()))
    told = bench.drill.run.folder / "told"
    order: list[object] = []

    def before() -> None:
        order.append(told.exists())

    def after(returned: Returned) -> None:
        order.append((returned.error, returned.is_clean))

    asked_s = time.monotonic()
    answer = driver.begin(Question("cancel", handle), within_s=5, before=before, after=after).answer()
    assert answer.error is None
    assert asked_s <= answer.began_s <= answer.ended_s <= time.monotonic()
    assert order == [False, (None, True)]
    assert told.read_text() == "cancel\n"


def test_a_call_that_cannot_be_noted_is_not_made(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(Told()))

    def before() -> None:
        raise OSError("the disk is full")

    assert driver.begin(Question("cancel", handle), within_s=5, before=before).answer().error == "OSError: the disk is full"
    driver.ask(Question("outcome", handle), within_s=5)
    assert not (bench.drill.run.folder / "told").exists()


class _Raises(Told):
    """Raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def cancel(self, run: Run) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said", "is_clean"), [(ValueError("no\njob"), "ValueError: no job", True), (SystemExit(2), "SystemExit: 2", False)]
)
def test_an_error_comes_back_in_words_with_its_trace(error: BaseException, said: str, is_clean: bool, bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_Raises(error)))
    returned: list[Returned] = []
    answer = driver.begin(Question("cancel", handle), within_s=5, after=returned.append).answer()
    assert answer.error == said
    assert "in cancel" in answer.trace
    assert [(one.error, one.is_clean) for one in returned] == [(said, is_clean)]


class _Async(Told):
    """Waits on its loop, until it is not waited for any more."""

    async def wait(self, run: Run) -> Outcome:
        import asyncio

        try:
            await asyncio.sleep(60)
        finally:
            (run.folder / "given up").touch()
        return Outcome.SUCCEEDED


def test_a_call_that_is_given_up_is_given_up_there(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_Async()))
    assert driver.ask(Question("wait", handle), within_s=0.2).is_overrun
    given_up = bench.drill.run.folder / "given up"
    until(given_up.exists, "the call is given up", within_s=5)


def test_an_unknown_run_is_told_as_it_is_without_a_host(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(Told()))
    driver.forget(handle)
    assert driver.ask(Question("outcome", handle), within_s=5).error == f"LookupError: no run is known by the handle {handle}"


def test_two_runs_of_a_drill_live_in_one_host_and_two_drills_in_two(bench: _Bench, recorder: Recorder, terms: Terms, path: Path) -> None:
    driver, first = bench.start(Hosted(Told()))
    second = driver.ask(Question("start", run=recorder.second_run(bench.drill, "again")), within_s=20).handle
    assert second not in {None, first}
    pids = []
    for handle in (first, second):
        driver.ask(Question("outcome", handle), within_s=5)
        facts = json.loads((bench.drill.run.folder / "facts").read_text())
        pids.append((facts["pid"], facts["run"][0]))
    assert pids == [(bench.host().pid, "r"), (bench.host().pid, "again")]
    other = _Bench(recorder, terms, path.with_name("other.jsonl"))
    try:
        assert driver.ask(Question("start", run=other.drill.run), within_s=20).handle is not None
        assert other.host() != bench.host()
    finally:
        other.close()


# ---------------------------------------------------------------------- hosts that come to harm


def _state(identity: Identity) -> str:
    return process_table.sight(identity).state


def test_a_host_that_is_frozen_answers_nothing_until_it_is_thawed(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(Told()))
    assert driver.ask(Question("disrupt", handle, how="freeze"), within_s=5).error is None
    assert _state(bench.host()) == "T"
    asked_s = time.monotonic()
    answer = driver.ask(Question("outcome", handle), within_s=0.2)
    assert (answer.is_overrun, answer.outcome) == (True, None)
    assert time.monotonic() - asked_s < 2
    pressed: list[float] = []
    call = driver.begin(Question("cancel", handle), within_s=5, before=lambda: pressed.append(time.monotonic()))
    assert call.answer(0.2).is_overrun
    assert not pressed
    assert driver.ask(Question("recover", handle), within_s=5).error is None
    assert call.answer().error is None
    assert pressed
    assert driver.ask(Question("outcome", handle), within_s=5).outcome is Outcome.RUNNING


def test_a_host_that_stays_frozen_goes_with_its_drill(bench: _Bench, read: Read) -> None:
    driver, handle = bench.start(Hosted(Told()))
    driver.ask(Question("disrupt", handle, how="freeze"), within_s=5)
    bench.end()
    read()


def test_a_host_that_is_killed_answers_all_that_is_under_way_and_all_that_comes_later(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_Async()))
    waiting = driver.begin(Question("wait", handle), within_s=30)
    assert driver.ask(Question("disrupt", handle, how="kill"), within_s=5).error is None
    asked_s = time.monotonic()
    assert waiting.answer().error == ENDED.format("SIGKILL")
    order: list[object] = []
    call = driver.begin(Question("cancel", handle), within_s=30, before=lambda: order.append("pressed"), after=order.append)
    assert call.answer().error == ENDED.format("SIGKILL")
    assert order[0] == "pressed"
    assert isinstance(order[1], Returned)
    assert order[1].is_clean is False
    assert driver.ask(Question("start", run=bench.drill.run), within_s=30).error == ENDED.format("SIGKILL")
    assert "is gone" in str(driver.ask(Question("recover", handle), within_s=5).error) or _state(bench.host()) == "Z"
    assert time.monotonic() - asked_s < 5


class _Forks(Told):
    """Leaves a child behind that has inherited all that the host has open, and speaks when it should not."""

    def cancel(self, run: Run) -> None:
        if os.fork() == 0:
            raise RuntimeError("the child comes back where it was forked")
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_fork_of_the_host_does_not_speak_for_it(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_Forks()))
    assert driver.ask(Question("cancel", handle), within_s=10).error == KILLED.format("SIGKILL")


class _Leaves(Told):
    """Ends the process that it is in."""

    def cancel(self, run: Run) -> None:
        print("leaving", flush=True)
        os._exit(3)


def test_a_host_that_leaves_is_told_by_its_status(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_Leaves()))
    assert driver.ask(Question("cancel", handle), within_s=10).error == "the process that hosts the adapter ended with status 3"
    assert bench.end() == "leaving\n"


class _HangsUp(Told):
    """Closes what is not its own."""

    def cancel(self, run: Run) -> None:
        os.closerange(3, 256)


def test_a_host_whose_line_is_closed_by_its_adapter_is_no_host_any_more(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_HangsUp()))
    assert driver.ask(Question("cancel", handle), within_s=10).error == (
        "the process that hosts the adapter ended with status 83, since it found its descriptors closed: by the wrapper, which lives in it"
    )


class _ClosesItsOutput(_HangsUp):
    """Closes all, with something that is printed and not written yet."""

    def cancel(self, run: Run) -> None:
        print("on the way", end="")
        os.closerange(0, 256)


def test_a_host_whose_output_is_closed_as_well_tells_the_same(bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(_ClosesItsOutput()))
    assert "ended with status 83" in str(driver.ask(Question("cancel", handle), within_s=10).error)


# ---------------------------------------------------------------------- the end


def test_the_adapter_is_closed_in_its_host_when_the_drill_is_over(bench: _Bench, read: Read) -> None:
    bench.start(Hosted(Told()))
    assert bench.end() == "closed\n"
    exited = read().last("process-table", "host-exited")
    assert exited is None, "what happens behind the drill is none of it"


@pytest.mark.parametrize("way", ["forgotten", "closed"])
def test_a_host_that_is_not_needed_any_more_leaves(way: str, bench: _Bench) -> None:
    driver, handle = bench.start(Hosted(Told()))
    identity = bench.host()
    pidfd = process_table.open_pidfd(identity)
    assert pidfd is not None
    if way == "forgotten":
        driver.forget(handle)
    else:
        driver.close(within_s=5)
    assert select.select([pidfd], [], [], 5)[0]
    os.close(pidfd)
    assert bench.recorder.wait(bench.drill, "over", at_most_s=0.0).state["host"]["status"] == 0
    assert bench.end() == "closed\n"


async def _blocks(run: Run) -> None:
    print("in the main thread:", threading.current_thread() is threading.main_thread())
    (run.folder / "blocks").touch()
    signal.pause()


def test_a_host_whose_main_thread_is_blocked_leaves(bench: _Bench) -> None:
    driver, handle = bench.start(CoroutineAdapter(_blocks))
    until((bench.drill.run.folder / "blocks").exists, "its main thread is blocked", within_s=10)
    pidfd = process_table.open_pidfd(bench.host())
    assert pidfd is not None
    driver.forget(handle)
    assert select.select([pidfd], [], [], 5)[0]
    os.close(pidfd)
    assert bench.recorder.wait(bench.drill, "over", at_most_s=0.0).state["host"]["status"] == 0
    assert bench.end().startswith("in the main thread: True\n")


KILLED_PYTEST = """
import signal, sys
from pathlib import Path
from pytest_cancelcontract.adapters.driver import Question
from pytest_cancelcontract.adapters.hosting import Hosted, driver_for
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms
import subprocess

class Deaf:
    def start(self, run):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        return subprocess.Popen(run.argv, cwd=run.workspace)
    def cancel(self, handle): pass
    def close(self):
        import time
        time.sleep(60)  # a close that never ends, as far as anybody waits

recorder = Recorder.start()
head = dict(scenario="deaf", run_id="r", task_id="t", wrapper="w", capabilities=[], attempt=1)
drill = recorder.open_drill(header=head, habits=["deaf"], terms=settle_terms({}), history=Path(sys.argv[1]) / "h.jsonl")
driver = driver_for(Hosted(Deaf()))
handle = driver.ask(Question("start", run=drill.run), within_s=20).handle
assert recorder.wait(drill, "working", at_most_s=20).state["working"]
if sys.argv[2] == "frozen":
    driver.ask(Question("disrupt", handle, how="freeze"), within_s=5)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_a_pytest_that_is_killed_leaves_no_host(state: str, tmp_path: Path) -> None:
    side = subprocess.Popen([sys.executable, "-c", KILLED_PYTEST, str(tmp_path), state], stdout=subprocess.PIPE, text=True)
    assert side.stdout is not None
    assert side.stdout.readline() == "ready\n"
    assert any("adapters.host" in command for command in stamped(os.environ[STAMP]).values())
    side.kill()
    side.communicate()
    until(lambda: not stamped(os.environ[STAMP]), "nothing of it is left", within_s=2.5)


def test_a_recorder_that_is_killed_leaves_no_host(terms: Terms, tmp_path: Path) -> None:
    recorder = Recorder.start(tmp_path)
    bench = _Bench(recorder, terms, tmp_path / "h.jsonl")
    driver, _ = bench.start(Hosted(Told()))
    os.kill(recorder.pid, signal.SIGKILL)
    driver.close(within_s=5)
    recorder.close()  # the leak guard looks for what is left


# ---------------------------------------------------------------------- whole drills


class _Drills:
    """Runs drills of one test."""

    def __init__(self, recorder: Recorder, terms: Terms, path: Path) -> None:
        self.recorder, self.terms, self.path = recorder, terms, path

    def run(self, adapter: Adapter, scenario: str = "polite") -> None:
        driver = driver_for(adapter)
        try:
            run_drill(self.recorder, driver, by_id(scenario), self.terms, wrapper=driver.name, history=self.path)
        finally:
            driver.close(within_s=5)


@pytest.fixture
def drills(recorder: Recorder, terms: Terms, path: Path) -> _Drills:
    return _Drills(recorder, terms, path)


def _one(history: History, witness: str, kind: str) -> Observation:
    (found,) = history.of(witness, kind)
    return found


_processes: dict[str, subprocess.Popen[bytes]] = {}


def starts_it(run: Run) -> None:
    print("starting", run.id)
    _processes[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env)
    _processes[run.id].wait()


def kills_its_own_group(run: Run) -> None:
    os.killpg(os.getpgid(_processes[run.id].pid), signal.SIGTERM)


def interrupts_its_own_group(run: Run) -> None:
    os.killpg(os.getpgid(_processes[run.id].pid), signal.SIGINT)


@pytest.mark.parametrize(("cancel", "number"), [(kills_its_own_group, signal.SIGTERM), (interrupts_its_own_group, signal.SIGINT)])
def test_a_wrapper_that_kills_its_own_group_harms_its_host_only(
    cancel: Callable[[Run], None], number: signal.Signals, drills: _Drills, read: Read
) -> None:
    drills.run(CallableAdapter(starts_it, cancel=cancel))
    history = read()
    host, exited = history.first("process-table", "spawned"), _one(history, "process-table", "host-exited")
    pressed, returned = _one(history, "adapter", "pressed"), _one(history, "adapter", "cancel-returned")
    assert host is not None
    assert host.data["role"] == "host"
    assert (exited.subject, exited.data["status"]) == (host.subject, -number)
    assert pressed.at_s < exited.at_s
    if number is not signal.SIGINT:  # that one goes to the main thread, while the call comes back
        assert (returned.data["error"], returned.data["clean"]) == (KILLED.format(number.name), False)
    notice = history.first("lifeline", "notice")
    assert notice is not None
    assert pressed.at_s < notice.data["said_at_s"]
    assert [seen.data["error"] for seen in history.of("outcome", "error")][:1] == [KILLED.format(number.name)]


def test_the_task_cannot_be_started_again_where_the_host_is_gone(drills: _Drills, read: Read) -> None:
    drills.run(CallableAdapter(starts_it, cancel=kills_its_own_group), "second-run")
    assert _one(read(), "adapter", "restarted").data["error"] == KILLED.format("SIGTERM")


def test_a_command_that_is_started_from_a_host_is_the_wrapper(drills: _Drills, read: Read) -> None:
    command = f"{shlex.quote(sys.executable)} -I -S {WRAPPERS} kept {{runner}}"
    drills.run(Hosted(CommandAdapter(command, cancel_with=f"{shlex.quote(sys.executable)} -c 'import os; os.kill({{wrapper_pid}}, 15)'")))
    history = read()
    assert [seen.data["role"] for seen in history.of("process-table", "spawned")] == ["host", "wrapper", "helper"]
    assert [seen.data["outcome"] for seen in history.of("outcome", "answer")] == ["cancelled"]
    returned = _one(history, "adapter", "cancel-returned")
    assert (returned.data["error"], returned.data["clean"]) == (None, True)
    assert _one(history, "adapter", "pressed").at_s <= returned.data["acted_at_s"] <= returned.at_s


def test_a_program_that_does_not_exist_is_told_as_it_is_without_a_host(drills: _Drills, read: Read) -> None:
    with pytest.raises(WrapperNotStarted) as failed:
        drills.run(Hosted(CommandAdapter("no-such-wrapper {runner}")))
    assert str(failed.value).startswith("the wrapper was not started: cannot start 'no-such-wrapper': No such file or directory.")
    read()


class _SpawnsNothing(Told):
    """Wants a program that is not there, and does not care what kind of error that is."""

    def start(self, run: Run) -> Run:
        try:
            run.spawn(["no-such-program"])
        except OSError as error:
            print(f"told: {error}")
        return run


def test_what_cannot_be_spawned_from_a_host_is_an_os_error(bench: _Bench) -> None:
    bench.start(Hosted(_SpawnsNothing()))
    assert bench.end() == "told: cannot start 'no-such-program': No such file or directory\nclosed\n"


def test_what_a_host_printed_is_shown_where_the_runner_never_worked(drills: _Drills, read: Read) -> None:
    def fails(_run: Run) -> None:
        print("reading the configuration")
        raise FileNotFoundError("agent.toml")

    with pytest.raises(DrillError) as failed:
        drills.run(CallableAdapter(fails, cancel=lambda _run: None))
    assert type(failed.value) is RunnerNeverWorked
    assert str(failed.value).startswith("the outcome was failed before the runner worked")
    assert "The wrapper's output ends with:\nreading the configuration\nTraceback" in str(failed.value)
    assert str(failed.value).endswith("FileNotFoundError: agent.toml")
    read()


def test_a_drill_that_is_interrupted_leaves_no_host(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    def interrupt(stage: str, _at_most_s: float) -> None:
        if "everything is over" in stage:
            raise KeyboardInterrupt

    driver = driver_for(CallableAdapter(starts_it, cancel=lambda _run: None))
    with pytest.raises(KeyboardInterrupt):
        run_drill(recorder, driver, by_id("deaf"), terms, wrapper="w", history=path, progress=interrupt)
    driver.close()
    read()


def test_a_host_that_does_not_come_up_in_time_is_an_overrun(recorder: Recorder, path: Path, read: Read) -> None:
    terms = settle_terms({"call": (0.01, "the test")})
    with pytest.raises(WrapperNotStarted, match=r"^the wrapper was not started: start did not return within"):
        run_drill(recorder, driver_for(Hosted(Told())), by_id("polite"), terms, wrapper="w", history=path)
    read()
