"""What stands in for the recorder when a person runs the runner: it tells on stderr, in plain words, what happens.

Children have no stderr (it would be one more thing that they hold open), so each tells its leader over a pipe until it works.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOKEN = "by-hand"


class Narrator:
    """Says in words, on ``descriptor``, what a lifeline would say as messages. Nobody answers."""

    def __init__(self, descriptor: int, role: str) -> None:
        self._descriptor = descriptor
        self._who = f"uncooperative {role} {os.getpid()}"
        self._started_s = time.monotonic()

    def say(self, what: str, **facts: object) -> None:
        """Tell one thing; what cannot be told is left untold."""
        words = _words(what, facts)
        if words:
            line = f"{self._who} +{time.monotonic() - self._started_s:.2f}s: {words}\n"
            try:
                os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))
            except OSError:
                return

    def tell_pid(self) -> None:
        """Tell whoever started this process which one it is, before anything else."""
        try:
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError:
            return

    def close(self) -> None:
        """Tell no more: the other end is waiting for this."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _words(what: str, facts: Mapping[str, object]) -> str:
    armed = facts.get("armed")
    if what == "working" and isinstance(armed, list):
        proven = "; ".join(f"{row['habit']} ({row['proof']})" for row in armed)
        return f"works; proven: {proven}" + ("; stops itself now" if facts.get("then") == "stops" else "")
    if what == "ready":
        return "could work now; Enter lets it go on"
    if what == "notice":
        sender = "" if facts["from_pid"] is None else f" from pid {facts['from_pid']}, user {facts['from_uid']}"
        return f"noticed {facts['by']}{sender}"
    if what == "goodbye":
        return f"leaves with status {facts['status']}: {facts['why']}"
    if what == "wrote" or (what == "found" and not facts["poison"] and not facts["session"]):
        return ""
    return " ".join([what, *(f"{name}={value}" for name, value in facts.items())])


def tell_of_child(reading: int) -> list[int]:
    """Pass on what a child tells until it works or ends, and what it starts; their pids, each on a line of its own among the words."""
    told = b""
    while True:
        more = os.read(reading, 65536)
        if not more:
            break
        told += more
    os.close(reading)
    lines = told.splitlines(keepends=True)
    os.write(2, b"".join(line for line in lines if not line.strip().isdigit()))
    return [int(line) for line in lines if line.strip().isdigit()]


def wait_for_enter(then: Callable[[], None]) -> None:
    """Call ``then`` once a line has come on standard input, or its end."""
    os.read(0, 4096)
    then()
