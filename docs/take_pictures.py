"""What the documentation shows of real drills: ``make docs-pictures``, or ``python docs/take_pictures.py``.

A sample that calls off its kill is drilled, and its report is opened in Chromium, in both themes; and the words of the first failure that
the documentation shows are those of a real one. Both are kept in the repository, so that building the documentation needs neither a
browser nor a minute of drills; they are made anew where the report has changed.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
SAMPLES = HERE.parent / "fixtures" / "wrappers"
SCENARIOS = ("core", "streaming")
GRAVE = "deaf-child"
"""The scenario whose drill is shown."""
BROKEN = 1
"""The status of a run in which something was broken, which is what is wanted here."""
FAILS = ["run", "--grace", "2", "--scenario", GRAVE, "--", "timeout", "-k", "1", "600", "{runner}"]
"""The command whose failure is shown; the documentation says it, too."""
WIDTH, HEIGHT = 1080, 860
MARGIN = 4
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> int:
    """Drill, open, and write the pictures; the status to end with."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        print("the pictures need Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder, sync_playwright() as driver:
        report = drill(Path(folder))
        (PICTURES / "failure.txt").write_text(failure(Path(folder)), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme in THEMES:
            show(browser, report, theme)
        browser.close()
    return 0


def drill(folder: Path) -> Path:
    """The report of real drills in that folder, of a command that is short enough to be read in a picture.

    Raises:
        RuntimeError: the sample was not found broken.
    """
    shutil.copytree(SAMPLES / "kept", folder / "kept")
    shutil.copytree(SAMPLES / "group", folder / "group")
    shutil.copytree(SAMPLES / "broken", folder / "broken")
    scenarios = [word for one in SCENARIOS for word in ("--scenario", one)]
    sample = ["python", "broken/calls_off_the_kill.py", "--grace", "1.5", "{workspace}", "{source}", "{runner}"]
    found_broken(["run", "--grace", "2", "--report", "report.html", *scenarios, "--", *sample], folder)
    return folder / "report.html"


def failure(folder: Path) -> str:
    """What is printed of a failure, from its first line to the last of the table."""
    printed = found_broken(FAILS, folder)
    begins, table = printed.index("cancel contract broken"), printed.index("\nscenario ")
    return printed[begins : printed.index("\n=", table) + 1].replace(f"{folder}/", "")


def found_broken(words: list[str], folder: Path) -> str:
    """Run ``cancelcontract`` there; what it printed.

    Raises:
        RuntimeError: nothing was found broken.
    """
    # "python" in a wrapper's command is this one; the width is a terminal's, and there are no colours.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pytest_cancelcontract.cli", *words]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ran.returncode != BROKEN:
        raise RuntimeError(f"something was to be found broken (status {BROKEN}), got status {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def show(browser: Browser, report: Path, theme: Literal["light", "dark"]) -> None:
    """Write the pictures of one theme: the head of the page with the matrix, and one drill."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)
    page = context.new_page()
    page.goto(report.as_uri())
    box = page.locator("p.key").bounding_box()
    assert box is not None
    write(page, PICTURES / f"matrix-{theme}.webp", 0, box["y"] + box["height"] + MARGIN)
    card = page.locator(f"article.drill[data-name^='{GRAVE} ']")
    card_box, picture_box = card.bounding_box(), card.locator(".pictured-drill .timeline").bounding_box()
    assert card_box is not None and picture_box is not None
    write(page, PICTURES / f"drill-{theme}.webp", card_box["y"] - MARGIN, picture_box["y"] + picture_box["height"] + MARGIN)
    context.close()


def write(page: Page, path: Path, top: float, bottom: float) -> None:
    """The page from one height to another, as WebP, which Playwright itself does not write."""
    devtools = page.context.new_cdp_session(page)
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top, "scale": 1}
    wanted = {"format": "webp", "quality": 80, "captureBeyondViewport": True, "clip": clip}
    path.write_bytes(base64.b64decode(devtools.send("Page.captureScreenshot", wanted)["data"]))


if __name__ == "__main__":
    sys.exit(main())
