"""Words for people: a failure message, the summary's table, a line for what a drill waits for. Pure: data in, text out."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_cancelcontract.escapes import escaped
from pytest_cancelcontract.finding import Check, Level, Verdict
from pytest_cancelcontract.history import History
from pytest_cancelcontract.report.timeline import timeline
from pytest_cancelcontract.terms import Terms

RUNS_ONCE_MORE = "the first attempt was too close to a limit to tell"
"""How the line ends that says that a drill runs once more; it is shown whenever lines are shown."""
_MARGIN = 12
"""Where a field's value begins, counted from the line's first column."""
_HEADING = re.compile(r"^(cancel contract [^:\n]+): (\S+)(?=$| )", re.MULTILINE)
_TIMELINE = re.compile(rf"\n {{2}}timeline .*(?:\n {{{_MARGIN}}}.*)*")


def failure_message(check: Check, history: History | None, *, rerun: str = "", note: str = "") -> str:
    """One check that is not kept: what was observed, what was expected, who saw it, what to do, in one screen.

    Args:
        history: for the timeline and its path; None leaves both out.
        rerun: the command that runs this drill again.
        note: one more line below the heading, such as why it counts.
    """
    finding = check.finding
    fields = [
        ("note", note),
        ("observed", finding.observed),
        ("expected", finding.expected),
        ("seen by", finding.seen_by),
        ("likely", finding.likely),
        ("lacks", finding.lacks),
        ("try", finding.advice),
        ("timeline", "\n".join(timeline(history)) if history is not None else ""),
        ("rerun", rerun),
        ("history", history.path if history is not None else ""),
    ]
    return "\n".join(
        [f"cancel contract {check.verdict}: {check.id}{_should(check)}", *(_field(name, text) for name, text in fields if text)]
    )


def in_one_line(message: str) -> str:
    """What a failure's text, of one check or several, is about: ``"cancel contract broken: deaf:no-survivors, deaf:grace-bounded"``."""
    ids: dict[str, list[str]] = {}
    for heading, check_id in _HEADING.findall(message):
        ids.setdefault(heading, []).append(check_id)
    told = "; ".join(f"{heading}: {', '.join(found)}" for heading, found in ids.items())
    return told or message.partition("\n")[0]


def without_timeline(message: str) -> str:
    """A failure message, or several, as it is shown where the drill's picture or its log is at hand."""
    return _TIMELINE.sub("", message)


def stale_message(check: Check, reason: str) -> str:
    """A check that was expected to be broken and is kept."""
    return "\n".join(
        [
            f"cancel contract kept, though expected to be broken: {check.id}",
            _field("expected", f"broken, because: {reason}"),
            _field("observed", check.finding.observed),
            _field("try", f"take {check.id} out of expected="),
        ]
    )


def drill_line(scenario: str, terms: Terms) -> str:
    """The one line of a drill in flight: what is waited for, and how long at most."""
    return (
        f"cancel drill {scenario}: {terms.start_s:g} s at most until the runner works,"
        f" then {terms.deadline_after_press_s:g} s from cancel until it must be gone"
    )


def progress_line(scenario: str, waits_for: str, at_most_s: float) -> str:
    """``"cancel drill deaf-child: until the runner works, 30 s at most"``."""
    limit = f", {at_most_s:.3g} s at most" if at_most_s else ""
    return f"cancel drill {scenario}: {plain(waits_for)}{limit}"


def plain(text: str) -> str:
    """The text with everything that could move a terminal's cursor written out."""
    return escaped(text, keep="\n\t")


def flat(text: str) -> str:
    """The text on one line: its line ends are written out, too. A wrapper's command may have some."""
    return escaped(text)


def _should(check: Check) -> str:
    return " (a SHOULD)" if check.level is Level.SHOULD else ""


def _field(name: str, text: str) -> str:
    lines = plain(text).splitlines() or [""]
    return "\n".join([f"  {name:<{_MARGIN - 4}}  {lines[0]}", *(" " * _MARGIN + line for line in lines[1:])])


# ---------------------------------------------------------------------- the summary

Row = Mapping[str, Any]
"""A drill as it crosses from worker to controller: CONTRACT's report entry, with ``not_covered`` and ``expected`` beside it."""

_COLUMNS = ("scenario", "verdict", "delivered", "gone", "reported", "late writes", "late tokens", "survivors", "clock", "runs")


MANY = 3
"""From so many drills on with the same clause broken, it is told to be mended first."""


def summary(rows: Sequence[Row]) -> list[str]:
    """The drills as a table, then what was not judged and what a SHOULD says; empty without drills."""
    if not rows:
        return []
    table: list[tuple[str, ...]] = [_COLUMNS, *(tuple(cells(row).values()) for row in rows)]
    if has_several_tests(rows):
        names = ["test", *(short_name(row) for row in rows)]
        table = [(name, *line) for name, line in zip(names, table, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return [*lines, *remarks(rows)]


def remarks(rows: Sequence[Row]) -> list[str]:
    """What stands below the table, a line each.

    What to mend first, what a cancel costs that comes on a heartbeat's answer, what kept checks leave open, what a SHOULD says, what is
    expected, and what is not covered.
    """
    first = _first_lines(rows)
    return [*first, *_heartbeat_lines(rows), *_note_lines(rows), *_should_lines(rows), *_expected_lines(rows), *_not_covered_lines(rows)]


def _first_lines(rows: Sequence[Row]) -> list[str]:
    """Where the cancel reached nobody in several drills: most of what else is broken there is broken for that."""
    lost = [row for row in rows if _breaks(row, "cancel-delivered") and "cancel-delivered" not in row.get("expected", ())]
    if len(lost) < MANY:
        return []
    where = f"in {len(lost)} of {len(rows)} drills the cancel did not reach the run in time"
    return [f"mend cancel-delivered first: {where}, and most of the rest follows from it"]


def _breaks(row: Row, clause: str) -> bool:
    return any(check["clause"] == clause and check["verdict"] == Verdict.BROKEN for check in row.get("checks", ()))


def has_several_tests(rows: Sequence[Row]) -> bool:
    """Whether the drills have to be told apart by their tests."""
    return len({row.get("test") for row in rows}) > 1


def short_name(row: Row) -> str:
    """A drill's test without its folders: ``test_x.py::test_it[a/b]``; a parameter's own slashes stay."""
    path, colons, name = str(row.get("test", "")).partition("::")
    return f"{path.rpartition('/')[2]}{colons}{name}"


def cells(row: Row) -> dict[str, str]:
    """A drill's line of the table, by the column's name; ``-`` is what was not measured."""
    measured = row.get("measured", {})
    line = (
        str(row["scenario"]),
        _verdict(row),
        _after_press(measured.get("delivery_s")),
        _after_press(measured.get("cancel_to_gone_s")),
        _after_press(measured.get("cancel_to_reported_s")),
        _count(measured.get("late_writes")),
        _count(measured.get("late_tokens")),
        _count(measured.get("survivors")),
        _clock(measured.get("clock_error_s")),
        str(row.get("attempts", 1)),
    )
    return dict(zip(_COLUMNS, line, strict=True))


def _verdict(row: Row) -> str:
    """The drill's verdict and, where it is not kept, the clauses that make it so."""
    verdict = str(row["verdict"])
    if "error" in row:
        return "could not be run"
    worst = [check for check in row.get("checks", ()) if check["verdict"] == verdict]
    return verdict if verdict == Verdict.KEPT or not worst else with_clauses(verdict, worst)


def with_clauses(verdict: str, checks: Sequence[Mapping[str, Any]]) -> str:
    """A verdict and the checks that have it: ``"broken: no-survivors, no-zombies"``, ``"broken (SHOULD): no-zombies"``."""
    should = "" if any(check["level"] == Level.MUST for check in checks) else " (SHOULD)"
    return f"{verdict}{should}: {', '.join(check['clause'] for check in checks)}"


def _after_press(value: object) -> str:
    return f"+{value:.3f} s" if isinstance(value, (int, float)) else "-"


def _clock(value: object) -> str:
    return f"{value * 1000:.1f} ms" if isinstance(value, (int, float)) else "-"


def _count(value: object) -> str:
    return str(len(value)) if isinstance(value, (list, tuple)) else "-" if value is None else str(value)


_WAY = {"answered": "answered_s", "delivered": "delivery_s", "gone": "cancel_to_gone_s", "reported": "cancel_to_reported_s"}


def _heartbeat_lines(rows: Iterable[Row]) -> list[str]:
    """The way of a cancel that comes on the answer to a heartbeat, where it is known of which one; nothing for other wrappers."""
    carried = [one for row in rows if (one := row.get("measured", {})).get("heartbeat_interval_s") is not None]
    if not carried:
        return []
    known = {name: [one[key] for one in carried if one.get(key) is not None] for name, key in _WAY.items()}
    way = ", ".join(f"{name} {_after_press(statistics.median(values))}" for name, values in known.items() if values)
    interval_s = statistics.median(one["heartbeat_interval_s"] for one in carried)
    of = f"medians of {len(carried)} drills" if len(carried) > 1 else "in 1 drill"
    return [f"cancelled on a heartbeat's answer, {of}: {way}; heartbeats {interval_s:.3f} s apart"]


def _should_lines(rows: Sequence[Row]) -> list[str]:
    several = has_several_tests(rows)
    return [
        f"SHOULD {check['verdict']}: {row['scenario']}:{check['clause']}{f' of {short_name(row)}' if several else ''}:"
        f" {_first_line(check['observed'])}"
        for row in rows
        for check in row.get("checks", ())
        if check["level"] == Level.SHOULD and check["verdict"] in {Verdict.BROKEN, Verdict.INCONCLUSIVE}
    ]


def _note_lines(rows: Sequence[Row]) -> list[str]:
    """What kept checks leave open, a line a clause."""
    notes: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        for check in row.get("checks", ()):
            if check["verdict"] == Verdict.KEPT and check.get("why"):
                notes.setdefault(check["clause"], []).append((str(row["scenario"]), str(check["why"])))
    return [
        f"note: {clause} in {len(found)} of {len(rows)} drills, as in {found[-1][0]}: {_first_line(found[-1][1])}"
        for clause, found in notes.items()
    ]


def _first_line(text: str) -> str:
    return (plain(text).splitlines() or [""])[0]


def _expected_lines(rows: Iterable[Row]) -> list[str]:
    return [
        f"expected broken: {row['scenario']}:{check['clause']}: {' '.join(plain(row['expected'][check['clause']]).split())}"
        for row in rows
        for check in row.get("checks", ())
        if check["verdict"] == Verdict.BROKEN and check["clause"] in row.get("expected", {})
    ]


def _not_covered_lines(rows: Iterable[Row]) -> list[str]:
    """One line for each thing that is lacking, since every drill of an adapter lacks the same."""
    lacking: dict[str, dict[str, None]] = {}
    for row in rows:
        for missing in row.get("not_covered", ()):
            lacking.setdefault(str(missing["lacks"]), {})[str(missing["clause"])] = None
    return [f"not covered: {', '.join(clauses)} (lacks {flat(lacks)})" for lacks, clauses in lacking.items()]
