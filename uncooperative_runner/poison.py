"""What a cancelled run leaves for the next one, and how the next one finds it.

Planted only in a folder that the recorder has marked as a workspace of ours: somebody's real folder must never be damaged.
(The lock of a linked worktree lies outside, in the folder that its ``.git`` names; there too nothing but the lock is made.)
Each item carries the attempt that left it, so that a workspace rebuilt at the same path is told from one that was kept.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKSPACE_MARK = ".cancel-contract-workspace"
MARKER = "uncooperative-poison"
SESSION = "uncooperative-session-"
READ_AT_MOST_BYTES = 1 << 20

PLACES = (
    ("tracked", "README.md"),
    ("untracked", "poison-untracked.txt"),
    ("ignored", "ignored/poison.txt"),
    ("nested", "poison-nested/deep/down/poison.txt"),
    ("hidden", ".poison-hidden"),
    ("read-only-folder", "poison-read-only/poison.txt"),
    ("dangling-link", "poison-dangling-link"),
    ("half-written", "poison-half-written.json"),
    ("vcs-lock", ".git/index.lock"),
    ("lock-file", "poison.lock"),
    ("flock", "poison.flock"),
)


def marker_of(token: str, attempt: str) -> str:
    """The line that every item of an attempt carries."""
    return f"{MARKER} {token} {attempt}"


def session_of(token: str, attempt: str) -> str:
    """The session id that an attempt prints, and that no later one may be given."""
    return f"{SESSION}{token}-{attempt}"


def why_not_here(folder: str) -> str | None:
    """Why nothing may be planted in ``folder``; None where it may."""
    if os.path.isfile(os.path.join(folder, WORKSPACE_MARK)):
        return None
    return f"{folder} holds no {WORKSPACE_MARK}, so it is not a workspace made for a drill"


def plant(folder: str, marker: str) -> list[dict[str, str]]:
    """Leave an item of each kind but ``flock`` in ``folder``; what was left, each read back, as ``{"kind", "path"}``.

    No lock of version control where there is no repository to lock (a plain copy).

    Raises:
        OSError: an item could not be written, or was not there afterwards.
    """
    planted = []
    for kind, _ in PLACES:
        path = path_of(kind, folder)
        if kind == "flock" or (kind == "vcs-lock" and not os.path.isdir(os.path.dirname(path))):
            continue
        _plant_one(kind, path, marker)
        if marker not in _lines_of(path):
            raise OSError(f"the {kind} poison is not in {path} after it was written")
        planted.append({"kind": kind, "path": path})
    return planted


def planted_flock(folder: str, marker: str) -> list[dict[str, str]]:
    """The one item that is not planted here, since it must be there before any child (lock.py); nothing where it is not ours."""
    path = path_of("flock", folder)
    return [{"kind": "flock", "path": path}] if marker in _lines_of(path) else []


def path_of(kind: str, folder: str) -> str:
    """Where the item of that kind belongs in ``folder``."""
    path = os.path.join(folder, dict(PLACES)[kind])
    above, name = os.path.split(path)
    if kind == "vcs-lock" and os.path.isfile(above):
        # A linked worktree: the file names the folder that holds its index, gitrepository-layout(5).
        word, _, named = "".join(_lines_of(above)[:1]).partition(": ")
        if word == "gitdir" and named:
            return os.path.normpath(os.path.join(folder, named, name))
    return path


def _plant_one(kind: str, path: str, marker: str) -> None:
    above = os.path.dirname(path)
    os.makedirs(above, exist_ok=True)
    if kind == "dangling-link":
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(marker, path)
        return
    if kind == "read-only-folder":
        os.chmod(above, 0o755)  # an earlier attempt may have left it read-only
    around = {
        "tracked": ("\n", "\n"),
        "half-written": ('{"rows": [\n', "\n1, 2,"),
        # As filelock.SoftFileLock's: whose pid it is, and on which host. It breaks the locks of its own host's dead, and of no other.
        "lock-file": (f"{os.getpid()}\n", "\n"),
    }
    before, after = around.get(kind, ("", "\n"))
    with open(path, "a" if kind == "tracked" else "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(before + marker + after)
    if kind == "read-only-folder":
        os.chmod(above, 0o555)


def find(folder: str, own_attempt: str) -> list[dict[str, object]]:
    """Every marker of another attempt in ``folder``, as ``{"kind", "path", "attempt"}``; read-only.

    A ``flock`` has ``held`` as well: whether somebody has it locked now.
    """
    found: list[dict[str, object]] = []
    for kind, _ in PLACES:
        path = path_of(kind, folder)
        for line in dict.fromkeys(_lines_of(path)):
            words = line.split(" ")
            if words[0] == MARKER and len(words) == 3 and words[2] != own_attempt:
                held = {"held": is_locked(path)} if kind == "flock" else {}
                found.append({"kind": kind, "path": path, "attempt": words[2], **held})
    return found


def is_locked(path: str) -> bool:
    """Whether somebody holds the file locked for himself alone, flock(2). It is tried, and let go again at once.

    A shared lock is asked for, which such a one keeps out: where NFS does it, the other kind needs a descriptor to write with.
    """
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no locks on this file system
    finally:
        os.close(descriptor)
    return False


def _lines_of(path: str) -> list[str]:
    """The last lines of a regular file, or a link's text as one line; nothing where there is neither (a pipe would block)."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return [os.readlink(path)]
        if not stat.S_ISREG(mode):
            return []
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - READ_AT_MOST_BYTES))
            return file.read(READ_AT_MOST_BYTES).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def carried_session(argv: Sequence[str], environment: Mapping[str, str], token: str = "") -> dict[str, str] | None:
    """The first session id of an earlier attempt on the command line or in the environment, as ``{"where", "text"}``.

    It is known with its prefix, and by what stands behind that (``TOKEN-ATTEMPT``) without it. Only the id itself is taken: what stands
    around it may be secret.
    """
    beginnings = (SESSION, *((f"{token}-",) if token else ()))
    for where, texts in (("argv", argv), ("env", [*environment.values(), *environment])):
        for text in texts:
            for beginning in beginnings:
                _, prefix, rest = text.partition(beginning)
                if prefix:
                    length = next((at for at, character in enumerate(rest) if not (character.isalnum() or character in "-_.")), len(rest))
                    return {"where": where, "text": prefix + rest[:length]}
    return None
