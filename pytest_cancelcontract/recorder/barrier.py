"""The barrier at which a leader is held: it has asked, and its answer is kept back until it may go on."""

from __future__ import annotations

from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.lifeline import Lifeline


class Barrier:
    """One drill's barrier. ``where`` is the place at which the leader that came last waits, in words."""

    def __init__(self, journal: Journal) -> None:
        self.where = ""
        self.was_reached = False
        self._journal = journal
        self._is_open = False
        self._waiting: list[tuple[Lifeline, str]] = []

    @property
    def is_waiting(self) -> bool:
        """A leader is held."""
        return bool(self._waiting)

    def arrive(self, lifeline: Lifeline, answer: str, where: str) -> None:
        """A leader waits for ``answer``; it has it at once where the barrier is open already."""
        self.where, self.was_reached = where, True
        if self._is_open:
            lifeline.say(answer)
        else:
            self._waiting.append((lifeline, answer))

    def release(self, why: str) -> None:
        """Let go on who waits, and whoever comes from now on."""
        self._is_open = True
        for lifeline, answer in self._waiting:
            if not lifeline.is_closed:
                self._journal.add("drill", "released", lifeline.subject, why=why)
                lifeline.say(answer)
        self._waiting.clear()
