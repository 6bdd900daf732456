"""fresh-start: the next start of the task finds nothing of a run that was killed, and nothing of it stands in its way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import CONTROL, Member
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = (
    "throw the workspace of a killed run away and build it anew from its source (a command gets it as {source}, an adapter as run.source),"
    " and start a new session instead of resuming the old one; leave out !second-run where no workspace is ever used again"
)
UNBLOCK = "tie each lock to a process that is ended with its run, do not let the run inherit it, and break the locks of a killed run"
EXPECTED = "the second run finds no file, lock or session of the first, and is not kept from starting by one"
TOO_LATE = f"see outcome-reported: the workspace must be built anew, and the end reported, within kill_within of gone; {words.QUIETER}"
CONTROL_SHARE = 1 / 3
"""Another task must have come up in this share of the time that the same one was given, or the machine may be why that one did not."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a leader of a later start says that it found."""

    member: Member
    seen: Observation

    @property
    def poison(self) -> Sequence[Mapping[str, Any]]:
        """The things of the first run, each with its kind and path."""
        return self.seen.data.get("poison") or ()

    @property
    def session(self) -> Mapping[str, Any] | None:
        """The first run's session that it was handed, with where; None without one."""
        return self.seen.data.get("session") or None

    @property
    def folder(self) -> str:
        """Its working folder."""
        return str(self.member.hello.get("cwd", "its working folder"))


def check(facts: Facts) -> Finding:
    """Judge what the second run found of the first, or what kept it from starting.

    A second start that says why it will not start, and starts nothing, keeps this where the old workspace cannot be removed.
    Returns:
        inconclusive when the first run left no poison, or no second run came up and looked; or when it found what the first one's
        wrapper removed after the deadline, and before it reported the end.
    """
    planted = next((one.last("planted") for one in facts.pressed_members if one.last("planted")), None)
    if planted is None or not planted.data.get("poison"):
        return words.inconclusive(f"the first run left nothing to find{_why_not_planted(facts)}", EXPECTED)
    if _may_be_resumed(facts):
        return Finding(Verdict.NOT_APPLICABLE, "the first run ended by itself, and what it left may be built on", EXPECTED)
    looks = [
        Look(member, one)
        for member in (*facts.revivals, *facts.second_run)
        if member.is_leader
        for one in member.said
        if one.kind == "found" and one.data.get("looked")
    ]
    # One that nobody asked for shows what it found, and is no second start of the drill's where it found nothing.
    found = [look for look in looks if look.poison or look.session]
    second = [look for look in looks if look.member in facts.second_run]
    if not found and not second:
        return _not_looked(facts)
    first = (found or second)[0]
    kinds = words.several(sorted({str(item.get("kind")) for item in planted.data["poison"]}), ", ")
    whose = (
        "second run's leader"
        if first.member in facts.second_run
        else f"leader of a start that nobody asked for ({words.who(first.member)})"
    )
    seen_by = f"lifeline of the {whose}, {words.after_press(facts, first.seen.at_s)}; planted by the first: {kinds}"
    if not found and not all(look.seen.data.get("marked", True) for look in second):
        observed = (
            f"the second run found itself in {_folder(facts, first)}, which is no workspace made for a drill, and looked nowhere else"
        )
        return words.inconclusive(observed, EXPECTED, seen_by=seen_by, advice="start it in a workspace that is built from run.source")
    if not found:
        observed = f"nothing of the first run, of {len(planted.data['poison'])} things planted, in {_folder(facts, first)}"
        return Finding(Verdict.KEPT, observed, EXPECTED, seen_by)
    by = "" if first.member in facts.second_run else " by a start that nobody asked for"
    observed = f"found of the first run{by} in {_folder(facts, first)}: {'; '.join(_found(first))}"
    if removed := _removed_too_late(facts, found):
        return words.inconclusive(f"{observed}; {removed}", EXPECTED, seen_by=seen_by, advice=TOO_LATE, spoilt=True)
    return Finding(Verdict.BROKEN, observed, EXPECTED, seen_by, _likely(facts, first), ADVICE)


def _may_be_resumed(facts: Facts) -> bool:
    """The first run ended by itself, so that its workspace is a clean one, and the team goes on with those."""
    if facts.history.header.get("resume", "allowed") != "allowed":
        return False
    return bool(facts.first_run) and not facts.missing_roles and all(one.died_alone and one.death.is_closed for one in facts.first_run)


def _removed_too_late(facts: Facts, found: list[Look]) -> str:
    """That the task was started again at the deadline while the first one's wrapper was still about to remove all that was found.

    What is wrong then, if anything, is how long that takes, and the machine may be why: an engine would have waited for the report.
    """
    report, left = facts.report, facts.history.first("workspace", "left-at-report")
    if report is None or left is None or report.answered_s <= facts.restarting_s or left.data.get("poison"):
        return ""
    if any(look.session or look.member not in facts.second_run or look.folder != left.data.get("path") for look in found):
        return ""
    restart, end = (words.after_press(facts, at_s) for at_s in (facts.restarting_s, report.answered_s))
    return f"the task was started again at the deadline ({restart}), and nothing of it was left there when the end was reported ({end})"


# --- What it found ----------------------------------------------------------------------------------------------------


def _found(look: Look) -> list[str]:
    """What was found, by kind and path; what lies in that start's own folder is told from there."""
    inside = f"{look.folder.rstrip('/')}/"
    items = [f"{item.get('kind')} {str(item.get('path')).removeprefix(inside)}{_held(item)}" for item in look.poison]
    return items + ([f"session in {_place(look.session)}"] if look.session else [])


def _held(item: Any) -> str:
    return ", which is locked still" if item.get("held") else ""


def _place(session: Any) -> str:
    return "its command line" if session["where"] == "argv" else "its environment"


def _folder(facts: Facts, look: Look) -> str:
    """Where it looked, as a folder and by device and inode, and whether that is where the first run was.

    A folder that is made anew can have the number of the one that was removed, so the same number says so only with something in it.
    """
    mine, theirs = _numbers(facts, look)
    told = f"{look.folder} (device {mine[0]}, inode {mine[1]}"
    if mine == (None, None):
        return look.folder
    if mine == theirs:
        return f"{told}: the first run's own folder)" if look.poison else f"{told})"
    return f"{told}; the first run's was inode {theirs[1]})" if theirs != (None, None) else f"{told})"


def _numbers(facts: Facts, look: Look) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Device and inode of its folder, and of the first run's; None where they are not told."""
    opened = facts.history.first("workspace", "opened")
    hello, first = look.member.hello, opened.data if opened is not None else {}
    return (hello.get("cwd_dev"), hello.get("cwd_ino")), (first.get("dev"), first.get("ino"))


def _likely(facts: Facts, look: Look) -> str:
    mine, theirs = _numbers(facts, look)
    is_same_folder = mine == theirs != (None, None)
    used = "the first run's own folder was used again" if is_same_folder else "the workspace of the killed run was kept, or copied"
    if look.member not in facts.second_run:
        used = f"the engine, or the wrapper, starts a killed run again by itself, and {used}"
    if look.poison and look.session:
        return f"the second run continues the first: {used}, and its session was resumed"
    return used if look.poison else "the session of the killed run was resumed"


# --- Why it did not come ----------------------------------------------------------------------------------------------


def _why_not_planted(facts: Facts) -> str:
    why = next((one.last("not-planted") for one in facts.pressed_members if one.last("not-planted")), None)
    return f": {why.data.get('why')}" if why else ""


def _not_looked(facts: Facts) -> Finding:
    if facts.second_leader is not None:
        return words.inconclusive("the second run came up and did not look", EXPECTED)
    failed = facts.history.first("adapter", "not-restarted")
    if failed is None:
        return words.inconclusive(_not_tried(facts), EXPECTED)
    if failed.data.get("refused"):
        return _refused(facts, failed)
    return _never_came(facts, failed)


def _not_tried(facts: Facts) -> str:
    restarted = facts.history.first("adapter", "restarted")
    if restarted is not None and restarted.data.get("error"):
        return f"the second start failed: {restarted.data['error']}"
    return "the second run never came up" if facts.restarting_s < float("inf") else "the task was not started again"


def _refused(facts: Facts, failed: Observation) -> Finding:
    """A start that was refused: right where the old workspace is in the way and cannot be removed; else nothing shows what it is for."""
    observed = f"the second start was refused: {failed.data.get('why')}"
    left = facts.history.first("workspace", "left")
    obstacle = str(left.data.get("obstacle") or "") if left is not None and left.data.get("same") and left.data.get("poison") else ""
    if not obstacle:
        return words.inconclusive(observed, EXPECTED, advice="if a cancelled task can never be started again, leave the scenario out")
    if not failed.data.get("said"):
        return words.inconclusive(f"{observed}, and nothing was said of {obstacle}, which keeps the old workspace", EXPECTED)
    return Finding(
        Verdict.KEPT,
        f"{observed}; nothing was started in the old workspace, which cannot be removed: {obstacle}",
        EXPECTED,
        f"adapter; mounts and folders of {left.data.get('path') if left else ''}, {words.after_press(facts, failed.at_s)}",
    )


def _never_came(facts: Facts, failed: Observation) -> Finding:
    """A start that neither refused nor came: it is blocked by what the killed run left if another task comes up meanwhile."""
    start = words.numbers(facts.terms, "start")
    waited = f"the second run never came up within {words.seconds(facts.terms.start_s)} ({start}): {failed.data.get('why')}"
    took_s = facts.control_took_s
    if took_s is None:
        is_tried = any(one.data.get("run") == CONTROL for one in facts.history.of("adapter", "other-starting"))
        other = "did not come up either" if is_tried else "was not tried, which could tell whether this one is blocked"
        return words.inconclusive(f"{waited}; another task {other}", EXPECTED)
    last = facts.history.first("adapter", "second-at-last")
    came = f"another task of the same wrapper came up {words.seconds(took_s)} after its start"
    if last is None or last.data.get("came"):
        return words.inconclusive(f"{waited}; it came up later, and {came}", EXPECTED, spoilt=True)
    if took_s > facts.terms.start_s * CONTROL_SHARE:
        return words.inconclusive(f"{waited}; {came}", EXPECTED, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    held = list(_held_locks(facts))
    observed = f"{waited}; {came}{f'; still locked: {words.several(held)}' if held else ''}"
    seen_by = "lifeline: no hello; another task's hello; file locks of living processes, as the process table tells them"
    return Finding(Verdict.BROKEN, observed, EXPECTED, seen_by, _in_the_way(held), UNBLOCK)


def _held_locks(facts: Facts) -> Iterator[str]:
    names = {one.subject: words.who(one) for one in facts.first_run}
    for seen in facts.history.of("process-table", "locks"):
        for lock in seen.data.get("locks") or ():
            yield f"{lock.get('path')} ({lock.get('kind')}) by {names.get(str(lock.get('subject')), lock.get('subject'))}"


def _in_the_way(held: list[str]) -> str:
    if held:
        return "a process of the killed run is alive, and holds a lock that it inherited or took"
    return "the start waits for a lock or a lease that the killed run took, and that nobody gives back"
