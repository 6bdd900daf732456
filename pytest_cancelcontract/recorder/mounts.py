"""Where something is mounted: what lies there belongs to another file system, or to another place of this one, and is not ours."""

from __future__ import annotations

import os
import re
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")


def at_or_below(folder: str | Path) -> list[str]:
    """The mount points at a folder or below it, as this process sees them; a bind mount within one file system is one as well.

    Source: proc_pid_mountinfo(5), the fifth field, with blanks in octal. ``os.path.ismount`` compares devices, and misses those.
    """
    inside = os.path.realpath(folder).rstrip("/") + "/"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    points = [_OCTAL.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in lines]
    return [point for point in points if f"{point.rstrip('/')}/".startswith(inside)]


def of(descriptor: int) -> int:
    """The mount that an open file or folder lies in: another one below tells a bind mount too, and nobody can exchange it as he can a path.

    Raises:
        OSError: the kernel does not say.
    """
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return int(value)
    raise OSError(f"no mnt_id in /proc/self/fdinfo/{descriptor}")
