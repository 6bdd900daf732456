"""A runner for wrappers that are up before any drill: a program on PATH which becomes the runner of the drill that is now in flight.

A worker that was started for the whole session cannot be handed a run's command line. It gets this folder at its start; the
program there looks, each time it is called, which drill is in flight.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pytest_cancelcontract.whole_file import write_whole

_SCRIPT = """\
#!/bin/sh
# Becomes the runner of the drill that is in flight; refuses where that is not exactly one.
name={name}
found=
for one in {runs}/*.run; do
    [ -e "$one" ] || continue
    if [ -n "$found" ]; then
        echo "cancelcontract: several drills are in flight, so which one this $name is for cannot be told; use --cancel-jobs 1" >&2
        exit 70
    fi
    found=$one
done
if [ -z "$found" ]; then
    echo "cancelcontract: no drill is in flight, so this $name has nothing to run" >&2
    exit 70
fi
. "$found"
"""


class RunnerPath:
    """What the fixture ``cancel_runner_path`` gives.

    Example::

        @pytest.fixture(scope="session")
        def worker(cancel_runner_path):
            path = f"{cancel_runner_path.shim('claude')}:{os.environ['PATH']}"
            with subprocess.Popen(["my-worker"], env={**os.environ, "PATH": path}) as worker:
                yield worker
                worker.terminate()
    """

    def __init__(self, folder: Path) -> None:
        """Begin in a folder that is not there yet; whoever removes its parent (the recorder, at its end) removes it too."""
        self._folder = folder
        self._runs = folder / "runs"
        # Another user's worker must be able to read what is here, whatever the umask says.
        for place in (folder, self._runs):
            place.mkdir()
            place.chmod(0o755)

    def shim(self, name: str) -> Path:
        """A folder for the front of PATH, with a program called ``name`` in it that takes any arguments.

        Raises:
            ValueError: the name is empty or holds a slash.
        """
        if not name or "/" in name or name in {".", ".."}:
            raise ValueError(f"a shim's name must be a plain program name, got {name!r}")
        folder = self._folder / "shim" / name
        for place in (folder.parent, folder):
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
        write_whole(folder / name, _SCRIPT.format(runs=shlex.quote(str(self._runs)), name=shlex.quote(name)).encode(), mode=0o755)
        return folder

    def announce(self, key: str, argv: Sequence[str]) -> None:
        """A drill is in flight: from now on the program becomes this command line."""
        write_whole(self._runs / f"{key}.run", f'exec {shlex.join(argv)} "$@"\n'.encode(), mode=0o644)

    def withdraw(self, key: str) -> None:
        """The drill is over."""
        (self._runs / f"{key}.run").unlink(missing_ok=True)
