"""From lanes to a picture: one SVG element, drawn to scale, whose colours and fonts are the page's.

Every mark and bar carries its time (``data-at-s``, ``data-since-s`` and ``data-until-s``, on the history's clock), and the picture its
scale (``data-since-s`` is its left edge, ``data-until-s`` its right one), so that where a thing stands can be checked.

Times are places in percent, so that the picture is as wide as the page has room for; all else is in pixels. What is laid out, such as
labels that must not lie on one another, is so at the least width: a wider picture only moves things apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from pytest_cancelcontract.report.html.shapes import Bar, BarKind, Course, Lane, Level, Line, LineKind, Mark, MarkKind
from pytest_cancelcontract.report.html.spells import after
from pytest_cancelcontract.report.text import plain

PLOT = 640
"""How wide the picture is at least, in pixels; the page's style says so, too."""
LEFT, RIGHT = 8, 104
"""Room beside it, which is the page's to leave: labels at the last moments are written into the right one."""
WIDTH = LEFT + PLOT + RIGHT
LABEL_ROW, BAR, BAR_STEP, LANE_PAD = 14, 9, 12, 9
HEAD_ROW, HEAD_PAD, FOOT = 15, 6, 22
_SMALL, _CAPITAL = 6.0, 7.6
"""How wide letters of the labels are at most, on the average of a word."""
_NAME_TEXT = 6.8
"""The same for the names of lines, which are bold."""
_CROWD = 4.0
"""Marks of the same kind that stand closer than this, in pixels, are drawn as one."""
_TICK_ROOM = 60.0
_FLOOR_S = 0.02
"""A machine that is never later than this has low bars."""
_CROWDING = {MarkKind.TOLD_WRITE, MarkKind.CHANGE, MarkKind.LATE_WRITE, MarkKind.BEAT}
_THIN = {BarKind.CLEANUP: 4, BarKind.CALL: 5, BarKind.SIDE_REQUEST: 4}
_LABEL_ORDER = (
    MarkKind.KILLED,
    MarkKind.GONE,
    MarkKind.DRILL,
    MarkKind.LATE_WRITE,
    MarkKind.REPORTED,
    MarkKind.UNSEEN,
    MarkKind.ENDED,
    MarkKind.DISRUPTED,
    MarkKind.ERROR,
    MarkKind.NOTICE,
)
_LINE_ORDER = (LineKind.PRESSED, LineKind.DEADLINE, LineKind.HANDOVER)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a time stands, in pixels from the picture's left."""

    since_s: float
    until_s: float

    def x(self, at_s: float) -> float:
        """The place of a time; one before the beginning stands at the left edge."""
        share = (at_s - self.since_s) / (self.until_s - self.since_s)
        return round(LEFT + PLOT * min(max(share, 0.0), 1.0), 2)

    def shows(self, at_s: float) -> bool:
        """Whether the time lies in the picture."""
        return self.since_s <= at_s <= self.until_s


def _place(x: float) -> str:
    """A place that was laid out in pixels, as the document has it."""
    return f"{(x - LEFT) / PLOT:.4%}"


@dataclass(frozen=True, slots=True)
class _HeadLabel:
    """Lines at the same place, with what is written at them, in which row, and on which side."""

    lines: tuple[Line, ...]
    label: str
    row: int
    is_left: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn course: the SVG's text, how high its head and each lane are, and the lines for which there is no room, in words."""

    svg: str
    head: int
    heights: tuple[int, ...]
    foot: int
    beyond: tuple[str, ...]


def height_of(lane: Lane) -> int:
    """How high a lane is, in pixels."""
    return LABEL_ROW + lane.rows * BAR_STEP + LANE_PAD


def draw(course: Course, *, id: str, title: str, description: str) -> Picture:
    """Draw a course.

    Args:
        id: unlike that of any other picture on the page.
        title, description: the picture's name and its content in words, for those who do not see it.
    """
    # A drill in which nothing took any time still needs a scale.
    scale = Scale(course.since_s, max(course.until_s, course.since_s + 1e-3))
    shown = _merged([one for one in course.lines if scale.shows(one.at_s)], scale)
    labels = _head_rows(shown, scale, course.origin_s)
    head = HEAD_PAD + HEAD_ROW * (1 + max((one.row for one in labels), default=0))
    heights = tuple(height_of(lane) for lane in course.lanes)
    bottom = head + sum(heights)
    names = f"{id}-title {id}-words"
    svg = Element("svg", _given(width="100%", height=bottom + FOOT, role="img") | {"class": "course"})
    svg.set("aria-labelledby", names)
    for name, value in (("since-s", scale.since_s), ("until-s", scale.until_s), ("origin-s", course.origin_s)):
        svg.set(f"data-{name}", f"{value:.6f}")
    SubElement(svg, "title", id=f"{id}-title").text = plain(title)
    SubElement(svg, "desc", id=f"{id}-words").text = plain(description)
    _draw_ground(svg, course, scale, head, heights)
    _draw_axis(svg, course.origin_s, scale, head, bottom)
    _draw_lines(svg, labels, scale, course.origin_s, bottom)
    top, places = head, [scale.x(one.lines[0].at_s) for one in labels]
    for lane, height in zip(course.lanes, heights, strict=True):
        _draw_lane(svg, lane, scale, course.origin_s, top, places)
        top += height
    beyond = tuple(f"{plain(one.words)}: {after(course.origin_s, one.at_s)}" for one in course.lines if not scale.shows(one.at_s))
    return Picture(ElementTree.tostring(svg, encoding="unicode"), head, heights, FOOT, beyond)


def _given(**values: object) -> dict[str, str]:
    return {name.replace("_", "-"): f"{value:g}" if isinstance(value, float) else str(value) for name, value in values.items()}


def _add(parent: Element, tag: str, cls: str, **values: object) -> Element:
    return SubElement(parent, tag, {"class": cls} | _given(**values))


# --- Ground, axis and lines -------------------------------------------------------------------------------------------


def _draw_ground(svg: Element, course: Course, scale: Scale, head: int, heights: Sequence[int]) -> None:
    """Every second lane is shaded, and the lanes are where nothing may happen in them any more."""
    top = head
    for number, (lane, height) in enumerate(zip(course.lanes, heights, strict=True)):
        if number % 2:
            _add(svg, "rect", "ground", x=0, y=top, width="100%", height=height)
        if lane.over_s is not None and lane.over_s < scale.until_s:
            x = scale.x(lane.over_s)
            _add(svg, "rect", "over", x=_place(x), y=top, width=_place(LEFT + LEFT + PLOT - x), height=height)
        top += height


def _draw_axis(svg: Element, origin_s: float, scale: Scale, head: int, bottom: int) -> None:
    step_s = _tick_step(scale)
    first = math.ceil((scale.since_s - origin_s) / step_s - 1e-9)
    last = math.floor((scale.until_s - origin_s) / step_s + 1e-9)
    digits = max(0, -math.floor(math.log10(step_s) + 1e-9))
    for number in range(first, last + 1):
        x = scale.x(origin_s + number * step_s)
        _add(svg, "line", "grid", x1=_place(x), y1=head, x2=_place(x), y2=bottom + 4)
        told = f"{number * step_s:+.{digits}f} s" if number else "0 s"
        anchor = "middle" if x > LEFT + _TICK_ROOM / 3 else "start"
        _add(svg, "text", "tick", x=_place(x), y=bottom + 16, text_anchor=anchor).text = told


def _tick_step(scale: Scale) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that leaves room for the words."""
    least_s = _TICK_ROOM * (scale.until_s - scale.since_s) / PLOT
    power = 10.0 ** math.floor(math.log10(least_s))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least_s)


def _merged(lines: Sequence[Line], scale: Scale) -> list[tuple[Line, ...]]:
    """The lines from left to right; those that would stand on one another are one."""
    groups: list[tuple[Line, ...]] = []
    for line in sorted(lines, key=lambda one: one.at_s):
        if groups and scale.x(line.at_s) - scale.x(groups[-1][0].at_s) < 0.75:
            groups[-1] = (*groups[-1], line)
        else:
            groups.append((line,))
    return groups


def _line_label(group: Sequence[Line], origin_s: float) -> str:
    names = " = ".join(one.name for one in sorted(group, key=lambda one: _rank(one.kind, _LINE_ORDER)))
    at_s = group[0].at_s
    return names if at_s == origin_s else f"{names} {after(origin_s, at_s)}"


def _head_rows(groups: Sequence[tuple[Line, ...]], scale: Scale, origin_s: float) -> list[_HeadLabel]:
    """Each with its label and its row, so that no line goes through the name of another.

    A name stands right of its line, and a line further right that would cross it begins below it. Where there is no room at the right (of
    the picture, or before a line whose own name had none), it stands left of its line, above those that stand right.
    """
    placed = [(group, scale.x(group[0].at_s), _line_label(group, origin_s)) for group in groups]
    lefts, room = [], float(WIDTH)
    for one in reversed(placed):
        if one[1] + 6 + len(one[2]) * _NAME_TEXT > room:
            lefts.append(one)
            room = one[1]
    found = [_HeadLabel(group, label, row, True) for row, (group, _, label) in enumerate(lefts)]
    ends: list[float] = []
    for group, x, label in placed:
        if (group, x, label) not in lefts:
            row = max((number + 1 for number, end in enumerate(ends) if end > x), default=0)
            ends[row:] = [x + 6 + len(label) * _NAME_TEXT]
            found.append(_HeadLabel(group, label, row + len(lefts), False))
    return found


def _draw_lines(svg: Element, labels: Sequence[_HeadLabel], scale: Scale, origin_s: float, bottom: int) -> None:
    for one in labels:
        top = HEAD_PAD + one.row * HEAD_ROW
        for line in one.lines:
            place = _place(scale.x(line.at_s))
            drawn = _add(svg, "line", f"line {line.kind}", x1=place, y1=top, x2=place, y2=bottom)
            drawn.set("data-at-s", f"{line.at_s:.6f}")
            SubElement(drawn, "title").text = plain(f"{line.words}, {after(origin_s, line.at_s)}")
        kind = min(one.lines, key=lambda line: _rank(line.kind, _LINE_ORDER)).kind
        side, anchor = (-4, "end") if one.is_left else (4, "start")
        place = _place(scale.x(one.lines[0].at_s))
        _add(svg, "text", f"line-name {kind}", x=place, dx=side, y=top + 10, text_anchor=anchor).text = one.label


# --- Lanes ------------------------------------------------------------------------------------------------------------


def _draw_lane(svg: Element, lane: Lane, scale: Scale, origin_s: float, top: int, lines: Sequence[float]) -> None:
    group = _add(svg, "g", f"lane {lane.kind}{' grave' if lane.is_grave else ''}")
    group.set("data-lane", plain(lane.name))
    if lane.levels:
        _draw_levels(group, lane.levels, scale, top)
    for bar in lane.bars:
        if bar.until_s >= scale.since_s:
            _draw_bar(group, bar, scale, origin_s, top)
    marks = list(_uncrowded([one for one in lane.marks if scale.shows(one.at_s)], scale))
    for mark, count in marks:
        _draw_mark(group, mark, count, scale, origin_s, _mark_y(lane, mark, top))
    for x, anchor, label, cls in _labels(lane, [mark for mark, _ in marks], scale, lines):
        _add(group, "text", f"label {cls}", x=_place(x), y=top + 11, text_anchor=anchor).text = label


def _draw_bar(group: Element, bar: Bar, scale: Scale, origin_s: float, top: int) -> None:
    x, until_x = scale.x(bar.since_s), scale.x(bar.until_s)
    height = _THIN.get(bar.kind, BAR)
    y = top + LABEL_ROW + bar.row * BAR_STEP + 1 + (BAR - height) // 2
    cut = " cut" if bar.since_s < scale.since_s else ""
    width = _place(LEFT + until_x - x) if until_x - x > 1 else "1"
    drawn = _add(group, "rect", f"bar {bar.kind}{cut}", x=_place(x), y=y, width=width, height=height)
    drawn.set("data-since-s", f"{bar.since_s:.6f}")
    drawn.set("data-until-s", f"{bar.until_s:.6f}")
    SubElement(drawn, "title").text = plain(f"{bar.words}, from {after(origin_s, bar.since_s)} to {after(origin_s, bar.until_s)}")


def _mark_y(lane: Lane, mark: Mark, top: int) -> float:
    """The middle of the bar that the mark stands on, which is the one that it ends, or the first."""
    row = next((bar.row for bar in lane.bars if mark.at_s in (bar.until_s, bar.since_s)), 0)
    return top + LABEL_ROW + row * BAR_STEP + 1 + BAR / 2


def _draw_mark(group: Element, mark: Mark, count: int, scale: Scale, origin_s: float, y: float) -> None:
    drawn = _add(group, "use", f"mark {mark.kind}", href=f"#mark-{mark.kind}", x=_place(scale.x(mark.at_s)), y=y)
    drawn.set("data-at-s", f"{mark.at_s:.6f}")
    more = f" ({count} times close together)" if count > 1 else ""
    SubElement(drawn, "title").text = plain(f"{mark.words}, {after(origin_s, mark.at_s)}{more}")


def _draw_levels(group: Element, levels: Sequence[Level], scale: Scale, top: int) -> None:
    """Bars side by side; the highest takes all the room."""
    most = max(_FLOOR_S, *(one.value_s for one in levels))
    base, room = top + LABEL_ROW + BAR + 2, BAR + 4
    drawn = _add(group, "g", "levels")
    SubElement(drawn, "title").text = f"lateness of the machine; the full height is {most * 1000:.0f} ms"
    for one in levels:
        if one.until_s > scale.since_s:
            height, x = round(room * one.value_s / most, 1), scale.x(one.since_s)
            width = _place(LEFT + scale.x(one.until_s) - x)
            SubElement(drawn, "rect", _given(x=_place(x), y=base - height, width=width, height=height))


def _uncrowded(marks: Sequence[Mark], scale: Scale) -> Iterator[tuple[Mark, int]]:
    """The marks, of those that come in crowds only what can be told apart, each with how many it stands for."""
    last: dict[MarkKind, list[Mark]] = {}
    crowds: list[list[Mark]] = []
    for mark in marks:
        crowd = last.get(mark.kind) if mark.kind in _CROWDING else None
        if crowd is not None and scale.x(mark.at_s) - scale.x(crowd[0].at_s) < _CROWD:
            crowd.append(mark)
        else:
            last[mark.kind] = [mark]
            crowds.append(last[mark.kind])
    for crowd in crowds:
        yield crowd[0], len(crowd)


def _labels(lane: Lane, marks: Sequence[Mark], scale: Scale, lines: Sequence[float]) -> Iterator[tuple[float, str, str, str]]:
    """Where labels stand, the most telling first; one for which there is no room is left to the words."""
    taken: list[tuple[float, float]] = []
    written: set[str] = set()
    for x, label, cls in _wanted(lane, marks, scale):
        if label in written and cls in {MarkKind.LATE_WRITE, MarkKind.NOTICE}:
            continue
        width = _width(label)
        sides = [(x, x + width, "start"), (x - width, x, "end")]
        free = [
            one
            for one in sides
            if one[0] >= 0 and one[1] <= WIDTH and all(one[1] + 5 <= left or right + 5 <= one[0] for left, right in taken)
        ]
        if free:
            # Better on the side on which no line goes through it.
            since, until, anchor = min(free, key=lambda one: sum(one[0] + 2 < place < one[1] - 2 for place in lines))
            taken.append((since, until))
            written.add(label)
            yield x, anchor, plain(label), cls


def _wanted(lane: Lane, marks: Sequence[Mark], scale: Scale) -> Iterator[tuple[float, str, str]]:
    for mark in sorted((one for one in marks if one.label), key=lambda one: (_rank(one.kind, _LABEL_ORDER), one.at_s)):
        yield scale.x(mark.at_s), mark.label, str(mark.kind)
    for bar in lane.bars:
        if bar.label and scale.shows(max(bar.since_s, scale.since_s)) and bar.until_s > scale.since_s:
            yield scale.x(bar.since_s), bar.label, str(bar.kind)


def _width(label: str) -> float:
    return sum(_CAPITAL if letter.isupper() else _SMALL for letter in label)


def _rank(kind: object, order: Sequence[object]) -> int:
    return order.index(kind) if kind in order else len(order)


def glyphs() -> str:
    """The shapes of all marks, for the page to hold once; each is as wide to the left of its moment as to the right."""
    return "".join(f'<symbol id="mark-{kind}" overflow="visible">{shape}</symbol>' for kind, shape in _GLYPHS.items())


_GLYPHS: dict[MarkKind, str] = {
    MarkKind.START: '<path d="M0-6.5V6.5" class="stroke"/>',
    MarkKind.WORKS: '<circle r="2" class="hollow"/>',
    MarkKind.NOTICE: '<path d="M-4.5-7.5H4.5L0 1z" class="solid"/>',
    MarkKind.STEP: '<path d="M0-4L4 0 0 4-4 0z" class="hollow"/>',
    MarkKind.ENDED: '<circle r="4" class="solid"/>',
    MarkKind.KILLED: '<path d="M-4.5-4.5L4.5 4.5M4.5-4.5L-4.5 4.5" class="stroke heavy"/>',
    MarkKind.GONE: '<circle r="4" class="hollow"/>',
    MarkKind.DRILL: '<path d="M-5-5H5V5H-5zM-2.5-2.5L2.5 2.5M2.5-2.5L-2.5 2.5" class="hollow heavy"/>',
    MarkKind.UNSEEN: '<path d="M-3-5L3 0-3 5" class="stroke heavy"/>',
    MarkKind.STOPPED: '<path d="M-2.5-5V5M2.5-5V5" class="stroke heavy"/>',
    MarkKind.DISRUPTED: '<path d="M-4.5-7.5H4.5L0 1z" class="hollow"/>',
    MarkKind.TOLD_WRITE: '<path d="M0-3.5V3.5" class="stroke"/>',
    MarkKind.CHANGE: '<path d="M-2-2H2V2H-2z" class="hollow"/>',
    MarkKind.LATE_WRITE: '<path d="M0-5.5L5.5 0 0 5.5-5.5 0z" class="solid"/>',
    MarkKind.DONE: '<circle r="3" class="solid"/>',
    MarkKind.DISCONNECTED: '<path d="M-3 5L3-5M-5 5H5" class="stroke"/>',
    MarkKind.CANCELLED: '<circle r="4" class="hollow"/><path d="M-4 0H4" class="stroke"/>',
    MarkKind.REFUSED: '<path d="M-4-4H4V4H-4z" class="hollow"/>',
    MarkKind.BEAT: '<path d="M0-4V4M-2 0H2" class="stroke"/>',
    MarkKind.REPORTED: '<path d="M-4-6H4V2L0 6-4 2z" class="solid"/>',
    MarkKind.ERROR: '<path d="M0-6L5.5 4H-5.5z" class="hollow"/>',
    MarkKind.WORST: '<path d="M-3-7H3L0-3z" class="solid"/>',
}
