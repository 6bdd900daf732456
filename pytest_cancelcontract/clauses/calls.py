"""What a press that has nothing new to do may not change: its call returns like any other, and the outcome stays what it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cancelcontract.clauses import words
from pytest_cancelcontract.clauses.facts import ROUNDING_S, Facts, Timing, asked_at_s
from pytest_cancelcontract.clauses.members import Span
from pytest_cancelcontract.clauses.parts import Part, broken, kept, unclear

FIRST_CALL, SECOND_CALL = "cancel-returned", "cancel-again-returned"
_ANSWER = "answer a cancel that finds nothing to do as done, or with an ordinary error; what ends its caller must not get out of it"
_RETURN = "return at once from a cancel that finds another under way, or nothing to end, and give every wait in it a deadline"
_LEAVE = "let a record that is terminal stay as it is: write it only where it says that the run is under way"


@dataclass(frozen=True, slots=True)
class Call:
    """A cancel call; ``is_clean`` is False where it ended in what is no ordinary error (SystemExit, say), None where nobody knows."""

    name: str
    at: Span
    error: str
    is_clean: bool | None

    def text(self, facts: Facts) -> str:
        """``"the cancel call returned +0.5 s with an error (LookupError: gone)"``."""
        if not self.at.is_closed:
            return f"{self.name} has not returned"
        error = f" with an error ({self.error})" if self.error else ""
        return f"{self.name} returned {words.after_press(facts, self.at.latest_s)}{error}"


def call(facts: Facts, kind: str = FIRST_CALL) -> Call:
    """The first cancel call of the drill, or the second."""
    name = "the cancel call" if kind == FIRST_CALL else "the second cancel call"
    returned = facts.history.first("adapter", kind)
    if returned is None:
        return Call(name, Span(facts.watched_until_s, math.inf), "", None)
    error = str(returned.data.get("error") or "")
    clean = returned.data.get("clean", None if error else True)
    return Call(name, Span(returned.at_s, returned.at_s), error, clean if isinstance(clean, bool) else None)


def returns(facts: Facts, seen: Call, since: Span, what: str) -> Part:
    """Whether a call returned within ``kill_within`` of ``since``, and with no error but an ordinary one."""
    text = seen.text(facts)
    if seen.is_clean is False:
        return broken(f"{text}, which is no ordinary error", "what is to end the run ended the call, or its caller", _ANSWER)
    timing = facts.against_span(facts.terms.kill_within_s, since=since, event=seen.at)
    late = f"{text}; {what} {words.after_press(facts, since.latest_s)}"
    if timing is Timing.BEYOND:
        return broken(late, "it waits for what has happened already, or never will, and without a deadline", _RETURN)
    if timing is Timing.TOO_CLOSE:
        return unclear(late, likely=words.SLOW_MACHINE, advice=words.QUIETER, spoilt=True)
    if timing is Timing.UNKNOWN:
        return unclear(late, likely="the drill ended before the limit, or when the run was gone is not known")
    return kept(text) if seen.is_clean else unclear(f"{text}, and whether that is an ordinary one is not known")


def stays(facts: Facts, since_s: float, press: str, likely: str) -> Part:
    """Whether an outcome that was terminal once became another one after a press.

    A wrapper's exit status is final, so it is read once; any other is read again after ``settle``, or nothing can be said.
    """
    report = facts.report
    if report is None:
        return unclear("no terminal outcome was reported", advice="see outcome-reported")
    if facts.lacks_an_answer:
        return unclear("the look that was taken as it was reported is older than any answer: the history lacks one")
    answers = [one for one in facts.history.of("outcome", "answer") if one.at_s >= report.answered_s]
    said = report.outcome
    for answer in answers:
        before, said = said, str(answer.data.get("outcome"))
        if said == before or answer.at_s < since_s:
            continue
        text = f"the outcome {before!r} became {said!r} {words.after_press(facts, answer.at_s)}"
        if asked_at_s(answer) < since_s - ROUNDING_S:
            # Whether it was answered before or behind the press is down to chance; another drill tells.
            return unclear(f"{text}, as a question says that was put before {press}", spoilt=True)
        return broken(f"{text}, after {press}", likely, _LEAVE)
    text = f"{report.outcome!r} {words.after_press(facts, report.answered_s)}"
    if report.by == "exit":
        return kept(f"{text}, by the wrapper's exit")
    again_s = max(report.answered_s, since_s) + facts.terms.settle_s
    if not any(one.at_s >= again_s - ROUNDING_S for one in answers):
        return unclear(f"{text}, and not read again after settle")
    return kept(f"{text}, and still so {words.after_press(facts, answers[-1].at_s)}")
