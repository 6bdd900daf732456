"""Small makers of observations, and of a whole drill's, for the tables of rows. All times are told from the press.

``story`` makes what a complete set of witnesses would have written of a drill; a row then says what is different in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Check, Finding, Verdict
from pytest_cancelcontract.history import History, Observation
from pytest_cancelcontract.terms import Terms, settle_terms

PRESSED_S = 100.0
TOKEN, FIRST, SECOND = "k3f9", "k3f9-1", "k3f9-2"
STARTER = "50:9"
LEADER = "4700:1000"
SECOND_LEADER = "4800:3000"
BYSTANDER = "4750:1100"
NEXT_LEADER = "4850:3100"
REVIVED = "4900:3200"
WORKSPACE = "/drill/work/workspace"
_PIDS = {"leader": LEADER, "deaf-child": "4711:1001", "daemon": "4712:1002", "successor": "4713:1003", "slow-child": "4714:1004"}

KEPT, BROKEN, INCONCLUSIVE, NOT_COVERED = Verdict.KEPT, Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.NOT_COVERED


def subject_of(role: str) -> str:
    """The identity that stories give to a role of the first run."""
    return _PIDS[role]


def saw(witness: str, kind: str, at_s: float, subject: str = "", /, **data: Any) -> Observation:
    """Any observation."""
    return Observation(round(PRESSED_S + at_s, 6), witness, kind, subject, data)


# --- Lifeline ---------------------------------------------------------------------------------------------------------


def hello(at_s: float = -1.0, role: str = "leader", *, subject: str = "", attempt: str = FIRST, **data: Any) -> Observation:
    """A process's hello; a leader names the roles that its attempt will have (``roles=``)."""
    subject = subject or subject_of(role)
    data.setdefault("pid", int(subject.partition(":")[0]))
    if role == "leader":
        data.setdefault("roles", ["leader"])
    return saw("lifeline", "hello", at_s, subject, role=role, attempt=attempt, said_at_s=PRESSED_S + at_s, **data)


def says(kind: str, at_s: float, role: str = "leader", *, subject: str = "", **data: Any) -> Observation:
    """Whatever else a process says over its lifeline."""
    return saw("lifeline", kind, at_s, subject or subject_of(role), said_at_s=PRESSED_S + at_s, **data)


def notice(at_s: float, role: str = "leader", by: str = "SIGTERM", *, subject: str = "") -> Observation:
    """A process had notice."""
    return says("notice", at_s, role, subject=subject, by=by, from_pid=50, from_uid=0)


def wrote(at_s: float, role: str = "leader", count: int = 20, path: str = "") -> Observation:
    """A process says that it wrote."""
    return says("wrote", at_s, role, path=path or f"{WORKSPACE}/uncooperative-{role}.log", count=count)


# --- Process table ----------------------------------------------------------------------------------------------------


def held(at_s: float = -1.0, role: str = "leader", *, subject: str = "", attempt: str = FIRST, **data: Any) -> Observation:
    """The recorder holds the process by pidfd."""
    subject = subject or subject_of(role)
    standing = {"ppid": 50, "parent": STARTER, "pgid": 4700, "sid": 4700, "comm": "python", "by": "peer pidfd"} | data
    return saw("process-table", "held", at_s, subject, role=role, attempt=attempt, **standing)


def died(at_s: float, role: str = "leader", *, subject: str = "") -> Observation:
    """A pidfd became readable."""
    return saw("process-table", "died", at_s, subject or subject_of(role), role=role)


def row(role: str = "leader", state: str = "S", *, subject: str = "", **data: Any) -> dict[str, Any]:
    """One process in a look: ``state`` as in /proc, ``gone``, ``dying``, or ``?`` for one that cannot be read."""
    known: dict[str, dict[str, Any]] = {
        "gone": {"alive": False},
        "Z": {"alive": False, "zombie": True},
        "dying": {"alive": True, "dying": True, "state": "S"},
        "?": {"alive": None, "can_read": False},
    }
    base = {"alive": True, "dying": False, "zombie": False, "ppid": 50, "parent": STARTER, "pgid": 4700, "sid": 4700}
    base |= {"threads_alive": 1, "can_read": True, "state": state, "subject": subject or subject_of(role), "role": role}
    return base | {"attempt": FIRST} | known.get(state, {}) | data


def look(moment: str, at_s: float, *rows: Mapping[str, Any], starter_alive: bool | None = True) -> Observation:
    """A look at the process table."""
    return saw("process-table", "look", at_s, moment=moment, processes=[dict(one) for one in rows], starter_alive=starter_alive)


def exited(at_s: float, status: int, *, of: str = "wrapper", run: str = "first") -> Observation:
    """A command of the adapter's, or the process that hosts it, has ended (negative: by that signal)."""
    return saw("process-table", f"{of}-exited", at_s, "50:9" if of == "wrapper" else "40:8", status=status, run=run)


# --- The others -------------------------------------------------------------------------------------------------------


def pressed(at_s: float = 0.0) -> Observation:
    """Cancel is pressed."""
    return saw("adapter", "pressed", at_s, trigger=True, how="adapter.cancel")


def returned(at_s: float, error: str | None = None, *, clean: bool = True, acted_s: float | None = None) -> Observation:
    """The cancel call has returned; ``acted_s`` is when it had begun to act."""
    acted_at_s = None if acted_s is None else PRESSED_S + acted_s
    return saw("adapter", "cancel-returned", at_s, error=error, clean=clean, acted_at_s=acted_at_s)


def pressed_again(at_s: float, how: str = "adapter.cancel") -> Observation:
    """Cancel is pressed a second time."""
    return saw("adapter", "pressed-again", at_s, how=how)


def returned_again(at_s: float, error: str | None = None, **clean: bool) -> Observation:
    """The second cancel call has returned; without ``clean`` nobody knows whether its error is an ordinary one."""
    return saw("adapter", "cancel-again-returned", at_s, error=error, **clean)


def answer(at_s: float, outcome: str = "cancelled", *, by: str = "wait", asked_s: float | None = None, detail: str = "") -> Observation:
    """An answer to the question for the outcome."""
    asked = at_s if asked_s is None else asked_s
    return saw("outcome", "answer", at_s, asked_at_s=PRESSED_S + asked, outcome=outcome, by=by, detail=detail)


def stamp(moment: str, at_s: float) -> Observation:
    """A file was touched on the workspace's file system."""
    return saw("workspace", "stamp", at_s, moment=moment, ctime_ns=ns(at_s))


def ns(at_s: float) -> int:
    """That file system's clock at a moment."""
    return 10**18 + round(at_s * 10**9)


def workspace_look(moment: str, at_s: float, *, exists: bool = True) -> Observation:
    """A look at the workspace."""
    return saw("workspace", "look", at_s, moment=moment, files=7, took_s=0.001, exists=exists)


def changed(
    at_s: float, role: str | None = "leader", *, path: str = "", what: str = "content", ctime_s: float | None = None, **mark: Any
) -> Observation:
    """An entry that changed after the handover, with the marks of ``role`` in it (None: nobody's)."""
    subject = subject_of(role) if role else "0:0"
    writer = {"pid": int(subject.partition(":")[0]), "attempt": FIRST, "count": 5} | mark
    where = path or f"{WORKSPACE}/uncooperative-{role}.log"
    data = {"path": where, "beside": False, "what": what, "ctime_ns": ns(at_s if ctime_s is None else ctime_s), "size": 9, "sha256": ""}
    return saw("workspace", "changed", at_s, since="handover", writers=[writer] if role else [], **data)


def request(at_s: float, id: str = "r1", **data: Any) -> Observation:
    """The provider was asked something, by the leader unless ``attempt`` or ``role`` says otherwise."""
    told = {"wire": "anthropic", "model": "uncooperative/call", "stream": False, "background": False, "side": False}
    return saw("meter", "request", at_s, request=id, **{**told, "attempt": FIRST, "role": "leader", **data})


def tokens(at_s: float, id: str = "r1", count: int = 4, *, since_s: float | None = None, **data: Any) -> Observation:
    """So many were produced between two moments."""
    return saw(
        "meter", "tokens", at_s, request=id, count=count, total=count, since_s=PRESSED_S + (at_s if since_s is None else since_s), **data
    )


def closed(at_s: float, id: str = "r1", how: str = "ended", **data: Any) -> Observation:
    """The request was answered (``ended``), its client went (``disconnected``), or the work was ``cancelled``."""
    return saw("meter", how, at_s, request=id, tokens=4, **data)


def call(at_s: float, id: str = "r1", **data: Any) -> list[Observation]:
    """A request that is answered at once, with four tokens."""
    return [request(at_s, id, **data), tokens(at_s + 0.001, id), closed(at_s + 0.002, id)]


def meter_look(moment: str, at_s: float) -> Observation:
    """How the run's book at the provider stands; :func:`booked` fills it in."""
    return saw("meter", "look", at_s, moment=moment, requests=0, tokens=0, open=[], disconnected=0)


def booked(seen: Iterable[Observation]) -> list[Observation]:
    """With what the book must say at each look, by the entries of before."""
    seen = list(seen)

    def filled(look: Observation) -> Observation:
        mine = [one for one in seen if one.witness == "meter" and one.at_s <= look.at_s and "run" not in one.data and one.kind != "look"]
        begun = [str(one.data["request"]) for one in mine if one.kind == "request"]
        main = [one for one in mine if one.kind == "request" and not one.data["side"]]
        over = {str(one.data["request"]) for one in mine if one.kind in ("ended", "disconnected", "cancelled")}
        told = {"requests": len(main), "tokens": sum(one.data["count"] for one in mine if one.kind == "tokens")}
        return Observation(look.at_s, "meter", "look", "", {**look.data, **told, "open": [id for id in begun if id not in over]})

    return [filled(one) if (one.witness, one.kind) == ("meter", "look") else one for one in seen]


def clock(since_s: float = -2.0, until_s: float = 20.0, worst_s: float = 0.0) -> list[Observation]:
    """The machine's lateness, a line a quarter of a second."""
    count = round((until_s - since_s) * 4)
    spells = [(since_s + n / 4, since_s + (n + 1) / 4) for n in range(count)]
    return [saw("clock", "lateness", until, since_s=PRESSED_S + since, worst_s=worst_s) for since, until in spells]


# --- Whole drills -----------------------------------------------------------------------------------------------------


def story(
    *,
    told: Mapping[str, float] | float | None = 0.1,
    deaths: Mapping[str, float | None] | float | None = 0.2,
    goodbyes: Sequence[str] = (),
    reported: float | None = 0.5,
    returns: float | None = 0.5,
    outcome: str = "cancelled",
    again: str | None = None,
    by: str = "wait",
    end: float | None = None,
    early: float = 0.0,
    late: float = 0.0,
    cleans: tuple[float, float | None] | None = None,
    restart: float | None = None,
    found: Sequence[Mapping[str, Any]] = (),
    session: Mapping[str, str] | None = None,
    own_session: Sequence[str] = ("daemon",),
) -> list[Observation]:
    """What all witnesses see of a drill with default terms (deadline +12 s).

    Args:
        told: when which role had notice; one number is the leader's.
        deaths: when which role died, None for never; the keys are the roles of the run. One number is the leader's.
        reported, returns: when ``wait`` answered and ``cancel`` returned, None for never.
        late: the machine's lateness.
        cleans: when the leader began to clean up and when it had finished.
        restart: when the task was started again; then ``found`` and ``session`` are what the second run finds.
    """
    fates: dict[str, float | None] = dict(deaths) if isinstance(deaths, Mapping) else {"leader": deaths}
    notices = dict(told) if isinstance(told, Mapping) else ({} if told is None else {"leader": told})
    handover = min(12.0, reported + early) if reported is not None else 12.0
    moments = [one for one in (*fates.values(), reported, returns, 12.0 if None in fates.values() else None, handover) if one is not None]
    over = end if end is not None else max(moments) + (2.5 if reported is None or returns is None else 0.7)

    def rows(at_s: float) -> list[dict[str, Any]]:
        return [_row_at(role, fate, at_s, role in own_session) for role, fate in fates.items()]

    seen = [*clock(-2.0, over + 0.5, late), *start_of(fates, own_session), pressed(), look("pressed", 0.0, *rows(0.0))]
    seen += [notice(at_s, role) for role, at_s in notices.items()]
    seen += [says("goodbye", at_s - 0.01, role, status=0, why="notice") for role, at_s in fates.items() if role in goodbyes and at_s]
    seen += [died(at_s, role) for role, at_s in fates.items() if at_s is not None]
    seen += [says("closed", at_s, role) for role, at_s in fates.items() if at_s is not None]
    if cleans is not None:
        seen.append(says("cleanup-started", cleans[0]))
        seen += [says("cleanup-finished", cleans[1])] if cleans[1] is not None else []
    if returns is not None:
        seen.append(returned(returns))
    if reported is not None:
        seen += [answer(reported, outcome, by=by), look("reported", reported, *rows(reported))]
        seen += [answer(reported + 0.55, again or outcome, by="outcome")]
    seen += _handover(handover, fates, rows(handover), over)
    seen += _spending(fates.get("leader", -0.5), handover, over)
    if over >= 12.0:
        seen.append(look("deadline", 12.0, *rows(12.0)))
    if restart is not None:
        seen += _second_run(restart, rows(restart), found, session)
    seen += [look("end", over, *rows(over)), stamp("end", over), workspace_look("end", over)]
    left = [role for role, at_s in fates.items() if at_s is None or at_s > over]
    seen += [saw("drill", "reaped", over + 0.1, processes=[{"subject": subject_of(role), "role": role} for role in left])]
    seen += [saw("drill", "ended", over + 0.1, why="over")]
    return booked(in_order(seen))


_ALONE: dict[str, Any] = {"pgid": 4712, "sid": 4712, "parent": "1:1", "ppid": 1}


def start_of(fates: Mapping[str, float | None], own_session: Sequence[str] = ()) -> list[Observation]:
    """How a run comes up, with all its roles."""
    seen = [saw("adapter", "starting", -1.5), saw("adapter", "started", -1.2, took_s=0.3)]
    for role in fates:
        alone = _ALONE if role in own_session else {}
        seen.append(hello(-1.0, role, roles=list(fates) if role == "leader" else []))
        seen += [held(-1.0, role, **alone), says("working", -0.8, role, armed=[]), wrote(-0.1, role, 18)]
    seen.append(says("planted", -0.9, poison=[{"kind": "ignored", "path": f"{WORKSPACE}/ignored/p"}], session="s"))
    seen.append(saw("workspace", "opened", -1.0, path=WORKSPACE, dev=1, ino=2, offered=True, marked=True))
    return [*seen, workspace_look("working", -0.8)]


def _row_at(role: str, fate: float | None, at_s: float, alone: bool) -> dict[str, Any]:
    if fate is not None and fate <= at_s:
        return row(role, "gone")
    return row(role, **(_ALONE if alone else {}))


def _handover(at_s: float, fates: Mapping[str, float | None], rows: list[dict[str, Any]], over: float) -> list[Observation]:
    alive = {role: fate for role, fate in fates.items() if fate is None or fate > at_s}
    seen = [look("handover", at_s, *rows), stamp("handover", at_s), workspace_look("handover", at_s)]
    for role, fate in alive.items():
        last = min(over, fate if fate is not None else over) - 0.001
        seen += [changed(over, role, ctime_s=last), wrote(max(last, at_s + 0.0005), role, 200)]
    ends = [fate for fate in alive.values() if fate is not None]
    return seen + ([stamp("gone", max(ends))] if ends and len(ends) == len(alive) else [])


def _spending(leader_dies: float | None, handover: float, over: float) -> list[Observation]:
    """A call before the press, one before the leader's death, and another one late where it lives on."""
    last = (over if leader_dies is None else min(leader_dies, over)) - 0.05
    late = call(handover + (last - handover) * 0.9, "r3") if last > handover else []
    looks = [meter_look("pressed", 0.0), meter_look("handover", handover), meter_look("end", over)]
    return [says("spending", -0.85, how="call"), *call(-0.84), *call(min(last, handover - 0.01), "r2"), *late, *looks]


def _second_run(
    at_s: float, rows: list[dict[str, Any]], found: Sequence[Mapping[str, Any]], session: Mapping[str, str] | None
) -> list[Observation]:
    second = {"subject": SECOND_LEADER, "attempt": SECOND}
    return [
        saw("adapter", "restarting", at_s - 0.05),
        saw("adapter", "restarted", at_s - 0.02, error=None),
        hello(at_s, roles=["leader"], **second),
        held(at_s, **second),
        look("second-hello", at_s, *rows),
        says("found", at_s + 0.02, subject=SECOND_LEADER, looked=True, poison=[dict(one) for one in found], session=session),
        says("goodbye", at_s + 0.1, subject=SECOND_LEADER, status=0, why="end"),
        died(at_s + 0.12, subject=SECOND_LEADER),
    ]


# --- Changing and judging them ----------------------------------------------------------------------------------------


def in_order(seen: Iterable[Observation]) -> list[Observation]:
    """By time, as a history has them."""
    return sorted(seen, key=lambda one: one.at_s)


def plus(seen: Iterable[Observation], *more: Observation) -> list[Observation]:
    """With these as well."""
    return in_order([*seen, *more])


def without(seen: Iterable[Observation], *names: str, subject: str = "", moment: str = "") -> list[Observation]:
    """Without those of a name (``"process-table"`` or ``"process-table.died"``), of one subject or moment only if given."""

    def is_meant(one: Observation) -> bool:
        is_named = one.witness in names or f"{one.witness}.{one.kind}" in names
        return is_named and (not subject or one.subject == subject) and (not moment or one.data.get("moment") == moment)

    return [one for one in seen if not is_meant(one)]


def look_again(seen: Iterable[Observation], moment: str, *rows: Mapping[str, Any], **data: Any) -> list[Observation]:
    """With other rows in the look of that moment."""
    return [
        Observation(one.at_s, one.witness, one.kind, "", {**one.data, "processes": [dict(row) for row in rows], **data})
        if (one.witness, one.kind, one.data.get("moment")) == ("process-table", "look", moment)
        else one
        for one in seen
    ]


def terms(**given: float) -> Terms:
    """Terms with these values from the marker."""
    return settle_terms({name: (value, "marker") for name, value in given.items()})


def history(
    seen: Iterable[Observation],
    *,
    given: Terms | None = None,
    scenario: str = "deaf-child",
    capabilities: Sequence[str] = ("wait", "outcome"),
    header: Mapping[str, Any] | None = None,
) -> History:
    """The observations as a history; ``header`` is what it says besides, such as the act."""
    told = {"scenario": scenario, "terms": (given or terms()).as_dict(), "capabilities": list(capabilities), "attempt": 1, "token": TOKEN}
    return History({**told, **(header or {})}, tuple(in_order(seen)))


def finding(clause: str, seen: Iterable[Observation], **how: Any) -> Finding:
    """What one clause finds."""
    (check,) = judge(history(seen, **how), [clause])
    return check.finding


def verdicts(checks: Iterable[Check]) -> dict[str, Verdict]:
    """By clause."""
    return {check.clause: check.verdict for check in checks}


@dataclass(frozen=True)
class Row:
    """One line of a clause's table: a sentence, what was seen, and the verdict.

    ``says`` are words that the finding must contain, in whatever field.
    """

    id: str
    seen: Sequence[Observation]
    verdict: Verdict
    given: Terms = field(default_factory=terms)
    spoilt: bool = False
    capabilities: Sequence[str] = ("wait", "outcome")
    says: Sequence[str] = ()
    header: Mapping[str, Any] = field(default_factory=dict)

    def history(self, seen: Iterable[Observation] | None = None) -> History:
        """As a history, or what is left of it (``seen``)."""
        return history(self.seen if seen is None else seen, given=self.given, capabilities=self.capabilities, header=self.header)


# --- What was seen of the workspace without a mark --------------------------------------------------------------------


def held_change(
    at_s: float, *roles: str, how: str = "mapping", others_hold: bool | None = False, by_reading: bool = True, **data: Any
) -> Observation:
    """A file without marks whose contents changed while these roles held it; by reading, no change time tells it."""
    path = str(data.pop("path", f"{WORKSPACE}/state.db"))
    span_s = data.pop("span", (at_s - 0.25, at_s)) if by_reading else None
    row = changed(at_s, None, path=path, ctime_s=-0.5 if by_reading else at_s)
    told = {
        "holders": [{"subject": subject_of(role), "how": how} for role in roles],
        "others_hold": others_hold,
        "by_reading": by_reading,
        "span_s": span_s and [PRESSED_S + one for one in span_s],
        "sha256": "after",
        "before_sha256": "before",
    }
    return Observation(row.at_s, row.witness, row.kind, row.subject, {**row.data, **told, **data})


def between_stamp_and_look(at_s: float, role: str | None = None, **data: Any) -> Observation:
    """An entry that changed between the handover's stamp and its look; with marks where they say themselves that they are later."""
    row = changed(at_s, role, what="")
    return Observation(row.at_s, row.witness, row.kind, row.subject, {**row.data, **data})


def stepped(at_s: float, by_s: float = 3600.0) -> Observation:
    """Somebody set the wall clock."""
    return saw("clock", "stepped", at_s, by_s=by_s)
