"""The work of one process, as far as it can be seen in the workspace: a line in a log of its own, again and again."""

from __future__ import annotations

import os
import time


class WorkLog:
    """The log of a process with that role in ``folder``; an empty folder is one that was gone from the start."""

    def __init__(self, folder: str, role: str) -> None:
        self._folder = folder
        self.path = os.path.join(folder, f"uncooperative-{role}.log")
        self.count = 0

    def write(self, who: str) -> None:
        """Append a line, by its absolute path: in a folder that is gone, or another's by now, if need be.

        Raises:
            OSError: it cannot be written.
        """
        if not self._folder:
            raise OSError("the working folder was gone from the start")
        line = f"uncooperative {who} {os.getpid()} {self.count + 1} {time.monotonic():.6f}\n"
        try:
            descriptor = self._open()
        except FileNotFoundError:
            os.makedirs(self._folder, exist_ok=True)
            descriptor = self._open()
        try:
            os.write(descriptor, line.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)
        self.count += 1

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
