"""What a runner was told on its command line, checked."""

from __future__ import annotations

import os

from uncooperative_runner.habits import HABITS, SUCCESSOR, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

LIFETIME_S = 600.0
CLEANUP_S = 1.0
NAMES = ("--habit", "--recorder", "--token", "--cleanup", "--lifetime", "--hold")
BEFORE_HANDLERS: Literal["before-handlers"] = "before-handlers"
BEFORE_WORK: Literal["before-work"] = "before-work"
MEMBER_NAMES = ("--member", "--attempt", "--folder", "--until", "--partner", "--tell")
"""How the runner starts another process of its own by exec; nobody else gives these."""


class BadCommand(ValueError):
    """A command line that is refused; the message says what is allowed."""


class Options:
    """A command line that was understood. ``deadline_s`` is the end of the lifetime, on the monotonic clock."""

    def __init__(self, values: dict[str, list[str]], started_s: float) -> None:
        self.recorders = values["--recorder"]
        self.token = _last("--token", values)
        if bool(self.recorders) != bool(self.token):
            raise BadCommand("--recorder and --token go together: give both, or neither to run it by hand")
        if not values["--habit"]:
            raise BadCommand(f"at least one --habit is needed; the habits are {', '.join(row.name for row in HABITS)}")
        self.plan = Plan(values["--habit"])
        self.cleanup_s = _seconds("--cleanup", values, CLEANUP_S, above_zero=False)
        self.deadline_s = started_s + _seconds("--lifetime", values, LIFETIME_S, above_zero=True)
        self.hold = _last("--hold", values)
        if self.hold not in ("", BEFORE_HANDLERS, BEFORE_WORK):
            raise BadCommand(f"--hold must be {BEFORE_HANDLERS} or {BEFORE_WORK}, got {self.hold!r}")
        self.member: MemberOptions | None = None
        if any(values[name] for name in MEMBER_NAMES):
            self.member = MemberOptions(values, self.plan)
            self.deadline_s = self.member.until_s
            if self.hold:
                raise BadCommand("--hold is for the leader alone, not for a --member")


class MemberOptions:
    """Which process of a run it is that was started by exec, in what attempt. It works in ``folder``, wherever it stands itself."""

    def __init__(self, values: dict[str, list[str]], plan: Plan) -> None:
        missing = [name for name in ("--member", "--attempt", "--folder", "--until") if not _last(name, values)]
        if missing:
            raise BadCommand(f"{', '.join(missing)} missing: a --member is started by the runner itself, with all that it needs")
        self.role = _last("--member", values)
        self.attempt = _last("--attempt", values)
        self.folder = _last("--folder", values)
        self.until_s = _seconds("--until", values, 0.0, above_zero=True)
        self.partner = _number("--partner", values)
        self.tell = _number("--tell", values)
        roles = [row.role for row in plan.children if row.is_bare] + [SUCCESSOR] * (SUCCESSOR in plan.names)
        partners = [role for row in plan.children if row.partner for role in (row.role, row.partner)]
        if self.role not in roles + partners:
            raise BadCommand(f"no habit has a --member {self.role!r}; these have {', '.join(roles + partners) or 'none'}")
        if (self.role in partners) != (self.partner > 0):
            raise BadCommand(f"--partner is for {', '.join(partners) or 'a respawner'}, which needs it")
        if not os.path.isabs(self.folder):
            raise BadCommand(f"--folder must be an absolute path, got {self.folder!r}")


def _last(name: str, values: dict[str, list[str]]) -> str:
    return (values[name] or [""])[-1]


def _number(name: str, values: dict[str, list[str]]) -> int:
    text = _last(name, values)
    if text and not (text.isascii() and text.isdigit()):
        raise BadCommand(f"{name} must be a whole number, got {text!r}")
    return int(text or -1)


def _seconds(name: str, values: dict[str, list[str]], default: float, *, above_zero: bool) -> float:
    text = _last(name, values) if values[name] else str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9 or (above_zero and seconds == 0):  # false for nan as well
        raise BadCommand(f"{name} must be a finite number of seconds {'above' if above_zero else 'not below'} 0, got {text!r}")
    return seconds
