"""A real meter on a loop of its own, in a thread; clients talk to it over real sockets, and wait for what it notes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pytest_cancelcontract.answers import Answer, Script
from pytest_cancelcontract.recorder.meter.account import Account, Choose
from pytest_cancelcontract.recorder.meter.server import Meter

WITHIN_S = 10.0
Result = TypeVar("Result")


class Noted:
    """One observation."""

    def __init__(self, kind: str, at_s: float, data: dict[str, Any]) -> None:
        self.kind = kind
        self.at_s = at_s
        self.data = data

    def __repr__(self) -> str:
        return f"{self.kind} {self.data}"


class Run:
    """One account, and all that was noted about it."""

    def __init__(self, provider: Provider, key: str, choose: Choose) -> None:
        self.provider = provider
        self.key = key
        self.notes: list[Noted] = []
        self._changed = threading.Condition()
        self.account: Account = provider.inside(lambda: provider.meter.open(key, self._note, choose))
        self.url = f"http://127.0.0.1:{provider.port}/{key}"

    def _note(self, kind: str, at_s: float, data: dict[str, Any]) -> None:
        with self._changed:
            self.notes.append(Noted(kind, at_s, data))
            self._changed.notify_all()

    def of(self, kind: str, **data: Any) -> list[Noted]:
        """What was noted of this kind, with these values."""
        return [one for one in list(self.notes) if one.kind == kind and all(one.data[name] == value for name, value in data.items())]

    def wait(self, kind: str, times: int = 1, **data: Any) -> list[Noted]:
        """The same, once there are so many."""
        until = time.monotonic() + WITHIN_S
        with self._changed:
            while len(found := self.of(kind, **data)) < times:
                left_s = until - time.monotonic()
                assert left_s > 0, f"{times} times {kind} {data} did not come; noted were {self.notes}"
                self._changed.wait(left_s)
        return found

    def kinds(self) -> list[str]:
        """The kinds in order, repetitions of ``tokens`` left out."""
        kinds = [one.kind for one in list(self.notes)]
        return [kind for number, kind in enumerate(kinds) if kind != "tokens" or kinds[number - 1] != "tokens"]

    def press(self) -> None:
        """Cancel was pressed."""
        self.provider.inside(self.account.press)

    def summary(self) -> dict[str, Any]:
        """The account's summary."""
        return self.provider.inside(self.account.summary)

    def shut(self) -> None:
        """Shut the account."""
        self.provider.inside(lambda: self.provider.meter.shut(self.key))


class Client:
    """A plain socket that speaks HTTP by hand: for what no library would send."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(WITHIN_S)
        self.link = link
        self._kept = bytearray()

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self.link.sendall(data)

    def ask(self, path: str, body: object = None, *, method: str = "POST", headers: str = "") -> None:
        """Send a request with a JSON body."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"{method} {path} HTTP/1.1\r\nhost: meter\r\n{headers}content-length: {len(data)}\r\n\r\n".encode() + data)

    def until(self, mark: bytes) -> bytes:
        """What comes up to this mark, and the mark."""
        while mark not in self._kept:
            data = self.link.recv(65536)
            assert data, f"the connection ended before {mark!r}; it brought {self._kept!r}"
            self._kept += data
        return self._take(self._kept.index(mark) + len(mark))

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """One whole answer: its status, headers and body."""
        first, *lines = self.until(b"\r\n\r\n").decode().strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self._exactly(int(headers.get("content-length", "0")))
        return int(first.split(" ")[1]), headers, body

    def json(self) -> Any:
        """The body of an answer with status 200."""
        status, _, body = self.answer()
        assert status == 200, body
        return json.loads(body)

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while data := self.link.recv(65536):
            self._kept += data
        return bytes(self._kept)

    def is_silent(self, for_s: float) -> bool:
        """Whether nothing comes for this long; silence has no event that could be waited for."""
        self.link.settimeout(for_s)
        try:
            data = self.link.recv(1)
        except TimeoutError:
            return True
        finally:
            self.link.settimeout(WITHIN_S)
        self._kept += data
        return False

    def _chunk(self) -> bytes:
        size = int(self.until(b"\r\n"), 16)
        return self._exactly(size + 2)[:-2]

    def _exactly(self, size: int) -> bytes:
        while len(self._kept) < size:
            data = self.link.recv(65536)
            assert data, "the connection ended in a body"
            self._kept += data
        return self._take(size)

    def _take(self, size: int) -> bytes:
        found = bytes(self._kept[:size])
        del self._kept[:size]
        return found


class Provider:
    """The meter, its loop and its port."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.faults: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, context: self.faults.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._clients: list[Client] = []
        self._keys = (f"run-{number}" for number in range(1, 1000))
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port: int = listener.getsockname()[1]
        self.meter: Meter = self.inside(lambda: Meter(self.loop))
        self.inside(lambda: self.meter.listen([listener]))

    def inside(self, act: Callable[[], Result]) -> Result:
        """What this returns in the loop's thread."""

        async def call() -> Result:
            return act()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(WITHIN_S)

    def open(self, *answers: Answer, choose: Choose | None = None, key: str = "") -> Run:
        """A new account with this script."""
        return Run(self, key or next(self._keys), choose or Script(answers))

    def client(self) -> Client:
        """A new connection."""
        client = Client(socket.create_connection(("127.0.0.1", self.port)))
        self._clients.append(client)
        return client

    def left(self) -> list[str]:
        """The tasks, the timers and the sockets that the loop still has, but for its own."""

        async def look() -> list[str]:
            own = asyncio.current_task()
            watched = self.loop._selector.get_map().values()  # type: ignore[attr-defined]  # there is no public way to ask
            sockets = [str(key.fileobj) for key in watched if key.fd != self.loop._csock.fileno() and key.fd != self.loop._ssock.fileno()]  # type: ignore[attr-defined]
            # Also what is about to run: a timer that goes off in this very turn is among the ready ones.
            handles = [*self.loop._scheduled, *self.loop._ready]  # type: ignore[attr-defined]
            timers = [str(one) for one in handles if not one.cancelled() and "Work" in str(one)]
            return [str(task) for task in asyncio.all_tasks() if task is not own] + sockets + timers

        return asyncio.run_coroutine_threadsafe(look(), self.loop).result(WITHIN_S)

    def close(self) -> None:
        """End the meter; nothing of it may stay, and nothing may have gone wrong."""
        for client in self._clients:
            client.link.close()
        self.inside(self.meter.close)
        until = time.monotonic() + WITHIN_S
        while (left := self.left()) and time.monotonic() < until:
            pass  # every look is a turn of the loop, and closing takes a turn
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        assert not left
        assert not self.faults
