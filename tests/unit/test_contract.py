"""The judge: which clauses it judges, what keeps a whole drill from being judged, and what it measures."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from pytest_cancelcontract import contract
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.contract import CLAUSES, NOT_MEASURED, UnknownClause, clause, clauses_of, is_spoilt, judge, measure, verdict_of
from pytest_cancelcontract.finding import Finding, Level, Verdict
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.report import contract_page
from pytest_cancelcontract.scenarios import SCENARIOS, UnknownScenario, by_id
from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    NOT_COVERED,
    changed,
    died,
    exited,
    finding,
    history,
    look,
    notice,
    plus,
    pressed,
    row,
    saw,
    says,
    story,
    verdicts,
    without,
)
from tests.unit.stories import AFTER_END, AT_START, ended_story, revival, start_story

JUDGED = [row.id for row in CLAUSES if "heartbeats" not in row.needs]
DEAF_CHILD = {"leader": 0.2, "deaf-child": 5.3}


def test_a_kept_drill_is_kept_in_every_clause_that_is_judged() -> None:
    checks = judge(history(story(deaths=DEAF_CHILD, reported=5.5)))
    assert verdicts(checks) == dict.fromkeys(by_id("deaf-child").clauses, KEPT)
    assert verdict_of(checks) is KEPT
    assert not is_spoilt(checks)
    assert checks[0].id == "deaf-child:cancel-delivered"


def test_checks_come_in_the_order_of_the_table() -> None:
    checks = judge(history(story()), reversed_ids := [row.id for row in reversed(CLAUSES)])
    assert [check.clause for check in checks] == list(reversed(reversed_ids))


def test_every_clause_that_a_scenario_names_is_in_the_table() -> None:
    assert {id for scenario in SCENARIOS for id in scenario.clauses} <= {row.id for row in CLAUSES}
    assert len({row.id for row in CLAUSES}) == len(CLAUSES) == 23


SHOWN_BY = {
    "stays-ended": "the scenario watched can",
    "bystander-unharmed": "the scenario bystander can",
    "cancel-idempotent": "the scenario cancel-twice can",
    "cancel-any-time": "the scenarios cancel-at-start and cancel-after-end can",
    "slot-reusable": "the scenario next-task can",
}


@pytest.mark.parametrize("id", SHOWN_BY)
def test_what_takes_another_act_is_not_applicable_and_says_which_scenario_shows_it(id: str) -> None:
    found = finding(id, story())
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert found.observed == f"this drill (cancel) cannot show it: {SHOWN_BY[id]}"


def test_every_act_that_a_clause_needs_is_one_that_a_scenario_has() -> None:
    acts = {str(scenario.act) for scenario in SCENARIOS}
    for one in CLAUSES:
        assert set(one.acts) <= acts
        assert not one.acts or {str(scenario.act) for scenario in SCENARIOS if one.id in scenario.clauses} == set(one.acts)


def test_what_a_drill_cannot_show_it_can_still_disprove() -> None:
    assert finding("stays-ended", plus(story(), *revival(0.9))).verdict is BROKEN


def test_a_clause_that_raises_is_never_called_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(dataclasses.replace(row, check=_boom) if row.id == "stays-ended" else row for row in CLAUSES)
    monkeypatch.setattr(contract, "CLAUSES", rows)
    assert finding("stays-ended", story()).verdict is INCONCLUSIVE


@pytest.mark.parametrize("wanted", [None, ("no-survivors",), ("bystander-unharmed", "no-survivors")])
def test_a_dead_host_is_judged_in_every_drill(wanted: tuple[str, ...] | None) -> None:
    seen = history(plus(story(), exited(0.3, -15, of="host")))
    ids = clauses_of(seen, wanted)
    assert ids.count("bystander-unharmed") == 1
    assert verdicts(judge(seen, ids))["bystander-unharmed"] is BROKEN
    assert [check.clause for check in judge(seen, ["no-survivors"])] == ["no-survivors"]


def test_a_living_host_is_judged_nowhere_else() -> None:
    seen = history(plus(story(), exited(-0.3, -9, of="host")))
    assert clauses_of(seen) == by_id("deaf-child").clauses
    assert clauses_of(seen, ["no-survivors"]) == ("no-survivors",)
    assert verdicts(judge(seen)).keys() == set(by_id("deaf-child").clauses)


def test_a_history_that_cannot_be_read_names_no_more_clauses() -> None:
    seen = [pressed(), exited(0.3, -15, of="host"), Observation(99.0, "process-table", "look", "", None)]  # type: ignore[arg-type]
    assert clauses_of(history(seen), ["no-survivors"]) == ("no-survivors",)


def test_without_wait_and_outcome_the_outcome_clauses_are_not_covered() -> None:
    found = verdicts(judge(history(story(), capabilities=())))
    assert {id for id, verdict in found.items() if verdict is NOT_COVERED} == {
        *("outcome-reported", "outcome-not-early", "outcome-not-success")
    }


@pytest.mark.parametrize(("capabilities", "level"), [(("wait",), Level.MUST), (("exit",), Level.SHOULD)])
def test_an_exit_status_makes_not_success_a_should(capabilities: tuple[str, ...], level: Level) -> None:
    (check,) = judge(history(story(), capabilities=capabilities), ["outcome-not-success"])
    assert check.level is level


def test_an_unknown_clause_lists_those_that_exist() -> None:
    with pytest.raises(UnknownClause, match=r"unknown clause 'no-survivor'; the clauses are cancel-delivered, .*slot-reusable"):
        clause("no-survivor")
    with pytest.raises(UnknownClause):
        judge(history(story()), ["no-survivor"])


def test_an_unknown_scenario_needs_clauses() -> None:
    seen = history(story(), scenario="of-a-plugin")
    with pytest.raises(UnknownScenario):
        judge(seen)
    assert verdicts(judge(seen, ["no-survivors"])) == {"no-survivors": KEPT}


def test_no_check_at_all_is_inconclusive() -> None:
    assert verdict_of(judge(history(story()), [])) is INCONCLUSIVE


def test_a_broken_should_makes_the_drill_broken_too() -> None:
    seen = plus(without(story(), "process-table.look", moment="end"), look("end", 1.2, row("leader", "Z")))
    assert verdict_of(judge(history(seen))) is BROKEN


@pytest.mark.parametrize(
    ("seen", "words", "spoilt"),
    [
        pytest.param([], "cancel was never pressed", False, id="nothing at all"),
        pytest.param(without(story(), "adapter"), "cancel was never pressed", False, id="never pressed"),
        pytest.param([saw("drill", "problem", 0, what="no wrapper"), *story()][:1], "no wrapper", False, id="a problem is told"),
        pytest.param([pressed()], "the runner never worked: leader", False, id="no runner"),
        pytest.param(without(story(deaths=DEAF_CHILD), "lifeline.working", subject="4711:1001"), "deaf-child", False, id="an idle child"),
        pytest.param(
            plus(without(story(), "lifeline.working"), says("unarmed", -0.8, habit="deaf", why="SIGTERM got through")),
            "SIGTERM got through",
            False,
            id="a habit that is not armed",
        ),
        pytest.param(plus(without(story(), "lifeline.working"), says("working", 0.1)), "never worked", False, id="at work after the press"),
        pytest.param(plus(story(), notice(-0.3)), "SIGTERM reached pid 4700 -0.3 s, before pressed", True, id="a stray signal"),
        pytest.param(story(reported=-0.3), "the outcome was 'cancelled' already -0.3 s, before pressed", False, id="over before the press"),
        pytest.param(
            plus(story(), saw("process-table", "pending", -0.3, "4700:1000", signals=["SIGTERM"])),
            "SIGTERM (pending, as it is stopped) reached pid 4700 -0.3 s, before pressed",
            True,
            id="a stray signal that waits",
        ),
        pytest.param(story(deaths=-0.3), "was killed -0.3 s, before pressed", True, id="a stray kill"),
    ],
)
def test_what_keeps_a_drill_from_being_judged(seen: list[Observation], words: str, spoilt: bool) -> None:
    checks = judge(history(seen), JUDGED)
    assert {check.verdict for check in checks} == {INCONCLUSIVE}
    assert all(words in check.finding.observed and check.finding.spoilt is spoilt for check in checks), checks[0].finding
    assert measure(history(seen)) == NOT_MEASURED


def test_a_notice_that_was_sent_before_the_press_and_heard_after_it_is_stray() -> None:
    early = Observation(100.0001, "lifeline", "notice", "4700:1000", {"said_at_s": 99.99, "by": "SIGTERM"})
    assert is_spoilt(judge(history(plus(story(), early))))


def test_a_stray_signal_to_a_stranger_spoils_nothing() -> None:
    assert verdicts(judge(history(plus(story(), notice(-0.3, subject="4700:9")))))["no-survivors"] is KEPT


def _boom(facts: Facts) -> Finding:
    raise RuntimeError(f"no {type(facts).__name__} today")


def test_a_clause_that_raises_is_inconclusive_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(dataclasses.replace(row, check=_boom) if row.id == "no-survivors" else row for row in CLAUSES)
    monkeypatch.setattr(contract, "CLAUSES", rows)
    found = finding("no-survivors", story())
    assert found.verdict is INCONCLUSIVE
    assert "RuntimeError: no Facts today" in found.observed
    assert "Traceback" in found.seen_by
    assert "in _boom" in found.seen_by


@pytest.mark.parametrize("data", [None, {"processes": None}, {"processes": [3]}, {"processes": [{}]}])
def test_an_observation_that_makes_no_sense_is_inconclusive(data: object) -> None:
    broken = Observation(99.0, "process-table", "look", "", data)  # type: ignore[arg-type]
    seen = history([*story(), broken])
    assert {check.verdict for check in judge(seen, JUDGED)} == {INCONCLUSIVE}
    assert measure(seen) == NOT_MEASURED


@pytest.mark.parametrize("header", [{}, {"terms": {}}, {"terms": {"grace": {"value": -1, "origin": "a hand"}}}, {"terms": 7}])
def test_a_header_without_sound_terms_is_never_kept(header: dict[str, object]) -> None:
    seen = History({"scenario": "deaf", "capabilities": ["wait"], **header}, tuple(story(told=None, deaths=None)))
    assert KEPT not in {check.verdict for check in judge(seen, ["no-survivors", "cancel-delivered"])}


def test_no_order_of_what_is_missing_raises() -> None:
    """Subsets of a drill with a second run, judged by every clause and measured."""
    seen = story(deaths={"leader": 0.2, "deaf-child": None}, restart=0.9, cleans=(0.1, 0.15))
    chance = random.Random(1)
    for _ in range(150):
        share = chance.random()
        part = history([one for one in seen if chance.random() < share])
        assert all("raised" not in check.finding.observed for check in judge(part, JUDGED))
        assert measure(part).keys() == NOT_MEASURED.keys()


def test_an_engines_own_retry_before_the_press_is_judged_by_the_attempt_at_work() -> None:
    first = [
        Observation(one.at_s - 2, one.witness, one.kind, one.subject.replace("4700:1000", "4600:5"), {**one.data, "attempt": "k3f9-0"})
        for one in story()
        if one.subject == "4700:1000" and one.at_s < 100.0 and one.kind != "planted"
    ]
    seen = plus(story(), *first, died(-1.1, subject="4600:5"))
    assert verdicts(judge(history(seen)))["no-survivors"] is KEPT


def test_a_run_that_may_not_start_need_not_have_worked() -> None:
    found = verdicts(judge(history(start_story(), scenario="cancel-at-start", header=AT_START)))
    assert found == {"cancel-any-time": KEPT, "no-survivors": KEPT, "outcome-reported": KEPT}


def test_a_run_that_has_ended_may_be_over_before_the_press() -> None:
    assert verdicts(judge(history(ended_story(), scenario="cancel-after-end", header=AFTER_END))) == {"cancel-any-time": KEPT}


def test_a_run_that_was_killed_before_the_press_did_not_end_by_itself() -> None:
    killed = without(ended_story(), "lifeline.goodbye")
    (check,) = judge(history(killed, scenario="cancel-after-end", header=AFTER_END))
    assert (check.verdict, check.finding.spoilt) == (INCONCLUSIVE, True)


# --- Measuring --------------------------------------------------------------------------------------------------------


def test_a_forced_end_is_measured() -> None:
    assert measure(history(story(deaths=5.2, reported=5.5, late=0.003))) == {
        "answered_s": 0.5,
        "heartbeat_interval_s": None,
        "delivery_s": 0.1,
        "grace_used_s": 5.1,
        "cancel_to_gone_s": 5.2,
        "cancel_to_reported_s": 5.5,
        "early_s": -0.3,
        "late_writes": 0,
        "late_tokens": 0,
        "survivors": 0,
        "clock_error_s": 0.003,
    }


def test_what_was_not_measured_is_null() -> None:
    found = measure(history(story(told=None, deaths=None, reported=None, returns=None)))
    assert {name for name, value in found.items() if value is None} == {
        *("answered_s", "heartbeat_interval_s", "delivery_s", "grace_used_s", "cancel_to_gone_s", "cancel_to_reported_s", "early_s")
    }
    assert (found["survivors"], found["late_writes"]) == (1, 1)


def test_survivors_and_late_writes_are_null_where_they_could_not_be_told() -> None:
    unseen = without(story(deaths=DEAF_CHILD, reported=5.5), "process-table.died", "process-table.look", "workspace.opened")
    found = measure(history(unseen))
    assert (found["survivors"], found["late_writes"], found["early_s"]) == (None, None, None)


def test_a_file_is_counted_once_however_often_it_changed() -> None:
    seen = plus(story(deaths={"leader": 0.2, "deaf-child": None}), changed(3.0, "deaf-child"), changed(4.0, "deaf-child"))
    assert measure(history(seen))["late_writes"] == 1


def test_no_grace_is_used_by_a_run_that_leaves_by_itself() -> None:
    assert measure(history(story(goodbyes=["leader"])))["grace_used_s"] is None


def test_what_had_ended_before_the_press_took_no_time_from_it() -> None:
    found = measure(history(ended_story(), scenario="cancel-after-end", header=AFTER_END))
    assert (found["cancel_to_gone_s"], found["cancel_to_reported_s"], found["delivery_s"]) == (None, None, None)
    assert found["survivors"] == 0


def test_what_never_came_up_survived_nothing() -> None:
    found = measure(history(start_story(), header=AT_START))
    assert (found["survivors"], found["cancel_to_gone_s"], found["cancel_to_reported_s"]) == (0, None, 0.1)


def test_verdicts_have_no_other_words() -> None:
    assert {one.value for one in Verdict} == {"kept", "broken", "inconclusive", "not covered", "not applicable"}


def test_the_page_of_the_contract_is_made_from_its_tables() -> None:
    page = Path(__file__).parents[2] / "docs" / "contract.md"
    assert page.read_text() == contract_page.page(), "make it anew, as its first lines say"
