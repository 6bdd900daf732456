"""``python -m pytest_cancelcontract.recorder``: started by the plugin, never by hand."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from pytest_cancelcontract.recorder import descriptors, folders, process_table, server

SWITCH_EVERY_S = 0.0005
"""How long a thread may hold the interpreter while another waits: a walk through a large workspace must not delay a death's time."""


def main() -> int:
    """Read the two descriptors' worth of arguments, and serve."""
    options = argparse.ArgumentParser(prog="pytest_cancelcontract.recorder", description="Serves one pytest process; not for use by hand.")
    options.add_argument("--link", type=int, required=True, help="the descriptor of the socket to the plugin")
    options.add_argument("--guarded", type=int, required=True, help="the pid of the pytest process that is served")
    options.add_argument("--above", type=int, default=None, help="the pid of the process that pytest works for, if any")
    options.add_argument("--root", type=Path, default=None, help="the folder below which the drills' folders are made")
    given = options.parse_args()
    # Handlers and not SIG_IGN: ignored signals are inherited by what is started from here, and a wrapper must get its own.
    for deaf_to in (signal.SIGINT, signal.SIGHUP):
        signal.signal(deaf_to, lambda *_: None)
    # A blocked one is inherited as well, and whoever blocked it where pytest was started did not mean the wrapper.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.setswitchinterval(SWITCH_EVERY_S)
    descriptors.raise_limit()
    guarded = process_table.identity_of(given.guarded) if os.getppid() == given.guarded else None
    if guarded is None:
        return 1
    link = socket.socket(fileno=given.link)
    os.set_inheritable(given.link, False)
    above = process_table.identity_of(given.above) if given.above else None
    root = folders.make_root(given.root)
    try:
        asyncio.run(server.serve(link, guarded, above, root))
    finally:
        # After the loop: its threads, which may have been copying a workspace, are over by now.
        folders.remove(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
