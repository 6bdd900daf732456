"""``cancelcontract judge`` and ``show``: recorded drills, of real runs and of hand-made histories, read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract import cli
from pytest_cancelcontract.contract import judge, measure
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import Observation, header_line, load
from pytest_cancelcontract.report import json_report
from pytest_cancelcontract.terms import settle_terms
from tests.plugin.conftest import FAST, Run
from tests.unit.builders import look, notice, plus, row, saw, story, without

HEADER = {
    "scenario": "deaf-child",
    "terms": settle_terms({}).as_dict(),
    "capabilities": ["wait"],
    "wrapper": "wrap",
    "machine": {"cpus": 2},
}
KEPT_STORY = story(deaths={"leader": 0.2, "deaf-child": 5.3}, reported=5.5)
SURVIVOR_STORY = story(deaths={"leader": 0.2, "deaf-child": None}, reported=0.5)


def write(path: Path, seen: list[Observation], **header: Any) -> str:
    """A history file of these observations; returns its path."""
    path.write_text("\n".join([header_line({**HEADER, **header}), *(one.as_json() for one in seen)]) + "\n")
    return str(path)


# ---------------------------------------------------------------------- real drills


def test_every_history_of_a_run_gives_the_findings_that_the_run_gave(
    pytester: pytest.Pytester, command: Run, kept: list[str], broken: list[str]
) -> None:
    """Byte by byte, whoever judges: the run itself, the command, and the command again in other surroundings."""
    fast = [word.replace("cancel-", "") for word in FAST]
    scenarios = [f"--scenario={one}" for one in ("polite", "deaf-child", "cancel-after-end", "second-run")]
    drills = []
    for name, words in (("kept", kept), ("broken", broken)):
        command("run", *fast, *scenarios, f"--report={name}.json", "--", *words)
        drills += json.loads((pytester.path / f"{name}.json").read_text())["drills"]
    histories = [drill["history"] for drill in drills]
    first = again(histories, pytester.path)
    assert first == again(histories, Path("/"), TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    judged = 0
    for drill, found in zip(drills, json.loads(first)["drills"], strict=True):
        if drill["attempts"] == 1:
            # A second attempt keeps what the first one proved, and that is in another file.
            judged += 1
            assert {name: found[name] for name in ("scenario", "verdict", "measured", "checks", "terms") if name in found} == {
                name: drill[name] for name in ("scenario", "verdict", "measured", "checks", "terms") if name in drill
            }
    assert judged >= 6


def again(histories: list[str], folder: Path, **environment: str) -> bytes:
    """What ``judge --format json`` prints of histories."""
    words = [sys.executable, "-m", "pytest_cancelcontract.cli", "judge", "--format=json", *histories]
    return subprocess.run(words, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, timeout=50).stdout


@pytest.mark.slow
def test_the_findings_of_a_run_can_be_compared_with_it(pytester: pytest.Pytester, command: Run, kept: list[str]) -> None:
    fast = [word.replace("cancel-", "") for word in FAST]
    command("run", *fast, "--scenario=polite", "--report=run.json", "--", *kept)
    (drill,) = json.loads((pytester.path / "run.json").read_text())["drills"]
    (pytester.path / "again.json").write_bytes(again([drill["history"]], pytester.path))
    result = command("compare", "run.json", "again.json", "--limit=verdict", "--limit=gone:0s")
    assert result.ret == 0
    assert "->" not in result.stdout.str()


# ---------------------------------------------------------------------- judge

ZOMBIE_STORY = plus(without(story(), "process-table.look", moment="end"), look("end", 1.2, row("leader", "Z")))


@pytest.mark.parametrize(
    ("stories", "words", "status"),
    [
        pytest.param([KEPT_STORY], [], 0, id="kept"),
        pytest.param([SURVIVOR_STORY], [], 1, id="broken"),
        pytest.param([without(KEPT_STORY, "process-table.died", "process-table.look")], [], 2, id="inconclusive"),
        pytest.param([[]], [], 2, id="nothing was seen"),
        pytest.param([KEPT_STORY, SURVIVOR_STORY, KEPT_STORY], [], 1, id="one of several is broken"),
        pytest.param([[], SURVIVOR_STORY], [], 1, id="broken is worse than inconclusive"),
        pytest.param([ZOMBIE_STORY], [], 0, id="a broken SHOULD"),
        pytest.param([ZOMBIE_STORY], ["--level=should"], 1, id="a broken SHOULD that counts"),
    ],
)
def test_the_exit_status_says_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stories: list[list[Observation]], words: list[str], status: int
) -> None:
    histories = [write(tmp_path / f"{number}.jsonl", seen) for number, seen in enumerate(stories)]
    assert cli.main(["judge", *words, *histories]) == status, capsys.readouterr().out


def test_a_folder_stands_for_all_histories_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    files = [write(tmp_path / "run" / "b.jsonl", SURVIVOR_STORY), write(tmp_path / "a.jsonl", KEPT_STORY)]
    assert cli.main(["judge", str(tmp_path)]) == 1
    of_folder = capsys.readouterr().out
    assert cli.main(["judge", *reversed(files)]) == 1
    assert capsys.readouterr().out == of_folder and "deaf-child" in of_folder
    (tmp_path / "empty").mkdir()
    assert cli.main(["judge", str(tmp_path / "empty")]) == 4
    assert "no history lies in" in capsys.readouterr().err


def test_a_history_of_which_nothing_can_be_judged_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its only clause takes an outcome, which the adapter could not tell."""
    header = {"scenario": "cancel-after-end", "capabilities": [], "act": "cancel-after-end"}
    assert cli.main(["judge", write(tmp_path / "x.jsonl", [], **header)]) == 2, capsys.readouterr().out


def test_what_is_broken_is_told_in_full_and_the_course_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.jsonl", SURVIVOR_STORY)
    cli.main(["judge", path])
    shown = capsys.readouterr().out
    checks = judge(load(path))
    in_full = [check for check in checks if check.verdict in {Verdict.BROKEN, Verdict.INCONCLUSIVE}]
    lines = shown.splitlines()
    assert lines[0] == f"deaf-child: broken  ({path})"
    assert [line.split()[:2] for line in lines[1 : 1 + len(checks)]] == [[check.clause, str(check.verdict).split()[0]] for check in checks]
    headings = [line.removesuffix(" (a SHOULD)") for line in lines if line.startswith("cancel contract")]
    assert headings == [f"cancel contract {check.verdict}: {check.id}" for check in in_full]
    assert len(in_full) > 1 and shown.count("  timeline  ") == 1


def test_the_report_of_a_judgement_is_the_contracts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(tmp_path / "a.jsonl", KEPT_STORY), write(tmp_path / "b.jsonl", SURVIVOR_STORY, attempt=2)]
    cli.main(["judge", "--format", "json", *paths])
    report = json.loads(capsys.readouterr().out)
    assert (report["format"], report["wrapper"], report["machine"]) == (json_report.REPORT_FORMAT, "wrap", {"cpus": 2})
    assert [(one["history"], one["verdict"], one["attempts"]) for one in report["drills"]] == [
        (paths[0], "kept", 1),
        (paths[1], "broken", 2),
    ]
    for path, drill in zip(paths, report["drills"], strict=True):
        assert drill["measured"] == measure(load(path))
        assert [check["observed"] for check in drill["checks"]] == [check.finding.observed for check in judge(load(path))]


@pytest.mark.parametrize("action", ["judge", "show"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "{path} cannot be read: No such file or directory"),
        ("", "{path} is not a drill's history: its first line is no header"),
        ('{"format": "cancel-contract-history", "format_version": 9}', "{path} has format version 9; this version reads 1"),
    ],
)
def test_a_file_that_is_no_history_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str, text: str | None, message: str
) -> None:
    path = tmp_path / "x.jsonl"
    if text is not None:
        path.write_text(text)
    assert cli.main([action, str(path)]) == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == f"cancelcontract {action}: {message.format(path=path)}\n"


def test_a_scenario_that_is_not_known_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.jsonl", KEPT_STORY, scenario="of-a-plugin")
    assert cli.main(["judge", path]) == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().err.startswith(f"cancelcontract judge: {path}: unknown scenario 'of-a-plugin'")


@pytest.mark.parametrize(
    ("action", "statuses"), [("judge", ["0 where", "1 where", "2 where", "4 where"]), ("compare", ["0 where", "1 where", "4 where"])]
)
def test_the_help_says_what_the_exit_status_means(command: Run, action: str, statuses: list[str]) -> None:
    shown = " ".join(command(action, "--help").stdout.str().split())
    _, said, meaning = shown.partition("exit status: ")
    assert said and all(status in meaning for status in statuses)


# ---------------------------------------------------------------------- show


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: list[Observation], **header: Any) -> list[str]:
    assert cli.main(["show", write(tmp_path / "x.jsonl", seen, **header)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_timeline_is_shown_below_what_was_drilled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terms = settle_terms({"grace": (2, "--cancel-grace")}).as_dict()
    lines = shown(tmp_path, capsys, KEPT_STORY, terms=terms, habits=["deaf-child"], attempt=2, wall_time="2026-11-30T01:00:00+00:00")
    assert lines[:7] == [
        "scenario  deaf-child",
        "habits    deaf-child",
        "act       cancel",
        "wrapper   wrap",
        "attempt   2",
        "terms     grace 2.0 (--cancel-grace)",
        "recorded  2026-11-30T01:00:00+00:00",
    ]
    assert lines[7] == "" and "   +0.000 s  pressed (adapter.cancel)" in lines
    assert "   +5.300 s  deaf-child (pid 4711) is gone, was killed" in lines


def test_all_of_a_long_course_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = plus(KEPT_STORY, *(notice(0.5 + number / 10, subject=f"{5000 + number}:1") for number in range(30)))
    lines = shown(tmp_path, capsys, many)
    assert sum("noticed SIGTERM" in line for line in lines) == 31
    assert not any("more in the history" in line for line in lines)


def test_a_drill_without_a_press_is_shown_from_what_was_done_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The floor's deadline counts from the leader's hello, which comes 1 s before in this story."""
    seen = [one for one in story(told=None, deaths=3.0, reported=None, returns=None) if one.kind != "pressed"]
    left = saw("adapter", "left-alone", 0.0, trigger=True, how="nothing")
    lines = shown(tmp_path, capsys, plus(seen, left), scenario="never-cancelled", act="leave-alone")
    assert "   +0.000 s  in place of cancel: nothing" in lines
    assert "   +3.000 s  leader (pid 4700) is gone, was killed" in lines
    assert any(line.startswith("  +16.000 s  the deadline") for line in lines)


def test_a_drill_that_never_came_to_it_says_so_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(tmp_path, capsys, [saw("drill", "problem", -1.0, what="the wrapper\x1b[2J was not started")])
    assert lines[-2:] == [
        "nothing was done to the run: cancel was never pressed",
        "problem: the wrapper\\x1b[2J was not started",
    ]


def test_whoever_reads_may_stop_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", KEPT_STORY)
    words = [sys.executable, "-m", "pytest_cancelcontract.cli", "show", path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as showing:
        assert showing.stdout is not None and showing.stderr is not None
        showing.stdout.close()
        assert showing.stderr.read() == b""
        assert showing.wait(timeout=20) == 0
