"""The line between a worker and its engine, which can be cut: a forwarder on loopback.

Knows nothing of what it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

State = Literal["up", "silent", "refuse"]
_CHUNK_BYTES = 65536


class Link:
    """Forwards connections to ``target`` (``host:port``), from :meth:`open` to :meth:`close`; all on one loop."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host.strip("[]"), int(port))
        self._port = 0
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def address(self) -> str:
        """Where to connect instead of the target."""
        return f"127.0.0.1:{self._port}"

    async def open(self) -> None:
        """Begin to listen; again on the same port, where it had listened before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def become(self, state: State) -> None:
        """Carry everything, carry nothing while connections stay open, or end them and refuse new ones."""
        if state == "refuse":
            await self.close()
            return
        if state == "up":
            self._flows.set()
        else:
            self._flows.clear()
        if self._server is None:
            await self.open()

    async def close(self) -> None:
        """Listen no more, and end what is connected."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        ending = [one for one in self._carrying if one is not asyncio.current_task()]
        for one in ending:
            one.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await asyncio.open_connection(*self._target)
            await self._carry_both(reader, there, back, writer)
        except (OSError, asyncio.CancelledError):
            # Cancelled only by close(); a task of a stream server that ends cancelled is reported as an error by asyncio.
            pass
        finally:
            self._carrying.discard(task)
            for one in (writer, there):
                if one is not None:
                    one.transport.abort()

    async def _carry_both(
        self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, back: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until either side ends: half a connection is of no use to HTTP/2."""
        ways = {asyncio.ensure_future(self._carry(reader, there)), asyncio.ensure_future(self._carry(back, writer))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(_CHUNK_BYTES):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
