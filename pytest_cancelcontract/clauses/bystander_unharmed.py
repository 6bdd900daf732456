"""bystander-unharmed: cancelling one run leaves another at work, and the process that pressed cancel alive."""

from __future__ import annotations

from pytest_cancelcontract.clauses import calls, words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, lacking
from pytest_cancelcontract.clauses.members import BYSTANDER, LOOK_WITHIN_S, Member, Sight, said_at_s
from pytest_cancelcontract.clauses.parts import Part, broken, kept, unclear, whole
from pytest_cancelcontract.finding import Finding
from pytest_cancelcontract.history import TERMINAL, Observation

ADVICE = "signal what this run started, by pid, by a group or a cgroup of its own, and nothing that is found by name"
OWN_GROUP = "start the run with start_new_session=True, and see that a group is not your own before killpg() is called on it"
DESCRIPTORS_CLOSED = 83
"""The status by which a host says that it found its own connection closed (a test holds it to the host's)."""
OWN_PROCESS = "end what was started, and leave the process alone that only called cancel"
ONE_AT_A_TIME = (
    "a wrapper that runs one task at a time cannot show this: leave the scenario out (scenarios=['all', '!bystander'],"
    " --cancel-scenario '!bystander')"
)
EXPECTED = "another run of the same wrapper works on untouched, and what called cancel lives on"


def check(facts: Facts) -> Finding:
    """Judge whether a run that nobody cancelled was left alone, and the process in which the adapter ran was.

    Harm is a notice, a death, a stop, or a terminal outcome, before the drill itself let the bystander go. It is unharmed where the
    process table shows it alive then, and it said that it wrote after the cancelled run was gone (or its deadline).
    Returns:
        inconclusive when the bystander was not at work when cancel was pressed, could not be read, or made no progress.
    """
    parts = _host(facts) + [_member(facts, one) for one in facts.bystanders]
    seen_by = ["the host's exit status, waited for by the recorder"] if host_death(facts) is not None else []
    if _was_asked_for(facts):
        seen_by.append(f"lifeline; pidfd; process table, {_when(facts)}; outcome of the other run")
        parts += [*_missing(facts), *_outcomes(facts), *_wrappers(facts), *_host_answers(facts)]
    if not parts:
        return words.inconclusive("no other run was at work beside it", EXPECTED)
    return whole(parts, EXPECTED, "; ".join(seen_by))


def host_death(facts: Facts) -> Observation | None:
    """The death of the process that hosts the adapter, if it was not one of its own will: it would have been pytest's."""
    if not facts.is_pressed:
        return None
    ends = facts.history.of("process-table", "host-exited")
    # The drill lets its host go only when all is over, so any end before that is the wrapper's doing, whatever its status.
    return next((one for one in ends if facts.pressed_s <= one.at_s <= facts.end_s), None)


def _was_asked_for(facts: Facts) -> bool:
    """Whether the drill had a second run beside the first."""
    starts = facts.history.of("adapter", "other-starting", "other-started", "other-not-up")
    return bool(facts.bystanders) or any(one.data.get("run") == BYSTANDER for one in starts)


def _let_go_s(facts: Facts) -> float:
    """Until when nobody may touch the bystander; then the drill itself ends it."""
    look, judged = facts.look("bystander"), facts.history.first("adapter", "other-judged")
    return min([facts.end_s, *(one.at_s for one in (look, judged) if one is not None)])


def _when(facts: Facts) -> str:
    look = facts.look("bystander")
    return words.after_press(facts, look.at_s) if look else "not read"


# --- The host ---------------------------------------------------------------------------------------------------------


def _host(facts: Facts) -> list[Part]:
    if (death := host_death(facts)) is None:
        return []
    status = int(death.data.get("status") or 0)
    text = f"the process that hosts the adapter {words.ending(status)} {words.after_press(facts, death.at_s)}: it would have been pytest"
    if status == DESCRIPTORS_CLOSED:
        return [broken(text, "the wrapper closes the descriptors of the process that it is called in", OWN_PROCESS)]
    if status >= 0:
        return [broken(text, "the wrapper ends the process that it is called in (os._exit, exec)", OWN_PROCESS)]
    return [broken(text, "the cancel signals a process group, and the run has none of its own, so it is the caller's too", OWN_GROUP)]


def _host_answers(facts: Facts) -> list[Part]:
    """Whether a host that was started is proven to have outlived the press, by an answer that only it could give."""
    hosts = [one for one in facts.history.of("process-table", "spawned") if one.data.get("role") == "host"]
    cancel = calls.call(facts)
    has_answered = (cancel.at.is_closed and cancel.is_clean is not False) or bool(_told(facts, "other-answer"))
    return [unclear("nothing that the adapter's host answered was seen after the press")] if hosts and not has_answered else []


# --- The other run ----------------------------------------------------------------------------------------------------


def _member(facts: Facts, member: Member) -> Part:
    let_go_s = _let_go_s(facts)
    notice, death = facts.notice_of(member), member.death
    if notice is not None and said_at_s(notice) <= let_go_s:
        text = f"{words.by(notice)} reached {words.who(member)} of the other run {words.after_press(facts, notice.at_s)}"
        return broken(text, _likely(facts, member), ADVICE)
    if death.latest_s <= let_go_s + ROUNDING_S and death.latest_s >= facts.pressed_s:
        how = "ended" if member.died_alone else "was killed"
        text = f"{words.who(member)} of the other run {how} {words.after_press(facts, death.latest_s)}"
        return broken(text, _likely(facts, member), ADVICE)
    stops = facts.history.of("process-table", "stopped")
    if seen := next((one for one in stops if one.subject == member.subject and facts.pressed_s < one.at_s <= let_go_s), None):
        text = f"{words.who(member)} of the other run was stopped {words.after_press(facts, seen.at_s)}"
        return broken(text, _likely(facts, member), ADVICE)
    sight = next((one for one in member.sights if one.moment == "bystander"), None)
    if stopped := next((one for one in member.sights if one.is_stopped and facts.pressed_s < one.at_s <= let_go_s + LOOK_WITHIN_S), None):
        text = f"{words.who(member)} of the other run was seen stopped {words.after_press(facts, stopped.at_s)}"
        return broken(text, _likely(facts, member), ADVICE)
    return _untouched(facts, member, sight)


def _untouched(facts: Facts, member: Member, sight: Sight | None) -> Part:
    """Nothing speaks against it; whether enough speaks for it."""
    who = f"{words.who(member)} of the other run"
    if not any(one.kind == "working" and one.at_s <= facts.pressed_s for one in member.said):
        return unclear(f"{who} was not at work when cancel was pressed", advice=ONE_AT_A_TIME)
    if early := next((one for one in member.notices if one.at_s < facts.pressed_s), None):
        text = f"{words.by(early)} reached {who} {words.after_press(facts, early.at_s)}, before pressed"
        return unclear(text, spoilt=True)
    if member.death.latest_s < facts.pressed_s:
        return unclear(f"{who} died {words.after_press(facts, member.death.latest_s)}, before pressed", spoilt=not member.died_alone)
    if sight is None or not sight.is_running:
        return unclear(f"{who} could not be told dead or alive", advice=words.SEE_THE_TABLE)
    since_s = facts.gone.latest_s if facts.gone.is_closed else facts.deadline_s
    wrote = member.last("wrote")
    if wrote is None or said_at_s(wrote) <= since_s:
        after = "the cancelled run was gone" if facts.gone.is_closed else "the deadline"
        return unclear(f"{who} is alive, and no progress of it was seen after {after} {words.after_press(facts, since_s)}")
    return kept(f"{who} is alive {words.after_press(facts, sight.at_s)}; {words.last_write(facts, member)}")


def _missing(facts: Facts) -> list[Part]:
    leader = next((one for one in facts.bystanders if one.is_leader), None)
    roles = list(lacking(leader, facts.bystanders))
    if not roles:
        return []
    failed = facts.history.of("adapter", "other-started", "other-not-up")
    why = next((one.data.get("error") or one.data.get("why") for one in failed if one.data.get("run") == BYSTANDER), None)
    text = f"nothing is known of {words.several(roles, ', ')} of the other run{f': {why}' if why else ''}"
    return [unclear(text, advice=ONE_AT_A_TIME)]


def _outcomes(facts: Facts) -> list[Part]:
    """What was answered about the other run; a wrapper's exit that did not come is its running."""
    told = _told(facts, "other-answer", "other-error")
    over = [one for one in told if one.data.get("outcome") in TERMINAL and one.at_s <= _let_go_s(facts)]
    if over and over[0].at_s < facts.pressed_s:
        return [
            unclear(
                f"the other run's outcome was {over[0].data['outcome']!r} already {words.after_press(facts, over[0].at_s)}, before pressed"
            )
        ]
    if over:
        text = f"the other run's outcome is {over[0].data['outcome']!r} {words.after_press(facts, over[0].at_s)}"
        return [broken(text, "both runs share a record, or a handle, and the cancel was written to it", ADVICE)]
    # A test that presses the buttons itself is asked about the run that it cancels, and not about the other one.
    is_asked = all(one.data.get("is_asked", True) for one in _told(facts, "other-started", witness="adapter"))
    if not is_asked or not facts.history.capabilities.intersection({"wait", "outcome"}):
        return []
    answers = [one for one in told if one.kind == "other-answer"]
    if not answers:
        error = f": {told[-1].data.get('error')}" if told else ""
        return [unclear(f"the other run's outcome could not be read{error}")]
    return [kept(f"its outcome is {answers[-1].data.get('outcome')!r}")]


def _told(facts: Facts, *kinds: str, witness: str = "outcome") -> list[Observation]:
    return [one for one in facts.history.of(witness, *kinds) if one.data.get("run") == BYSTANDER]


def _wrappers(facts: Facts) -> list[Part]:
    ends = [one for one in facts.history.of("process-table", "wrapper-exited") if one.data.get("run") == BYSTANDER]
    touched = [one for one in ends if facts.pressed_s <= one.at_s <= _let_go_s(facts)]
    if not touched:
        return []
    text = (
        f"the wrapper of the other run {words.ending(int(touched[0].data.get('status') or 0))} {words.after_press(facts, touched[0].at_s)}"
    )
    return [broken(text, "both runs are under one wrapper's name or group, and were signalled by it", ADVICE)]


def _likely(facts: Facts, member: Member) -> str:
    leader = facts.leader
    if leader is None:
        return "both runs were signalled by what they share"
    mine, other = ({**one.hello, **one.held} for one in (leader, member))
    if mine.get("pgid") and mine.get("pgid") == other.get("pgid"):
        return f"both runs are in one process group ({mine['pgid']}), and the group was signalled"
    if mine.get("sid") and mine.get("sid") == other.get("sid"):
        return f"both runs are in one session ({mine['sid']}), or were found by a name that they share"
    return "both runs were found by what they share: a name, a user, or everything that the wrapper ever started"
