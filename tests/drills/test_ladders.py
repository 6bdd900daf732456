"""Ladders: read and refused, climbed on a real process that writes down what it gets, and judged through a drill."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.adapters.helpers import CutShort, climb
from pytest_cancelcontract.adapters.ladders import LADDERS, Ladder, read_ladder
from pytest_cancelcontract.adapters.protocol import CALL_ENDS_AT
from pytest_cancelcontract.adapters.words import BadCommand
from pytest_cancelcontract.conduct import DrillResult, conduct
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.option_table import OPTIONS
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.recorder.process_table import identity_of
from pytest_cancelcontract.report.listing import ladder_lines
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms

HERE = Path(__file__).parent
NOBODY = "-"
LATE_S = 2.0
"""How late a step may be on a busy machine; none may be early."""
STATUS_OF_NOTES = 3
"""With which the wrapper leaves at its signal."""

# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ("@github-actions", "@github-actions: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL to the wrapper"),
        ("@docker", "@docker: SIGTERM, 10 s, SIGKILL to the wrapper"),
        ("@kubernetes", "@kubernetes: SIGTERM, 30 s, SIGKILL to the wrapper"),
        ("@systemd", "@systemd: SIGTERM, SIGCONT, 90 s, SIGKILL to the wrapper"),
        ("@buildkite", "@buildkite: SIGTERM, 10 s, SIGKILL to the wrapper"),
        ("@gitlab", "@gitlab: SIGTERM, 600 s, SIGKILL to the wrapper"),
        ("@'INT 2 TERM 1 KILL'", "SIGINT, 2 s, SIGTERM, 1 s, SIGKILL to the wrapper"),
        ("@INT 2 TERM 1 KILL", "SIGINT, 2 s, SIGTERM, 1 s, SIGKILL to the wrapper"),
        ("'@INT 2 TERM 1 KILL'", "SIGINT, 2 s, SIGTERM, 1 s, SIGKILL to the wrapper"),
        ("@ sigint .5 Term", "SIGINT, 0.5 s, SIGTERM to the wrapper"),
        ("@HUP", "SIGHUP to the wrapper"),
    ],
)
def test_a_ladder_is_read_in_each_way_of_writing_it(given: str, how: str) -> None:
    assert CommandAdapter("wrap {runner}", cancel_with=given).how == how
    assert CommandAdapter("wrap {runner}", cancel_with=shlex.split(given)).how == how


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("@dokcer", "no such ladder: '@dokcer' from --with; allowed are @github-actions, @docker, @kubernetes, ", id="a name"),
        pytest.param("@", "a ladder without a step, got '@' from --with", id="nothing"),
        pytest.param("@''", "a ladder without a step, got '@' from --with", id="nothing in quotes"),
        pytest.param("@TRM 2 KILL", "no such signal: 'TRM' in the ladder '@TRM 2 KILL' from --with", id="a signal"),
        pytest.param("@15 2 9", "no such signal: '15' in the ladder", id="a number, which could be a pause as well"),
        pytest.param("@docker 2 KILL", "no such signal: 'docker' in the ladder", id="a name with steps"),
        pytest.param("@INT TERM", "the pause between INT and TERM is missing in the ladder", id="no pause"),
        pytest.param("@INT 2 TERM 1", "the pause at the end, 1, has no signal behind it", id="a pause at the end"),
        pytest.param("@INT -1 KILL", "a pause must be a number of seconds from 0 to 1000000, got '-1'", id="a negative pause"),
        pytest.param("@INT nan KILL", "got 'nan' in the ladder", id="no number"),
        pytest.param("@INT inf KILL", "got 'inf' in the ladder", id="an endless pause"),
        pytest.param("@INT 1e400 KILL", "got '1e400' in the ladder", id="an enormous pause"),
        pytest.param("@INT 2s KILL", "got '2s' in the ladder", id="a unit"),
    ],
)
def test_a_ladder_that_nobody_can_climb_is_refused_in_one_line_with_its_origin(given: str, message: str) -> None:
    with pytest.raises(BadCommand) as refused:
        CommandAdapter("wrap {runner}", cancel_with=given, origin={"cancel_with": "--with"})
    assert message in str(refused.value)
    assert " from --with; allowed are @github-actions, " in str(refused.value)
    assert str(refused.value).endswith("or signals by name with the seconds between them, as in @'INT 2 TERM 1 KILL'")
    assert "\n" not in str(refused.value)


def test_a_service_has_no_process_to_climb_to() -> None:
    with pytest.raises(BadCommand, match=r"^@docker from --with has no process to go to: a run that --start starts is cancelled by a comm"):
        CommandAdapter(start="submit {runner}", cancel_with="@docker", origin={"cancel_with": "--with", "start": "--start"})


def test_only_a_ladder_takes_time_by_itself() -> None:
    taken = {with_: CommandAdapter("wrap {runner}", cancel_with=with_).cancel_takes_s for with_ in ("@github-actions", "INT", "./stop.sh")}
    assert taken == {"@github-actions": 10.0, "INT": 0.0, "./stop.sh": 0.0}


def test_help_and_list_name_every_ladder_and_each_has_its_source() -> None:
    help_text = next(row.help for row in OPTIONS if row.name == "with")
    listed = "\n".join(ladder_lines(LADDERS))
    for row in LADDERS:
        assert f"@{row.name}" in help_text and f"@{row.name}" in listed
        assert row.source.startswith("https://") and row.source in listed
        assert row.about.endswith(".") and row.about in listed
        assert [step.number for step in read_ladder([f"@{row.name}"], "here").steps][-1] is signal.SIGKILL


# ---------------------------------------------------------------------- climbing

Noted = tuple[subprocess.Popen[bytes], Callable[[], list[tuple[str, float]]]]


@pytest.fixture
def noting(tmp_path: Path) -> Iterator[Callable[[str], Noted]]:
    """Starts the wrapper that notes its signals, and reads what it has noted since it was ready."""
    started: list[subprocess.Popen[bytes]] = []

    def start(leaves_at: str) -> Noted:
        log = tmp_path / f"log-{len(started)}"
        process = subprocess.Popen([sys.executable, "-I", "-S", HERE / "notes_signals.py", log, leaves_at])
        started.append(process)
        ends_s = time.monotonic() + 10
        while not (log.exists() and log.read_text().startswith("ready")):
            assert time.monotonic() < ends_s and process.poll() is None
            time.sleep(0.005)  # polls to a deadline: the file is all that it says
        return process, lambda: _notes(log)

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(5)


def _notes(log: Path) -> list[tuple[str, float]]:
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(name, float(at_s)) for name, at_s in lines if name != "ready"]


def _climb(steps: str, process: subprocess.Popen[bytes]) -> float:
    """Seconds that it took."""
    identity = identity_of(process.pid)
    assert identity is not None
    began_s = time.monotonic()
    climb(_ladder(steps), process.pid, identity.start)
    return time.monotonic() - began_s


def _ladder(steps: str) -> Ladder:
    return read_ladder([f"@{steps}"], "here")


def test_the_steps_come_in_order_with_their_pauses_up_to_the_kill(noting: Callable[[str], Noted]) -> None:
    process, notes = noting(NOBODY)
    took_s = _climb("INT 0.3 TERM 0.2 HUP 0.1 KILL", process)
    assert process.wait(5) == -signal.SIGKILL
    names, times = zip(*notes(), strict=True)
    assert names == ("SIGINT", "SIGTERM", "SIGHUP")
    assert 0.6 <= took_s < 0.6 + LATE_S
    assert times[2] - times[0] < 0.5 + LATE_S
    assert all(earlier <= later for earlier, later in itertools.pairwise(times))


def test_it_ends_as_soon_as_the_process_does(noting: Callable[[str], Noted]) -> None:
    process, notes = noting("SIGTERM")
    took_s = _climb("INT 0.2 TERM 30 KILL", process)
    assert process.wait(5) == STATUS_OF_NOTES
    assert [name for name, _ in notes()] == ["SIGINT", "SIGTERM"]
    assert 0.2 <= took_s < 0.2 + LATE_S


def test_a_pause_of_nothing_is_none(noting: Callable[[str], Noted]) -> None:
    process, notes = noting("SIGCONT")
    _climb("TERM 0 CONT 30 KILL", process)
    assert process.wait(5) == STATUS_OF_NOTES
    assert sorted(name for name, _ in notes()) == ["SIGCONT", "SIGTERM"]


def test_behind_the_last_signal_nothing_is_waited_for(noting: Callable[[str], Noted]) -> None:
    process, _ = noting(NOBODY)
    assert _climb("INT 0.1 TERM", process) < 0.1 + LATE_S
    assert process.poll() is None


def test_the_time_of_the_call_cuts_it_short_before_the_kill(noting: Callable[[str], Noted]) -> None:
    process, notes = noting(NOBODY)
    token = CALL_ENDS_AT.set(time.monotonic() + 0.4)
    try:
        with pytest.raises(
            CutShort, match=r"^the ladder \(SIGINT, 0\.1 s, SIGTERM, 30 s, SIGKILL to the wrapper\) was cut short after 0\."
        ):
            _climb("INT 0.1 TERM 30 KILL", process)
    finally:
        CALL_ENDS_AT.reset(token)
    assert process.poll() is None
    process.kill()
    process.wait(5)
    assert [name for name, _ in notes()] == ["SIGINT", "SIGTERM"]


def test_a_process_that_is_gone_or_another_one_gets_nothing(noting: Callable[[str], Noted]) -> None:
    process, notes = noting(NOBODY)
    identity = identity_of(process.pid)
    assert identity is not None
    for start in (identity.start - 1, identity.start + 1):
        with pytest.raises(ProcessLookupError, match=r"is gone, no SIGTERM was sent"):
            climb(_ladder("TERM 1 KILL"), process.pid, start)
    assert process.poll() is None
    process.kill()
    process.wait(5)
    with pytest.raises(ProcessLookupError, match=r"is gone, no SIGTERM was sent"):
        climb(_ladder("TERM 1 KILL"), process.pid, identity.start)
    assert notes() == []


# ---------------------------------------------------------------------- through a drill

Read = Callable[[], History]


def _drilled(recorder: Recorder, terms: Terms, path: Path, wrapper: str, ladder: str, scenario: str = "polite") -> DrillResult:
    command = f"{shlex.quote(sys.executable)} -I -S {wrapper} {{runner}}"
    return conduct(recorder, Driver(CommandAdapter(command, cancel_with=ladder)), by_id(scenario), terms, history=path)


def _verdict(result: DrillResult, clause: str) -> Verdict:
    return next(check.verdict for check in result.checks if check.clause == clause)


def test_a_wrapper_that_keeps_the_contract_keeps_it_under_a_ladder(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    result = _drilled(recorder, terms, path, f"{HERE / 'wrappers.py'} kept", "@'TERM 20 KILL'", "deaf-child")
    assert result.verdict is Verdict.KEPT, [check for check in result.checks if check.verdict is not Verdict.KEPT]
    pressed = read().first("adapter", "pressed")
    assert pressed is not None and pressed.data["how"] == "SIGTERM, 20 s, SIGKILL to the wrapper"


def test_what_the_kill_of_a_deaf_wrapper_leaves_is_judged_as_usual(recorder: Recorder, terms: Terms, path: Path, read: Read) -> None:
    log = path.with_name("signals")
    result = _drilled(recorder, terms, path, f"{HERE / 'notes_signals.py'} {log} {NOBODY}", "@'INT 0.3 TERM 0.3 KILL'")
    assert _verdict(result, "no-survivors") is Verdict.BROKEN
    assert _verdict(result, "cancel-delivered") is Verdict.BROKEN
    seen = read()
    pressed, returned = seen.first("adapter", "pressed"), seen.first("adapter", "cancel-returned")
    exited = seen.first("process-table", "wrapper-exited")
    assert pressed is not None and returned is not None and exited is not None
    assert exited.data["status"] == -signal.SIGKILL
    (first, at_first_s), (second, at_second_s) = _notes(log)
    assert (first, second) == ("SIGINT", "SIGTERM")
    assert pressed.at_s <= at_first_s and pressed.at_s + 0.3 <= at_second_s
    assert 0.6 <= returned.at_s - pressed.at_s < 0.6 + LATE_S and returned.data["error"] is None
