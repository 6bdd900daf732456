"""Drill the terminators and launchers that people use, and write down which clauses each of them breaks.

    python benchmarks/measure_terminators.py [--only WORD]… [--no-install] [--jobs N]

They are listed in fixtures/wrappers/public/terminators.toml. What is missing is installed: Debian's packages on the machine (as
root), the others into the git-ignored folder .terminators. What cannot be had is named in the result, with the reason.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import DrillResult, Lanes, conduct
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.scenarios import Scenario, select
from pytest_cancelcontract.terms import Terms, settle_terms

ROOT = Path(__file__).resolve().parents[1]
WRAPPERS = ROOT / "fixtures" / "wrappers"
WORK = ROOT / ".terminators"
RESULT = ROOT / "docs" / "measured" / "terminators.md"
INSTALL_WITHIN_S = 300.0
TERMS: Mapping[str, float] = {"delivery": 2.0, "grace": 2.0, "kill_within": 2.0, "retry": 2.0}
JOBS = 12
GROUPS: Mapping[str, tuple[str, ...]] = {
    "A leader alone": (
        *(
            "polite",
            "slow-cleanup",
            "endless-cleanup",
            "deaf",
            "second-signal",
            "keeps-spending",
            "exits-zero",
            "silent",
            "chatty",
            "frozen",
            "mapped-writer",
        ),
    ),
    "What a leader starts": (
        *("slow-child", "launcher", "deaf-child", "own-group-child", "own-session-child", "daemon", "bare-daemon"),
        *("successor", "respawner", "pipe-holder"),
    ),
}
"""The scenarios in tables that a page has room for; what stands in neither is in a third."""
REST = "Another press, another run"
FAULTS: Mapping[str, str] = {
    "cancel-delivered": "not told",
    "grace-given": "no grace",
    "grace-bounded": "too long",
    "no-survivors": "survivors",
    "outcome-reported": "no report",
    "outcome-not-early": "early",
    "no-late-writes": "writes on",
    "fresh-start": "leftovers",
    "no-overlap": "overlap",
    "stays-ended": "again",
    "cancel-idempotent": "twice",
    "cancel-any-time": "any time",
    "bystander-unharmed": "bystander",
    "spend-stops": "spends on",
    "requests-closed": "requests",
}
"""A word for each MUST clause, so that a cell stays short; the result explains them."""


@dataclass(frozen=True, slots=True)
class Terminator:
    """One row of terminators.toml."""

    name: str
    command: str
    version: str
    needs: Mapping[str, Any] = field(default_factory=dict)
    grace: float | None = None
    cancel: str = "SIGTERM"

    def terms(self) -> Terms:
        """The common terms; a grace of its own that cannot be set is what is promised."""
        given = dict(TERMS) if self.grace is None else {**TERMS, "grace": self.grace}
        return settle_terms({name: (value, "benchmarks/measure_terminators.py") for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Row:
    """A terminator with what was seen of it: a result a scenario, or why there is none."""

    terminator: Terminator
    version: str
    cells: Mapping[str, DrillResult | str]


def read_table() -> list[Terminator]:
    """Our own two samples that keep the contract, to compare with, and then the table's rows."""
    kept = [
        Terminator(
            f"sample: kept/{name}.py",
            f"{{python}} {WRAPPERS / 'kept' / name}.py --grace 1.9 {{workspace}} {{source}} {{runner}}",
            "{python} --version",
        )
        for name in ("subreaper", "guard")
    ]
    rows = tomllib.loads((WRAPPERS / "public" / "terminators.toml").read_text())["terminator"]
    return kept + [Terminator(**row) for row in rows]


# ---------------------------------------------------------------------- what it takes to run them


def install(terminators: Iterable[Terminator]) -> dict[str, str]:
    """Get what is missing; ``{terminator's name: why it cannot be had}``."""
    WORK.mkdir(exist_ok=True)
    shutil.copytree(WRAPPERS / "public", WORK, dirs_exist_ok=True)
    if not (WORK / "venv").exists():
        subprocess.run([sys.executable, "-m", "venv", str(WORK / "venv")], check=True)
    missing = {}
    for one in terminators:
        if why := next(filter(None, (_install_one(kind, names, one.needs) for kind, names in one.needs.items())), None):
            missing[one.name] = why
            print(f"  {one.name}: {why}", flush=True)
    return missing


def _install_one(kind: str, names: Any, needs: Mapping[str, Any]) -> str | None:
    if kind == "pypi":
        return _try([str(WORK / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *names])
    if kind == "npm":
        if all((WORK / "node_modules" / name).exists() for name in names):
            return None
        return _try(["npm", "install", "--prefix", str(WORK), "--no-save", "--no-audit", "--no-fund", "--silent", *names])
    if kind == "debian" and shutil.which(needs["program"]) is None:
        if os.geteuid() != 0:
            return f"{needs['program']} is not installed, and installing {' '.join(names)} takes root"
        return _try(["apt-get", "update", "-q"]) or _try(["apt-get", "install", "-q", "-y", "--no-install-recommends", *names])
    return None


def _try(command: Sequence[str]) -> str | None:
    print(f"  {shlex.join(command[-3:])}", flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"could not be installed: {error}"
    return f"could not be installed: {Path(command[0]).name} ended with status {done.returncode}" if done.returncode else None


def fill(command: str) -> str:
    """Put our own two words in; the others are the adapter's."""
    values = {"python": shlex.quote(str(WORK / "venv/bin/python")), "work": shlex.quote(str(WORK))}
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", value)
    return command


def version_of(one: Terminator) -> str:
    """The first number with a dot in it that its version command prints."""
    try:
        done = subprocess.run(shlex.split(fill(one.version)), capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found.group() if found else "unknown"


# ---------------------------------------------------------------------- the drills


def measure(terminators: Sequence[Terminator], scenarios: Sequence[Scenario], missing: Mapping[str, str], *, jobs: int) -> list[Row]:
    """Every scenario over every terminator, ``jobs`` at once."""
    recorder, lanes = Recorder.start(), Lanes()

    def drill(one: Terminator, scenario: Scenario, folder: Path) -> DrillResult | str:
        driver = Driver(CommandAdapter(fill(one.command), cancel_with=one.cancel))
        folder.mkdir(parents=True)
        try:
            history = folder / f"{scenario.id}.jsonl"
            return conduct(recorder, driver, scenario, one.terms(), history=history, wrapper=one.name, lanes=lanes)
        except DrillError as error:
            print(f"{one.name} over {scenario.id}: {error}", flush=True)
            return "not run"
        finally:
            driver.close()

    with tempfile.TemporaryDirectory() as histories, ThreadPoolExecutor(jobs) as pool:
        try:
            wanted = {
                (one.name, scenario.id): pool.submit(drill, one, scenario, Path(histories, str(number), scenario.id))
                for number, one in enumerate(terminators)
                if one.name not in missing
                for scenario in scenarios
            }
            rows = []
            for one in terminators:
                cells = {scenario.id: wanted[one.name, scenario.id].result() for scenario in scenarios} if one.name not in missing else {}
                rows.append(Row(one, version_of(one) if cells else "", cells))
                print(f"{one.name}: {missing.get(one.name) or _in_short(cells)}", flush=True)
            return rows
        finally:
            pool.shutdown(cancel_futures=True)
            recorder.close()


def _in_short(cells: Mapping[str, DrillResult | str]) -> str:
    return "; ".join(f"{id} {words}" for id, cell in cells.items() if (words := cell_text(cell)) != "kept") or "all kept"


# ---------------------------------------------------------------------- the words


def cell_text(cell: DrillResult | str) -> str:
    """``kept``, or a word for each MUST clause that is not."""
    if isinstance(cell, str):
        return cell
    checks = [check for check in cell.checks if check.level is Level.MUST]
    broken = [FAULTS.get(check.clause, check.clause) for check in checks if check.verdict is Verdict.BROKEN]
    unclear = [f"{FAULTS.get(check.clause, check.clause)}?" for check in checks if check.verdict is Verdict.INCONCLUSIVE]
    return ", ".join(broken + unclear) or "kept"


def time_text(cell: DrillResult | str) -> str:
    """Seconds from the press until nothing was left."""
    if isinstance(cell, str):
        return cell
    gone_s = cell.measured.get("cancel_to_gone_s")
    if gone_s is not None:
        return f"{gone_s:.2f}"
    return "never" if cell.measured.get("survivors") else "not known"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_result(rows: Sequence[Row], scenarios: Sequence[Scenario], missing: Mapping[str, str], *, jobs: int) -> str:
    """The page: machine, terms, the tables, what is missing, and how to see it again."""
    seen = [row for row in rows if row.cells]
    groups = _grouped([scenario.id for scenario in scenarios])
    versions = table(["terminator", "version"], ([f"{row.terminator.name}{_grace_note(row)}", row.version] for row in seen))
    verdicts = "\n\n".join(f"### {title}\n{_cells(seen, ids, cell_text)}" for title, ids in groups.items())
    times = "\n\n".join(f"### {title}\n{_cells(seen, ids, time_text)}" for title, ids in groups.items())
    terms = ", ".join(f"{name} {value:g} s" for name, value in TERMS.items())
    words = "; ".join(f"*{word}*: `{clause}`" for clause, word in FAULTS.items())
    absent = "\n".join(f"- {name}: {why}" for name, why in missing.items())
    return f"""# What common terminators and launchers leave behind

Measured on {datetime.date.today().isoformat()} by `make measure-terminators`: Linux {platform.release()}, {os.cpu_count()} cores,
Python {platform.python_version()}. Terms: {terms}, the others as by default. Each one has a runner under it in every
scenario, and is cancelled by SIGTERM to it unless its name says otherwise, {jobs} drills at once. The first rows are two of this
repository's samples that keep the contract.

{_what_stands_out(seen)}

{versions}

## Which MUST clauses are broken
{verdicts}

A word stands for a clause: {words}. With a question mark it is inconclusive: nothing proves either. A SHOULD is not shown.

None of them is made to mend a workspace, so *leftovers* in `second-run` says less of them than of what is built on them: whoever
kills a run has to rebuild its workspace. `bash -c` with one command becomes the command itself: then there is no wrapper left that
could go wrong, and nobody to use force. A wrapper that sits in `Popen.communicate()` does not act on a signal that comes between two
reads, so the cells of that row differ from one measurement to the next (`python -m benchmarks lost_signal`).

## From cancel until nothing was left, in seconds
{times}

*never*: something was alive when the drill ended it, after the deadline; *not known*: nothing proves when the last process died, or
nothing was left to be cancelled.
{_missing_text(absent)}
## To see it again
`make measure-terminators` installs what is missing, drills all of them and writes this page;
`python benchmarks/measure_terminators.py --only tini` drills one and prints what it sees. A single one by hand:
`cancelcontract run --grace 2 -- tini -s -g -- {{runner}}`. The wrappers, a few lines each, are in `fixtures/wrappers/public`, and
`terminators.toml` there lists them.
"""


def _grouped(ids: Sequence[str]) -> dict[str, list[str]]:
    """The scenarios by table, in the catalogue's order within each."""
    named = {id: title for title, group in GROUPS.items() for id in group}
    return {title: [id for id in ids if named.get(id, REST) == title] for title in (*GROUPS, REST)}


def _cells(rows: Sequence[Row], ids: Sequence[str], text: Callable[[DrillResult | str], str]) -> str:
    return table(["terminator", *ids], ([row.terminator.name, *(text(row.cells[id]) for id in ids)] for row in rows))


def _what_stands_out(rows: Sequence[Row]) -> str:
    """How many leave something alive, where."""
    measured = [row for row in rows if not row.terminator.name.startswith("sample:")]
    counts = [
        f"{sum(_leaves_survivors(row.cells.get(id)) for row in measured)} in `{id}`"
        for id in ("polite", "frozen", "launcher", "deaf", "deaf-child", "own-session-child", "bare-daemon", "successor", "respawner")
    ]
    return f"Of the {len(measured)} that were drilled, so many left a process alive beyond the deadline: {', '.join(counts)}."


def _leaves_survivors(cell: DrillResult | str | None) -> bool:
    checks = cell.checks if isinstance(cell, DrillResult) else ()
    return any(check.clause == "no-survivors" and check.verdict is Verdict.BROKEN for check in checks)


def _grace_note(row: Row) -> str:
    return f" (grace {row.terminator.grace:g} s)" if row.terminator.grace else ""


def _missing_text(absent: str) -> str:
    return f"\n## What could not be had\n{absent}\n" if absent else ""


def main() -> int:
    """Install, drill, and write the page; with ``--only`` print it instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="WORD", help="only those with this in their name; nothing is written")
    parser.add_argument("--no-install", action="store_true", help="drill with what is there")
    parser.add_argument("--jobs", type=int, default=JOBS, help="drills in flight at once")
    options = parser.parse_args()
    terminators = [one for one in read_table() if not options.only or any(word in one.name for word in options.only)]
    # What takes a platform above the wrapper is nothing that a terminator could show.
    scenarios = tuple(row for row in select("all") if not row.needs)
    missing = {} if options.no_install else install(terminators)
    rows = measure(terminators, scenarios, missing, jobs=options.jobs)
    if not options.only:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(write_result(rows, scenarios, missing, jobs=options.jobs))
        print(f"written: {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
