"""A leader is held at its barrier until it may go on; a press finds it there, and what it does then is its own."""

from __future__ import annotations

import os
import signal

import pytest

from tests.recorder import hidden_table
from tests.recorder.conftest import TERMS, Open
from tests.recorder.hidden_drill import WORKS_WITHIN_S, Drill

NOTICES = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}
RELEASED_WITHIN_S = 0.25


def start_held(drill: Drill, *way: str) -> hidden_table.Row:
    """Start the runner and wait until its leader is held: that one."""
    drill.run.spawn([*way, *drill.run.argv])
    state = drill.recorder.wait(drill.opened, "held-or-exited", at_most_s=WORKS_WITHIN_S).state
    assert (state["held"], state["working"]) == (True, False), state
    return drill.of_role("leader")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_leader_that_is_held_before_its_first_handler_dies_of_the_press(open_drill: Open, number: signal.Signals) -> None:
    drill = open_drill("deaf", hold="before-handlers", may_not_start=True)
    leader = start_held(drill)
    taken = (
        hidden_table.signals(leader.pid, "SigCgt") | hidden_table.signals(leader.pid, "SigIgn") | hidden_table.signals(leader.pid, "SigBlk")
    )
    assert taken & NOTICES == set()
    drill.press(leader.pid, number)
    died = drill.until_noted("process-table", "died", subject=leader.subject)
    assert drill.living() == {}
    assert drill.until_noted("process-table", "wrapper-exited").data["status"] == -number
    assert [seen.data["what"] for seen in drill.noted("drill", "reached")] == ["before its first handler"]
    assert drill.noted("lifeline", "notice") == drill.noted("lifeline", "goodbye") == []
    assert drill.recorder.wait(drill.opened, "delivered", at_most_s=0).reached
    assert died.at_s >= drill.noted("adapter", "pressed")[0].at_s


@pytest.mark.parametrize(
    ("hold", "where"), [("before-handlers", "before its first handler"), ("before-work", "before it works")], ids=["handlers", "work"]
)
def test_a_leader_that_no_press_reaches_is_let_go_on_when_its_time_is_over(open_drill: Open, hold: str, where: str) -> None:
    drill = open_drill("polite", "deaf-child", hold=hold, may_not_start=True)
    leader = start_held(drill)
    assert drill.noted("lifeline", "wrote", subject=leader.subject) == []
    drill.press()
    pressed = drill.until_noted("adapter", "pressed")
    released = drill.until_noted("drill", "released")
    assert released.subject == leader.subject
    assert 0 <= released.at_s - (pressed.at_s + TERMS.delivery_s) <= RELEASED_WITHIN_S
    assert drill.recorder.wait(drill.opened, "working", at_most_s=WORKS_WITHIN_S).reached
    assert drill.noted("lifeline", "working", subject=leader.subject)[0].at_s >= released.at_s
    assert drill.noted("lifeline", "wrote", subject=leader.subject)[0].at_s >= released.at_s
    assert [seen.data["what"] for seen in drill.noted("drill", "reached")] == [where]
    assert drill.subjects("process-table", "held") == set(drill.living())
    assert len(drill.living()) == 2
    assert drill.finish() == set(drill.subjects("process-table", "held"))
    assert drill.living() == {}


def test_a_leader_that_is_held_before_its_work_does_what_its_habit_does_at_a_notice(open_drill: Open) -> None:
    drill = open_drill("polite", hold="before-work", may_not_start=True)
    leader = start_held(drill)
    assert hidden_table.signals(leader.pid, "SigBlk") >= NOTICES
    drill.press(leader.pid)
    notice = drill.until_noted("lifeline", "notice", subject=leader.subject)
    assert notice.data["from_pid"] == os.getpid()
    goodbye = drill.until_noted("lifeline", "goodbye", subject=leader.subject)
    assert goodbye.data["why"] == "noticed SIGTERM"
    drill.until_noted("process-table", "died", subject=leader.subject)
    assert drill.living() == {}
    assert drill.noted("lifeline", "wrote") == drill.noted("lifeline", "working") == []
    assert drill.recorder.wait(drill.opened, "over", at_most_s=10).reached
    assert drill.noted("drill", "released") == []


def test_a_deaf_leader_that_is_held_before_its_work_notices_and_stays_held(open_drill: Open) -> None:
    drill = open_drill("deaf", hold="before-work", may_not_start=True)
    leader = start_held(drill)
    drill.press(leader.pid)
    drill.until_noted("lifeline", "notice", subject=leader.subject)
    released = drill.until_noted("drill", "released", subject=leader.subject)
    assert released.at_s >= drill.noted("adapter", "pressed")[0].at_s + TERMS.delivery_s
    assert drill.until_noted("lifeline", "working", subject=leader.subject).at_s >= released.at_s
    assert drill.finish() == {leader.subject}


@pytest.mark.parametrize("hold", ["before-handlers", "before-work"])
def test_a_leader_is_let_go_on_when_the_start_waits_for_its_work(open_drill: Open, hold: str) -> None:
    drill = open_drill("polite", hold=hold, may_not_start=True)
    leader = start_held(drill)
    drill.recorder.observe(drill.opened, "adapter", "start-overdue")
    assert drill.recorder.wait(drill.opened, "working", at_most_s=WORKS_WITHIN_S).reached
    assert drill.subjects("drill", "released") == {leader.subject}
    drill.press(leader.pid)
    drill.until_noted("process-table", "died", subject=leader.subject)
    assert [seen.data["what"] for seen in drill.noted("drill", "reached")] == ["working"]


def test_who_comes_after_the_barrier_was_opened_is_not_held(open_drill: Open) -> None:
    drill = open_drill("polite", hold="before-work", may_not_start=True)
    drill.press()
    assert drill.until_noted("drill", "reached").data["what"] == "no runner yet"
    assert not drill.recorder.wait(drill.opened, "working", at_most_s=TERMS.delivery_s + 0.1).reached
    drill.start()
    assert drill.noted("drill", "released") == []
    assert len(drill.living()) == 1


def test_a_signal_that_is_inherited_ignored_does_not_end_a_leader_before_its_first_handler(open_drill: Open) -> None:
    """As the real runner would not be ended by it either; it is let go on, and works."""
    drill = open_drill("polite", hold="before-handlers", may_not_start=True)
    leader = start_held(drill, "sh", "-c", 'trap "" TERM; exec "$@"', "sh")
    assert "SIGTERM" in hidden_table.signals(leader.pid, "SigIgn")
    drill.press(leader.pid)
    drill.until_noted("drill", "released", subject=leader.subject)
    drill.until_noted("lifeline", "working", subject=leader.subject)
    assert drill.noted("lifeline", "notice") == []
    assert set(drill.living()) == {leader.subject}
