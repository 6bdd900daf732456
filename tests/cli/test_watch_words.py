"""What ``cancelcontract watch`` says of a live run, from hand-made histories: one clock, the operator's words, no crowd of helpers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract import cli
from pytest_cancelcontract.cli.findings import finding_lines
from pytest_cancelcontract.cli.watch import _course
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.follow import button
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.report.html.lanes import course
from pytest_cancelcontract.report.html.shapes import LaneKind
from pytest_cancelcontract.report.timeline import timeline
from pytest_cancelcontract.terms import Terms
from tests.unit.builders import PRESSED_S, answer, clock, died, held, history, look, plus, returned, row, saw, without

LEADER, SURVIVOR = "4700:1000", "4720:1"
CLAUSES = ["no-survivors", "outcome-reported", "outcome-not-early", "outcome-not-success"]
LIVE = {"scenario": "live", "act": "cancel", "agent": True, "live": True, "by_hand": [], "habits": [], "clauses": CLAUSES}
NOT_OF_WATCH = ("adapter", "(handle)", "--outcome", "plugin", "lifeline")
HELPERS = [f"48{number:02}:1" for number in range(20)]


def live(*more: Observation, acted: float = 0.0, report: float | None = 0.1, **header: Any) -> History:
    """A live run whose leader ends 0.05 s after the press, and of which ``sh`` lives on, which begins a short command now and then."""
    found: dict[str, Any] = {"found": True, "attempt": "found"}
    seen = [
        held(-9.0, "leader", subject=LEADER, comm="agent", roles=["leader"], **found),
        held(-8.0, "sh", subject=SURVIVOR, comm="sh", **found),
        saw("adapter", "at-work", -0.01, what="as it was found"),
        saw("adapter", "pressed", 0.0, trigger=True, how="kill 4700"),
        returned(acted + 0.04, acted_s=acted or None),
        died(0.05, subject=LEADER),
        *(one for number, subject in enumerate(HELPERS) for one in _passing(subject, 0.1 + number * 0.1)),
        *([answer(report, by="outcome")] if report is not None else []),
        look("deadline", 12.0, row("sh", subject=SURVIVOR), row("sleep", subject="4899:1")),
        look("end", 15.0, row("sh", subject=SURVIVOR)),
        *clock(-1.0, 15.25),
        *more,
    ]
    return history(seen, header={**LIVE, **header})


def _passing(subject: str, at_s: float) -> Sequence[Observation]:
    came = held(at_s, "sleep", subject=subject, comm="sleep", found=True, attempt="found")
    return came, died(at_s + 0.09, subject=subject)


def told(of: History) -> str:
    """All that is said of it at the end."""
    return "\n".join([*_course(of), *finding_lines(of, judge(of))])


# ---------------------------------------------------------------------- one clock


def test_the_timeline_counts_from_the_same_press_as_the_findings() -> None:
    """A busy machine begins the operator's command a while after it was noted that it would."""
    of = live(acted=0.03)
    lines = timeline(of)
    assert lines[0] == "   +0.000 s  pressed (kill 4700)"
    assert "   +0.020 s  agent, the leader (pid 4700) is gone" in lines
    assert "the last one +0.02 s" in told(of) and "'cancelled' reported +0.07 s" in told(of)


def test_the_lines_at_the_end_name_processes_without_a_clock_of_their_own() -> None:
    (survived,) = [line for line in _course(live()) if line.startswith("survived")]
    assert survived == "survived  pid 4720 (sh) (not touched; to end them: kill -KILL 4720)"


# ---------------------------------------------------------------------- the operator's words


@pytest.mark.parametrize(
    ("of", "words"),
    [
        pytest.param(live(), "the answers of --reported-with", id="a survivor"),
        pytest.param(live(capabilities=[], report=None), "--reported-with, or Enter as soon as it says the end", id="nobody said the end"),
        pytest.param(live(report=None), "no terminal outcome", id="never the end"),
        pytest.param(
            live(saw("outcome", "error", 0.2, asked_at_s=PRESSED_S + 0.2, error="it ended with status 1"), report=None),
            "the command of --reported-with itself failed: it ended with status 1",
            id="a question that fails",
        ),
        pytest.param(
            history(
                without(
                    plus(
                        [one for one in live(report=None).observations if one.subject != SURVIVOR],
                        look("reported", 3.0),
                        answer(3.0, by="outcome", asked_s=1.0),
                    ),
                    "process-table.look",
                    moment="deadline",
                ),
                header=LIVE,
            ),
            "let the command of --reported-with answer faster; or write the risk down: early=",
            id="a slow answer",
        ),
    ],
)
def test_nothing_is_said_of_adapters_to_somebody_who_has_none(of: History, words: str) -> None:
    of = History({"capabilities": ["outcome"], **of.header} if "capabilities" not in of.header else of.header, of.observations, of.path)
    said = told(of)
    assert words in said
    assert not [word for word in NOT_OF_WATCH if word in said]


def test_the_help_speaks_of_the_options_that_watch_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["watch", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "that --reported-with prints" in said
    assert "adapter" not in said and "--outcome prints" not in said and "fails a test" not in said


# ---------------------------------------------------------------------- leader and survivors


def test_many_short_lived_processes_are_one_line_and_leader_and_survivors_are_shown() -> None:
    assert timeline(live()) == [
        "   +0.000 s  pressed (kill 4700)",
        "   +0.040 s  the cancel call returned",
        "   +0.050 s  agent, the leader (pid 4700) is gone",
        "   +0.100 s  outcome reported: cancelled",
        "   +2.090 s  … and 20 short-lived processes, the last of them gone now",
        "  +12.000 s  the deadline; alive: sh (pid 4720), sleep (pid 4899)",
    ]


def test_in_the_picture_leader_and_survivors_stand_above_one_lane_of_short_lived_processes() -> None:
    of = live()
    lanes = [one for one in course(of, Terms.from_dict(of.header["terms"])).lanes if one.kind is LaneKind.PROCESS]
    assert [one.name for one in lanes] == ["leader", "sh", "20 short-lived processes"]
    assert lanes[1].is_grave


def test_one_that_has_only_just_come_is_not_among_those_to_be_ended() -> None:
    (survived,) = [
        line
        for line in _course(live(held(14.9, "sleep", subject="4899:1", comm="sleep", found=True, attempt="found")))
        if line.startswith("survived")
    ]
    assert survived == "survived  pid 4720 (sh); and 1 short-lived one (not touched; to end them: kill -KILL 4720)"


# ---------------------------------------------------------------------- the operator's commands


@pytest.mark.parametrize("turns", range(6))
def test_a_question_that_is_cut_off_as_its_command_ends_is_cut_off(tmp_path: Path, turns: int) -> None:
    """If it went on, its answer would stand behind the one that is asked for last."""

    async def cut_off() -> bool:
        begun = button.begin(["true"], tmp_path / "said.txt")
        asking = asyncio.ensure_future(button.answer(begun, 20.0))
        await asyncio.sleep(0)
        begun.process.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        was_done = asking.done()
        asking.cancel()
        await asyncio.wait([asking])
        return was_done or asking.cancelled()

    assert asyncio.run(cut_off())
