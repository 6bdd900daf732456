"""A lock that outlives who took it: flock(2) belongs to the open file, and whoever inherits the descriptor holds it on.

It is what ``filelock.FileLock`` takes. Here it is one more item of poison, which must be there before the children are.
"""

from __future__ import annotations

import os

from uncooperative_runner import poison
from uncooperative_runner.notices import Unarmed

HABIT = "lock-holder"


class Lock:
    """The lock in a workspace; ``descriptor`` is -1 where it was not taken, for the reason that ``why_not`` gives."""

    def __init__(self, path: str, descriptor: int = -1, why_not: str = "") -> None:
        self.path = path
        self.descriptor = descriptor
        self._why_not = why_not

    def prove(self) -> str:
        """See that nobody else can take it, and that it is held by our descriptor; in words.

        Raises:
            Unarmed: it was taken, and is not held.
        """
        if self.descriptor < 0:
            return f"holds no lock: {self._why_not}"
        ours, there = os.fstat(self.descriptor), os.stat(self.path)
        if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino) or not poison.is_locked(self.path):
            raise Unarmed(HABIT, f"{self.path} is not locked through descriptor {self.descriptor}")
        return f"holds {self.path} locked through descriptor {self.descriptor}, which it inherited; locking it anew is refused"


def take(folder: str, marker: str) -> Lock:
    """Lock the file in ``folder`` and mark it as this attempt's.

    Not where nothing may be left, and not where somebody holds it: an orphan of an earlier attempt that was started in the same
    folder, say. That one's lock is there for the next run as well, and a run that is tried again must not wait for it.

    Raises:
        Unarmed: it cannot be locked, marked or made.
    """
    import fcntl

    path = poison.path_of("flock", folder)
    why_not = poison.why_not_here(folder)
    if why_not:
        return Lock(path, why_not=why_not)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return Lock(path, why_not=f"{path} is locked by another process already")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{marker}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise Unarmed(HABIT, str(error)) from None
    return Lock(path, descriptor)
