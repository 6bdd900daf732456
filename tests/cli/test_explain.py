"""``cancelcontract explain``: there is a word for everything, and no word for nothing."""

from __future__ import annotations

import pytest

from pytest_cancelcontract import cli, contract, explanations, scenarios


def explained(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["explain", name]) == 0
    return capsys.readouterr().out


def test_there_is_a_row_for_every_clause_and_for_no_other_in_the_contracts_order() -> None:
    assert list(explanations.CLAUSES) == [row.id for row in contract.CLAUSES]


def test_there_is_a_row_for_every_scenario_and_for_no_other_in_the_contracts_order() -> None:
    assert list(explanations.SCENARIOS) == [row.id for row in scenarios.SCENARIOS]


@pytest.mark.parametrize("row", explanations.CLAUSES.values(), ids=list(explanations.CLAUSES))
def test_an_explanation_is_whole_sentences(row: explanations.Explanation) -> None:
    for text in row:
        assert text[0].isupper() and text.endswith(".") and "  " not in text and len(text) > 40


@pytest.mark.parametrize("row", contract.CLAUSES, ids=lambda row: row.id)
def test_a_clause_is_explained_with_its_promise_and_what_shows_it(row: contract.ClauseRow, capsys: pytest.CaptureFixture[str]) -> None:
    shown = explained(row.id, capsys)
    plain = " ".join(shown.split())
    assert shown.startswith(f"{row.id}  ({str(row.level).upper()})\n")
    assert row.promise in plain and all(text in plain for text in explanations.CLAUSES[row.id])
    assert max(map(len, shown.splitlines())) <= 100
    assert all(scenario.id in plain for scenario in scenarios.SCENARIOS if row.id in scenario.clauses)


@pytest.mark.parametrize("row", scenarios.SCENARIOS, ids=lambda row: row.id)
def test_a_scenario_is_explained_with_what_is_done_and_judged(row: scenarios.Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    plain = " ".join(explained(row.id, capsys).split())
    assert row.what in plain and row.act.words in plain and explanations.SCENARIOS[row.id] in plain
    assert all(clause in plain for clause in row.clauses)


def test_a_check_is_explained_by_both_of_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    shown = explained("deaf-child:no-survivors", capsys)
    assert shown.startswith("deaf-child  (") and "\n\nno-survivors  (MUST)\n" in shown


@pytest.mark.parametrize(("name", "hint"), [("no-survivor", "did you mean no-survivors? "), ("deaf-child:nope", ""), ("", "")])
def test_what_there_is_not_is_said_in_one_line(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", name]) == pytest.ExitCode.USAGE_ERROR
    told = capsys.readouterr()
    unknown = name.rpartition(":")[2]
    assert told.out == ""
    assert told.err == f"cancelcontract explain: there is no clause or scenario {unknown!r}; {hint}cancelcontract list shows them all\n"
