"""The wire between a runner process and the recorder: a JSON object a line out, a line of words back.

It must know nothing of habits. The encoder is written out since importing json takes a fifth of the whole start; answers are
plain words, so that nothing has to be decoded.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECT_WITHIN_S = 5.0
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


_BUSY = {errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR, errno.ENOMEM, errno.ENOBUFS, errno.EMFILE, errno.ENFILE}
"""Errors that tell of a machine at its limits, and not of whether somebody listens."""


class NoRecorder(Exception):
    """No address answers; the message gives each with its reason. ``is_sure`` where all of them say that nobody is there."""

    def __init__(self, reasons: Sequence[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f"{address}: {error}" for address, error in reasons))
        self.is_sure = not any(isinstance(error, TimeoutError) or getattr(error, "errno", None) in _BUSY for _, error in reasons)


def encode(value: object) -> str:
    """``value`` (None, bool, int, float, str, list, tuple, dict) as JSON in ASCII, on one line.

    Undecodable bytes of a command line (lone surrogates) become ``\\udcxx``; numbers that JSON lacks (inf, nan) become null.

    >>> encode({"argv": ["a\\n"], "uid": None})
    '{"argv":["a\\\\n"],"uid":null}'
    """
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _encode_text(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    if isinstance(value, dict):
        return "{" + ",".join([_encode_text(str(key)) + ":" + encode(item) for key, item in value.items()]) + "}"
    raise TypeError(f"no JSON for a {type(value).__name__}")


def _encode_text(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join([_encode_character(character) for character in text]) + '"'


def _encode_character(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if 0x20 <= code < 0x7F:
        return character
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def connect(addresses: Sequence[str]) -> tuple[socket.socket, str]:
    """A connection (close-on-exec) to the first address that answers, and that address.

    Addresses are ``unix:/path``, ``abstract:name`` and ``tcp:127.0.0.1:port``.

    Raises:
        NoRecorder: none does.
    """
    reasons: list[tuple[str, Exception]] = []
    for address in addresses:
        kind, _, place = address.partition(":")
        connection: socket.socket | None = None
        try:
            connection = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX)
            connection.settimeout(CONNECT_WITHIN_S)
            if kind == "tcp":
                host, _, port = place.rpartition(":")
                connection.connect((host, int(port)))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            else:
                _connect_in_turn(connection, "\0" + place if kind == "abstract" else place)
            connection.settimeout(None)
            return connection, address
        except (OSError, ValueError, OverflowError) as error:
            if connection is not None:
                connection.close()
            reasons.append((address, error))
    raise NoRecorder(reasons)


def _connect_in_turn(connection: socket.socket, place: str) -> None:
    until_s = time.monotonic() + CONNECT_WITHIN_S
    while True:
        try:
            return connection.connect(place)
        except BlockingIOError:
            # Very many come at once, and the queue of those that wait is full, connect(2). No event tells when there is room.
            if time.monotonic() > until_s:
                raise
        time.sleep(0.002)


def is_heard(addresses: Sequence[str]) -> bool:
    """Whether the recorder still listens, or may do so: a connection is opened, and closed at once."""
    try:
        connect(addresses)[0].close()
    except NoRecorder as error:
        return not error.is_sure
    return True


def die() -> None:
    """End this process at once: the recorder is gone, so nobody would ever end it."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(128 + signal.SIGKILL)  # still here: the first process of a PID namespace cannot be killed from inside, pid_namespaces(7)


class Lifeline:
    """One process's connection to the recorder. :meth:`say` may be called from any thread, :meth:`hear` from one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._speaking = threading.Lock()
        self._is_over = False
        self._heard = b""

    def say(self, what: str, **facts: object) -> None:
        """Send one message; nothing is sent after the goodbye, or once it is abandoned."""
        with self._speaking:
            if self._is_over:
                return
            self._is_over = what == "goodbye"
            message = encode({"say": what, "at_s": time.monotonic(), **facts}) + "\n"
            try:
                self._connection.sendall(message.encode("ascii"))
            except OSError:
                die()

    def hear(self) -> str | None:
        """Block for the recorder's next line; None once it has closed its end."""
        while b"\n" not in self._heard:
            try:
                more = self._connection.recv(4096)
            except OSError:
                more = b""
            if not more:
                return None
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode("utf-8", "replace")

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._connection.fileno()

    def abandon(self) -> None:
        """Close this process's copy (over fork it inherits one), without a goodbye."""
        with self._speaking:
            self._is_over = True
            self._connection.close()


def open_guard(address: str, token: str) -> socket.socket | None:
    """A second connection whose closing makes the kernel kill this process even while it is stopped; None where that is not to be had.

    Not on the lifeline itself: there every answer would count as an event and kill. Here nothing comes back, ever. Sending is
    over before the signal is armed. fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC (Linux).
    """
    import fcntl
    import select

    if not hasattr(fcntl, "F_SETSIG"):
        return None
    try:
        connection, _ = connect([address])
        connection.sendall(f"guard {token} {os.getpid()}\n".encode("utf-8", "surrogateescape"))
    except (NoRecorder, OSError):
        return None
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    poller = select.poll()
    poller.register(connection, 0)
    if poller.poll(0):  # closed before the signal was armed: no event will follow
        die()
    return connection
