"""What a runner was told on its command line, checked."""

from __future__ import annotations

from uncooperative_runner.habits import HABITS, Plan

LIFETIME_S = 600.0
CLEANUP_S = 1.0


class BadCommand(ValueError):
    """A command line that is refused; the message says what is allowed."""


class Options:
    """A command line that was understood. ``deadline_s`` is the end of the lifetime, on the monotonic clock."""

    def __init__(self, values: dict[str, list[str]], started_s: float) -> None:
        self.recorders = values["--recorder"]
        self.token = (values["--token"] or [""])[-1]
        if bool(self.recorders) != bool(self.token):
            raise BadCommand("--recorder and --token go together: give both, or neither to run it by hand")
        if not values["--habit"]:
            raise BadCommand(f"at least one --habit is needed; the habits are {', '.join(row.name for row in HABITS)}")
        self.plan = Plan(values["--habit"])
        self.cleanup_s = _seconds("--cleanup", values, CLEANUP_S, above_zero=False)
        self.deadline_s = started_s + _seconds("--lifetime", values, LIFETIME_S, above_zero=True)


def _seconds(name: str, values: dict[str, list[str]], default: float, *, above_zero: bool) -> float:
    text = values[name][-1] if values[name] else str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9 or (above_zero and seconds == 0):  # false for nan as well
        raise BadCommand(f"{name} must be a finite number of seconds {'above' if above_zero else 'not below'} 0, got {text!r}")
    return seconds
