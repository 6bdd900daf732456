"""A drill may have other runs beside its first one, or after it: they are held and ended with it, and nothing of the first waits for them.

What the recorder says is checked against the tests' own reading of the process table (hidden_table.py).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pytest_cancelcontract.recorder.folders import MARKER
from pytest_cancelcontract.run import Run
from tests.recorder import hidden_table
from tests.recorder.conftest import TERMS, Open
from tests.recorder.hidden_drill import WORKS_WITHIN_S, Drill, token_of
from tests.runner.stand_in import log_lines


def another(drill: Drill, name: str, *habits: str) -> Run:
    """Start another run of the drill, and wait until it works."""
    run = drill.recorder.another_run(drill.opened, name, habits=habits, terms=TERMS)
    run.spawn(run.argv)
    awaited = drill.recorder.wait(drill.opened, f"{name}-working-or-exited", at_most_s=WORKS_WITHIN_S)
    assert awaited.state["others"][name]["worked"], awaited.state
    return run


def only(rows: dict[str, hidden_table.Row]) -> hidden_table.Row:
    """The one that there is."""
    (row,) = rows.values()
    return row


def alive_in(drill: Drill, moment: str) -> set[str]:
    """Who was alive in the first look of that moment."""
    look = drill.until_noted("process-table", "look", moment=moment)
    return {row["subject"] for row in look.data["processes"] if row["alive"]}


def test_another_run_has_a_token_and_a_workspace_of_its_own(open_drill: Open) -> None:
    drill = open_drill("polite")
    drill.start()
    other = another(drill, "bystander", "deaf", "deaf-child")
    assert token_of(other) != token_of(drill.run)
    assert (other.id, other.task_id) == (f"{drill.run.id}-bystander", f"{drill.run.task_id}-bystander")
    assert other.workspace != drill.run.workspace
    assert (other.workspace / MARKER).exists()
    assert other.shim("agent") != drill.run.shim("agent")

    living = drill.living(other)
    assert len(living) == 2
    assert drill.subjects("lifeline", "hello", run="bystander") == drill.subjects("process-table", "held", run="bystander") == set(living)
    assert drill.subjects("process-table", "held", run="first") == set(drill.living())
    for run, role in ((drill.run, "leader"), (other, "leader"), (other, "deaf-child")):
        writers = {words[3] for words in log_lines(Path(run.workspace), role)}
        assert len(writers) == 1
        assert writers <= {str(row.pid) for row in drill.living(run).values()}


def test_nothing_of_the_first_run_waits_for_a_bystander(open_drill: Open) -> None:
    drill = open_drill("polite")
    drill.start()
    bystander = another(drill, "bystander", "deaf")
    first, other = only(drill.living()), only(drill.living(bystander))
    drill.press(first.pid)
    assert alive_in(drill, "pressed") >= {other.subject}
    for event in ("delivered", "handover", "ended", "over"):
        assert drill.recorder.wait(drill.opened, event, at_most_s=10).reached
    assert time.monotonic() >= drill.noted("outcome", "answer")[0].at_s + TERMS.settle_s
    state = drill.recorder.wait(drill.opened, "over", at_most_s=0).state
    assert (state["reported"], state["alive"], state["attempts"]) == ("cancelled", [], 1)
    assert drill.living() == {}
    # The drill settles and is over long before its deadline, which a run that goes on would have it wait for.
    assert drill.noted("process-table", "look", moment="deadline") == []
    assert alive_in(drill, "reported") == alive_in(drill, "handover") == {other.subject}

    drill.recorder.observe(drill.opened, "adapter", "other-judged", run="bystander")
    assert alive_in(drill, "bystander") == {other.subject}
    assert set(drill.living(bystander)) == {other.subject}
    assert drill.finish() == {other.subject}
    assert drill.living(bystander) == {}
    assert alive_in(drill, "end") == {other.subject}


def test_a_drill_whose_outcome_never_comes_waits_for_it_and_not_for_a_bystander(open_drill: Open) -> None:
    drill = open_drill("polite")
    drill.start("sh", "-c", '"$@"; exec sleep 60', "sh")
    another(drill, "bystander", "deaf")
    drill.press(only(drill.living()).pid)
    assert drill.recorder.wait(drill.opened, "over", at_most_s=10).reached
    over_s = time.monotonic()
    assert over_s >= drill.noted("process-table", "died")[0].at_s + TERMS.kill_within_s
    assert over_s < drill.noted("adapter", "pressed")[0].at_s + TERMS.deadline_after_press_s + TERMS.kill_within_s
    assert drill.noted("outcome", "answer") == []


def test_what_happens_to_a_bystander_is_not_the_first_runs(open_drill: Open) -> None:
    drill = open_drill("deaf")
    drill.start()
    bystander = another(drill, "bystander", "polite")
    other = only(drill.living(bystander))
    drill.press()
    os.kill(other.pid, signal.SIGTERM)
    drill.until_noted("lifeline", "notice", subject=other.subject)
    drill.until_noted("process-table", "died", subject=other.subject)
    answer = drill.until_noted("outcome", "other-answer", run="bystander")
    assert (answer.data["outcome"], answer.data["by"]) == ("cancelled", "exit")
    state = drill.recorder.wait(drill.opened, "delivered", at_most_s=0)
    assert not state.reached
    assert (state.state["reported"], state.state["others"]["bystander"]["exited"]) == (None, True)
    assert drill.noted("outcome", "answer") == []
    assert set(drill.living()) == drill.finish()


def test_the_first_run_is_gone_once_and_not_again_with_another_one(open_drill: Open) -> None:
    drill = open_drill("deaf")
    drill.start()
    bystander = another(drill, "bystander", "deaf")
    first, other = only(drill.living()), only(drill.living(bystander))
    drill.press()
    assert drill.recorder.wait(drill.opened, "handover", at_most_s=10).reached
    for one in (first, other):
        os.kill(one.pid, signal.SIGKILL)
        drill.until_noted("process-table", "died", subject=one.subject)
    gone, end = drill.until_noted("workspace", "stamp", moment="gone"), drill.finish()
    assert end == set()
    assert drill.noted("workspace", "stamp", moment="gone") == [gone]


def test_the_next_run_is_waited_for_until_it_has_ended_by_itself(open_drill: Open) -> None:
    drill = open_drill("polite")
    drill.start()
    first = only(drill.living())
    drill.press(first.pid)
    assert drill.recorder.wait(drill.opened, "over", at_most_s=10).reached
    following = another(drill, "next", "ends-itself")
    assert drill.recorder.wait(drill.opened, "next-gone", at_most_s=10).reached
    assert drill.living(following) == {}
    assert drill.recorder.wait(drill.opened, "next-exited", at_most_s=10).reached
    leader = drill.noted("lifeline", "hello", run="next")[0].subject
    assert drill.noted("lifeline", "goodbye", subject=leader)[0].data["status"] == 0
    assert drill.until_noted("outcome", "other-answer", run="next").data["outcome"] == "succeeded"
    assert len(drill.noted("outcome", "answer")) == 1
    assert drill.finish() == set()


def test_a_run_beside_one_that_is_started_again_works_and_does_not_only_look(open_drill: Open) -> None:
    drill = open_drill("polite")
    drill.start()
    drill.press(only(drill.living()).pid)
    assert drill.recorder.wait(drill.opened, "handover", at_most_s=10).reached
    drill.recorder.observe(drill.opened, "adapter", "restarting")
    following = another(drill, "next", "deaf", "daemon")
    assert len(drill.living(following)) == 2
    assert not drill.recorder.wait(drill.opened, "second-working", at_most_s=0).reached
    again = drill.recorder.second_run(drill.opened, "r2")
    again.spawn(again.argv)
    assert drill.recorder.wait(drill.opened, "second-working", at_most_s=WORKS_WITHIN_S).reached
    assert drill.finish() >= set(drill.subjects("process-table", "held", run="next"))
    assert drill.living() == drill.living(following) == {}
