"""A workspace that is watched as at a handover, and a real process that can hold a file of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table, workspace
from pytest_cancelcontract.recorder.since_handover import Change, Seen, SinceHandover

TOKEN = "tok"


def line(pid: int, seq: int, attempt: str = "tok-1", at_s: float | None = None) -> str:
    """A line as the runner marks it."""
    return f"uncooperative {TOKEN} {attempt} {pid} {seq} {seq + 0.5 if at_s is None else at_s}\n"


class Watched:
    """A workspace below a folder, with a stamp; ``take`` is the handover. Paths in what it tells are relative to the workspace."""

    def __init__(self, above: Path, **options: object) -> None:
        self.folder = above / "workspace"
        self.folder.mkdir()
        self.living: Sequence[Identity] = ()
        self.in_between: Callable[[], object] = lambda: None
        self._options = options
        self._since: SinceHandover | None = None

    def take(self) -> dict[str, Change]:
        """The stamp, whatever is to happen between, and the handover's look."""
        moment, at_s = workspace.stamp(str(self.folder)), time.monotonic()
        self.in_between()
        self._since = SinceHandover(str(self.folder), TOKEN, moment, at_s, **self._options)  # type: ignore[arg-type]
        seen = self._since.first(self.living)
        # On older kernels what follows would have the change time of what was before, until the file system's clock ticks.
        now = workspace.stamp(str(self.folder))
        while workspace.stamp(str(self.folder)).ctime_ns <= now.ctime_ns:
            pass
        return self._by_path(seen)

    def look(self) -> Seen:
        """A look since."""
        assert self._since is not None
        return self._since.again(self.living)

    def changes(self) -> dict[str, Change]:
        """What has changed, by path."""
        return self._by_path(self.look())

    def _by_path(self, seen: Seen) -> dict[str, Change]:
        found = {os.path.relpath(change.path, self.folder): change for change in seen.changes}
        assert len(found) == len(seen.changes), "a path is told once"
        return found


HOLDER = """
import mmap, os, sys
held = {}
print("ready", flush=True)
for order in sys.stdin:
    what, key, path, at, text = order.rstrip("\\n").split("\\t")
    text = text.replace("|", "\\n")
    if what == "map":
        descriptor = os.open(path, os.O_RDWR)
        held[key] = mmap.mmap(descriptor, 0)
        os.close(descriptor)
    elif what == "open":
        held[key] = os.open(path, int(at))
    elif what == "store":
        held[key][int(at) : int(at) + len(text)] = text.encode()
    elif what == "write":
        os.pwrite(held[key], text.encode(), int(at))
    elif what == "append":
        os.write(held[key], text.encode())
    print("done", flush=True)
"""


class Holder:
    """A process that opens and maps files, and writes into what it holds, when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        found = process_table.identity_of(process.pid)
        assert found is not None
        self.identity = found

    def map(self, path: Path, key: str = "m") -> None:
        """Map a file shared and writable. The mapping keeps a descriptor of its own, as Python's does."""
        self._do("map", key, str(path))

    def open(self, path: Path, flags: int, key: str = "d") -> None:
        """Open a file."""
        self._do("open", key, str(path), str(flags))

    def store(self, at: int, text: str, key: str = "m") -> None:
        """Store into a mapping."""
        self._do("store", key, at=str(at), text=text)

    def write(self, at: int, text: str, key: str = "d") -> None:
        """Write through a descriptor, at a place."""
        self._do("write", key, at=str(at), text=text)

    def append(self, text: str, key: str = "d") -> None:
        """Write through a descriptor, where it stands."""
        self._do("append", key, text=text)

    def _do(self, what: str, key: str, path: str = "", at: str = "0", text: str = "") -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        newline = "\n"
        self.process.stdin.write(f"{what}\t{key}\t{path}\t{at}\t{text.replace(newline, '|')}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def holding() -> Iterator[Holder]:
    """A holder that lives as long as the block."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Holder(process)
    finally:
        process.kill()
        process.communicate()
