"""Words for GitHub Actions: annotations beside the lines of a change, and the summary of a step. Pure: data in, text out.

An annotation is a workflow command on a line of its own. The summary is GitHub's Markdown; what comes from tests and wrappers can end no
cell, no block and no line of either.

Source: docs.github.com, "Workflow commands for GitHub Actions" (errors, job summaries), and the Markdown specification's backslash escapes.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.report.text import Row, cells, has_several_tests, plain, remarks, short_name

MOST_SUMMARY_BYTES = 1_000_000
"""What a step may write into its summary in all: with more than 1 MiB, GitHub shows nothing of it."""
_MOST_CHARACTERS = 8_000
"""Of one annotation's words, and of one drill's in the summary."""
_MEASURES = ("delivered", "gone", "reported", "late writes", "late tokens", "survivors")


@dataclass(frozen=True, slots=True)
class Annotation:
    """An error to be shown at a line of a file; ``path`` is relative to the repository, and ``""`` where it has no such place."""

    title: str
    words: str
    path: str = ""
    line: int = 0

    def __str__(self) -> str:
        """The command, on one line."""
        place = {"file": plain(self.path), "line": str(self.line)} if self.path else {}
        properties = ",".join(f"{name}={_property(value)}" for name, value in {**place, "title": plain(self.title)}.items())
        return f"::error {properties}::{_data(_clipped(plain(self.words)))}"


def annotation_of(message: str, test: str, *, path: str = "", line: int = 0) -> Annotation:
    """The annotation of a failing test.

    Args:
        message: of its failure, without the timeline. The first line of a failure message is the title; any other is told beside the test.
        test: what it is called.
    """
    first, _, rest = message.partition("\n")
    if not first.startswith("cancel contract "):
        return Annotation(f"cancel contract not judged: {test}", message, path, line)
    others = [one for one in rest.splitlines() if one.startswith("cancel contract ")]
    title = f"{first} (and {len(others)} more)" if others else first
    return Annotation(title, rest or first, path, line)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _clipped(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


# ---------------------------------------------------------------------- the summary of a step


def step_summary(drills: Sequence[tuple[Row, str]], why_red: Sequence[str], *, most_bytes: int = MOST_SUMMARY_BYTES) -> str:
    """The run in Markdown: a matrix, what fails the run beside its tests, and the words of each check that is not kept.

    Args:
        drills: each with the words of what is not kept in it, ``""`` if nothing.
        why_red: a line each.
        most_bytes: words that do not fit are left out, and that is said.
    """
    rows = [row for row, _ in drills]
    parts = [f"### Cancel contract: {_headline(rows)}"]
    if rows:
        parts.append("\n".join(_matrix(rows)))
    for title, lines in (("What fails the run", why_red), ("", remarks(rows))):
        parts += [f"**{title}**"] if title and lines else []
        parts += ["\n".join(f"- {escaped(line)}" for line in lines)] if lines else []
    head = "\n\n".join(parts) + "\n"
    return head + _words([(row, words) for row, words in drills if words], most_bytes - len(head.encode()))


def escaped(text: str) -> str:
    """The text as Markdown that shows it as it is, on one line."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(plain(text).split()))


def _headline(rows: Sequence[Row]) -> str:
    counts = Counter(_standing(row) for row in rows)
    of = f"{len(rows)} drill{'' if len(rows) == 1 else 's'}"
    return f"{of}: {', '.join(f'{count} {standing}' for standing, count in counts.most_common())}" if rows else "no drill was run"


def _standing(row: Row) -> str:
    if "error" in row:
        return "could not be run"
    broken = [check for check in row.get("checks", ()) if check["verdict"] == Verdict.BROKEN]
    if broken and all(check["clause"] in row.get("expected", {}) for check in broken) and row["verdict"] == Verdict.BROKEN:
        return "broken as expected"
    return str(row["verdict"])


def _matrix(rows: Sequence[Row]) -> list[str]:
    """A line a drill, and a column for each clause that is not kept somewhere: the others would say the same in every line."""
    checks = [check for row in rows for check in row.get("checks", ())]
    clauses = list(dict.fromkeys(str(check["clause"]) for check in checks if check["verdict"] != Verdict.KEPT))
    has_tests = has_several_tests(rows)
    header = [*(["test"] if has_tests else []), "scenario", "verdict", *clauses, *_MEASURES]
    lines = [header, ["---"] * len(header)]
    for row in rows:
        by_clause = {check["clause"]: _cell(check, row.get("expected", {})) for check in row.get("checks", ())}
        shown, names = cells(row), [short_name(row)] if has_tests else []
        plain_cells = [*names, str(row["scenario"]), _standing(row)]
        measured = [shown[name] for name in _MEASURES]
        lines.append([*map(escaped, plain_cells), *(by_clause.get(clause, "") for clause in clauses), *map(escaped, measured)])
    kept = list(dict.fromkeys(str(check["clause"]) for check in checks if check["clause"] not in clauses))
    table = [f"| {' | '.join(line)} |" for line in lines]
    return [*table, "", f"Kept wherever judged: {', '.join(map(escaped, kept))}"] if kept else table


def _cell(check: Mapping[str, Any], expected: Mapping[str, str]) -> str:
    verdict = str(check["verdict"])
    if verdict == Verdict.KEPT:
        return verdict
    if verdict == Verdict.BROKEN and check["clause"] in expected:
        return "broken as expected"
    return f"**{verdict}**{' (SHOULD)' if check['level'] == Level.SHOULD else ''}"


def _words(drills: Iterable[tuple[Row, str]], most_bytes: int) -> str:
    """The words of each drill, folded up but for the first."""
    text, size, left_out = "", 0, 0
    for row, words in drills:
        title = html.escape(" ".join(plain(f"{row['scenario']} {short_name(row)}").split()))
        block = f"\n<details{'' if text else ' open'}><summary>{title}</summary>\n\n{_fenced(_clipped(plain(words)))}\n\n</details>\n"
        if size + len(block.encode()) > most_bytes - 200:
            left_out += 1
            continue
        text, size = text + block, size + len(block.encode())
    return text if not left_out else f"{text}\nThe words of {left_out} more are left out here; they are in the step's log.\n"


def _fenced(text: str) -> str:
    """A block of code whose fence is longer than any that the text could close it with."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"
