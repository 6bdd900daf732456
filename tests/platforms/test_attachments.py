"""What pytest-html and Allure are given of a failing drill, in real runs of both."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from pytest_cancelcontract.history import load
from pytest_cancelcontract.report import attachments
from tests.html.conftest import RECORDED, row_of
from tests.html.test_html_in_browser import browser
from tests.platforms.conftest import BROKEN_TEST, Team
from tests.plugin.conftest import FAST, Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]
BROKEN = next(path for path in RECORDED if path.name == "broken-deaf-child.jsonl")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


# ---------------------------------------------------------------------- pytest-html


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--self-contained-html", "-n", "2")], ids=["alone", "in one file, two workers"])
def test_pytest_html_shows_a_failing_drills_page_and_links_its_history(
    pytester: pytest.Pytester, team: Team, run: Run, page: Page, words: tuple[str, ...]
) -> None:
    from playwright.sync_api import expect

    pytest.importorskip("pytest_html", reason="needs pytest-html: pip install pytest-html")
    team(BROKEN_TEST)
    report = pytester.path / "out" / "report.html"
    run(*FAST, "--html=out/report.html", *words).assert_outcomes(passed=1, failed=1)
    page.goto(report.as_uri())
    page.get_by_text("Show all details").click()
    (frame,) = page.frames[1:]
    frame.wait_for_selector("figure svg")
    assert frame.title().startswith("1 of 1 drill broken")
    observed = frame.locator("#drill-1-no-survivors dd").first
    observed.scroll_into_view_if_needed()  # what is out of sight is not laid out, and has no text to be read
    expect(observed).to_contain_text(" running ", use_inner_text=True)
    assert page.locator("iframe").get_attribute("title") == "cancel drill deaf-child"
    (link,) = page.locator("td.col-links a").all()
    assert link.inner_text() == "history of deaf-child"
    address = link.evaluate("link => link.href")
    assert load(unquote(urlsplit(address).path)).header["scenario"] == "deaf-child"


@pytest.mark.slow
def test_without_a_report_to_write_pytest_html_is_given_nothing(team: Team, run: Run, pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_html", reason="needs pytest-html: pip install pytest-html")
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if report.when == "call":
                print("extras", getattr(report, "extras", []), hasattr(report, "cancelcontract"))
        """
    )
    team(BROKEN_TEST.replace('"polite", ', ""))
    result = run(*FAST, "-s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*extras [[]] True"])


@pytest.mark.parametrize("text", ["</iframe><script>bad()</script>", '" onload="bad()', "&quot; &amp;"])
def test_nothing_in_a_drill_leaves_its_frame(text: str, page: Page) -> None:
    row = row_of(BROKEN, wrapper=text, scenario=f"deaf-child{text}")
    row["checks"] = [{**check, "observed": text} for check in row["checks"]]
    embedded = attachments.embedded(row, "")
    asked: list[str] = []
    page.on("console", lambda message: asked.append(message.text))
    page.expose_function("bad", lambda: asked.append("bad was called"))
    page.set_content(f"<main>{embedded}</main>")
    (frame,) = page.frames[1:]
    frame.wait_for_selector("h1")
    assert page.locator("main > *").count() == 1 and page.locator("iframe").get_attribute("title") == f"cancel drill deaf-child{text}"
    assert frame.locator(".wrapper code").inner_text() == text
    assert [one for one in asked if "bad" in one] == []


def test_a_link_leads_to_a_history_whatever_its_folder_is_called(tmp_path: Path) -> None:
    history = tmp_path / 'a "b" <c> #d?%20' / "deaf.jsonl"
    name, address = attachments.link_to_history({"scenario": "<deaf>", "history": str(history)}, tmp_path / "out") or ("", "")
    assert name == "history of &lt;deaf&gt;" and not set('"<>?# ') & set(address)
    assert (tmp_path / "out" / unquote(html.unescape(address))).resolve() == history
    assert attachments.link_to_history({"scenario": "deaf", "history": None}, tmp_path) is None


def test_words_stand_in_for_a_page_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    row = {"scenario": "deaf", "verdict": "broken"}
    assert attachments.page_of(row) == ""
    assert attachments.embedded(row, "a <b>\x1b") == "<pre>a &lt;b&gt;\\x1b</pre>"


# ---------------------------------------------------------------------- Allure


def result_of(folder: Path, name: str) -> dict[str, Any]:
    results: list[dict[str, Any]] = [json.loads(path.read_text()) for path in folder.glob("*-result.json")]
    (result,) = [one for one in results if one["name"] == name]
    return result


def attached(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result_of(folder, name).get("attachments", [])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_allure_has_the_words_the_picture_and_the_history_of_a_failing_drill(
    pytester: pytest.Pytester, team: Team, run: Run, words: tuple[str, ...]
) -> None:
    pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install allure-pytest")
    team(BROKEN_TEST)
    run(*FAST, "--alluredir=out", *words).assert_outcomes(passed=1, failed=1)
    folder = pytester.path / "out"
    assert attached(folder, "test_worker[polite]") == []
    found = {one["name"]: one for one in attached(folder, "test_worker[deaf-child]")}
    assert [(name, one["type"]) for name, one in found.items()] == [
        ("cancel drill deaf-child: words", "text/plain"),
        ("cancel drill deaf-child: picture", "text/html"),
        ("cancel drill deaf-child: history", "application/x-ndjson"),
    ]
    said, picture, history = (folder / one["source"] for one in found.values())
    headings = re.findall(r"^cancel contract .*$", said.read_text(), re.MULTILINE)
    assert headings == [f"cancel contract broken: deaf-child:{clause}" for clause in ("no-survivors", "no-late-writes")]
    assert picture.read_text().count("<article") == 1 and "<svg" in picture.read_text()
    assert history.name.endswith(".jsonl") and load(history).header["scenario"] == "deaf-child"


@pytest.mark.slow
def test_for_allure_a_test_is_the_same_whatever_its_terms(pytester: pytest.Pytester, team: Team, run: Run) -> None:
    pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install allure-pytest")
    team(BROKEN_TEST.replace("BROKEN", "KEPT"))
    seen = []
    for grace in ("0.6", "0.7"):
        run(*FAST, f"--cancel-grace={grace}", f"--alluredir={grace}", "-k", "polite").assert_outcomes(passed=1, deselected=1)
        result = result_of(pytester.path / grace, "test_worker[polite]")
        seen.append((result["historyId"], result["parameters"]))
    assert seen[0] == seen[1] and seen[0][1] == [{"name": "cancel_contract", "value": "polite"}]


@pytest.mark.slow
def test_a_drill_that_could_not_be_run_has_its_words_and_no_history(pytester: pytest.Pytester, team: Team, run: Run) -> None:
    pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install allure-pytest")
    team(
        """
@pytest.mark.cancel_contract(scenarios=["polite"])
def test_it(cancel_contract):
    cancel_contract.check(CommandAdapter(["false", "{runner}"]))
"""
    )
    run(*FAST, "--alluredir=out").assert_outcomes(failed=1)
    found = {one["name"]: pytester.path / "out" / one["source"] for one in attached(pytester.path / "out", "test_it[polite]")}
    assert list(found) == ["cancel drill polite: words", "cancel drill polite: picture"]
    assert found["cancel drill polite: words"].read_text().startswith("the wrapper ended with status 1 before the runner worked")
