"""What a clause says of a history: a verdict with its evidence. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The three verdicts, and the two ways in which a clause is not judged."""

    KEPT = "kept"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    NOT_COVERED = "not covered"
    NOT_APPLICABLE = "not applicable"


class Level(StrEnum):
    """How firmly a clause is promised."""

    MUST = "must"
    SHOULD = "should"


@dataclass(frozen=True, slots=True)
class Finding:
    """One clause judged in one scenario.

    ``observed``, ``expected``, ``seen_by``, ``likely`` and ``advice`` are plain text, one line each (``""`` where there is
    nothing to say). ``spoilt`` is True where the machine, not the wrapper, is why nothing can be said: the drill is then
    run once more. ``lacks`` says what the adapter would need, for a clause that is not covered.
    """

    verdict: Verdict
    observed: str
    expected: str = ""
    seen_by: str = ""
    likely: str = ""
    advice: str = ""
    spoilt: bool = False
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding with its address: ``deaf-child:no-survivors``."""

    scenario: str
    clause: str
    level: Level
    finding: Finding

    @property
    def id(self) -> str:
        """``scenario:clause``, as users write it."""
        return f"{self.scenario}:{self.clause}"

    @property
    def verdict(self) -> Verdict:
        """The finding's verdict."""
        return self.finding.verdict


_WORST_FIRST = (Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.KEPT)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them, in the order broken, inconclusive, kept; none at all is inconclusive.

    Clauses that were not judged (not covered, not applicable) do not count.
    """
    present = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in present), Verdict.INCONCLUSIVE)
