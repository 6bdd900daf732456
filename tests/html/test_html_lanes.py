"""What the lanes of a picture hold, from histories made of small observations; times are told from the press."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.report.html.lanes import course
from pytest_cancelcontract.report.html.processes import MOST_LANES
from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Course, Lane, LaneKind, LineKind, MarkKind
from pytest_cancelcontract.report.html.spells import rows_of
from pytest_cancelcontract.terms import Terms
from tests.html.conftest import terms_of
from tests.unit.builders import (
    BYSTANDER,
    LEADER,
    PRESSED_S,
    SECOND_LEADER,
    changed,
    closed,
    died,
    held,
    hello,
    history,
    notice,
    plus,
    pressed_again,
    request,
    returned,
    saw,
    says,
    story,
    terms,
    tokens,
    without,
)

CHILD = {"leader": 0.2, "deaf-child": None}


def drawn(seen: Sequence[Observation], given: Terms | None = None, **header: object) -> Course:
    """The course of a drill of these observations."""
    made: History = history(seen, given=given, header=header)
    return course(made, terms_of(made))


def lane(of: Course, kind: LaneKind, name: str = "") -> Lane:
    """The one lane of that kind (and name)."""
    (found,) = [one for one in of.lanes if one.kind is kind and (not name or one.name == name)]
    return found


def at(value_s: float) -> object:
    """A time after the press, on the history's clock."""
    return pytest.approx(PRESSED_S + value_s, abs=1e-6)


def spans(bars: Sequence[Bar], kind: BarKind) -> list[tuple[float, float]]:
    """From when to when, after the press."""
    return [(round(one.since_s - PRESSED_S, 3), round(one.until_s - PRESSED_S, 3)) for one in bars if one.kind is kind]


# --- How a process ends, and by whom ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """A sentence, what was seen, and how the named process's lane must end."""

    id: str
    seen: Sequence[Observation]
    kind: MarkKind
    at_s: float
    note: str
    is_grave: bool = False
    overdue: list[tuple[float, float]] = field(default_factory=list)
    role: str = "leader"


LOOKED_ONLY = [*without(story(deaths={"leader": 0.2}), "process-table.died")]
UNSEEN = without(story(deaths={"leader": 0.2}), "process-table.died", "process-table.look")

ENDS = (
    End("a process that said goodbye ended by itself", story(goodbyes=["leader"]), MarkKind.ENDED, 0.2, "ended itself +0.2 s"),
    End("one that died without a word was killed", story(), MarkKind.KILLED, 0.2, "killed +0.2 s"),
    End(
        "one that lived past the deadline is told as that, from the handover on",
        story(deaths=CHILD, reported=0.5),
        MarkKind.DRILL,
        12.7,
        "alive at the deadline",
        is_grave=True,
        overdue=[(0.5, 12.7)],
        role="deaf-child",
    ),
    End(
        "one that lived past the handover, and not the deadline",
        story(deaths={"leader": 0.2, "deaf-child": 3.0}, reported=0.5),
        MarkKind.KILLED,
        3.0,
        "alive at the handover",
        is_grave=True,
        overdue=[(0.5, 3.0)],
        role="deaf-child",
    ),
    End("one whose death only looks tell was killed by the first of them", LOOKED_ONLY, MarkKind.KILLED, 0.5, "killed +0.5 s"),
    End("one that nobody saw die is not called dead", UNSEEN, MarkKind.UNSEEN, 1.75, "not seen to end"),
    End(
        "one that is gone exactly at the handover is not overdue",
        story(deaths={"leader": 0.5}, reported=0.5),
        MarkKind.KILLED,
        0.5,
        "killed +0.5 s",
    ),
)


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in ENDS])
def test_a_process_lane_ends_as_the_process_did(case: End) -> None:
    found = lane(drawn(case.seen), LaneKind.PROCESS, case.role)
    end = found.marks[-1]
    assert (end.kind, found.note, found.is_grave) == (case.kind, case.note, case.is_grave)
    # What the recorder did after the end of the drill has no exact place in these stories.
    assert end.at_s == (at(case.at_s) if case.kind is not MarkKind.DRILL else pytest.approx(PRESSED_S + case.at_s, abs=0.6))
    overdue = spans(found.bars, BarKind.OVERDUE)
    assert [since for since, _ in overdue] == [since for since, _ in case.overdue]
    assert all(until == pytest.approx(end.at_s - PRESSED_S, abs=1e-3) for _, until in overdue)


def test_a_death_that_only_looks_tell_is_unproven_between_them() -> None:
    found = lane(drawn(LOOKED_ONLY), LaneKind.PROCESS)
    assert spans(found.bars, BarKind.ALIVE) == [(-1.0, 0.0)]
    assert spans(found.bars, BarKind.UNPROVEN) == [(0.0, 0.5)]


def test_a_process_whose_witnesses_disagree_has_no_end() -> None:
    seen = plus(story(deaths=CHILD), died(1.0, "deaf-child"))
    found = lane(drawn(seen), LaneKind.PROCESS, "deaf-child")
    assert (found.marks[-1].kind, found.note) == (MarkKind.UNSEEN, "end in dispute")


def test_a_process_tells_when_it_came_and_what_it_noticed() -> None:
    found = lane(drawn(plus(story(), notice(0.15, by="SIGINT"))), LaneKind.PROCESS)
    assert found.detail == "pid 4700"
    assert [(one.kind, one.at_s, one.label) for one in found.marks if one.kind in {MarkKind.START, MarkKind.NOTICE}] == [
        (MarkKind.START, at(-1.0), ""),
        (MarkKind.NOTICE, at(0.1), "SIGTERM"),
        (MarkKind.NOTICE, at(0.15), "SIGINT"),
    ]
    assert "from pid 50" in found.marks[2].words


def test_a_stopped_process_is_told_by_what_waits_for_it() -> None:
    seen = plus(
        without(story(told=None), "lifeline.notice"),
        saw("process-table", "stopped", -0.5, LEADER),
        saw("process-table", "pending", 0.1, LEADER, signals=["SIGTERM"]),
    )
    found = lane(drawn(seen), LaneKind.PROCESS)
    assert [(one.kind, one.at_s, one.label) for one in found.marks if one.label in {"stopped", "SIGTERM"}] == [
        (MarkKind.STOPPED, at(-0.5), "stopped"),
        (MarkKind.NOTICE, at(0.1), "SIGTERM"),
    ]


@pytest.mark.parametrize(
    ("finished", "span", "label"),
    [pytest.param(0.6, (0.15, 0.6), "clean-up", id="finished"), pytest.param(None, (0.15, 0.9), "clean-up, not finished", id="cut off")],
)
def test_a_clean_up_lasts_until_it_is_finished_or_cut_off(finished: float | None, span: tuple[float, float], label: str) -> None:
    found = lane(drawn(story(deaths=0.9, reported=1.0, cleans=(0.15, finished))), LaneKind.PROCESS)
    assert spans(found.bars, BarKind.CLEANUP) == [span]
    assert [one.label for one in found.bars if one.kind is BarKind.CLEANUP] == [label]


def test_the_second_run_and_a_bystander_are_never_overdue() -> None:
    second = drawn(story(restart=1.0), act="cancel-then-restart")
    assert not lane(second, LaneKind.PROCESS, "leader, 2nd run").is_grave
    assert lane(second, LaneKind.PROCESS, "leader, 2nd run").over_s is None
    beside = {"subject": BYSTANDER, "attempt": "beside"}
    seen = plus(story(), hello(-1.0, run="bystander", **beside), held(-1.0, run="bystander", **beside))
    other = lane(drawn(seen, act="cancel-one-of-two"), LaneKind.PROCESS, "leader, bystander")
    assert not other.is_grave and spans(other.bars, BarKind.OVERDUE) == []


def test_a_bystander_that_the_drill_lets_go_was_not_killed_by_the_wrapper() -> None:
    beside = {"subject": BYSTANDER, "attempt": "beside"}
    come = (hello(-1.0, run="bystander", **beside), held(-1.0, run="bystander", **beside))
    seen = plus(story(), *come, saw("adapter", "other-judged", 0.8), died(0.9, subject=BYSTANDER))
    found = lane(drawn(seen), LaneKind.PROCESS, "leader, bystander")
    assert (found.marks[-1].kind, found.note) == (MarkKind.DRILL, "ended by the drill +0.9 s")
    killed = plus(story(), *come, died(0.4, subject=BYSTANDER), saw("adapter", "other-judged", 0.8))
    assert lane(drawn(killed), LaneKind.PROCESS, "leader, bystander").note == "killed +0.4 s"


def test_of_a_process_that_only_was_found_nobody_says_that_it_was_killed() -> None:
    helper = {"subject": "4790:1", "attempt": "found"}
    seen = plus(story(), held(-0.5, "rg", found=True, by="descent", **helper), died(0.3, subject="4790:1"))
    found = lane(drawn(seen, agent="claude"), LaneKind.PROCESS, "rg")
    assert (found.marks[-1].kind, found.note) == (MarkKind.GONE, "gone +0.3 s")


def test_a_helper_that_may_live_on_is_named_as_that_and_never_overdue() -> None:
    helper = {"subject": "4790:1", "attempt": "k3f9-1"}
    seen = plus(story(end=20.0), held(-0.5, "watchman", found=True, by="descent", **helper))
    found = lane(drawn(seen, agent="claude", allowed={"watchman": "shared by all"}), LaneKind.PROCESS, "watchman, allowed")
    assert not found.is_grave and found.over_s is None and spans(found.bars, BarKind.OVERDUE) == []


def test_helpers_of_an_agent_that_came_and_went_before_the_press_share_a_lane() -> None:
    seen = story()
    for number, (role, ends) in enumerate((("git", -0.6), ("git", -0.5), ("rg", -0.4), ("node", 0.3))):
        subject = f"479{number}:1"
        seen = plus(seen, held(-0.7, role, subject=subject, attempt="found", found=True, by="descent"), died(ends, subject=subject))
    found = [one for one in drawn(seen, agent="claude").lanes if one.kind is LaneKind.PROCESS]
    assert [(one.name, one.note) for one in found] == [
        ("leader", "killed +0.2 s"),
        ("node", "gone +0.3 s"),
        ("3 more processes", "2 git, 1 rg"),
    ]
    assert spans(found[-1].bars, BarKind.ALIVE) == [(-0.7, -0.6), (-0.7, -0.5), (-0.7, -0.4)]


def test_a_process_that_began_by_itself_says_so() -> None:
    again = {"subject": SECOND_LEADER, "attempt": "k3f9-7"}
    found = drawn(plus(story(), hello(1.0, **again), held(1.0, **again), died(1.1, subject=SECOND_LEADER)), act="cancel-then-watch")
    assert "leader, began by itself" in [one.name for one in found.lanes]


def test_of_very_many_processes_those_that_went_on_too_long_are_shown_and_none_is_lost() -> None:
    children = [f"50{number:02}:{number}" for number in range(30)]
    seen = story(reported=0.5, end=10.0)
    for number, subject in enumerate(children):
        ends = 9.0 if number == 29 else 0.2
        seen = plus(seen, hello(-0.5, "leader", subject=subject), held(-0.5, "leader", subject=subject), died(ends, subject=subject))
    found = [one for one in drawn(seen).lanes if one.kind is LaneKind.PROCESS]
    assert len(found) == MOST_LANES
    assert "pid 5029" in [one.detail for one in found if one.is_grave]
    assert found[-1].name == "18 more processes"
    assert len(spans(found[-1].bars, BarKind.ALIVE)) == 18


def test_a_wrapper_lane_lasts_until_its_exit() -> None:
    spawned = saw("process-table", "spawned", -1.3, "50:9", role="wrapper", pid=50, run="first")
    exited = saw("process-table", "wrapper-exited", 0.3, "50:9", status=-9, run="first")
    found = lane(drawn(plus(story(), spawned, exited)), LaneKind.WRAPPER)
    assert spans(found.bars, BarKind.ALIVE) == [(-1.3, 0.3)]
    assert (found.marks[-1].kind, found.note) == (MarkKind.KILLED, "was ended by SIGKILL +0.3 s")
    lives = lane(drawn(plus(story(), spawned)), LaneKind.WRAPPER)
    assert lives.note == "still running at the end"
    other = saw("process-table", "spawned", -1.3, "51:9", role="helper", pid=51, run="first")
    assert [one for one in drawn(plus(story(), other)).lanes if one.kind is LaneKind.WRAPPER] == []


# --- Lines ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """A sentence, what was seen, and where the lines stand, after the press."""

    id: str
    seen: Sequence[Observation]
    lines: dict[LineKind, float]
    act: str = "cancel"


LINES = (
    Lines(
        "the handover is the report, the grace counts from the notice",
        story(told=0.1, reported=0.5),
        {LineKind.PRESSED: 0.0, LineKind.HANDOVER: 0.5, LineKind.GRACE: 5.1, LineKind.DEADLINE: 12.0},
    ),
    Lines(
        "without a report the handover is the deadline, and without a notice the grace counts from the end of delivery",
        without(story(told=None, reported=None), "lifeline.notice"),
        {LineKind.PRESSED: 0.0, LineKind.HANDOVER: 12.0, LineKind.GRACE: 10.0, LineKind.DEADLINE: 12.0},
    ),
    Lines(
        "where the call is known to have begun to act, cancel counts as pressed from there",
        plus(without(story(reported=1.5, returns=None), "adapter.cancel-returned"), returned(0.6, acted_s=0.4)),
        {LineKind.PRESSED: 0.4, LineKind.HANDOVER: 1.5, LineKind.DEADLINE: 12.4},
    ),
    Lines("a second press has a line", plus(story(), pressed_again(0.2)), {LineKind.PRESSED: 0.0, LineKind.PRESSED_AGAIN: 0.2}),
    Lines("so has the second start", story(restart=1.0), {LineKind.RESTART: 0.95}, act="cancel-then-restart"),
    Lines(
        "where nobody presses, the deadline counts from the leader's hello, and there is no handover",
        [
            saw("adapter", "left-alone", one.at_s - PRESSED_S, trigger=True, how="nothing") if one.kind == "pressed" else one
            for one in story(told=None)
        ],
        {LineKind.PRESSED: 0.0, LineKind.DEADLINE: 16.0, LineKind.GRACE: 14.0},
        act="leave-alone",
    ),
    Lines("a drill in which nothing was pressed has none", without(story(), "adapter.pressed"), {}),
)


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in LINES])
def test_lines_stand_where_the_terms_say(case: Lines) -> None:
    found = drawn(case.seen, act=case.act)
    if not case.lines:
        assert found.lines == ()
    for kind, at_s in case.lines.items():
        line = found.line(kind)
        assert line is not None and line.at_s == at(at_s), kind
    if case.act == "leave-alone":
        assert found.line(LineKind.HANDOVER) is None


def test_what_is_over_long_before_the_deadline_is_not_pushed_together_for_it() -> None:
    found = drawn(story(reported=0.5))
    deadline = found.line(LineKind.DEADLINE)
    assert deadline is not None and deadline.at_s > found.until_s
    assert found.until_s - PRESSED_S < 7.5  # the grace, at +5.1 s, is far behind the end as well


def test_a_line_a_little_behind_the_end_is_in_the_picture() -> None:
    given = terms(delivery=1.0, grace=0.5, kill_within=0.5, cleanup=0.1)
    found = drawn(story(reported=0.5, end=1.3), given)
    deadline = found.line(LineKind.DEADLINE)
    assert deadline is not None and found.until_s == deadline.at_s == at(2.0)


def test_a_slow_start_does_not_push_the_rest_together() -> None:
    found = drawn(plus(story(), saw("adapter", "starting", -60.0)))
    assert found.since_s > PRESSED_S - 1.0
    assert min(bar.since_s for one in found.lanes for bar in one.bars) == at(-60.0)


# --- The other witnesses ----------------------------------------------------------------------------------------------


def test_late_writes_are_told_apart_from_other_changes_and_stand_at_their_change_times() -> None:
    seen = plus(story(deaths=CHILD, reported=0.5), changed(3.0, None, path="/drill/work/workspace/theirs", ctime_s=2.0))
    found = lane(drawn(seen), LaneKind.WRITES)
    late = [one for one in found.marks if one.kind is MarkKind.LATE_WRITE]
    others = [one for one in found.marks if one.kind is MarkKind.CHANGE]
    assert [one.at_s for one in others] == [at(2.0)]
    assert late and all("deaf-child" in one.words for one in late)
    assert (found.note, found.is_grave, found.over_s) == ("late writes to 1 path", True, at(0.5))


def test_what_processes_say_that_they_wrote_is_no_late_write() -> None:
    found = lane(drawn(story()), LaneKind.WRITES)
    assert {one.kind for one in found.marks} == {MarkKind.TOLD_WRITE}
    assert [one.at_s for one in found.marks] == [at(-0.1)]
    assert not found.is_grave


def test_writes_of_a_bystander_have_a_lane_of_their_own() -> None:
    beside = {"subject": BYSTANDER, "attempt": "beside"}
    more = (hello(-1.0, run="bystander", **beside), says("wrote", 3.0, subject=BYSTANDER, path="/p", count=1))
    found = lane(drawn(plus(story(), *more)), LaneKind.WRITES, "writes of other runs")
    assert [one.at_s for one in found.marks] == [at(3.0)] and found.over_s is None


def spending(*more: Observation) -> list[Observation]:
    """A drill that is reported at +0.5 s and over at +4 s, and whose provider saw only these."""
    return plus(without(story(reported=0.5, end=4.0), "meter"), *more)


@dataclass(frozen=True)
class Requests:
    """A sentence, what the provider saw, and what its lane must hold."""

    id: str
    seen: Sequence[Observation]
    bars: list[tuple[float, float]]
    overdue: list[tuple[float, float]]
    note: str
    ends: list[MarkKind]


REQUESTS = (
    Requests("a request is as long as it was open", [request(-0.5), closed(0.2)], [(-0.5, 0.2)], [], "1", [MarkKind.DONE]),
    Requests("a client that goes", [request(-0.5), closed(0.2, how="disconnected")], [(-0.5, 0.2)], [], "1", [MarkKind.DISCONNECTED]),
    Requests("work that is cancelled", [request(-0.5), closed(0.2, how="cancelled")], [(-0.5, 0.2)], [], "1", [MarkKind.CANCELLED]),
    Requests(
        "one that is open when the meter must stand still, 1 s after the handover",
        [request(-0.5), closed(1.6)],
        [(-0.5, 1.6)],
        [(1.5, 1.6)],
        "1 of 1 too late",
        [MarkKind.DONE],
    ),
    Requests("one that ends exactly then is not late", [request(-0.5), closed(1.5)], [(-0.5, 1.5)], [], "1", [MarkKind.DONE]),
    Requests(
        "one that begins after that is late as a whole",
        [request(1.6), closed(1.7)],
        [(1.6, 1.7)],
        [(1.6, 1.7)],
        "1 of 1 too late",
        [MarkKind.DONE],
    ),
    Requests(
        "one that begins in between is not called late, whatever it costs is",
        [request(0.8), closed(1.6)],
        [(0.8, 1.6)],
        [],
        "1",
        [MarkKind.DONE],
    ),
    Requests(
        "a refused one",
        [request(-0.5), closed(0.1), saw("meter", "refused", 0.3, path="/x", why="unknown", status=404)],
        [(-0.5, 0.1)],
        [],
        "1",
        [MarkKind.DONE, MarkKind.REFUSED],
    ),
)


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in REQUESTS])
def test_the_request_lane(case: Requests) -> None:
    found = lane(drawn(spending(*case.seen)), LaneKind.REQUESTS)
    assert (spans(found.bars, BarKind.REQUEST), spans(found.bars, BarKind.OVERDUE)) == (case.bars, case.overdue)
    assert (found.note, [one.kind for one in found.marks], found.is_grave) == (case.note, case.ends, bool(case.overdue))
    assert found.over_s == at(1.5)


def test_a_request_that_is_open_to_the_last_says_so() -> None:
    found = lane(drawn(spending(request(-0.5))), LaneKind.REQUESTS)
    assert found.marks[-1].label == "still open" and found.marks[-1].kind is MarkKind.UNSEEN
    assert found.marks[-1].at_s == at(4.0)


def test_requests_beside_each_other_stand_in_rows() -> None:
    seen = [request(-0.5, "r1"), request(-0.4, "r2"), closed(0.1, "r1"), request(0.15, "r3"), closed(0.2, "r2"), closed(0.3, "r3")]
    found = lane(drawn(spending(*seen)), LaneKind.REQUESTS)
    assert {one.label: one.row for one in found.bars} == {"r1": 0, "r2": 1, "r3": 0}


def test_side_requests_are_never_too_late() -> None:
    found = lane(drawn(spending(request(-0.5), closed(0.1), request(3.0, "r2", side=True))), LaneKind.REQUESTS, "other requests")
    assert found.note == "1, not judged" and not found.is_grave


def test_each_run_counts_its_requests_anew() -> None:
    beside = [request(-0.4, "r1", run="bystander"), closed(3.0, "r1", run="bystander")]
    found = drawn(spending(request(-0.5, "r1"), closed(0.2, "r1"), *beside), act="cancel-one-of-two")
    assert spans(lane(found, LaneKind.REQUESTS, "requests").bars, BarKind.REQUEST) == [(-0.5, 0.2)]
    other = lane(found, LaneKind.REQUESTS, "other requests")
    assert spans(other.bars, BarKind.SIDE_REQUEST) == [(-0.4, 3.0)]
    assert [one.at_s for one in other.marks] == [at(3.0)] and not other.is_grave


def test_tokens_that_follow_one_another_are_one_spell_and_late_ones_are_another() -> None:
    seen = [tokens(at_s, since_s=at_s - 0.05) for at_s in (0.0, 0.05, 0.1)]
    seen += [tokens(at_s, since_s=at_s - 0.05) for at_s in (1.50, 1.60)]
    found = lane(drawn(spending(request(-0.5), *seen)), LaneKind.TOKENS)
    assert spans(found.bars, BarKind.TOKENS) == [(-0.05, 0.1), (1.45, 1.5)]
    assert spans(found.bars, BarKind.OVERDUE) == [(1.55, 1.6)]
    assert [one.label for one in found.bars] == ["12", "4", "4 too late"]
    assert (found.note, found.is_grave) == ("4 of 20 too late", True)


def beating(*moments: float, error: str = "") -> Observation:
    """The engine's heartbeats, told at the end."""
    return saw("engine", "heartbeats", 1.15, moments=[PRESSED_S + one for one in moments], error=error)


@pytest.mark.parametrize(
    ("moments", "gaps"),
    [
        pytest.param((-0.2, 0.0, 0.2), [], id="steady"),
        pytest.param((-0.5, 0.2), [(-0.5, 0.2)], id="a gap that is longer than is promised"),
        pytest.param((-0.3, 0.2), [], id="a gap that is just as long"),
        pytest.param((-0.8, -0.6), [(-0.6, 0.2)], id="none any more, though the run was alive"),
    ],
)
def test_gaps_between_heartbeats(moments: tuple[float, ...], gaps: list[tuple[float, float]]) -> None:
    found = lane(drawn(plus(story(), beating(*moments)), terms(heartbeat_timeout=0.5)), LaneKind.HEARTBEATS)
    assert spans(found.bars, BarKind.GAP) == gaps
    assert [one.at_s for one in found.marks] == [at(one) for one in moments]


def test_outcomes_are_told_from_the_first_answer_to_the_next_other_one() -> None:
    answers = [(-0.2, "running"), (0.1, "running"), (0.3, "cancelling"), (0.6, "cancelled"), (0.9, "cancelled")]
    seen = [saw("outcome", "answer", at_s, asked_at_s=PRESSED_S + at_s, outcome=outcome) for at_s, outcome in answers]
    found = lane(drawn(plus(without(story(reported=None), "outcome"), *seen)), LaneKind.OUTCOMES)
    assert [(one.label, one.kind) for one in found.bars] == [
        ("running", BarKind.ANSWER),
        ("cancelling", BarKind.ANSWER),
        ("cancelled", BarKind.TERMINAL),
    ]
    assert [(one.since_s, one.until_s) for one in found.bars] == [(at(-0.2), at(0.1)), (at(0.3), at(0.3)), (at(0.6), at(0.9))]
    assert [(one.kind, one.at_s) for one in found.marks] == [(MarkKind.REPORTED, at(0.6))]
    assert found.note == "cancelled +0.6 s"


@pytest.mark.parametrize(
    ("seen", "end", "is_grave"),
    [
        pytest.param([saw("outcome", "answer", 0.1, outcome="running")], 13.0, True, id="running to the last"),
        pytest.param([], 13.0, True, id="without any answer"),
        pytest.param([], 2.0, False, id="not watched until the deadline"),
    ],
)
def test_an_outcome_that_is_never_reported_says_so(seen: list[Observation], end: float, is_grave: bool) -> None:
    found = lane(drawn(plus(without(story(reported=None, end=end), "outcome"), *seen)), LaneKind.OUTCOMES)
    assert (found.note, found.marks, found.is_grave) == ("never reported", (), is_grave)


def test_the_machine_tells_its_lateness_in_windows_and_the_worst_of_them() -> None:
    seen = plus(
        without(story(), "clock"),
        saw("clock", "lateness", 0.25, since_s=PRESSED_S, worst_s=0.004),
        saw("clock", "lateness", 0.5, since_s=PRESSED_S + 0.25, worst_s=0.031),
    )
    found = lane(drawn(seen), LaneKind.MACHINE)
    assert [(one.since_s, one.until_s, one.value_s) for one in found.levels] == [(at(0.0), at(0.25), 0.004), (at(0.25), at(0.5), 0.031)]
    assert [(one.kind, one.at_s, one.label) for one in found.marks] == [(MarkKind.WORST, at(0.5), "31 ms")]


@pytest.mark.parametrize(
    ("seen", "note", "is_grave", "error"),
    [
        pytest.param(story(returns=0.3), "cancel returned +0.3 s", False, [], id="it returned"),
        pytest.param(story(returns=None), "cancel did not return", True, ["did not return"], id="it did not"),
        pytest.param(
            plus(without(story(returns=None), "adapter.cancel-returned"), returned(0.3, error="boom")),
            "cancel returned +0.3 s",
            False,
            ["failed"],
            id="it failed",
        ),
    ],
)
def test_the_call_lane(seen: Sequence[Observation], note: str, is_grave: bool, error: list[str]) -> None:
    found = lane(drawn(seen), LaneKind.CALLS)
    assert (found.note, found.is_grave, [one.label for one in found.marks]) == (note, is_grave, error)
    assert [(one.label, one.since_s) for one in found.bars] == [("start", at(-1.5)), ("cancel", at(0.0))]


def test_a_witness_that_was_silent_has_no_lane() -> None:
    found = drawn(without(story(), "clock", "meter", "outcome"))
    assert {one.kind for one in found.lanes} == {LaneKind.CALLS, LaneKind.PROCESS, LaneKind.WRITES, LaneKind.OUTCOMES}
    cannot_tell = history(without(story(), "clock", "meter", "outcome"), capabilities=())
    assert LaneKind.OUTCOMES not in {one.kind for one in course(cannot_tell, terms_of(cannot_tell)).lanes}


def test_a_history_without_any_observation_has_an_empty_course() -> None:
    found = drawn([])
    assert (found.lanes, found.lines) == ((), ())


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(0, 1), (1, 2)], [0, 0], id="one that begins as another ends goes beside it"),
        pytest.param([(0, 3), (1, 2), (2, 4)], [0, 1, 1], id="the first free row is taken"),
    ],
)
def test_rows_hold_what_does_not_overlap(given: list[tuple[float, float]], rows: list[int]) -> None:
    assert rows_of(given) == rows
