"""How long a cancel was on its way: when the engine had taken it, and which heartbeat carried it."""

from __future__ import annotations

import pytest

from pytest_cancelcontract.clauses import latency
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.contract import measure
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.report.text import summary
from pytest_cancelcontract.report.timeline import timeline
from pytest_cancelcontract.terms import Terms
from tests.unit.builders import PRESSED_S, answer, history, in_order, returned, saw, story, without


def _heartbeats(*at_s: float) -> Observation:
    """What the engine told of its heartbeats when all was over."""
    return saw("engine", "heartbeats", 1.2, moments=[PRESSED_S + one for one in at_s], error=None)


def _seen(*more: Observation, returns: float | None = 0.02, told: float | None = 0.3) -> list[Observation]:
    return in_order([*story(told=told, deaths=0.4, reported=0.5, returns=returns), *more])


@pytest.mark.parametrize(
    ("seen", "answered_s"),
    [
        pytest.param(_seen(), 0.02, id="the call has come back"),
        pytest.param(_seen(answer(0.01, "cancelling")), 0.01, id="the record says so before the call has come back"),
        pytest.param(_seen(answer(0.01, "running")), 0.02, id="a record that goes on saying running says nothing"),
        pytest.param(_seen(returns=None), 0.5, id="a call that hangs, and a record that says cancelled in the end"),
        pytest.param(_seen(returned(0.02, "refused"), answer(0.1, "cancelling"), returns=None), 0.1, id="a call that failed took nothing"),
        pytest.param(
            in_order([*story(told=None, deaths=0.4, reported=0.5, outcome="failed", returns=None)]), None, id="a run that failed by itself"
        ),
    ],
)
def test_a_cancel_is_answered_when_the_engine_is_first_known_to_have_taken_it(seen: list[Observation], answered_s: float | None) -> None:
    assert measure(history(seen))["answered_s"] == answered_s


def test_what_nobody_pressed_was_not_answered() -> None:
    act = saw("adapter", "left-alone", 0.0, trigger=True, how="nothing")
    seen = history(in_order([*without(_seen(_heartbeats(-0.1, 0.1, 0.2)), "adapter.pressed", "adapter.cancel-returned"), act]))
    facts = Facts(seen, Terms())
    assert facts.pressed_s == PRESSED_S
    assert (latency.answered_s(facts), latency.carrier(facts)) == (None, None)


@pytest.mark.parametrize(
    ("seen", "interval_s"),
    [
        pytest.param(_seen(_heartbeats(-0.3, -0.1, 0.15, 0.35)), 0.25, id="the one before the notice, from the one before it"),
        pytest.param(_seen(_heartbeats(-0.1, 0.3)), 0.4, id="one at the very moment of the notice"),
        pytest.param(_seen(_heartbeats(-0.1, 0.0, 0.35)), 0.1, id="one at the very moment of the press, before the call came back"),
        pytest.param(_seen(_heartbeats(-0.1, 0.01, 0.2)), 0.19, id="one before the call came back, and one after it: the latter"),
        pytest.param(_seen(_heartbeats(-0.1, 0.005, 0.01)), None, id="two before the call came back"),
        pytest.param(_seen(_heartbeats(-0.1, 0.05, 0.25)), None, id="two after the cancel was taken: the first one's answer was lost"),
        pytest.param(_seen(_heartbeats(-0.3, -0.1, 0.35)), None, id="none between press and notice: it came another way"),
        pytest.param(_seen(_heartbeats(0.1)), None, id="the first one of all has no interval"),
        pytest.param(_seen(_heartbeats()), None, id="no heartbeat at all"),
        pytest.param(_seen(), None, id="an engine that was not asked"),
        pytest.param(
            in_order([*story(told=None, deaths=None, reported=None), _heartbeats(-0.1, 0.1)]),
            None,
            id="a run that never heard of the cancel",
        ),
    ],
)
def test_the_interval_is_that_of_the_heartbeat_that_carried_the_cancel(seen: list[Observation], interval_s: float | None) -> None:
    assert measure(history(seen))["heartbeat_interval_s"] == interval_s


def test_the_timeline_has_the_heartbeat_and_when_the_record_said_so() -> None:
    shown = timeline(history(_seen(_heartbeats(-0.1, 0.15, 0.35), answer(0.01, "cancelling"), answer(0.2, "cancelling"))))
    assert "   +0.150 s  the heartbeat whose answer is the cancel, 0.25 s after the one before it" in shown
    assert [line for line in shown if "cancelling" in line] == ["   +0.010 s  outcome: cancelling"]


def _drill_row(seen: list[Observation]) -> dict[str, object]:
    return {"scenario": "deaf", "verdict": "kept", "measured": measure(history(seen)), "checks": []}


def test_the_summary_has_the_way_of_a_cancel_that_came_on_a_heartbeat() -> None:
    carried, other = _seen(_heartbeats(-0.1, 0.15)), _seen(_heartbeats(-0.1, 0.25), told=0.5)
    way = "answered +0.020 s, delivered +0.300 s, gone +0.400 s, reported +0.500 s; heartbeats 0.250 s apart"
    assert summary([_drill_row(carried), _drill_row(_seen())])[-1] == f"cancelled on a heartbeat's answer, in 1 drill: {way}"
    assert "medians of 2 drills: answered +0.020 s" in summary([_drill_row(carried), _drill_row(other)])[-1]
    assert not any("heartbeat" in line for line in summary([_drill_row(_seen())])), "a wrapper without heartbeats has no such line"


def test_a_run_that_is_killed_without_notice_heard_of_the_cancel_by_that() -> None:
    found = measure(history(_seen(_heartbeats(-0.1, 0.1, 0.45), told=None)))
    assert (found["delivery_s"], found["heartbeat_interval_s"]) == (0.4, 0.2)
