"""What a run says where people look already: JUnit's file, pytest-html's and Allure's reports, and GitHub's pages.

Each is told only where it listens: the files' plugins in the process that runs the test (their own way under xdist as well, since what they
make of a test crosses with its report), GitHub by the process that prints the summary.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.assertions import ContractBroken, ContractInconclusive
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.report.github import MOST_SUMMARY_BYTES, Annotation, annotation_of, step_summary
from pytest_cancelcontract.report.text import Row, failure_message, plain, without_timeline

if TYPE_CHECKING:
    from pytest_cancelcontract.finding import Check
    from pytest_cancelcontract.gate import Conclusion

FAULT_ATTRIBUTE = "cancelcontract_fault"
"""Where the report of a failing test carries what GitHub would be told of it: plain data, as it has to cross xdist."""
_ANNOTATES_FAILURES = "annotate_errors"
"""What pytest-github-actions-annotate-failures registers where it annotates each failing call by itself."""


def is_message(error: BaseException) -> bool:
    """Whether an error's own text says all: which line of a test raised it does not matter."""
    return isinstance(error, ContractBroken | ContractInconclusive | DrillError)


def words_of(row: Row) -> str:
    """The words of everything that is not kept in a drill and was not expected, or why it could not be run; ``""`` if nothing."""
    if "error" in row:
        return plain(str(row["error"]))
    from pytest_cancelcontract.conduct import DrillResult
    from pytest_cancelcontract.finding import Verdict

    def is_told(check: Check) -> bool:
        is_expected = check.verdict is Verdict.BROKEN and check.clause in row.get("expected", {})
        return check.verdict in {Verdict.BROKEN, Verdict.INCONCLUSIVE} and not is_expected

    return "\n\n".join(failure_message(check, None) for check in DrillResult.from_dict(row).checks if is_told(check))


# ---------------------------------------------------------------------- one test


def add_properties(item: pytest.Item, rows: Sequence[Row]) -> None:
    """Give a test its drills' properties; JUnit's file, for one, takes them from the reports that are made of it."""
    from pytest_cancelcontract.report import junit

    item.user_properties.extend(junit.properties(rows))


def attach(item: pytest.Item, rows: Sequence[Row], report: pytest.TestReport) -> None:
    """Give the drills of a failing test to the reports of other plugins, where those are being written."""
    if not report.failed:
        return
    from pytest_cancelcontract.report import attachments

    plugins = item.config.pluginmanager
    html_path = item.config.getoption("htmlpath", None)
    if html_path and (pytest_html := plugins.getplugin("html")) is not None:
        folder = (Path.cwd() / Path(os.path.expandvars(html_path)).expanduser()).parent
        extras = getattr(report, "extras", [])
        for row in rows:
            if link := attachments.link_to_history(row, folder):
                extras.append(pytest_html.extras.url(link[1], name=link[0]))
            extras.append(pytest_html.extras.html(attachments.embedded(row, words_of(row))))
        report.extras = extras  # type: ignore[attr-defined]
    if plugins.hasplugin("allure_listener"):
        _attach_to_allure(rows)


def _attach_to_allure(rows: Sequence[Row]) -> None:
    from pytest_cancelcontract.report import attachments

    allure: Any = importlib.import_module("allure")
    for row in rows:
        name, history = attachments.name_of(row), Path(str(row.get("history") or ""))
        if words := words_of(row):
            allure.attach(words, name=f"{name}: words", attachment_type=allure.attachment_type.TEXT)
        if page := attachments.page_of(row):
            allure.attach(page, name=f"{name}: picture", attachment_type=allure.attachment_type.HTML)
        if history.is_file():
            allure.attach.file(str(history), name=f"{name}: history", attachment_type="application/x-ndjson", extension="jsonl")


def fault_of(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, *, has_place: bool) -> dict[str, Any]:
    """What GitHub would be told of a failing test: its message, and the place of its marker.

    Args:
        has_place: whether the test stands in a file of the team; the path is absolute, and ``""`` where it does not.
    """
    from pytest_cancelcontract.marker_place import marker_place

    place = marker_place(item) if has_place else None
    return {
        "when": report.when,
        "test": plain(item.name),
        "message": _message(call, report),
        "path": plain(str(place.path)) if place else "",
        "line": place.line if place else 0,
    }


def _message(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    error = call.excinfo.value if call.excinfo is not None else None
    if error is not None and is_message(error):
        return without_timeline(plain(str(error)))
    crash = getattr(report.longrepr, "reprcrash", None)
    return plain(str(crash.message) if crash is not None else report.longreprtext)


# ---------------------------------------------------------------------- GitHub Actions


def is_on_github() -> bool:
    """Whether this is a step of a workflow, whose output GitHub reads."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def told_by_nobody_else(config: pytest.Config, faults: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The faults that no other plugin annotates: one that does so, where it is installed, has told every failing call by now."""
    is_told = config.pluginmanager.hasplugin(_ANNOTATES_FAILURES)
    return [one for one in faults if not (is_told and one["when"] == "call")]


def tell_github(
    rows: Sequence[Row], faults: Iterable[Mapping[str, Any]], conclusion: Conclusion, problem: str, *, root: Path, baseline: Path | None
) -> None:
    """Print an annotation for each failing test and each entry of the baseline that fails the run, and write the step's summary.

    Args:
        faults: of failing tests, as :func:`fault_of` makes them.
        problem: why the run is an error, or ``""``.
        root: what paths are relative to where GitHub does not say where the repository is.
    """
    told = [annotation_of(one["message"], one["test"], path=_in_repository(one["path"], root), line=one["line"]) for one in faults]
    known = _in_repository(str(baseline), root) if baseline is not None else ""
    told += [Annotation("cancel contract: baseline", one.text, known, one.line) for one in conclusion.complaints]
    told += [Annotation("cancel contract: limit", one) for one in conclusion.regressions]
    told += [Annotation("cancel contract: error", problem)] if problem else []
    for one in told:
        _print(str(one))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        why_red = [*conclusion.failures, *([problem] if problem else [])]
        try:
            _append(Path(summary), lambda most_bytes: step_summary([(row, words_of(row)) for row in rows], why_red, most_bytes=most_bytes))
        except OSError as error:
            _print(f"::warning title=cancel contract::the step's summary cannot be written: {error.strerror or error}")


def _in_repository(path: str, root: Path) -> str:
    """A file's path as GitHub names it; ``""`` for one that is not in the repository."""
    base = Path(os.environ.get("GITHUB_WORKSPACE") or root).resolve()
    place = Path(path).resolve()
    return place.relative_to(base).as_posix() if path and place.is_relative_to(base) else ""


def _append(path: Path, make: Callable[[int], str]) -> None:
    """Append to the summary, of which other tools may have written a part, what :func:`step_summary` makes of the bytes that are left."""
    with path.open("ab") as file:
        file.write(f"\n{make(MOST_SUMMARY_BYTES - file.tell())}".encode("utf-8", "backslashreplace"))


def _print(line: str) -> None:
    """Print a command; whatever the output cannot take is shown as its escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
