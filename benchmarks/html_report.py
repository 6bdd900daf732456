"""The report in HTML: how big it is for 40 drills, how long it takes to write beside reading the histories alone, and to open."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.sides import in_turn, ratio, show
from pytest_cancelcontract.conduct import DrillResult
from pytest_cancelcontract.contract import judge, measure, verdict_of
from pytest_cancelcontract.history import load
from pytest_cancelcontract.report import html_report

DRILLS, TIMES = 40, 10
HISTORIES = sorted((Path(__file__).resolve().parents[1] / "tests" / "html" / "histories").glob("*.jsonl"))


def rows() -> list[dict[str, Any]]:
    """Forty drills, from the recorded ones again and again; half of them are broken."""
    found = []
    for path in HISTORIES:
        history = load(path)
        checks = judge(history)
        wrapper = str(history.header["wrapper"])
        result = DrillResult(str(history.header["scenario"]), verdict_of(checks), 1, measure(history), checks, str(path), wrapper)
        found.append({**result.as_dict(), "test": "t", "terms": history.header["terms"], "machine": history.header["machine"]})
    return (found * (DRILLS // len(found) + 1))[:DRILLS]


def main() -> None:
    """Print size, time to write and time to open; a browser that is missing is said and left out."""
    drills = rows()
    terms = drills[0]["terms"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.html"
        html_report.write(path, drills, terms=terms)  # the first one imports Jinja2
        ours, theirs = in_turn(lambda: html_report.write(path, drills, terms=terms), lambda: _read(drills), TIMES)
        print(f"  size of {DRILLS} drills: {path.stat().st_size / 1e6:.2f} MB (figure: below 1.5)")
        show(f"write {DRILLS} drills", ours)
        show("read their histories only", theirs)
        ratio(ours, theirs, "write over read")
        _open(path)


def _read(drills: list[dict[str, Any]]) -> None:
    for row in drills:
        load(row["history"])


def _open(path: Path) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("  not opened: needs Playwright (pip install playwright)")
        return
    chromium = shutil.which("chromium")
    if chromium is None:
        print("  not opened: needs Chromium (apt-get install chromium)")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        took = []
        for _ in range(TIMES):
            page = browser.new_page()
            page.goto(path.as_uri())
            took.append(float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")))
            page.close()
        browser.close()
    show("open, until the browser says that it is loaded", took)
    print(f"  median {statistics.median(took):.2f} s (figure: below 1 s)")


if __name__ == "__main__":
    main()
