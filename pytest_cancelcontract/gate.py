"""What is judged of the run as a whole, once all drills are over: the baseline's entries, and the limits on what may have changed.

Every pytest process reads the files, so that its tests know what is accepted; the one that prints the summary (the controller, under xdist)
judges, and writes the baseline where that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.finding import Level
from pytest_cancelcontract.judging import Failure, Fault, failures
from pytest_cancelcontract.report.names import portable
from pytest_cancelcontract.report.text import flat
from pytest_cancelcontract.whole_file import write_whole

if TYPE_CHECKING:
    from pytest_cancelcontract.options import Settings
    from pytest_cancelcontract.report import baseline, compare


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the gate says of a run.

    ``lines`` are for the summary. ``complaints`` are the entries of the baseline that fail the run, each with its file and line, and
    ``regressions`` the limits that fail it. ``hidden`` are the checks that fail a test though no verdict of its drill says so, as an option
    or a marker asks for it; pytest tells of these with the test. ``problem`` is why a file could not be written, or ``""``.
    """

    lines: tuple[str, ...] = ()
    complaints: tuple[baseline.Complaint, ...] = ()
    regressions: tuple[str, ...] = ()
    problem: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """All that fails the run, a line each."""
        return (*map(str, self.complaints), *(f"limit: {one}" for one in self.regressions))

    @property
    def for_reports(self) -> tuple[str, ...]:
        """All that turns the run red and is in no verdict of a drill, a line each; empty where there is nothing."""
        return (*self.failures, *self.hidden, *([self.problem] if self.problem else []))


@dataclass(frozen=True, slots=True)
class _Compared:
    """The earlier reports, and the limits on what may have changed since."""

    reports: tuple[Mapping[str, Any], ...] = ()
    limits: tuple[compare.Limit, ...] = ()
    names: tuple[str, ...] = ()


class Gate:
    """The files that stand at the gate, read when pytest begins.

    Raises:
        pytest.UsageError: a file or a limit is refused; the message names it and where it came from.
    """

    def __init__(self, settings: Settings, root: Path, folder: Path) -> None:
        self._settings = settings
        self._root = root
        self._folder = folder
        self._today = datetime.now(UTC).date()
        self._text, self._baseline = self._read_baseline()
        self._compared = self._read_compared()

    def accepted(self, test: str) -> baseline.Accepted | None:
        """What the baseline accepts in a test (named as in the report); None without a baseline."""
        if self._baseline is None:
            return None
        from pytest_cancelcontract.report import baseline

        return baseline.accepted(self._baseline, portable(test), self._today)

    def conclude(self, rows: Sequence[Mapping[str, Any]], report: Mapping[str, Any], seen: baseline.Seen) -> Conclusion:
        """Judge the run, and write the baseline where that was asked for.

        Args:
            rows: all drills of the run; ``report`` is what the report for machines says of them.
        """
        compared = replace(self._compare(report), hidden=tuple(self._hidden(rows)))
        if self._baseline is None:
            return compared
        from pytest_cancelcontract.report import baseline

        found = baseline.complaints(self._baseline, rows, seen=self._with_missing_files(seen), today=self._today)
        if not self._settings.updates_baseline:
            return replace(compared, complaints=tuple(found))
        void = [one for one in found if one.is_void]
        line, problem = self._update(rows, void)
        left = tuple(one for one in found if not one.is_void)
        return replace(compared, lines=(*compared.lines, *([line] if line else [])), complaints=left, problem=problem)

    def _hidden(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What fails tests by ``--cancel-not-covered``, ``--cancel-level`` or a marker's ``expected``: no verdict of a drill says it."""
        for row in rows:
            accepted = self.accepted(row.get("test") or "")
            known = accepted.broken if accepted is not None else {}
            # The row has the reasons of both; an entry of the baseline that is stale has a complaint of its own.
            expected = {check: reason for check, reason in _expected(row).items() if known.get(check) != reason}
            for one in self._failing(row, expected, accepted):
                if one.fault in {Fault.STALE, Fault.NOT_COVERED} or one.check.level is Level.SHOULD:
                    test = portable(row.get("test"))
                    yield f"{f'{test} ' if test else ''}{one.check.id}: {one.fault}{_why_hidden(one, expected, self._settings)}"

    def _failing(self, row: Mapping[str, Any], expected: Mapping[str, str], accepted: baseline.Accepted | None) -> list[Failure]:
        """The checks of a drill that fail its test; none of one that was not run, or that is judged by the test's own asserts."""
        if "error" in row or row.get("asserted"):
            return []
        from pytest_cancelcontract.conduct import DrillResult

        level, fails_not_covered = self._settings.level, self._settings.fails_not_covered
        checks = DrillResult.from_dict(row).checks
        return failures(checks, level=level, fails_not_covered=fails_not_covered, expected=expected, accepted=accepted)

    # ------------------------------------------------------------------ the baseline

    def _read_baseline(self) -> tuple[str, baseline.Baseline | None]:
        path = self._settings.baseline
        if path is None:
            return "", None
        from pytest_cancelcontract.report import baseline

        name, origin = self._shown(path), self._settings.origin("cancel_baseline")
        updates = self._settings.updates_baseline
        try:
            text = path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            if not updates:
                flag = "--baseline-update" if self._settings.is_run else "--cancel-baseline-update"
                raise pytest.UsageError(f"the baseline {name} (from {origin}) is not there; {flag} makes it") from None
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise pytest.UsageError(f"the baseline {name} (from {origin}) cannot be read: {_reason(error)}") from None
        try:
            return text, baseline.parse(text, name, for_update=updates)
        except baseline.BadBaseline as error:
            raise pytest.UsageError(str(error)) from None

    def _with_missing_files(self, seen: baseline.Seen) -> baseline.Seen:
        """A file that is not there has no test that was left out of this run."""
        assert self._baseline is not None
        files = {entry.fault.test.partition("::")[0] for entry in self._baseline.entries if entry.fault.test}
        return replace(seen, files=seen.files | {file for file in files if not (self._root / file).exists()})

    def _update(self, rows: Sequence[Mapping[str, Any]], void: Sequence[baseline.Complaint]) -> tuple[str, str]:
        """Write what is broken now: the line that says so, and the problem if it cannot be written."""
        from pytest_cancelcontract.report import baseline

        path = self._settings.baseline
        assert path is not None and self._baseline is not None
        try:
            text = baseline.updated(self._text, self._baseline, self._faults(rows), void, today=self._today)
            if text != self._text:
                write_whole(path, text.encode("utf-8"))
        except (baseline.BadBaseline, OSError) as error:
            origin = self._settings.origin("cancel_baseline")
            return "", f"the baseline could not be written to {path} (from {origin}): {_reason(error)}"
        return _told(baseline.parse(text, self._baseline.name, for_update=True), self._baseline), ""

    def _faults(self, rows: Sequence[Mapping[str, Any]]) -> set[baseline.Fault]:
        """What fails tests now, but for what their markers expect."""
        from pytest_cancelcontract.report import baseline

        kinds = {Fault.BROKEN: baseline.Kind.BROKEN, Fault.NOT_COVERED: baseline.Kind.NOT_COVERED}
        found: set[baseline.Fault] = set()
        for row in rows:
            test, failing = portable(row.get("test")), self._failing(row, _expected(row), None)
            found.update(baseline.Fault(kinds[one.fault], one.check.id, test) for one in failing if one.fault in kinds)
        return found

    # ------------------------------------------------------------------ the comparison

    def _read_compared(self) -> _Compared:
        if not self._settings.compare:
            return _Compared()
        from pytest_cancelcontract.report import compare

        origin = self._settings.origin("cancel_compare")
        given = self._settings.given.get("cancel_compare_limit")
        reports = []
        for path in self._settings.compare:
            try:
                reports.append(compare.read_report(path.read_text(encoding="utf-8"), self._shown(path)))
            except (OSError, UnicodeDecodeError) as error:
                raise pytest.UsageError(f"the report {self._shown(path)} (from {origin}) cannot be read: {_reason(error)}") from None
            except compare.BadReport as error:
                raise pytest.UsageError(f"{error} (from {origin})") from None
        try:
            limits = tuple(compare.read_limit(text, given.origin) for text in given.value) if given is not None else ()
        except compare.BadLimit as error:
            raise pytest.UsageError(str(error)) from None
        return _Compared(tuple(reports), limits, tuple(self._shown(path) for path in self._settings.compare))

    def _compare(self, report: Mapping[str, Any]) -> Conclusion:
        if not self._compared.reports:
            return Conclusion()
        from pytest_cancelcontract.report import compare

        found = compare.compare(self._compared.reports, [report], self._compared.limits)
        return Conclusion(tuple(compare.lines(found, since=" and ".join(self._compared.names))), (), found.failures)

    def _shown(self, path: Path) -> str:
        """A path as short as it can be told from where pytest was started."""
        for base in (self._folder, self._root):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
        return str(path)


def _expected(row: Mapping[str, Any]) -> dict[str, str]:
    """The reasons for what is expected of a drill, by ``scenario:clause``."""
    return {f"{row['scenario']}:{clause}": reason for clause, reason in (row.get("expected") or {}).items()}


def _why_hidden(failure: Failure, expected: Mapping[str, str], settings: Settings) -> str:
    """By whose word it fails the test; ``""`` where the fault itself says so."""
    if failure.fault is Fault.STALE:
        return ""
    if failure.check.id in expected:
        return f", though expected to be broken: {expected[failure.check.id]}"
    if failure.fault is Fault.NOT_COVERED:
        return f", which fails here ({settings.origin('cancel_not_covered')} is fail); it lacks {flat(failure.check.finding.lacks)}"
    return f", a SHOULD, which fails here ({settings.origin('cancel_level')} is should)"


def _told(now: baseline.Baseline, before: baseline.Baseline) -> str:
    had, has = ({entry.fault for entry in one.entries} for one in (before, now))
    lacking = sum(1 for entry in now.entries if not entry.reason)
    waits = f"; {lacking} of {len(has)} have no reason yet, which a person must write" if lacking else ""
    return f"{now.name}: {len(has - had)} entries written, {len(had - has)} taken out{waits}"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
