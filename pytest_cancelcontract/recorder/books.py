"""Accounts at the meter that belong to no drill: opened, scripted and read by a test that uses the provider by itself."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_cancelcontract.answers import Answer, Asked, Script
from pytest_cancelcontract.recorder.meter.account import Account
from pytest_cancelcontract.recorder.meter.server import Meter

ENDINGS = frozenset({"ended", "disconnected", "cancelled"})


@dataclass(slots=True)
class Book:
    """One account, its script, and each of its requests as JSON-shaped data, by id."""

    script: Script
    changed: asyncio.Condition
    account: Account | None = None
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    taken: int = 0

    def choose(self, asked: Asked) -> Answer:
        """By the script as it stands; one that was given later begins with its own first answer."""
        return self.script.answers[min(asked.previous - self.taken, len(self.script.answers) - 1)]

    def note(self, kind: str, at_s: float, data: dict[str, Any]) -> None:
        """Take what the meter notes."""
        if kind == "request":
            self.requests[data["request"]] = {**data, "began_s": data["came_s"], "ended_s": None, "ending": "", "tokens": 0}
        elif kind == "tokens":
            self.requests[data["request"]]["tokens"] = data["total"]
        elif kind in ENDINGS:
            self.requests[data["request"]].update(ended_s=at_s, ending=kind, tokens=data["tokens"], status=data.get("status"))
        task = asyncio.get_running_loop().create_task(self._wake())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def read(self) -> dict[str, Any]:
        """Its totals, and its requests in the order in which they began."""
        assert self.account is not None
        return {**self.account.summary(), "all": [dict(one) for one in self.requests.values()]}


class Books:
    """All of them, by key."""

    def __init__(self, meter: Meter, place: str) -> None:
        self._meter = meter
        self._place = place
        self._books: dict[str, Book] = {}

    async def open(self, *, script: Sequence[Any]) -> dict[str, Any]:
        """Open an account with this script."""
        key = secrets.token_hex(12)
        book = Book(Script.from_list(script), asyncio.Condition())
        book.account = self._meter.open(key, book.note, book.choose)
        self._books[key] = book
        return {"key": key, "url": f"http://{self._place}/{key}"}

    async def write(self, *, key: str, script: Sequence[Any]) -> dict[str, Any]:
        """Another script, from the next main request on."""
        book = self._books[key]
        assert book.account is not None
        book.taken = book.account.previous
        book.script = Script.from_list(script)
        return {}

    async def until(self, *, key: str, least: dict[str, int], at_most_s: float) -> dict[str, Any]:
        """Wait until each of these totals (``requests``, ``tokens``, ``open``, ``disconnected``) is reached; the book as it is then."""
        book = self._books[key]

        def is_reached() -> bool:
            seen = book.read()
            return all((len(seen["open"]) if name == "open" else seen[name]) >= value for name, value in least.items())

        reached = True
        try:
            async with asyncio.timeout(at_most_s), book.changed:
                await book.changed.wait_for(is_reached)
        except TimeoutError:
            reached = is_reached()
        return {"reached": reached, **book.read()}

    async def press(self, *, key: str) -> dict[str, Any]:
        """Let go what is held until cancel was pressed."""
        account = self._books[key].account
        assert account is not None
        account.press()
        return {}

    async def close(self, *, key: str) -> dict[str, Any]:
        """Take no more requests under this key, and cut those that are open; once is enough, and twice is no fault."""
        self._books.pop(key, None)
        self._meter.shut(key)
        return {}
