"""A drill's observations in order of time, as plain data on disk: a JSON object a line, the first one a header.

The recorder appends; everybody else reads. A file that was cut short (pytest or the machine died) still loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HISTORY_FORMAT = "cancel-contract-history"
HISTORY_FORMAT_VERSION = 1
TERMINAL = frozenset({"cancelled", "failed", "succeeded"})
"""The outcomes after which a run is over."""
OUTCOME_CAPABILITIES = ("wait", "outcome", "exit")
"""What an adapter can have, of which one is needed for an outcome to be known at all."""


class BadHistory(ValueError):
    """The file is no history, or one of a version that is not known here."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One fact: who saw it, when, of whom, and what.

    ``at_s`` is on the machine's monotonic clock, in seconds. ``subject`` is a process's identity (``"4711:8812734"``), or
    empty where the fact is about the drill as a whole. ``data`` is JSON-shaped; docs/history.md lists the kinds.
    """

    at_s: float
    witness: str
    kind: str
    subject: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """The line that stands for it on disk, without the newline."""
        line: dict[str, Any] = {"at_s": round(self.at_s, 6), "witness": self.witness, "kind": self.kind}
        if self.subject:
            line["subject"] = self.subject
        if self.data:
            line["data"] = dict(self.data)
        return json.dumps(line, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class History:
    """All that the witnesses saw of one drill.

    ``header`` holds ``scenario``, ``run_id``, ``task_id``, ``terms`` (see ``Terms.as_dict``), ``wrapper``, ``capabilities`` (what
    the adapter can do), ``machine``, ``wall_time`` (ISO 8601, for people) and ``attempt`` (1, or 2 when the drill was run again).
    ``observations`` are ordered by ``at_s``.
    """

    header: Mapping[str, Any]
    observations: tuple[Observation, ...]
    path: str = ""

    @property
    def capabilities(self) -> frozenset[str]:
        """What the adapter can tell (``wait``, ``outcome``, ``exit``): as the header says, unless it was said anew later."""
        said = self.last("adapter", "capabilities")
        told = said.data.get("capabilities") if said else self.header.get("capabilities")
        return frozenset(str(one) for one in told) if isinstance(told, (list, tuple)) else frozenset()

    def of(self, witness: str, *kinds: str) -> Iterator[Observation]:
        """The observations of one witness, of these kinds (all kinds if none is named)."""
        return (seen for seen in self.observations if seen.witness == witness and (not kinds or seen.kind in kinds))

    def first(self, witness: str, *kinds: str) -> Observation | None:
        """The earliest of them, or None."""
        return next(self.of(witness, *kinds), None)

    def last(self, witness: str, *kinds: str) -> Observation | None:
        """The latest of them, or None."""
        found = None
        for found in self.of(witness, *kinds):  # noqa: B007 - the loop's last value is the answer
            pass
        return found


def header_line(header: Mapping[str, Any]) -> str:
    """The first line of a history file, without the newline."""
    return json.dumps({"format": HISTORY_FORMAT, "format_version": HISTORY_FORMAT_VERSION, **header}, separators=(",", ":"))


def load(path: Path | str) -> History:
    """Read a history back; a last line that was cut short is left out.

    Raises:
        BadHistory: the file is empty, not a history, or of an unknown version.
    """
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    header = _header(lines[0] if lines else "", str(path))
    observations = [seen for line in lines[1:] if (seen := _observation(line)) is not None]
    observations.sort(key=lambda seen: seen.at_s)
    return History(header, tuple(observations), str(path))


def _header(line: str, path: str) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != HISTORY_FORMAT:
        raise BadHistory(f"{path} is not a drill's history: its first line is no header")
    if header.get("format_version") != HISTORY_FORMAT_VERSION:
        raise BadHistory(f"{path} has format version {header.get('format_version')!r}; this version reads {HISTORY_FORMAT_VERSION}")
    return header


def _observation(line: str) -> Observation | None:
    try:
        read = json.loads(line)
        if not isinstance(read, dict) or not isinstance(data := read.get("data", {}), dict):
            return None
        return Observation(float(read["at_s"]), str(read["witness"]), str(read["kind"]), str(read.get("subject", "")), data)
    except (ValueError, KeyError, TypeError):
        return None
