"""One look at a workspace of 100,000 files, and one that is compared with the handover's, each beside a bare walk with scandir and stat."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.sides import in_turn, ratio, show
from pytest_cancelcontract.recorder import workspace
from pytest_cancelcontract.recorder.since_handover import SinceHandover

FOLDERS, FILES_EACH, TIMES = 200, 500, 7


def bare_walk(folder: str) -> int:
    """As little as a walk can do: each entry's stat, nothing kept."""
    waiting, count = [folder], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return count


def since_handover(tree: str) -> SinceHandover:
    """A watch that has taken its first look, when all was old."""
    since = SinceHandover(tree, "token", workspace.stamp(tree), time.monotonic())
    since.first()
    return since


def main() -> None:
    """Print both sides."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(FOLDERS):
            place = Path(folder) / "workspace" / str(number)
            place.mkdir(parents=True)
            for name in range(FILES_EACH):
                (place / str(name)).touch()
        tree = str(Path(folder) / "workspace")
        since = since_handover(tree)
        ours, theirs = in_turn(lambda: void(workspace.look(tree)), lambda: void(bare_walk(tree)), TIMES)
        compared, theirs_again = in_turn(lambda: void(since.again()), lambda: void(bare_walk(tree)), TIMES)
    show("one look, 100,000 files", ours)
    show("bare scandir and stat", theirs)
    ratio(ours, theirs, "figure: at most 1.5")
    show("one look, compared with the handover's", compared)
    show("bare scandir and stat", theirs_again)
    ratio(compared, theirs_again, "the figure is for the look alone")


def void(_: object) -> None:
    """Drop a result."""


if __name__ == "__main__":
    main()
