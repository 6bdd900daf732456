"""What one drill wants of the recorder beyond watching one run: a barrier, a longer watch, a run that may never start. Plain data.

The recorder knows no scenarios; the drill says here what they come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FIRST = "first"
"""The run that cancel is pressed for; the others of a drill (``bystander``, ``next``) stand beside it, or follow."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs from watching one run that is cancelled.

    ``hold`` is the barrier that the leader waits at (as ``uncooperative_runner --hold``), None for none. ``watch_s`` is how long the
    world is watched after everything is quiet, where that is more than ``settle``. ``may_not_start`` says that a run which never comes
    up is an end like another.

    ``limit_s`` is the time from the trigger to the deadline (None: as after a press), and ``counts_from`` what that is: ``pressed`` (or
    whatever was done to the run in its place), the leader's ``hello``, or the last ``progress`` of a run that is stuck. ``calls`` is how
    many calls that end the run are under way once it is triggered. ``ignore`` are patterns of paths in the workspace that nobody wants
    to hear of.

    ``agent`` says that the first command is an agent's own command line, which never says hello: it is the run's leader, and what comes
    of it is found from outside.
    """

    hold: str | None = None
    watch_s: float = 0.0
    may_not_start: bool = False
    limit_s: float | None = None
    counts_from: str = "pressed"
    calls: int = 1
    ignore: tuple[str, ...] = ()
    agent: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON-shaped."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read what :meth:`as_dict` wrote."""
        return cls(**{**data, "ignore": tuple(data.get("ignore", ()))})
