"""A guard that an activity starts instead of the runner: it ends the run when the worker closes its input, or is gone.

    python ends_with_its_worker.py LIMIT WAITS [--grace SECONDS] WORKSPACE SOURCE RUNNER…

The parts are those of the kept samples. LIMIT, in seconds, is the floor: it lives outside the worker, which may be stopped and keep the
pipe open. Where WAITS is ``waits``, the run begins only when the guard of the last one in this place has ended: an engine starts its
next attempt when its own timeout is over, whatever is still being ended.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures" / "wrappers" / "kept"))

from guard import Guard, guard  # type: ignore[import-not-found]  # a sample, reached by path

LOOK_EVERY_S = 0.02


class GuardWithFloor(Guard):  # type: ignore[misc]  # the same
    """Takes the end of the time that a run has for a cancel as well."""

    is_cancelled: bool
    ends_at_s = float("inf")

    def wait(self, at_most_s: float | None = None) -> None:
        """Until a signal has come, the pipe has ended, or the time of this wait or of the run is over."""
        left_s = self.ends_at_s - time.monotonic()
        if not self.is_cancelled and left_s != float("inf"):
            at_most_s = max(0.0, left_s if at_most_s is None else min(left_s, at_most_s))
        super().wait(at_most_s)
        if time.monotonic() >= self.ends_at_s:
            self.is_cancelled = True


def wait_for_the_last_one(workspace: Path) -> bool:
    """Take the place that the workspace is in, for as long as this process lives; False where the run was cancelled meanwhile.

    The lock is on the folder itself, so that there is no file that could be left, and the runner does not inherit it.
    """
    place = os.open(workspace.parent, os.O_RDONLY)
    while True:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if select.select([0], [], [], LOOK_EVERY_S)[0]:  # a lock has no event that could be waited for beside the pipe
                return False
        else:
            return True


def main() -> int:
    """Be the sample's guard, with its pipe as standard input."""
    import guard as sample
    from subreaper import CANCELLED, arguments  # type: ignore[import-not-found]  # the same

    limit_s, waits = float(sys.argv.pop(1)), sys.argv.pop(1) == "waits"
    GuardWithFloor.ends_at_s = time.monotonic() + limit_s
    sample.Guard = GuardWithFloor
    status: int = CANCELLED if waits and not wait_for_the_last_one(arguments().workspace) else guard(0)
    return status


if __name__ == "__main__":
    sys.exit(main())
