"""The person at the console: says by the Enter key that a thing was done, or was seen."""

from __future__ import annotations

import asyncio
import os


class Operator:
    """The lines that come on a descriptor, the standard input as a rule.

    ``is_there`` until the input has ended: from then on nobody can say anything.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._entered: asyncio.Queue[bool] = asyncio.Queue()
        self.is_there = True

    def listen(self) -> None:
        """Begin to listen; an input that nothing can come on (a file, a closed one) is one that has ended."""
        try:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        except (OSError, ValueError):
            self._end()

    def leave(self) -> None:
        """Listen no more."""
        asyncio.get_running_loop().remove_reader(self._descriptor)

    async def enter(self) -> bool:
        """Wait for the next Enter; False where none can come any more."""
        if not self.is_there and self._entered.empty():
            return False
        return await self._entered.get()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        for _ in range(data.count(b"\n")):
            self._entered.put_nowait(True)
        if not data:
            self.leave()
            self._end()

    def _end(self) -> None:
        self.is_there = False
        self._entered.put_nowait(False)
