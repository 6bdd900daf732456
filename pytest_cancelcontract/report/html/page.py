"""The page: what it shows as plain data for its template, and the template filled in. Needs Jinja2."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
import markupsafe

from pytest_cancelcontract.contract import CLAUSES
from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.report.html.picture import Picture, draw, glyphs
from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Course, Lane, Mark, MarkKind
from pytest_cancelcontract.report.html.spells import after, count_of
from pytest_cancelcontract.report.text import plain
from pytest_cancelcontract.scenarios import SCENARIOS, Act
from pytest_cancelcontract.terms import TERM_NAMES

Row = Mapping[str, Any]
"""A drill as the plugin keeps it; see ``report.json_report``."""

STANDINGS = ("broken", "not-run", "inconclusive", "should", "expected", "kept", "not-covered")
"""How a drill stands, the worst first; the page shows them in this order."""
STANDING_WORDS = {
    "broken": "broken",
    "not-run": "could not be run",
    "inconclusive": "inconclusive",
    "should": "broken in a SHOULD only",
    "expected": "broken as expected",
    "kept": "kept",
    "not-covered": "not covered",
}
SIGNS = {"broken": "✕", "not-run": "!", "inconclusive": "?", "should": "✕", "expected": "✕", "kept": "✓", "not-covered": "-"}
_MEASURES = (
    ("answered", "answered_s"),
    ("delivered", "delivery_s"),
    ("gone", "cancel_to_gone_s"),
    ("reported", "cancel_to_reported_s"),
)
_FIELDS = (
    ("observed", "observed"),
    ("expected", "expected"),
    ("seen by", "seen_by"),
    ("likely", "why"),
    ("lacks", "lacks"),
    ("try", "try"),
)


@dataclass(frozen=True, slots=True)
class Told:
    """A row with its course, and when it was run (for people); ``trouble`` says why there is no course."""

    row: Row
    course: Course | None = None
    when: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One check in the matrix."""

    clause: str
    standing: str
    words: str


@dataclass(frozen=True, slots=True)
class Failing:
    """One check that is not kept, with its fields in the order of every failure message."""

    id: str
    clause: str
    standing: str
    words: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a course in words."""

    at: str
    lane: str
    words: str


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill as the template shows it."""

    id: str
    scenario: str
    test: str
    standing: str
    what: str
    act: str
    clauses: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    cells: Mapping[str, Cell]
    failing: tuple[Failing, ...]
    kept: tuple[tuple[str, str], ...]
    not_covered: tuple[tuple[str, str], ...]
    error: str
    trouble: str
    history: str
    rerun: str
    picture: Picture | None = None
    lanes: tuple[Lane, ...] = ()
    origin: str = ""
    events: tuple[Event, ...] = ()


def render(told: Sequence[Told], *, terms: Mapping[str, Any], gate: Sequence[str] = ()) -> str:
    """The page's text.

    Args:
        told: the drills, in the order in which they were run.
        terms: those of the run as a whole, as ``Terms.as_dict`` gives them.
        gate: what turns the run red beside the verdicts of its drills, a line each.
    """
    has_tests = len({one.row.get("test") for one in told}) > 1
    drills = [_drill(number, one, has_tests) for number, one in enumerate(told, 1)]
    script, style = _text("filter.js"), _text("style.css")
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    standings = [(name, STANDING_WORDS[name], SIGNS[name], [d for d in drills if d.standing == name]) for name in STANDINGS]
    drawn = {mark.kind for one in told if one.course for lane in one.course.lanes for mark in lane.marks}
    used = {clause for drill in drills for clause in drill.cells}
    run = next((one.row for one in told if "error" not in one.row), {})
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            drills=drills,
            standings=[one for one in standings if one[3]],
            headline=_headline(drills, is_red=bool(gate)),
            gate=[plain(line) for line in gate],
            clauses=[row for row in CLAUSES if row.id in used],
            has_tests=has_tests,
            wrapper=plain(str(run.get("wrapper") or "")),
            machine=_machine(run.get("machine")),
            when=plain(min((one.when for one in told if one.when), default="")),
            terms=_terms(terms),
            style=markupsafe.Markup(style),
            script=markupsafe.Markup(script),
            script_hash=hashed,
            glyphs=markupsafe.Markup(glyphs()),
            signs=SIGNS,
            standing_words=STANDING_WORDS,
            key=[(kind, words) for kind, words in _KEY if kind in drawn],
        )
    )


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("pytest_cancelcontract.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _text(name: str) -> str:
    return resources.files("pytest_cancelcontract.report.html").joinpath("templates", name).read_text(encoding="utf-8")


_KEY: tuple[tuple[MarkKind, str], ...] = (
    (MarkKind.START, "began"),
    (MarkKind.NOTICE, "noticed a signal, or was signalled"),
    (MarkKind.ENDED, "ended by itself"),
    (MarkKind.KILLED, "killed, not by the drill"),
    (MarkKind.GONE, "gone, nobody can tell how"),
    (MarkKind.DRILL, "was alive until the drill ended it"),
    (MarkKind.UNSEEN, "not seen to end"),
    (MarkKind.TOLD_WRITE, "says that it wrote"),
    (MarkKind.LATE_WRITE, "changed the workspace after the handover"),
    (MarkKind.REPORTED, "the outcome is reported"),
)


def _headline(drills: Sequence[Drill], *, is_red: bool) -> str:
    """``is_red``: the run fails, whatever its drills say."""
    if not drills:
        return "No drill was run, and the run fails" if is_red else "No drill was run"
    bad = sum(1 for one in drills if one.standing == "broken")
    open_ = sum(1 for one in drills if one.standing in {"inconclusive", "not-run"})
    kept = sum(1 for one in drills if one.standing == "kept")
    of = f"of {count_of(len(drills), 'drill')}"
    if bad:
        return f"{bad} {of} broken"
    if open_:
        return f"{open_} {of} proved nothing"
    others = ((name, sum(1 for one in drills if one.standing == name)) for name in ("should", "expected", "not-covered"))
    fails = ["but the run fails"] if is_red else []
    return ", ".join([f"{kept} {of} kept", *(f"{count} {STANDING_WORDS[name]}" for name, count in others if count), *fails])


def _machine(machine: object) -> str:
    if not isinstance(machine, Mapping):
        return ""
    parts = [str(machine.get(name) or "") for name in ("system", "release", "machine")]
    return plain(" ".join([*filter(None, parts), f"{machine.get('cpus')} processors, Python {machine.get('python')}"]))


def _terms(terms: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and origin of each term that has a value."""
    found = []
    for name in TERM_NAMES:
        row = terms.get(name)
        if isinstance(row, Mapping) and isinstance(row.get("value"), (int, float)):
            found.append((name, f"{row['value']:g} s", plain(str(row.get("origin") or "default"))))
    return found


# --- One drill --------------------------------------------------------------------------------------------------------


def _drill(number: int, told: Told, has_tests: bool) -> Drill:
    row = told.row
    scenario = str(row["scenario"])
    known = next((one for one in SCENARIOS if one.id == scenario), None)
    checks, expected = list(row.get("checks", ())), dict(row.get("expected") or {})
    cells = {str(one["clause"]): _cell(one, expected) for one in checks}
    for one in row.get("not_covered", ()):
        words = f"not covered: lacks {one['lacks']}"
        cells.setdefault(str(one["clause"]), Cell(str(one["clause"]), "not-covered", plain(words)))
    id = f"drill-{number}"
    standing = _standing(row, expected)
    pictured = _pictured(id, scenario, standing, told.course)
    return Drill(
        id=id,
        scenario=plain(scenario),
        test=plain(str(row.get("test") or "")) if has_tests else "",
        standing=standing,
        what=known.what if known else "",
        act="" if known is None or known.act is Act.CANCEL else known.act.words,
        clauses=tuple(cells),
        facts=tuple(_facts(row)),
        cells=cells,
        failing=_worst_first(_failing(id, one, expected) for one in checks if one["verdict"] in {Verdict.BROKEN, Verdict.INCONCLUSIVE}),
        kept=tuple((str(one["clause"]), plain(str(one.get("observed") or ""))) for one in checks if one["verdict"] == Verdict.KEPT),
        not_covered=tuple(_lacking(row)),
        error=plain(str(row.get("error") or "")),
        trouble=plain(told.trouble),
        history=plain(str(row.get("history") or "")),
        rerun=plain(str(row.get("rerun") or "")),
        **pictured,
    )


def _standing(row: Row, expected: Mapping[str, str]) -> str:
    if "error" in row:
        return "not-run"
    verdict = str(row["verdict"])
    if verdict == Verdict.BROKEN:
        broken = [one for one in row.get("checks", ()) if one["verdict"] == Verdict.BROKEN and one["clause"] not in expected]
        if not broken:
            return "expected"
        return "broken" if any(one["level"] == Level.MUST for one in broken) else "should"
    return verdict.replace(" ", "-") if verdict.replace(" ", "-") in STANDINGS else "inconclusive"


def _cell(check: Mapping[str, Any], expected: Mapping[str, str]) -> Cell:
    verdict, clause = str(check["verdict"]), str(check["clause"])
    standing, words = verdict.replace(" ", "-"), verdict
    if verdict == Verdict.BROKEN and clause in expected:
        standing, words = "expected", f"broken, as expected: {expected[clause]}"
    elif check["level"] == Level.SHOULD:
        words = f"{verdict} (a SHOULD)"
        standing = "should" if verdict == Verdict.BROKEN else standing
    return Cell(clause, standing, plain(words))


def _failing(drill: str, check: Mapping[str, Any], expected: Mapping[str, str]) -> Failing:
    cell = _cell(check, expected)
    fields = [(name, plain(str(check[key]))) for name, key in _FIELDS if check.get(key)]
    return Failing(f"{drill}-{cell.clause}", cell.clause, cell.standing, cell.words, tuple(fields))


def _worst_first(failing: Iterable[Failing]) -> tuple[Failing, ...]:
    """In report order, but what is broken before what is not proven."""
    return tuple(sorted(failing, key=lambda one: STANDINGS.index(one.standing)))


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    """What was measured, as the summary in the terminal has it."""
    measured = row.get("measured") or {}
    for name, key in _MEASURES:
        value = measured.get(key)
        yield name, f"{value:+.3f} s" if isinstance(value, (int, float)) else "not measured"
    for name, key in (("late writes", "late_writes"), ("late tokens", "late_tokens"), ("survivors", "survivors")):
        if measured.get(key) is not None:
            yield name, str(measured[key])
    if isinstance(measured.get("clock_error_s"), (int, float)):
        yield "machine late by", f"{measured['clock_error_s'] * 1000:.1f} ms"
    if row.get("attempts", 1) == 2:
        yield "runs", "2, as the machine spoilt the first"


def _lacking(row: Row) -> Iterator[tuple[str, str]]:
    """What is not covered, the clauses together that lack the same."""
    lacking: dict[str, list[str]] = {}
    for one in row.get("not_covered", ()):
        lacking.setdefault(str(one["lacks"]), []).append(str(one["clause"]))
    for lacks, clauses in lacking.items():
        yield ", ".join(clauses), plain(lacks)


def _pictured(id: str, scenario: str, standing: str, course: Course | None) -> dict[str, Any]:
    if course is None:
        return {}
    title = f"Timeline of {scenario}, {STANDING_WORDS[standing]}"
    picture = draw(course, id=id, title=title, description=_description(course))
    return {"picture": picture, "lanes": course.lanes, "origin": plain(course.origin), "events": tuple(_events(course))}


def _description(course: Course) -> str:
    lines = ", ".join(f"{one.name} {after(course.origin_s, one.at_s)}" for one in course.lines)
    lanes = "; ".join(f"{one.name}{f' ({one.detail})' if one.detail else ''}: {one.note}" for one in course.lanes)
    span = f"From {after(course.origin_s, course.since_s)} to {after(course.origin_s, course.until_s)}, told from {course.origin}."
    return f"{span} {f'{lines}. ' if lines else ''}{lanes}."


_OFTEN = {MarkKind.TOLD_WRITE, MarkKind.BEAT, MarkKind.LATE_WRITE, MarkKind.CHANGE}
_WORDED_BARS = {BarKind.ANSWER, BarKind.TERMINAL, BarKind.CALL, BarKind.GAP, BarKind.TOKENS, BarKind.CLEANUP, BarKind.REQUEST}


def _events(course: Course) -> Iterator[Event]:
    """The course in words, in order of time."""
    found: list[tuple[float, str, str]] = [(one.at_s, "", one.words) for one in course.lines]
    for lane in course.lanes:
        name = f"{lane.name}{f' ({lane.detail})' if lane.detail else ''}"
        found += [(mark.at_s, name, words) for mark, words in _few(lane.marks)]
        found += [
            (bar.since_s, name, _lasting(bar, course)) for bar in lane.bars if bar.kind in _WORDED_BARS or bar.kind is BarKind.OVERDUE
        ]
    for at_s, name, words in sorted(found):
        yield Event(after(course.origin_s, at_s), plain(name), plain(words))


def _lasting(bar: Bar, course: Course) -> str:
    return f"{bar.words} (until {after(course.origin_s, bar.until_s)})"


def _few(marks: Sequence[Mark]) -> Iterator[tuple[Mark, str]]:
    """Of what happens again and again, only the first and the last."""
    for kind in dict.fromkeys(one.kind for one in marks):
        same = [one for one in marks if one.kind is kind]
        if kind not in _OFTEN or len(same) <= 2:
            yield from ((one, one.words) for one in same)
        else:
            yield same[0], f"{same[0].words} (the first of {len(same)})"
            yield same[-1], f"{same[-1].words} (the last of {len(same)})"
