"""The line between a hosted adapter and its driver: JSON objects, a line each, over a UNIX socket.

Only says and hears; what is said is the matter of :mod:`~pytest_cancelcontract.adapters.hosting` (the driver's end) and
:mod:`~pytest_cancelcontract.adapters.host` (the adapter's).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.driver import Answer
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.recorder.addresses import UNIX_PATH_AT_MOST
from pytest_cancelcontract.run import Run

TOKEN = "CANCELCONTRACT_HOST_TOKEN"
"""The variable that carries a host's token; the host takes it out of its environment first of all."""
LINE_LOST = 83
"""The status of a host that leaves because its line was closed under its feet, with the descriptors of its own process."""
LOOK_EVERY_S = 1.0
_ABSTRACT = "abstract:"
_RUN_PATHS = ("workspace", "source", "folder")
_RUN_WORDS = ("id", "task_id", "time_limit", "stall_after", "lease", "heartbeat_timeout", "provider")


class Line:
    """One end; any thread may say something, and one thread listens."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._buffer = b""

    def say(self, **message: Any) -> None:
        """Send a message; where the other end is gone, whoever listens finds that out."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._link.sendall(data)

    def messages(self, until: int) -> Iterator[dict[str, Any]]:
        """What the other end says, until it is gone or another descriptor (``until``) is readable."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(until, select.POLLIN)
        while True:
            # Looked at again and again: a descriptor that a wrapper closes under our feet wakes nobody.
            if not (ready := {number for number, _ in poll.poll(LOOK_EVERY_S * 1000)}):
                continue
            # First what was said: the other process may have ended right behind it.
            if self._link.fileno() not in ready or not (data := self._receive()):
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            yield from map(json.loads, lines)

    def hang_up(self) -> None:
        """End the talk, for every process that has inherited this end; whoever listens comes back."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        """Close this process's copy of this end; nobody may be listening."""
        self._link.close()

    def _receive(self) -> bytes:
        try:
            return self._link.recv(1 << 16)
        except OSError:
            return b""


def listen(folder: Path) -> tuple[socket.socket, str]:
    """A listening socket in a folder, or an abstract one where its path is too long; and the address for :func:`call`.

    Raises:
        OSError: it cannot be made.
    """
    path = str(folder / f"host-{secrets.token_hex(2)}")
    address = path if len(os.fsencode(path)) <= UNIX_PATH_AT_MOST else f"{_ABSTRACT}cancelcontract-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(_bare(address))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener, address


def call(address: str) -> Line:
    """The other end of :func:`listen`.

    Raises:
        OSError: nobody listens there.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(_bare(address))
    return Line(link)


def _bare(address: str) -> str:
    return f"\0{address.removeprefix(_ABSTRACT)}" if address.startswith(_ABSTRACT) else address


# ---------------------------------------------------------------------- what is said


def run_as_dict(run: Run) -> dict[str, Any]:
    """A run as JSON-shaped data; what it can do stays behind."""
    paths = {name: str(getattr(run, name)) for name in _RUN_PATHS}
    return {**paths, **{name: getattr(run, name) for name in _RUN_WORDS}, "argv": list(run.argv), "env": dict(run.env)}


def run_from_dict(data: Mapping[str, Any], **can: Any) -> Run:
    """Read what :func:`run_as_dict` wrote; ``can`` is what the run does in this process."""
    words: dict[str, Any] = {name: data[name] for name in _RUN_WORDS}
    paths: dict[str, Any] = {name: Path(data[name]) for name in _RUN_PATHS}
    return Run(**words, **paths, argv=tuple(data["argv"]), env=data["env"], **can)


def answer_as_dict(answer: Answer) -> dict[str, Any]:
    """An answer as JSON-shaped data."""
    return asdict(answer)


def answer_from_dict(data: Mapping[str, Any]) -> Answer:
    """Read what :func:`answer_as_dict` wrote."""
    answer = Answer(**{**data, "moments": tuple(data.get("moments") or ())})
    return replace(answer, outcome=Outcome(answer.outcome)) if answer.outcome is not None else answer
