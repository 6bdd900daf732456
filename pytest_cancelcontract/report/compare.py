"""What has changed between reports: verdicts, and times with the clock's error beside them. Pure: the data of x.json in, words out.

A report holds the clock's error of each drill: how late the machine may have been in seeing something. Everything may have been seen by so
much too late and nothing too early, so a time lies between what was measured less that error and what was measured. Several runs of a drill
count as one by their median, its two ends apart.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from pytest_cancelcontract.contract import CLAUSES
from pytest_cancelcontract.finding import Verdict, worst
from pytest_cancelcontract.report.json_report import REPORT_FORMAT, REPORT_FORMAT_VERSION
from pytest_cancelcontract.report.names import portable
from pytest_cancelcontract.report.text import flat

SAME_WITHIN_S = 0.05
"""Times that differ by less are called the same: a drill's own looks are up to so far apart."""
VERDICT_LIMIT = "verdict"


class BadReport(ValueError):
    """What was given is no report, or one of a version that is not known here."""


class BadLimit(ValueError):
    """A limit is refused; the message names it and says what is allowed."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a drill: its name for people, its key in ``measured``, and whether it is a time (or a count)."""

    name: str
    key: str
    is_time: bool = True

    def shown(self, value: float) -> str:
        """With its unit."""
        return f"{value:.3f} s" if self.is_time else f"{value:g}"


MEASURES: tuple[Measure, ...] = (
    Measure("answered", "answered_s"),
    Measure("heartbeat-interval", "heartbeat_interval_s"),
    Measure("delivery", "delivery_s"),
    Measure("grace-used", "grace_used_s"),
    Measure("gone", "cancel_to_gone_s"),
    Measure("reported", "cancel_to_reported_s"),
    Measure("early", "early_s"),
    Measure("late-writes", "late_writes", is_time=False),
    Measure("late-tokens", "late_tokens", is_time=False),
    Measure("survivors", "survivors", is_time=False),
)
"""What is compared, in the order in which it is shown; of each, more is worse."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a figure may have grown: by a share of what it was, and by an amount. ``measure`` is None for verdicts."""

    text: str
    measure: Measure | None
    share: float = 0.0
    amount: float = 0.0

    def allows(self, before: float) -> float:
        """The growth that is allowed of a figure that was ``before``."""
        return self.share * abs(before) + self.amount


_PART = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)\s*(?P<unit>%|s|ms|)")
_PER_UNIT = {"s": 1.0, "ms": 0.001, "": 1.0}


def read_limit(text: str, origin: str) -> Limit:
    """``gone:20%+0.2s``, ``late-writes:0``, or ``verdict``.

    Raises:
        BadLimit: it is refused.
    """
    if text == VERDICT_LIMIT:
        return Limit(text, None)
    name, _, size = text.partition(":")
    measure = next((one for one in MEASURES if one.name == name), None)
    if measure is None:
        names = ", ".join(one.name for one in MEASURES)
        raise BadLimit(f"a limit must begin with what is measured ({names}) or be {VERDICT_LIMIT!r}, got {text!r} from {origin}")
    share = amount = 0.0
    for part in size.split("+"):
        read = _PART.fullmatch(part.strip())
        if read is None or (read["unit"] in {"s", "ms"} and not measure.is_time) or (not read["unit"] and measure.is_time):
            example = f"{name}:20%+0.2s" if measure.is_time else f"{name}:20%+1"
            raise BadLimit(f"a limit must be like {example!r}, got {text!r} from {origin}")
        if read["unit"] == "%":
            share += float(read["number"]) / 100
        else:
            amount += float(read["number"]) * _PER_UNIT[read["unit"]]
    return Limit(text, measure, share, amount)


def read_report(text: str, name: str) -> dict[str, Any]:
    """A report's data.

    Raises:
        BadReport: it is none, or of an unknown version; the message begins with ``name``.
    """
    try:
        read = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise BadReport(f"{name} is no JSON: {error}") from None
    except RecursionError:
        raise BadReport(f"{name} is no report of the cancel contract: it is nested too deeply") from None
    if not isinstance(read, dict) or read.get("format") != REPORT_FORMAT or not isinstance(read.get("drills"), list):
        raise BadReport(f"{name} is no report of the cancel contract, as --cancel-report x.json writes it")
    if read.get("format_version") != REPORT_FORMAT_VERSION:
        raise BadReport(f"{name} has format version {read.get('format_version')!r}; this version reads {REPORT_FORMAT_VERSION}")
    if wrong := next(_wrong_in(read), ""):
        raise BadReport(f"{name} is malformed: {wrong}")
    return read


def _no_number(word: str) -> float:
    """NaN and Infinity are no JSON, though Python reads them, and nothing exceeds a limit that is compared with NaN."""
    raise ValueError(f"{word} is no number")


def _wrong_in(report: Mapping[str, Any]) -> Iterator[str]:
    """What of a report cannot be compared; only what is read here is looked at, since a later version may add to the rest."""
    if not _are_terms(report.get("terms")):
        yield "its terms are no objects by name"
    for number, drill in enumerate(report["drills"], 1):
        for wrong in _wrong_in_drill(drill):
            yield f"drill {number} {wrong}"


def _wrong_in_drill(drill: object) -> Iterator[str]:
    if not isinstance(drill, dict):
        yield f"is no object but {_shortly(drill)}"
        return
    for key in ("scenario", "verdict"):
        if not isinstance(drill.get(key), str):
            yield f"has no {key}" if drill.get(key) is None else f"has the {key} {_shortly(drill[key])}, which is no text"
        elif key == "verdict":
            yield from _unknown("verdict", drill[key], _VERDICTS)
    if not isinstance(drill.get("test"), str | None):
        yield f"has the test {_shortly(drill['test'])}, which is neither a text nor null"
    if not _are_terms(drill.get("terms")):
        yield "has terms that are no objects by name"
    measured, checks = drill.get("measured"), drill.get("checks")
    if not isinstance(measured, dict):
        yield f"has no object for what was measured but {_shortly(measured)}"
    else:
        for key in (*(one.key for one in MEASURES), "clock_error_s"):
            if not _is_figure(value := measured.get(key)):
                yield f"has {_shortly(value)} for {key}, which is neither a number nor null"
    if not isinstance(checks, list):
        yield f"has no list of checks but {_shortly(checks)}"
    else:
        for one in checks:
            if not isinstance(one, dict) or not all(isinstance(one.get(key), str) for key in ("clause", "verdict")):
                yield f"has a check without a clause and a verdict: {_shortly(one)}"
            else:
                yield from _unknown("clause", one["clause"], _CLAUSES)
                yield from _unknown("verdict", one["verdict"], _VERDICTS, of=f" for {_shortly(one['clause'])}")


_VERDICTS = tuple(map(str, Verdict))
_CLAUSES = tuple(row.id for row in CLAUSES)


def _unknown(what: str, word: str, known: Sequence[str], *, of: str = "") -> Iterator[str]:
    """A word that this version does not know: it could not be told whether it is better or worse than another."""
    if word not in known:
        yield f"has the {what} {_shortly(word)}{of}, which is none of {', '.join(known)}"


def _are_terms(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()))


def _is_figure(value: object) -> bool:
    """A figure that was not measured is null; a number too large for a float (1e999) is none that was measured."""
    return value is None or isinstance(value, list) or (_is_number(value) and -sys.float_info.max <= value <= sys.float_info.max)


def _shortly(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


_SHORT = 60


# ---------------------------------------------------------------------- comparing


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure over several runs: the median, the lowest that the median can be by the clock's error, and what it is made of."""

    value: float
    lowest: float
    runs: int
    least: float
    most: float
    clock_error_s: float | None

    def shown(self, measure: Measure) -> str:
        """``"2.010 s (median of 3, 1.900 to 2.200; clock 2.0 ms)"``."""
        notes = [f"median of {self.runs}, {self.least:.3g} to {self.most:.3g}"] if self.runs > 1 else []
        if measure.is_time:
            notes.append("clock unknown" if self.clock_error_s is None else f"clock {self.clock_error_s * 1000:.1f} ms")
        return measure.shown(self.value) + (f" ({'; '.join(notes)})" if notes else "")


class Ruling(StrEnum):
    """What a limit says of a change."""

    WITHIN = "within"
    EXCEEDED = "exceeds"
    UNCLEAR = "cannot be told by"


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the comparison: what a scenario's figure or verdict was, and is."""

    test: str
    scenario: str
    what: str
    before: str
    now: str
    growth: str = ""
    limit: str = ""
    ruling: Ruling = Ruling.WITHIN

    @property
    def fails(self) -> bool:
        """Whether a limit that was given fails by it."""
        return bool(self.limit) and self.ruling is not Ruling.WITHIN


@dataclass(frozen=True, slots=True)
class Comparison:
    """What has changed in ``drills`` drills; ``failures`` are sentences, and there are some only where limits were given.

    ``same`` counts the times that are the same by all that is known, and ``worst_error_s`` is the clock's error in these.
    """

    drills: int
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    failures: tuple[str, ...]
    same: int = 0
    worst_error_s: float = 0.0


@dataclass(slots=True)
class _Group:
    """The runs of one drill, before or now, each with the wrapper and the terms that it was run with."""

    drills: list[Mapping[str, Any]] = field(default_factory=list)

    def figure(self, measure: Measure) -> Figure | None:
        pairs = [(float(value), one["measured"].get("clock_error_s")) for one in self.drills if _is_number(value := _of(one, measure.key))]
        if not pairs:
            return None
        errors = [float(error) if _is_number(error) else None for _, error in pairs]
        values = [value for value, _ in pairs]
        lowest = [value - (error or 0.0 if measure.is_time else 0.0) for value, error in zip(values, errors, strict=True)]
        known = [error for error in errors if error is not None]
        return Figure(
            statistics.median(values),
            statistics.median(lowest),
            len(values),
            min(values),
            max(values),
            max(known) if len(known) == len(errors) else None,
        )

    def verdict(self) -> str:
        return _worst(str(one.get("verdict")) for one in self.drills)

    def told(self, name: str) -> list[Any]:
        """What its runs say of their wrapper, terms or machine, each once; a term's origin is no part of what it is."""
        values = [one.get(name) for one in self.drills]
        if name == "terms":
            values = [{term: row.get("value") for term, row in (one or {}).items()} for one in values]
        return [one for number, one in enumerate(values) if one not in values[:number]]

    def checks(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for one in self.drills:
            for check in one.get("checks", ()):
                found.setdefault(str(check["clause"]), []).append(str(check["verdict"]))
        return {clause: _worst(verdicts) for clause, verdicts in found.items()}


_Key = tuple[str, str]
_RANK = {Verdict.KEPT: 0, Verdict.NOT_APPLICABLE: 1, Verdict.NOT_COVERED: 1, Verdict.INCONCLUSIVE: 2, Verdict.BROKEN: 3}
_NOT_JUDGED = "not judged"


def compare(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], limits: Sequence[Limit] = ()) -> Comparison:
    """Compare reports; several on a side are several runs.

    Drills are the same where scenario and test are; where each side has a single test, its name does not matter.
    """
    # Decided of both sides at once: a name that only one side drops is found on neither.
    has_several_tests = any(len(_tests(side)) > 1 for side in (old, new))
    before, now = (_grouped(side, by_test=has_several_tests) for side in (old, new))
    both = [key for key in before if key in now]
    changes: list[Change] = []
    same, worst_error_s = 0, 0.0
    for key in both:
        changes += _verdict_changes(key, before[key], now[key], limits)
        for measure in MEASURES:
            change = _figure_change(key, measure, before[key].figure(measure), now[key].figure(measure), limits)
            if change is not None:
                changes.append(change)
            elif (figure := now[key].figure(measure)) is not None and measure.is_time:
                same += 1
                worst_error_s = max(worst_error_s, figure.clock_error_s or 0.0)
    failures = [flat(_sentence(one)) for one in changes if one.fails]
    failures += [
        f"the limit {limit.text} compared nothing: no drill that is in both was measured in it"
        for limit in limits
        if not _has_compared(limit, both, before)
    ]
    return Comparison(len(both), tuple(changes), tuple(_notes(before, now)), tuple(failures), same, worst_error_s)


def _tests(reports: Sequence[Mapping[str, Any]]) -> set[str]:
    return {portable(one.get("test")) for report in reports for one in report["drills"]}


def _grouped(reports: Sequence[Mapping[str, Any]], *, by_test: bool) -> dict[_Key, _Group]:
    found: dict[_Key, _Group] = {}
    for report in reports:
        for one in report["drills"]:
            test = portable(one.get("test")) if by_test else ""
            found.setdefault((test, str(one["scenario"])), _Group()).drills.append({**_shared(report), **one})
    return found


def _shared(report: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for every drill of a report that does not say otherwise."""
    return {name: report.get(name) for name in ("wrapper", "terms", "machine")}


def _of(drill: Mapping[str, Any], key: str) -> Any:
    value = drill["measured"].get(key)
    return len(value) if isinstance(value, list) else value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _worst(verdicts: Iterable[str]) -> str:
    """The worst of several runs; a run that was not judged counts only where all were not."""
    told = list(verdicts)
    return told[0] if len(set(told)) == 1 else str(worst(Verdict(one) for one in told if one in set(Verdict)))


def _verdict_changes(key: _Key, before: _Group, now: _Group, limits: Sequence[Limit]) -> Iterator[Change]:
    was, judged = before.checks(), now.checks()
    pairs = [(VERDICT_LIMIT, before.verdict(), now.verdict())]
    pairs += [(clause, was.get(clause, _NOT_JUDGED), judged.get(clause, _NOT_JUDGED)) for clause in dict.fromkeys([*was, *judged])]
    limit = next((one.text for one in limits if one.measure is None), "")
    for what, old, new in pairs:
        if old != new:
            ruling = Ruling.EXCEEDED if _rank(new) > _rank(old) else Ruling.WITHIN
            yield Change(*key, what, old, new, limit=limit if ruling is Ruling.EXCEEDED else "", ruling=ruling)


def _rank(verdict: str) -> int:
    return _RANK.get(Verdict(verdict), 1) if verdict in set(Verdict) else 1


def _figure_change(key: _Key, measure: Measure, before: Figure | None, now: Figure | None, limits: Sequence[Limit]) -> Change | None:
    """The line for a figure; None where it is the same by all that is known, and no limit says otherwise."""
    own = [one for one in limits if one.measure is measure]
    if before is None:
        return None if now is None else Change(*key, measure.name, "-", now.shown(measure))
    if now is None:
        # What was measured once and is not any more may be anything: no limit is kept by it.
        limit, ruling = (own[0].text, Ruling.UNCLEAR) if own else ("", Ruling.WITHIN)
        return Change(*key, measure.name, before.shown(measure), "-", limit=limit, ruling=ruling)
    growth = now.value - before.value
    worst_limit = max(((_ruling(one, before, now), one.text) for one in own), key=lambda pair: _GRAVITY.index(pair[0]), default=None)
    ruling, limit = worst_limit if worst_limit is not None else (Ruling.WITHIN, "")
    if ruling is Ruling.WITHIN and _is_same(measure, growth, before, now):
        return None
    share = f", {growth / before.value:+.0%}" if _has_share(measure, before, now) else ""
    shown = (f"{growth:+.3f} s" if measure.is_time else f"{growth:+g}") + share
    return Change(*key, measure.name, before.shown(measure), now.shown(measure), shown, limit, ruling)


def _has_share(measure: Measure, before: Figure, now: Figure) -> bool:
    """Whether a growth says something as a share: not where a figure is below 0, or was so small that it is the same as 0."""
    least = SAME_WITHIN_S if measure.is_time else 0.0
    return before.value > least and now.value >= 0


_GRAVITY = (Ruling.WITHIN, Ruling.UNCLEAR, Ruling.EXCEEDED)


def _ruling(limit: Limit, before: Figure, now: Figure) -> Ruling:
    """A growth beyond what is allowed is proven where it is beyond it even if all of the clock's error was now."""
    allowed = limit.allows(before.value) + _ROUNDING
    if now.value - before.value <= allowed:
        return Ruling.WITHIN
    return Ruling.EXCEEDED if now.lowest - before.value > allowed else Ruling.UNCLEAR


_ROUNDING = 1e-6
"""Reports round to this."""


def _is_same(measure: Measure, growth: float, before: Figure, now: Figure) -> bool:
    if not measure.is_time:
        return growth == 0
    return abs(growth) <= max(SAME_WITHIN_S, before.value - before.lowest, now.value - now.lowest)


def _sentence(change: Change) -> str:
    name = f"{_named(change)} {change.what}"
    if change.ruling is Ruling.EXCEEDED:
        return f"{name}: {change.before} before, {change.now} now{_by(change)}, which exceeds {change.limit}"
    why = "it is not measured any more" if change.now == "-" else "the machine was too late to tell; run it again"
    return f"{name}: {change.before} before, {change.now} now{_by(change)}; whether {change.limit} holds is not known: {why}"


def _named(change: Change) -> str:
    return f"{change.test} {change.scenario}" if change.test else change.scenario


def _by(change: Change) -> str:
    return f" ({change.growth})" if change.growth else ""


def _has_compared(limit: Limit, both: Iterable[_Key], before: Mapping[_Key, _Group]) -> bool:
    if limit.measure is None:
        return any(True for _ in both)
    return any(before[key].figure(limit.measure) is not None for key in both)


def _notes(before: Mapping[_Key, _Group], now: Mapping[_Key, _Group]) -> Iterator[str]:
    """What else is not as it was, and must be known to read the times."""
    both = [key for key in before if key in now]
    for name, verb in (("wrapper", "differs"), ("terms", "differ"), ("machine", "differs")):
        differing: dict[str, list[str]] = {}
        for key in both:
            if found := _differences(before[key].told(name), now[key].told(name)):
                differing.setdefault(found, []).append(_joined(part for part in key if part))
        for found, drills in differing.items():
            where = "" if len(drills) == len(both) else f" of {', '.join(drills)}"
            yield f"the {name}{where} {verb}: {found}"
    for words, keys in (("only before", before.keys() - now.keys()), ("only now", now.keys() - before.keys())):
        if keys:
            yield f"{words}: {', '.join(_joined(part for part in key if part) for key in sorted(keys))}"


def _differences(was: Sequence[Any], now: Sequence[Any]) -> str:
    if was == now:
        return ""
    if len(was) == len(now) == 1 and isinstance(was[0], Mapping) and isinstance(now[0], Mapping):
        keys = [key for key in dict.fromkeys([*was[0], *now[0]]) if was[0].get(key) != now[0].get(key)]
        return ", ".join(f"{key} {was[0].get(key)} -> {now[0].get(key)}" for key in keys)
    return f"{_joined(was, ' and ')} -> {_joined(now, ' and ')}"


def _joined(values: Iterable[Any], between: str = " ") -> str:
    return between.join(str(one) for one in values)


# ---------------------------------------------------------------------- words


def lines(comparison: Comparison, *, since: str) -> list[str]:
    """The comparison for people; ``since`` names the older reports. Failures are not among them: they are told where failures are."""
    shown = [f"compared with {since}", *(f"  {note}" for note in comparison.notes)]
    rows = [(_named(one), one.what, f"{one.before} -> {one.now}", one.growth, _against(one)) for one in comparison.changes]
    if rows:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if not any(one.what == VERDICT_LIMIT for one in comparison.changes):
        shown.append(f"  no verdict of a drill has changed, of {comparison.drills} that are in both")
    if comparison.same:
        shown.append(
            f"  {comparison.same} times are the same within {SAME_WITHIN_S:g} s or the clock's error"
            f" ({comparison.worst_error_s * 1000:.1f} ms at worst)"
        )
    return [flat(line) for line in shown]


def _against(change: Change) -> str:
    return f"{change.ruling} {change.limit}" if change.limit else ""
