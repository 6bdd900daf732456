"""Files that are there whole, or as they were before."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file, and make its folder; nobody ever sees half of it, and several may do so at once. A link is followed, not replaced.

    Args:
        mode: its permissions, whatever the umask says; None leaves them to the umask.
    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(content)
        if mode is not None:
            draft.chmod(mode)
        draft.replace(place)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
