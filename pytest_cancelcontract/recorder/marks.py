"""What a file says: its hash, and the lines in it that processes of the run have marked with their token, attempt, pid and time."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pytest_cancelcontract.recorder.workspace import MARK, OWN_PREFIX, Entry, opened

READ_AT_MOST = 4 * 1024 * 1024
"""How much of a file is read, in bytes, from its end: marks are in what was added last."""
RUNS_AT_MOST = 24
"""How many runs of lines are told of a file in which several attempts wrote in turn."""

Writers = tuple[tuple[int, str, int], ...]
"""Process, attempt, and how many lines."""


class Reading(NamedTuple):
    """A file's contents, as far as they are kept: the hash of what was read, and the run's lines in their order.

    ``at_bytes`` says of each line where in the file it begins; ``is_whole`` that no part of the file was left out.
    """

    sha256: str
    lines: tuple[bytes, ...]
    at_bytes: tuple[int, ...]
    is_whole: bool

    def behind(self, offset: int) -> tuple[bytes, ...]:
        """The lines that begin at or behind that byte."""
        return tuple(line for line, at in zip(self.lines, self.at_bytes, strict=True) if at >= offset)


def read(path: str, entry: Entry, token: str) -> Reading | None:
    """Read the entry's contents; None where they cannot be had, or the path is another file's by now."""
    try:
        with opened(path) as descriptor:
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != entry.key:
                return None
            begins = max(0, status.st_size - READ_AT_MOST)
            content = _content(descriptor, begins)
    except OSError:
        return None
    lines, at_bytes = _marked(content, begins, token)
    return Reading(hashlib.sha256(content).hexdigest(), lines, at_bytes, begins == 0)


def _content(descriptor: int, begins: int) -> bytes:
    parts, at = [], begins
    while at < begins + READ_AT_MOST and (part := os.pread(descriptor, begins + READ_AT_MOST - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _marked(content: bytes, begins: int, token: str) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    wanted = MARK + token.encode() + b" "
    lines, at_bytes, at = [], [], begins
    if wanted in content:
        for line in content.split(b"\n"):
            if line.startswith(wanted):
                words = line.split()
                if len(words) >= 5 and words[3].isdigit():
                    lines.append(line)
                    at_bytes.append(at)
            at += len(line) + 1
    return tuple(lines), tuple(at_bytes)


def count(folder: Path, token: str) -> int:
    """How many lines of the run the fullest of its own files in this folder has."""
    wanted = MARK + token.encode() + b" "
    found = [0]
    for path in folder.glob(f"{OWN_PREFIX}*.log"):
        with contextlib.suppress(OSError), opened(str(path)) as descriptor:
            content = _content(descriptor, max(0, os.fstat(descriptor).st_size - READ_AT_MOST))
            found.append(sum(line.startswith(wanted) for line in content.splitlines()))
    return max(found)


def said_at_s(line: bytes) -> float:
    """When a marked line was written, by the writer's own monotonic clock; 0 where it does not say."""
    try:
        return float(line.split()[5])
    except (IndexError, ValueError):
        return 0.0


def _writer_of(line: bytes) -> tuple[int, str]:
    words = line.split()
    return int(words[3]), words[2].decode("ascii", "replace")


def writers(lines: Iterable[bytes]) -> Writers:
    """Who wrote these lines; the pid is the one by which a process knows itself."""
    counted = Counter(_writer_of(line) for line in lines)
    return tuple((pid, attempt, count) for (pid, attempt), count in sorted(counted.items()))


def order(lines: Iterable[bytes]) -> Writers:
    """The runs of lines in their order, where two or more attempts have written; else nothing."""
    runs = [(*writer, sum(1 for _ in group)) for writer, group in groupby(lines, key=_writer_of)]
    return tuple(runs[:RUNS_AT_MOST]) if len({attempt for _, attempt, _ in runs}) > 1 else ()
