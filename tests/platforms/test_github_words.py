"""Workflow commands and Markdown, from hand-made data: read back as GitHub's own parsers read them, whatever stands in them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cancelcontract.report.github import Annotation, annotation_of, escaped, step_summary
from pytest_cancelcontract.report.text import plain

HOSTILE = "a|b, c%0A`d`: <img src=x onerror=alert(1)> [x](http://e.vil) **e** \\ & &lt; ::error::no #1 @all ~~f~~ www.e.vil _g_"


def parsed(command: str) -> tuple[dict[str, str], str]:
    """A workflow command as the runner reads it: split at the first ``::``, then at commas and ``=``, then unescaped."""
    assert command.splitlines() == [command]
    head, _, data = command.removeprefix("::error ").partition("::")
    properties = dict(one.split("=", 1) for one in head.split(","))
    return {name: unescaped(value.replace("%3A", ":").replace("%2C", ",")) for name, value in properties.items()}, unescaped(data)


def unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


@given(title=st.text(min_size=1), words=st.text(max_size=500), path=st.text(min_size=1), line=st.integers(1, 10**6))
def test_whatever_an_annotation_says_is_one_line_that_reads_back(title: str, words: str, path: str, line: int) -> None:
    properties, data = parsed(str(Annotation(title, words, path, line)))
    assert properties == {"file": plain(path), "line": str(line), "title": plain(title)}
    assert data == plain(words)


def test_an_annotation_without_a_place_names_none() -> None:
    assert str(Annotation("50%, or: less", "a\nb")) == "::error title=50%25%2C or%3A less::a%0Ab"


def test_endless_words_are_cut() -> None:
    assert len(str(Annotation("t", "x" * 10**6))) < 10_000


BROKEN = "cancel contract broken: deaf:no-survivors\n  observed  seen"
LATE = "cancel contract broken: deaf:no-late-writes\n  observed  changed"


@pytest.mark.parametrize(
    ("message", "title", "words"),
    [
        pytest.param(BROKEN, "cancel contract broken: deaf:no-survivors", "  observed  seen", id="one check"),
        pytest.param(
            f"{BROKEN}\n\n{LATE}",
            "cancel contract broken: deaf:no-survivors (and 1 more)",
            f"  observed  seen\n\n{LATE}",
            id="two checks",
        ),
        pytest.param("OSError: no\nmore", "cancel contract not judged: test_it[deaf]", "OSError: no\nmore", id="no check"),
    ],
)
def test_the_title_names_the_first_check_and_counts_the_others(message: str, title: str, words: str) -> None:
    assert annotation_of(message, "test_it[deaf]") == Annotation(title, words)


# ---------------------------------------------------------------------- the summary


def markdown(text: str) -> list[Any]:
    """The blocks that a parser of GitHub's tables sees."""
    markdown_it = pytest.importorskip("markdown_it", reason="needs markdown-it-py: pip install markdown-it-py")
    tokens: list[Any] = markdown_it.MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").parse(text)
    return tokens


def table(text: str) -> list[list[str]]:
    """The cells of the only table, as text; what is no plain text (or bold) is shown by its kind."""
    rows: list[list[str]] = []
    for token in markdown(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and token.level == 4:
            rows[-1].append("".join(child.content if child.type == "text" else f"<{child.tag}>" for child in token.children))
    return rows


def row(scenario: str = "deaf", verdict: str = "kept", **more: Any) -> dict[str, Any]:
    measured = {"delivery_s": 0.0123, "cancel_to_gone_s": 1.5, "late_writes": 0, "late_tokens": 7}
    return {"scenario": scenario, "verdict": verdict, "measured": measured, "checks": [], "test": "test_x.py::test_it", **more}


def check(clause: str, verdict: str, level: str = "must") -> dict[str, Any]:
    return {"clause": clause, "verdict": verdict, "level": level, "observed": "seen", "why": ""}


def test_the_matrix_has_a_column_for_each_clause_that_is_not_kept_somewhere() -> None:
    checks = [check("no-survivors", "broken"), check("no-zombies", "inconclusive", "should"), check("grace-bounded", "kept")]
    rows = [
        row(verdict="broken", checks=checks),
        row("polite", checks=[check("no-survivors", "kept"), check("grace-bounded", "kept")]),
        row("daemon", "broken", checks=[check("no-survivors", "broken")], expected={"no-survivors": "ticket 1"}),
        row("chatty", "inconclusive", error="it was not started", measured={}),
    ]
    text = step_summary([(one, "") for one in rows], [])
    assert text.startswith("### Cancel contract: 4 drills: 1 broken, 1 kept, 1 broken as expected, 1 could not be run\n")
    measured = ["+0.012 s", "+1.500 s", "-", "0", "7", "-"]
    assert table(text) == [
        ["scenario", "verdict", "no-survivors", "no-zombies", "delivered", "gone", "reported", "late writes", "late tokens", "survivors"],
        ["deaf", "broken", "<strong>broken<strong>", "<strong>inconclusive<strong> (SHOULD)", *measured],
        ["polite", "kept", "kept", "", *measured],
        ["daemon", "broken as expected", "broken as expected", "", *measured],
        ["chatty", "could not be run", "", "", *["-"] * 6],
    ]
    assert r"Kept wherever judged: grace\-bounded" in text and r"expected broken\: daemon\:no\-survivors" in text


def test_a_hostile_name_stays_in_its_cell_and_is_shown_as_it_is() -> None:
    text = step_summary([(row(test=f"x.py::test_it[{HOSTILE}]"), ""), (row(test="x.py::test_other"), "")], [HOSTILE + "\nnext"])
    found = table(text)
    assert [len(line) for line in found] == [9, 9, 9]
    assert found[1][0] == f"x.py::test_it[{HOSTILE}]"
    items = [token for token in markdown(text) if token.type == "inline" and token.level == 3]
    assert [child.type for child in items[0].children] == ["text"] and items[0].children[0].content == f"{HOSTILE} next"
    assert not [token for token in markdown(text) if token.type == "html_block"]


@given(st.text(min_size=1).filter(lambda text: text.split() and plain(text).split() != []))
def test_whatever_is_escaped_is_plain_text(text: str) -> None:
    (paragraph,) = [token for token in markdown(f"x {escaped(text)}") if token.type == "inline"]
    assert "".join(child.content for child in paragraph.children) == f"x {' '.join(plain(text).split())}"
    assert {child.type for child in paragraph.children} <= {"text"}


def test_words_stay_in_their_block_whatever_they_say() -> None:
    words = f"observed ``` and\n````\n</details>\n# no heading\n{HOSTILE}"
    text = step_summary([(row("deaf", "broken", test="x.py::test_it[</summary>\n\n# no]"), words)], [])
    blocks = markdown(text)
    assert [token.content for token in blocks if token.type == "fence"] == [words + "\n"]
    assert [token.markup for token in blocks if token.type == "heading_open"] == ["###"]
    opened, closed = (token.content for token in blocks if token.type == "html_block")
    assert re.fullmatch(r"<details open><summary>[^<]*</summary>\n?", opened) and closed == "</details>\n"


def test_the_summary_ends_where_github_would_show_nothing_of_it() -> None:
    drills = [(row(f"s{number}", "broken"), "x" * 1000) for number in range(100)]
    text = step_summary(drills, [], most_bytes=50_000)
    shown = text.count("<details")
    assert 10 < shown < 100 and len(text.encode()) <= 50_000
    assert text.endswith(f"The words of {100 - shown} more are left out here; they are in the step's log.\n")
    assert text.count("<details open") == 1
    assert step_summary(drills, []).count("<details") == 100


def test_a_run_without_drills_says_so() -> None:
    assert step_summary([], ["it is gone"]) == "### Cancel contract: no drill was run\n\n**What fails the run**\n\n- it is gone\n"
