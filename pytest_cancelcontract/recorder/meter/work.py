"""One request from the moment it was asked until it is over: its tokens are made by the clock, and noted.

A token is made when it is due, whether or not its bytes can be sent: a client that does not read spends as well.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

NOTES_EVERY_S = 0.05
WAKES_EVERY_S = 0.02
"""The tokens of a fast stream are sent together, this long apart."""
_ROUNDING = 1e-6
"""Of a token: a timer that is right on time must not find its token a rounding error away."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When which token is made: the first at once, the others so many a second, or (no rate) all of them at once."""

    began_s: float
    total: int
    per_s: float | None

    def made(self, at_s: float) -> int:
        """How many were made by then."""
        if self.per_s is None:
            return self.total
        return min(self.total, math.floor(max(0.0, at_s - self.began_s) * self.per_s + _ROUNDING) + 1) if self.total else 0

    def due_s(self, index: int) -> float:
        """When the token of this number, from 0, is made."""
        return self.began_s if self.per_s is None else self.began_s + index / self.per_s


class Delivery(Protocol):
    """How what was made is sent."""

    status: int

    def push(self, made: int, is_all: bool) -> bool:
        """Send what can be sent of the first ``made`` tokens; whether more could be sent right now."""

    @property
    def is_done(self) -> bool:
        """All of the answer is with the kernel."""

    def detach(self) -> None:
        """The work is over: the connection is free for another request."""


class Book(Protocol):
    """Where a work's events go."""

    def tokens(self, work: Work, at_s: float, count: int, since_s: float) -> None:
        """So many were made since then."""

    def over(self, work: Work, kind: str, at_s: float, **data: Any) -> None:
        """The work is over; nothing of it follows."""


class Work:
    """One open request. Made ``delivery`` without: in the background, where nobody waits for the bytes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, book: Book, request: str, tokens: int, per_s: float | None) -> None:
        self.request = request
        self.made = 0
        self._loop = loop
        self._book = book
        self._tokens = tokens
        self._per_s = per_s
        self._delivery: Delivery | None = None
        self._pace: Pace | None = None
        self._timer: asyncio.Handle | None = None
        self._noted = 0
        self._noted_at_s = 0.0
        self.is_over = False

    @property
    def is_started(self) -> bool:
        """Its tokens are being made: it is not held any more."""
        return self._pace is not None

    def attach(self, delivery: Delivery) -> None:
        """Where the answer goes."""
        self._delivery = delivery

    def start(self) -> None:
        """Begin to make tokens, now."""
        if self._pace is None and not self.is_over:
            now = time.monotonic()
            self._pace, self._noted_at_s = Pace(now, self._tokens, self._per_s), now
            self.proceed()

    def proceed(self) -> None:
        """Make what is due, note it, send it, and see to the next time."""
        if self.is_over or self._pace is None:
            return
        now = time.monotonic()
        self._make(now)
        is_made = self.made >= self._tokens
        if is_made or not self._noted or now - self._noted_at_s >= NOTES_EVERY_S:
            self._note(now)
        could_send = self._delivery.push(self.made, is_made) if self._delivery else False
        if self.is_over:  # the connection broke under the write
            return
        if is_made and (self._delivery is None or self._delivery.is_done):
            self._finish("ended", time.monotonic(), status=self._delivery.status if self._delivery else 200)
            return
        self._cancel_timer()
        if could_send:
            self._timer = self._loop.call_soon(self.proceed)
        elif not is_made:
            self._timer = self._loop.call_at(self._next_s(now), self.proceed)
        # Else the bytes wait for the client, and the connection says when they are gone.

    def flush(self) -> None:
        """Note what was made up to now."""
        if not self.is_over and self._pace is not None:
            now = time.monotonic()
            self._make(now)
            self._note(now)

    def disconnect(self) -> None:
        """The client went before it was answered."""
        self.flush()
        self._finish("disconnected", time.monotonic())

    def cancel(self) -> None:
        """The client called it off."""
        self.flush()
        self._finish("cancelled", time.monotonic())

    def drop(self) -> None:
        """End it without a word."""
        self.is_over = True
        self._cancel_timer()

    def _next_s(self, now: float) -> float:
        assert self._pace is not None
        at_s = max(self._pace.due_s(self.made), now + WAKES_EVERY_S)
        return min(at_s, max(now, self._noted_at_s + NOTES_EVERY_S)) if self.made > self._noted else at_s

    def _make(self, now: float) -> None:
        assert self._pace is not None
        self.made = self._pace.made(now)

    def _note(self, now: float) -> None:
        if count := self.made - self._noted:
            since_s, self._noted, self._noted_at_s = self._noted_at_s, self.made, now
            self._book.tokens(self, now, count, since_s)

    def _finish(self, kind: str, at_s: float, **data: Any) -> None:
        if self.is_over:
            return
        self.drop()
        self._book.over(self, kind, at_s, tokens=self.made, **data)
        if self._delivery is not None:
            self._delivery.detach()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
