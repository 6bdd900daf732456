"""The baseline's file: read, refused, applied and changed, as text and rows; nothing is run."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

import pytest

from pytest_cancelcontract.finding import Check, Finding, Level, Verdict
from pytest_cancelcontract.judging import Fault as FailedBy
from pytest_cancelcontract.judging import failures
from pytest_cancelcontract.report.baseline import (
    HOLDS_FOR,
    Accepted,
    BadBaseline,
    Complaint,
    Fault,
    Kind,
    Seen,
    accepted,
    complaints,
    parse,
    updated,
)
from pytest_cancelcontract.report.names import portable

TODAY = date(2026, 11, 30)
NAME = "known.toml"
TEST = "test_x.py::test_worker"
CHILD = "deaf-child:no-survivors"

ENTRY = """\
[[broken]]
check = "deaf-child:no-survivors"
reason = "ticket 1"
expires = 2026-12-31
"""
WAIVER = """\
[[not-covered]]
check = "polite:outcome-reported"
test = "test_x.py::test_worker"
reason = "the queue keeps no record"
expires = 2026-11-30
"""


def row(scenario: str = "deaf-child", test: str = TEST, **verdicts: str) -> dict[str, Any]:
    """A drill's row, with a verdict for each clause (``no_survivors="kept"``)."""
    told: dict[str, list[dict[str, str]]] = {"checks": [], "not_covered": [], "not_applicable": []}
    for name, verdict in verdicts.items():
        part = {"not covered": "not_covered", "not applicable": "not_applicable"}.get(verdict, "checks")
        told[part].append({"clause": name.replace("_", "-"), "verdict": verdict})
    return {"scenario": scenario, "test": test, "chosen": None, **told}


def complained(text: str, *rows: dict[str, Any], seen: Seen | None = None, today: date = TODAY) -> list[str]:
    return [str(one) for one in complaints(parse(text, NAME, for_update=True), rows, seen=seen or Seen(), today=today)]


# ---------------------------------------------------------------------- reading


def test_entries_come_with_the_lines_of_their_headings() -> None:
    one, other = parse(f"# known\n\n{ENTRY}\n{WAIVER}", NAME).entries
    assert (one.fault, one.reason, one.expires, one.line) == (Fault(Kind.BROKEN, CHILD), "ticket 1", date(2026, 12, 31), 3)
    assert (other.fault, other.line) == (Fault(Kind.NOT_COVERED, "polite:outcome-reported", TEST), 8)


def test_a_heading_inside_of_a_text_is_none() -> None:
    told = ENTRY.replace('"ticket 1"', '"""\n[[broken]]\nis what they wrote"""')
    first, second = parse(told + WAIVER, NAME).entries
    assert (first.line, second.line) == (1, 7)
    assert first.reason == "[[broken]]\nis what they wrote"


def test_an_empty_file_has_no_entries() -> None:
    assert parse("", NAME).entries == ()
    assert parse("# nothing yet\n", NAME).entries == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[[broken", "known.toml is no TOML: ", id="no TOML"),
        pytest.param(ENTRY + "[other]\n", "known.toml has 'other'; a baseline has nothing but", id="another table"),
        pytest.param("broken = [{check = 'a:b'}]", "known.toml: write each entry as a table of its own", id="entries in a line"),
        pytest.param("[broken]\ncheck = 'a:b'\n", "known.toml: write each entry as a table of its own", id="a single table"),
        pytest.param(ENTRY.replace('"ticket 1"', '""'), "known.toml:1: deaf-child:no-survivors has no reason: a person", id="no reason"),
        pytest.param(ENTRY.replace('"ticket 1"', '" \\n"'), "known.toml:1: deaf-child:no-survivors has no reason", id="blank reason"),
        pytest.param(
            ENTRY.replace('reason = "ticket 1"\n', ""), "known.toml:1: deaf-child:no-survivors has no reason", id="reason left out"
        ),
        pytest.param(
            ENTRY.replace('"ticket 1"', "1"), "known.toml:1: deaf-child:no-survivors: reason must be a text, got 1", id="a number"
        ),
        pytest.param(
            ENTRY.replace("2026-12-31", '"2026-12-31"'), "expires must be a day, such as 2027-01-31 (without quotes)", id="a text"
        ),
        pytest.param(ENTRY.replace("2026-12-31", "2026-12-31T10:00:00"), "expires must be a day", id="a moment"),
        pytest.param(ENTRY.replace("expires = 2026-12-31\n", ""), "expires must be a day, such as 2027-01-31", id="no day"),
        pytest.param(
            ENTRY + "until = 1\n", "known.toml:1: 'until' is no key of an entry; the keys are check, test, reason", id="a strange key"
        ),
        pytest.param(
            ENTRY.replace(CHILD, "no-survivors"), "check must be like 'deaf-child:no-survivors', got 'no-survivors'", id="no colon"
        ),
        pytest.param(ENTRY + "test = 'test_x'\n", "test must be like 'test_x.py::test_cancel'", id="no test's name"),
        pytest.param(
            ENTRY.replace("deaf-child:", "death:"), "death:no-survivors names nothing: unknown scenario 'death'", id="no scenario"
        ),
        pytest.param(
            ENTRY.replace(":no-survivors", ":fresh-start"),
            "known.toml:1: deaf-child:fresh-start names nothing: the scenario deaf-child is judged by cancel-delivered, no-survivors, ",
            id="a clause of another scenario",
        ),
        pytest.param(ENTRY + "\n" + ENTRY, "known.toml:6: deaf-child:no-survivors has an entry already, in line 1", id="twice"),
    ],
)
def test_what_is_refused_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(BadBaseline) as refused:
        parse(text, NAME)
    assert message in str(refused.value)


def test_all_that_is_refused_is_told_at_once() -> None:
    with pytest.raises(BadBaseline) as refused:
        parse(ENTRY.replace('"ticket 1"', '""') + WAIVER.replace("expires", "until"), NAME)
    assert [line.partition(" ")[0] for line in str(refused.value).splitlines()] == ["known.toml:1:", "known.toml:5:"]


@pytest.mark.parametrize("check", ["deaf:bystander-unharmed", "deaf:heartbeat-steady", "deaf-child:heartbeat-ends"])
def test_a_clause_that_joins_where_a_drill_shows_it_may_be_named(check: str) -> None:
    assert parse(ENTRY.replace(CHILD, check), NAME).entries[0].fault.check == check


def test_heartbeats_join_no_drill_without_a_press() -> None:
    with pytest.raises(BadBaseline, match="names nothing"):
        parse(ENTRY.replace(CHILD, "wedged:heartbeat-steady"), NAME)


# ---------------------------------------------------------------------- applying


def test_an_entry_is_accepted_with_its_place_and_day() -> None:
    known = accepted(parse(ENTRY + WAIVER, NAME), TEST, TODAY)
    assert known.broken == {CHILD: "ticket 1 (known.toml:1, until 2026-12-31)"}
    assert known.not_covered == {"polite:outcome-reported": "the queue keeps no record (known.toml:5, until 2026-11-30)"}


@pytest.mark.parametrize(
    ("test", "today", "is_accepted"),
    [
        pytest.param(TEST, TODAY, True, id="its test, on its last day"),
        pytest.param(TEST, date(2026, 12, 1), False, id="expired"),
        pytest.param("test_x.py::test_other", TODAY, False, id="another test"),
    ],
)
def test_an_entry_holds_for_its_test_until_its_day(test: str, today: date, is_accepted: bool) -> None:
    assert bool(accepted(parse(WAIVER, NAME), test, today).not_covered) is is_accepted


def test_an_entry_without_a_reason_accepts_nothing() -> None:
    assert accepted(parse(ENTRY.replace("ticket 1", ""), NAME, for_update=True), TEST, TODAY) == Accepted()


@pytest.mark.parametrize(
    ("verdict", "kind", "fault"),
    [
        pytest.param(Verdict.BROKEN, "broken", None, id="broken and accepted"),
        pytest.param(Verdict.BROKEN, "not_covered", FailedBy.BROKEN, id="a waiver accepts no broken clause"),
        pytest.param(Verdict.INCONCLUSIVE, "broken", FailedBy.INCONCLUSIVE, id="inconclusive is accepted by nobody"),
        pytest.param(Verdict.KEPT, "broken", None, id="kept: the run judges that, not the test"),
        pytest.param(Verdict.NOT_COVERED, "not_covered", None, id="waived"),
        pytest.param(Verdict.NOT_COVERED, "broken", FailedBy.NOT_COVERED, id="broken is no waiver"),
    ],
)
def test_what_is_accepted_fails_no_test(verdict: Verdict, kind: str, fault: FailedBy | None) -> None:
    known = Accepted(**{kind: {CHILD: "why"}})
    check = Check("deaf-child", "no-survivors", Level.MUST, Finding(verdict, "seen", lacks="x" if verdict is Verdict.NOT_COVERED else ""))
    found = failures([check], level=Level.MUST, fails_not_covered=True, expected={}, accepted=known)
    assert [one.fault for one in found] == ([] if fault is None else [fault])


# ---------------------------------------------------------------------- what fails the run

ALL_OF_IT = Seen(frozenset({(TEST, "deaf-child"), ("test_x.py::test_other", "deaf-child")}), frozenset({"test_x.py"}))
OTHER = "test_x.py::test_other"


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        pytest.param([row(no_survivors="broken")], "", id="broken still"),
        pytest.param([row(no_survivors="kept")], "is broken no more, it is kept", id="kept"),
        pytest.param([row(no_survivors="kept"), row(no_survivors="broken")], "", id="kept in one drill and broken in another"),
        pytest.param([row(no_survivors="inconclusive")], "", id="nothing can be said"),
        pytest.param([row(no_survivors="not covered")], "is broken no more, it is not covered", id="not covered any more"),
        pytest.param([], "", id="not run"),
        pytest.param([row("deaf", no_survivors="kept")], "", id="another scenario"),
        pytest.param([row(no_zombies="kept") | {"chosen": ("no-zombies",)}], "", id="the test asked for another clause"),
        pytest.param([row(no_survivors="kept") | {"error": "no wrapper"}], "", id="could not be run"),
        pytest.param([row(no_survivors="kept") | {"asserted": True}], "", id="a drill that its test judges itself"),
    ],
)
def test_an_entry_that_no_longer_fails_is_told_by_its_line(rows: list[dict[str, Any]], complaint: str) -> None:
    assert complained(ENTRY, *rows) == ([f"known.toml:1: {CHILD} {complaint}: take the entry out"] if complaint else [])


def test_an_entry_for_every_test_waits_until_all_of_them_were_run() -> None:
    assert complained(ENTRY, row(no_survivors="kept"), seen=ALL_OF_IT) == []
    assert len(complained(ENTRY, row(no_survivors="kept"), row(test=OTHER, no_survivors="kept"), seen=ALL_OF_IT)) == 1
    assert complained(ENTRY, row(no_survivors="kept"), row(test=OTHER, no_survivors="broken"), seen=ALL_OF_IT) == []


def test_an_entry_for_one_test_is_judged_by_that_one() -> None:
    own = ENTRY + f"test = '{TEST}'\n"
    assert len(complained(own, row(no_survivors="kept"), row(test=OTHER, no_survivors="broken"), seen=ALL_OF_IT)) == 1
    assert complained(own, row(test=OTHER, no_survivors="kept"), seen=ALL_OF_IT) == []


@pytest.mark.parametrize(
    ("verdicts", "is_void"),
    [
        pytest.param({"outcome_reported": "not covered"}, False, id="not covered still"),
        pytest.param({"outcome_reported": "kept"}, True, id="kept"),
        pytest.param({"outcome_reported": "broken"}, True, id="broken is another fault"),
        pytest.param({"outcome_reported": "inconclusive"}, True, id="inconclusive is covered"),
    ],
)
def test_a_waiver_for_what_is_covered_now_is_told(verdicts: dict[str, str], is_void: bool) -> None:
    assert bool(complained(WAIVER, row("polite", **verdicts))) is is_void


def test_a_clause_that_joins_only_when_proven_and_did_not_is_broken_no_more() -> None:
    text = ENTRY.replace(":no-survivors", ":bystander-unharmed")
    assert complained(text, row(no_survivors="kept")) == [
        "known.toml:1: deaf-child:bystander-unharmed is broken no more, it is not judged: take the entry out"
    ]


def test_an_expired_entry_is_told_whether_or_not_its_drill_was_run() -> None:
    late = date(2027, 1, 1)
    for rows in ([], [row(no_survivors="broken")]):
        (told,) = complained(ENTRY, *rows, today=late)
        assert told.startswith(f"known.toml:1: {CHILD} expired on 2026-12-31: mend it, or write why")
    assert complained(ENTRY, today=date(2026, 12, 31)) == []


@pytest.mark.parametrize(
    ("seen", "is_void"),
    [
        pytest.param(Seen(frozenset({(OTHER, "deaf-child")}), frozenset({"test_x.py"})), True, id="its file has no such test"),
        pytest.param(Seen(frozenset({(TEST, "polite")}), frozenset({"test_x.py"})), False, id="the test is there, without the scenario"),
        pytest.param(Seen(frozenset({(OTHER, "deaf-child")})), False, id="only a part of the file was collected"),
        pytest.param(Seen(frozenset(), frozenset({"test_y.py"})), False, id="another file"),
    ],
)
def test_an_entry_whose_test_is_not_there_names_nothing(seen: Seen, is_void: bool) -> None:
    told = complained(ENTRY + f"test = '{TEST}'\n", seen=seen)
    assert told == ([f"known.toml:1: {CHILD} names nothing: {TEST} is no test of the cancel contract"] if is_void else [])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("test_x.py::test_it[slow]", "test_x.py::test_it[slow]"),
        ("../.venv/lib/python3.11/site-packages/pytest_cancelcontract/conformance.py::test_cancel_contract", ""),
        ("conformance.py::test_cancel_contract", ""),
        ("::test_cancel_contract", ""),
        ("tests/test_cancel.py::test_cancel_contract", "tests/test_cancel.py::test_cancel_contract"),
        ("\udcff.py::test_x", "\\udcff.py::test_x"),
        (None, ""),
    ],
)
def test_the_test_that_needs_no_code_has_no_name_of_its_own(name: str | None, shown: str) -> None:
    assert portable(name) == shown


# ---------------------------------------------------------------------- updating


def update(text: str, *found: Fault, void: tuple[int, ...] = ()) -> str:
    read = parse(text, NAME, for_update=True)
    return updated(text, read, found, [Complaint(NAME, line, "", True) for line in void], today=TODAY)


def test_a_new_file_says_what_it_is_and_has_no_reason_in_it() -> None:
    written = update("", Fault(Kind.BROKEN, CHILD, TEST))
    assert written.startswith("# Faults of the cancel contract that are known")
    assert tomllib.loads(written) == {"broken": [{"check": CHILD, "test": TEST, "reason": "", "expires": TODAY + HOLDS_FOR}]}
    with pytest.raises(BadBaseline, match=r"known\.toml:4: deaf-child:no-survivors has no reason"):
        parse(written, NAME)


def test_what_is_known_is_left_as_it_stands_to_the_letter() -> None:
    text = f"# ours\r\n\r\n{ENTRY}".replace("\r\n", "\n") + "# behind it\n"
    assert update(text) == text
    assert update(text, Fault(Kind.BROKEN, CHILD, TEST)) == text, "an entry for every test covers this one"
    written = update(text, Fault(Kind.BROKEN, "deaf:grace-bounded"))
    assert written.startswith(text) and written.endswith('check = "deaf:grace-bounded"\nreason = ""\nexpires = 2026-12-30\n')


def test_an_entry_for_another_test_covers_nothing_here() -> None:
    text = ENTRY + f"test = '{OTHER}'\n"
    assert [entry.fault.test for entry in parse(update(text, Fault(Kind.BROKEN, CHILD, TEST)), NAME, for_update=True).entries] == [
        OTHER,
        TEST,
    ]


def test_a_waiver_covers_no_broken_clause() -> None:
    written = update(WAIVER, Fault(Kind.BROKEN, "polite:outcome-reported", TEST))
    assert [entry.fault.kind for entry in parse(written, NAME, for_update=True).entries] == [Kind.NOT_COVERED, Kind.BROKEN]


def test_a_void_entry_goes_with_the_comment_right_above_it_and_nothing_else() -> None:
    text = f"# of the file\n\n# about the first\n{ENTRY}\n# of the waivers\n\n# about the second\n{WAIVER}# behind\n"
    assert update(text, void=(4,)) == f"# of the file\n\n# of the waivers\n\n# about the second\n{WAIVER}# behind\n"
    assert update(text, void=(12,)) == f"# of the file\n\n# about the first\n{ENTRY}\n# of the waivers\n\n# behind\n"


def test_new_entries_stand_in_the_order_of_the_contract() -> None:
    found = [
        Fault(Kind.BROKEN, check, test)
        for test in (TEST, OTHER)
        for check in ("deaf:no-survivors", "polite:no-zombies", "deaf:grace-bounded")
    ]
    entries = parse(update("", *found), NAME, for_update=True).entries
    assert [entry.fault.check for entry in entries] == ["polite:no-zombies", "deaf:grace-bounded", "deaf:no-survivors"] * 2
    assert [entry.fault.test for entry in entries] == [OTHER] * 3 + [TEST] * 3


def test_lines_end_as_they_do_in_the_file() -> None:
    written = update(ENTRY.replace("\n", "\r\n"), Fault(Kind.BROKEN, "deaf:grace-bounded"))
    assert written.count("\n") == written.count("\r\n")


@pytest.mark.parametrize("test", ['t.py::test_x["a"]', "t.py::test_x[a\\b]", "t.py::test_x[é\x7f\x01]", "t.py::test_x['''\"\"\"]"])
def test_any_name_of_a_test_is_read_back(test: str) -> None:
    (entry,) = parse(update("", Fault(Kind.BROKEN, CHILD, portable(test))), NAME, for_update=True).entries
    assert entry.fault.test == portable(test)


def test_a_file_that_cannot_be_changed_line_by_line_is_left_alone() -> None:
    """The line above the second heading looks like its comment, and ends the first one's reason."""
    text = ENTRY.replace('reason = "ticket 1"\n', "") + 'reason = """\n# ticket 1"""\n' + WAIVER
    with pytest.raises(BadBaseline, match=r"known\.toml cannot be changed line by line; end each text"):
        update(text, void=(6,))
    assert "ticket 1" in update(text, Fault(Kind.BROKEN, "deaf:grace-bounded"))
