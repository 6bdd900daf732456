"""One run's book: which requests are open, what was made for them, and which answer is next. Sends nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from pytest_cancelcontract.answers import Answer, Asked, HeldUntilPressed
from pytest_cancelcontract.recorder.meter.wires.wire import Reply
from pytest_cancelcontract.recorder.meter.work import Work

Note = Callable[[str, float, dict[str, Any]], None]
"""Takes the kind of an observation, its monotonic time, and its data."""
Choose = Callable[[Asked], Answer]


class Closable(Protocol):
    """A connection, as far as an account needs it."""

    def abort(self) -> None:
        """Close it at once."""


class Job:
    """A background request that can be polled and cancelled."""

    __slots__ = ("is_cancelled", "reply", "work")

    def __init__(self, work: Work, reply: Reply) -> None:
        self.work = work
        self.reply = reply
        self.is_cancelled = False


class Account:
    """What one run spends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, note: Note, choose: Choose) -> None:
        self._loop = loop
        self._note = note
        self._choose = choose
        self._open: dict[str, Work] = {}
        self._held: list[Work] = []
        self._number = 0
        self._main = 0
        self._taken = 0
        self._tokens = 0
        self._disconnected = 0
        self._is_pressed = False
        self.is_shut = False
        self.has_called = False
        """A tool call was given: the run is at work."""
        self.jobs: dict[str, Job] = {}
        self.connections: set[Closable] = set()
        """Those that carry a request of this account now; a gateway's connection carries others' before and after it."""

    # --- For the recorder ---------------------------------------------------------------------------------------------

    def press(self) -> None:
        """Cancel was pressed: what is held until then is let go."""
        self._is_pressed = True
        held, self._held = self._held, []
        for work in held:
            work.start()

    def flush(self) -> None:
        """Note all tokens that were made up to now."""
        for work in list(self._open.values()):
            work.flush()

    @property
    def open_requests(self) -> list[str]:
        """The ids of the requests that are open; asking for them notes nothing."""
        return list(self._open)

    def summary(self) -> dict[str, Any]:
        """The main requests so far, all tokens made, the ids of the open requests, and how many clients went unanswered."""
        self.flush()
        return {"requests": self._main, "tokens": self._tokens, "open": self.open_requests, "disconnected": self._disconnected}

    # --- For the connections ------------------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The number of the next request, from 1."""
        return self._number + 1

    @property
    def previous(self) -> int:
        """How many requests took an answer of the script; those that were refused, or got a mere word, did not."""
        return self._taken

    def choose(self, asked: Asked) -> tuple[Answer, bool]:
        """The answer to a main request, and whether it is held back; ``asked`` becomes a main request by :meth:`begin` only."""
        answer = self._choose(asked)
        return (answer.then, not self._is_pressed) if isinstance(answer, HeldUntilPressed) else (answer, False)

    def begin(self, at_s: float, tokens: int, per_s: float | None, *, side: bool, takes: bool = False, **data: Any) -> Work:
        """A request was asked; its work is to be started, or held. ``takes`` says that its answer is the script's next one."""
        self._number += 1
        self._main += not side
        self._taken += takes
        work = Work(self._loop, self, f"r{self._number}", tokens, per_s)
        self._open[work.request] = work
        self._say("request", at_s, request=work.request, side=side, **data)
        return work

    def hold(self, work: Work) -> None:
        """Start it once cancel was pressed."""
        self._held.append(work)

    def refuse(self, at_s: float, why: str, status: int, *, side: bool, **data: Any) -> None:
        """A request that was refused, with a path that holds no key: it was asked all the same, and is told as a request that is over."""
        work = self.begin(at_s, 0, None, side=side, refused=True, **data)
        now = time.monotonic()
        self._say("refused", now, request=work.request, path=data["path"], why=why, status=status)
        work.drop()
        self.over(work, "ended", now, status=status, tokens=0)

    def shut(self) -> None:
        """Nothing is noted any more; what is open is dropped, and the connections that wait for it are closed."""
        self.is_shut = True
        for work in self._open.values():
            work.drop()
        for connection in list(self.connections):
            connection.abort()
        self._open.clear()
        self._held.clear()
        self.jobs.clear()
        self.connections.clear()

    # --- For the work -------------------------------------------------------------------------------------------------

    def tokens(self, work: Work, at_s: float, count: int, since_s: float) -> None:
        """So many were made for a request since then."""
        self._tokens += count
        self._say("tokens", at_s, request=work.request, count=count, total=work.made, since_s=since_s)

    def over(self, work: Work, kind: str, at_s: float, **data: Any) -> None:
        """A request is not open any more."""
        self._open.pop(work.request, None)
        if work in self._held:
            self._held.remove(work)
        self._disconnected += kind == "disconnected"
        self._say(kind, at_s, request=work.request, **data)

    def _say(self, kind: str, at_s: float, **data: Any) -> None:
        if not self.is_shut:
            self._note(kind, at_s, data)
