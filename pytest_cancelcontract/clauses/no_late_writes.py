"""no-late-writes: once a replacement may be at work, the old run changes nothing in or beside the workspace."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Fate
from pytest_cancelcontract.clauses.late_changes import LateChanges, Write, late_changes, stamp_of, wall_clock_steps
from pytest_cancelcontract.clauses.members import LOOK_WITHIN_S, Member, said_at_s
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = "see every process of the run dead before the outcome is reported, and give a replacement a workspace of its own"
RUNS_AT_MOST = 6
"""How many runs of lines a message shows, of two attempts that wrote into one file; the history has more of them."""


def check(facts: Facts) -> Finding:
    """Judge whether the run wrote after the handover.

    A change accuses by the marks in it, or by who held the file while its contents changed, and only a process that is proven to have
    been alive at the handover: what the wrapper does with its own files, or with the whole workspace once everything is dead, is its
    own business.
    Returns:
        inconclusive when the workspace was not watched from the handover to the end, the wall clock was set meanwhile, or the runner's
        own word disagrees with what was seen.
    """
    handover = f"{words.after_press(facts, facts.handover_s)}{_terms(facts)}"
    expected = f"the run changes nothing in or beside its workspace from the handover on, {handover}"
    if facts.history.first("workspace", "opened") is None:
        missing = facts.history.first("workspace", "missing")
        where = f": {missing.data.get('path')} was not there" if missing else ""
        return words.inconclusive(f"the workspace was never seen{where}", expected)
    ignored = _ignored(facts)
    seen_by = f"workspace, by content and change time{_stamped(facts)}{ignored}; process table; lifeline, {_told(facts)}"
    changes = late_changes(facts)
    steps = wall_clock_steps(facts)
    accused = [one for one in changes.accused if one.is_by_reading or not steps]
    if accused:
        return Finding(Verdict.BROKEN, _describe(facts, accused), expected, seen_by, _likely(facts, accused), ADVICE)
    if steps:
        by = words.several([words.seconds(one) for one in steps], ", ")
        observed = f"the wall clock was set by {by} while the workspace was watched, so change times prove nothing"
        return words.inconclusive(observed, expected, seen_by=seen_by, spoilt=True)
    doubt = _doubt(facts, changes)
    if doubt:
        return words.inconclusive(doubt, expected, seen_by=seen_by, spoilt=_is_stamp_late(facts))
    return Finding(Verdict.KEPT, _quiet(changes), expected, seen_by)


def late_writes(facts: Facts) -> tuple[Write, ...]:
    """The writes that accuse: after the handover, by a process that was alive at it."""
    return late_changes(facts).accused


# --- What keeps it from being kept ------------------------------------------------------------------------------------


def _doubt(facts: Facts, changes: LateChanges) -> str:
    """Why the run cannot be acquitted, or nothing."""
    if changes.strangers:
        return f"written after the handover by a process of the run that is not known: {words.several(changes.strangers, ', ')}"
    if facts.history.first("clock", "lateness") is None:
        return "the clock was not watched, so nobody can say that it was not set meanwhile"
    looks = [one for one in facts.history.of("workspace", "look") if one.data.get("moment") in {"gone", "end"}]
    fates = {one: facts.fate_at(one, facts.handover_s) for one in facts.may_write}
    living = [one for one, fate in fates.items() if fate not in {Fate.DEAD, Fate.DYING} and not _stood_still(facts, one)]
    stamp = stamp_of(facts, "handover")
    if facts.is_agent and not facts.is_live and (paths := _unexplained(changes)):
        return f"{words.several(paths, ', ')} changed after the handover, in a workspace that is the agent's alone: nothing tells by whom"
    if facts.is_agent and not facts.is_live and _was_moved(facts):
        return "by the handover the agent's workspace was moved or taken away: what is written in it from then on is not seen"
    if stamp is not None and stamp.at_s < facts.handover_s - ROUNDING_S:
        return f"the workspace was stamped for a handover {words.after_press(facts, stamp.at_s)}, of which no outcome tells"
    if not living and not facts.missing_roles:
        # Nobody was left to write; where nothing is ever reported, the drill ends before the handover that nobody waits for.
        return "" if looks else "the workspace was not looked at after the run was gone"
    last = [one for one in looks if one.at_s >= facts.handover_s]
    if not last:
        return "the workspace was not looked at after the handover"
    names = words.several([words.who(one) for one in living] + list(facts.missing_roles), ", ")
    exists = bool(last[-1].data.get("exists", True))
    unread = _unread(facts, [one.subject for one in living])
    who = f"{names} may have been alive at the handover, or came after it"
    return (
        _doubt_while_alive(facts, changes, who, exists=exists, unread=unread)
        or _doubt_elsewhere(facts, living, who)
        or _doubt_taken_away(changes, living, who)
    )


def _unexplained(changes: LateChanges) -> list[str]:
    """What changed and accuses nobody, unless a more exact doubt tells of it; an agent's workspace in a trial is nobody else's."""
    told = {*changes.unproven, *(path for path, _ in changes.shared)}
    return [path for path in dict.fromkeys(one.path for one in changes.all if not one.ignored) if path not in told]


def _was_moved(facts: Facts) -> bool:
    """Whether at the handover there was another folder at the workspace's path, or none."""
    opened, look = facts.history.first("workspace", "opened"), _look_at_handover(facts)
    if opened is None or look is None or "ino" not in look.data:
        return False
    return (look.data.get("dev"), look.data.get("ino")) != (opened.data.get("dev"), opened.data.get("ino"))


def _look_at_handover(facts: Facts) -> Observation | None:
    return next((one for one in facts.history.of("workspace", "look") if one.data.get("moment") == "handover"), None)


def _stood_still(facts: Facts, member: Member) -> bool:
    """A process that is stopped at the handover and whenever it was looked at since has written nothing."""
    since = [sight for sight in member.sights if sight.at_s >= facts.handover_s - ROUNDING_S]
    return len(since) > 1 and all(sight.is_stopped for sight in since)


def _doubt_elsewhere(facts: Facts, living: Sequence[Member], who: str) -> str:
    """What a process writes in a folder that is not at its path any more is not seen. Each attempt has the folder it began in."""
    look = _look_at_handover(facts)
    if look is None or look.data.get("ino") is None:
        return ""
    seen = (look.data.get("dev"), look.data.get("ino"))
    attempts = {one.attempt for one in living} or {one.attempt for one in facts.pressed_members}
    leaders = [one for one in facts.first_run if one.is_leader and one.attempt in attempts]
    if all((one.hello.get("cwd_dev"), one.hello.get("cwd_ino")) == seen for one in leaders):
        return ""
    return f"{who}, and works in another folder than the one that is at the watched path by then: what it writes there is not seen"


def _doubt_taken_away(changes: LateChanges, living: Sequence[Member], who: str) -> str:
    """A file that a living process wrote to, and that was removed or replaced since, says nothing of what was written to it in between."""
    written = {str(one.data.get("path")) for member in living for one in member.said if one.kind == "wrote"}
    taken = dict.fromkeys(one.path for one in changes.all if one.path in written and one.what in {"deleted", "replaced"})
    if not taken:
        return ""
    return f"{who}, and {words.several(list(taken), ', ')} was taken away before it could be read again, with what was written meanwhile"


def _doubt_while_alive(facts: Facts, changes: LateChanges, who: str, *, exists: bool, unread: Sequence[str]) -> str:
    stamp = stamp_of(facts, "handover")
    if stamp is None:
        return f"{who}, and no stamp tells what changed since"
    if not -ROUNDING_S <= stamp.at_s - facts.handover_s <= LOOK_WITHIN_S:
        return f"{who}, and the stamp was made {words.after_press(facts, stamp.at_s)}, so what changed in between is not known"
    if not exists:
        return f"{who}, and the workspace was taken away before it could be looked at"
    if any(one.data.get("cut") for one in facts.history.of("workspace", "look")):
        return f"{who}, and the folder that it works in holds more than is looked at"
    if changes.ignored:
        told = [f"{one.path} ({one.until.ignored})" for one in changes.ignored]
        return f"{who}, and wrote where it is ignored: {words.several(told, ', ')}"
    if changes.unproven:
        return f"{who}, and left marks in {words.several(changes.unproven, ', ')}, of which it is not proven when they were made"
    if untold := [path for path, is_known in changes.shared if not is_known]:
        return f"{who}, and held {words.several(untold, ', ')} when it changed; who else holds it could not be told"
    if changes.unseen:
        paths = words.several(changes.unseen, ", ")
        return f"{who}, and {paths} changed right after the handover, before the first look: nothing tells by whom"
    if facts.is_live and changes.before_gone:
        paths = words.several(changes.before_gone, ", ")
        return f"{who}, and {paths} changed after the handover: a live run marks nothing that it writes, so nothing tells by whom"
    if any(one.data.get("unlisted") for one in facts.history.of("workspace", "look")):
        return f"{who}, and more changed than was read"
    if unread:
        return f"{who}, and the files that {words.several(unread, ', ')} held could not be read"
    if told_late := _told_late(facts):
        return f"{who} and says that it wrote ({told_late}), but no change was seen: the witnesses disagree"
    return ""


def _unread(facts: Facts, living: Sequence[str]) -> list[str]:
    """Processes of which it could not be seen what they hold."""
    looks = [one for one in facts.history.of("workspace", "look") if one.at_s >= facts.handover_s - ROUNDING_S]
    unread = [str(subject) for one in looks for subject in one.data.get("unread") or ()]
    return [f"pid {subject.partition(':')[0]}" for subject in dict.fromkeys(unread) if subject in living]


def _is_stamp_late(facts: Facts) -> bool:
    """The machine was too slow to make the stamp at the handover."""
    stamp = stamp_of(facts, "handover")
    return stamp is not None and stamp.at_s - facts.handover_s > LOOK_WITHIN_S


def _told_late(facts: Facts) -> str:
    """Writes into the workspace, or beside it, that the runner tells of after the handover; it is testimony only."""
    opened = facts.history.first("workspace", "opened")
    beside = str(opened.data.get("path", "") if opened else "").rstrip("/").rpartition("/")[0]
    late = [
        f"pid {member.pid}, write {one.data.get('count', '?')}, {words.after_press(facts, said_at_s(one))}"
        for member in facts.first_run
        if (one := member.last("wrote")) is not None
        and said_at_s(one) > facts.handover_s + ROUNDING_S
        and str(one.data.get("path") or beside).startswith(beside)
    ]
    return words.several(late)


# --- Words ------------------------------------------------------------------------------------------------------------


def _describe(facts: Facts, accused: Sequence[Write]) -> str:
    stamp = stamp_of(facts, "handover")
    told = [f"{one.path} by {words.who(one.member) if one.member else one.pid} ({_how(one)}{_when(one, stamp)})" for one in accused]
    return f"changed after the handover: {words.several(told)}{_in_turn(accused)}"


def _how(write: Write) -> str:
    if write.how:
        return f"which holds it by a {write.how}, and nobody else does"
    return f"{write.lines} line{'' if write.lines == 1 else 's'}"


def _when(write: Write, stamp: Observation | None) -> str:
    """``", 0.05 s to 2.3 s after the handover"``, as the file system's own clock has it, or as the looks do."""
    if stamp is None:
        return ""
    span = write.span(stamp)
    first, last = words.seconds(max(0.0, span.earliest_s)), words.seconds(max(0.0, span.latest_s))
    return f", {first if first == last else f'{first} to {last}'} after the handover"


def _in_turn(accused: Sequence[Write]) -> str:
    """Two runs at work in one file, as their lines stand in it."""
    for one in accused:
        if runs := one.until.rows("order"):
            told = [f"{run.get('count')} by {run.get('attempt')} (pid {run.get('pid')})" for run in runs[:RUNS_AT_MOST]]
            more = ", and so on" if len(runs) > RUNS_AT_MOST else ""
            return f"; two attempts wrote into {one.path} in turn: {', '.join(told)}{more}"
    return ""


def _quiet(changes: LateChanges) -> str:
    paths = sorted({one.path for one in changes.all})
    others = f"; {len(paths)} changes that are not the living run's: {words.several(paths, ', ')}" if paths else ""
    shared = [path for path, _ in changes.shared]
    held = f"; held by others too, and so nobody's: {words.several(shared, ', ')}" if shared else ""
    return f"no write of the run after the handover{others}{held}"


def _stamped(facts: Facts) -> str:
    stamp = stamp_of(facts, "handover")
    return f" against a stamp made {words.after_press(facts, stamp.at_s)}" if stamp else ", without a stamp"


def _told(facts: Facts) -> str:
    return _told_late(facts) or "no later write told"


def _ignored(facts: Facts) -> str:
    opened = facts.history.first("workspace", "opened")
    patterns = [str(one) for one in (opened.data.get("ignore") if opened else None) or ()]
    return f", leaving out {words.several(patterns, ', ')} (ignore)" if patterns else ""


def _terms(facts: Facts) -> str:
    if facts.report is None:
        return f" (the deadline: {words.numbers(facts.terms, 'delivery', 'grace', 'kill_within')})"
    return f" ({words.numbers(facts.terms, 'early')}; the deadline if that comes first)"


def _likely(facts: Facts, accused: Sequence[Write]) -> str:
    names = words.several(sorted({words.who(one.member) for one in accused if one.member}), ", ")
    until = "reported as over" if facts.report is not None and facts.handover_s < facts.deadline_s else "past its deadline"
    return f"{names} was still alive when the run was {until}"
