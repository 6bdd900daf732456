"""What the tests of the runner share: a stand-in for the recorder that answers and notes, and a look at the process table."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

SCRIPT = Path(__file__).parents[2] / "uncooperative_runner" / "run.py"
TOKEN = "t0ken"
WITHIN_S = 10.0
FOUR = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""The signals that a runner takes for a notice, written out: a list of the product's own would prove nothing."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a runner process; ``closed`` is the end of file on its lifeline."""

    what: str
    role: str
    pid: int
    facts: dict[str, Any] = field(default_factory=dict)


class Line:
    """One connection: a lifeline or a guard, with the process at its other end held by pidfd."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.role = ""
        self.pid = 0
        self.heard = b""
        self.pidfd = -1
        if connection.family == socket.AF_UNIX:
            peer = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
            with contextlib.suppress(ProcessLookupError):
                self.pidfd = os.pidfd_open(peer)


class StandIn:
    """A recorder for tests, in a thread: it answers each hello, and notes each message and each end of file.

    ``answer`` is sent to a leader's hello; ``{attempt}`` in it counts up. An empty one leaves the answer to the test. Others are
    let work, but for the roles in ``replies``.
    """

    def __init__(self, *listeners: socket.socket, addresses: list[str], answer: str) -> None:
        self.addresses = addresses
        self.answer = answer
        self.replies: dict[str, str] = {}
        self.said: list[Said] = []
        self.guards: list[Line] = []
        self._listeners = listeners
        self._lines: list[Line] = []
        self._attempts = 0
        self._news = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        for listener in listeners:
            self._selector.register(listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def until(self, what: str, role: str = "leader", *, count: int = 1, within_s: float = WITHIN_S, pid: int | None = None) -> Said:
        """The ``count``-th message of that kind from that role; fails with all that was said if it does not come."""
        deadline_s = time.monotonic() + within_s
        with self._news:
            while True:
                found = self.all(what, role, pid=pid)
                if len(found) >= count:
                    return found[count - 1]
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    pytest.fail(f"no {what} number {count} from {role} within {within_s} s; said: {self.said}")
                self._news.wait(left_s)

    def all(self, what: str, role: str = "leader", *, pid: int | None = None) -> list[Said]:
        """Every message of that kind from that role so far."""
        return [said for said in list(self.said) if said.what == what and said.role == role and pid in (None, said.pid)]

    def until_guards(self, count: int) -> None:
        """Return once so many guard connections are open."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.guards) >= count, WITHIN_S), f"{len(self.guards)} guards, not {count}"

    def tell(self, pid: int, word: str) -> None:
        """Send a word to one process on its lifeline."""
        line = next(line for line in self._lines if line.pid == pid)
        line.connection.sendall(f"{word}\n".encode())

    def drop_guards(self) -> None:
        """Close every guard connection, and leave the lifelines open."""
        for line in self.guards:
            line.connection.shutdown(socket.SHUT_RDWR)

    def close_connections(self) -> None:
        """Hang up on everybody, as the death of a recorder would."""
        for line in [*self._lines, *self.guards]:
            with contextlib.suppress(OSError):  # it hung up itself
                line.connection.shutdown(socket.SHUT_RDWR)

    def stop_listening(self) -> None:
        """Take no more connections, and hear nothing more; those that are there stay open."""
        if self._thread.is_alive():
            self._waker.close()
            self._thread.join(WITHIN_S)
        for listener in self._listeners:
            listener.close()

    def close(self) -> None:
        """Hang up on everybody, and end by its pidfd whoever is still there."""
        self.stop_listening()
        for line in [*self._lines, *self.guards]:
            line.connection.close()
            if line.pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(line.pidfd, signal.SIGKILL)
                os.close(line.pidfd)
        self._wake.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake:
                    return
                if key.fileobj in self._listeners:
                    connection = next(one for one in self._listeners if one is key.fileobj).accept()[0]
                    line = Line(connection)
                    self._lines.append(line)
                    self._selector.register(connection, selectors.EVENT_READ, line)
                else:
                    self._read(key.data)

    def _read(self, line: Line) -> None:
        try:
            more = line.connection.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            self._selector.unregister(line.connection)
            if line not in self.guards:
                self._note(Said("closed", line.role, line.pid))
        *whole, line.heard = (line.heard + more).split(b"\n")
        for text in whole:
            self._hear(line, text)

    def _hear(self, line: Line, text: bytes) -> None:
        if text.startswith(b"guard "):
            assert text.split()[1] == TOKEN.encode()
            line.pid = -int(text.split()[2])
            with self._news:
                self.guards.append(line)
                self._lines.remove(line)
                self._news.notify_all()
            return
        facts = json.loads(text)
        if facts["say"] == "hello":
            line.role, line.pid = facts["role"], facts["pid"]
            if facts["attempt"] is None:
                self._attempts += 1
                reply = self.answer.format(attempt=f"a-{self._attempts}")
            else:
                reply = self.replies.get(line.role, f"go {facts['attempt']} work")
            self._note(Said("hello", line.role, line.pid, facts))
            if reply:
                line.connection.sendall(f"{reply}\n".encode())
        else:
            self._note(Said(facts["say"], line.role, line.pid, facts))

    def _note(self, said: Said) -> None:
        with self._news:
            self.said.append(said)
            self._news.notify_all()


Make = Callable[..., StandIn]
Start = Callable[..., "subprocess.Popen[Any]"]


def state_of(pid: int) -> str:
    """The state letter of a process in the process table, ``"gone"`` where it has none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def stop(*pids: int) -> None:
    """Stop them all, and see them stopped."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    until(lambda: all(state_of(pid) == "T" for pid in pids), "all of them stopped")


def is_dead(pid: int) -> bool:
    """Whether the process table has it no more, or as a zombie."""
    return state_of(pid) in ("gone", "Z", "X")


def log_lines(workspace: Path, role: str = "leader") -> list[list[str]]:
    """What a process of that role has written so far, each line in words."""
    return [line.split() for line in (workspace / f"uncooperative-{role}.log").read_text().splitlines()]


def keeps_writing(workspace: Path, role: str) -> bool:
    """See more lines come."""
    before = len(log_lines(workspace, role))
    until(lambda: len(log_lines(workspace, role)) > before + 2, f"{role} writes on")
    return True


def until(is_so: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Poll until ``is_so``; fail with ``what`` otherwise."""
    deadline_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {within_s} s: {what}")
        time.sleep(0.002)  # no event tells of this


def send_all_four(process: subprocess.Popen[Any], stand_in: StandIn) -> None:
    """Once it works, send each of the four signals to a process that ends at none of them, and see all noticed."""
    stand_in.until("working")
    for number in FOUR:
        process.send_signal(number)
    stand_in.until("notice", count=4)


def pipe(end: IO[Any] | None) -> IO[Any]:
    """The pipe that was asked for, and is therefore there."""
    assert end is not None
    return end
