"""The folders of the drills: a short root, a pristine source repository, and a workspace that is filled from it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_cancelcontract.recorder import mounts, workspace

MARKER = ".cancel-contract-workspace"
"""Only a folder with this file in it is ever poisoned by a runner: it can't be somebody's real work."""
GIT_WITHIN_S = 10.0
DIGEST_AT_MOST = 1 << 20
"""How much of a file is hashed, in bytes. None of a source's own files is as long; of what has taken the place of one, the length tells."""
REMOVES_WITHIN_S, STEP_WITHIN_S = 60.0, 10.0
"""How long a removal is waited for, and how long one that does not get on (a file system that does not answer)."""
_FILES = {
    MARKER: "This folder was made for a drill. A runner may write anything into it.\n",
    ".gitignore": "ignored/\n",
    "README.md": "# A small project\n\nA stand-in for the code that a runner works on.\n",
    "src/main.txt": "first line\nsecond line\n",
    "src/deep/nested/part.txt": "a nested part\n",
}
_LOOK = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)
_roots: dict[Path, tuple[int, int]] = {}
_steps = [0]  # that the removals of this process have taken; two at a time may lose one, which is no matter


def make_root(wanted: Path | None) -> Path:
    """A new, short-named folder for all drills of a recorder; others may pass through it and not list it."""
    root = Path(tempfile.mkdtemp(prefix="ccd-", dir=wanted))
    root.chmod(0o711)
    know_root(root)
    return root


def know_root(root: Path) -> None:
    """Keep in mind which folder a root is: nothing is removed in another one that lies at its path later."""
    status = os.lstat(root)
    _roots[root] = status.st_dev, status.st_ino


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

    git's own bookkeeping is left out but for the branches: a worktree added to the source is a legitimate use of it. So is what is mounted
    in the source: its file system need not answer.
    """
    folder = Path(os.path.realpath(folder.parent), folder.name)
    mounted, git = set(mounts.at_or_below(folder.parent)), folder / ".git"
    if str(folder) in mounted or folder.is_symlink():
        return {}
    is_gits = not any(Path(point).is_relative_to(git) for point in mounted) and git.is_dir()
    found = {f".git/refs/heads/{name}": _digest(path) for name, path in _heads(folder)} if is_gits else {}
    for entry in walk(folder, but={str(git), *mounted}):
        if not _is_folder(entry) and not os.path.isdir(entry.path):
            found[str(Path(entry.path).relative_to(folder))] = _digest(Path(entry.path))
    return found


def walk(folder: Path, but: Collection[str] = ()) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder, however deep (``os.walk`` may end by ``RecursionError``), but for these paths; no link in it is entered."""
    pending = [str(folder)]
    while pending:
        for entry in _listed(pending.pop()):
            if entry.path not in but:
                yield entry
                if _is_folder(entry):
                    pending.append(entry.path)


def _heads(folder: Path) -> list[tuple[str, Path]]:
    return [("main", path)] if (path := folder / ".git" / "refs" / "heads" / "main").exists() else []


def _digest(path: Path) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
        if not stat.S_ISREG(status.st_mode):
            return "no regular file"
        with workspace.opened(str(path)) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return f"{hashlib.sha256(file.read(DIGEST_AT_MOST)).hexdigest()} of {os.fstat(descriptor).st_size}"
    except OSError as error:
        return f"unreadable: {error.strerror}"


class Patience:
    """Tells when the removals of this process have been waited for long enough: a long one is, and one that stands still is not."""

    def __init__(self) -> None:
        self._steps, self._moved_s = _steps[0], time.monotonic()
        self._ends_s = self._moved_s + REMOVES_WITHIN_S

    def is_over(self) -> bool:
        """Whether it is time to leave what is left."""
        now_s = time.monotonic()
        if self._steps != _steps[0]:
            self._steps, self._moved_s = _steps[0], now_s
        return now_s > min(self._ends_s, self._moved_s + STEP_WITHIN_S)


def is_there(path: str | Path, above: int | None = None) -> bool:
    """Whether something has this name, a broken link too; a file system that is mounted there is not asked, for it need not answer."""
    try:
        os.close(os.open(path, getattr(os, "O_PATH", 0) | os.O_NOFOLLOW, dir_fd=above))
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


@dataclass(slots=True)
class _Level:
    """A folder on the way down to the one that is being emptied: its name in the one above, which it is, what there is still to remove."""

    name: str
    which: tuple[int, int]
    folders: list[str]


def remove(folder: Path) -> bool:
    """Remove a folder with everything in it, read-only folders too; what cannot be removed stays. Returns whether the folder is gone.

    What is mounted in it is somebody's: it is not entered, and stays with the folders above it. No link is followed either: not one that
    lies in the folder, nor one that has taken the place of the folder, which stays as well. Each step starts at an open folder, and not
    at a path, so neither is what somebody exchanges for a link meanwhile; and few are open at once, so depth is no matter.
    """
    try:
        above = os.open(folder.parent, _LOOK)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    try:
        if _roots.get(folder.parent, _which(above)) != _which(above):
            return False
        with contextlib.suppress(OSError):
            _remove_in(above, folder.name, _roots.get(folder))
        return not is_there(folder.name, above)
    except OSError:
        return False
    finally:
        os.close(above)


def _remove_in(above: int, name: str, expected: tuple[int, int] | None) -> None:
    mount, here = mounts.of(above), os.dup(above)
    way = [_Level("", _which(here), [name])]
    try:
        while True:
            _steps[0] += 1
            if way[-1].folders:
                here = _enter(way, here, mount, expected if len(way) == 1 else None)
                continue
            if len(way) == 1:
                return
            outer = os.open("..", _LOOK, dir_fd=here)
            os.close(here)
            here, name = outer, way.pop().name
            if _which(here) != way[-1].which:
                return  # it was moved meanwhile, and what is above it now is not ours
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def _enter(way: list[_Level], here: int, mount: int, expected: tuple[int, int] | None) -> int:
    """Remove the next folder of ``here``; where it has folders itself, it is put on the way and returned, and else ``here``.

    Which folder it is, is asked only where it is no mount: a file system that hangs would answer never, and one that is dead by an error.
    """
    name = way[-1].folders.pop()
    try:
        inner = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=here)
    except OSError:
        return here
    folders: list[str] = []
    try:
        if mounts.of(inner) != mount:
            return here
        which = _which(inner)
        if expected not in (None, which):
            return here
        if folders := _without_files(inner):
            way.append(_Level(name, which, folders))
            return inner
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=here)
        return here
    except OSError:
        return here
    finally:
        os.close(here if folders else inner)


def _without_files(here: int) -> list[str]:
    """Make an open folder one that can be emptied, and remove what is no folder; returns the names of those in it."""
    mode = os.fstat(here).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.chmod(f"/proc/self/fd/{here}", stat.S_IMODE(mode) | stat.S_IRWXU)  # fchmod(2) refuses a folder that is open by O_PATH
    folders = []
    try:
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
    except OSError:
        return []
    try:
        for entry in _listed(listing):
            _steps[0] += 1
            if _is_folder(entry):
                folders.append(entry.name)
                continue
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=here)
    finally:
        os.close(listing)
    return folders


def _listed(folder: str | int) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found.extend(entries)
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _which(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
