"""The folders of the drills: a short root, a pristine source repository, and a workspace that is filled from it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_cancelcontract.recorder import mounts

MARKER = ".cancel-contract-workspace"
"""Only a folder with this file in it is ever poisoned by a runner: it can't be somebody's real work."""
GIT_WITHIN_S = 10.0
_FILES = {
    MARKER: "This folder was made for a drill. A runner may write anything into it.\n",
    ".gitignore": "ignored/\n",
    "README.md": "# A small project\n\nA stand-in for the code that a runner works on.\n",
    "src/main.txt": "first line\nsecond line\n",
    "src/deep/nested/part.txt": "a nested part\n",
}


def make_root(wanted: Path | None) -> Path:
    """A new, short-named folder for all drills of a recorder; others may pass through it and not list it."""
    root = Path(tempfile.mkdtemp(prefix="ccd-", dir=wanted))
    root.chmod(0o711)
    return root


def make_source(folder: Path) -> None:
    """Fill ``folder`` with a small git repository of one commit (a plain tree where the machine has no git)."""
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = shutil.which("git")
    if git is None:
        return
    # A user's own configuration (hooks, signing, templates) must not reach into the drill.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {
        **clean,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _COMMITTER.items()},
    }
    try:
        for words in (["init", "-q", "--template=", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A small project"]):
            subprocess.run(
                [git, *words], cwd=folder, env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_WITHIN_S
            )
    except (subprocess.SubprocessError, OSError):
        remove(folder / ".git")  # a git that does not work is as good as none


_COMMITTER = {"NAME": "cancel contract", "EMAIL": "drill@localhost", "DATE": "2001-01-01T00:00:00Z"}


def copy(source: Path, target: Path) -> None:
    """A copy of a folder with its links and change bits."""
    shutil.copytree(source, target, symlinks=True)


def digests(folder: Path) -> dict[str, str]:
    """A hash for each file of a source that a wrapper has no business to change.

    git's own bookkeeping is left out but for the branches: a worktree added to the source is a legitimate use of it.
    """
    found = {}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if here == folder and ".git" in folders:
            folders.remove(".git")
            found.update({f".git/refs/heads/{name}": _digest(path) for name, path in _heads(folder)})
        for name in names:
            found[str((here / name).relative_to(folder))] = _digest(here / name)
    return found


def _heads(folder: Path) -> list[tuple[str, Path]]:
    return [("main", path)] if (path := folder / ".git" / "refs" / "heads" / "main").exists() else []


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(os.readlink(path).encode() if path.is_symlink() else path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def remove(folder: Path) -> None:
    """Remove a folder with everything in it, read-only folders too; what cannot be removed stays.

    What is mounted in it is somebody's: it is not entered, and stays with the folders above it.
    """
    mounted = frozenset(mounts.at_or_below(folder))
    places = list(_open_up(folder, mounted))
    if not mounted:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for place, names in reversed(places):
        for name in names:
            with contextlib.suppress(OSError):
                (place / name).unlink()
        with contextlib.suppress(OSError):
            place.rmdir()


def _open_up(folder: Path, mounted: frozenset[str]) -> Iterator[tuple[Path, list[str]]]:
    """Every folder that is not mounted, made one that can be emptied, with the names in it that are no folders; those above come first."""
    if str(folder.resolve()) in mounted:
        return
    for place, names, files in os.walk(folder.resolve()):
        links = [name for name in names if os.path.islink(os.path.join(place, name))]
        names[:] = [name for name in names if name not in links and os.path.join(place, name) not in mounted]
        for name in names:
            with contextlib.suppress(OSError):
                path = Path(place, name)
                path.chmod(path.stat().st_mode | stat.S_IRWXU)
        yield Path(place), [*files, *links]
