"""What the pages show of other files, put into them, so that whoever reads a page as a file reads the same.

A comment in a page names the file, relative to the page, and if need be the part of it; the block behind it is made::

    <!-- shown: examples/test_command.py | start-at: def drill | end-before: def found -->

``start-at`` is the beginning of the first line that is shown, ``end-before`` of the line behind the last one, ``first`` a number of lines.
``python docs/shown_files.py`` writes the blocks; a test holds them up to date.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHOWN = re.compile(
    r"^(?P<indent> *)<!-- shown: (?P<what>[^\n]+?) -->\n(?:(?P=indent)(?P<fence>`{3,})\w*\n.*?^(?P=indent)(?P=fence)\n)?",
    re.MULTILINE | re.DOTALL,
)
LANGUAGES = {".py": "python", ".txt": "text", ".yml": "yaml", ".toml": "toml"}


def pages() -> Iterator[Path]:
    """The pages that show something of other files."""
    for page in sorted(HERE.rglob("*.md")):
        if "_build" not in page.parts and SHOWN.search(page.read_text(encoding="utf-8")):
            yield page


def shown_in(page: Path) -> set[Path]:
    """The files that a page shows something of."""
    return {(page.parent / _path(found["what"])).resolve() for found in SHOWN.finditer(page.read_text(encoding="utf-8"))}


def filled(page: Path) -> str:
    """The page's text with every block as its file has it now.

    Raises:
        LookupError: the part that is to be shown is not in the file.
    """

    def block(found: re.Match[str]) -> str:
        path = page.parent / _path(found["what"])
        text = _part(path.read_text(encoding="utf-8"), found["what"])
        fence = "```" if "```" not in text else "````"
        told = textwrap.indent(f"{fence}{LANGUAGES[path.suffix]}\n{text}\n{fence}\n", found["indent"], lambda line: bool(line.strip()))
        return f"{found['indent']}<!-- shown: {found['what']} -->\n{told}"

    return SHOWN.sub(block, page.read_text(encoding="utf-8"))


def _path(what: str) -> str:
    return what.partition(" | ")[0]


def _part(text: str, what: str) -> str:
    lines = text.splitlines()
    for option in what.split(" | ")[1:]:
        name, _, value = option.partition(": ")
        if name == "start-at":
            lines = lines[_first(lines, value) :]
        elif name == "end-before":
            lines = lines[: _first(lines, value)]
        elif name == "first":
            lines = lines[: int(value)]
        else:
            raise LookupError(f"there is no {name!r} in {what!r}")
    return "\n".join(lines).strip("\n")


def _first(lines: list[str], start: str) -> int:
    for number, line in enumerate(lines):
        if line.startswith(start):
            return number
    raise LookupError(f"no line begins with {start!r}")


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page), encoding="utf-8")
