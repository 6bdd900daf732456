"""The cancel contract as a table, and the judge who walks it.

Pure: the same history gives the same checks on any machine, a year later.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.clauses import (
    bystander_unharmed,
    cancel_any_time,
    cancel_delivered,
    cancel_idempotent,
    floor_holds,
    fresh_start,
    grace_bounded,
    grace_given,
    heartbeat_ends,
    heartbeat_steady,
    latency,
    lease_fenced,
    no_late_writes,
    no_overlap,
    no_survivors,
    no_zombies,
    outcome_not_early,
    outcome_not_success,
    outcome_reported,
    requests_closed,
    slot_reusable,
    spend_stops,
    stall_detected,
    stays_ended,
    words,
)
from pytest_cancelcontract.clauses.facts import Facts, act_of
from pytest_cancelcontract.clauses.members import BYSTANDER, NEXT
from pytest_cancelcontract.finding import Check, Finding, Level, Verdict, worst
from pytest_cancelcontract.history import OUTCOME_CAPABILITIES, History
from pytest_cancelcontract.scenarios import SCENARIOS, Act, Scenario, Trigger, by_id
from pytest_cancelcontract.terms import Terms

OUTCOME_METHODS = "wait(handle) or outcome(handle) in the adapter"


class UnknownClause(ValueError):
    """No clause of that id; the message lists the ids that exist."""


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """One promise.

    ``needs`` names the adapter's capabilities of which it takes one (none: it takes nothing), and ``lacks`` says that for people.
    ``habits`` are those of a runner of which one is needed to show anything (none: any runner does), ``acts`` those of a drill (none: any
    act does), and ``term`` is the term without whose value it promises nothing. An act that cannot show it may still disprove it.
    """

    id: str
    level: Level
    promise: str
    check: Callable[[Facts], Finding]
    needs: tuple[str, ...] = ()
    lacks: str = ""
    habits: tuple[str, ...] = ()
    acts: tuple[str, ...] = ()
    term: str = ""

    def level_in(self, history: History) -> Level:
        """How firmly it is promised there: an exit status alone is no record of a cancel."""
        is_status_only = self.id == "outcome-not-success" and "exit" in history.capabilities
        return Level.SHOULD if is_status_only else self.level


def _outcome(id: str, promise: str, check: Callable[[Facts], Finding]) -> ClauseRow:
    return ClauseRow(id, Level.MUST, promise, check, OUTCOME_CAPABILITIES, OUTCOME_METHODS)


def _heartbeat(id: str, level: Level, promise: str, check: Callable[[Facts], Finding]) -> ClauseRow:
    return ClauseRow(id, level, promise, check, ("heartbeats",), "heartbeats(handle) in the adapter", term="heartbeat_timeout")


HEARTBEATS = ("heartbeat-steady", "heartbeat-ends")
"""The clauses that join wherever heartbeats were seen and the wrapper was let alone."""
NEEDS = {
    "disrupt": "disrupt(handle, how) in the adapter, or a command under which the wrapper can be told from its platform",
    "limit": "a platform that is given the time limit: {time_limit} in the command, or disrupt(handle, how) in the adapter",
    "stall": "{stall_after} in the command",
    "engine": "engine(handle, state) in the adapter",
    "never-resumed": "the rule that a run which ended by itself may not be built on either (resume: never)",
}
"""What a scenario may need of an adapter, or of the rules, in words for people."""

CLAUSES: tuple[ClauseRow, ...] = (
    ClauseRow("cancel-delivered", Level.MUST, "a press reaches the run within `delivery`, as a notice or as force", cancel_delivered.check),
    ClauseRow(
        "grace-given", Level.MUST, "a clean-up of `cleanup` seconds is let finish", grace_given.check, habits=("slow-cleanup", "slow-child")
    ),
    ClauseRow(
        "grace-bounded", Level.MUST, "a run that ignores its notice is gone within `grace` + `kill_within` of it", grace_bounded.check
    ),
    ClauseRow("no-survivors", Level.MUST, "after the deadline nothing of the run is alive", no_survivors.check),
    ClauseRow("no-zombies", Level.SHOULD, "a wrapper that lives on has waited for what it started", no_zombies.check),
    _outcome(
        "outcome-reported", "the cancel call returns and the outcome is terminal within `kill_within` of gone", outcome_reported.check
    ),
    _outcome("outcome-not-early", "the outcome is terminal no more than `early` before gone", outcome_not_early.check),
    _outcome(
        "outcome-not-success",
        "a cancelled run is not called a success, then or after `settle` (a SHOULD where the outcome is only an exit status)",
        outcome_not_success.check,
    ),
    ClauseRow(
        "stays-ended",
        Level.MUST,
        "nothing of the task starts again by itself for `retry`",
        stays_ended.check,
        acts=("cancel-then-watch",),
    ),
    ClauseRow(
        "no-late-writes", Level.MUST, "from the handover on the run changes nothing in or beside its workspace", no_late_writes.check
    ),
    ClauseRow("fresh-start", Level.MUST, "the next start of the task finds nothing of a run that was killed", fresh_start.check),
    ClauseRow("no-overlap", Level.MUST, "the next start waits until nothing of the last run is alive", no_overlap.check),
    ClauseRow("spend-stops", Level.MUST, "the provider's meter stands still `spend_within` after the handover", spend_stops.check),
    ClauseRow("requests-closed", Level.SHOULD, "no request of the run is open at the provider after that", requests_closed.check),
    ClauseRow(
        "floor-holds",
        Level.MUST,
        "the run ends by its time limit, also without its wrapper and without a cancel",
        floor_holds.check,
        acts=("kill-wrapper", "freeze-wrapper", "leave-alone"),
    ),
    ClauseRow(
        "stall-detected",
        Level.MUST,
        "a run that makes no progress for `stall_after` is ended, though it is alive",
        stall_detected.check,
        acts=("await-stall",),
    ),
    _heartbeat(
        "heartbeat-steady", Level.MUST, "heartbeats keep coming within `heartbeat_timeout` until the run is gone", heartbeat_steady.check
    ),
    _heartbeat("heartbeat-ends", Level.SHOULD, "heartbeats end with the run", heartbeat_ends.check),
    ClauseRow(
        "lease-fenced",
        Level.SHOULD,
        "a wrapper cut off from its engine for `lease` has stopped its run",
        lease_fenced.check,
        acts=("lose-engine",),
    ),
    ClauseRow(
        "bystander-unharmed",
        Level.MUST,
        "cancelling one run leaves another at work, and the test process alive",
        bystander_unharmed.check,
        acts=("cancel-one-of-two",),
    ),
    ClauseRow("cancel-idempotent", Level.MUST, "a second cancel does no harm", cancel_idempotent.check, acts=("cancel-twice",)),
    ClauseRow(
        "cancel-any-time",
        Level.MUST,
        "a cancel works before the runner is up, and changes nothing after its end",
        cancel_any_time.check,
        acts=("cancel-at-start", "cancel-after-end"),
    ),
    ClauseRow(
        "slot-reusable",
        Level.SHOULD,
        "the next task runs as usual on the same wrapper",
        slot_reusable.check,
        acts=("cancel-then-next-task",),
    ),
)
"""Every clause of the contract, in the order in which they are reported."""


def clause(id: str) -> ClauseRow:
    """The row of that id.

    Raises:
        UnknownClause: there is none.
    """
    for row in CLAUSES:
        if row.id == id:
            return row
    raise UnknownClause(f"unknown clause {id!r}; the clauses are {', '.join(row.id for row in CLAUSES)}")


def judge(history: History, clauses: Collection[str] | None = None) -> tuple[Check, ...]:
    """Judge a drill, in report order; whatever the history lacks, every clause gets an answer.

    Args:
        clauses: ids to judge, whether or not the scenario's row names them; by default those that it names.
    Raises:
        UnknownClause: an id that does not exist.
        UnknownScenario: the header's scenario is not in the table, and no clauses are given.
    """
    scenario = str(history.header.get("scenario", ""))
    rows = {clause(id).id for id in (clauses_of(history) if clauses is None else clauses)}
    facts, trouble = _read(history)
    found = []
    for row in CLAUSES:
        if row.id in rows:
            finding = _not_covered(row, history) or _not_applicable(row, history) or trouble or _judge_one(row, facts)
            found.append(Check(scenario, row.id, row.level_in(history), finding))
    return tuple(found)


def clauses_of(history: History, wanted: Collection[str] | None = None, chosen: Collection[str] | None = None) -> tuple[str, ...]:
    """What this drill is judged by: ``wanted``, or what its scenario names, and what it shows besides.

    Heartbeats are judged wherever they were seen, unless clauses were ``chosen`` and theirs are not among them.

    A wrapper whose cancel would have killed pytest breaks ``bystander-unharmed``, whatever the scenario was meant to show.

    Raises:
        UnknownScenario: the header's scenario is not in the table, and no clauses are given.
    """
    # A trial of an agent is no scenario, and names its clauses itself.
    named = history.header.get("clauses") if wanted is None else wanted
    ids = list(by_id(str(history.header.get("scenario", ""))).clauses if named is None else named)
    try:
        has_killed_its_host = bystander_unharmed.host_death(Facts(history, Terms())) is not None
    except Exception:  # A history that cannot be read proves nothing; the clauses meet the same trouble, and show it.
        has_killed_its_host = False
    joining = ["bystander-unharmed"] if has_killed_its_host else []
    if _has_heartbeats(history):
        joining += [id for id in HEARTBEATS if chosen is None or id in chosen]
    return tuple(dict.fromkeys([*ids, *joining]))


def _has_heartbeats(history: History) -> bool:
    """The engine was asked for its heartbeats, and nobody disturbed the wrapper that makes them."""
    act = act_of(history)
    is_press = act not in set(Act) or Act(act).trigger is Trigger.PRESSED
    return is_press and not history.header.get("may_not_start") and history.first("engine", "heartbeats") is not None


def uncovered(scenario: Scenario, capabilities: Collection[str], terms: Terms) -> str:
    """What is lacking for a scenario to be run at all, in words; nothing where it can be."""
    if missing := next((need for need in scenario.needs if need not in capabilities), ""):
        return NEEDS[missing]
    term = terms.limit_after(scenario.act.trigger)[0]
    return f"a value of the term {term}" if terms.value(term) is None else ""


def not_covered(scenario: Scenario, lacks: str, wanted: Collection[str] | None = None) -> tuple[Check, ...]:
    """The checks of a scenario that was not run for what is lacking."""
    ids = [id for id in scenario.clauses if wanted is None or id in wanted]
    return tuple(Check(scenario.id, row.id, row.level, Finding(Verdict.NOT_COVERED, "", lacks=lacks)) for row in map(clause, ids))


def _not_covered(row: ClauseRow, history: History) -> Finding | None:
    if row.needs and not history.capabilities.intersection(row.needs):
        return Finding(Verdict.NOT_COVERED, "", lacks=row.lacks)
    if row.term and not _has_value(history, row.term):
        return Finding(Verdict.NOT_COVERED, "", lacks=f"a value of the term {row.term}")
    return None


def _has_value(history: History, term: str) -> bool:
    terms = history.header.get("terms")
    told = terms.get(term) if isinstance(terms, Mapping) else None
    return isinstance(told, Mapping) and told.get("value") is not None


def _not_applicable(row: ClauseRow, history: History) -> Finding | None:
    has = history.header.get("habits") or ()
    if not row.habits or not has or set(row.habits).intersection(has):
        return None
    return Finding(Verdict.NOT_APPLICABLE, f"this runner ({', '.join(has)}) cannot show it: that takes {' or '.join(row.habits)}")


def _read(history: History) -> tuple[Facts, Finding | None]:
    """The facts, and why nothing can be judged by them, if so."""
    facts = Facts(history, Terms())
    try:
        facts = Facts(history, Terms.from_dict(history.header["terms"]))
        return facts, _why_not_judged(facts)
    except Exception:  # A history that cannot be read proves nothing; what is wrong with it is the evidence.
        return facts, _raised("the history cannot be read")


def _judge_one(row: ClauseRow, facts: Facts) -> Finding:
    try:
        found = row.check(facts)
    except Exception:  # A clause that raises has judged nothing; its traceback is the evidence.
        return _raised(f"the clause {row.id} raised")
    return _not_shown(row, facts.history) or found if found.verdict is Verdict.INCONCLUSIVE else found


def _not_shown(row: ClauseRow, history: History) -> Finding | None:
    """Why a drill in which nothing was found had nothing to show, if so."""
    if not row.acts or acts_in(history).intersection(row.acts):
        return None
    scenarios = [one.id for one in SCENARIOS if row.id in one.clauses]
    shown = (
        f"the scenario{'s' if len(scenarios) > 1 else ''} {' and '.join(scenarios)} can"
        if scenarios
        else f"it takes {' or '.join(row.acts)}"
    )
    return Finding(Verdict.NOT_APPLICABLE, f"this drill ({act_of(history)}) cannot show it: {shown}")


def acts_in(history: History) -> frozenset[str]:
    """What was done in this drill: its act by the header, and what else a test did that pressed the buttons itself."""
    others = {one.data.get("run") for one in history.of("adapter", "other-starting", "other-started")}
    done = {
        "cancel-twice": history.first("adapter", "pressed-again") is not None,
        "cancel-one-of-two": BYSTANDER in others,
        "cancel-then-next-task": NEXT in others,
    }
    return frozenset({act_of(history), *(act for act, is_done in done.items() if is_done)})


def _raised(what: str) -> Finding:
    lines = [line.strip() for line in traceback.format_exc().splitlines() if line.strip()]
    return words.inconclusive(f"{what}: {lines[-1]}", "", seen_by=" | ".join(lines), advice="report this, with the history, as a bug")


def _why_not_judged(facts: Facts) -> Finding | None:
    """What keeps the whole drill from being judged: it must have worked, been pressed, and not been disturbed before."""
    working = "every process of the run at work when cancel is pressed"
    problems = words.several([str(one.data.get("what")) for one in facts.history.of("drill", "problem")])
    if not facts.is_pressed:
        return words.inconclusive(f"cancel was never pressed{': ' if problems else ''}{problems}", working, seen_by="adapter")
    if facts.idle_roles and not facts.may_not_start:
        observed = f"the runner never worked: {words.several(facts.idle_roles, ', ')} did not say so before pressed{_unarmed(facts)}"
        return words.inconclusive(observed, working, seen_by="lifeline", likely=problems)
    if facts.report is not None and facts.report.answered_s < facts.pressed_s and facts.act != cancel_any_time.AFTER_END:
        observed = f"the outcome was {facts.report.outcome!r} already {words.after_press(facts, facts.report.answered_s)}, before pressed"
        return words.inconclusive(observed, "the run goes on until cancel is pressed", seen_by=f"outcome, by {facts.report.by}")
    if (lost := facts.history.first("process-table", "launcher-lost")) is not None:
        since = words.after_press(facts, lost.at_s)
        observed = f"what adopts the agent's orphans was gone {since}: who lost its parent then, and how the agent ended, is not known"
        return words.inconclusive(observed, "it lives as long as the trial", seen_by="its socket", likely=problems, spoilt=True)
    expected = "nothing signals the run before cancel is pressed"
    if facts.stray_notices:
        stray = facts.stray_notices[0]
        observed = f"{words.by(stray)} reached pid {stray.subject.partition(':')[0]} {words.after_press(facts, stray.at_s)}"
        return words.inconclusive(f"{observed}, before pressed", expected, seen_by="lifeline", spoilt=True)
    if facts.early_deaths:
        killed = facts.early_deaths[0]
        observed = f"{words.who(killed)} was killed {words.after_press(facts, killed.death.latest_s)}, before pressed"
        return words.inconclusive(observed, expected, seen_by="pidfd", spoilt=True)
    return None


def _unarmed(facts: Facts) -> str:
    unarmed = facts.history.first("lifeline", "unarmed")
    refused = facts.history.first("lifeline", "refused")
    if unarmed is not None:
        return f"; it could not prove its habit {unarmed.data.get('habit')}: {unarmed.data.get('why')}"
    return f"; one was refused: {refused.data.get('reason')}" if refused is not None else ""


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """The worst of all that were judged, whatever their level; none is inconclusive."""
    return worst(check.verdict for check in checks)


def is_spoilt(checks: Iterable[Check]) -> bool:
    """Whether the machine, and not the wrapper, is why something could not be said."""
    return any(check.finding.spoilt for check in checks)


NOT_MEASURED: dict[str, Any] = {
    "answered_s": None,
    "heartbeat_interval_s": None,
    "delivery_s": None,
    "grace_used_s": None,
    "cancel_to_gone_s": None,
    "cancel_to_reported_s": None,
    "early_s": None,
    "late_writes": None,
    "late_tokens": None,
    "survivors": None,
    "clock_error_s": None,
}


def measure(history: History) -> dict[str, Any]:
    """What the drill measured, in seconds and counts; None for what was not, which is never 0.

    ``answered_s`` is from pressed until the engine is known to have taken the cancel: its call had come back, or its record said so.
    ``heartbeat_interval_s`` is the time between the heartbeat whose answer carried the cancel and the one before it, as the engine had
    them: what a press may have to wait for. None where it cannot be told which one that was.
    ``grace_used_s`` is from the first notice to the first use of force, so None where no force was used. ``early_s`` is from
    reported to gone, below 0 where gone came first. ``late_writes`` counts entries of the workspace, and
    ``late_tokens`` what the provider produced for the run after the handover.
    """
    facts, trouble = _read(history)
    if trouble is not None:
        return dict(NOT_MEASURED)
    try:
        return {**NOT_MEASURED, **_durations(facts), **_counts(facts)}
    except Exception:  # The clauses meet the same trouble, and show it.
        return dict(NOT_MEASURED)


def _durations(facts: Facts) -> dict[str, float | None]:
    pressed_s = facts.pressed_s
    answered_s, carrier = latency.answered_s(facts), latency.carrier(facts)
    came, gone, report = cancel_delivered.delivered(facts), facts.gone, facts.report
    killed_s = facts.killed[0].died_s if facts.killed else None
    noticed_s = facts.notice.at_s if facts.notice else None
    has_used_grace = killed_s is not None and noticed_s is not None and killed_s >= noticed_s
    error_s = facts.lateness_s(pressed_s, max(facts.watched_until_s, pressed_s))
    # What was seen by looks only is not a measurement.
    is_exact = gone.is_closed and gone.earliest_s == gone.latest_s
    # The end of a run that had ended before is no answer to the press.
    has_answered = report is not None and report.answered_s >= pressed_s
    return {
        "answered_s": None if answered_s is None else _rounded(answered_s - pressed_s),
        "heartbeat_interval_s": None if carrier is None or carrier.interval_s is None else _rounded(carrier.interval_s),
        # An agent gets the signal itself, and whether it knew of it nobody tells.
        "delivery_s": _rounded(came.latest_s - pressed_s) if came.is_closed and not facts.is_agent else None,
        "grace_used_s": _rounded((killed_s or 0.0) - (noticed_s or 0.0)) if has_used_grace else None,
        "cancel_to_gone_s": _rounded(gone.latest_s - pressed_s) if is_exact and gone.latest_s >= pressed_s else None,
        "cancel_to_reported_s": _rounded(report.answered_s - pressed_s) if report and has_answered else None,
        "early_s": _rounded(gone.latest_s - report.answered_s) if report and is_exact else None,
        "clock_error_s": _rounded(error_s) if error_s < float("inf") else None,
    }


def _counts(facts: Facts) -> dict[str, int | None]:
    survived = no_survivors.check(facts).verdict is not Verdict.INCONCLUSIVE
    wrote = no_late_writes.check(facts).verdict is not Verdict.INCONCLUSIVE
    spent = spend_stops.check(facts).verdict is not Verdict.INCONCLUSIVE
    return {
        "survivors": len(no_survivors.survivors(facts)) if survived else None,
        "late_writes": len({one.path for one in no_late_writes.late_writes(facts)}) if wrote else None,
        "late_tokens": spend_stops.late_tokens(facts) if spent else None,
    }


def _rounded(value_s: float) -> float:
    return round(value_s, 6)
