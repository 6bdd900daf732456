"""The shared readings: lateness, spans, fates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts, Fate, NotPressed, Timing
from pytest_cancelcontract.clauses.members import Span
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.terms import Terms, settle_terms
from tests.unit.builders import clock, died, history, look, look_again, plus, pressed, returned, row, saw, story, without
from tests.unit.stories import AT_START, afterwards, beside, revival, start_story

SOON = story(deaths=5.0)
EXITING = row("leader", "dying")


def of(seen: Iterable[Observation]) -> Facts:
    return Facts(history(seen), settle_terms({}))


def test_without_a_press_nothing_can_be_reckoned() -> None:
    with pytest.raises(NotPressed):
        _ = of([]).deadline_s


@pytest.mark.parametrize(
    ("since", "until", "late"),
    [
        pytest.param(0.0, 1.0, 0.002, id="the worst of the window"),
        pytest.param(2.3, 2.4, 0.3, id="a window within one spell"),
        pytest.param(2.5, 2.6, 0.3, id="a window that touches a spell"),
        pytest.param(0.0, 3.0, 0.3, id="a window with a bad spell in it"),
        pytest.param(9.0, 9.5, math.inf, id="a window that the clock says nothing of"),
        pytest.param(0.0, 5.5, 2.5, id="a silence is a lateness"),
    ],
)
def test_lateness(since: float, until: float, late: float) -> None:
    bad = saw("clock", "lateness", 2.5, since_s=102.25, worst_s=0.3)
    read = of([pressed(), *clock(-1, 2.25, 0.002), bad, *clock(2.5, 3.0, 0.001)])
    assert read.lateness_s(100 + since, 100 + until) == pytest.approx(late)


@pytest.mark.parametrize(
    ("event", "late", "timing"),
    [
        pytest.param(Span(102.0, 102.0), 0.0, Timing.WITHIN, id="exactly at the limit"),
        pytest.param(Span(102.01, 102.01), 0.0, Timing.BEYOND, id="just beyond"),
        pytest.param(Span(102.01, 102.01), 0.02, Timing.TOO_CLOSE, id="beyond by less than the lateness"),
        pytest.param(Span(101.99, 101.99), 0.02, Timing.TOO_CLOSE, id="within by less than the lateness"),
        pytest.param(Span(101.0, 103.0), 0.0, Timing.UNKNOWN, id="an interval over the limit"),
        pytest.param(Span(100.5, 101.0), 0.0, Timing.WITHIN, id="an interval before it"),
        pytest.param(Span(104.0, math.inf), 0.0, Timing.BEYOND, id="not yet, well beyond"),
        pytest.param(Span(101.0, math.inf), 0.0, Timing.UNKNOWN, id="not yet, before it"),
        pytest.param(Span(99.0, 99.0), 0.0, Timing.WITHIN, id="before the beginning"),
    ],
)
def test_against_a_limit_of_two_seconds(event: Span, late: float, timing: Timing) -> None:
    assert of([pressed(), *clock(-2, 8, late)]).against(2.0, since_s=100.0, event=event) is timing


def test_a_verdict_needs_the_whole_of_both_intervals() -> None:
    read = of([pressed(), *clock()])
    since = Span(100.0, 101.0)
    assert read.against_span(2.0, since=since, event=Span(101.5, 101.5)) is Timing.WITHIN
    assert read.against_span(2.0, since=since, event=Span(102.5, 102.5)) is Timing.UNKNOWN
    assert read.against_span(2.0, since=since, event=Span(103.5, 103.5)) is Timing.BEYOND
    assert read.against_span(2.0, since=Span(100.0, math.inf), event=Span(109.0, 109.0)) is Timing.UNKNOWN


@pytest.mark.parametrize(
    ("seen", "at_s", "fate"),
    [
        pytest.param(story(deaths=5.0), 5.0, Fate.DEAD, id="dead at the very moment"),
        pytest.param(story(deaths=5.0), 2.9, Fate.ALIVE, id="long before its death"),
        pytest.param(story(deaths=5.0), 4.0, Fate.UNKNOWN, id="shortly before its death, unseen: it may have been dying"),
        pytest.param(plus(story(deaths=5.0), look("reported", 4.0, row())), 4.0, Fate.ALIVE, id="seen running"),
        pytest.param(plus(story(deaths=5.0), look("x", 4.5, row())), 4.0, Fate.ALIVE, id="seen running later"),
        pytest.param(plus(without(SOON, "lifeline.wrote"), look("x", 4.0, EXITING)), 4.0, Fate.DYING, id="dying"),
        pytest.param(plus(story(deaths=4.85, late=0.1), look("x", 2.8, EXITING)), 2.8, Fate.UNKNOWN, id="dying for too long, by a hair"),
        pytest.param(plus(story(deaths=8.0), look("x", 2.8, EXITING)), 2.8, Fate.ALIVE, id="dying for far too long"),
        pytest.param(without(story(deaths=5.0), "process-table"), 4.0, None, id="no process table"),
        pytest.param(look_again(story(), "end", row()), 0.9, Fate.UNKNOWN, id="running after its death"),
        pytest.param(plus(story(), died(0.1, subject="4700:9")), 0.15, Fate.UNKNOWN, id="a stranger's death"),
    ],
)
def test_fate_at(seen: list[Observation], at_s: float, fate: Fate | None) -> None:
    read = of(seen)
    (member,) = read.first_run
    assert read.fate_at(member, 100 + at_s) is (fate or Fate.UNKNOWN)


def test_the_drills_own_clearing_up_ends_no_process() -> None:
    read = of(story(deaths={"leader": 0.2, "deaf-child": 12.95}, end=12.7))
    assert not read.gone.is_closed
    assert read.outlived_deadline
    assert [one.role for one in read.killed] == ["leader"]


def test_a_second_run_is_not_the_first() -> None:
    read = of(story(restart=0.9))
    assert [one.subject for one in read.first_run] == ["4700:1000"]
    assert [one.subject for one in read.second_run] == ["4800:3000"]
    assert read.gone.latest_s == 100.2


def test_the_runs_of_a_drill_are_told_apart() -> None:
    read = of(plus(story(), *beside(), *afterwards(6.5)))
    assert [one.subject for one in read.first_run] == ["4700:1000"]
    assert [one.subject for one in read.bystanders] == ["4750:1100"]
    assert [one.subject for one in read.next_run] == ["4850:3100"]
    assert read.gone.latest_s == 100.2
    assert not read.revivals


def test_a_process_that_only_said_hello_or_is_only_held_is_of_its_run_too() -> None:
    seen = plus(story(), *beside())
    assert [one.run for one in of(without(seen, "lifeline.hello")).members] == ["first", "bystander"]
    assert [one.run for one in of(without(seen, "process-table.held")).members] == ["first", "bystander"]


def test_a_new_attempt_is_known_by_its_hello_or_by_being_held() -> None:
    seen = plus(story(), *revival(0.5))
    for witness in ("lifeline.hello", "process-table.held"):
        (new,) = of(without(seen, witness, subject="4900:3200")).revivals
        assert (new.subject, new.born_s) == ("4900:3200", 100.5)


def test_an_attempt_that_began_with_the_press_was_under_way() -> None:
    assert not of(plus(story(), *revival(0.0))).revivals


def test_the_first_notice_of_a_stopped_process_is_what_waited_for_it() -> None:
    read = of(plus(story(told=3.0, deaths=4.0), saw("process-table", "pending", 0.2, "4700:1000", signals=["SIGTERM"])))
    assert read.notice is not None
    assert (read.notice.kind, words.by(read.notice)) == ("pending", "SIGTERM (pending, as it is stopped)")


def starts(*more: Observation, **how: Any) -> Facts:
    return Facts(history(plus(start_story(**how), *more), header=AT_START), settle_terms({}))


@pytest.mark.parametrize(
    ("read", "never"),
    [
        pytest.param(starts(), True, id="nothing came"),
        pytest.param(starts(end=3.0), False, id="not watched for long enough"),
        pytest.param(starts(reported=None, end=12.1), True, id="no report, and watched until the deadline"),
        pytest.param(starts(reported=13.0, returns=13.0, end=13.7), True, id="reported after the deadline"),
        pytest.param(starts(came=0.2), False, id="a runner came"),
        pytest.param(starts(reached="said hello"), False, id="the barrier tells of one"),
        pytest.param(starts(saw("lifeline", "wrote", 0.5, "4700:1000")), False, id="somebody wrote"),
        pytest.param(starts(died(0.5, subject="4700:1000")), False, id="somebody died"),
        pytest.param(starts(saw("lifeline", "refused", 0.5, reason="its drill has ended")), True, id="another drill's was refused"),
        pytest.param(of(start_story()), False, id="it had to come"),
    ],
)
def test_a_run_never_started_where_nothing_tells_of_it(read: Facts, never: bool) -> None:
    assert read.never_started is never
    assert (read.missing_roles == ()) is (never or read.leader is not None)


def test_the_leader_of_a_run_that_may_not_start_is_the_first_that_came() -> None:
    read = starts(*revival(0.5), came=0.2)
    assert read.leader is not None
    assert read.leader.subject == "4700:1000"
    assert [one.subject for one in read.revivals] == ["4900:3200"]


def test_the_handover_is_the_report_or_the_deadline_if_that_comes_first() -> None:
    assert of(story()).handover_s == 100.5
    assert of(story(deaths=1.0, reported=13.0)).handover_s == 112.0
    assert of(story(reported=None)).handover_s == 112.0


@pytest.mark.parametrize(
    ("acted_s", "pressed_s"),
    [
        pytest.param(0.7, 100.7, id="when the call began to act"),
        pytest.param(None, 100.0, id="not known when"),
        pytest.param(-0.2, 100.0, id="before it was noted, which cannot be"),
        pytest.param(1.2, 100.0, id="after it came back, which cannot be"),
    ],
)
def test_cancel_counts_as_pressed_from_when_its_call_acted(acted_s: float | None, pressed_s: float) -> None:
    assert of([pressed(), returned(1.0, acted_s=acted_s)]).pressed_s == pytest.approx(pressed_s)
    assert of([pressed()]).pressed_s == 100.0


def test_an_answer_that_is_not_terminal_reports_nothing() -> None:
    assert of([pressed(), saw("outcome", "answer", 1.0, outcome="cancelling", by="wait"), returned(1.0)]).report is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(14.2, "14.2 s"), (5.004, "5.0 s"), (0.0042, "0.004 s"), (12, "12.0 s"), (-0.3, "-0.3 s"), (math.inf, "an unknown time")],
)
def test_durations_in_words(value: float, text: str) -> None:
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "grace 5 + kill_within 2; all default"),
        ({"grace": (4, "pyproject.toml")}, "grace 4 + kill_within 2; grace from pyproject.toml, the others default"),
        ({"grace": (4, "ini"), "kill_within": (1, "ini")}, "grace 4 + kill_within 1; grace and kill_within from ini"),
        ({"grace": (4, "ini"), "kill_within": (1, "marker")}, "grace 4 + kill_within 1; grace from ini, kill_within from marker"),
    ],
)
def test_numbers_carry_their_origin(given: dict[str, tuple[object, str]], text: str) -> None:
    terms: Terms = settle_terms(given)
    assert words.numbers(terms, "grace", "kill_within") == text


def test_a_list_is_cut_short() -> None:
    assert words.several(["a", "b", "c", "d", "e"], ", ") == "a, b, c, and 2 more"
