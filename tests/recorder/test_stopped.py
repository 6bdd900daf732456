"""A stopped process tells nothing: that it is stopped, what waits for it and how it ends is read from outside.

What the recorder says is checked against the tests' own reading of the process table (hidden_table.py).
"""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from pytest_cancelcontract.history import Observation
from tests.recorder import hidden_table
from tests.recorder.conftest import Open
from tests.recorder.hidden_drill import Drill
from tests.runner.stand_in import stop, until

PENDING_WITHIN_S = 0.1
CLOSES_INPUT = """
import signal, subprocess, sys
runner = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: runner.stdin.close())
runner.wait()
"""


def has_ended(path: str) -> bool:
    """Whether nobody can write into that pipe any more."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False
    finally:
        os.close(pipe)


def seen_in_time(drill: Drill, seen: Observation) -> None:
    """Seen soon after the press, as far as the machine let anybody see anything."""
    pressed_s = drill.noted("adapter", "pressed")[0].at_s
    until(lambda: any(one.at_s >= seen.at_s for one in drill.noted("clock", "lateness")), "how late the machine was")
    late_s = max(one.data["worst_s"] for one in drill.noted("clock", "lateness") if one.at_s >= pressed_s)
    assert seen.at_s - pressed_s <= PENDING_WITHIN_S + 2 * late_s


def test_a_runner_that_stops_itself_is_seen_stopped_before_it_counts_as_working(open_drill: Open) -> None:
    drill = open_drill("frozen")
    drill.start()
    leader = drill.of_role("leader")
    assert set(leader.threads) == {"T"}
    assert drill.subjects("process-table", "stopped") == {leader.subject}
    said = drill.noted("lifeline", "working")[0]
    assert said.data["then"] == "stops"
    assert said.data["said_at_s"] <= drill.noted("process-table", "stopped")[0].at_s  # a look may be before what was said is read


def test_what_waits_for_a_stopped_runner_is_its_notice(open_drill: Open) -> None:
    drill = open_drill("frozen")
    drill.start()
    leader = drill.of_role("leader")
    drill.press(leader.pid)
    pending = drill.until_noted("process-table", "pending", subject=leader.subject)
    assert hidden_table.signals(leader.pid, "ShdPnd") == set(pending.data["signals"]) == {"SIGTERM"}
    seen_in_time(drill, pending)
    assert drill.noted("lifeline", "notice") == []
    state = drill.recorder.wait(drill.opened, "delivered", at_most_s=0)
    assert state.reached
    assert state.state["stray"] == []

    os.kill(leader.pid, signal.SIGKILL)
    until(lambda: not drill.living(), "its death, stopped as it was")
    drill.until_noted("process-table", "died", subject=leader.subject)
    assert len(drill.noted("process-table", "pending")) == 1
    assert drill.finish() == set()


def test_the_end_of_an_input_that_was_open_is_a_notice_to_a_stopped_runner(open_drill: Open) -> None:
    drill = open_drill("frozen")
    wrapper = drill.start(sys.executable, "-c", CLOSES_INPUT)
    leader = drill.of_role("leader")
    assert drill.noted("lifeline", "hello")[0].data["stdin"] == "open"
    drill.press(wrapper)
    ended = drill.until_noted("process-table", "input-ended", subject=leader.subject)
    seen_in_time(drill, ended)
    assert hidden_table.signals(leader.pid, "ShdPnd") == set()
    assert drill.recorder.wait(drill.opened, "delivered", at_most_s=0).reached
    assert drill.finish() == {leader.subject}
    assert drill.living() == {}


def test_a_signal_that_waits_before_the_press_is_stray(open_drill: Open) -> None:
    """A second one of the same number leaves no trace: such a drill proves nothing."""
    drill = open_drill("frozen")
    drill.start()
    leader = drill.of_role("leader")
    os.kill(leader.pid, signal.SIGTERM)
    early = drill.until_noted("process-table", "pending", subject=leader.subject)
    drill.press(leader.pid)
    pressed = drill.until_noted("adapter", "pressed")
    assert early.at_s < pressed.at_s
    awaited = drill.recorder.wait(drill.opened, "delivered", at_most_s=0.1)
    assert awaited.state["stray"] == [f"SIGTERM to leader {leader.subject}, which is stopped"]
    assert not awaited.reached
    assert len(drill.noted("process-table", "pending")) == 1


def test_a_press_that_the_recorder_hears_of_late_was_when_it_was(open_drill: Open) -> None:
    """A notice may be read before the word of the press: it counts, and is not stray."""
    drill = open_drill("frozen", "daemon")
    drill.start()
    pressed_s = time.monotonic()
    leader, daemon = drill.of_role("leader"), drill.of_role("daemon")
    os.kill(leader.pid, signal.SIGTERM)
    os.kill(daemon.pid, signal.SIGTERM)
    drill.until_noted("process-table", "pending", subject=leader.subject)
    drill.until_noted("lifeline", "notice", subject=daemon.subject)
    assert len(drill.recorder.wait(drill.opened, "delivered", at_most_s=0).state["stray"]) == 2
    drill.recorder.observe(drill.opened, "adapter", "pressed", at_s=pressed_s, trigger=True, how="signal")
    awaited = drill.recorder.wait(drill.opened, "delivered", at_most_s=5)
    assert (awaited.reached, awaited.state["stray"]) == (True, [])


def test_a_runner_is_told_that_its_input_ended_after_a_press_that_is_heard_of_late(open_drill: Open) -> None:
    drill = open_drill("polite")
    wrapper = drill.start(sys.executable, "-c", CLOSES_INPUT)
    leader = drill.of_role("leader")
    pressed_s = time.monotonic()
    os.kill(wrapper, signal.SIGTERM)
    drill.until_noted("lifeline", "input-ended", subject=leader.subject)
    assert drill.noted("lifeline", "notice") == []
    drill.recorder.observe(drill.opened, "adapter", "pressed", at_s=pressed_s, trigger=True, how="signal")
    assert drill.until_noted("lifeline", "notice", subject=leader.subject).data["by"] == "input ended"


def test_an_input_that_ended_before_the_press_is_no_notice(open_drill: Open) -> None:
    drill = open_drill("frozen")
    wrapper = drill.start(sys.executable, "-c", CLOSES_INPUT)
    leader = drill.of_role("leader")
    os.kill(wrapper, signal.SIGTERM)
    until(lambda: has_ended(f"/proc/{leader.pid}/fd/0"), "the end of its input")
    drill.recorder.wait(drill.opened, "delivered", at_most_s=0.1)
    drill.press(leader.pid)
    drill.until_noted("process-table", "pending", subject=leader.subject)
    drill.recorder.wait(drill.opened, "over", at_most_s=0.1)
    assert drill.noted("process-table", "input-ended") == []


def test_an_input_that_nobody_ends_is_no_notice(open_drill: Open) -> None:
    drill = open_drill("frozen")
    drill.start(sys.executable, "-c", CLOSES_INPUT.replace("runner.stdin.close()", "None"))
    leader = drill.of_role("leader")
    drill.press(leader.pid)
    drill.until_noted("process-table", "pending", subject=leader.subject)
    drill.recorder.wait(drill.opened, "over", at_most_s=0.1)
    assert drill.noted("process-table", "input-ended") == []


def test_a_stopped_runner_that_is_let_go_on_notices_by_itself(open_drill: Open) -> None:
    drill = open_drill("frozen")
    drill.start()
    leader = drill.of_role("leader")
    drill.press(leader.pid)
    drill.until_noted("process-table", "pending", subject=leader.subject)
    os.kill(leader.pid, signal.SIGCONT)
    notice = drill.until_noted("lifeline", "notice", subject=leader.subject)
    assert (notice.data["by"], notice.data["from_pid"]) == ("SIGTERM", os.getpid())
    drill.until_noted("lifeline", "goodbye", subject=leader.subject)
    drill.until_noted("process-table", "died", subject=leader.subject)
    assert drill.living() == {}


@pytest.mark.parametrize("role", ["leader", "daemon"])
def test_whoever_is_stopped_in_the_middle_of_its_work_is_seen_stopped_and_read_from_outside(open_drill: Open, role: str) -> None:
    drill = open_drill("deaf", "daemon")
    drill.start()
    one = drill.of_role(role)
    stop(one.pid)
    drill.until_noted("process-table", "stopped", subject=one.subject)
    drill.press(one.pid)
    pending = drill.until_noted("process-table", "pending", subject=one.subject)
    assert hidden_table.signals(one.pid, "ShdPnd") == set(pending.data["signals"]) == {"SIGTERM"}
    seen_in_time(drill, pending)

    os.kill(one.pid, signal.SIGCONT)
    drill.until_noted("lifeline", "notice", subject=one.subject)
    stop(one.pid)
    assert len(drill.noted("process-table", "pending")) == 1
    assert drill.subjects("process-table", "stopped") == {one.subject}

    living = set(drill.living())
    assert len(living) == 2
    assert drill.finish() == living
    assert drill.living() == {}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_runner_that_its_wrapper_stops_at_the_press_and_signals_then_has_notice(open_drill: Open, at_once: bool) -> None:
    """Nobody has seen it stopped yet: the signal waits already when it is, and no thread of it has taken it on the way and not told."""
    drill = open_drill("polite")
    drill.start()
    leader = drill.of_role("leader")
    drill.press()
    if at_once:
        os.kill(leader.pid, signal.SIGSTOP)
    else:
        stop(leader.pid)
    os.kill(leader.pid, signal.SIGTERM)
    if at_once:  # it may still have had the signal before the stop, and have told so
        until(lambda: drill.noted("process-table", "pending") + drill.noted("lifeline", "notice") != [], "no notice of any kind")
    else:
        drill.until_noted("process-table", "pending", subject=leader.subject)
    assert drill.recorder.wait(drill.opened, "delivered", at_most_s=0).reached
