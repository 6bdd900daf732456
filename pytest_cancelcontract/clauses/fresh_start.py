"""fresh-start: the next start of the task finds nothing of a run that was killed, and nothing of it stands in its way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import Facts
from pytest_cancelcontract.clauses.members import CONTROL
from pytest_cancelcontract.finding import Finding, Verdict
from pytest_cancelcontract.history import Observation

ADVICE = (
    "throw the workspace of a killed run away and build it anew from its source, and start a new session instead of resuming the old one"
)
UNBLOCK = "tie each lock to a process that is ended with its run, do not let the run inherit it, and break the locks of a killed run"
EXPECTED = "the second run finds no file, lock or session of the first, and is not kept from starting by one"
CONTROL_SHARE = 1 / 3
"""Another task must have come up in this share of the time that the same one was given, or the machine may be why that one did not."""


def check(facts: Facts) -> Finding:
    """Judge what the second run found of the first, or what kept it from starting.

    A second start that says why it will not start, and starts nothing, keeps this where the old workspace cannot be removed.
    Returns:
        inconclusive when the first run left no poison, or no second run came up and looked.
    """
    planted = next((one.last("planted") for one in facts.pressed_members if one.last("planted")), None)
    if planted is None or not planted.data.get("poison"):
        return words.inconclusive(f"the first run left nothing to find{_why_not_planted(facts)}", EXPECTED)
    if _may_be_resumed(facts):
        return Finding(Verdict.NOT_APPLICABLE, "the first run ended by itself, and what it left may be built on", EXPECTED)
    looks = [
        one for member in facts.second_run if member.is_leader for one in member.said if one.kind == "found" and one.data.get("looked")
    ]
    if not looks:
        return _not_looked(facts)
    kinds = words.several(sorted({str(item.get("kind")) for item in planted.data["poison"]}), ", ")
    seen_by = f"lifeline of the second run's leader, {words.after_press(facts, looks[0].at_s)}; planted by the first: {kinds}"
    found = [item for look in looks for item in _found(look, _where(facts))]
    if not found and not all(look.data.get("marked", True) for look in looks):
        observed = f"the second run found itself in {_folder(facts)}, which is no workspace made for a drill, and looked nowhere else"
        return words.inconclusive(observed, EXPECTED, seen_by=seen_by, advice="start it in a workspace that is built from run.source")
    if not found:
        observed = f"nothing of the first run, of {len(planted.data['poison'])} things planted, in {_folder(facts)}"
        return Finding(Verdict.KEPT, observed, EXPECTED, seen_by)
    observed = f"found of the first run in {_folder(facts, is_built_on=True)}: {'; '.join(found)}"
    return Finding(Verdict.BROKEN, observed, EXPECTED, seen_by, _likely(facts, looks), ADVICE)


def _may_be_resumed(facts: Facts) -> bool:
    """The first run ended by itself, so that its workspace is a clean one, and the team goes on with those."""
    if facts.history.header.get("resume", "allowed") != "allowed":
        return False
    return bool(facts.first_run) and not facts.missing_roles and all(one.died_alone and one.death.is_closed for one in facts.first_run)


# --- What it found ----------------------------------------------------------------------------------------------------


def _found(look: Observation, folder: str) -> list[str]:
    """What was found, by kind and path; what lies in the second run's own folder is told from there."""
    inside = f"{folder.rstrip('/')}/"
    items = [f"{item.get('kind')} {str(item.get('path')).removeprefix(inside)}{_held(item)}" for item in look.data.get("poison") or ()]
    session = look.data.get("session")
    return items + ([f"session in {_place(session)}"] if session else [])


def _held(item: Any) -> str:
    return ", which is locked still" if item.get("held") else ""


def _place(session: Any) -> str:
    return "its command line" if session["where"] == "argv" else "its environment"


def _where(facts: Facts) -> str:
    second = facts.second_leader
    return str(second.hello.get("cwd", "its working folder")) if second is not None else "its working folder"


def _folder(facts: Facts, *, is_built_on: bool = False) -> str:
    """Where the second run found itself, as a folder and by device and inode, and whether that is where the first one was.

    A folder that is made anew can have the number of the one that was removed, so the same number says so only with something in it.
    """
    path = _where(facts)
    mine, theirs = _numbers(facts)
    told = f"{path} (device {mine[0]}, inode {mine[1]}"
    if mine == (None, None):
        return path
    if mine == theirs:
        return f"{told}: the first run's own folder)" if is_built_on else f"{told})"
    return f"{told}; the first run's was inode {theirs[1]})" if theirs != (None, None) else f"{told})"


def _numbers(facts: Facts) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Device and inode of the second run's folder, and of the first one's; None where they are not told."""
    second, opened = facts.second_leader, facts.history.first("workspace", "opened")
    hello, first = second.hello if second is not None else {}, opened.data if opened is not None else {}
    return (hello.get("cwd_dev"), hello.get("cwd_ino")), (first.get("dev"), first.get("ino"))


def _is_same_folder(facts: Facts) -> bool:
    mine, theirs = _numbers(facts)
    return mine == theirs != (None, None)


def _likely(facts: Facts, looks: list[Observation]) -> str:
    has_files = any(look.data.get("poison") for look in looks)
    used = "the first run's own folder was used again" if _is_same_folder(facts) else "the workspace of the killed run was kept, or copied"
    if has_files and any(look.data.get("session") for look in looks):
        return f"the second run continues the first: {used}, and its session was resumed"
    return used if has_files else "the session of the killed run was resumed"


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
