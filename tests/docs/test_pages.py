"""The documentation is up to date with the code, builds with every warning an error, and leads nowhere that is not there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import made_pages, shown_files
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS
from tests.docs.conftest import DOCS, ROOT

PICTURE_BYTES = 150_000
OUTSIDE = (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "fixtures").rglob("README.md"))
"""Pages that are read where they lie, and that Sphinx does not look at."""
PAGES = (*OUTSIDE, *DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
builds = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")),
    reason="needs Sphinx: pip install 'pytest-cancelcontract[docs]'",
)


def _build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build as ``make docs`` does."""
    words = ["-W", "--keep-going", "-n", "-q", str(source), str(target)]
    return subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", made_pages.PAGES)
def test_the_made_page_says_what_the_tables_say(name: str) -> None:
    assert (DOCS / name).read_text() == made_pages.PAGES[name](), "make it anew: python docs/made_pages.py"


@builds
def test_it_builds_in_strict_mode_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    built = _build(DOCS, tmp_path)
    assert (built.returncode, built.stderr) == (0, "")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for page in pages:
        assert not re.search(r"<(?:script|img|source|iframe)[^>]+src=\"(?:https?:)?//", page.read_text()), page.name
        assert not re.search(r"<link[^>]+rel=\"stylesheet\"[^>]+href=\"(?:https?:)?//", page.read_text()), page.name


@builds
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a page](nowhere.md)", "nowhere"),
        ("[a heading](index.md#nowhere)", "nowhere"),
        pytest.param("[a file](../nowhere.py)", "nowhere", marks=pytest.mark.slow),
        pytest.param("```{literalinclude} nowhere.py\n```", "nowhere", marks=pytest.mark.slow),
        pytest.param("![a picture](nowhere.webp)", "nowhere", marks=pytest.mark.slow),
    ],
    ids=["a page", "a heading", "a file", "an example", "a picture"],
)
def test_strict_mode_finds_what_is_not_there(text: str, complaint: str, tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    shutil.copy(DOCS / "conf.py", source)
    (source / "index.md").write_text(f"# A page\n\n{text}\n")
    built = _build(source, tmp_path / "built")
    assert built.returncode != 0
    assert complaint in built.stderr


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_pages_that_are_read_where_they_lie_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        path, _, heading = target.partition("#")
        there = page if not path else (page.parent / path)
        assert there.exists(), target
        if heading:
            assert heading in set(_slugs(there)), target


def _links(page: Path) -> Iterator[str]:
    for found in LINK.finditer(page.read_text()):
        target = found[1] or found[2]
        if not target.startswith(("http://", "https://")):
            yield target


def _slugs(page: Path) -> Iterator[str]:
    """The names by which a code host, and the built documentation, know the page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_is_short_and_leads_to_every_page_or_to_one_that_does() -> None:
    assert (ROOT / "README.md").stat().st_size < 10_000
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        targets = {(page.parent / target.partition("#")[0]).resolve() for target in _links(page) if target.partition("#")[0]}
        waiting += [one for one in targets - seen if one.suffix == ".md" and one.exists()]
    assert {page for page in DOCS.rglob("*.md") if page.name != "index.md"} - seen <= {DOCS / "measured.md", DOCS / "samples.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_that_are_named_exist(page: Path) -> None:
    known = {row.flag for row in (*OPTIONS, *TERM_ROWS.values())}
    assert set(re.findall(r"--cancel-[a-z]+(?:-[a-z]+)*", page.read_text())) <= known


def test_the_pictures_are_small_and_in_both_themes() -> None:
    pictures = {path.name: path.read_bytes() for path in (DOCS / "pictures").glob("*.webp")}
    assert set(pictures) == {f"{what}-{theme}.webp" for what in ("matrix", "drill") for theme in ("light", "dark")}
    for name, held in pictures.items():
        assert (held[:4], held[8:12]) == (b"RIFF", b"WEBP"), name
        assert len(held) < PICTURE_BYTES, name
    text = (DOCS / "report.md").read_text()
    assert all(f"(pictures/{name})" in text for name in pictures)


INCLUDED = re.compile(r"^ *```\{include\} (\S+)", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in DOCS.rglob("*.md") if INCLUDED.search(page.read_text())], ids=lambda page: page.name)
def test_who_reads_a_page_as_a_file_finds_what_is_included_in_it(page: Path) -> None:
    assert set(INCLUDED.findall(page.read_text())) <= set(_links(page))


@pytest.mark.parametrize("page", list(shown_files.pages()), ids=lambda page: page.name)
def test_what_a_page_shows_of_other_files_is_as_they_are_now(page: Path) -> None:
    assert shown_files.filled(page) == page.read_text(), "python docs/shown_files.py"


def test_no_page_shows_a_file_by_what_only_a_built_page_has() -> None:
    assert [page for page in PAGES if "{literalinclude}" in page.read_text()] == []
