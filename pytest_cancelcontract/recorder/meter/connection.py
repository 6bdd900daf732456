"""One HTTP/1.1 connection: bytes in, requests out to the clerk; and it sees at once when the client goes, whatever is being sent.

Of headers and body nothing outlives the request but what :mod:`.wires` takes from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import struct
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol, cast

import h11

from pytest_cancelcontract.recorder.meter.account import Account
from pytest_cancelcontract.recorder.meter.delivery import Headers
from pytest_cancelcontract.recorder.meter.routes import Route, Target, is_aside, route
from pytest_cancelcontract.recorder.meter.wires.wire import NAME_AT_MOST, Request
from pytest_cancelcontract.recorder.meter.work import Work

HEAD_AT_MOST = 128 * 1024
_LOOKED_UP = (b"x-attempt", b"x-role", b"content-encoding", b"upgrade")
_LAST_DATA_RECV = 52
"""Where ``tcpi_last_data_recv`` stands in Linux's ``struct tcp_info``: for how long no data came, in milliseconds."""
_COARSE_CLOCK = 6
"""``CLOCK_MONOTONIC_COARSE``, which goes on by a tick, as the kernel's stamps of data do."""
_TICK_S = time.clock_getres(_COARSE_CLOCK)
_REASONS = {one.value: one.phrase for one in HTTPStatus}
BODY_AT_MOST = 32 * 1024 * 1024
"""Bytes of a request; agents send a whole conversation each time, with pictures."""
AHEAD_AT_MOST = 1024 * 1024
"""Bytes that a client may send while its last request is still being answered."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is taken from a request's head."""

    method: str
    target: Target
    attempt: str
    role: str
    encoding: str
    is_upgrade: bool
    came_s: float = math.nan
    """When the last bytes of the request came (monotonic, seconds), which a head by itself does not know."""

    @classmethod
    def of(cls, request: h11.Request) -> Head:
        """Everything else of it is forgotten, above all who asks."""
        # Only these are looked up: no header that may hold a key gets a name here.
        headers = {name: value for name, value in request.headers if name in _LOOKED_UP}
        attempt, role, encoding, upgrade = (headers.get(name, b"").decode("ascii", "replace")[:NAME_AT_MOST] for name in _LOOKED_UP)
        method, target = request.method.decode("ascii"), Target.parse(request.target)
        return cls(method, target, attempt, role, encoding.strip().lower(), "websocket" in upgrade.lower())

    def is_aside(self, found: Route | None) -> bool:
        """Whether it is housekeeping, being what was ``found`` for it."""
        return is_aside(self.method, self.target, found, is_upgrade=self.is_upgrade)

    def facts(self, wire: str, request: Request) -> dict[str, Any]:
        """What a note tells of the request."""
        return {
            "wire": wire,
            "path": self.target.shown(),
            "model": request.model,
            "stream": request.stream,
            "background": request.background,
            "attempt": self.attempt,
            "role": self.role,
            "came_s": round(self.came_s, 6),
        }


class Clerk(Protocol):
    """Who answers what a connection reads."""

    def connected(self, connection: Connection) -> None:
        """A client has come."""

    def left(self, connection: Connection) -> None:
        """The connection is closed."""

    def account_of(self, head: Head) -> Account | None:
        """The open account that a request is for, if there is one."""

    def asked(self, connection: Connection, head: Head, body: bytes) -> None:
        """A request is complete. It is answered by ``begin``, ``write`` and ``end``, at once or later."""


class Connection(asyncio.Protocol):
    """Reads requests one after the other, and writes what it is told. Also the ``Line`` of an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clerk: Clerk) -> None:
        self._loop = loop
        self._clerk = clerk
        self._http = _reader()
        self._transport: asyncio.Transport | None = None
        self._head: Head | None = None
        self._body = bytearray()
        self.is_blocked = False
        self.work: Work | None = None
        self._account: Account | None = None
        self._takes_body = True
        self._came_s = 0.0
        """When the bytes came that were read last."""
        self._free_s = 0.0
        """When the last answer was over."""

    # --- From the loop ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = cast(asyncio.Transport, transport)
        # No buffer of our own: blocked means that the kernel's is full, and an answer is over when the kernel has all of it.
        self._transport.set_write_buffer_limits(high=0)
        link = self._transport.get_extra_info("socket")
        if link.family in (socket.AF_INET, socket.AF_INET6):
            # The loop does it only for sockets that name their protocol, which an accepted one need not do.
            with contextlib.suppress(OSError):  # it was reset before it was accepted
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clerk.connected(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, or of the next one."""
        if self._transport is None:
            return
        self._came_s = _came_s(self._transport.get_extra_info("socket"))
        self._feed(data)

    def eof_received(self) -> None:
        """The client has closed, or half of it: nobody waits for the answer of a request that is still open."""
        self.abort(is_clients=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # how it broke tells nothing more
        """The connection is gone."""
        self._let_go()
        self._clerk.left(self)

    def pause_writing(self) -> None:
        """The kernel's buffer is full: the client does not read, or not as fast."""
        self.is_blocked = True

    def resume_writing(self) -> None:
        """The client has read."""
        self.is_blocked = False
        if self.work is not None:
            self.work.proceed()

    # --- For an answer ------------------------------------------------------------------------------------------------

    def carry(self, account: Account) -> None:
        """The request that is answered now is this account's."""
        self._account = account
        account.connections.add(self)

    def begin(self, status: int, headers: Headers) -> None:
        """Send the head of an answer."""
        self._send(h11.Response(status_code=status, headers=[*headers], reason=_REASONS.get(status, "Scripted")))

    def write(self, data: bytes) -> None:
        """Send a part of the body."""
        if data:
            self._send(h11.Data(data=data))

    def end(self) -> None:
        """Send the end of the body."""
        self._send(h11.EndOfMessage())

    def release(self) -> None:
        """The answer is over; the next request, if any, is read in a later turn of the loop."""
        self.work = None
        self._put_down()
        self._free_s = time.monotonic()
        if self._transport is not None:
            self._loop.call_soon(self._next)

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer with an error at once, and close: what the client would send next may be the rest of nonsense."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.begin(status, [*headers, ("content-length", str(len(body))), ("connection", "close")])
            self.write(body if self._takes_body else b"")
            self.end()
        self._put_down()
        if self._transport is not None:
            self._transport.close()

    def abort(self, *, is_clients: bool = False) -> None:
        """Close at once; ``is_clients`` says that the client did it, which ends what it waits for."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if is_clients:
            self._let_go()

    # --- Inside -------------------------------------------------------------------------------------------------------

    def _send(self, event: h11.Event) -> None:
        if self._transport is not None and (data := self._http.send(event)):
            self._transport.write(data)

    def _let_go(self) -> None:
        self._transport = None
        work, self.work = self.work, None
        if work is not None:
            work.disconnect()
        self._put_down()

    def _put_down(self) -> None:
        if self._account is not None:
            self._account.connections.discard(self)
            self._account = None

    def _next(self) -> None:
        if self._transport is None:
            return
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is h11.MUST_CLOSE:
            self._transport.close()
            return
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            # The next cycle, in a reader of its own: the line that may stand before what was sent ahead cannot be taken out of this one.
            ahead, self._http = self._http.trailing_data[0], _reader()
            self._feed(ahead)

    def _feed(self, data: bytes) -> None:
        if self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            # RFC 9112, section 2.2: empty lines before a request are ignored.
            data = data.lstrip(b"\r\n")
        if data:
            self._http.receive_data(data)
            self._advance()

    def _advance(self) -> None:
        try:
            self._read_events()
        except h11.RemoteProtocolError as error:
            # Its words may quote the header line that is malformed, and a key stands in such a line.
            self._malformed(error.error_status_hint, "the request is no well-formed HTTP/1.1")

    def _read_events(self) -> None:
        while self._transport is not None:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
                return
            if event is h11.PAUSED:
                if len(self._http.trailing_data[0]) > AHEAD_AT_MOST:
                    self.abort(is_clients=True)
                return
            if isinstance(event, h11.Request):
                self._head = Head.of(event)
                self._takes_body = event.method != b"HEAD"
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > BODY_AT_MOST:
                    self._malformed(413, f"the request has more than {BODY_AT_MOST} bytes")
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._complete()
            else:
                return

    def _complete(self) -> None:
        head, body = self._taken()
        assert head is not None
        self._clerk.asked(self, head, body)

    def _taken(self) -> tuple[Head | None, bytes]:
        """What was read of a request that is whole or malformed now; nobody can bill it before.

        It is dated by the bytes that made it so, and not before the answer was over that it was sent ahead behind.
        """
        head, self._head = self._head, None
        body, self._body = bytes(self._body), bytearray()
        return replace(head, came_s=max(self._came_s, self._free_s)) if head else None, body

    def _malformed(self, status: int, why: str) -> None:
        head, _ = self._taken()
        account = self._clerk.account_of(head) if head else None
        if account is not None and head is not None:
            found = route(head.method, head.target)
            wire = found.wire.name if found and found.wire else "other"
            account.refuse(time.monotonic(), why, status, side=head.is_aside(found), **head.facts(wire, Request()))
        self.refuse(status, [("content-type", "text/plain; charset=utf-8")], f"{why}\n".encode())


def _reader() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_AT_MOST)


def _came_s(link: socket.socket) -> float:
    """When the data came that was just read, as the kernel dates it, and never before that; now, where it does not (a unix socket).

    A connection waits some turns of the loop until it is accepted and read, and a busy machine makes these long.
    """
    ago_s = 0.0
    if link.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, struct.error):  # it was reset, or the kernel tells less
            info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECV + 4)
            ago_s = struct.unpack_from("=I", info, _LAST_DATA_RECV)[0] / 1000
    # The clock is read behind it, and both ends are told in whole ticks: what may be one too many is left out.
    return time.monotonic() - max(0.0, ago_s - _TICK_S)
