"""One look at a workspace of 100,000 files, beside a bare walk with scandir and stat."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.sides import in_turn, ratio, show
from pytest_cancelcontract.recorder import workspace

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


def main() -> None:
    """Print both sides."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(FOLDERS):
            place = Path(folder) / "workspace" / str(number)
            place.mkdir(parents=True)
            for name in range(FILES_EACH):
                (place / str(name)).touch()
        tree = str(Path(folder) / "workspace")
        ours, theirs = in_turn(lambda: void(workspace.look(tree)), lambda: void(bare_walk(tree)), TIMES)
    show("one look, 100,000 files", ours)
    show("bare scandir and stat", theirs)
    ratio(ours, theirs, "figure: at most 1.5")


def void(_: object) -> None:
    """Drop a result."""


if __name__ == "__main__":
    main()
