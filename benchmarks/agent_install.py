"""Real agents from npm, in a folder of their own that is kept from one run to the next."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from pytest_cancelcontract.agents.profiles import Agent

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-cancelcontract" / "agents"
INSTALL_WITHIN_S = 300.0


class NotInstalled(RuntimeError):
    """It cannot be had here; the message says why."""


def install(packages: Sequence[str], into: Path = CACHE, *, within_s: float = INSTALL_WITHIN_S) -> Path:
    """Have npm install these (``name`` or ``name@version``) and return the folder of their programs; what is there is not asked for again.

    Raises:
        NotInstalled: there is no npm, no network, or no time.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    into.mkdir(parents=True, exist_ok=True)
    with FileLock(into / ".lock"):
        missing = [one for one in packages if not _is_there(into, one)]
        if missing:
            # Silent, or what it asks about the packages' scripts and its own next version would be on the screen.
            command = [npm, "install", "--prefix", str(into), "--no-audit", "--no-fund", "--silent", *missing]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=within_s, stdin=subprocess.DEVNULL)
            except subprocess.CalledProcessError as error:
                raise NotInstalled(f"npm ended with status {error.returncode}: {error.stderr.strip()[-500:]}") from None
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NotInstalled(f"npm could not install {', '.join(missing)}: {error}") from None
    return into / "node_modules" / ".bin"


def _is_there(into: Path, package: str) -> bool:
    name, _, version = package.rpartition("@") if "@" in package[1:] else (package, "", "")
    manifest = into / "node_modules" / name / "package.json"
    return manifest.exists() and (not version or f'"version": "{version}"' in manifest.read_text())


def environment(programs: Path) -> dict[str, str]:
    """This process's environment with that folder at the front of PATH."""
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def version_of(agent: Agent, programs: Path) -> str:
    """The first number with a dot in it that it prints for ``--version``."""
    command = [str(programs / agent.command.words[0]), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found.group() if found else "unknown"
