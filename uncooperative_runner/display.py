"""What of a process shows beside its work: the lines that it prints, and the poison that it leaves."""

from __future__ import annotations

import os
import sys
import threading
import time

from uncooperative_runner import poison
from uncooperative_runner.notices import Unarmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uncooperative_runner.member import Member

PRINT_EVERY_S = 0.05
FIRST_LINE_WITHIN_S = 0.5


def show(member: Member) -> list[dict[str, str]]:
    """Start printing, or show that nothing is printed; leave the poison. What is proven so."""
    plan = member.options.plan
    session = poison.session_of(member.options.token, member.attempt) if plan.leaves_poison and not plan.is_silent else ""
    first_line = f'{{"session_id": "{session}"}}\n' if session else ""
    first_line_out = threading.Event()
    proven = []
    if plan.is_silent:
        proven.append({"habit": "silent", "proof": "no thread prints; 0 lines written"})
    elif plan.is_chatty:
        from uncooperative_runner.chatty import flood

        proven.append({"habit": "chatty", "proof": flood(member, first_line, first_line_out)})
    else:
        member.in_thread(lambda: _print_lines(member, first_line, first_line_out))
    if plan.leaves_poison or plan.holds_lock:
        proven += _leave_poison(member, session, first_line_out)
    return proven


def _leave_poison(member: Member, session: str, first_line_out: threading.Event) -> list[dict[str, str]]:
    plan = member.options.plan
    marker = poison.marker_of(member.options.token, member.attempt)
    why = poison.why_not_here(member.folder)
    if why:
        member.say("not-planted", why=why)
        return []
    try:
        planted = poison.plant(member.folder, marker) if plan.leaves_poison else []
    except OSError as error:
        raise Unarmed("poison", str(error)) from None
    planted += poison.planted_flock(member.folder, marker) if plan.holds_lock else []
    member.say("planted", poison=planted, session=session or None)
    if not plan.leaves_poison:
        return []
    if not session:
        told = "not printed: it is silent"
    else:
        told = "printed" if first_line_out.wait(FIRST_LINE_WITHIN_S) else "not printed: standard output takes nothing"
    return [{"habit": "poison", "proof": f"{len(planted)} items read back; session id {told}"}]


def _print_lines(member: Member, line: str, first_line_out: threading.Event) -> None:
    """Print for ever, from a thread of its own: a full pipe holds up nothing else. Ends where nobody can ever read it."""
    for number in range(1, sys.maxsize):
        line = line or f"uncooperative runner {os.getpid()}: line {number}\n"
        try:
            if not member.is_quiet:
                os.write(1, line.encode("utf-8", "surrogateescape"))
                line = ""
                first_line_out.set()
        except BlockingIOError:
            pass  # the other side made the pipe non-blocking, and it is full: the same line again later
        except OSError:
            return
        time.sleep(PRINT_EVERY_S)
