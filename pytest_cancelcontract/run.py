"""What an adapter is given to start: one run of a drill."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_cancelcontract.whole_file import write_whole


class Lacking(RuntimeError):
    """What an adapter was asked for cannot be done with this wrapper as it is; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that the recorder started for an adapter, and that it keeps (unreaped) until the drill is over.

    ``output`` is the file that takes its standard output and error.
    """

    pid: int
    start: int
    output: Path


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run to its end: its status (negative: by that signal), or None where it was ended for taking too long.

    ``output`` is the file that took its standard output and error; it is removed with the drill. ``began_s`` is when it was started,
    on the monotonic clock.
    """

    status: int | None
    output: Path
    began_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what to start, where, and for which task.

    ``id`` is unique; ``task_id`` is the same for a second run of the same task. ``argv`` is the runner's whole command line,
    ``env`` a complete environment. ``workspace`` is an offer, filled from ``source``; what counts is where the runner finds
    itself. ``source`` is a pristine git repository to build a workspace from, and is checked by hash after the drill.
    ``time_limit``, ``stall_after``, ``lease`` and ``heartbeat_timeout`` are seconds, to be handed to the platform; None where the
    terms have no value. ``provider`` is the URL of the provider that the runner spends at, which ``env`` names as
    ``CANCELCONTRACT_PROVIDER``: a wrapper with a proxy of its own puts that one's URL there.
    """

    id: str
    task_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    workspace: Path
    source: Path
    folder: Path
    time_limit: float
    stall_after: float | None = None
    lease: float | None = None
    heartbeat_timeout: float | None = None
    provider: str = ""
    _spawn: Callable[[Sequence[str], Path, Mapping[str, str], str], Spawned] | None = field(default=None, repr=False, compare=False)
    _command: Callable[[Sequence[str], Path, Mapping[str, str], float], Ran] | None = field(default=None, repr=False, compare=False)
    _status: Callable[[Spawned, float], int | None] | None = field(default=None, repr=False, compare=False)
    _disrupt: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    @property
    def executable(self) -> str:
        """The runner as one program without arguments, for wrappers that take a path and no command line."""
        return str(self._script("runner"))

    def shim(self, name: str) -> Path:
        """A folder for the front of PATH, with a program called ``name`` that is the runner whatever arguments it gets.

        Raises:
            ValueError: the name is empty or holds a slash.
        """
        if not name or "/" in name or name in {".", ".."}:
            raise ValueError(f"a shim's name must be a plain program name, got {name!r}")
        return self._script(name).parent

    def spawn(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Spawned:
        """Start a process (a wrapper, say) that is ended with the drill, whatever happens to pytest.

        It gets a session of its own, standard input from the null device, and its output in a file.

        Raises:
            OSError: it could not be started.
        """
        if self._spawn is None:
            raise RuntimeError("this run was not made by a drill, so nothing can be spawned for it")
        return self._spawn(argv, cwd or self.workspace, self.env if env is None else env, "")

    def command(
        self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, at_most_s: float = 30.0
    ) -> Ran:
        """Run a command to its end (one that submits, cancels or asks, say); it never outlives the drill, nor ``at_most_s``.

        Raises:
            OSError: it could not be started.
        """
        if self._command is None:
            raise RuntimeError("this run was not made by a drill, so no command can be run for it")
        return self._command(argv, cwd or self.workspace, self.env if env is None else env, at_most_s)

    def spawn_host(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Spawned:
        """Start the process that the adapter itself shall live in; it is no wrapper, and is told by closing its input when to leave.

        Raises:
            OSError: it could not be started.
        """
        if self._spawn is None:
            raise RuntimeError("this run was not made by a drill, so no host can be started for it")
        return self._spawn(argv, cwd, env, "host")

    def host_status(self, host: Spawned, at_most_s: float) -> int | None:
        """With which status the host has ended (negative: by that signal), if it does within ``at_most_s``; None where it lives on."""
        return None if self._status is None else self._status(host, at_most_s)

    def disrupt_wrapper(self, how: str) -> None:
        """Kill (``"kill"``) or stop (``"freeze"``) what stands between the command and the runner, or let it go on (``"thaw"``).

        Raises:
            Lacking: nothing tells which process that is, or there is nothing above it.
        """
        if self._disrupt is None:
            raise RuntimeError("this run was not made by a drill, so its wrapper is not known")
        self._disrupt(how)

    def _script(self, name: str) -> Path:
        folder = self.folder / "shim" / self.id / name  # the runs of a drill share its folder, and each has a runner of its own
        script = folder / name
        if not script.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            write_whole(script, f'#!/bin/sh\nexec {shlex.join(self.argv)} "$@"\n'.encode(), mode=0o755)
        return script
