"""The baseline: what is known to be broken or not covered, and accepted for a while. Pure: text and rows in, text and words out.

The file is TOML, with a table for each entry::

    [[broken]]                                  # or [[not-covered]], a waiver
    check = "deaf-child:no-survivors"
    test = "test_cancel.py::test_worker"        # left out: in every test
    reason = "the child has a group of its own, TEAM-12"
    expires = 2027-01-31                        # the last day on which it holds

``tomllib`` reads it. It is written by lines and not by a library: the number of an entry's line, which every message names, has to be found
in the text anyway; and of the two changes there are, one appends and the other cuts the lines of an entry out, with the comment right above
it. What is cut is read again and compared, so that a file that this cannot handle is left alone.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

from pytest_cancelcontract.check_ids import may_be_judged
from pytest_cancelcontract.contract import CLAUSES
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.report.names import portable
from pytest_cancelcontract.report.text import plain
from pytest_cancelcontract.scenarios import SCENARIOS, UnknownScenario, by_id

HOLDS_FOR = timedelta(days=30)
"""How long what an update writes holds, unless a person decides otherwise."""
NO_REASON = "has no reason: a person must write why it is accepted, and a link helps"
_KEYS = ("check", "test", "reason", "expires")
_HEAD = """\
# Faults of the cancel contract that are known, and accepted for a while. Each takes a reason, which a person writes, and the last day on
# which it holds. An entry that is broken no more, has expired or names nothing fails the run.
"""
_HEADING = re.compile(r"[ \t]*\[\[[ \t]*[\"']?(broken|not-covered)[\"']?[ \t]*\]\]")


class BadBaseline(ValueError):
    """The file is refused; each line of the message begins with the file's name and, where there is one, the entry's line."""


class Kind(StrEnum):
    """What an entry accepts; the value is the name of its table."""

    BROKEN = "broken"
    NOT_COVERED = "not-covered"

    @property
    def words(self) -> str:
        """As in a sentence."""
        return self.value.replace("-", " ")


@dataclass(frozen=True, slots=True)
class Fault:
    """One cell that fails a test: ``check`` is ``scenario:clause``, ``test`` a portable name (``""``: that of every test)."""

    kind: Kind
    check: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the file; ``line`` is that of its heading, counted from 1."""

    fault: Fault
    reason: str
    expires: date
    line: int

    @property
    def scenario(self) -> str:
        """The id in front of the colon."""
        return self.fault.check.partition(":")[0]

    @property
    def clause(self) -> str:
        """The id behind the colon."""
        return self.fault.check.partition(":")[2]

    def is_about(self, test: str) -> bool:
        """Whether it holds for a test of that portable name."""
        return self.fault.test in {"", test}

    def covers(self, fault: Fault) -> bool:
        """Whether it says that this fault is known."""
        return (self.fault.kind, self.fault.check) == (fault.kind, fault.check) and self.is_about(fault.test)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file's entries in its order; ``name`` is what messages call it."""

    name: str
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why an entry fails the run; ``line`` is the entry's, and ``is_void`` says that an update takes it out."""

    name: str
    line: int
    text: str
    is_void: bool

    def __str__(self) -> str:
        return f"{self.name}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the baseline accepts in one test, as ``scenario:clause`` and the words that say why."""

    broken: Mapping[str, str] = field(default_factory=dict)
    not_covered: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was collected, whether or not it was run: drills as (portable name of the test, scenario), and files that were read whole."""

    drills: frozenset[tuple[str, str]] = frozenset()
    files: frozenset[str] = frozenset()


# ---------------------------------------------------------------------- reading


def parse(text: str, name: str, *, for_update: bool = False) -> Baseline:
    """Read the file's text.

    Args:
        name: what messages call the file.
        for_update: reasons may be missing, and an entry may name what does not exist.
    Raises:
        BadBaseline: it is no TOML, or an entry is refused; all that are, a line each.
    """
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadBaseline(f"{name} is no TOML: {error}") from None
    if unknown := [key for key in read if key not in set(Kind)]:
        raise BadBaseline(f"{name} has {unknown[0]!r}; a baseline has nothing but tables [[broken]] and [[not-covered]]")
    found: list[Entry] = []
    problems: list[str] = []
    for kind in Kind:
        rows, lines = read.get(kind, []), _heading_lines(text, kind)
        if not isinstance(rows, list) or len(rows) != len(lines):
            raise BadBaseline(f"{name}: write each entry as a table of its own, below a line [[{kind}]]")
        for row, line in zip(rows, lines, strict=True):
            problem = _why_refused(row, for_update)
            if problem:
                problems.append(f"{name}:{line}: {problem}")
            else:
                fault = Fault(kind, row["check"], row.get("test", ""))
                found.append(Entry(fault, str(row.get("reason", "")).strip(), row["expires"], line))
    found.sort(key=lambda entry: entry.line)
    problems += _twice(found, name)
    if problems:
        raise BadBaseline("\n".join(problems))
    return Baseline(name, tuple(found))


def _heading_lines(text: str, kind: Kind) -> list[int]:
    """The lines at which the tables of a kind begin: those that look like it, unless they stand inside of a text of several lines."""
    lines = text.splitlines(keepends=True)
    found = []
    for number, line in enumerate(lines, 1):
        heading = _HEADING.match(line)
        if heading and heading[1] == kind and _is_toml("".join(lines[:number])):
            found.append(number)
    return found


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _why_refused(row: Mapping[str, Any], for_update: bool) -> str:
    if unknown := [key for key in row if key not in _KEYS]:
        return f"{unknown[0]!r} is no key of an entry; the keys are {', '.join(_KEYS)}"
    check, test, reason, expires = (row.get(key) for key in _KEYS)
    if not isinstance(check, str) or check.count(":") != 1:
        return f"check must be like 'deaf-child:no-survivors', got {check!r}"
    if test is not None and (not isinstance(test, str) or "::" not in test):
        return f"{check}: test must be like 'test_x.py::test_cancel', without the scenario, got {test!r}"
    if not isinstance(expires, date) or isinstance(expires, datetime):
        return f"{check}: expires must be a day, such as 2027-01-31 (without quotes), got {str(expires)!r}"
    if reason is not None and not isinstance(reason, str):
        return f"{check}: reason must be a text, got {reason!r}"
    if for_update:
        return ""
    return _why_nothing(check) or ("" if reason and reason.strip() else f"{check} {NO_REASON}")


def _why_nothing(check: str) -> str:
    """Why there is no such check at all; ``""`` where there is."""
    scenario_id, _, clause_id = check.partition(":")
    try:
        known = may_be_judged(by_id(scenario_id))
    except UnknownScenario as error:
        return f"{check} names nothing: {error}"
    return "" if clause_id in known else f"{check} names nothing: the scenario {scenario_id} is judged by {', '.join(known)}"


def _twice(entries: Iterable[Entry], name: str) -> list[str]:
    first: dict[Fault, int] = {}
    problems = []
    for entry in entries:
        before = first.setdefault(entry.fault, entry.line)
        if before != entry.line:
            problems.append(f"{name}:{entry.line}: {entry.fault.check} has an entry already, in line {before}")
    return problems


# ---------------------------------------------------------------------- applying


def accepted(baseline: Baseline, test: str, today: date) -> Accepted:
    """What is accepted in a test of that portable name: entries with a reason that have not expired."""
    words: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
    for entry in baseline.entries:
        if entry.is_about(test) and entry.reason and today <= entry.expires:
            where = f"{baseline.name}:{entry.line}"
            words[entry.fault.kind].setdefault(entry.fault.check, f"{entry.reason} ({where}, until {entry.expires})")
    return Accepted(words[Kind.BROKEN], words[Kind.NOT_COVERED])


def complaints(baseline: Baseline, rows: Sequence[Mapping[str, Any]], *, seen: Seen, today: date) -> list[Complaint]:
    """The entries that fail the run: those that no longer fail, have expired, or name nothing, by line.

    An entry of which no drill was run is only looked at for its day and its names.

    Args:
        rows: the drills of the whole run, as they cross from worker to controller. One whose test presses the buttons itself (``asserted``)
            is judged by the test's own asserts, and is left out.
    """
    drills = [row for row in rows if not row.get("asserted")]
    found = []
    for entry in baseline.entries:
        text, is_void = _why_void(entry, drills, seen), True
        if not text and today > entry.expires:
            text, is_void = f"expired on {entry.expires}: mend it, or write why it is accepted still, and until when", False
        if text:
            found.append(Complaint(baseline.name, entry.line, f"{entry.fault.check} {text}", is_void))
    return found


def _why_void(entry: Entry, drills: Iterable[Mapping[str, Any]], seen: Seen) -> str:
    if nothing := _why_nothing(entry.fault.check):
        return nothing.removeprefix(entry.fault.check).lstrip()
    test = entry.fault.test
    if test and test.partition("::")[0] in seen.files and all(test != collected for collected, _ in seen.drills):
        return f"names nothing: {test} is no test of the cancel contract"
    return _why_no_longer(entry, drills, seen)


def _why_no_longer(entry: Entry, drills: Iterable[Mapping[str, Any]], seen: Seen) -> str:
    """Why its fault is one no more, by the drills that were run; ``""`` where it still is, and where nothing can be said.

    An entry for every test is about drills that may have been left out of this run, and says nothing until all of them are in it.
    """
    told = [
        (portable(row.get("test")), _verdict_in(row, entry.clause))
        for row in drills
        if row["scenario"] == entry.scenario and entry.is_about(portable(row.get("test")))
    ]
    left_out = {test for test, scenario in seen.drills if scenario == entry.scenario and entry.is_about(test)} - {test for test, _ in told}
    verdicts = {verdict for _, verdict in told if verdict is not None}
    if left_out or not verdicts or verdicts & _STILL[entry.fault.kind]:
        return ""
    return f"is {entry.fault.kind.words} no more, it is {' and '.join(sorted(verdicts))}: take the entry out"


_NOT_RUN = "not run"
_STILL: dict[Kind, frozenset[str]] = {
    Kind.BROKEN: frozenset({Verdict.BROKEN, Verdict.INCONCLUSIVE, _NOT_RUN}),
    Kind.NOT_COVERED: frozenset({Verdict.NOT_COVERED, _NOT_RUN}),
}
"""The verdicts by which an entry is not void: its fault is there, or may be."""


def _verdict_in(row: Mapping[str, Any], clause: str) -> str | None:
    """What a drill says of a clause; None where its test asked for other clauses."""
    if "error" in row:
        return _NOT_RUN
    for part in ("checks", "not_covered", "not_applicable"):
        for check in row.get(part, ()):
            if check["clause"] == clause:
                return str(check["verdict"])
    chosen = row.get("chosen")
    # A clause that joins only where a drill shows it was not shown.
    return None if chosen is not None and clause not in chosen else "not judged"


# ---------------------------------------------------------------------- updating


def updated(text: str, baseline: Baseline, found: Collection[Fault], void: Collection[Complaint], *, today: date) -> str:
    """The file's text with entries for the faults that it does not know yet, without reasons, and without the void ones.

    Args:
        text: as it is now, ``""`` for a file that is to be made; ``baseline`` is what was read from it.
    Raises:
        BadBaseline: the entries cannot be taken out of this text line by line.
    """
    void_lines = {one.line for one in void}
    kept = [entry for entry in baseline.entries if entry.line not in void_lines]
    new = sorted({fault for fault in found if not any(entry.covers(fault) for entry in kept)}, key=_in_report_order)
    if not new and not void_lines:
        return text
    left = _cut(text, void_lines)
    newline = "\r\n" if "\r\n" in text else "\n"
    blocks = [_block(fault, today + HOLDS_FOR).replace("\n", newline) for fault in new]
    head = _HEAD.replace("\n", newline) if not text.strip() else left.rstrip() + newline if left.strip() else ""
    written = newline.join([head, *blocks]) if head else newline.join(blocks)
    if _contents(written) != [*((entry.fault, entry.reason) for entry in kept), *((fault, "") for fault in new)]:
        raise BadBaseline(f"{baseline.name} cannot be changed line by line; end each text of several lines on a line of its own")
    return written


def _contents(text: str) -> list[tuple[Fault, str]]:
    try:
        return [(entry.fault, entry.reason) for entry in parse(text, "", for_update=True).entries]
    except BadBaseline:
        return []


def _cut(text: str, headings: Collection[int]) -> str:
    """The text without the entries whose headings stand in these lines, and without the comment right above each."""
    lines = text.splitlines(keepends=True)
    starts = sorted({*_heading_lines(text, Kind.BROKEN), *_heading_lines(text, Kind.NOT_COVERED), len(lines) + 1})
    gone: set[int] = set()
    for heading in headings:
        first, last = heading, _last_line(lines, heading, starts[starts.index(heading) + 1])
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1
        while last < len(lines) and not lines[last].strip():
            last += 1
        gone.update(range(first, last + 1))
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def _last_line(lines: Sequence[str], heading: int, following: int) -> int:
    """The last line of an entry that says something; comments behind it belong to what follows, or to nobody."""
    last = following - 1
    while last > heading and (not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#")):
        last -= 1
    return last


def _block(fault: Fault, expires: date) -> str:
    test = f"test = {_quoted(fault.test)}\n" if fault.test else ""
    return f'[[{fault.kind}]]\ncheck = {_quoted(fault.check)}\n{test}reason = ""\nexpires = {expires}\n'


def _quoted(text: str) -> str:
    """A basic string of TOML; JSON's escapes are all among TOML's, which wants one more character escaped."""
    return json.dumps(plain(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _in_report_order(fault: Fault) -> tuple[str, int, int, Kind]:
    scenario, _, clause = fault.check.partition(":")
    scenarios, clauses = [row.id for row in SCENARIOS], [row.id for row in CLAUSES]
    return fault.test, scenarios.index(scenario), clauses.index(clause), fault.kind
