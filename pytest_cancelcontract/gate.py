"""What is judged of the run as a whole, once all drills are over: the baseline's entries, and the limits on what may have changed.

Every pytest process reads the files, so that its tests know what is accepted; the one that prints the summary (the controller, under xdist)
judges, and writes the baseline where that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.judging import Fault, failures
from pytest_cancelcontract.report.names import portable
from pytest_cancelcontract.whole_file import write_whole

if TYPE_CHECKING:
    from pytest_cancelcontract.options import Settings
    from pytest_cancelcontract.report import baseline, compare


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the gate says of a run.

    ``lines`` are for the summary. ``complaints`` are the entries of the baseline that fail the run, each with its file and line, and
    ``regressions`` the limits that fail it. ``problem`` is why a file could not be written, or ``""``.
    """

    lines: tuple[str, ...] = ()
    complaints: tuple[baseline.Complaint, ...] = ()
    regressions: tuple[str, ...] = ()
    problem: str = ""

    @property
    def failures(self) -> tuple[str, ...]:
        """All that fails the run, a line each."""
        return (*map(str, self.complaints), *(f"limit: {one}" for one in self.regressions))


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
        compared = self._compare(report)
        if self._baseline is None:
            return compared
        from pytest_cancelcontract.report import baseline

        found = baseline.complaints(self._baseline, rows, seen=self._with_missing_files(seen), today=self._today)
        if not self._settings.updates_baseline:
            return Conclusion(compared.lines, tuple(found), compared.regressions)
        void = [one for one in found if one.is_void]
        line, problem = self._update(rows, void)
        left = tuple(one for one in found if not one.is_void)
        return Conclusion((*compared.lines, *([line] if line else [])), left, compared.regressions, problem)

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
        from pytest_cancelcontract.conduct import DrillResult
        from pytest_cancelcontract.report import baseline

        kinds = {Fault.BROKEN: baseline.Kind.BROKEN, Fault.NOT_COVERED: baseline.Kind.NOT_COVERED}
        found: set[baseline.Fault] = set()
        for row in rows:
            if "error" in row or row.get("asserted"):
                continue
            failing = failures(
                DrillResult.from_dict(row).checks,
                level=self._settings.level,
                fails_not_covered=self._settings.fails_not_covered,
                expected={f"{row['scenario']}:{clause}": reason for clause, reason in row.get("expected", {}).items()},
            )
            test = portable(row.get("test"))
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


def _told(now: baseline.Baseline, before: baseline.Baseline) -> str:
    had, has = ({entry.fault for entry in one.entries} for one in (before, now))
    lacking = sum(1 for entry in now.entries if not entry.reason)
    waits = f"; {lacking} of {len(has)} have no reason yet, which a person must write" if lacking else ""
    return f"{now.name}: {len(has - had)} entries written, {len(had - has)} taken out{waits}"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
