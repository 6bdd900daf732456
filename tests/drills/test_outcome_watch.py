"""Which answers to the question for the outcome are stored, by a table of answers and their times."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_cancelcontract.adapters.driver import Answer
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.outcome_watch import OutcomeWatch

RUNNING, CANCELLING, CANCELLED, SUCCEEDED = "running", "cancelling", "cancelled", "succeeded"


def _answer(at_s: float, said: str) -> Answer:
    if said.startswith("!"):
        return Answer(at_s - 0.01, at_s, error=said[1:])
    return Answer(at_s - 0.01, at_s, outcome=Outcome(said))


def _watch(stored: list[tuple[float, str]], *, is_told: bool = True) -> OutcomeWatch:
    def observe(kind: str, *, at_s: float, **data: Any) -> None:
        stored.append((at_s, data["outcome"] if kind == "answer" else "!" + data["error"]))

    watch = OutcomeWatch(lambda: _answer(0.0, RUNNING), observe, by="outcome", ask_again=lambda: _answer(9.0, SUCCEEDED))
    if is_told:
        watch.tell()
    return watch


@pytest.mark.parametrize(
    ("answers", "stored"),
    [
        pytest.param([(0.0, RUNNING)], [(0.0, RUNNING)], id="the first one"),
        pytest.param([(0.0, RUNNING), (0.1, RUNNING), (0.2, RUNNING)], [(0.0, RUNNING)], id="the same soon after is left out"),
        pytest.param(
            [(0.0, RUNNING), (0.1, RUNNING), (0.26, RUNNING)], [(0.0, RUNNING), (0.26, RUNNING)], id="the same every quarter second"
        ),
        pytest.param([(0.0, RUNNING), (0.02, CANCELLING)], [(0.0, RUNNING), (0.02, CANCELLING)], id="a change at once"),
        pytest.param(
            [(0.0, RUNNING), (0.02, RUNNING), (0.04, RUNNING), (0.06, CANCELLED)],
            [(0.0, RUNNING), (0.04, RUNNING), (0.06, CANCELLED)],
            id="the last one before the end, with its own time",
        ),
        pytest.param([(0.0, CANCELLED), (0.1, CANCELLED), (0.3, SUCCEEDED)], [(0.0, CANCELLED), (0.3, SUCCEEDED)], id="an end that flips"),
        pytest.param(
            [(0.0, CANCELLED), (0.1, RUNNING), (0.2, CANCELLED)],
            [(0.0, CANCELLED), (0.1, RUNNING), (0.2, CANCELLED)],
            id="an end that is taken back",
        ),
        pytest.param(
            [(0.0, "!no answer"), (0.1, "!no answer"), (0.3, "!no answer"), (0.31, RUNNING)],
            [(0.0, "!no answer"), (0.3, "!no answer"), (0.31, RUNNING)],
            id="errors are thinned out too",
        ),
    ],
)
def test_what_is_stored(answers: list[tuple[float, str]], stored: list[tuple[float, str]]) -> None:
    got: list[tuple[float, str]] = []
    watch = _watch(got)
    for at_s, said in answers:
        watch._take(_answer(at_s, said), "outcome")
    assert got == stored


def test_nothing_is_stored_before_it_is_told_to_but_an_end_is_known() -> None:
    got: list[tuple[float, str]] = []
    watch = _watch(got, is_told=False)
    watch._take(_answer(1.0, CANCELLED), "outcome")
    assert got == []
    assert watch.terminal == _answer(1.0, CANCELLED)


def test_nothing_is_stored_after_the_stop() -> None:
    got: list[tuple[float, str]] = []
    watch = _watch(got)
    watch.stop()
    watch._take(_answer(1.0, CANCELLED), "outcome")
    watch.once_more()
    assert got == []


def test_the_last_question_is_stored_whatever_it_says() -> None:
    got: list[tuple[float, str]] = []
    watch = _watch(got)
    watch._take(_answer(8.99, SUCCEEDED), "outcome")
    watch.once_more()
    assert got == [(8.99, SUCCEEDED), (9.0, SUCCEEDED)]


def test_it_asks_until_it_is_stopped() -> None:
    asked, enough = [], threading.Event()

    def ask() -> Answer:
        asked.append(1)
        if len(asked) == 3:
            enough.set()
        return _answer(float(len(asked)), RUNNING)

    def observe(kind: str, *, at_s: float, **data: Any) -> None:
        """Nothing is told."""

    watch = OutcomeWatch(ask, observe, by="outcome")
    watch.start()
    watch.until_first(5)
    assert enough.wait(5)
    watch.stop()
