"""Writes a drill's history to disk as it happens, an observation a line. Keeps nothing and judges nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cancelcontract.history import Observation, header_line


class Journal:
    """One history file that only grows.

    A write that fails (a full disk) is remembered in ``failure``: from then on the drill proves nothing, and the recorder says
    so in every answer about it, but goes on watching and ending processes.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Begin the file.

        Raises:
            OSError: it cannot be written.
        """
        self.path = path
        self.failure = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered and appending: what was seen is on disk before anything else happens, also if this process is killed.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._write(header_line(header))
        except OSError:
            os.close(self._file)
            raise

    def add(self, witness: str, kind: str, subject: str = "", *, at_s: float | None = None, **data: Any) -> float:
        """Write one observation down, and return its time (now, unless it is given)."""
        at_s = time.monotonic() if at_s is None else at_s
        if self._file >= 0 and not self.failure:
            try:
                self._write(Observation(at_s, witness, kind, subject, data).as_json())
            except OSError as error:
                self.failure = f"cannot write the history {self.path}: {error.strerror or error}"
        return at_s

    def close(self) -> None:
        """Close the file; what comes later is dropped."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
