"""The page in a real browser: where things stand, that the filters work, who can read it, and that it asks nobody for anything."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.clauses.members import said_at_s
from pytest_cancelcontract.history import TERMINAL, History, load
from pytest_cancelcontract.report import html_report
from pytest_cancelcontract.report.html.shapes import MarkKind
from pytest_cancelcontract.terms import settle_terms
from tests.html.conftest import RECORDED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# One group: under xdist a single worker starts the browser.
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]
TERMS = settle_terms({"grace": (0.5, "--grace")}).as_dict()
NARROW = {"width": 390, "height": 844}
PIXEL = 1.0
OPEN = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, headless; its loop runs in this thread as long as it is open, so it is closed with the module."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, recorded_rows: list[dict[str, Any]]) -> Path:
    """The report of all recorded histories."""
    path = tmp_path_factory.mktemp("report") / "x.html"
    html_report.write(path, recorded_rows, terms=TERMS)
    return path


@pytest.fixture
def open_page(browser: Browser, report: Path) -> Iterator[OPEN]:
    """A function that opens the report (or another file), as Playwright's ``new_context`` is told; all is closed behind the test."""
    contexts = []

    def open(path: Path = report, **how: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **how})
        contexts.append(context)
        page = context.new_page()
        page.goto(path.as_uri())
        return page

    yield open
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def still_page(browser: Browser, report: Path) -> Iterator[Page]:
    """The report, opened once for all tests that only look."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(report.as_uri())
    yield page
    context.close()


# --- Where things stand -----------------------------------------------------------------------------------------------

WHAT_IS_DRAWN = """svg => {
  const left = svg.getBoundingClientRect().left, of = (one) => one.getBoundingClientRect();
  const lane = (one) => one.closest("[data-lane]")?.dataset.lane ?? "";
  const row = (one) => [...svg.querySelectorAll("[data-lane]")].indexOf(one.closest("[data-lane]"));
  const seen = {...svg.dataset, width: of(svg).width, marks: [], bars: []};
  for (const one of svg.querySelectorAll("[data-at-s]")) {
    const box = of(one);
    seen.marks.push({kinds: [...one.classList], lane: lane(one), row: row(one), at: +one.dataset.atS, x: box.left + box.width / 2 - left});
  }
  for (const one of svg.querySelectorAll("rect[data-since-s]")) {
    const box = of(one);
    seen.bars.push({kinds: [...one.classList], lane: lane(one), row: row(one), since: +one.dataset.sinceS, until: +one.dataset.untilS,
                    left: box.left - left, right: box.right - left});
  }
  return seen;
}"""


def place_of(drawn: dict[str, Any]) -> Callable[[float], float]:
    """Where a time stands by the scale that the document itself tells, in pixels from the picture's left."""
    since_s, until_s = float(drawn["sinceS"]), float(drawn["untilS"])
    return lambda at_s: (at_s - since_s) * drawn["width"] / (until_s - since_s)


def picture_of(page: Page, number: int) -> dict[str, Any]:
    """What is drawn of the drill of that number."""
    drawn: dict[str, Any] = page.locator(f"#drill-{number} svg.course").evaluate(WHAT_IS_DRAWN)
    return drawn


def told_by(history: History) -> list[tuple[str, str, float]]:
    """What every picture must show, read from the history alone: a kind of mark, part of its lane's detail, and when it was."""
    first = [one.subject for one in history.of("lifeline", "hello")]
    found = [("died", one.subject, one.at_s) for one in history.of("process-table", "died") if one.subject in first]
    found += [("notice", one.subject, said_at_s(one)) for one in history.of("lifeline", "notice")]
    found += [("start", one.subject, said_at_s(one)) for one in history.of("lifeline", "hello")]
    found += [("told-write", "", said_at_s(one)) for one in history.of("lifeline", "wrote")]
    found += [("beat", "", at_s) for one in history.of("engine", "heartbeats") for at_s in one.data["moments"]]
    found += [("reported", "", one.at_s) for one in history.of("outcome", "answer") if one.data["outcome"] in TERMINAL][:1]
    found += [("pressed", "", one.at_s) for one in history.of("adapter", "pressed", "disrupted")]
    found += [(_ENDINGS[one.kind], "", one.at_s) for one in history.of("meter", "ended", "disconnected", "cancelled")]
    return found


_ENDINGS = {"ended": "done", "disconnected": "disconnected", "cancelled": "cancelled"}
KINDS = {"died": {"killed", "ended", "drill"}}
CROWD = 4.5


@pytest.mark.parametrize(
    ("number", "path"),
    [
        pytest.param(n, path, id=path.stem, marks=() if path.stem in {"broken-keeps-spending", "kept-bystander"} else pytest.mark.slow)
        for n, path in enumerate(RECORDED, 1)
    ],
)
def test_what_the_history_tells_stands_where_it_was_within_a_pixel(still_page: Page, number: int, path: Path) -> None:
    history, drawn = load(path), picture_of(still_page, number)
    place = place_of(drawn)
    acted = history.first("adapter", "cancel-returned")
    assert len(drawn["marks"]) > 10
    for kind, subject, at_s in told_by(history):
        if kind == "pressed" and acted is not None and acted.data.get("acted_at_s"):
            at_s = acted.data["acted_at_s"]
        if at_s < float(drawn["sinceS"]):
            continue
        marks = [one for one in drawn["marks"] if KINDS.get(kind, {kind}).intersection(one["kinds"])]
        distance = min((abs(one["x"] - place(at_s)) for one in marks), default=math.inf)
        # Of marks that come in crowds, one stands for those right behind it.
        assert distance <= (CROWD if kind in {"told-write", "beat"} else PIXEL), (kind, subject, at_s)


@pytest.mark.parametrize("number", [pytest.param(n, id=path.stem) for n, path in enumerate(RECORDED, 1)])
def test_everything_drawn_stands_at_its_own_time_within_a_pixel(still_page: Page, number: int) -> None:
    drawn = picture_of(still_page, number)
    place = place_of(drawn)
    assert len(drawn["bars"]) > 4
    for one in drawn["marks"]:
        assert one["x"] == pytest.approx(place(one["at"]), abs=PIXEL), one
    for one in drawn["bars"]:
        least = max(place(one["since"]), 0.0)
        edge = 1.0 if {"overdue", "gap", "unproven"}.intersection(one["kinds"]) else 0.0  # half of the outline, on each side
        assert one["left"] == pytest.approx(least, abs=PIXEL + edge / 2), one
        assert one["right"] == pytest.approx(max(place(one["until"]), least + 1), abs=PIXEL + edge / 2), one


def test_a_process_has_its_marks_in_its_own_lane(still_page: Page) -> None:
    page = still_page
    number, path = next((n, path) for n, path in enumerate(RECORDED, 1) if path.stem == "broken-deaf-child")
    history, drawn = load(path), picture_of(page, number)
    details = page.locator(f"#drill-{number} .names li .name").all_text_contents()
    for died in history.of("process-table", "died"):
        (row,) = [row for row, text in enumerate(details) if text.endswith(f"pid {died.subject.partition(':')[0]}")]
        (end,) = [one for one in drawn["marks"] if one["row"] == row and KINDS["died"].intersection(one["kinds"])]
        assert end["at"] == pytest.approx(died.at_s, abs=1e-5)


BESIDE = """article => {
  const names = [...article.querySelectorAll(".names li")], lanes = [...article.querySelectorAll("svg.course [data-lane]")];
  const middle = (one) => { const box = one.getBoundingClientRect(); return (box.top + box.bottom) / 2; };
  return {
    count: [names.length, lanes.length],
    names: names.map((one) => one.querySelector(".name").firstChild.textContent.trim()),
    lanes: lanes.map((one) => one.dataset.lane),
    // A lane in which nothing is drawn has no place.
    apart: lanes.map((one, i) => one.getBoundingClientRect().height ? Math.abs(middle(one) - middle(names[i])) : 0),
    height: names[0].getBoundingClientRect().height,
  };
}"""


def test_names_stand_beside_their_lanes(still_page: Page) -> None:
    for article in still_page.locator("article.drill").all():
        found = article.evaluate(BESIDE)
        assert found["count"][0] == found["count"][1] > 4
        assert found["names"] == found["lanes"]
        assert max(found["apart"]) < found["height"] / 2


OVERLAPS = """svg => {
  const texts = [...svg.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  const found = [];
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3) found.push([a, b]);
  }));
  const box = svg.getBoundingClientRect(), sides = getComputedStyle(svg);
  const left = box.left - parseFloat(sides.marginLeft), right = box.right + parseFloat(sides.marginRight);
  for (const [a, p] of texts) {
    if (p.left < left - 1 || p.right > right + 1 || p.bottom > box.bottom + 1 || p.top < box.top - 1) found.push([a, "the edge"]);
  }
  return found;
}"""


def test_no_label_lies_on_another_or_is_cut_off(still_page: Page) -> None:
    page = still_page
    for number, path in enumerate(RECORDED, 1):
        assert page.locator(f"#drill-{number} svg.course").evaluate(OVERLAPS) == [], path.stem


def test_what_went_on_too_long_is_told_by_a_pattern_and_a_sign_and_not_by_colour_alone(still_page: Page) -> None:
    page = still_page
    bars = page.locator("svg.course .bar.overdue")
    assert bars.count() > 3
    for bar in bars.all():
        assert "#hatch" in bar.evaluate("one => getComputedStyle(one).fill")
    graves = page.locator(".names .grave .note").all_text_contents()
    assert graves and all(text.startswith("✕ ") for text in graves)


# --- Nothing from elsewhere, and nothing needed -----------------------------------------------------------------------


def test_no_request_leaves_the_page(browser: Browser, report: Path) -> None:
    context = browser.new_context()
    asked: list[str] = []
    said: list[str] = []

    def refuse(route: Any) -> None:
        if route.request.url == report.as_uri():
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    context.route("**/*", refuse)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(report.as_uri())
    page.get_by_role("button", name="broken").first.click()
    # The policy in the page would refuse what it does not allow, and say so.
    policy = page.evaluate("fetch('data:,x').then(() => 'allowed', () => 'refused')")
    context.close()
    assert asked == [] and policy == "refused"
    assert [text for text in said if "data:,x" not in text] == []


def test_without_javascript_everything_is_there_to_read(open_page: OPEN, recorded_rows: Sequence[dict[str, Any]]) -> None:
    page = open_page(java_script_enabled=False)
    assert not page.locator("#filters").is_visible()
    assert [one.is_visible() for one in page.locator("article.drill").all()] == [True] * len(recorded_rows)
    assert [one.is_visible() for one in page.locator("svg.course").all()] == [True] * len(recorded_rows)
    # A browser tells the inner text only of what is in sight already; all of it is laid out where it is scrolled to.
    assert [one.is_visible() for one in page.locator(".failing dd").all()] == [True] * page.locator(".failing dd").count() != []
    text = page.locator("main").text_content() or ""
    for row in recorded_rows:
        for check in row["checks"]:
            if check["verdict"] == "broken":
                assert all(check[field] in text for field in ("observed", "expected", "why", "try"))
    page.get_by_text("The same in words").first.click()
    assert page.locator("table.events").first.is_visible()


def test_words_from_a_history_are_never_run(open_page: OPEN, tmp_path: Path) -> None:
    evil = "</script></style><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    fields = {"observed": evil, "expected": evil, "why": evil, "try": evil, "seen_by": evil, "lacks": ""}
    check = {"clause": "no-survivors", "level": "must", "verdict": "broken", "spoilt": False, **fields}
    row = {
        "test": evil,
        "scenario": evil,
        "verdict": "broken",
        "checks": [check],
        "wrapper": evil,
        "history": evil,
        "machine": {"system": evil},
    }
    html_report.write(tmp_path / "x.html", [row], terms={"grace": {"value": 1.0, "origin": evil}})
    page = open_page(tmp_path / "x.html")
    assert page.title().startswith("1 of 1 drill broken")
    assert page.locator("article.drill dd", has_text=evil).first.is_visible()


# --- Filters and keys -------------------------------------------------------------------------------------------------


def shown(page: Page) -> list[str]:
    """The scenarios that are shown, by the matrix; the drills below must be the same."""
    rows = [one.inner_text() for one in page.locator("tr.row:visible th").all()]
    names = sorted(text.partition(" ")[2].partition(",")[0].strip() for text in rows)
    drills = sorted(one.get_attribute("data-name") or "" for one in page.locator("article.drill:visible").all())
    assert names == [name.strip() for name in drills]
    return names


def ids(*prefixes: str) -> list[str]:
    """The scenarios of the recorded histories whose names begin like that."""
    return sorted(path.stem.partition("-")[2] for path in RECORDED if path.stem.startswith(prefixes))


def test_filters_by_standing_name_and_clause(open_page: OPEN, recorded_rows: Sequence[dict[str, Any]]) -> None:
    page = open_page()
    assert shown(page) == ids("kept", "broken")
    page.locator("button[data-standing=broken]").click()
    assert shown(page) == sorted(row["scenario"] for row in recorded_rows if row["verdict"] == "broken") != []
    assert page.locator("#shown").inner_text() == f"{len(shown(page))} of {len(RECORDED)} drills"
    page.locator("#name").fill("DEAF")
    assert shown(page) == ["deaf-child"]
    page.locator("button[data-standing='']").click()
    assert shown(page) == ["deaf", "deaf-child"]
    page.locator("#name").fill("")
    page.locator("#clause").select_option("fresh-start")
    assert shown(page) == ["second-run"]
    assert page.locator(".chosen").count() == 1 + len(RECORDED)
    # With a clause chosen, the other filter is about how that clause stands.
    page.locator("#clause").select_option("no-survivors")
    page.locator("button[data-standing=kept]").click()
    kept = [
        row["scenario"]
        for row in recorded_rows
        if any(one["clause"] == "no-survivors" and one["verdict"] == "kept" for one in row["checks"])
    ]
    assert shown(page) == sorted(kept) != []
    page.locator("#name").fill("nothing is called that")
    assert shown(page) == [] and page.get_by_text("No drill is like that").is_visible()
    assert page.locator("section.standing:visible").count() == 0


def focused(page: Page) -> str:
    """The text of what has the focus."""
    return str(page.evaluate("document.activeElement.textContent.replace(/\\s+/g, ' ').trim()"))


def tab_to(page: Page, wanted: str, at_most: int = 60) -> None:
    """Press the tabulator until something has the focus whose text begins like that."""
    for _ in range(at_most):
        page.keyboard.press("Tab")
        if focused(page).startswith(wanted):
            return
    pytest.fail(f"no way to {wanted!r} by the keyboard; the last one was {focused(page)!r}")


def test_all_of_it_works_by_the_keyboard(open_page: OPEN) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the drills"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#drills"
    page.reload()
    tab_to(page, "✕ broken")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert "deaf" not in shown(page) and "daemon" in shown(page)
    tab_to(page, "✕no-survivors broken")
    page.keyboard.press("Enter")
    target = page.locator(":target")
    # Of what is shown the first in the matrix that breaks it.
    assert target.get_attribute("aria-label") == "daemon:no-survivors"
    assert target.evaluate("one => { const box = one.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight; }")


def test_the_focus_is_seen(open_page: OPEN) -> None:
    page = open_page()
    tab_to(page, "all")
    width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
    assert width >= 2 and page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


# --- Who can read it --------------------------------------------------------------------------------------------------


def test_pictures_links_and_tables_have_names(still_page: Page) -> None:
    page = still_page
    assert page.get_by_role("img", name="Timeline of deaf, kept").count() == 1
    assert page.get_by_role("img", name="Timeline of daemon, broken").count() == 1
    assert page.get_by_role("img").count() == len(RECORDED)
    assert page.get_by_role("table", name="How each clause stands in each scenario").count() == 1
    nameless = page.evaluate("""() => {
      const named = (one) => one.getAttribute("aria-label")
        || (one.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent.trim()).join("")
        || (["A", "BUTTON"].includes(one.tagName) && one.textContent.trim())
        || (["SELECT", "INPUT"].includes(one.tagName) && one.closest("label")?.textContent.trim());
      const found = [...document.querySelectorAll("a, button, select, input, section, article, form, figure .scroll, [role]")];
      return [found.length, found.filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 80))];
    }""")
    assert nameless[0] > 60 and nameless[1] == []
    snapshot = page.locator("article#drill-1").aria_snapshot()
    assert "img" in snapshot and 'region "Timeline of daemon, scrolls sideways"' in snapshot


CONTRAST = """() => {
  const parse = (text) => { const found = text.match(/[\\d.]+/g).map(Number); return found.length < 4 ? [...found, 1] : found; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found[3] > 0.99) return found;
    }
    return parse(getComputedStyle(document.body).backgroundColor);
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || ["SCRIPT", "STYLE", "OPTION", "title", "desc"].includes(one.tagName) || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const a = light(parse(one.tagName === "text" ? style.fill : style.color));
    const b = light(ground(one));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([one.textContent.trim().slice(0, 30), one.outerHTML.slice(0, 60), Math.round(ratio * 100) / 100]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_stand_out_from_their_ground(open_page: OPEN, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (red + green + blue < 150) == (scheme == "dark")
    assert page.evaluate(CONTRAST) == []


def test_on_a_narrow_screen_only_the_boxes_scroll_sideways(open_page: OPEN) -> None:
    page = open_page(viewport=NARROW, device_scale_factor=2)
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    for box in page.locator("figure .scroll").all():
        wide, seen = box.evaluate("one => [one.scrollWidth, one.clientWidth]")
        assert wide > seen
    # By the keyboard, too; and the lanes' names stay in sight.
    box = page.locator("figure .scroll").first
    box.focus()
    box.evaluate("one => one.addEventListener('scroll', () => { one.dataset.scrolled = one.scrollLeft > 10; })")
    page.keyboard.press("ArrowRight")
    page.locator("figure .scroll[data-scrolled=true]").wait_for()
    name = box.locator(".names li").first.bounding_box()
    assert name is not None and name["x"] >= 0


@pytest.mark.slow
def test_on_paper_the_filters_are_gone_and_nothing_is_cut_off(open_page: OPEN) -> None:
    page = open_page(color_scheme="dark", viewport={"width": 1046, "height": 720})
    page.emulate_media(media="print")
    assert not page.locator("#filters").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert [one.is_visible() for one in page.locator("article.drill").all()] == [True] * len(RECORDED)
    for box in page.locator("figure .scroll").all():
        right = box.evaluate("one => one.querySelector('svg.course').getBoundingClientRect().right")
        assert right <= 1046
    assert len(page.pdf(prefer_css_page_size=True)) > 10_000


def test_the_key_shows_the_marks_that_it_names(still_page: Page) -> None:
    page = still_page
    key = page.locator(".key.pictured")
    assert key.is_visible() and "killed, not by the drill" in key.inner_text()
    for kind in (MarkKind.KILLED, MarkKind.ENDED, MarkKind.DRILL, MarkKind.NOTICE):
        box = key.locator(f"use.{kind}").bounding_box()
        assert box is not None and box["width"] > 4


@pytest.mark.parametrize("width", [1000, *(pytest.param(one, marks=pytest.mark.slow) for one in (1280, 1440)), 1920])
def test_a_wide_screen_is_used_and_everything_stands_at_its_time_all_the_same(open_page: OPEN, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 900})
    for number, path in enumerate(RECORDED, 1):
        drawn = picture_of(page, number)
        place = place_of(drawn)
        assert max(abs(one["x"] - place(one["at"])) for one in drawn["marks"]) <= PIXEL, path.stem
        assert page.locator(f"#drill-{number} svg.course").evaluate(OVERLAPS) == [], path.stem
    article, picture = page.locator("#drill-1"), page.locator("#drill-1 svg.course")
    # To the right of the picture there is but the room for its last labels, and the drill's own padding.
    free = picture.evaluate("one => one.closest('article').getBoundingClientRect().right - one.getBoundingClientRect().right")
    assert free < 104 + 24
    assert article.evaluate("one => innerWidth - one.getBoundingClientRect().right") <= 40
    further = article.locator(".further .failing").all()
    assert len(further) == 2 and (box := further[-1].bounding_box()) is not None
    assert width < 1100 or box["x"] + box["width"] > width - 80
