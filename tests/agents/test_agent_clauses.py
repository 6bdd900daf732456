"""What the clauses make of an agent's history, row by row: its processes say nothing, and were found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_cancelcontract.agents.trials import CLAUSES
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.contract import CLAUSES as ALL
from pytest_cancelcontract.contract import judge, measure
from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.history import Observation
from pytest_cancelcontract.terms import Terms
from tests.unit.builders import (
    BROKEN,
    FIRST,
    INCONCLUSIVE,
    KEPT,
    LEADER,
    SECOND,
    Row,
    booked,
    clock,
    closed,
    died,
    exited,
    held,
    history,
    look,
    meter_look,
    plus,
    pressed,
    request,
    returned,
    row,
    saw,
    tokens,
    without,
    workspace_look,
)
from tests.unit.builders import answer as outcome

TOOL = "4720:1005"
AGAIN = "4900:3200"
HEADER = {"act": "cancel-then-watch", "agent": True, "habits": ["agent"]}
TERMS = Terms(delivery_s=0.0, grace_s=2.0, kill_within_s=1.0)
"""So the deadline is +3 s."""
END = 6.5


def found(at_s: float, role: str, subject: str, by: str = "descent", attempt: str = FIRST, **data: Any) -> Observation:
    """A process of the agent was found."""
    return held(at_s, role, subject=subject, attempt=attempt, by=by, found=True, pid=int(subject.partition(":")[0]), **data)


def agent(*more: Observation, exits: float | None = 0.05, tool: float | None = None, at_work: float | None = -0.01) -> list[Observation]:
    """An agent that ran a tool and streams, exits at ``exits`` and whose tool dies at ``tool`` (None for never)."""
    seen = [
        *clock(-2.0, END + 0.5),
        found(-1.5, "leader", LEADER, "its start", roles=["leader"], cwd_dev=1, cwd_ino=2),
        found(-1.0, "sh", TOOL),
        saw("process-table", "named", -0.9, TOOL, comm="agent-tool"),
        request(-0.5, "r1", stream=True, attempt="", role=""),
        tokens(-0.4, "r1", since_s=-0.5),
        pressed(),
        look("pressed", 0.0, row(subject=LEADER), row("agent-tool", subject=TOOL)),
        saw("adapter", "signalled", 0.0, LEADER, by="SIGTERM", to="pid"),
        returned(0.001),
        meter_look("handover", 3.0 if exits is None else exits),
        meter_look("end", END),
    ]
    seen += [saw("adapter", "at-work", at_work, what="while it runs a tool")] if at_work is not None else []
    if exits is not None:
        seen += [exited(exits, 143), died(exits, subject=LEADER), closed(exits, "r1", "disconnected")]
        seen += [outcome(exits, by="exit", detail="exit status 143")]
        seen += [look("reported", exits, row(state="Z", subject=LEADER), row("agent-tool", state(tool, exits), subject=TOOL))]
    seen += [died(tool, subject=TOOL)] if tool is not None else []
    ends = [row(state="S" if exits is None else "Z", subject=LEADER), row("agent-tool", state(tool, END), subject=TOOL)]
    seen += [look("deadline", 3.0, row(state=state(exits, 3.0), subject=LEADER), row("agent-tool", state(tool, 3.0), subject=TOOL))]
    seen += [look("end", END, *ends)]
    return booked(plus(seen, *more))


def state(dies: float | None, at_s: float) -> str:
    """As a look shows a process that dies then."""
    return "gone" if dies is not None and dies <= at_s else "S"


def asks(at_s: float, id: str = "r2", **data: Any) -> list[Observation]:
    """A request of the agent's, answered at once."""
    return [request(at_s, id, attempt="", role="", **data), tokens(at_s + 0.01, id), closed(at_s + 0.02, id)]


CLEAN = agent(tool=0.04)
LOST = saw("process-table", "launcher-lost", 0.5, "4700:1000")
ROWS: dict[str, tuple[Row, ...]] = {
    "no-survivors": (
        Row("an agent and a tool that die are kept", CLEAN, KEPT),
        Row(
            "a tool that lives on is broken, and told by the name that it took",
            agent(),
            BROKEN,
            says=["pid 4720 (start 1005, agent-tool) running", "found by descent"],
        ),
        Row("an agent that lives on is told what it ignored", agent(exits=None, tool=0.04), BROKEN, says=["it had SIGTERM and ignored it"]),
        Row("a tool that dies within the grace is kept", agent(tool=1.5), KEPT),
        Row("an agent that was not at work is inconclusive", agent(tool=0.04, at_work=None), INCONCLUSIVE, says=["never worked"]),
        Row("one that came to work behind the press is inconclusive", agent(tool=0.04, at_work=0.02), INCONCLUSIVE),
        Row(
            "a child that comes and goes before the press disturbs nothing",
            agent(found(-1.2, "git", "4730:1006"), died(-1.1, subject="4730:1006"), tool=0.04),
            KEPT,
        ),
        Row(
            "one that stood in the table behind the deadline and was never held leaves it open",
            agent(saw("process-table", "missed", 3.2, "4731:1007", comm="hop", by="adoption"), tool=0.04),
            INCONCLUSIVE,
            says=["pid 4731 (hop, known by adoption) was there +3.2 s"],
            spoilt=True,
        ),
        Row(
            "one that was missed within the grace disturbs nothing",
            agent(saw("process-table", "missed", 1.0, "4731:1007", comm="hop", by="adoption"), tool=0.04),
            KEPT,
        ),
        Row(
            "without its launcher nothing is known", agent(LOST, tool=0.04), INCONCLUSIVE, says=["adopts the agent's orphans"], spoilt=True
        ),
        Row("an allowed helper that lives on is kept", agent(), KEPT, header={"allowed": {"agent-tool": "it may"}}),
        Row("a helper of another name is broken", agent(), BROKEN, header={"allowed": {"sh": "it may"}}),
        Row(
            "the agent itself is not excused by its name", agent(exits=None), BROKEN, header={"allowed": {"leader": "x", "agent-tool": "y"}}
        ),
    ),
    "outcome-not-early": (
        Row("an exit behind the tool's death is kept", CLEAN, KEPT),
        Row("an exit before it is broken", agent(tool=1.5), BROKEN),
    ),
    "stays-ended": (
        Row("nothing new for long enough is kept", CLEAN, KEPT),
        Row("a request of before the exit is none", agent(*asks(0.03), tool=0.04), KEPT),
        Row("one on its way to the meter at the exit is none", agent(*asks(0.09), tool=0.04), KEPT),
        Row(
            "a request behind the exit is broken",
            agent(*asks(0.4), tool=0.04),
            BROKEN,
            says=["asked the provider again after its end: r2", "tried again"],
        ),
        Row("a request on the side is none", agent(*asks(0.4, side=True), tool=0.04), KEPT),
        Row("a request of another run is none", agent(request(0.4, "r2", run="next"), tool=0.04), KEPT),
        Row(
            "a process that came once all were dead is broken",
            agent(found(1.0, "agent", AGAIN, "its environment", SECOND), died(1.2, subject=AGAIN), tool=0.04),
            BROKEN,
            says=["pid 4900 (start 3200, agent), attempt k3f9-2"],
        ),
        Row("who watched nothing of the meter cannot say", without(CLEAN, "meter"), INCONCLUSIVE),
        Row(
            "a request by a machine that was late is inconclusive",
            [*without(agent(*asks(0.4), tool=0.04), "clock"), *clock(-2.0, END, 1.0)],
            INCONCLUSIVE,
            spoilt=True,
        ),
    ),
    "spend-stops": (
        Row("a stream that ends with the agent is kept", CLEAN, KEPT),
        Row(
            "an agent that was cancelled before it asked anything is kept",
            booked(one for one in CLEAN if one.data.get("request") != "r1"),
            KEPT,
        ),
        Row("a request well behind the exit is broken", agent(*asks(2.0), tool=0.04), BROKEN),
    ),
    "requests-closed": (Row("a stream that nobody ends is broken", agent(exits=None, tool=0.04), BROKEN),),
    "outcome-reported": (
        Row("an exit is kept", CLEAN, KEPT),
        Row("an agent that does not end is broken", agent(exits=None, tool=0.04), BROKEN),
        Row("one whose launcher is lost may have ended", agent(LOST, exits=None, tool=0.04), INCONCLUSIVE, spoilt=True),
    ),
}
CELLS = [pytest.param(clause, one, id=f"{clause}: {one.id}") for clause, rows in ROWS.items() for one in rows]


def _history(one: Row, seen: Iterable[Observation] | None = None) -> Any:
    given = {"given": TERMS, "capabilities": ("exit",), "header": {**HEADER, **one.header}}
    return history(one.seen if seen is None else seen, scenario="agent-tool-term", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("clause", "one"), CELLS)
def test_a_row_has_its_verdict(clause: str, one: Row) -> None:
    (check,) = judge(_history(one), [clause])
    finding = check.finding
    assert finding.verdict is one.verdict, finding
    assert finding.spoilt is one.spoilt
    text = " ".join((finding.observed, finding.seen_by, finding.likely))
    assert all(words in text for words in one.says), text


@pytest.mark.parametrize(("clause", "one"), [cell for cell in CELLS if cell.values[1].verdict is not KEPT])  # type: ignore[union-attr]
@pytest.mark.parametrize("witness", ["adapter", "process-table", "outcome", "meter", "clock"])
def test_no_row_is_kept_once_a_witness_is_missing(clause: str, one: Row, witness: str) -> None:
    (check,) = judge(_history(one, [seen for seen in one.seen if seen.witness != witness]), [clause])
    assert check.verdict is not KEPT, check.finding


def test_habits_that_an_agent_has_not_are_not_applicable() -> None:
    checks = {check.clause: check for check in judge(_history(ROWS["no-survivors"][0]), [one.id for one in ALL])}
    assert checks["grace-given"].verdict is Verdict.NOT_APPLICABLE
    assert "this runner (agent) cannot show it" in checks["grace-given"].finding.observed
    assert all(checks[clause].verdict not in {Verdict.NOT_APPLICABLE, Verdict.NOT_COVERED} for clause in CLAUSES)
    assert checks["outcome-not-success"].level is Level.SHOULD  # an exit status is all that it says


def test_workspace_writes_are_the_tools_by_its_marks() -> None:
    seen = agent(
        saw("workspace", "opened", -1.5, path="/w", dev=1, ino=2, ignore=[]),
        saw("workspace", "stamp", 0.06, moment="handover", ctime_ns=1_000),
        saw("workspace", "look", 0.06, moment="handover", files=1, exists=True, dev=1, ino=2),
        saw(
            *("workspace", "changed", 1.0),
            path="/w/uncooperative-tool.log",
            what="content",
            ctime_ns=9_000,
            sha256="b",
            before_sha256="a",
            writers=[{"pid": 4720, "attempt": FIRST, "count": 9}],
        ),
        workspace_look("end", END),
    )
    (check,) = judge(_history(Row("x", seen, BROKEN)), ["no-late-writes"])
    assert check.verdict is BROKEN
    assert "/w/uncooperative-tool.log by pid 4720 (start 1005, agent-tool)" in check.finding.observed


@pytest.mark.parametrize(
    ("folder", "verdict"),
    [((1, 2), KEPT), ((1, 3), INCONCLUSIVE), ((None, None), INCONCLUSIVE)],
    ids=["its own", "another one", "none at all"],
)
def test_a_workspace_that_was_moved_acquits_nobody(folder: tuple[int | None, int | None], verdict: Verdict) -> None:
    """Who holds it is nobody of the agent's by then: a server that was there before may write for it."""
    dev, ino = folder
    seen = agent(
        saw("workspace", "opened", -1.5, path="/w", dev=1, ino=2, ignore=[]),
        saw("workspace", "stamp", 0.05, moment="handover", ctime_ns=1_000),
        saw("workspace", "look", 0.05, moment="handover", files=1, exists=True, dev=dev, ino=ino),
        workspace_look("end", END),
        tool=0.04,
    )
    (check,) = judge(_history(Row("x", seen, verdict)), ["no-late-writes"])
    assert check.verdict is verdict, check.finding
    assert ("was moved or taken away" in check.finding.observed) is (verdict is INCONCLUSIVE)


def test_allowed_are_processes_of_that_name_and_never_the_leader() -> None:
    facts = Facts(_history(Row("x", agent(), KEPT, header={"allowed": {"agent-tool": "why", "leader": "no"}})), TERMS)
    assert facts.allowed == {TOOL: "why"}
    assert [one.subject for one in facts.first_run] == [LEADER]


def test_nobody_is_said_to_have_been_killed() -> None:
    """An agent's processes do not say how they end, so that no grace is measured by their deaths."""
    measured = measure(_history(Row("x", CLEAN, KEPT)))
    assert measured["grace_used_s"] is None
    assert measured["delivery_s"] is None, "nobody can tell whether an agent knew of its signal"
    assert measured["cancel_to_gone_s"] == pytest.approx(0.05)
