"""How an answer reaches its client: as a stream of what was made so far, or whole once all of it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_cancelcontract.recorder.meter.wires.wire import Reply, Wire

Headers = Sequence[tuple[str, str]]
PIECES_AT_ONCE = 200
"""Events of one stream that are written in one go; the other streams have their turn in between."""


class Line(Protocol):
    """The connection, as far as an answer needs it."""

    is_blocked: bool
    """The kernel took not all of what was written: its buffer is full."""

    def begin(self, status: int, headers: Headers) -> None:
        """Send the head of an answer."""

    def write(self, data: bytes) -> None:
        """Send a part of the body."""

    def end(self) -> None:
        """Send the end of the body."""

    def release(self) -> None:
        """The answer is over."""


class Whole:
    """An answer with a length, sent when all of it was made."""

    def __init__(self, line: Line, status: int, headers: Headers, body: Callable[[], bytes]) -> None:
        self.status = status
        self._line = line
        self._headers = headers
        self._body = body
        self._is_sent = False

    def push(self, made: int, is_all: bool) -> bool:  # noqa: ARG002  # the shape of a Delivery; what was made is sent only whole
        """Send it, where all was made."""
        if is_all and not self._is_sent:
            self._is_sent = True
            body = self._body()
            self._line.begin(self.status, [*self._headers, ("content-length", str(len(body)))])
            self._line.write(body)
            self._line.end()
        return False

    @property
    def is_done(self) -> bool:
        """All of it is with the kernel."""
        return self._is_sent and not self._line.is_blocked

    def detach(self) -> None:
        """Free the connection."""
        self._line.release()


class Streamed:
    """Events, each token's as soon as it was made, as far as the client reads."""

    status = 200

    def __init__(self, line: Line, headers: Headers, wire: Wire, reply: Reply) -> None:
        self._line = line
        self._headers = headers
        self._wire = wire
        self._reply = reply
        self._sent = 0
        self._has_begun = self._has_ended = False

    def push(self, made: int, is_all: bool) -> bool:
        """Send the next tokens; whether more wait, and the client reads."""
        pieces = len(self._reply.pieces)
        if not self._has_begun:
            self._has_begun = True
            self._line.begin(self.status, self._headers)
            self._line.write(self._wire.opening(self._reply))
        if self._line.is_blocked or self._has_ended:
            return False
        until = min(made, pieces, self._sent + PIECES_AT_ONCE)
        if until > self._sent:
            piece, reply = self._wire.piece, self._reply
            first, self._sent = self._sent, until
            self._line.write(b"".join([piece(reply, index) for index in range(first, until)]))
        if is_all and self._sent == pieces and not self._line.is_blocked:
            self._has_ended = True
            self._line.write(self._wire.closing(self._reply))
            self._line.end()
        return not self._line.is_blocked and self._sent < min(made, pieces)

    @property
    def is_done(self) -> bool:
        """All of it is with the kernel."""
        return self._has_ended and not self._line.is_blocked

    def detach(self) -> None:
        """Free the connection."""
        self._line.release()
