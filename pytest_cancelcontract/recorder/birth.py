"""When a file was made, by its file system's clock: a name and an inode number can both come back in another file."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_BTIME_AT = 80
"""Where ``stx_btime`` lies in ``struct statx``, which is the same on all machines: 256 bytes, include/uapi/linux/stat.h."""


def birth_ns(path: str) -> int | None:
    """The time of birth in nanoseconds; None where the file is gone, or its file system keeps none."""
    statx = _statx()
    buffer = ctypes.create_string_buffer(256)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer) != 0:
        return None
    mask = ctypes.c_uint32.from_buffer(buffer, 0).value
    seconds = ctypes.c_int64.from_buffer(buffer, _BTIME_AT).value
    nanoseconds = ctypes.c_uint32.from_buffer(buffer, _BTIME_AT + 8).value
    return seconds * 10**9 + nanoseconds if mask & _STATX_BTIME else None


@functools.cache
def _statx() -> Callable[..., int] | None:
    """statx(2) of the C library, which Python's own ``os`` has from 3.15 on."""
    try:
        found: Callable[..., int] = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    return found
