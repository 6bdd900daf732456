"""Where an agent is drilled: folders of its own, its own environment with little of the user's, and what is left there."""

from __future__ import annotations

import itertools
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cancelcontract.recorder import folders, mounts
from uncooperative_runner.spend import PROVIDER

PASSED = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "SHELL", "USER", "LOGNAME"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS", "NO_COLOR", "CI"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", PROVIDER),
    }
)
"""What a program needs to run, beside ``LC_…``: all that an agent gets of the user's variables. A secret may have any name."""
NAMES_AT_MOST = 20
LOOKED_AT_MOST = 50_000
"""How many files and folders are looked at in one place: a count that ends is told sooner than one of a whole cache."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The folders of one drill: the agent's home, its temporary files, its workspace."""

    home: Path
    temporary: Path
    workspace: Path

    @classmethod
    def make(cls, folder: Path, workspace: Path, files: Mapping[str, str]) -> Surroundings:
        """Make them in a drill's folder; ``files`` go below the home, by relative path."""
        made = cls(folder / "agent" / "home", folder / "agent" / "tmp", workspace)
        made.temporary.mkdir(parents=True)
        made.home.mkdir()
        for name, text in files.items():
            path = made.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return made

    def environment(self, given: Mapping[str, str], own: Mapping[str, str], asked_for: Collection[str] = ()) -> dict[str, str]:
        """What the agent gets: of the given variables what it needs to run and what is asked for, then ``own``, then these folders."""
        kept = {name: value for name, value in given.items() if is_passed(name) or name in asked_for}
        places = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "PWD": str(self.workspace)}
        loopback = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        return {**kept, "CI": "1", **loopback, **own, **places}

    def left(self) -> dict[str, Any]:
        """What lies around now, by place: how many files there are, the first names at its top, and the sockets, lock files and mounts.

        A place that has become a link has none of them, and where it leads as ``link``; where the look was cut short, ``more`` is true.
        """
        places = {"home": self.home, "temporary": self.temporary, "workspace": self.workspace}
        return {name: _left(place) for name, place in places.items()}


def is_passed(name: str) -> bool:
    """Whether an agent gets this variable of the user's, though nobody asked for it."""
    return name in PASSED or name.startswith("LC_")


def _left(place: Path) -> dict[str, Any]:
    if link := _link_at(place):
        return {"files": 0, "names": [], "sockets": [], "locks": [], "mounts": [], "link": link}
    place = place.resolve()
    mounted = mounts.at_or_below(place)
    found = list(itertools.islice(_walk(place, mounted), LOOKED_AT_MOST + 1))
    more = {"more": True} if len(found) > LOOKED_AT_MOST else {}
    return {
        "files": sum(stat.S_ISREG(mode) for _, mode in found),
        "names": sorted({path.relative_to(place).parts[0] for path, _ in found})[:NAMES_AT_MOST],
        "sockets": [str(path.relative_to(place)) for path, mode in found if stat.S_ISSOCK(mode)][:NAMES_AT_MOST],
        "locks": [str(path.relative_to(place)) for path, mode in found if path.name.endswith((".lock", ".pid"))][:NAMES_AT_MOST],
        "mounts": mounted[:NAMES_AT_MOST],
        **more,
    }


def _link_at(place: Path) -> str:
    """The link that a place of the drill has become, or a folder above that was made for the drill; those further above are the user's."""
    for one in (place, *place.parents[:2]):
        try:
            return f"{one} -> {one.readlink()}"
        except OSError:
            continue
    return ""


def _walk(place: Path, mounted: Collection[str]) -> Iterator[tuple[Path, int]]:
    """Everything below a folder with its mode; what vanishes meanwhile is left out, and no link and no mount is entered."""
    for entry in folders.walk(place, but=mounted):
        try:
            yield Path(entry.path), entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
