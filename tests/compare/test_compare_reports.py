"""Two reports side by side: verdicts, medians, the clock's error, limits; from hand-made data, nothing is run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_cancelcontract.report import json_report
from pytest_cancelcontract.report.compare import MEASURES, BadLimit, BadReport, Comparison, compare, lines, read_limit, read_report
from pytest_cancelcontract.report.text import remarks

TEST = "test_x.py::test_worker"


def drill(
    scenario: str = "deaf", *, test: str | None = TEST, verdict: str = "kept", clock: float | None = 0.002, **figures: Any
) -> dict[str, Any]:
    """A drill's entry in a report; ``checks`` maps clauses to verdicts."""
    checks = figures.pop("checks", {"no-survivors": verdict})
    measured = dict.fromkeys(json_report.MEASURED) | {"clock_error_s": clock} | figures
    return {
        "test": test,
        "scenario": scenario,
        "verdict": verdict,
        "measured": measured,
        "checks": [_check(*one) for one in checks.items()],
    }


def _check(clause: str, verdict: str) -> dict[str, str]:
    return {"clause": clause, "level": "must", "verdict": verdict}


def report(*drills: dict[str, Any], grace: float = 5.0, wrapper: str = "wrap", **machine: Any) -> dict[str, Any]:
    terms = {"grace": {"value": grace, "origin": "x"}}
    return {
        **json_report.document([], terms=terms),
        "wrapper": wrapper,
        "machine": machine or {"cpus": 2},
        "drills": list(drills),
    }


def compared(old: Any, new: Any, *limits: str) -> Comparison:
    sides = [one if isinstance(one, list) else [one] for one in (old, new)]
    return compare(sides[0], sides[1], [read_limit(text, "--limit") for text in limits])


def gone(*values: float | None, clock: float | None = 0.002) -> dict[str, Any]:
    return report(*(drill(cancel_to_gone_s=value, clock=clock) for value in values))


# ---------------------------------------------------------------------- what is shown


def test_every_figure_that_a_report_holds_is_compared_but_the_clocks_error() -> None:
    assert {one.key for one in MEASURES} == set(json_report.MEASURED) - {"clock_error_s"}


def test_the_same_report_has_not_changed() -> None:
    one = gone(2.0)
    assert lines(compared(one, one), since="old.json") == [
        "compared with old.json",
        "  no verdict of a drill has changed, of 1 that are in both",
        "  1 times are the same within 0.05 s or the clock's error (2.0 ms at worst)",
    ]


def test_verdicts_and_checks_that_changed_are_shown() -> None:
    old = report(drill("deaf", verdict="kept", checks={"no-survivors": "kept", "no-zombies": "kept"}))
    new = report(drill("deaf", verdict="broken", checks={"no-survivors": "broken", "no-late-writes": "kept", "no-zombies": "kept"}))
    assert [(one.what, one.before, one.now) for one in compared(old, new).changes] == [
        ("verdict", "kept", "broken"),
        ("no-survivors", "kept", "broken"),
        ("no-late-writes", "not judged", "kept"),
    ]
    assert compared(old, new).failures == ()


def test_a_time_is_shown_with_the_clocks_error_of_both() -> None:
    (line,) = [line for line in lines(compared(gone(2.0, clock=0.0021), gone(2.5, clock=0.0304)), since="x") if "gone" in line]
    assert line.split("  ") == ["", "deaf", "gone", "2.000 s (clock 2.1 ms) -> 2.500 s (clock 30.4 ms)", "+0.500 s, +25%"]


@pytest.mark.parametrize(
    ("old", "new", "is_shown"),
    [
        pytest.param(gone(2.0), gone(2.049), False, id="within what looks are apart"),
        pytest.param(gone(2.0), gone(2.051), True, id="beyond it"),
        pytest.param(gone(2.0), gone(2.1, clock=0.11), False, id="within the clock's error now"),
        pytest.param(gone(2.0, clock=0.11), gone(1.9), False, id="within the clock's error before"),
        pytest.param(gone(2.0), gone(1.5), True, id="faster"),
        pytest.param(gone(2.0), gone(None), True, id="not measured any more"),
        pytest.param(gone(None), gone(2.0), True, id="measured for the first time"),
        pytest.param(gone(None), gone(None), False, id="never measured"),
    ],
)
def test_what_the_clock_cannot_tell_apart_is_the_same(old: Any, new: Any, is_shown: bool) -> None:
    assert [one.what for one in compared(old, new).changes] == (["gone"] if is_shown else [])


def test_several_runs_count_by_their_median() -> None:
    (change,) = compared(gone(2.0, 9.0, 2.1), [gone(3.0, 3.2), gone(0.1)]).changes
    assert change.before == "2.100 s (median of 3, 2 to 9; clock 2.0 ms)"
    assert change.now == "3.000 s (median of 3, 0.1 to 3.2; clock 2.0 ms)"
    assert compared(gone(2.0, 9.0, 2.1), gone(2.11)).changes == ()


def test_the_worst_verdict_of_several_runs_is_theirs() -> None:
    old = report(drill(), drill())
    assert [one.now for one in compared(old, report(drill(), drill(verdict="broken"))).changes] == ["broken", "broken"]
    assert [one.now for one in compared(old, report(drill(verdict="inconclusive"), drill())).changes] == ["inconclusive", "inconclusive"]


def test_counts_are_the_same_only_where_they_are() -> None:
    old, new = report(drill(survivors=0, late_writes=2)), report(drill(survivors=1, late_writes=2))
    assert [(one.what, one.before, one.now, one.growth) for one in compared(old, new).changes] == [("survivors", "0", "1", "+1")]


def test_drills_of_several_tests_are_told_apart() -> None:
    old = report(drill(cancel_to_gone_s=1.0), drill(test="test_x.py::test_other", cancel_to_gone_s=3.0))
    new = report(drill(test="test_x.py::test_other", cancel_to_gone_s=4.0), drill(cancel_to_gone_s=1.0))
    (change,) = compared(old, new).changes
    assert (change.test, change.before.split()[0], change.now.split()[0]) == ("test_x.py::test_other", "3.000", "4.000")


def test_a_single_test_may_have_another_name_in_each_report() -> None:
    old = report(drill(test="a/site-packages/pytest_cancelcontract/conformance.py::test_cancel_contract", cancel_to_gone_s=1.0))
    for name in (None, "test_y.py::test_renamed"):
        assert [one.what for one in compared(old, report(drill(test=name, cancel_to_gone_s=2.0))).changes] == ["gone"]


@pytest.mark.parametrize("is_more", [True, False], ids=["a second test came", "one of two was chosen"])
def test_a_test_that_is_in_both_is_compared_though_only_one_side_has_others(is_more: bool) -> None:
    """Whether names count is no matter of each side: what one drops and the other keeps would be found on neither."""
    other = drill(test="test_x.py::test_other", cancel_to_gone_s=9.0)
    one, both = report(drill(cancel_to_gone_s=1.0)), report(other, drill(cancel_to_gone_s=1.5))
    old, new = (one, both) if is_more else (both, one)
    found = compared(old, new, "gone:10s", "verdict")
    assert (found.drills, found.failures) == (1, ())
    assert [(change.test, change.what) for change in found.changes] == [(TEST, "gone")]
    assert found.notes == (f"only {'now' if is_more else 'before'}: test_x.py::test_other deaf",)
    assert [failure.partition(" gone: ")[0] for failure in compared(old, new, "gone:0.1s").failures] == (
        [f"{TEST} deaf"] if is_more else []
    )


def test_what_else_differs_is_told_before_the_times() -> None:
    old = report(drill("deaf"), drill("polite"), grace=5.0, cpus=2, kernel="6.1")
    new = report(drill("deaf"), drill("daemon"), grace=2.0, wrapper="other", cpus=8, kernel="6.1")
    assert list(compared(old, new).notes) == [
        "the wrapper differs: wrap -> other",
        "the terms differ: grace 5.0 -> 2.0",
        "the machine differs: cpus 2 -> 8",
        "only before: polite",
        "only now: daemon",
    ]


def test_terms_that_differ_in_some_drills_only_are_told_with_them() -> None:
    own = drill("polite") | {"terms": {"grace": {"value": 1.0, "origin": "marker"}}}
    old, new = report(drill("deaf"), drill("polite")), report(drill("deaf"), own)
    assert list(compared(old, new).notes) == ["the terms of polite differ: grace 5.0 -> 1.0"]
    assert list(compared([old, new], new).notes) == ["the terms of polite differ: {'grace': 5.0} and {'grace': 1.0} -> {'grace': 1.0}"]


def test_a_terms_origin_is_no_difference() -> None:
    old = report(drill())
    assert compared(old, old | {"terms": {"grace": {"value": 5.0, "origin": "elsewhere"}}}).notes == ()


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("old", "new", "limit", "ruling"),
    [
        pytest.param(gone(2.0), gone(2.6), "gone:20%+0.2s", "", id="exactly at the limit"),
        pytest.param(gone(2.0), gone(2.61), "gone:20%+0.2s", "exceeds", id="beyond it"),
        pytest.param(gone(2.0), gone(2.61, clock=0.02), "gone:20%+0.2s", "cannot be told", id="beyond it by less than the clock's error"),
        pytest.param(gone(2.0), gone(2.61, clock=None), "gone:20%+0.2s", "exceeds", id="without a clock's error"),
        pytest.param(gone(2.0), gone(2.41), "gone:20%", "exceeds", id="a share alone"),
        pytest.param(gone(2.0), gone(2.39), "gone:20%", "", id="within the share"),
        pytest.param(gone(2.0), gone(2.21), "gone:200ms", "exceeds", id="milliseconds"),
        pytest.param(gone(2.0), gone(2.01), "gone:0.005s", "exceeds", id="a limit below what is called the same"),
        pytest.param(gone(2.0), gone(1.0), "gone:0s", "", id="faster"),
        pytest.param(gone(2.0), gone(None), "gone:20%", "cannot be told", id="not measured any more"),
        pytest.param(gone(2.0), gone(3.0), "reported:0s", "", id="a limit on another figure"),
        pytest.param(gone(2.0, 2.0, 9.0), gone(2.1, 2.1, 9.9), "gone:0.2s", "", id="medians are within it"),
        pytest.param(report(drill(early_s=-0.3)), report(drill(early_s=-0.1)), "early:10%", "exceeds", id="a share of what is below 0"),
        pytest.param(gone(0.04), gone(-0.25), "gone:20%+0.2s", "", id="from near 0 to below it"),
        pytest.param(gone(-0.25), gone(-0.01), "gone:20%+0.2s", "", id="from below 0, within a share and an amount"),
        pytest.param(gone(-0.25), gone(0.02), "gone:20%+0.2s", "exceeds", id="from below 0, beyond a share and an amount"),
        pytest.param(gone(0.0), gone(0.21), "gone:20%+0.2s", "exceeds", id="from 0, of which a share is nothing"),
        pytest.param(report(drill(late_writes=0)), report(drill(late_writes=1)), "late-writes:0", "exceeds", id="a count"),
        pytest.param(
            report(drill(late_writes=9, clock=5.0)),
            report(drill(late_writes=12, clock=5.0)),
            "late-writes:20%+1",
            "exceeds",
            id="a clock is nothing to a count",
        ),
        pytest.param(report(drill(late_writes=10)), report(drill(late_writes=13)), "late-writes:20%+1", "", id="a count within it"),
    ],
)
def test_a_limit_fails_what_has_grown_by_more(old: Any, new: Any, limit: str, ruling: str) -> None:
    failures = [one for one in compared(old, new, limit).failures if "compared nothing" not in one]
    assert len(failures) == (1 if ruling else 0)
    if ruling:
        assert ("which exceeds" if ruling == "exceeds" else "is not known") in failures[0] and limit in failures[0]


def test_a_failure_says_what_was_what_is_and_why() -> None:
    assert compared(gone(2.0), gone(2.61), "gone:20%+0.2s").failures == (
        "deaf gone: 2.000 s (clock 2.0 ms) before, 2.610 s (clock 2.0 ms) now (+0.610 s, +30%), which exceeds gone:20%+0.2s",
    )
    (late,) = compared(gone(2.0), gone(2.61, clock=0.5), "gone:20%+0.2s").failures
    assert late.endswith("whether gone:20%+0.2s holds is not known: the machine was too late to tell; run it again")
    (unmeasured,) = compared(gone(2.0), gone(None), "gone:20%+0.2s").failures
    assert unmeasured.endswith("is not known: it is not measured any more")


def test_of_several_limits_on_a_figure_the_one_that_fails_is_told() -> None:
    assert [one.rpartition(" ")[2] for one in compared(gone(2.0), gone(2.5), "gone:9s", "gone:0.1s").failures] == ["gone:0.1s"]


@pytest.mark.parametrize(
    ("before", "now", "fails"),
    [
        ("kept", "broken", True),
        ("kept", "inconclusive", True),
        ("inconclusive", "broken", True),
        ("kept", "not covered", True),
        ("broken", "kept", False),
        ("broken", "inconclusive", False),
        ("kept", "kept", False),
    ],
)
def test_the_limit_on_verdicts_fails_what_got_worse(before: str, now: str, fails: bool) -> None:
    old, new = report(drill(verdict=before, checks={})), report(drill(verdict=now, checks={}))
    assert bool(compared(old, new, "verdict").failures) is fails
    assert compared(old, new).failures == ()


def test_a_check_that_got_worse_fails_too_and_one_that_is_judged_no_more() -> None:
    old, new = report(drill(checks={"a": "kept", "b": "kept"})), report(drill(checks={"a": "broken"}))
    assert len(compared(old, new, "verdict").failures) == 2


@pytest.mark.parametrize("limit", ["gone:20%", "verdict"])
def test_a_limit_that_compared_nothing_fails(limit: str) -> None:
    """Nothing seen is no proof that nothing has grown."""
    other = report(drill("polite", cancel_to_gone_s=1.0))
    assert compared(gone(2.0), other, limit).failures == (
        f"the limit {limit} compared nothing: no drill that is in both was measured in it",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gone",
        "gone:",
        "gone:fast",
        "gone:20",
        "gone:-1s",
        "gone:20%+",
        "left:20%",
        "survivors:1s",
        "gone:inf",
        "verdict:1",
        "gone:1e3s",
    ],
)
def test_a_limit_that_means_nothing_is_refused_with_its_origin(text: str) -> None:
    with pytest.raises(BadLimit) as refused:
        read_limit(text, "--cancel-compare-limit")
    assert repr(text) in str(refused.value) and "from --cancel-compare-limit" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "old.json is no JSON: "),
        ("[]", "old.json is no report of the cancel contract"),
        ('{"format": "cancel-contract-history"}', "old.json is no report of the cancel contract"),
        (json.dumps(gone(1.0) | {"format_version": 2}), "old.json has format version 2; this version reads 1"),
    ],
)
def test_what_is_no_report_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadReport) as refused:
        read_report(text, "old.json")
    assert str(refused.value).startswith(message)


def changed(**fields: Any) -> str:
    """A report with one drill, in which these fields are others; ``...`` takes one out."""
    entry = drill(cancel_to_gone_s=1.0) | fields
    return json.dumps(report({key: value for key, value in entry.items() if value is not ...}))


MEASURED = drill()["measured"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(json.dumps(gone(1.0) | {"drills": [1]}), "is malformed: drill 1 is no object but 1", id="a drill that is none"),
        pytest.param(json.dumps(gone(1.0) | {"drills": [drill(), None]}), "is malformed: drill 2 is no object", id="the second"),
        pytest.param(changed(measured=None), "is malformed: drill 1 has no object for what was measured but null", id="measured null"),
        pytest.param(changed(measured=[1]), "is malformed: drill 1 has no object for what was measured but [1]", id="measured a list"),
        pytest.param(changed(measured=...), "is malformed: drill 1 has no object for what was measured", id="measured nothing"),
        pytest.param(changed(measured=MEASURED | {"early_s": "1"}), 'is malformed: drill 1 has "1" for early_s', id="a figure in words"),
        pytest.param(
            changed(measured=MEASURED | {"clock_error_s": True}), "is malformed: drill 1 has true for clock_", id="a clock of bool"
        ),
        pytest.param(changed(measured=MEASURED | {"survivors": 10**400}), "is malformed: drill 1 has 1000", id="a figure beyond floats"),
        pytest.param(changed(early_s=0).replace('"early_s": null', '"early_s": 1e999'), "is malformed: drill 1 has ", id="an overflow"),
        pytest.param(changed(measured=MEASURED | {"early_s": float("nan")}), "is no JSON: NaN is no number", id="NaN"),
        pytest.param(changed(measured=MEASURED | {"early_s": -float("inf")}), "is no JSON: -Infinity is no number", id="infinity"),
        pytest.param(changed(scenario=...), "is malformed: drill 1 has no scenario", id="no scenario"),
        pytest.param(changed(scenario=1), "is malformed: drill 1 has the scenario 1, which is no text", id="a scenario of a number"),
        pytest.param(changed(verdict=...), "is malformed: drill 1 has no verdict", id="no verdict"),
        pytest.param(changed(test=[]), "is malformed: drill 1 has the test [], ", id="a test of a list"),
        pytest.param(changed(checks=None), "is malformed: drill 1 has no list of checks but null", id="checks null"),
        pytest.param(changed(checks=...), "is malformed: drill 1 has no list of checks", id="no checks"),
        pytest.param(changed(checks={"a": "kept"}), 'is malformed: drill 1 has no list of checks but {"a": "kept"}', id="checks an object"),
        pytest.param(changed(checks=[None]), "is malformed: drill 1 has a check without a clause and a verdict: null", id="a check null"),
        pytest.param(changed(checks=[{"clause": "a"}]), "is malformed: drill 1 has a check without a clause and ", id="a check's verdict"),
        pytest.param(
            changed(verdict="kepr"),
            'is malformed: drill 1 has the verdict "kepr", which is none of kept, broken, inconclusive, not covered, not applicable',
            id="an unknown verdict",
        ),
        pytest.param(
            changed(checks=[_check("no-survivors", "Broken")]),
            'is malformed: drill 1 has the verdict "Broken" for "no-survivors", which is none of kept, ',
            id="an unknown verdict of a check",
        ),
        pytest.param(
            changed(checks=[_check("no-survivor", "kept")]),
            'is malformed: drill 1 has the clause "no-survivor", which is none of cancel-delivered, ',
            id="an unknown clause",
        ),
        pytest.param(changed(terms={"grace": 5}), "is malformed: drill 1 has terms that are no objects by name", id="a drill's terms"),
        pytest.param(json.dumps(gone(1.0) | {"terms": [5]}), "is malformed: its terms are no objects by name", id="the run's terms"),
        pytest.param("[" * 200_000, "is no report of the cancel contract: it is nested too deeply", id="a nest"),
    ],
)
def test_a_report_with_a_malformed_drill_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadReport) as refused:
        read_report(text, "old.json")
    assert str(refused.value).startswith(f"old.json {message}")


@pytest.mark.parametrize("more", [{"later": 1}, {"test": None}, {"terms": None}, {"machine": None}, {"measured": {}}, {"checks": []}])
def test_a_report_is_not_refused_for_what_it_has_beside_or_did_not_measure(more: dict[str, Any]) -> None:
    read = read_report(changed(**more), "old.json")
    assert compared(read, read).drills == 1


def test_a_report_is_read_back() -> None:
    assert read_report(json_report.text_of(gone(1.0)).decode(), "x") == gone(1.0)


@pytest.mark.parametrize(
    ("before", "now", "growth"),
    [
        pytest.param(0.04, -0.25, "-0.290 s", id="from near 0"),
        pytest.param(-0.3, -0.1, "+0.200 s", id="below 0"),
        pytest.param(0.4, -0.25, "-0.650 s", id="to below 0"),
        pytest.param(0.0, 0.4, "+0.400 s", id="from 0"),
        pytest.param(2.0, 1.0, "-1.000 s, -50%", id="a share that means something"),
        pytest.param(2.0, 2.5, "+0.500 s, +25%", id="a growth"),
    ],
)
def test_a_share_is_told_only_where_it_means_something(before: float, now: float, growth: str) -> None:
    (change,) = compared(report(drill(early_s=before)), report(drill(early_s=now))).changes
    assert change.growth == growth


def test_what_a_wrapper_says_of_itself_takes_no_second_line() -> None:
    found = compared(report(drill(), wrapper="sh -c 'a\nb'"), report(drill("deaf"), drill("daemon\n!"), wrapper="sh -c 'a\tb'"))
    assert lines(found, since="old\n.json")[:3] == [
        "compared with old\\n.json",
        "  the wrapper differs: sh -c 'a\\nb' -> sh -c 'a\\tb'",
        "  only now: daemon\\n!",
    ]
    (failure,) = compared(report(drill("a\nb", cancel_to_gone_s=1.0)), report(drill("a\nb", cancel_to_gone_s=9.0)), "gone:1s").failures
    assert failure.startswith("a\\nb gone: 1.000 s")
    row = {"scenario": "deaf", "verdict": "kept", "not_covered": [{"clause": "spend-stops", "lacks": "a meter of\n'sh\nx'"}]}
    assert remarks([row]) == ["not covered: spend-stops (lacks a meter of\\n'sh\\nx')"]
