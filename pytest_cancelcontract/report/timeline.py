"""The course of one drill in a few lines, in seconds from pressed: words from a history, nothing judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from pytest_cancelcontract.clauses import latency
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.words import seconds
from pytest_cancelcontract.history import TERMINAL, History, Observation
from pytest_cancelcontract.report.fleeting import FLEETING_S
from pytest_cancelcontract.terms import BadTerm, Terms

MOST_LINES = 12
"""More would push the message that it belongs to off the screen; the history has the rest."""


class _Moment(NamedTuple):
    """``is_vital`` what no shortening leaves out: the press, what was reported, limits, and what was alive at them."""

    at_s: float
    words: str
    is_vital: bool = False


def timeline(history: History, *, most_lines: int | None = MOST_LINES) -> list[str]:
    """What happened when, ``"+5.012 s  leader (pid 4711) is gone"``, in order of time; empty where nothing was ever pressed.

    Times count from the press, or from what was done to the run in its place. ``most_lines`` is None for all there is to tell.
    """
    pressed = next((seen for seen in history.of("adapter") if seen.kind == "pressed" or seen.data.get("trigger")), None)
    if pressed is None:
        return []
    roles = _roles(history)
    reached = history.first("drill", "reached")
    where = f", {reached.data.get('what')}" if reached else ""
    how = pressed.data.get("how") or "cancel"
    done = f"pressed ({how})" if pressed.kind == "pressed" else f"in place of cancel: {how}"
    zero_s = _zero_s(history, pressed)
    moments = [_Moment(zero_s, f"{done}{where}", is_vital=True)]
    for part in (
        _works(history, roles, pressed),
        _noticed(history, roles, pressed),
        _stopped(history, roles),
        _gone(history, roles, pressed),
        _told(history),
        _carried(history),
        _others_started(history),
        _others_seen(history, roles),
        _limits(history, roles),
    ):
        moments.extend(part)
    moments.sort()
    shown = moments if most_lines is None else _fewest(moments, most_lines)
    return [f"{moment.at_s - zero_s:+9.3f} s  {moment.words}" for moment in shown]


def _zero_s(history: History, pressed: Observation) -> float:
    """From when times count: as in the findings, which stand beside them."""
    try:
        return Facts(history, Terms()).pressed_s
    except _UNREADABLE:
        return pressed.at_s


def _roles(history: History) -> dict[str, str]:
    """``"leader (pid 4711)"`` by subject, for every process of the drill; those of another run or attempt are marked as such."""
    first = next((seen.data.get("attempt") for seen in history.of("lifeline", "hello") if _run(seen) == "first"), None)
    restarting = history.first("adapter", "restarting")
    roles = {}
    for hello in history.of("lifeline", "hello"):
        again = " of the second run" if restarting is not None and hello.at_s >= restarting.at_s else _REVIVED
        of = _OTHERS.get(_run(hello), "" if hello.data.get("attempt") == first else again)
        roles[hello.subject] = f"{hello.data.get('role', 'process')}{of} (pid {hello.subject.partition(':')[0]})"
    return {**roles, **_found(history)}


def _found(history: History) -> dict[str, str]:
    """The same of an agent's processes, which said no hello and were found; none of what came and went before the press."""
    pressed = next((seen.at_s for seen in history.of("adapter", "pressed")), 0.0)
    dead = {seen.subject for seen in history.of("process-table", "died") if seen.at_s < pressed}
    named = {seen.subject: seen.data.get("comm") for seen in history.of("process-table", "named")}
    is_live = bool(history.header.get("live"))
    return {
        held.subject: f"{_found_name(held, named.get(held.subject), is_live)} (pid {held.subject.partition(':')[0]})"
        for held in history.of("process-table", "held")
        if held.data.get("found") and held.subject not in dead
    }


def _found_name(held: Observation, name: object, is_live: bool) -> str:
    """Its command's name, or its role; of a live run, whose leader the operator chose, both."""
    role = str(held.data.get("role"))
    if is_live and role == "leader" and (name := name or held.data.get("comm")):
        return f"{name}, the leader"
    return str(name or role)


def _fleeting(history: History) -> frozenset[str]:
    """Of the found processes those that were dead again soon, the leader never; nothing where it is a single one."""
    came = {one.subject: one.at_s for one in history.of("process-table", "held") if one.data.get("found") and not _leads(one)}
    found = [one.subject for one in history.of("process-table", "died") if one.at_s - came.get(one.subject, -math.inf) < FLEETING_S]
    return frozenset(found if len(found) > 1 else ())


def _leads(seen: Observation) -> bool:
    return seen.data.get("role") == "leader"


_REVIVED = " of a new attempt"
_OTHERS = {"bystander": " of the bystander", "next": " of the next task"}


def _run(seen: Observation) -> str:
    """Which run of the drill this is about."""
    return str(seen.data.get("run") or "first")


def _works(history: History, roles: dict[str, str], pressed: Observation) -> Iterator[_Moment]:
    runs = {hello.subject: _run(hello) for hello in history.of("lifeline", "hello")}
    works = [seen for seen in history.of("lifeline", "working") if runs.get(seen.subject, "first") == "first"]
    before = [seen for seen in works if seen.at_s <= pressed.at_s]
    if before:
        yield _Moment(before[-1].at_s, "the runner works, with all its processes")
    for seen in works[len(before) :]:
        yield _Moment(seen.at_s, f"{roles.get(seen.subject, 'a process')} works")
    for hello in history.of("lifeline", "hello"):
        if roles[hello.subject].partition(" (")[0].endswith(_REVIVED):
            yield _Moment(hello.at_s, f"{roles[hello.subject]} began by itself")
    for seen in history.of("lifeline", "ready"):
        yield _Moment(seen.at_s, f"{roles.get(seen.subject, 'a process')} is held, before it works")
    for seen in history.of("drill", "released"):
        yield _Moment(seen.at_s, f"{roles.get(seen.subject, 'the runner')} is let go on: {seen.data.get('why')}")


def _noticed(history: History, roles: dict[str, str], pressed: Observation) -> Iterator[_Moment]:
    told: set[str] = set()
    for notice in history.of("lifeline", "notice"):
        if notice.subject in told:
            continue
        told.add(notice.subject)
        sender = notice.data.get("from_pid")
        by = f"{notice.data.get('by', 'something')}" + (f" from pid {sender}" if sender else "")
        early = ", before pressed" if notice.at_s < pressed.at_s else ""
        yield _Moment(notice.at_s, f"{roles.get(notice.subject, 'a process')} noticed {by}{early}")


def _stopped(history: History, roles: dict[str, str]) -> Iterator[_Moment]:
    """What was read from outside of a process that is stopped, and can tell nothing itself."""
    for seen in history.of("process-table", "stopped", "pending", "input-ended"):
        name = roles.get(seen.subject, "a process")
        if seen.kind == "stopped":
            yield _Moment(seen.at_s, f"{name} is stopped")
        elif seen.kind == "pending":
            yield _Moment(seen.at_s, f"{' and '.join(seen.data.get('signals') or ['a signal'])} waits for {name}, which is stopped")
        else:
            yield _Moment(seen.at_s, f"the input of {name}, which is stopped, has ended")


def _gone(history: History, roles: dict[str, str], pressed: Observation) -> Iterator[_Moment]:
    said_goodbye = {seen.subject for seen in history.of("lifeline", "goodbye")}
    found, fleeting = _found(history), _fleeting(history)
    leaders = {one.subject for one in history.of("process-table", "held") if _leads(one)}
    ends = [one for one in history.of("process-table", "died") if one.subject in roles]
    for died in ends:
        if died.subject not in fleeting:
            # Of one that was found and says nothing, nobody can tell how it ended.
            how = "" if died.subject in found else ", ended by itself" if died.subject in said_goodbye else ", was killed"
            yield _Moment(died.at_s, f"{roles[died.subject]} is gone{how}", is_vital=died.subject in leaders & found.keys())
    if folded := [one.at_s for one in ends if one.subject in fleeting]:
        yield _Moment(max(folded), f"… and {len(folded)} short-lived processes, the last of them gone now")
    for ended in history.of("process-table", "wrapper-exited"):
        yield _Moment(ended.at_s, f"{_started(history, ended)} exited with status {ended.data.get('status')}")
    for ended in history.of("process-table", "host-exited"):
        yield _Moment(ended.at_s, f"the process that hosts the adapter exited with status {ended.data.get('status')}")
    wrote = [seen for seen in history.of("lifeline", "wrote") if seen.at_s >= pressed.at_s]
    if wrote:
        yield _Moment(wrote[-1].at_s, f"last write reported, by {roles.get(wrote[-1].subject, 'a process')}: {wrote[-1].data.get('path')}")


def _started(history: History, ended: Observation) -> str:
    """What it was that was started, and has ended."""
    if history.header.get("live"):
        return "the command that was started"
    return "the agent" if history.header.get("agent") else f"the wrapper{_OTHERS.get(_run(ended), '')}"


def _told(history: History) -> Iterator[_Moment]:
    for again in history.of("adapter", "pressed-again"):
        yield _Moment(again.at_s, f"pressed again ({again.data.get('how') or 'cancel'})")
    for returned in history.of("adapter", "cancel-returned", "cancel-again-returned"):
        call = "the cancel call" if returned.kind == "cancel-returned" else "the second cancel call"
        error = returned.data.get("error")
        yield _Moment(returned.at_s, f"{call} failed: {error}" if error else f"{call} returned")
    before, is_cancelling = None, False
    for answer in history.of("outcome", "answer"):
        outcome = answer.data.get("outcome")
        if outcome == "cancelling" and not is_cancelling:
            is_cancelling = True
            yield _Moment(answer.at_s, "outcome: cancelling")
        if before is None and outcome in TERMINAL:
            yield _Moment(answer.at_s, f"outcome reported: {outcome}", is_vital=True)
            before = outcome
        elif before not in {None, outcome}:
            yield _Moment(answer.at_s, f"the outcome is another one: {outcome}", is_vital=True)
            before = outcome
    for restarting in history.of("adapter", "restarting"):
        yield _Moment(restarting.at_s, "the same task is started again")


def _others_started(history: History) -> Iterator[_Moment]:
    for seen in history.of("adapter", "other-starting", "other-started", "other-not-up"):
        name = _NAMES.get(_run(seen), "another run")
        if seen.kind == "other-starting":
            yield _Moment(seen.at_s, f"{name} is started")
        elif seen.kind == "other-not-up":
            yield _Moment(seen.at_s, f"{name} did not come up: {seen.data.get('why')}")
        elif seen.data.get("error"):
            yield _Moment(seen.at_s, f"{name} could not be started: {seen.data['error']}")


def _others_seen(history: History, roles: dict[str, str]) -> Iterator[_Moment]:
    """How the bystander stood before the drill let it go, and the outcomes of the other runs."""
    came = (*history.of("lifeline", "hello"), *history.of("process-table", "held"))
    bystanders = {seen.subject for seen in came if _run(seen) == "bystander"}
    for look in history.of("process-table", "look"):
        if look.data.get("moment") == "bystander":
            stands = [one for one in look.data.get("processes", ()) if one.get("subject") in bystanders and one.get("alive")]
            alive = [f"{_name(one, roles)}, state {one.get('state')}" for one in stands]
            yield _Moment(look.at_s, f"the bystander is let go; alive until then: {', '.join(alive) or 'nothing of it'}")
    for run, name in _NAMES.items():
        told = [seen for seen in history.of("outcome", "other-answer") if _run(seen) == run]
        if shown := next((seen for seen in told if seen.data.get("outcome") in TERMINAL), told[-1] if told else None):
            yield _Moment(shown.at_s, f"outcome of {name}: {shown.data.get('outcome')}")


_NAMES = {"bystander": "the bystander", "next": "the next task"}


_UNREADABLE = (BadTerm, KeyError, TypeError, AttributeError, ValueError)
"""What a history raises from which somebody has taken away what it needs."""


def _carried(history: History) -> Iterator[_Moment]:
    """The heartbeat that the cancel came on."""
    try:
        carrier = latency.carrier(Facts(history, Terms.from_dict(history.header["terms"])))
    except _UNREADABLE:
        return
    if carrier is not None:
        after = f", {seconds(carrier.interval_s)} after the one before it" if carrier.interval_s is not None else ""
        yield _Moment(carrier.at_s, f"the heartbeat whose answer is the cancel{after}")


def _limits(history: History, roles: dict[str, str]) -> Iterator[_Moment]:
    try:
        deadline_s = Facts(history, Terms.from_dict(history.header["terms"])).deadline_s
    except _UNREADABLE:
        return
    looks = [look for look in history.of("process-table", "look") if look.data.get("moment") == "deadline"]
    alive = _alive(looks[-1], roles, _fleeting(history)) if looks else None
    # What comes and goes within milliseconds may be between two of its processes while a look is taken.
    came = any(one.at_s > deadline_s for one in history.of("process-table", "held", "found", "missed"))
    none = "this look finds nothing alive" if came else "nothing is alive"
    words = f"alive: {', '.join(alive)}" if alive else none
    yield _Moment(deadline_s, "the deadline" if alive is None else f"the deadline; {words}", is_vital=True)


def _alive(look: Observation, roles: dict[str, str], fleeting: frozenset[str]) -> list[str]:
    """Who lives, those that came to stay by name."""
    subjects = {str(one.get("subject")): one for one in look.data.get("processes", ()) if one.get("alive")}
    named = [_name(one, roles) for subject, one in subjects.items() if subject not in fleeting]
    passing = len(subjects) - len(named)
    return [*named, *([f"{passing} short-lived"] if passing else [])]


def _name(seen: dict[str, object], roles: dict[str, str]) -> str:
    subject = str(seen.get("subject"))
    return roles.get(subject) or f"{seen.get('role') or 'process'} (pid {subject.partition(':')[0]})"


def _fewest(moments: list[_Moment], most_lines: int) -> list[_Moment]:
    """What is vital, and both ends of the rest: how it began and how it ended say the most."""
    if len(moments) <= most_lines:
        return moments
    rest = [moment for moment in moments if not moment.is_vital]
    room = max(2, most_lines - 1 - (len(moments) - len(rest)))
    left_out = rest[room // 2 : len(rest) - (room - room // 2)]
    if not left_out:
        return moments
    gap = _Moment(left_out[0].at_s, f"… {len(left_out)} more in the history")
    return sorted([*(moment for moment in moments if moment not in left_out), gap], key=lambda moment: moment.at_s)
