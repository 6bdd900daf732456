"""The words for people and for machines, from hand-made data; nothing is run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.finding import Check, Finding, Level, Verdict
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.judging import Failure, Fault, failures, is_nothing_judged
from pytest_cancelcontract.report import json_report
from pytest_cancelcontract.report.text import failure_message, plain, summary, without_timeline
from pytest_cancelcontract.report.timeline import MOST_LINES, timeline
from pytest_cancelcontract.terms import settle_terms

LEADER, CHILD = "10:1", "11:2"
HEADER = {"scenario": "deaf-child", "terms": settle_terms({"grace": (2, "--cancel-grace")}).as_dict()}


def check(verdict: Verdict, clause: str = "no-survivors", level: Level = Level.MUST, **fields: Any) -> Check:
    return Check("deaf-child", clause, level, Finding(verdict, **{"observed": "seen", **fields}))


def history(*observations: Observation) -> History:
    return History(HEADER, observations, "/x/deaf-child.jsonl")


def hello(subject: str, role: str, at_s: float = 99.0, attempt: str = "a-1", run: str = "first") -> Observation:
    return Observation(at_s, "lifeline", "hello", subject, {"role": role, "attempt": attempt, "run": run})


PRESSED = Observation(100.0, "adapter", "pressed", "", {"trigger": True, "how": "SIGTERM to the wrapper"})


def test_a_failure_has_its_fields_in_order_and_leaves_out_what_is_empty() -> None:
    broken = check(Verdict.BROKEN, observed="pid 11 lives", expected="none", seen_by="pidfd", likely="setsid", advice="kill it")
    assert failure_message(broken, history(PRESSED), rerun="pytest x").splitlines() == [
        "cancel contract broken: deaf-child:no-survivors",
        "  observed  pid 11 lives",
        "  expected  none",
        "  seen by   pidfd",
        "  likely    setsid",
        "  try       kill it",
        "  timeline     +0.000 s  pressed (SIGTERM to the wrapper)",
        "               +9.000 s  the deadline",
        "  rerun     pytest x",
        "  history   /x/deaf-child.jsonl",
    ]
    assert (
        without_timeline(failure_message(broken, history(PRESSED), rerun="pytest x"))
        == failure_message(broken, None, rerun="pytest x") + "\n  history   /x/deaf-child.jsonl"
    )
    assert failure_message(check(Verdict.INCONCLUSIVE, level=Level.SHOULD), None).splitlines() == [
        "cancel contract inconclusive: deaf-child:no-survivors (a SHOULD)",
        "  observed  seen",
    ]


def test_what_a_terminal_would_obey_is_written_out() -> None:
    message = failure_message(check(Verdict.BROKEN, observed="a\x1b[2Jb\rc\nd"), None)
    assert message.splitlines()[1:] == ["  observed  a\\x1b[2Jb\\rc", "            d"]
    assert plain("é\t\x07\ud800") == "é\t\\x07\\ud800"


def test_the_timeline_tells_the_course_in_seconds_from_pressed() -> None:
    course = [
        hello(LEADER, "leader"),
        hello(CHILD, "deaf-child"),
        Observation(99.5, "lifeline", "working", LEADER),
        PRESSED,
        Observation(100.1, "lifeline", "notice", LEADER, {"by": "SIGTERM", "from_pid": 9}),
        Observation(100.2, "lifeline", "notice", LEADER, {"by": "SIGTERM", "from_pid": 9}),
        Observation(100.3, "lifeline", "goodbye", LEADER, {"status": 0}),
        Observation(100.3, "process-table", "died", LEADER),
        Observation(100.4, "outcome", "answer", "", {"outcome": "cancelling"}),
        Observation(100.5, "outcome", "answer", "", {"outcome": "cancelled"}),
        Observation(108.0, "lifeline", "wrote", CHILD, {"path": "/w/log", "count": 7}),
        Observation(
            109.0,
            "process-table",
            "look",
            "",
            {"moment": "deadline", "processes": [{"subject": CHILD, "role": "deaf-child", "alive": True}]},
        ),
        Observation(110.0, "process-table", "died", CHILD),
    ]
    assert timeline(history(*course)) == [
        "   -0.500 s  the runner works, with all its processes",
        "   +0.000 s  pressed (SIGTERM to the wrapper)",
        "   +0.100 s  leader (pid 10) noticed SIGTERM from pid 9",
        "   +0.300 s  leader (pid 10) is gone, ended by itself",
        "   +0.400 s  outcome: cancelling",
        "   +0.500 s  outcome reported: cancelled",
        "   +8.000 s  last write reported, by deaf-child (pid 11): /w/log",
        "   +9.000 s  the deadline; alive: deaf-child (pid 11)",
        "  +10.000 s  deaf-child (pid 11) is gone, was killed",
    ]


@pytest.mark.parametrize(
    ("later", "words"),
    [("missed", "this look finds nothing alive"), ("held", "this look finds nothing alive"), ("died", "nothing is alive")],
)
def test_a_look_between_two_short_lived_processes_is_no_proof_that_nothing_lives(later: str, words: str) -> None:
    course = [
        hello(LEADER, "leader"),
        PRESSED,
        Observation(100.3, "process-table", "died", LEADER),
        Observation(109.0, "process-table", "look", "", {"moment": "deadline", "processes": []}),
        Observation(109.4, "process-table", later, CHILD, {"role": "sh", "attempt": "a-1", "comm": "sh", "by": "descent"}),
    ]
    assert f"   +9.000 s  the deadline; {words}" in timeline(history(*course))


def test_the_timeline_tells_of_a_second_press_and_of_the_death_of_the_adapters_host() -> None:
    course = [
        hello(LEADER, "leader"),
        PRESSED,
        Observation(100.2, "adapter", "pressed-again", "", {"how": "SIGTERM to the wrapper"}),
        Observation(100.3, "process-table", "host-exited", "9:1", {"status": -15}),
        Observation(100.4, "adapter", "cancel-again-returned", "", {"error": "HostGone: it ended"}),
        Observation(100.5, "outcome", "answer", "", {"outcome": "cancelled"}),
        Observation(100.6, "outcome", "answer", "", {"outcome": "failed"}),
        Observation(100.7, "outcome", "answer", "", {"outcome": "failed"}),
        hello("12:3", "leader", 101.0, attempt="a-2"),
    ]
    assert timeline(history(*course)) == [
        "   +0.000 s  pressed (SIGTERM to the wrapper)",
        "   +0.200 s  pressed again (SIGTERM to the wrapper)",
        "   +0.300 s  the process that hosts the adapter exited with status -15",
        "   +0.400 s  the second cancel call failed: HostGone: it ended",
        "   +0.500 s  outcome reported: cancelled",
        "   +0.600 s  the outcome is another one: failed",
        "   +1.000 s  leader of a new attempt (pid 12) began by itself",
        "   +9.000 s  the deadline",
    ]


def test_the_timeline_tells_how_far_a_held_runner_was_and_what_became_of_it() -> None:
    course = [
        hello(LEADER, "leader"),
        Observation(99.2, "lifeline", "ready", LEADER),
        PRESSED,
        Observation(100.0, "drill", "reached", "", {"what": "before it works"}),
        Observation(102.0, "drill", "released", LEADER, {"why": "the press had `delivery` to arrive"}),
        Observation(102.1, "lifeline", "working", LEADER),
    ]
    assert timeline(history(*course))[:4] == [
        "   -0.800 s  leader (pid 10) is held, before it works",
        "   +0.000 s  pressed (SIGTERM to the wrapper), before it works",
        "   +2.000 s  leader (pid 10) is let go on: the press had `delivery` to arrive",
        "   +2.100 s  leader (pid 10) works",
    ]


def test_the_timeline_tells_what_is_read_from_outside_of_a_stopped_process() -> None:
    course = [
        hello(LEADER, "leader"),
        Observation(99.6, "process-table", "stopped", LEADER),
        PRESSED,
        Observation(100.1, "process-table", "pending", LEADER, {"signals": ["SIGHUP", "SIGTERM"]}),
        Observation(100.2, "process-table", "input-ended", LEADER),
    ]
    assert [line.partition("s  ")[2] for line in timeline(history(*course))[:4]] == [
        "leader (pid 10) is stopped",
        "pressed (SIGTERM to the wrapper)",
        "SIGHUP and SIGTERM waits for leader (pid 10), which is stopped",
        "the input of leader (pid 10), which is stopped, has ended",
    ]


def test_the_timeline_tells_the_runs_of_a_drill_apart() -> None:
    course = [
        hello(LEADER, "leader"),
        hello(CHILD, "leader", attempt="a-2", run="bystander"),
        Observation(99.5, "lifeline", "working", LEADER),
        Observation(99.9, "lifeline", "working", CHILD),
        PRESSED,
        Observation(100.1, "lifeline", "notice", CHILD, {"by": "SIGTERM"}),
        Observation(100.3, "process-table", "died", LEADER),
        Observation(101.0, "outcome", "other-answer", "", {"run": "bystander", "outcome": "running"}),
        Observation(
            101.1,
            "process-table",
            "look",
            "",
            {"moment": "bystander", "processes": [{"subject": LEADER, "alive": False}, {"subject": CHILD, "alive": True, "state": "T"}]},
        ),
        Observation(101.2, "adapter", "other-starting", "", {"run": "next"}),
        Observation(101.3, "adapter", "other-started", "", {"run": "next", "error": "Busy"}),
        Observation(101.4, "outcome", "other-answer", "", {"run": "next", "outcome": "failed"}),
        Observation(101.5, "process-table", "wrapper-exited", "9:1", {"run": "next", "status": 1}),
    ]
    assert [line.partition("s  ")[2] for line in timeline(history(*course))] == [
        "the runner works, with all its processes",
        "pressed (SIGTERM to the wrapper)",
        "leader of the bystander (pid 11) noticed SIGTERM",
        "leader (pid 10) is gone, was killed",
        "outcome of the bystander: running",
        "the bystander is let go; alive until then: leader of the bystander (pid 11), state T",
        "the next task is started",
        "the next task could not be started: Busy",
        "outcome of the next task: failed",
        "the wrapper of the next task exited with status 1",
        "the deadline",
    ]


@pytest.mark.parametrize(
    ("header", "words"),
    [({}, "the wrapper"), ({"agent": True}, "the agent"), ({"agent": True, "live": True}, "the command that was started")],
)
def test_the_timeline_tells_what_it_was_that_was_started(header: dict[str, bool], words: str) -> None:
    ended = Observation(100.2, "process-table", "wrapper-exited", "9:1", {"run": "first", "status": 143})
    shown = timeline(History({**HEADER, **header}, (PRESSED, ended), "/x/h.jsonl"))
    assert f"   +0.200 s  {words} exited with status 143" in shown


def test_a_timeline_stays_short_and_is_empty_without_a_press() -> None:
    many = [hello(f"{pid}:1", "daemon") for pid in range(40)]
    deaths = [Observation(101.0 + pid, "process-table", "died", f"{pid}:1") for pid in range(40)]
    lines = timeline(history(*many, PRESSED, *deaths))
    assert len(lines) == MOST_LINES
    assert any("more in the history" in line for line in lines) and lines[-1].endswith("daemon (pid 39) is gone, was killed")
    assert timeline(history(hello(LEADER, "leader"))) == []


def row(**fields: Any) -> dict[str, Any]:
    measured = {"delivery_s": 0.0123, "cancel_to_gone_s": None, "late_writes": 0, "late_tokens": 31, "survivors": 2, "clock_error_s": 0.002}
    return {
        "scenario": "deaf",
        "verdict": "kept",
        "attempts": 1,
        "measured": measured,
        "checks": [],
        "not_covered": [],
        "history": "h",
        **fields,
    }


def test_a_cancel_that_reached_nobody_again_and_again_is_told_to_be_mended_first() -> None:
    lost = row(checks=[as_row("cancel-delivered", "broken")])
    words = "mend cancel-delivered first: in 3 of 4 drills the cancel did not reach the run in time, and most of the rest follows from it"
    assert words in summary([lost, lost, lost, row()])
    assert not any("first" in line for line in summary([lost, lost, row(), row()]))


def test_a_should_is_told_with_its_test_where_there_are_several() -> None:
    unwaited = {**as_row("no-zombies", "broken", "should"), "observed": "zombies"}
    first, second = row(test="t/a.py::test_one[deaf]", checks=[unwaited]), row(test="t/a.py::test_two[deaf]", checks=[unwaited])
    assert "SHOULD broken: deaf:no-zombies: zombies" in summary([first])
    assert "SHOULD broken: deaf:no-zombies of a.py::test_two[deaf]: zombies" in summary([first, second])


def as_row(clause: str, verdict: str, level: str = "must") -> dict[str, Any]:
    return {
        "clause": clause,
        "level": level,
        "verdict": verdict,
        "observed": "seen\nmore",
        "expected": "",
        "why": "",
        "try": "",
        "lacks": "",
    }


def test_the_summary_shows_what_was_measured_and_a_dash_for_what_was_not() -> None:
    assert summary([]) == []
    header, line = summary([row()])
    columns = ["scenario", "verdict", "delivered", "gone", "reported", "late writes", "late tokens", "survivors", "clock", "runs"]
    assert re.split(" {2,}", header) == columns
    assert re.split(" {2,}", line) == ["deaf", "kept", "+0.012 s", "-", "-", "0", "31", "2", "2.0 ms", "1"]


def test_the_summary_names_broken_clauses_should_lines_expectations_and_what_is_lacking_once() -> None:
    broken = row(
        verdict="broken",
        checks=[as_row("no-survivors", "broken"), as_row("no-zombies", "broken", "should"), as_row("no-late-writes", "kept")],
        expected={"no-survivors": "ticket 1"},
        not_covered=[{"clause": "spend-stops", "lacks": "a meter"}, {"clause": "requests-closed", "lacks": "a meter"}],
    )
    other = row(not_covered=[{"clause": "spend-stops", "lacks": "a meter"}])
    assert summary([broken, other])[1].startswith("deaf      broken: no-survivors, no-zombies")
    assert summary([broken, other])[3:] == [
        "SHOULD broken: deaf:no-zombies: seen",
        "expected broken: deaf:no-survivors: ticket 1",
        "not covered: spend-stops, requests-closed (lacks a meter)",
    ]


def test_a_reason_of_several_lines_is_one_line_of_the_summary() -> None:
    """What begins a line with two colons is a command to GitHub's runner."""
    broken = row(verdict="broken", checks=[as_row("no-survivors", "broken")], expected={"no-survivors": "ticket 1\n::error::boo\r\n \x85x"})
    assert summary([broken])[2:] == ["expected broken: deaf:no-survivors: ticket 1 ::error::boo\\r \\x85x"]


def test_the_tests_are_named_only_where_there_are_several() -> None:
    lines = summary([row(test="a/test_x.py::test_a"), row(test="a/test_x.py::test_b[c/d]")])
    assert [line.split()[0] for line in lines] == ["test", "test_x.py::test_a", "test_x.py::test_b[c/d]"]


def test_the_report_is_null_where_nothing_was_measured_and_names_a_drills_own_terms_only_where_they_differ(tmp_path: Path) -> None:
    terms = settle_terms({}).as_dict()
    rows = [
        row(wrapper="w", terms=terms, machine={"cpus": 2}, checks=[as_row("no-survivors", "kept")]),
        row(
            wrapper="w",
            terms=HEADER["terms"],
            not_covered=[{"scenario": "deaf", "clause": "spend-stops", "lacks": "a meter", "observed": ""}],
        ),
    ]
    json_report.write(tmp_path / "new" / "report.json", rows, terms=terms)
    read = json.loads((tmp_path / "new" / "report.json").read_text())
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.json"]
    assert read["wrapper"] == "w" and read["machine"] == {"cpus": 2}
    assert read["not_covered"] == [{"scenario": "deaf", "clause": "spend-stops", "lacks": "a meter"}]
    first, second = read["drills"]
    assert tuple(first["measured"]) == json_report.MEASURED
    assert first["measured"]["early_s"] is None and first["measured"]["late_writes"] == 0
    assert list(first["checks"][0]) == ["clause", "level", "verdict", "observed", "expected", "why", "try"]
    assert "terms" not in first and second["terms"]["grace"]["value"] == 2


def test_a_report_without_drills_is_whole() -> None:
    empty = json_report.document([], terms={})
    assert empty["wrapper"] is None and empty["drills"] == [] and empty["not_covered"] == []


@pytest.mark.parametrize(
    ("given", "settings", "fault"),
    [
        pytest.param(check(Verdict.KEPT), {}, None, id="kept"),
        pytest.param(check(Verdict.BROKEN), {}, Fault.BROKEN, id="a broken MUST"),
        pytest.param(check(Verdict.BROKEN, level=Level.SHOULD), {}, None, id="a broken SHOULD is a line in the summary"),
        pytest.param(check(Verdict.BROKEN, level=Level.SHOULD), {"level": Level.SHOULD}, Fault.BROKEN, id="unless the level is should"),
        pytest.param(check(Verdict.INCONCLUSIVE), {}, Fault.INCONCLUSIVE, id="inconclusive is no pass"),
        pytest.param(check(Verdict.BROKEN), {"expected": {"deaf-child:no-survivors": "why"}}, None, id="expected to be broken"),
        pytest.param(
            check(Verdict.KEPT), {"expected": {"deaf-child:no-survivors": "why"}}, Fault.STALE, id="expected to be broken and kept"
        ),
        pytest.param(
            check(Verdict.INCONCLUSIVE),
            {"expected": {"deaf-child:no-survivors": "why"}},
            Fault.INCONCLUSIVE,
            id="expected, and nothing can be said",
        ),
        pytest.param(check(Verdict.NOT_COVERED), {}, None, id="not covered is listed"),
        pytest.param(
            check(Verdict.NOT_COVERED), {"fails_not_covered": True}, Fault.NOT_COVERED, id="not covered fails where it is asked for"
        ),
        pytest.param(check(Verdict.NOT_APPLICABLE), {"fails_not_covered": True}, None, id="not applicable"),
    ],
)
def test_what_fails_a_test(given: Check, settings: dict[str, Any], fault: Fault | None) -> None:
    settings = {"level": Level.MUST, "fails_not_covered": False, "expected": {}, **settings}
    assert failures([given], **settings) == ([] if fault is None else [Failure(given, fault)])


def test_what_is_expected_and_was_not_judged_is_neither_stale_nor_a_fault() -> None:
    known = {"deaf-child:bystander-unharmed": "why"}
    assert failures([check(Verdict.KEPT)], level=Level.MUST, fails_not_covered=True, expected=known) == []


def test_the_gravest_fault_comes_first() -> None:
    checks = [check(Verdict.INCONCLUSIVE, "a"), check(Verdict.BROKEN, "b")]
    found = failures(checks, level=Level.MUST, fails_not_covered=False, expected={})
    assert [failure.check.clause for failure in found] == ["b", "a"]


def test_no_clause_judged_is_told_from_kept() -> None:
    assert is_nothing_judged([]) and is_nothing_judged([check(Verdict.NOT_COVERED), check(Verdict.NOT_APPLICABLE)])
    assert not is_nothing_judged([check(Verdict.NOT_COVERED), check(Verdict.KEPT)])


def test_a_drill_that_could_not_be_run_is_in_the_report_with_nothing_measured() -> None:
    not_run = {"scenario": "deaf", "verdict": "inconclusive", "error": "the wrapper was not started"}
    read = json_report.document([not_run, row(wrapper="w")], terms={})
    assert read["wrapper"] == "w"
    assert read["drills"][0]["error"] == "the wrapper was not started" and read["drills"][0]["history"] is None
    assert set(read["drills"][0]["measured"].values()) == {None}
    assert summary([not_run])[1].split() == ["deaf", "could", "not", "be", "run", *["-"] * 7, "1"]
