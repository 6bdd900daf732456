"""Work that no look at open(2) can see: stores into a mapping, and appends through a descriptor, both opened before.

A store changes the file at once for all who read it, and its times only now and then: when the page is dirtied for the first time
since it was last written back, mmap(2); on some file systems never. That is why it must be dirty before anybody looks.
"""

from __future__ import annotations

import mmap
import os
import time

from uncooperative_runner.children import open_descriptors

PAGE_BYTES = 4096
NUMBERS_BYTES = 48
"""Room in a line for the pid, the number of the line, the time, and what stands between them."""


class MappedLog:
    """The work of the process as a WorkLog's, in two files of its own in ``folder``: one mapped, one appended to.

    The mapped file is one page of lines of one width, rewritten in turn. Nothing closes the mapping but the end of the process: of its
    descriptors Python has one too, and that one is closed here, so that the mapping alone holds the file.
    """

    def __init__(self, folder: str, who: str) -> None:
        """Open both, and fill the page with lines of ``who`` (token and attempt).

        Raises:
            OSError: they cannot be had; ``folder`` is empty where it was gone from the start.
        """
        if not folder:
            raise OSError("the working folder was gone from the start")
        self.path = os.path.join(folder, "uncooperative-mapped.log")
        self.count = 0
        self._last = b""
        self._width = _width_of(who)
        self._appended_path = os.path.join(folder, "uncooperative-descriptor.log")
        self._appended = os.open(self._appended_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._page = _map(self.path, self._padded(self._line(who)) * (PAGE_BYTES // self._width))
        self.write(who)

    def write(self, who: str) -> None:
        """Store a line in the page, whatever has become of the file, and append it to the other one.

        Raises:
            OSError: the second cannot be; the first is done by then.
        """
        self._last = line = self._line(who)
        at = self.count * self._width % PAGE_BYTES
        self._page[at : at + self._width] = self._padded(line)
        self.count += 1
        os.write(self._appended, line)

    def prove(self) -> str:
        """See by their paths that both are written so; in words.

        Raises:
            OSError: one is not.
        """
        with open(self.path, "rb") as mapped, open(self._appended_path, "rb") as appended:
            lines = mapped.read().splitlines(keepends=True)
            is_written = self._padded(self._last) in lines and self._last in appended.read().splitlines(keepends=True)
        if not is_written:
            raise OSError(f"{self.path} and {self._appended_path} are not written through the mapping and the descriptor")
        held = " and a descriptor" if _descriptors_of(self.path) else ""
        return (
            f"stored through a shared mapping{held} of {self.path} and read there by path, {len(lines)} lines; "
            f"appended through descriptor {self._appended} to {self._appended_path} and read there by path"
        )

    def _line(self, who: str) -> bytes:
        return f"uncooperative {who} {os.getpid()} {self.count + 1} {time.monotonic():.6f}\n".encode("utf-8", "surrogateescape")

    def _padded(self, line: bytes) -> bytes:
        return line[:-1].ljust(self._width - 1) + b"\n"


def _width_of(who: str) -> int:
    """The width of a line: the same for two attempts of a run, which may write into one page."""
    width = 128
    while width < len(f"uncooperative {who} ".encode("utf-8", "surrogateescape")) + NUMBERS_BYTES:
        width *= 2
    if width > PAGE_BYTES:
        raise OSError(f"a line of {who!r} does not fit into {PAGE_BYTES} bytes")
    return width


def _map(path: str, content: bytes) -> mmap.mmap:
    """A shared mapping of a file with that content, which must not be closed: a descriptor that it would close is another's by then."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    # Written before it is cut: one that an earlier attempt has mapped never is too short for its stores, which would kill it.
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    page = mmap.mmap(descriptor, len(content), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    for one in _descriptors_of(path):
        os.close(one)
    return page


def _descriptors_of(path: str) -> list[int]:
    """Those of this process that are open on the file at ``path``."""
    there = os.stat(path)
    found = []
    for descriptor in open_descriptors():
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == (there.st_dev, there.st_ino):
            found.append(descriptor)
    return found
