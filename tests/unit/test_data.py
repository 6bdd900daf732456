"""The data modules: terms, findings, histories, scenarios, identities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_cancelcontract.finding import Check, Finding, Level, Verdict, worst
from pytest_cancelcontract.history import BadHistory, History, Observation, header_line, load
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.scenarios import AFTER_PRESS, SCENARIOS, Act, UnknownScenario, by_id, select
from pytest_cancelcontract.terms import TERM_NAMES, BadTerm, Terms, settle_terms

# --- Terms ------------------------------------------------------------------------------------------------------------


def test_nothing_given_is_all_defaults() -> None:
    terms = settle_terms({})
    assert (terms.delivery_s, terms.grace_s, terms.cleanup_s, terms.kill_within_s, terms.early_s) == (5.0, 5.0, 1.0, 2.0, 0.0)
    assert {terms.origin(name) for name in TERM_NAMES} == {"default"}
    assert terms.deadline_after_press_s == 12.0
    assert (terms.stall_after_s, terms.lease_s, terms.heartbeat_timeout_s) == (None, None, None)
    assert terms == Terms(origins=terms.origins)


@pytest.mark.parametrize(("grace", "cleanup"), [(5, 1.0), (1, 0.5), (0, 0.0), (2.5, 1.0)])
def test_cleanup_is_a_second_or_half_of_the_grace(grace: float, cleanup: float) -> None:
    assert settle_terms({"grace": (grace, "marker")}).cleanup_s == cleanup


def test_a_cleanup_of_exactly_four_fifths_of_the_grace_is_allowed() -> None:
    assert settle_terms({"grace": (5, "marker"), "cleanup": (4, "marker")}).cleanup_s == 4.0


def test_a_cleanup_that_could_not_be_told_from_a_cut_one_is_refused() -> None:
    with pytest.raises(
        BadTerm, match=r"cleanup must be at most 0\.8 of grace \(1\.6 s; grace is 2 from ini\), got 1\.7 from --cancel-cleanup"
    ):
        settle_terms({"grace": (2, "ini"), "cleanup": (1.7, "--cancel-cleanup")})


@pytest.mark.parametrize("raw", [float("inf"), float("nan"), -1, "-0.5", "soon", "", True, [], 10**400, b"5"])
def test_what_is_no_finite_number_of_seconds_is_refused_by_name_and_origin(raw: object) -> None:
    with pytest.raises(BadTerm, match=r"^grace must be a finite number of seconds not below 0, got .* from --cancel-grace$"):
        settle_terms({"grace": (raw, "--cancel-grace")})


def test_a_limit_of_nothing_is_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(BadTerm, match="kill_within must be a finite number of seconds above 0, got 0 from ini"):
        settle_terms({"kill_within": (0, "ini")})
    assert settle_terms({"delivery": (0, "ini")}).delivery_s == 0.0


def test_an_unknown_term_lists_the_known_ones() -> None:
    with pytest.raises(BadTerm, match=r"unknown term 'gracee' from marker; the terms are delivery, grace"):
        settle_terms({"gracee": (1, "marker")})


def test_text_is_read_as_a_number_and_none_is_not_given() -> None:
    terms = settle_terms({"grace": ("2.5", "ini"), "delivery": (None, "marker"), "lease": (7, "marker")})
    assert (terms.grace_s, terms.delivery_s, terms.lease_s) == (2.5, 5.0, 7.0)
    assert (terms.origin("grace"), terms.origin("delivery"), terms.origin("lease")) == ("ini", "default", "marker")


def test_terms_survive_a_journey_as_json() -> None:
    terms = settle_terms({"grace": (2, "ini"), "early": ("0.1", "marker")})
    assert Terms.from_dict(json.loads(json.dumps(terms.as_dict()))) == terms


# --- Findings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], Verdict.INCONCLUSIVE),
        ([Verdict.KEPT], Verdict.KEPT),
        ([Verdict.KEPT, Verdict.INCONCLUSIVE], Verdict.INCONCLUSIVE),
        ([Verdict.INCONCLUSIVE, Verdict.BROKEN, Verdict.KEPT], Verdict.BROKEN),
        ([Verdict.KEPT, Verdict.NOT_COVERED, Verdict.NOT_APPLICABLE], Verdict.KEPT),
        ([Verdict.NOT_COVERED], Verdict.INCONCLUSIVE),
    ],
)
def test_the_worst_verdict_wins_and_none_is_inconclusive(verdicts: list[Verdict], expected: Verdict) -> None:
    assert worst(verdicts) is expected


def test_a_check_has_an_address_and_its_findings_verdict() -> None:
    check = Check("deaf", "no-survivors", Level.MUST, Finding(Verdict.BROKEN, "one lives"))
    assert (check.id, check.verdict) == ("deaf:no-survivors", Verdict.BROKEN)


# --- Histories --------------------------------------------------------------------------------------------------------

SEEN = (
    Observation(1.5, "lifeline", "hello", "4711:8812734", {"role": "leader"}),
    Observation(2.25, "clock", "lateness", data={"since_s": 2.0, "worst_s": 0.001}),
    Observation(3.0, "lifeline", "closed", "4711:8812734"),
)


def _write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_history_comes_back_as_it_was_saved_and_in_order_of_time(tmp_path: Path) -> None:
    path = _write(tmp_path / "h.jsonl", header_line({"scenario": "deaf"}), *(one.as_json() for one in reversed(SEEN)))
    read = load(path)
    assert (read.observations, read.header["scenario"], read.path) == (SEEN, "deaf", str(path))


def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = _write(tmp_path / "h.jsonl", header_line({}), SEEN[0].as_json(), SEEN[1].as_json()[:20])
    assert load(path).observations == SEEN[:1]


@pytest.mark.parametrize("line", ["", "[]", "7", "null", "{}", '{"at_s": "x", "witness": "w", "kind": "k"}', '{"at_s": 1}', "\ufffd"])
def test_a_line_that_is_no_observation_is_left_out(line: str, tmp_path: Path) -> None:
    assert load(_write(tmp_path / "h.jsonl", header_line({}), line, SEEN[0].as_json())).observations == SEEN[:1]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("", "is not a drill's history"),
        ("{", "is not a drill's history"),
        ("[]", "is not a drill's history"),
        ('{"format": "x"}', "is not a drill's history"),
        ('{"format": "cancel-contract-history", "format_version": 2}', "has format version 2; this version reads 1"),
    ],
)
def test_another_file_is_refused(first: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match=words):
        load(_write(tmp_path / "h.jsonl", first))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHistory):
        load(_write(tmp_path / "h.jsonl"))


def test_observations_are_found_by_witness_and_kind() -> None:
    history = History({}, SEEN)
    assert list(history.of("lifeline")) == [SEEN[0], SEEN[2]]
    assert history.first("lifeline", "closed", "hello") is SEEN[0]
    assert history.last("lifeline") is SEEN[2]
    assert history.first("meter") is None
    assert history.last("meter") is None


def test_text_that_json_would_break_lines_at_stays_on_one(tmp_path: Path) -> None:
    odd = Observation(1.0, "drill", "problem", data={"what": "a\u2028b\x85c\nd\x1be"})
    assert load(_write(tmp_path / "h.jsonl", header_line({}), odd.as_json())).observations == (odd,)


# --- Scenarios --------------------------------------------------------------------------------------------------------


def test_scenarios_are_found_by_id_and_none_is_there_twice() -> None:
    assert len({row.id for row in SCENARIOS}) == len(SCENARIOS)
    assert by_id("second-run").act is Act.CANCEL_THEN_RESTART
    with pytest.raises(UnknownScenario, match=r"unknown scenario 'death'; the scenarios are polite, "):
        by_id("death")


def test_every_scenario_with_one_press_is_judged_by_what_follows_a_press() -> None:
    for row in SCENARIOS:
        assert row.habits and row.clauses and row.what
        assert row.act is not Act.CANCEL or set(AFTER_PRESS) <= set(row.clauses)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        pytest.param("all", [row.id for row in SCENARIOS], id="all"),
        pytest.param("core", [row.id for row in SCENARIOS if row.is_core], id="core"),
        pytest.param([], [row.id for row in SCENARIOS if row.is_core], id="nothing is core"),
        pytest.param(("deaf", "polite"), ["polite", "deaf"], id="in the table's order"),
        pytest.param("!deaf", [row.id for row in SCENARIOS if row.is_core and row.id != "deaf"], id="core without one"),
        pytest.param(["all", "!deaf"], [row.id for row in SCENARIOS if row.id != "deaf"], id="all without one"),
        pytest.param(["core", "exits-zero"], [row.id for row in SCENARIOS if row.is_core or row.id == "exits-zero"], id="core and one"),
        pytest.param(["deaf", "!deaf"], [], id="nothing left"),
    ],
)
def test_selecting_scenarios(wanted: str | list[str], ids: list[str]) -> None:
    assert [row.id for row in select(wanted)] == ids


@pytest.mark.parametrize("word", ["death", "!death", "CORE", ""])
def test_a_selection_that_means_nothing_is_refused(word: str) -> None:
    with pytest.raises(UnknownScenario):
        select(word)


# --- Identities -------------------------------------------------------------------------------------------------------


def test_an_identity_is_read_back_from_its_text() -> None:
    one = Identity(4711, 8812734)
    assert str(one) == "4711:8812734"
    assert Identity.parse(str(one)) == one
    assert Identity(4711, 1) != Identity(4711, 2)


@pytest.mark.parametrize("text", ["", "4711", "4711:", ":5", "a:b", "1:2:3"])
def test_text_that_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Identity.parse(text)
