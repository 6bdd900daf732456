"""The course of one drill in a few lines, in seconds from pressed: words from a history, nothing judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_cancelcontract.history import TERMINAL, History, Observation

MOST_LINES = 12
"""More would push the message that it belongs to off the screen; the history has the rest."""


class _Moment(NamedTuple):
    at_s: float
    words: str


def timeline(history: History) -> list[str]:
    """What happened when, ``"+5.012 s  leader (pid 4711) is gone"``, in order of time; empty where nothing was ever pressed."""
    pressed = history.first("adapter", "pressed")
    if pressed is None:
        return []
    roles = _roles(history)
    moments = [_Moment(pressed.at_s, f"pressed ({pressed.data.get('how') or 'cancel'})")]
    for part in (
        _before(history, pressed),
        _noticed(history, roles, pressed),
        _gone(history, roles, pressed),
        _told(history),
        _limits(history, pressed),
    ):
        moments.extend(part)
    moments.sort()
    return [f"{moment.at_s - pressed.at_s:+9.3f} s  {moment.words}" for moment in _fewest(moments)]


def _roles(history: History) -> dict[str, str]:
    """``"leader (pid 4711)"`` by subject, for every process of the run; the second attempt's are marked as such."""
    first = _first_attempt(history)
    roles = {}
    for hello in history.of("lifeline", "hello"):
        again = "" if hello.data.get("attempt") == first else " of the second run"
        roles[hello.subject] = f"{hello.data.get('role', 'process')}{again} (pid {hello.subject.partition(':')[0]})"
    return roles


def _first_attempt(history: History) -> object:
    hello = history.first("lifeline", "hello")
    return None if hello is None else hello.data.get("attempt")


def _before(history: History, pressed: Observation) -> Iterator[_Moment]:
    works = [seen for seen in history.of("lifeline", "working") if seen.at_s <= pressed.at_s]
    if works:
        yield _Moment(works[-1].at_s, "the runner works, with all its processes")


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


def _gone(history: History, roles: dict[str, str], pressed: Observation) -> Iterator[_Moment]:
    said_goodbye = {seen.subject for seen in history.of("lifeline", "goodbye")}
    for died in history.of("process-table", "died"):
        if died.subject in roles:
            how = "ended by itself" if died.subject in said_goodbye else "was killed"
            yield _Moment(died.at_s, f"{roles[died.subject]} is gone, {how}")
    for ended in history.of("process-table", "wrapper-exited"):
        yield _Moment(ended.at_s, f"the wrapper exited with status {ended.data.get('status')}")
    wrote = [seen for seen in history.of("lifeline", "wrote") if seen.at_s >= pressed.at_s]
    if wrote:
        yield _Moment(wrote[-1].at_s, f"last write reported, by {roles.get(wrote[-1].subject, 'a process')}: {wrote[-1].data.get('path')}")


def _told(history: History) -> Iterator[_Moment]:
    for returned in history.of("adapter", "cancel-returned"):
        error = returned.data.get("error")
        yield _Moment(returned.at_s, f"the cancel call failed: {error}" if error else "the cancel call returned")
    for answer in history.of("outcome", "answer"):
        if answer.data.get("outcome") in TERMINAL:
            yield _Moment(answer.at_s, f"outcome reported: {answer.data['outcome']}")
            break
    for restarting in history.of("adapter", "restarting"):
        yield _Moment(restarting.at_s, "the same task is started again")


def _limits(history: History, pressed: Observation) -> Iterator[_Moment]:
    terms = history.header.get("terms", {})
    try:
        limit = sum(float(terms[name]["value"]) for name in ("delivery", "grace", "kill_within"))
    except (KeyError, TypeError, ValueError):
        return
    looks = [look for look in history.of("process-table", "look") if look.data.get("moment") == "deadline"]
    alive = _alive(looks[-1].data.get("processes", ())) if looks else None
    words = "" if alive is None else f"; alive: {', '.join(alive)}" if alive else "; nothing is alive"
    yield _Moment(pressed.at_s + limit, f"the deadline{words}")


def _alive(processes: Iterable[dict[str, object]]) -> list[str]:
    return [
        f"{seen.get('role') or 'process'} (pid {str(seen.get('subject')).partition(':')[0]})" for seen in processes if seen.get("alive")
    ]


def _fewest(moments: list[_Moment]) -> list[_Moment]:
    """Both ends of a long list: how it began and how it ended say the most."""
    if len(moments) <= MOST_LINES:
        return moments
    head, tail = moments[: MOST_LINES // 2], moments[-(MOST_LINES - MOST_LINES // 2 - 1) :]
    left_out = len(moments) - len(head) - len(tail)
    return [*head, _Moment(head[-1].at_s, f"… {left_out} more in the history"), *tail]
