"""The numbers that a drill runs with and is judged by, each with the place that it came from.

Knows nothing of pytest, files or clocks: whoever reads the command line or a marker hands in ``(value, origin)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


class BadTerm(ValueError):
    """A term's value is refused; the message names the value, its origin and what is allowed."""


@dataclass(frozen=True, slots=True)
class TermRow:
    """One line of the contract's table of terms; ``default_s`` is None where there is no default."""

    name: str
    default_s: float | None
    meaning: str
    above_zero: bool = False


TERMS: tuple[TermRow, ...] = (
    TermRow("delivery", 5.0, "from pressed to noticed, or to the first use of force"),
    TermRow("grace", 5.0, "the most that may pass from there until force is used"),
    TermRow("cleanup", None, "the clean-up that must be allowed to finish (default: the smaller of 1 s and half of grace)"),
    TermRow("kill_within", 2.0, "from the end of the grace until gone, and from gone until reported", above_zero=True),
    TermRow("early", 0.0, "how long before gone the outcome may already be reported"),
    TermRow("settle", 0.5, "how long the world is watched after everything is quiet", above_zero=True),
    TermRow("retry", 3.0, "how long nothing new may start after a cancelled run"),
    TermRow("spend_within", 1.0, "how long after the handover the meter may still run"),
    TermRow("time_limit", 10.0, "the wall-clock limit given to the platform in the floor scenarios", above_zero=True),
    TermRow("stall_after", None, "without progress this long, a live run must be stopped (no value: not covered)", above_zero=True),
    TermRow(
        "lease", None, "without an answer of the engine this long, a live run must be stopped (no value: not covered)", above_zero=True
    ),
    TermRow("heartbeat_timeout", None, "the engine's heartbeat timeout (no value: not covered)", above_zero=True),
    TermRow("start", 30.0, "until the runner works, in each run of a drill", above_zero=True),
    TermRow("call", 30.0, "any one call into the adapter", above_zero=True),
)
TERM_NAMES: tuple[str, ...] = tuple(row.name for row in TERMS)
LARGEST_S = 1_000_000.0
"""Eleven days. Beyond that, timers of the system and of other plugins overflow."""
_BEGINS = {"pressed": ("delivery",), "hello": ("time_limit",), "progress": ("stall_after",), "answer": ("lease",)}
CLEANUP_SHARE = 0.8
"""A clean-up above this share of the grace is refused: it could not be told from one that was cut."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The promised numbers, all in seconds; made by :func:`settle_terms`, which validates them.

    ``origins`` maps a term's name to ``"marker"``, ``"command line"``, ``"ini"`` or ``"default"`` (or a longer word
    for the same, such as ``"--cancel-grace"``).
    """

    delivery_s: float = 5.0
    grace_s: float = 5.0
    cleanup_s: float = 1.0
    kill_within_s: float = 2.0
    early_s: float = 0.0
    settle_s: float = 0.5
    retry_s: float = 3.0
    spend_within_s: float = 1.0
    time_limit_s: float = 10.0
    stall_after_s: float | None = None
    lease_s: float | None = None
    heartbeat_timeout_s: float | None = None
    start_s: float = 30.0
    call_s: float = 30.0
    origins: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The number of the term called ``name`` (as in the contract, without ``_s``)."""
        value: float | None = getattr(self, f"{name}_s")
        return value

    def origin(self, name: str) -> str:
        """Where the number of ``name`` came from."""
        return self.origins.get(name, "default")

    @property
    def deadline_after_press_s(self) -> float:
        """Seconds from pressed to the deadline."""
        return self.deadline_after_s("pressed")

    def limit_after(self, trigger: str) -> tuple[str, ...]:
        """The terms whose sum is the time from a trigger (``"pressed"``, ``"hello"``, ``"progress"``, ``"answer"``) to the deadline."""
        return (*_BEGINS[trigger], "grace", "kill_within")

    def deadline_after_s(self, trigger: str) -> float:
        """That sum, in seconds.

        Raises:
            BadTerm: the term that begins it has no value.
        """
        values = {name: self.value(name) for name in self.limit_after(trigger)}
        if missing := [name for name, value in values.items() if value is None]:
            raise BadTerm(f"{missing[0]} has no value, so there is no deadline after the {trigger}")
        return sum(value or 0.0 for value in values.values())

    def as_dict(self) -> dict[str, dict[str, float | str | None]]:
        """``{name: {"value": seconds or None, "origin": …}}``, in the contract's order."""
        return {name: {"value": self.value(name), "origin": self.origin(name)} for name in TERM_NAMES}

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, float | str | None]]) -> Terms:
        """Read what :meth:`as_dict` wrote.

        Raises:
            BadTerm: a value is refused.
        """
        return settle_terms({name: (row["value"], str(row["origin"])) for name, row in data.items()})


def settle_terms(given: Mapping[str, tuple[object, str]]) -> Terms:
    """Validate what was given, fill in the defaults, and keep each value's origin.

    Args:
        given: ``{name: (value, origin)}``; a value of None means "not given".
    Raises:
        BadTerm: an unknown name, or a value that is no finite, non-negative number.
    """
    values: dict[str, float | None] = {}
    origins: dict[str, str] = {}
    rows = {row.name: row for row in TERMS}
    for name, (raw, origin) in given.items():
        if name not in rows:
            raise BadTerm(f"unknown term {name!r} from {origin}; the terms are {', '.join(TERM_NAMES)}")
        if raw is not None:
            values[name] = _number(rows[name], raw, origin)
            origins[name] = origin
    for row in TERMS:
        values.setdefault(row.name, row.default_s)
        origins.setdefault(row.name, "default")
    grace = values["grace"] or 0.0
    if values["cleanup"] is None:
        values["cleanup"] = min(1.0, grace / 2)
    elif (values["cleanup"] or 0.0) > CLEANUP_SHARE * grace:
        raise BadTerm(
            f"cleanup must be at most {CLEANUP_SHARE:g} of grace ({CLEANUP_SHARE * grace:g} s; grace is {grace:g} from"
            f" {origins['grace']}), got {values['cleanup']:g} from {origins['cleanup']}"
        )
    return Terms(**{f"{name}_s": value for name, value in values.items()}, origins=origins)  # type: ignore[arg-type]


def _number(row: TermRow, raw: object, origin: str) -> float:
    least = "above 0" if row.above_zero else "not below 0"
    allowed = f"{row.name} must be a finite number of seconds {least}, got {raw!r} from {origin}"
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise BadTerm(allowed)
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        raise BadTerm(allowed) from None
    if not math.isfinite(value) or value < 0 or (row.above_zero and value == 0):
        raise BadTerm(allowed)
    if value > LARGEST_S:
        raise BadTerm(f"{row.name} must be at most {LARGEST_S:.0f} seconds, got {raw!r} from {origin}")
    return value
