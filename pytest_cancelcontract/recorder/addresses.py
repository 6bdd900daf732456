"""Where runner processes reach the recorder: the same service on several kinds of address, since a wrapper may hide any of them."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from pathlib import Path

UNIX_PATH_AT_MOST = 100
"""Bytes of a UNIX socket's path; the kernel takes 107 (Linux) or 103 (macOS)."""
BACKLOG = 128


def listening(path: Path) -> list[tuple[socket.socket, str]]:
    """Sockets that listen, with their addresses as the runner takes them, in the order in which they are to be tried.

    A UNIX socket at ``path`` (no network namespace hides it), an abstract one (it crosses mount, pid and user namespaces; Linux), and TCP
    on loopback.
    """
    found = []
    if len(os.fsencode(path)) <= UNIX_PATH_AT_MOST:
        found.append((_listen(socket.AF_UNIX, str(path)), f"unix:{path}"))
        path.chmod(0o666)
    if sys.platform == "linux":
        name = f"cancelcontract-{secrets.token_hex(8)}"
        found.append((_listen(socket.AF_UNIX, f"\0{name}"), f"abstract:{name}"))
    listener = _listen(socket.AF_INET, ("127.0.0.1", 0))
    return [*found, (listener, f"tcp:127.0.0.1:{listener.getsockname()[1]}")]


def _listen(family: int, address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener
