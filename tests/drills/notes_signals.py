"""A wrapper that writes down each signal and when it came, run by file path: ``python notes_signals.py LOG LEAVES_AT WORD…``.

It starts the words, if there are any, as its child in a session of its own, and leaves at the signal of that name without a word to the
child; at all others it does nothing.
"""

# ruff: noqa: PTH123 - nothing is imported that a bare interpreter would have to load first

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

NOTED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT}


def main(log: str, leaves_at: str, words: list[str]) -> int:
    """Returns when it is told to."""
    signal.pthread_sigmask(signal.SIG_BLOCK, NOTED)
    if words:
        # What is blocked is inherited, and the child is to notice for itself.
        subprocess.Popen(words, start_new_session=True, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, NOTED))
    with open(log, "a", buffering=1) as noted:
        noted.write(f"ready {time.monotonic()}\n")
        while True:
            name = signal.Signals(signal.sigwaitinfo(NOTED).si_signo).name
            noted.write(f"{name} {time.monotonic()}\n")
            if name == leaves_at:
                os._exit(3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
