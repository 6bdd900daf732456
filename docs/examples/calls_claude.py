"""A wrapper around a fixed program."""

import signal
import subprocess
import sys

from ending import end_group


class Cancelled(Exception):
    """SIGTERM has come."""


def cancel(*_):
    raise Cancelled


signal.signal(signal.SIGTERM, cancel)
agent = subprocess.Popen(["claude", "-p", "fix the tests"], process_group=0)
try:
    sys.exit(agent.wait())
except Cancelled:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second press changes nothing
    end_group(agent, grace_s=0.7)
    sys.exit(143)
