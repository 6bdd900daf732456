"""What the command prints, so that no fault of its output is one of the command: it comes to its own end, with its own exit status."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDERR = 2


@contextlib.contextmanager
def steady_output() -> Iterator[None]:
    """Print to where nobody may read any more, to a full disk, to a closed descriptor, or in an encoding that lacks a letter.

    What is told to nobody is lost, and of a pipe that is all there is to say: whoever reads (head, less) has enough. Any other reason is
    told on stderr. Streams that another (a test) has put in place stay as they are.
    """
    _fill_closed_descriptors()
    given = sys.stdout, sys.stderr
    out = _Steady(sys.__stdout__) if sys.stdout is sys.__stdout__ else None
    err = _Steady(sys.__stderr__) if sys.stderr is sys.__stderr__ else None
    sys.stdout, sys.stderr = out or sys.stdout, err or sys.stderr
    try:
        yield
    finally:
        sys.stdout.flush()
        if out is not None and out.why_cut:
            print(f"cancelcontract: not all of the output could be written: {out.why_cut}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout, sys.stderr = given


class _Steady(io.TextIOWrapper):
    """Writes what the given stream would; None is what Python has in place of a stream whose descriptor was closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._raw = _Descriptor(os.devnull if stream is None else stream.fileno())
        if isinstance(stream, io.TextIOWrapper):
            stream.flush()
            how = {"encoding": stream.encoding, "line_buffering": stream.line_buffering, "write_through": stream.write_through}
        else:
            how = {"encoding": "utf-8"}
        super().__init__(io.BufferedWriter(self._raw), errors="backslashreplace", **how)  # type: ignore[arg-type]

    @property
    def why_cut(self) -> str:
        """Why not everything was written, in words; ``""`` where it was, or where the reader has left."""
        error = self._raw.error
        return "" if error is None or error.errno == errno.EPIPE else error.strerror or str(error)


class _Descriptor(io.FileIO):
    """A descriptor, or a file, that takes everything: from the first error on, ``error``, it throws away what it is given."""

    def __init__(self, place: int | str) -> None:
        super().__init__(place, "w", closefd=isinstance(place, str))
        self.error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of it, and say how much; waits where the descriptor is one that does not."""
        try:
            while self.error is None:
                written: int | None = super().write(data)
                if written is not None:
                    return written
                select.select([], [self], [])
        except OSError as error:
            self.error = error
        return memoryview(data).nbytes


def _fill_closed_descriptors() -> None:
    """Give 0, 1 and 2 to /dev/null where they are closed, or the first file that is opened gets what others print."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
