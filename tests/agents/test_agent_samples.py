"""Every sample agent in its trials: what it keeps, what it breaks, and that no witness could be missed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_cancelcontract import cli
from pytest_cancelcontract.agents.trials import CLAUSES
from pytest_cancelcontract.cli.findings import finding_lines
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.report import json_report
from tests.agents.conftest import TERMS, Try, all_of, sample
from tests.agents.sample_verdicts import SAMPLES, TABLE, Sample

WITNESSES = ("adapter", "process-table", "outcome", "workspace", "meter", "clock")


@pytest.mark.parametrize("one", TABLE, ids=lambda one: one.name)
def test_a_sample_keeps_and_breaks_what_the_table_says(one: Sample, tries: Try) -> None:
    results = all_of(tries, sample(one.name), list(one.not_kept), replace(TERMS, grace_s=one.grace_s))
    found = {id: {check.clause: str(check.verdict) for check in result.checks} for id, result in results.items()}
    assert found == {id: dict.fromkeys(CLAUSES, "kept") | not_kept for id, not_kept in one.not_kept.items()}
    for result in results.values():
        again = judge(load(result.history.path), CLAUSES)
        assert [check.verdict for check in again] == [check.verdict for check in result.checks]
        _assert_no_witness_can_be_missed(result.history)


def _assert_no_witness_can_be_missed(history: History) -> None:
    """What was not kept must not be kept once the observations of one witness are taken out."""
    verdicts = {check.clause: check.verdict for check in judge(history, CLAUSES)}
    for witness in WITNESSES:
        left = History(history.header, tuple(seen for seen in history.observations if seen.witness != witness), history.path)
        for check in judge(left, CLAUSES):
            if verdicts[check.clause] is not Verdict.KEPT:
                assert check.verdict is not Verdict.KEPT, f"{check.id} without {witness}: {check.finding.observed}"


def test_each_sample_is_in_the_table() -> None:
    programs = {path.stem for path in SAMPLES.glob("*.py") if not path.stem.startswith("_")}
    assert programs == {one.name for one in TABLE}


def test_every_clause_that_an_agent_can_break_is_broken_by_a_sample_but_the_one_of_its_status() -> None:
    """Whether a tidy status is a success is for the clause's own rows: an exit status is all that an agent has."""
    broken = {clause for one in TABLE for cells in one.not_kept.values() for clause, verdict in cells.items() if verdict == "broken"}
    assert broken == set(CLAUSES) - {"outcome-not-success"}


def test_the_message_names_the_process_its_session_and_its_file(tries: Try) -> None:
    result = tries(sample("leaves_its_tools"), "tool-term")
    survivors, writes = (
        next(check.finding for check in result.checks if check.clause == clause) for clause in ("no-survivors", "no-late-writes")
    )
    tool = next(one for one in result.history.of("process-table", "held", "named") if one.data["comm"] == "agent-tool")
    pid = tool.subject.partition(":")[0]
    session = re.search(rf"pid {pid} \(start \d+, agent-tool\) running .*?, session (\d+)", survivors.observed)
    agent = next(one for one in result.history.of("process-table", "held"))
    assert session is not None and session[1] != str(agent.data["sid"])
    assert f"uncooperative-tool.log by pid {pid} " in writes.observed


def test_what_may_live_on_is_told_by_whoever_judges(tries: Try, capsys: pytest.CaptureFixture[str]) -> None:
    result = tries(sample("leaves_its_tools").allowing({"agent-tool": "it may", "sh": "it waits for it"}), "tool-term")
    assert "; allowed to live on: pid " in next(check.finding.observed for check in result.checks if check.clause == "no-survivors")
    path = str(result.history.path)
    cli.main(["judge", path])
    assert capsys.readouterr().out == "\n".join(finding_lines(result.history, result.checks)) + "\n"
    cli.main(["judge", "--format=json", path])
    report = json_report.document([result.row], terms=result.history.header["terms"])
    assert capsys.readouterr().out.encode() == json_report.text_of(report)


def test_the_same_trial_twice_has_the_same_verdicts(tries: Try) -> None:
    agent = sample("leaves_its_tools")
    once, again = (tries(agent, "tool-setsid-term") for _ in range(2))
    assert [(check.id, check.verdict) for check in once.checks] == [(check.id, check.verdict) for check in again.checks]
