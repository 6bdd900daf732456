"""What a team lets a run do with its workspace, beyond the numbers in the terms: two settings that go with them everywhere.

Knows nothing of pytest, files or clocks, as the terms do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

RULE_NAMES = ("ignore", "resume")
RESUME_CHOICES = ("allowed", "never")


class BadRule(ValueError):
    """A rule's value is refused; the message names the value, its origin and what is allowed."""


@dataclass(frozen=True, slots=True)
class WorkspaceRules:
    """Which paths nobody watches, and whether what a run that ended by itself has left may be built on.

    ``ignore`` are patterns of the shell (``*`` crosses folders) for paths relative to the workspace; one that matches a folder covers what
    is below it. A killed run may never be resumed.
    """

    ignore: tuple[str, ...] = ()
    resume: str = "allowed"

    @property
    def may_resume_an_ended_run(self) -> bool:
        """A run that nobody had to kill may be gone on with."""
        return self.resume == "allowed"

    @property
    def opens(self) -> frozenset[str]:
        """What can be shown under these rules and under no others, as a scenario names what it needs."""
        return frozenset() if self.may_resume_an_ended_run else frozenset({"never-resumed"})

    def as_dict(self) -> dict[str, Any]:
        """JSON-shaped; only what is not as it is by default."""
        return {
            **({"ignore": list(self.ignore)} if self.ignore else {}),
            **({} if self.may_resume_an_ended_run else {"resume": self.resume}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkspaceRules:
        """Read what :meth:`as_dict` wrote; other keys are not looked at."""
        return cls(tuple(str(one) for one in data.get("ignore") or ()), str(data.get("resume") or "allowed"))


def settle_rules(given: Mapping[str, tuple[object, str]]) -> WorkspaceRules:
    """Validate what was given, as ``{name: (value, origin)}`` for the names in :data:`RULE_NAMES`, and fill in the defaults.

    Raises:
        BadRule: a value is refused.
    """
    rules = WorkspaceRules()
    if "ignore" in given:
        rules = replace(rules, ignore=_patterns(*given["ignore"]))
    if "resume" in given:
        rules = replace(rules, resume=_resume(*given["resume"]))
    return rules


def _patterns(value: object, origin: str) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
    is_sound = bool(words) and all(isinstance(word, str) and word.strip("./") and not word.startswith("/") for word in words)
    if not is_sound:
        raise BadRule(f"ignore takes patterns for paths below the workspace (like 'cache/*'), got {value!r} from {origin}")
    # Whoever looks at nothing sees nothing: that must be said with the clauses, and not with a pattern.
    if everything := next((str(word) for word in words if not str(word).strip("*/?.")), None):
        raise BadRule(f"ignore would leave nothing to watch, got {everything!r} from {origin}")
    return tuple(str(word) for word in words)


def _resume(value: object, origin: str) -> str:
    if value not in RESUME_CHOICES:
        raise BadRule(f"resume must be {' or '.join(RESUME_CHOICES)}, got {value!r} from {origin}")
    return str(value)
