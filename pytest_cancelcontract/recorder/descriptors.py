"""How many files the recorder may have open: as many as the system lets it, and what it starts no more than pytest itself."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

AT_MOST = 65_536
"""Enough for thousands of clients; some systems name no limit here and then refuse to have none."""
_given = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_limit() -> None:
    """Raise this process's soft limit to its hard one, or to :data:`AT_MOST`; a system that refuses leaves it as it is."""
    soft, hard = _given
    wanted = AT_MOST if hard == resource.RLIM_INFINITY else min(hard, AT_MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        _set(wanted, hard)


@contextmanager
def as_given() -> Iterator[None]:
    """While a process is started: the limits as they were when the recorder came, for the new one inherits them.

    Where more files than that are open, the start fails, as it would had the limit never been raised.
    """
    now = resource.getrlimit(resource.RLIMIT_NOFILE)
    _set(_given[0], now[1])
    try:
        yield
    finally:
        _set(*now)


def _set(soft: int, hard: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (ValueError, OSError):
        return
