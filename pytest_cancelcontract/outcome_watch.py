"""Ask for a run's outcome, again and again or once and for all, and note each answer with the times of its question.

Runs in a thread of its own, since a wrapper may take its time to answer. What an answer means is for the clauses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

from pytest_cancelcontract.adapters.driver import Answer

ASK_EVERY_S = 0.02
STORE_EVERY_S = 0.25
"""The same answer is stored at most so often; every change is stored, and what came right before the end."""


class Observe(Protocol):
    """Where answers go: ``kind`` is ``answer`` or ``error``."""

    def __call__(self, kind: str, *, at_s: float, **data: Any) -> None:
        """Store it."""


class OutcomeWatch:
    """One run's outcome, watched from :meth:`start` to :meth:`stop`.

    Args:
        ask: puts a fresh question and returns its answer, an overrun included; never raises.
        observe: stores an answer; called from :meth:`tell` on.
        by: ``wait`` is asked once, and blocks until the outcome is terminal; ``outcome`` is asked again and again.
        ask_again: the question that :meth:`once_more` puts; None where there is none.
        detail: what else is to be said of the last answer.
    """

    def __init__(
        self,
        ask: Callable[[], Answer],
        observe: Observe,
        *,
        by: Literal["wait", "outcome"],
        ask_again: Callable[[], Answer] | None = None,
        detail: Callable[[], str] = str,
    ) -> None:
        self._ask = ask
        self._observe = observe
        self._by = by
        self._ask_again = ask_again
        self._detail = detail
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._is_told = False
        self._told_s = 0.0
        self._terminal: Answer | None = None
        self._unreadable: Answer | None = None
        self._stored: Answer | None = None
        self._held_back: tuple[Answer, str] | None = None

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._watch, name="cancelcontract-outcome", daemon=True).start()

    def tell(self) -> None:
        """Store the answers from now on; :meth:`until_first` then waits for one to a question that is put behind this."""
        with self._lock:
            self._is_told = True
            self._told_s = time.monotonic()
            self._answered.clear()
            if self._terminal is not None and self._stored is None:
                self._store(self._terminal, self._by)  # a ``wait`` answers only once

    def stop(self) -> None:
        """Ask no more, and store nothing that is still to come."""
        with self._lock:
            self._stopped.set()

    @property
    def terminal(self) -> Answer | None:
        """The first terminal answer, told or not."""
        return self._terminal

    @property
    def unreadable(self) -> str:
        """Why the outcome was never read to its end: its words are none that anybody knows. Empty where that is not so."""
        last = self._unreadable
        return last.error or "" if last is not None and self._terminal is None else ""

    def until_first(self, at_most_s: float) -> None:
        """Wait until a question has been answered; one that blocks until the end is not waited for."""
        if self._by == "outcome":
            self._answered.wait(at_most_s)

    def until_terminal(self, at_most_s: float) -> bool:
        """Wait until an answer was terminal, told or not."""
        return self._ended.wait(at_most_s)

    def once_more(self) -> None:
        """Ask again when all is over, so that an outcome which changes its mind is seen."""
        if self._ask_again is not None and (self._by == "outcome" or self._terminal is not None):
            self._take(self._ask_again(), self._by, is_last=True)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._take(self._ask(), self._by)
            if self._by == "wait":
                return
            self._stopped.wait(ASK_EVERY_S)

    def _take(self, answer: Answer, by: str, *, is_last: bool = False) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            is_terminal = answer.outcome is not None and answer.outcome.is_terminal
            if answer.is_misconfigured:
                self._unreadable = answer
            if is_terminal and self._terminal is None:
                self._terminal = answer
            if self._is_told:
                self._store_if_new(answer, by, is_terminal=is_terminal, is_last=is_last)
            if is_terminal:
                self._ended.set()  # once it is stored: whoever waits goes on to press
            if answer.began_s >= self._told_s:  # one that was put before may be answered with what was so then
                self._answered.set()

    def _store_if_new(self, answer: Answer, by: str, *, is_terminal: bool, is_last: bool) -> None:
        last = self._stored
        is_same = last is not None and (last.outcome, last.error) == (answer.outcome, answer.error)
        if is_same and last is not None and not is_last and answer.ended_s - last.ended_s < STORE_EVERY_S:
            self._held_back = None if is_terminal else (answer, by)
            return
        if self._held_back is not None and not is_same:
            self._store(*self._held_back)
        self._held_back = None
        self._store(answer, by)

    def _store(self, answer: Answer, by: str) -> None:
        self._stored = answer
        if answer.outcome is None:
            self._observe("error", at_s=answer.ended_s, asked_at_s=answer.began_s, error=answer.error)
        else:
            told = {"asked_at_s": answer.began_s, "outcome": str(answer.outcome), "by": by, "detail": self._detail()}
            self._observe("answer", at_s=answer.ended_s, **told)
