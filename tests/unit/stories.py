"""Makers of drills whose act is another than a single cancel: another press, another run. All times are told from the press."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_cancelcontract.history import Observation
from tests.unit.builders import (
    BYSTANDER,
    LEADER,
    NEXT_LEADER,
    PRESSED_S,
    REVIVED,
    answer,
    clock,
    died,
    held,
    hello,
    in_order,
    look,
    notice,
    pressed,
    returned,
    row,
    saw,
    says,
    start_of,
    wrote,
)

TWICE = {"act": "cancel-twice"}
WATCHED = {"act": "cancel-then-watch"}
AT_START = {"act": "cancel-at-start", "moment": "after-start", "may_not_start": True}
AFTER_END = {"act": "cancel-after-end"}
ONE_OF_TWO = {"act": "cancel-one-of-two"}
NEXT_TASK = {"act": "cancel-then-next-task"}
"""What the headers of such drills say."""


def revival(at_s: float, *, attempt: str = "k3f9-9", **standing: Any) -> list[Observation]:
    """A new attempt at the task that nobody asked for."""
    new = {"subject": REVIVED, "attempt": attempt}
    return [hello(at_s, roles=["leader"], **new), held(at_s, **new, **standing)]


def start_story(
    *,
    reached: str = "no runner yet",
    came: float | None = None,
    released: float | None = None,
    works: float | None = None,
    told: float | None = None,
    dies: float | None = None,
    reported: float | None = 0.1,
    returns: float | None = 0.1,
    end: float = 3.3,
) -> list[Observation]:
    """What all witnesses see of a drill in which cancel is pressed before the runner works.

    Args:
        came: when the leader said hello, None for never; ``released``, ``works``, ``told`` and ``dies``: what became of it.
    """

    def rows(at_s: float) -> list[dict[str, Any]]:
        is_there = came is not None and came <= at_s
        return [row("leader", "gone" if dies is not None and dies <= at_s else "S")] if is_there else []

    seen = [*clock(-2.0, end + 0.5), saw("adapter", "starting", -0.5), saw("adapter", "started", -0.05, took_s=0.4)]
    seen += [pressed(), look("pressed", 0.0, *rows(0.0)), saw("drill", "reached", 0.001, what=reached)]
    if came is not None:
        seen += [hello(came, held=reached == "before its first handler"), held(came)]
        seen += [saw("drill", "released", released, LEADER, why="the press had `delivery` to arrive")] if released is not None else []
        seen += [says("working", works, armed=[]), wrote(works + 0.1)] if works is not None else []
        seen += [notice(told)] if told is not None else []
        seen += [died(dies), says("closed", dies)] if dies is not None else []
    if returns is not None:
        seen.append(returned(returns))
    if reported is not None:
        seen += [answer(reported), look("reported", reported, *rows(reported)), answer(min(end, reported + 3.1), by="outcome")]
    seen += [look("deadline", 12.0, *rows(12.0))] if end >= 12.0 else []
    seen += [look("end", end, *rows(end)), saw("drill", "reaped", end + 0.1, processes=[]), saw("drill", "ended", end + 0.1, why="over")]
    return in_order(seen)


def ended_story(
    *, outcome: str = "succeeded", known: float | None = -0.3, returns: float | None = 0.01, again: str | None = None, end: float = 0.7
) -> list[Observation]:
    """What all witnesses see of a drill in which cancel is pressed after the run has ended by itself, at -0.4 s.

    Args:
        known: when the outcome was terminal, None for never; ``again``: what it is after ``settle``, if another.
    """
    seen = [*clock(-2.0, end + 0.5), *start_of({"leader": -0.4})]
    seen += [says("goodbye", -0.41, status=0, why="its work is done"), died(-0.4), says("closed", -0.4)]
    if known is not None:
        seen += [answer(known, outcome, by="outcome"), look("reported", known, row("leader", "gone"))]
        seen += [answer(0.6, again or outcome, by="outcome", asked_s=0.55)]
    seen += [pressed(), look("pressed", 0.0, row("leader", "gone"))]
    seen += [returned(returns)] if returns is not None else []
    seen += [look("end", end, row("leader", "gone")), saw("drill", "reaped", end + 0.1, processes=[])]
    return in_order(seen)


def beside(
    *,
    judged: float = 6.2,
    told: float | None = None,
    dies: float | None = None,
    wrote_at: float | None = 6.0,
    state: str = "S",
    outcome: str | None = "running",
    roles: Sequence[str] = ("leader",),
    **standing: Any,
) -> list[Observation]:
    """A run beside the first, which the drill lets go at ``judged``, and ends by the same cancel then.

    Args:
        told, dies: when it had notice, or died, before that.
        wrote_at: when it last said that it wrote; ``state``: how it stands in the look; ``outcome``: what is answered of it.
    """
    other: dict[str, Any] = {"subject": BYSTANDER, "attempt": "k3f9-2", "run": "bystander"}
    where: dict[str, Any] = {"pgid": 4750, "sid": 4750, "parent": "51:9", "ppid": 51} | standing
    seen = [saw("adapter", "other-starting", -0.9, run="bystander"), saw("adapter", "other-started", -0.7, run="bystander", error=None)]
    seen += [hello(-0.6, roles=list(roles), **other), held(-0.6, **other, **where)]
    seen += [says("working", -0.5, subject=BYSTANDER, armed=[]), says("wrote", -0.4, subject=BYSTANDER, count=3)]
    seen += [notice(told, subject=BYSTANDER)] if told is not None else []
    seen += [died(dies, subject=BYSTANDER)] if dies is not None else []
    seen += [says("wrote", wrote_at, subject=BYSTANDER, count=120)] if wrote_at is not None else []
    if outcome is not None:
        seen.append(other_answer(judged - 0.01, outcome, run="bystander"))
    seen += [saw("adapter", "other-judged", judged)]
    seen += [look("bystander", judged, row("leader", "gone"), row(state="gone" if dies is not None else state, subject=BYSTANDER))]
    if dies is None:
        seen += [notice(judged + 0.02, subject=BYSTANDER), says("goodbye", judged + 0.03, subject=BYSTANDER, status=0, why="end")]
        seen += [died(judged + 0.04, subject=BYSTANDER)]
    return seen


def other_answer(at_s: float, outcome: str, *, run: str, by: str = "outcome") -> Observation:
    """What was answered about another run of the drill."""
    return saw("outcome", "other-answer", at_s, run=run, asked_at_s=PRESSED_S + at_s - 0.005, outcome=outcome, by=by, detail="")


def afterwards(
    at_s: float = 1.3, *, told: float | None = None, leaves: bool = True, dies: float | None = 1.9, outcome: str | None = "succeeded"
) -> list[Observation]:
    """The next task, started at ``at_s``: it works, and leaves by itself with a goodbye unless told otherwise."""
    following = {"subject": NEXT_LEADER, "attempt": "k3f9-2", "run": "next"}
    seen = [saw("adapter", "other-starting", at_s, run="next"), saw("adapter", "other-started", at_s + 0.1, run="next", error=None)]
    seen += [hello(at_s + 0.2, roles=["leader"], **following), held(at_s + 0.2, **following)]
    seen += [says("working", at_s + 0.3, subject=NEXT_LEADER, armed=[])]
    seen += [notice(told, subject=NEXT_LEADER)] if told is not None else []
    seen += [says("goodbye", at_s + 0.55, subject=NEXT_LEADER, status=0, why="its work is done")] if leaves else []
    seen += [died(dies, subject=NEXT_LEADER)] if dies is not None else []
    return [*seen, *([other_answer(2.0, outcome, run="next")] if outcome is not None else [])]


def alone_story(
    kind: str = "left-alone",
    *,
    dies: float | None = 9.0,
    deadline: float = 16.0,
    stuck: float | None = None,
    beats: Sequence[float] | None = None,
    end: float | None = None,
    late: float = 0.0,
) -> list[Observation]:
    """What all witnesses see of a drill in which nobody presses; the leader said hello at -1 s.

    Args:
        kind: what is done in place of a press, at 0 s.
        dies: when the leader died, None for never.
        stuck: when it made its last progress.
        beats: when the engine had heartbeats, None where it was not asked.
    """
    over = end if end is not None else max(deadline, dies or 0.0) + 0.6

    def at(moment_s: float) -> dict[str, Any]:
        return row(state="gone" if dies is not None and dies <= moment_s else "S")

    seen = [*clock(-2.0, over + 0.5, late), *start_of({"leader": dies}), saw("adapter", kind, 0.0, trigger=True, how="nothing")]
    seen += [says("wedged", stuck)] if stuck is not None else []
    seen += [look("pressed", 0.0, at(0.0)), look("deadline", deadline, at(deadline)), look("end", over, at(over))]
    seen += [died(dies)] if dies is not None and dies <= over else []
    seen += [saw("engine", "heartbeats", over, moments=[PRESSED_S + one for one in beats], error=None)] if beats is not None else []
    left = [] if dies is not None and dies <= over else [{"subject": LEADER, "role": "leader"}]
    return in_order([*seen, saw("drill", "reaped", over + 0.1, processes=left), saw("drill", "ended", over + 0.1, why="over")])
