"""Short commands that an adapter runs to start, cancel or ask, and signals to a process that is known by identity, one or a ladder of them.

A helper command never outlives the call that it is run for, nor the drill.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_cancelcontract.adapters.ladders import Ladder
from pytest_cancelcontract.adapters.protocol import call_left_s, note_act
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


class CutShort(TimeoutError):
    """The time of the call into the adapter was up before the last signal of a ladder."""


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
    if not hasattr(os, "pidfd_open"):
        if identity_of(pid) != Identity(pid, start):
            raise _gone(pid, start, number)
        os.kill(pid, number)
        return
    with _held(pid, start, number) as held:
        _send(held, number)


def climb(ladder: Ladder, pid: int, start: int) -> None:
    """Send a ladder's signals to one process, until it has ended or the last one was sent.

    Raises:
        ProcessLookupError: the pid is gone, or names another process by now.
        CutShort: the time of the present call is up before the last signal.
    """
    began_s = time.monotonic()
    ends_s = began_s + HELPER_SHARE * call_left_s(math.inf)
    with _held(pid, start, ladder.steps[0].number) as held:
        for step in ladder.steps:
            _send(held, step.number)
            if step is ladder.steps[-1] or _ends_within(held, min(step.pause_s, ends_s - time.monotonic())):
                return
            if time.monotonic() >= ends_s:
                took_s = time.monotonic() - began_s
                raise CutShort(f"the ladder ({ladder.how}) was cut short after {took_s:.3g} s: the time of the call is up")


def _send(held: int, number: signal.Signals) -> None:
    at_s = time.monotonic()
    signal.pidfd_send_signal(held, number)
    note_act(at_s)


def _ends_within(held: int, at_most_s: float) -> bool:
    """Whether a process ends in that time; a pidfd is readable from its end on, zombie or not."""
    poll = select.poll()
    poll.register(held, select.POLLIN)
    return bool(poll.poll(max(0.0, at_most_s) * 1000))


@contextlib.contextmanager
def _held(pid: int, start: int, number: signal.Signals) -> Iterator[int]:
    """A pidfd of the process of that identity, for a signal that is to be sent to it."""
    # The descriptor pins whoever has the pid now; only then can looking at its start time be believed (pidfd_open(2)).
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        raise _gone(pid, start, number) from None
    try:
        if identity_of(pid) != Identity(pid, start):
            raise _gone(pid, start, number)
        yield held
    finally:
        os.close(held)


def _gone(pid: int, start: int, number: signal.Signals) -> ProcessLookupError:
    return ProcessLookupError(f"process {pid} (start {start}) is gone, no {number.name} was sent")


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
    note_act(ran.began_s)
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
