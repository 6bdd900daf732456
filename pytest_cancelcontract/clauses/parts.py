"""A promise of several parts: it is kept only if each of them is, and is broken if one is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cancelcontract.finding import Finding, Verdict, worst


@dataclass(frozen=True, slots=True)
class Part:
    """What one part comes to, in words that stand beside the others'."""

    verdict: Verdict
    text: str
    likely: str = ""
    advice: str = ""
    spoilt: bool = False


def kept(text: str) -> Part:
    """This part holds."""
    return Part(Verdict.KEPT, text)


def broken(text: str, likely: str, advice: str) -> Part:
    """This part alone breaks the promise."""
    return Part(Verdict.BROKEN, text, likely, advice)


def unclear(text: str, *, likely: str = "", advice: str = "", spoilt: bool = False) -> Part:
    """Nothing can be said of this part."""
    return Part(Verdict.INCONCLUSIVE, text, likely, advice, spoilt)


def whole(parts: Sequence[Part], expected: str, seen_by: str, *, before: str = "") -> Finding:
    """The finding that they come to: the worst of them, told by those that make it so.

    Args:
        before: what is to be said first, whatever the verdict.
    """
    verdict = worst(part.verdict for part in parts)
    chosen = [part for part in parts if part.verdict is verdict]
    observed = "; ".join([*([before] if before else []), *(part.text for part in chosen)])
    likely = next((part.likely for part in chosen if part.likely), "")
    advice = next((part.advice for part in chosen if part.advice), "")
    return Finding(verdict, observed, expected, seen_by, likely, advice, spoilt=any(part.spoilt for part in chosen))
