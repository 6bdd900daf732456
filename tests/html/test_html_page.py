"""The page as text and as a file: what it says of each kind of row, that it needs nothing else, and that Jinja2 may be missing."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_cancelcontract.report import html_report
from pytest_cancelcontract.report.html.picture import _GLYPHS
from pytest_cancelcontract.report.html.shapes import MarkKind
from pytest_cancelcontract.terms import settle_terms
from pytest_cancelcontract.whole_file import write_whole
from tests.html.conftest import RECORDED, row_of

ROOT = Path(__file__).resolve().parents[2]
TERMS = settle_terms({"grace": (2, "--grace")}).as_dict()
DEAF = next(path for path in RECORDED if path.name == "kept-deaf.jsonl")
HOSTILE = "<script>document.title = 'taken'</script>\"' onfocus=\"document.title='taken'\" &amp; \x1b[31m \udcff"


class Reader(HTMLParser):
    """What of a page the tests ask for: its addresses, its ids, its words, and the nesting of its elements."""

    EMPTY = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.said: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src", "xlink:href", "action", "srcset", "data", "poster"}:
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}")
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"script", "style"}:
            self.said.append(data)

    @property
    def words(self) -> str:
        """All that is said, with single spaces."""
        return " ".join(" ".join(self.said).split())


def read(*rows: dict[str, Any]) -> Reader:
    """The page of these rows."""
    return Reader(html_report.page(rows, terms=TERMS))


def check(clause: str, verdict: str, **more: str) -> dict[str, Any]:
    """A check as a row has it."""
    fields = {"observed": f"{clause} was {verdict}", "expected": "", "why": "", "try": "", "seen_by": "", "lacks": ""}
    return {"clause": clause, "level": "must", "verdict": verdict, "spoilt": False, **fields, **more}


def row(scenario: str = "deaf", verdict: str = "kept", *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A drill without a history."""
    return {"test": "t", "scenario": scenario, "verdict": verdict, "checks": list(checks), "wrapper": "w", "history": "", **more}


def test_the_page_is_well_formed_and_needs_nothing_else(recorded_rows: list[dict[str, Any]]) -> None:
    page = read(*recorded_rows)
    assert page.wrong == [] and page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.handlers == []
    # Only places in the page itself, and an icon that is none.
    assert {address for address in page.addresses if not address.startswith("#")} == {"data:,"}
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(page.ids)
    style = html_report.page(recorded_rows, terms=TERMS).partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style and set(re.findall(r"url\(([^)]*)\)", style)) == {"#hatch", "#dots"}


def test_every_picture_is_an_image_with_a_name_and_words(recorded_rows: list[dict[str, Any]]) -> None:
    text = html_report.page(recorded_rows, terms=TERMS)
    pictures = re.findall(r"<svg [^>]*class=\"course\".*?</svg>", text, re.DOTALL)
    assert len(pictures) == len(RECORDED)
    for picture in pictures:
        svg = ElementTree.fromstring(picture)
        title, words = svg.find("title"), svg.find("desc")
        assert svg.get("role") == "img" and title is not None and words is not None
        assert svg.get("aria-labelledby", "").split() == [title.get("id"), words.get("id")]
        assert (title.text or "").startswith("Timeline of ")
        assert all(lane in (words.text or "") for lane in ("the test's calls: ", "leader (pid ", "outcome: ", "told from "))


def test_all_fields_of_a_failure_are_there_in_the_order_of_every_message() -> None:
    told = check("no-survivors", "broken", expected="E", seen_by="S", why="L", **{"try": "T"})
    words = read(row("deaf", "broken", told)).words
    assert "observed no-survivors was broken expected E seen by S likely L try T" in words


@pytest.mark.parametrize(
    ("drill", "headline", "standing"),
    [
        pytest.param(row("deaf", "kept", check("no-survivors", "kept")), "1 of 1 drill kept", "kept", id="kept"),
        pytest.param(row("deaf", "broken", check("no-survivors", "broken")), "1 of 1 drill broken", "broken", id="broken"),
        pytest.param(
            row("deaf", "broken", check("no-zombies", "broken", level="should")),
            "0 of 1 drill kept, 1 broken in a SHOULD only",
            "broken in a SHOULD only",
            id="broken in a SHOULD",
        ),
        pytest.param(
            row("deaf", "broken", check("no-survivors", "broken"), expected={"no-survivors": "issue 12"}),
            "0 of 1 drill kept, 1 broken as expected",
            "broken as expected",
            id="broken as expected",
        ),
        pytest.param(
            row(
                "deaf", "broken", check("no-survivors", "broken"), check("no-late-writes", "broken"), expected={"no-survivors": "issue 12"}
            ),
            "1 of 1 drill broken",
            "broken",
            id="more broken than is expected",
        ),
        pytest.param(
            row("deaf", "inconclusive", check("no-survivors", "inconclusive")),
            "1 of 1 drill proved nothing",
            "inconclusive",
            id="inconclusive",
        ),
        pytest.param(row("deaf", "inconclusive", error="no such file"), "1 of 1 drill proved nothing", "could not be run", id="not run"),
        pytest.param(
            row("wedged", "not covered", not_covered=[{"clause": "stall-detected", "lacks": "a value of the term stall_after"}]),
            "0 of 1 drill kept, 1 not covered",
            "not covered",
            id="not covered",
        ),
    ],
)
def test_a_drill_stands_as_its_row_says(drill: dict[str, Any], headline: str, standing: str) -> None:
    page = read(drill)
    assert headline in page.words
    text = html_report.page([drill], terms=TERMS)
    assert re.findall(r'<h3 id="standing-[a-z-]+"><span class="badge [^"]*"><span aria-hidden="true">.</span> ([^<]+)</span>', text) == [
        standing
    ]


def test_what_could_not_be_run_and_what_is_not_covered_say_why() -> None:
    lacking = [{"clause": "stall-detected", "lacks": "a value of the term stall_after"}]
    words = read(row("deaf", "inconclusive", error="no such file"), row("wedged", "not covered", not_covered=lacking)).words
    assert "no such file" in words and "That is no verdict" in words
    assert "not covered: stall-detected (lacks a value of the term stall_after)" in words


def test_the_reason_for_what_is_expected_is_told() -> None:
    text = html_report.page([row("deaf", "broken", check("no-survivors", "broken"), expected={"no-survivors": "issue 12"})], terms=TERMS)
    assert "broken, as expected: issue 12" in text


def test_drills_with_other_tests_are_told_apart_and_those_of_one_are_not() -> None:
    assert "test_a" not in read(row(test="test_a")).words
    assert read(row(test="test_a"), row(test="test_b")).words.count("test_a") == 2  # in the matrix and at the drill


def test_a_run_without_drills_says_so() -> None:
    words = read().words
    assert "No drill was run" in words and "so nothing was judged" in words


def test_only_terms_that_are_not_the_defaults_have_an_origin() -> None:
    words = read(row()).words
    assert "delivery 5 s grace 2 s --grace cleanup 1 s" in words
    assert "default" not in words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "no picture: the history cannot be read", id="there is none"),
        pytest.param("{}\n", "no picture: the history cannot be read", id="it is no history"),
        pytest.param(
            '{"format":"cancel-contract-history","format_version":1,"scenario":"deaf","terms":{"grace":{"value":"soon","origin":"x"}}}\n',
            "no picture: the history cannot be drawn (BadTerm",
            id="its terms are none",
        ),
    ],
)
def test_a_history_that_cannot_be_drawn_costs_only_its_picture(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "h.jsonl"
    if content is not None:
        path.write_text(content)
    page = read(row("deaf", "broken", check("no-survivors", "broken"), history=str(path)), row_of(DEAF))
    assert words in page.words and "no-survivors was broken" in page.words
    assert "drill-2-title" in page.ids and "drill-1-title" not in page.ids


def test_words_from_outside_stay_words() -> None:
    told = check("no-survivors", "broken", observed=HOSTILE, why=HOSTILE)
    page = read(row(HOSTILE, "broken", told, wrapper=HOSTILE, history=HOSTILE, test=HOSTILE), row(test="other"))
    assert page.handlers == [] and page.wrong == []
    assert "<script>document.title = 'taken'</script>" in page.words
    assert "\x1b" not in page.words and "\\x1b[31m" in page.words and "\\udcff" in page.words


def test_words_from_outside_stay_words_in_the_pictures(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    recorded = DEAF.read_text()
    evil = "</text></svg><script>document.title=1</script>"
    path.write_text(recorded.replace('"role":"leader"', f'"role":"{evil}"').replace("SIGTERM", evil))
    page = read(row_of(path))
    assert page.wrong == [] and page.handlers == []
    assert page.words.count("<script>document.title=1</script>") > 3
    text = html_report.page([row_of(path)], terms=TERMS)
    assert text.count("<script") == 1


def test_the_same_rows_give_the_same_page(recorded_rows: list[dict[str, Any]]) -> None:
    assert html_report.page(recorded_rows, terms=TERMS) == html_report.page(recorded_rows, terms=TERMS)


def test_forty_drills_take_less_than_a_megabyte_and_a_half(recorded_rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.html"
    html_report.write(path, (recorded_rows * 4)[:40], terms=TERMS)
    assert path.stat().st_size < 1_500_000
    assert [one.name for one in path.parent.iterdir()] == ["x.html"]


def test_a_name_that_is_not_utf_8_is_written_as_its_escape(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    html_report.write(path, [row(wrapper="w\udcff")], terms=TERMS)
    assert "w\\udcff" in path.read_text(encoding="utf-8")


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.mkdir()
    with pytest.raises(OSError):
        write_whole(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["x.html"] and path.is_dir()


def test_marks_that_mean_different_things_have_different_shapes() -> None:
    assert set(_GLYPHS) == set(MarkKind)
    assert len(set(_GLYPHS.values())) == len(_GLYPHS)


def test_the_course_is_told_in_words_too_in_order_of_time() -> None:
    path = next(one for one in RECORDED if one.stem == "broken-deaf-child")
    text = html_report.page([row_of(path)], terms=TERMS)
    table = text.partition('<table class="events">')[2].partition("</table>")[0]
    events = re.findall(r"<tr><td>(\S+) s</td><td>([^<]*)</td><td>([^<]*)</td></tr>", table)
    assert len(events) > 15
    assert [float(at) for at, _, _ in events] == sorted(float(at) for at, _, _ in events)
    words = " | ".join(f"{lane}: {what}" for _, lane, what in events)
    for told in (
        "noticed SIGTERM from pid ",
        "the outcome is reported: cancelled",
        "was alive until the drill ended it",
        "says that it wrote",
        "(the first of ",
        "(the last of ",
        ": pressed: SIGTERM to the wrapper",
        ": the deadline (delivery 1 + grace 0.5 + kill_within 1; ",
    ):
        assert told in words, told


# --- Jinja2, and the wheel --------------------------------------------------------------------------------------------


def in_python(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_jinja2_it_is_told_what_to_install() -> None:
    program = (
        "import sys; sys.modules['jinja2'] = None\nfrom pytest_cancelcontract.report import html_report; print(html_report.why_not_here())"
    )
    assert in_python(program) == ("a report in HTML needs Jinja2, which is not installed here: pip install 'pytest-cancelcontract[html]'")
    assert in_python("from pytest_cancelcontract.report import html_report; print(repr(html_report.why_not_here()))") == "''"


def test_nothing_is_imported_before_a_page_is_written() -> None:
    program = "import sys\nfrom pytest_cancelcontract.report import html_report; html_report.why_not_here()"
    loaded = in_python(f"{program}\nprint(*[name for name in sys.modules if 'jinja2' in name or '.report.html' in name])")
    assert loaded == "pytest_cancelcontract.report.html_report"


def test_templates_style_and_script_are_in_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="needs hatchling: pip install hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=50)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    templates = ROOT / "pytest_cancelcontract" / "report" / "html" / "templates"
    shipped = {f"pytest_cancelcontract/report/html/templates/{one.name}" for one in templates.iterdir()}
    assert len(shipped) == 4 and shipped <= set(names)


def test_what_fails_the_run_stands_above_the_drills_and_nothing_where_nothing_does() -> None:
    rows = [row("deaf", "kept", check("no-survivors", "kept"))]
    told = "known.toml:1: deaf:no-survivors is broken no more, it is <kept>: take the entry out"
    text = html_report.page(rows, terms=TERMS, gate=[told])
    page = Reader(text)
    assert page.wrong == [] and page.open == []
    assert page.words.index("1 of 1 drill kept, but the run fails") < page.words.index(told) < page.words.index("Scenarios and clauses")
    assert "<title>1 of 1 drill kept, but the run fails" in text and 'class="red"' in text
    green = html_report.page(rows, terms=TERMS)
    assert "fails the run" not in green and "the run fails" not in green and 'class="red"' not in green
