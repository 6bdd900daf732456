"""The recorder's end of a runner process's connection: lines in, a few words out, and the end of file when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.reaper import Held

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)
"""Linux 6.5 and later; unix(7)."""
LINE_AT_MOST = 1024 * 1024
"""A runner's line is short; a peer that sends this much without a newline is no runner."""
ANOTHER_CLOCK_S = 10.0
"""A first message further than this from now was timed by another clock: its sender lives in a time namespace."""


class Lifeline:
    """One accepted connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        link: socket.socket,
        on_message: Callable[[Lifeline, dict[str, Any]], None],
        on_end: Callable[[Lifeline], None],
    ) -> None:
        self._loop = loop
        self._link = link
        self._on_message = on_message
        self._on_end = on_end
        self._buffer = b""
        self._has_our_clock: bool | None = None
        self.is_guard = False
        self.subject = ""
        link.setblocking(False)
        loop.add_reader(link.fileno(), self._readable)

    def peer(self) -> tuple[Held | None, str]:
        """The process at the other end as the kernel names it, and how it is held.

        A pid that the peer merely claims is never looked up: over TCP, or from a namespace that hides it, nobody is held.
        """
        if self._link.family != socket.AF_UNIX:
            return None, "a TCP connection names no process"
        try:
            pidfd = self._link.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
            os.set_inheritable(pidfd, False)
        except OSError:
            return self._by_credentials()
        identity = _identity_of_pidfd(pidfd)
        if identity is None:
            os.close(pidfd)
            return None, "the peer ended, or is not visible from here"
        return Held(identity, pidfd), "peer pidfd"

    def _by_credentials(self) -> tuple[Held | None, str]:
        pid = self.peer_pid()
        identity = process_table.identity_of(pid) if pid else None
        held = Held.take(identity) if identity else None
        return (held, "pidfd") if held else (None, "the peer ended, or is not visible from here")

    def peer_pid(self) -> int:
        """The peer's pid in the recorder's own PID namespace, or 0."""
        try:
            packed = self._link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except (OSError, AttributeError):
            return 0
        pid: int = struct.unpack("3i", packed)[0]
        return pid

    def say(self, words: str) -> None:
        """Send one line; a peer that is gone or does not read is no error."""
        with contextlib.suppress(OSError):
            self._link.send(words.encode() + b"\n")

    @property
    def is_closed(self) -> bool:
        """The connection has ended."""
        return self._link.fileno() < 0

    def close(self) -> None:
        """End the connection; the runner process at the other end ends with it."""
        if self._link.fileno() >= 0:
            self._loop.remove_reader(self._link.fileno())
            self._link.close()

    def _readable(self) -> None:
        try:
            data = self._link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._buffer) > LINE_AT_MOST:
            self.close()
            self._on_end(self)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._link.fileno() < 0:
                return
            self._on_message(self, self._on_our_clock(_parse(line)))

    def _on_our_clock(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message, without its time where that is not of this clock."""
        at_s = message.get("at_s")
        if self._has_our_clock is None and isinstance(at_s, (int, float)):
            self._has_our_clock = abs(at_s - time.monotonic()) < ANOTHER_CLOCK_S
        if self._has_our_clock is False:
            message.pop("at_s", None)
        return message


def _parse(line: bytes) -> dict[str, Any]:
    if line.startswith(b"guard "):
        _, _, rest = line.partition(b" ")
        return {"say": "guard", "token": rest.split(b" ")[0].decode("ascii", "replace")}
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {"say": "nonsense"}


def _identity_of_pidfd(pidfd: int) -> Identity | None:
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            pids = [int(line.split()[1]) for line in file if line.startswith("Pid:")]
        return process_table.identity_of(pids[0]) if pids and pids[0] > 0 else None
    except (OSError, ValueError):
        return None
