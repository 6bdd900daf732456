"""The commands of the first page do what it says, and print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from docs.take_pictures import FAILS
from tests.docs.conftest import DOCS, KEPT, ROOT
from tests.plugin.conftest import Run

pytestmark = pytest.mark.timeout(100)
SHOWN = DOCS / "pictures" / "failure.txt"
COMMAND = re.compile(r"^cancelcontract (run .*)$", re.MULTILINE)


def _without_chance(line: str) -> str:
    """A line without what another run has otherwise: numbers, the state of a process, and the folder of the drill."""
    figures = re.sub(r"[-+]?\d+(\.\d+)?|(?<=state )[A-Z]", "#", re.sub(r"/tmp/\S+?/d1", "/tmp/d1", line)).rstrip()
    # A column of the table is as wide as its figures.
    return re.sub(r" {2,}", "  ", figures) if line.startswith("scenario ") else figures


@pytest.mark.parametrize("page", [DOCS / "start.md", ROOT / "README.md"], ids=["start", "README"])
def test_the_pages_say_the_command_whose_failure_is_shown(page: Path) -> None:
    assert FAILS in [shlex.split(found) for found in re.findall(r"cancelcontract (run [^`\n]*\{runner\})", page.read_text())]


def test_what_is_shown_is_what_is_printed(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = command(*FAILS, timeout=80)
    assert printed.ret == pytest.ExitCode.TESTS_FAILED
    shown = [_without_chance(line) for line in SHOWN.read_text().splitlines()]
    seen = [_without_chance(line) for line in printed.outlines]
    begins = seen.index("cancel contract broken: deaf-child:no-survivors")
    assert seen[begins : begins + 6] == shown[:6]
    assert [line for line in shown if line.startswith(("scenario ", "  rerun"))] == [
        line for line in seen if line.startswith(("scenario ", "  rerun"))
    ]


def test_the_readme_shows_the_same_failure() -> None:
    [block] = re.findall(r"^```\n(cancel contract broken.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [_without_chance(line) for line in block.splitlines()] == [_without_chance(line) for line in SHOWN.read_text().splitlines()[:6]]


def test_the_wrapper_that_is_to_be_copied_keeps_it(command: Run, pytester: pytest.Pytester) -> None:
    shutil.copy(KEPT / "subreaper.py", pytester.path)
    words = [shlex.split(found) for found in COMMAND.findall((DOCS / "start.md").read_text())][1]
    assert "subreaper.py" in words
    told = command(*words[:1], "--scenario=deaf-child", *words[1:], timeout=80)
    assert told.ret == pytest.ExitCode.OK
    told.stdout.fnmatch_lines(["deaf-child  kept *"])
