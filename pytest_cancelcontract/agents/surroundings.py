"""Where an agent is drilled: folders of its own, its own environment with little of the user's, and what is left there."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cancelcontract.recorder import mounts
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
        """What lies around now, by place: how many files there are, the first names at its top, and the sockets, lock files and mounts."""
        places = {"home": self.home, "temporary": self.temporary, "workspace": self.workspace}
        return {name: _left(place) for name, place in places.items()}


def is_passed(name: str) -> bool:
    """Whether an agent gets this variable of the user's, though nobody asked for it."""
    return name in PASSED or name.startswith("LC_")


def _left(place: Path) -> dict[str, Any]:
    place = place.resolve()
    mounted = mounts.at_or_below(place)
    found = list(_walk(place, mounted))
    return {
        "files": sum(stat.S_ISREG(mode) for _, mode in found),
        "names": sorted({path.relative_to(place).parts[0] for path, _ in found})[:NAMES_AT_MOST],
        "sockets": [str(path.relative_to(place)) for path, mode in found if stat.S_ISSOCK(mode)][:NAMES_AT_MOST],
        "locks": [str(path.relative_to(place)) for path, mode in found if path.name.endswith((".lock", ".pid"))][:NAMES_AT_MOST],
        "mounts": mounted[:NAMES_AT_MOST],
    }


def _walk(place: Path, mounted: Collection[str]) -> Iterator[tuple[Path, int]]:
    """Everything below a folder with its mode; what vanishes meanwhile is left out, and no link and no mount is entered."""
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if str(Path(folder, name)) not in mounted]
        for name in (*folders, *files):
            path = Path(folder, name)
            try:
                yield path, path.lstat().st_mode
            except OSError:
                continue
