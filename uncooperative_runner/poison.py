"""What a cancelled run leaves for the next one, and how the next one finds it.

Planted only in a folder that the recorder has marked as a workspace of ours: somebody's real folder must never be damaged.
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
    """Leave an item of each kind in ``folder``; what was left, each read back, as ``{"kind", "path"}``.

    No lock of version control where there is no ``.git`` folder to lock (a plain copy, a linked worktree).

    Raises:
        OSError: an item could not be written, or was not there afterwards.
    """
    planted = []
    for kind, place in PLACES:
        path = os.path.join(folder, place)
        if kind == "vcs-lock" and not os.path.isdir(os.path.dirname(path)):
            continue
        _plant_one(kind, path, marker)
        if marker not in _lines_of(path):
            raise OSError(f"the {kind} poison is not in {path} after it was written")
        planted.append({"kind": kind, "path": path})
    return planted


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
    before, after = {"tracked": ("\n", "\n"), "half-written": ('{"rows": [\n', "\n1, 2,")}.get(kind, ("", "\n"))
    with open(path, "a" if kind == "tracked" else "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(before + marker + after)
    if kind == "read-only-folder":
        os.chmod(above, 0o555)


def find(folder: str, own_attempt: str) -> list[dict[str, str]]:
    """Every marker of another attempt in ``folder``, as ``{"kind", "path", "attempt"}``; read-only."""
    found = []
    for kind, place in PLACES:
        path = os.path.join(folder, place)
        for line in dict.fromkeys(_lines_of(path)):
            words = line.split(" ")
            if words[0] == MARKER and len(words) == 3 and words[2] != own_attempt:
                found.append({"kind": kind, "path": path, "attempt": words[2]})
    return found


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


def carried_session(argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, str] | None:
    """The first session id of an earlier attempt on the command line or in the environment, as ``{"where", "text"}``.

    Only the id itself is taken: what stands around it may be secret.
    """
    for where, texts in (("argv", argv), ("env", environment.values())):
        for text in texts:
            _, prefix, rest = text.partition(SESSION)
            if prefix:
                length = next((at for at, character in enumerate(rest) if not (character.isalnum() or character in "-_.")), len(rest))
                return {"where": where, "text": prefix + rest[:length]}
    return None
