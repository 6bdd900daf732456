"""The sample wrappers and what each must not keep, read from ``fixtures/expected.toml``; nothing is run here."""

from __future__ import annotations

import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.scenarios import SCENARIOS, Scenario, by_id
from pytest_cancelcontract.terms import Terms, settle_terms

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
WRAPPERS = FIXTURES / "wrappers"
INTERPRETERS = {".py": sys.executable, ".sh": "bash", ".mjs": "node"}
"""What a sample is written for, by the end of its name."""
ASKED_WITH = "ask.sh"
"""Stands beside the samples, and is none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample wrapper: how it is driven, and its cells of the matrix that are not kept."""

    name: str
    file: Path
    command: str
    outcome: str | None
    example_of: str | None
    shown_in: tuple[str, ...]
    in_every: Mapping[str, str]
    cells: Mapping[str, Mapping[str, str]]
    is_a_delay: bool
    needs: tuple[str, ...]
    start: float | None
    not_in: tuple[str, ...]

    @property
    def terms(self) -> Terms:
        """What it is walked with: the table's terms, but for a ``start`` of its own, where it is waited for in vain."""
        given = _table()["terms"] | ({} if self.start is None else {"start": self.start})
        return settle_terms({name: (value, "fixtures/expected.toml") for name, value in given.items()})

    @property
    def is_kept(self) -> bool:
        """Whether it is one of those that keep everything."""
        return self.name.startswith("kept/")

    @property
    def lacks(self) -> str:
        """The interpreter, or another program that it needs, that this machine does not have; empty where it has all."""
        return next((program for program in (INTERPRETERS[self.file.suffix], *self.needs) if not shutil.which(program)), "")

    def expected(self, scenario: Scenario) -> dict[str, str]:
        """``{clause: verdict}`` of what is not kept in this scenario, and of what is there though it is not elsewhere."""
        everywhere = {clause: verdict for clause, verdict in self.in_every.items() if clause in scenario.clauses}
        return everywhere | dict(self.cells.get(scenario.id, {}))

    def scenarios(self, *, whole: bool) -> list[Scenario]:
        """The scenarios to walk: all of them, or ``polite`` and those that show what the sample is there for, where some are named."""
        if whole or (self.is_kept and not self.shown_in):
            return [row for row in WALKED if row.id not in self.not_in]
        return [by_id(name) for name in dict.fromkeys(("polite", *self.shown_in))]

    def adapter(self, records: Path) -> CommandAdapter:
        """The sample as a command line; ``records`` takes the records of those that keep one."""
        words = {"interpreter": INTERPRETERS[self.file.suffix], "sample": self.file, "records": records, "kept": WRAPPERS / "kept"}
        values = {name: shlex.quote(str(word)) for name, word in words.items()}
        outcome = None if self.outcome is None else _fill(self.outcome, values)
        return CommandAdapter(_fill(self.command, values), outcome=outcome)


WALKED: tuple[Scenario, ...] = tuple(row for row in SCENARIOS if not row.needs)
"""The others take a platform above the wrapper: they are drilled with fixtures/orchestrator, in tests/orchestrator."""


def samples() -> list[Sample]:
    """All samples, in the file's order."""
    table = _table()
    return [_sample(name, row, table["driven"]) for name, row in table["wrappers"].items()]


def files() -> dict[str, Path]:
    """Every sample that there is, by its name in the table."""
    found = [path for folder in ("kept", "broken", "group") for path in sorted((WRAPPERS / folder).glob("[a-z]*"))]
    return {f"{path.parent.name}/{path.stem}": path for path in found if path.is_file() and path.name != ASKED_WITH}


def _table() -> dict[str, Any]:
    return tomllib.loads((FIXTURES / "expected.toml").read_text())


def _sample(name: str, row: Mapping[str, Any], driven: Mapping[str, str]) -> Sample:
    keeps_record = row.get("keeps_record", False)
    return Sample(
        name,
        files()[name],
        driven["record_command" if keeps_record else "command"],
        driven["record_outcome"] if keeps_record else None,
        row.get("example_of"),
        tuple(row.get("shown_in", ())),
        row.get("in_every", {}),
        row.get("not_kept", {}),
        row.get("is_a_delay", False),
        tuple(row.get("needs", ())),
        row.get("start"),
        tuple(row.get("not_in", ())),
    )


def _fill(command: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", value)
    return command
