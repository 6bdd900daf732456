"""What a stopped process cannot tell itself: that it is stopped, which signals wait for it, and that its input has ended.

All of it is read from outside, every few milliseconds: there is no event for any of these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.reaper import Held
from pytest_cancelcontract.recorder.roll import Member

LOOK_EVERY_S = 0.01
STOPS_WITHIN_S = 10.0


async def until_stopped(held: Held) -> bool:
    """Wait until every living thread of the process is stopped; False where that does not happen, or it dies first."""
    until_s = time.monotonic() + STOPS_WITHIN_S
    while time.monotonic() < until_s and not held.has_ended():
        if process_table.is_stopped(held.identity):
            return True
        await asyncio.sleep(0.002)
    return False


async def see_notices(member: Member, on_pending: Callable[[list[str]], None], on_end_of_input: Callable[[], None]) -> None:
    """Tell which notice signals come to wait for a stopped process, and that its input ends; while it is stopped.

    One that a thread of it had taken, and was stopped before it could tell, waits as well.
    """
    pid = member.held.identity.pid
    before: frozenset[str] = frozenset()
    while member.died_s is None and process_table.is_stopped(member.held.identity):
        pending = process_table.pending_notices(pid) | member.taking
        if new := pending - before:
            on_pending(sorted(new))
        before = pending
        if member.has_input and process_table.input_has_ended(pid):
            member.has_input = False
            on_end_of_input()
        await asyncio.sleep(LOOK_EVERY_S)
