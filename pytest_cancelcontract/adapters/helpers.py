"""Short commands that an adapter runs to start, cancel or ask, and signals to a process that is known by identity.

A helper command never outlives the call that it is run for, nor the drill.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_cancelcontract.adapters.protocol import call_left_s
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.process_table import identity_of
from pytest_cancelcontract.run import Run

HELPER_LIMIT_S = 30.0
"""How long a helper command may take where its caller sets no deadline."""
HELPER_SHARE = 0.95
"""It is ended at this share of its call's time, so that its own message is heard and not only that the call overran."""
_TAIL_CHARACTERS = 500
_OUTPUT_BYTES = 65536


class CannotStart(OSError):
    """A command could not be started."""


class CommandFailed(RuntimeError):
    """A helper command ended badly or not in time; the message carries the end of its output."""


def cannot_start(program: str, error: OSError) -> CannotStart:
    """The error to raise for it: ``cannot start 'node': No such file or directory``."""
    why = error.strerror or str(error)
    if why.startswith("cannot start"):
        return CannotStart(why)
    return CannotStart(f"cannot start {program!r}: {why}")


def send_signal(pid: int, start: int, number: signal.Signals) -> None:
    """Send a signal to one process, after its identity has been checked.

    Raises:
        ProcessLookupError: the pid is gone, or names another process by now.
    """
    gone = f"process {pid} (start {start}) is gone, no {number.name} was sent"
    if not hasattr(os, "pidfd_open"):
        if identity_of(pid) != Identity(pid, start):
            raise ProcessLookupError(gone)
        os.kill(pid, number)
        return
    # The descriptor pins whoever has the pid now; only then can looking at its start time be believed (pidfd_open(2)).
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        raise ProcessLookupError(gone) from None
    try:
        if identity_of(pid) != Identity(pid, start):
            raise ProcessLookupError(gone)
        signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def run_helper(run: Run, argv: Sequence[str], *, cwd: Path, what: str, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end and return what it printed; ``what`` names it in messages.

    Raises:
        CannotStart: it does not exist or cannot be executed.
        CommandFailed: its status is not 0, or its call's time is up (it is ended then).
    """
    limit_s = HELPER_SHARE * call_left_s(HELPER_LIMIT_S)
    try:
        ran = run.command(argv, cwd=cwd, env=env, at_most_s=limit_s)
    except OSError as error:
        raise cannot_start(argv[0], error) from error
    printed = _read(ran.output)
    if ran.status == 0:
        return printed
    if ran.status is None:
        ended = f"was still running after {limit_s:.3g} s and was ended"
    else:
        ended = f"was ended by signal {-ran.status}" if ran.status < 0 else f"ended with status {ran.status}"
    raise CommandFailed(f"the {what} command {shlex.join(argv)} {ended}{_tail(printed)}")


def _read(output: Path) -> str:
    with output.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _OUTPUT_BYTES))
        return file.read().decode(errors="backslashreplace")


def _tail(printed: str) -> str:
    text = printed[-_TAIL_CHARACTERS:].strip()
    return f"; it printed: {text}" if text else ""
