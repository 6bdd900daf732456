"""The flood: much more than anybody wants to read, on standard output and standard error, and bounded all the same."""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uncooperative_runner.member import Member

FLOOD_BYTES = 16 * 1024
FLOOD_EVERY_S = 0.005
AT_MOST_BYTES = 64 * 1024 * 1024
LINE_BYTES = 128
BEGINS_WITHIN_S = 0.5


def flood(member: Member, first_line: str, first_line_out: threading.Event) -> str:
    """Flood both, from a thread each, so that a full pipe holds up nothing else; what was proven, in words.

    ``first_line`` comes before the flood on standard output; ``first_line_out`` is set once it has been written.
    """
    lines = f"uncooperative runner {os.getpid()} floods ".ljust(LINE_BYTES - 1, "#") + "\n"
    block = lines.encode("ascii") * (FLOOD_BYTES // LINE_BYTES)
    on_stderr = threading.Event()
    member.in_thread(lambda: flood_one(member, 1, first_line.encode("utf-8", "surrogateescape") + block, block, first_line_out))
    member.in_thread(lambda: flood_one(member, 2, block, block, on_stderr))
    began = [name for name, out in (("stdout", first_line_out), ("stderr", on_stderr)) if out.wait(BEGINS_WITHIN_S)]
    return f"{FLOOD_BYTES >> 10} KB written to {' and '.join(began) or 'neither stdout nor stderr, which take nothing'}"


def flood_one(
    member: Member, descriptor: int, rest: bytes, block: bytes, has_begun: threading.Event, *, at_most_bytes: int = AT_MOST_BYTES
) -> None:
    """Write ``rest`` and then blocks, up to the limit. Ends where nobody can ever read it."""
    written_bytes = 0
    while written_bytes < at_most_bytes:
        try:
            if not member.is_quiet:
                count = os.write(descriptor, rest[: at_most_bytes - written_bytes])
                written_bytes += count
                rest = rest[count:] or block
                has_begun.set()
        except BlockingIOError:
            pass  # the other side made the pipe non-blocking, and it is full: the same again later
        except OSError:
            return
        time.sleep(FLOOD_EVERY_S)
