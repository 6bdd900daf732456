"""Drill ways to clean the workspace of a killed run, and write down what the next run finds after each of them.

    python benchmarks/measure_cleaning.py [--only WORD]… [--jobs N]

They are listed in fixtures/wrappers/cleaning/cleaning.toml. A git command that fails and leaves git's lock is drilled once more with
the lock removed first. What this machine cannot do is named in the result, with the reason. As root all of it happens in a mount
namespace of its own, so that nothing which is mounted is seen elsewhere, or stays.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.finding import Check
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import settle_terms

ROOT = Path(__file__).resolve().parents[1]
CLEANING = ROOT / "fixtures" / "wrappers" / "cleaning"
RESULT = ROOT / "docs" / "measured" / "cleaning.md"
TERMS: Mapping[str, float] = {"delivery": 2.0, "grace": 1.0, "kill_within": 2.0}
JOBS = 6
IN_NAMESPACE = "CANCELCONTRACT_MEASURES_IN_A_NAMESPACE"
UNLOCK = 'rm -f "$(git rev-parse --git-path index.lock)"'
PROGRAMS = ("git", "rsync", "setpriv")
"""Whose versions are told; of coreutils it is that of rm."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of cleaning.toml; ``is_unlocked`` where the lock of git is removed first."""

    name: str
    command: str
    prepare: str = ":"
    needs: tuple[str, ...] = ()
    mounts: bool = False
    is_unlocked: bool = False

    @property
    def lacks(self) -> str:
        """Why it cannot be drilled here; empty where it can."""
        if missing := [name for name in self.needs if not shutil.which(name)]:
            return f"there is no {' and no '.join(missing)} here"
        return _why_no_overlay() if self.mounts else ""

    def unlocked(self) -> Method:
        """The same with git's lock removed first."""
        return replace(self, command=f"{UNLOCK}; {self.command}", is_unlocked=True)


@dataclass(frozen=True, slots=True)
class Row:
    """A method with what was seen of it. ``found`` is None where no second run came up to look."""

    method: Method
    status: int
    words: str
    took_s: float
    planted: tuple[str, ...]
    found: tuple[str, ...] | None
    check: Check


def read_table() -> list[Method]:
    """The table's rows."""
    rows = tomllib.loads((CLEANING / "cleaning.toml").read_text())["method"]
    return [Method(**{**row, "needs": tuple(row.get("needs", ()))}) for row in rows]


def _why_no_overlay() -> str:
    if IN_NAMESPACE not in os.environ:
        return "mounting takes root and a mount namespace (unshare -m)"
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("lower", "upper", "work", "here")]
        for place in places:
            place.mkdir()
        lower, upper, work, here = places
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(here)], capture_output=True, text=True)
        if done.returncode == 0:
            subprocess.run(["umount", str(here)], check=True)
        return "" if done.returncode == 0 else f"an overlay cannot be mounted here: {done.stderr.strip()}"


# ---------------------------------------------------------------------- the drills


def measure(methods: Sequence[Method], *, jobs: int) -> list[Row]:
    """Each method, and right behind it, where it failed and git's lock is still there, the same without that lock."""
    recorder, lanes = Recorder.start(), Lanes()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:

        def drill(number: int, method: Method) -> list[Row]:
            row = _drill(recorder, lanes, method, Path(folder, str(number)))
            if row.status and "git" in method.needs and "vcs-lock" in (row.found or ()):
                return [row, _drill(recorder, lanes, method.unlocked(), Path(folder, f"{number}-unlocked"))]
            return [row]

        try:
            return [row for rows in pool.map(drill, range(len(methods)), methods) for row in rows]
        finally:
            pool.shutdown(cancel_futures=True)
            recorder.close()


def _drill(recorder: Recorder, lanes: Lanes, method: Method, folder: Path) -> Row:
    folder.mkdir()
    who = "root" if method.mounts else "user"
    words = [sys.executable, str(CLEANING / "cleans_with.py"), who, method.prepare, method.command, "--grace", "0.9"]
    command = f"{shlex.join(words)} --record {shlex.quote(str(folder))}/{{run_id}} {{workspace}} {{source}} {{runner}}"
    terms = settle_terms({name: (value, "benchmarks/measure_cleaning.py") for name, value in TERMS.items()})
    driver = Driver(CommandAdapter(command))
    try:
        history = folder / "second-run.jsonl"
        result = conduct(recorder, driver, by_id("second-run"), terms, history=history, wrapper=method.name, lanes=lanes)
    finally:
        driver.close()
    row = _row(method, result)
    print(f"{_name(row)}: {row.check.verdict}; {_in_short(row)}", flush=True)
    return row


def _in_short(row: Row) -> str:
    return "did not come up" if row.found is None else ", ".join(row.found) or "nothing found"


def _row(method: Method, result: DrillResult) -> Row:
    history = load(result.history)
    workspace = next(history.of("workspace", "opened")).data["path"]
    _let_go_of_mounts(workspace)
    told: dict[str, Any] = json.loads((Path(result.history).parent / str(history.header["run_id"])).read_text())
    words = str(told["words"]).replace(str(workspace), "WORKSPACE")
    check = next(check for check in result.checks if check.clause == "fresh-start")
    planted = tuple(item["kind"] for seen in history.of("lifeline", "planted") for item in seen.data["poison"])
    return Row(method, told["status"], words, told["took_s"], planted, _found(history), check)


def _found(history: History) -> tuple[str, ...] | None:
    """What the second run's leader has found; the first one has looked as well, and found nothing."""
    looks = [seen for seen in history.of("lifeline", "found") if seen.data.get("looked")]
    return tuple(item["kind"] for item in looks[-1].data["poison"]) if len(looks) > 1 else None


def _let_go_of_mounts(workspace: str) -> None:
    """The second run was ended by force with its wrapper, so what that one mounted is mounted still; its folder goes with the recorder."""
    while os.path.ismount(workspace):
        subprocess.run(["umount", workspace], check=True)


# ---------------------------------------------------------------------- the words


def write_result(rows: Sequence[Row], missing: Mapping[str, str], took_s: float) -> str:
    """The page: machine, the table, what the commands said, what could not be had, and how to see it again."""
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.planted))
    return f"""# What is left after cleaning a killed run's workspace

Measured on {datetime.date.today().isoformat()} by `make measure-cleaning` in {took_s:.0f} s: Linux {platform.release()}, {_versions()}.
In each row the scenario `second-run` is drilled: a run leaves something of every kind behind and is killed, the workspace is cleaned by
the command, and the same task is started again. A cross is what that second run found. A git command that failed and left git's lock
is there once more, with the lock removed first.

{_as_whom()}

{_what_stands_out(rows)}

{_table(rows, kinds)}

*status*: the command's own. *-*: nothing of that kind was there to be left; *?*: no second run came up. `fresh-start`: what the
clause says of the second run.

## What those said that failed
{_said(rows)}
{_missing_text(missing)}
## To see it again
`make measure-cleaning` drills all of them and writes this page; `python benchmarks/measure_cleaning.py --only stash` drills those with
that in their name and prints what it sees. The commands are in `fixtures/wrappers/cleaning/cleaning.toml`.
"""


def _table(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    head = ["cleaned with", "status", *kinds, "`fresh-start`"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        lines.append([_name(row), str(row.status), *(_cell(row, kind) for kind in kinds), str(row.check.verdict)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: Row, kind: str) -> str:
    if kind not in row.planted:
        return "-"
    if row.found is None:
        return "?"
    return "x" if kind in row.found else ""


def _name(row: Row) -> str:
    return f"{row.method.name}{', index.lock removed first' if row.method.is_unlocked else ''}"


def _what_stands_out(rows: Sequence[Row]) -> str:
    clean = [row for row in rows if row.found == ()]
    silent = [row for row in rows if row.found and row.status == 0 and row.method.command != ":"]
    return (
        f"Of the {len(rows)} ways, {len(clean)} left nothing, and {len(silent)} left something though they ended with status 0:\nwho only"
        " asks for the status of such a command takes the workspace for clean."
    )


def _said(rows: Iterable[Row]) -> str:
    """A line for each thing that was said, with those that said it."""
    by_words: dict[str, list[str]] = {}
    for row in rows:
        if row.status:
            by_words.setdefault(_last_words(row.words), []).append(_name(row))
    return "\n".join(f"- {f'`{said}`' if said else 'Not a word'}: {'; '.join(names)}" for said, names in by_words.items())


def _last_words(words: str) -> str:
    """The first line that speaks of a failure, or the last."""
    lines = [line.strip() for line in words.splitlines() if line.strip()] or [""]
    return next((line for line in lines if re.search(r"fatal|error|fail|denied|cannot|unable", line, re.IGNORECASE)), lines[-1])


def _missing_text(missing: Mapping[str, str]) -> str:
    lines = "\n".join(f"- {name}: {why}" for name, why in missing.items())
    return f"\n## Not here\n{lines}\n" if missing else ""


def _as_whom() -> str:
    if os.geteuid() != 0:
        return "An ordinary user runs the commands."
    if shutil.which("setpriv"):
        return "Root runs the commands, but for the overlay without its right to pass over permissions (setpriv), so as an ordinary user."
    return "Root runs the commands, whom no permission stops: an ordinary user cannot remove what is in a read-only folder."


def _versions() -> str:
    told = []
    for name in ("rm", *PROGRAMS):
        if shutil.which(name):
            done = subprocess.run([name, "--version"], capture_output=True, text=True)
            found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
            told.append(f"{name} {found.group() if found else 'of an unknown version'}")
    return ", ".join(told)


def _enter_namespace() -> None:
    """Become the same program in a mount namespace of its own, where that can be had; does not come back then."""
    if os.geteuid() == 0 and IN_NAMESPACE not in os.environ and shutil.which("unshare"):
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
        if tried.returncode == 0:
            os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], {**os.environ, IN_NAMESPACE: "1"})


def main() -> int:
    """Drill, and write the page; with ``--only`` print it instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="WORD", help="only those with this in their name; nothing is written")
    parser.add_argument("--jobs", type=int, default=JOBS, help="drills in flight at once")
    options = parser.parse_args()
    _enter_namespace()
    methods = [one for one in read_table() if not options.only or any(word in one.name for word in options.only)]
    missing = {one.name: why for one in methods if (why := one.lacks)}
    began_s = time.monotonic()
    try:
        rows = measure([one for one in methods if one.name not in missing], jobs=options.jobs)
    except DrillError as error:
        print(f"could not be drilled: {error}", file=sys.stderr)
        return 1
    page = write_result(rows, missing, time.monotonic() - began_s)
    if options.only:
        print(page)
    else:
        RESULT.write_text(page)
        print(f"written: {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
