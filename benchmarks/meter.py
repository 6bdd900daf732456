"""Ten thousand tokens a second over fifty streams: how far the meter is behind the clock, and what it takes, beside a bare server.

Each server is a process of its own. The bare one takes any request, notes nothing, and sends the same bytes, made beforehand, as fast.
"""

from __future__ import annotations

import asyncio
import json
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sides import quantile, ratio, show, show_amount
from pytest_cancelcontract.answers import Script, Stream
from pytest_cancelcontract.recorder.__main__ import SWITCH_EVERY_S
from pytest_cancelcontract.recorder.clock import Clock
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.meter.pieces import MadeUp
from pytest_cancelcontract.recorder.meter.server import Meter
from pytest_cancelcontract.recorder.meter.wires import anthropic
from pytest_cancelcontract.recorder.meter.wires.wire import Reply
from pytest_cancelcontract.recorder.meter.work import WAKES_EVERY_S

STREAMS = 50
PER_S = 200.0
FOR_S = 5.0
TIMES = 3
TOKENS = 1_000_000
MARK = b"text_delta"
KEY = "bench"


# --- The servers ------------------------------------------------------------------------------------------------------


async def serve(side: str) -> None:
    """Serve until the input ends, then tell what it took."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=STREAMS)
    listener.setblocking(False)
    loop = asyncio.get_running_loop()
    clock = Clock()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, ended.set)
    with tempfile.TemporaryDirectory() as folder:
        if side == "meter":
            journal = Journal(Path(folder) / "history.jsonl", {})
            meter = Meter(loop)

            def note(kind: str, at_s: float, data: dict[str, Any]) -> None:
                journal.add("meter", kind, at_s=at_s, **data)

            meter.open(KEY, note, Script((Stream(TOKENS, PER_S),)))
            meter.listen([listener])
        elif side == "bare":
            await asyncio.start_server(bare, sock=listener)
        print(listener.getsockname()[1], flush=True)
        await ended.wait()
        loop.remove_reader(sys.stdin)
        sys.stdin.readline()
        began = resource.getrusage(resource.RUSAGE_SELF)
        clock.take()  # of the beginning
        ended.clear()
        loop.add_reader(sys.stdin, ended.set)
        await ended.wait()
        took = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = took.ru_utime + took.ru_stime - began.ru_utime - began.ru_stime
        print(json.dumps({"cpu_s": cpu_s, "late_s": clock.take().worst_s}), flush=True)
        if side == "meter":
            meter.close()
            journal.close()


async def bare(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the meter's bytes at its pace, made beforehand."""
    await reader.readuntil(b"\r\n\r\n")
    reply = Reply(number=1, model="m", created_s=0, pieces=MadeUp(TOKENS), tokens=TOKENS)
    pieces = [anthropic.piece(reply, index) for index in range(13)]
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    loop = asyncio.get_running_loop()
    began_s, sent = loop.time(), 0
    try:
        while True:
            made = int((loop.time() - began_s) * PER_S) + 1
            data = b"".join([pieces[index % 13] for index in range(sent, made)])
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if data else b"")
            await writer.drain()
            sent = made
            await asyncio.sleep(WAKES_EVERY_S)
    except (ConnectionError, asyncio.CancelledError):  # the client has gone, or the measurement is over
        writer.close()


# --- The client -------------------------------------------------------------------------------------------------------


@dataclass
class Reading:
    """One stream, as its client sees it."""

    link: socket.socket
    tail: bytes = b""
    tokens: int = 0
    first_s: float = 0.0
    behind_s: list[float] = field(default_factory=list)

    def read(self) -> None:
        """Count the tokens that are there, and how long before this the last of them was due."""
        data = self.tail + self.link.recv(65536)
        now = time.monotonic()
        self.tokens += data.count(MARK)
        self.tail = data[-len(MARK) + 1 :]
        if self.tokens:
            self.first_s = self.first_s or now
            self.behind_s.append(now - self.first_s - (self.tokens - 1) / PER_S)


@dataclass(frozen=True)
class Seen:
    """One run of a server."""

    cpu_s: float
    late_s: float
    idle_late_s: float
    tokens_per_s: float
    behind_s: list[float]


def measure(side: str) -> Seen:
    """Read all streams of a server for a while."""
    server, idle = start(side), start("idle")
    port = int(answer_of(server))
    answer_of(idle)
    readings = []
    with selectors.DefaultSelector() as selector:
        for _ in range(STREAMS):
            link = socket.create_connection(("127.0.0.1", port))
            body = b'{"model":"m","stream":true}'
            link.sendall(f"POST /{KEY}/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            readings.append(Reading(link))
            selector.register(link, selectors.EVENT_READ, readings[-1])
        read_for(selector, 0.5)  # the beginnings do not count
        for reading in readings:
            reading.behind_s.clear()
        before = sum(reading.tokens for reading in readings)
        tell(server, idle)
        began_s = time.monotonic()
        read_for(selector, FOR_S)
        took_s = time.monotonic() - began_s
        tell(server, idle)
        told, idles = json.loads(answer_of(server)), json.loads(answer_of(idle))
    for reading in readings:
        reading.link.close()
    for process in (server, idle):
        process.communicate()
    tokens = sum(reading.tokens for reading in readings)
    return Seen(
        told["cpu_s"],
        told["late_s"],
        idles["late_s"],
        (tokens - before) / took_s,
        [value for reading in readings for value in reading.behind_s],
    )


def start(side: str) -> subprocess.Popen[str]:
    """Start one of the servers, or the process that only looks at the clock."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.meter", side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> str:
    """The next line that it says."""
    assert process.stdout is not None
    return process.stdout.readline()


def tell(*processes: subprocess.Popen[str]) -> None:
    """The next part begins."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def read_for(selector: selectors.BaseSelector, for_s: float) -> None:
    """Read whatever comes in this time."""
    until = time.monotonic() + for_s
    while (left_s := until - time.monotonic()) > 0:
        for key, _ in selector.select(left_s):
            key.data.read()


def main() -> None:
    """Print both sides."""
    seen: dict[str, list[Seen]] = {"meter": [], "bare": []}
    for _ in range(TIMES):
        for side, found in seen.items():
            found.append(measure(side))
    for side, found in seen.items():
        show_amount(f"{side}: tokens received", sum(one.tokens_per_s for one in found) / TIMES, f"a second, {STREAMS} streams")
        behind = [max(0.0, value) for one in found for value in one.behind_s]
        show(f"{side}: behind the clock", behind)
        show(f"{side}: the recorder's clock late", [one.late_s for one in found])
        show("  and of an idle process meanwhile", [one.idle_late_s for one in found])
        show(f"{side}: processor time a second", [one.cpu_s / FOR_S for one in found])
    worst = max(quantile(one.behind_s, 0.99) for one in seen["meter"])
    print(f"  99 of 100 tokens are at most {worst * 1000:.1f} ms behind the clock (figure: at most {WAKES_EVERY_S * 1000:.0f} ms)")
    print(f"  clock late at most {max(one.late_s for one in seen['meter']) * 1000:.1f} ms (figure: under 10 ms)")
    ratio([one.cpu_s for one in seen["meter"]], [one.cpu_s for one in seen["bare"]], "figure: at most 3")


if __name__ == "__main__":
    if sys.argv[1:] in (["meter"], ["bare"], ["idle"]):
        sys.setswitchinterval(SWITCH_EVERY_S)  # as in the recorder
        asyncio.run(serve(sys.argv[1]))
    else:
        main()
