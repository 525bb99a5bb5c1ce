"""A diagram of a test as SVG: batches from left to right, event time upwards; and the files of diagrams."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from headwater.errors import UsageError
from headwater.errors.catalogue.testing import TEST_DRAWING_CONFLICT, TEST_OUTPUT_UNWRITABLE
from headwater.testing.picture import (
    MICROSECOND,
    Box,
    Calendar,
    Column,
    Dot,
    Mark,
    Picture,
    RowFate,
    clock,
    cut,
)
from headwater.testing.results import TestResult
from headwater.values.durations import Duration

LETTER = 0.6
"""The width of an average letter, in sizes of the font."""
# XML cannot represent these characters.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """To a tenth of a pixel; adding zero removes the sign of a zero."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, content: str = "", /, **attributes: str | float) -> str:
    """One element; the content is already SVG, and `font_size` means `font-size`, `class_` means `class`."""
    texts = {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
    written = "".join(
        f" {name.strip('_').replace('_', '-')}={quoteattr(_UNWRITABLE.sub('�', text))}"
        for name, text in texts.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def words(text: str) -> str:
    """Text as content of an element."""
    return escape(_UNWRITABLE.sub("�", text))


def label(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    return element("text", words(text), x=x, y=y, **attributes)


def haloed(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    """Text that stays readable on top of lines."""
    halo: dict[str, str | float] = {"paint_order": "stroke", "stroke": "#fff", "stroke_width": 3}
    return label(x, y, text, **halo, stroke_linejoin="round", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(
    x: float, y: float, width: float, height: float, content: str = "", **attributes: str | float
) -> str:
    return element("rect", content, x=x, y=y, width=width, height=height, **attributes)


def points(tag: str, places: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    """A polyline or a polygon."""
    return element(tag, points=" ".join(f"{number(x)},{number(y)}" for x, y in places), **attributes)


def group(parts: Iterable[str], **attributes: str | float) -> str:
    return element("g", "\n" + "\n".join(parts) + "\n", **attributes)


def width_of(text: str, size: float) -> float:
    """The approximate width of a text; fonts differ, so rather too much."""
    return len(text) * size * LETTER


FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
PALETTE = ("#0b62b0", "#b45309", "#0f766e", "#7e3ba3", "#4d7c0f", "#9d174d")
INK, FAINT, GRID, RED = "#1f2937", "#6b7280", "#e5e7eb", "#c81e1e"
SHADE, MARK, AXIS = "#f3f4f6", "#6d28d9", "#9ca3af"
WINDOW, WINDOW_FILL = "#475569", "#eef1f5"
FATES = {
    RowFate.BEHIND: "behind the watermark (partly dropped, or unclear)",
    RowFate.DROPPED: "dropped as late",
}
TOP, BOTTOM = 96.0, 476.0
"""The edges of the plot; the title and the names of batches are above it."""
NARROWEST, LEFT, PAD, MARGIN = 420.0, 66.0, 9.0, 16.0
TAIL = 26.0
"""How far the lines extend after the last batch."""
TICK = 32.0
"""The minimum distance of two ticks."""
LINE = 18.0
"""The height of a line of counts or of the legend."""
DOT_WIDTH, LABEL_SIZE, LABEL_GAP, MOST_LABELS = 11.0, 11.0, 13.0, 23
BOX_SIZE, BOX_GAP, WIDEST_TEXT = 10.0, 4.0, 90.0
MARK_WIDTH, BATCH_WIDTH, NO_DATA_WIDTH = 22.0, 84.0, 58.0
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
STEPS = (
    *(SECOND // 1_000 * each for each in (1, 10, 100, 500)),
    *(unit * each for unit in (SECOND, MINUTE) for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12)),
    *(DAY * each for each in (1, 2, 7, 28, 91, 364)),
)
Sign = tuple[list[str], str]
"""A line of the legend: its symbol, drawn around zero in a 26 pixels wide field, and its text."""


def draw(result: TestResult, sink: str | None = None) -> str:
    """A standalone SVG of one sink's query; by default, of the first one that ran a batch."""
    return Chart(Picture.of(result, sink)).svg()


@dataclass(frozen=True)
class Axis:
    """The position of each time, the earliest at the bottom; heights count from the upper edge."""

    first: int
    last: int

    @property
    def scale(self) -> float:
        """Pixels per microsecond."""
        return (BOTTOM - TOP - 2 * MARGIN) / max(self.last - self.first, 1)

    def y(self, time: int) -> float:
        if self.first == self.last:
            return (BOTTOM + TOP) / 2
        return BOTTOM - MARGIN - (time - self.first) * self.scale

    def ticks(self, calendar: Calendar) -> Iterator[tuple[float, str]]:
        """Heights and labels of round times; days are labeled when they change."""
        step = next((each for each in STEPS if each * self.scale >= TICK), STEPS[-1])
        # Round in the time zone of the pipeline.
        offset = (calendar.local(self.first).utcoffset() or timedelta()) // MICROSECOND
        begin = -(-(self.first + offset) // step) * step - offset
        told = calendar.day
        for time in range(begin, self.last + 1, step) or [self.first]:
            local = calendar.local(time)
            day = "" if local.date() == told and step < DAY else calendar.dated(local)
            yield self.y(time), f"{day} {'' if step >= DAY else clock(local)}".strip()
            told = local.date()


class Chart:
    """One diagram, drawn part by part from left to right."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        times = picture.times
        self.axis = Axis(times[0], times[-1]) if times else None
        """None if nothing has an event time."""
        names = [name for _, name in self.axis.ticks(picture.calendar)] if self.axis else []
        self.left = max(LEFT, 20 + max((width_of(name, 11) for name in names), default=0.0))
        self.x = self.left
        """Where the next part starts."""
        self.middles: list[float] = []
        """Of the batches so far."""
        self.layers: dict[str, list[str]] = defaultdict(list)
        """What is drawn, by layer."""
        self.lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """The newest event time by source, and the watermark without one."""
        for part in picture.parts:
            self.x += self._mark(part) if isinstance(part, Mark) else self._batch(part)

    def svg(self) -> str:
        """The whole file; later elements are above earlier ones."""
        picture, right = self.picture, self.x
        ends = sorted(self._ends(), reverse=True) if self.axis else []
        tail = TAIL + max((width_of(text, LABEL_SIZE) for _, text, _ in ends), default=0.0)
        width = ceil(max(right + tail + 16, NARROWEST, min(width_of(picture.result.name, 15) + 32, 900.0)))
        counts = list(self._counts())
        signs, bottom = self._legend(BOTTOM + 34 + LINE * len(counts), width)
        height = ceil(bottom + 14)
        content = [
            element("title", words(picture.result.name)),
            element("desc", words(self._description())),
            rect(0, 0, width, height, fill="#fff"),
            *self._head(width),
            *self.layers["batches"],
            *(self._times(self.axis, right, ends) if self.axis else self._no_times(right)),
            *self.layers["marks"],
            group(counts, class_="counts", font_size=11),
            group(signs, class_="legend", font_size=11),
        ]
        return element(
            "svg",
            "\n".join(["", *content, ""]),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            font_family=FONT,
            font_size=12,
            fill=INK,
        )

    def _description(self) -> str:
        """A description of the diagram for screen readers."""
        picture, batches = self.picture, f"Batches: {len(self.picture.columns)}"
        if not self.axis:
            return f"The batches of sink {picture.sink}, without event time. {batches}."
        fates = Counter(dot.fate for column in picture.columns for dot in column.dots)
        told = (
            f"Event time against the batches of sink {picture.sink}."
            f" {batches}; rows: {fates.total()}; dropped as late: {fates[RowFate.DROPPED]}."
        )
        if picture.watermark_after is not None:
            told += f" The watermark at the end is {picture.calendar.short(picture.watermark_after)}."
        return told

    def _head(self, width: int) -> Iterator[str]:
        picture, longest = self.picture, int((width - 32) / width_of("x", 15))
        yield label(16, 28, cut(picture.result.name, longest), font_size=15, font_weight="bold")
        about = f"sink {picture.sink}" if picture.sink else "no sink"
        if self.axis:
            day = picture.calendar.day
            about += f" · event time, {picture.calendar.dated(day)} {day.year}, {picture.calendar.zone_name}"
        yield label(16, 47, about, fill=FAINT)

    def _no_times(self, right: float) -> Iterator[str]:
        told = "no row has an event time" if self.middles else "no batch ran"
        middle = max(self.left + right, NARROWEST) / 2
        yield haloed(middle, (TOP + BOTTOM) / 2, told, text_anchor="middle", fill=FAINT)

    def _times(self, axis: Axis, right: float, ends: Sequence[tuple[int, str, str]]) -> Iterator[str]:
        """Windows below the lines, rows above everything."""
        ticks = []
        for y, name in axis.ticks(self.picture.calendar):
            ticks.append(line(self.left - 4, y, right, y, stroke=GRID))
            ticks.append(label(self.left - 8, y + 4, name, text_anchor="end", fill=FAINT))
        yield group(ticks, class_="axis", font_size=11)
        yield line(self.left, TOP, self.left, BOTTOM, stroke=AXIS)
        self._extend(axis, "", right, right + TAIL, self.picture.watermark_after)
        watermark = self.lines.pop("", [])
        for source, places in self.lines.items():
            look = {"stroke": self._ink(source), "stroke_dasharray": "5 4", "fill": "none"}
            places.append((places[-1][0] + TAIL, places[-1][1]))
            yield points("polyline", places, class_="newest", data_source=source, stroke_width=1.4, **look)
        yield from self.layers["windows"]
        if watermark:
            area = [(watermark[0][0], BOTTOM), *watermark, (watermark[-1][0], BOTTOM)]
            yield points("polygon", area, fill=RED, fill_opacity="0.045", stroke="none")
            yield points("polyline", watermark, class_="watermark", fill="none", stroke=RED, stroke_width=2.2)
        yield from self.layers["texts"]
        heights = apart((axis.y(time) for time, _, _ in ends), BOTTOM - 4)
        yield group(
            (
                label(right + TAIL + 6, y + 4, text, fill=ink, font_size=LABEL_SIZE)
                for y, (_, text, ink) in zip(heights, ends, strict=True)
            ),
            class_="ends",
        )
        yield from self.layers["rows"]

    def _ends(self) -> Iterator[tuple[int, str, str]]:
        """The labels at the ends of the lines: time, text, color."""
        newest, after, short = self.picture.newest, self.picture.watermark_after, self.picture.calendar.short
        for source, time in newest.items():
            name = "newest" if len(newest) == 1 else cut(source, 16)
            yield time, f"{name} {short(time)}", self._ink(source)
        if after is not None:
            yield after, f"watermark {short(after)}", RED

    def _ink(self, source: str) -> str:
        return PALETTE[self.picture.sources.index(source) % len(PALETTE)]

    # The parts: each is drawn at `x`, and returns its width.

    def _mark(self, mark: Mark) -> float:
        x, y = self.x + 6, TOP + 6
        longest = int((BOTTOM - TOP - 12) / width_of("x", 11))
        turned = f"rotate(-90 {x + 11:.1f} {y:.1f})"
        look = {"transform": turned, "text_anchor": "end", "fill": MARK}
        text = haloed(x + 11, y, cut(mark.text, longest), font_size=11, **look)
        dashes = line(x, TOP, x, BOTTOM, stroke=MARK, stroke_width=1.5, stroke_dasharray="2 3")
        self.layers["marks"].append(group([dashes, text], class_="mark"))
        return MARK_WIDTH

    def _batch(self, column: Column) -> float:
        width = BATCH_WIDTH if column.has_data else NO_DATA_WIDTH
        if self.axis:
            end = self._windows(self.axis, column, self._rows(self.axis, column))
            width = max(width, end + PAD - self.x)
            for source, time in column.newest.items():
                self._extend(self.axis, source, self.x, self.x + width, time)
            self._extend(self.axis, "", self.x, self.x + width, column.watermark)
        middle = self.x + width / 2
        self.middles.append(middle)
        shown = self.layers["batches"]
        if not column.has_data:
            shown.append(rect(self.x, TOP, width, BOTTOM - TOP, fill=SHADE))
        shown.append(line(self.x, TOP, self.x, BOTTOM, stroke=GRID))
        weight = "bold" if column.has_data else "normal"
        name = f"batch {column.batch.id}"
        shown.append(label(middle, TOP - 20, name, text_anchor="middle", font_weight=weight))
        if under := "retry" if column.batch.retried else "" if column.has_data else "no data":
            shown.append(label(middle, TOP - 7, under, text_anchor="middle", font_size=10, fill=FAINT))
        return width

    def _extend(self, axis: Axis, name: str, begin: float, end: float, time: int | None) -> None:
        """Continue a line in a step."""
        if time is not None:
            places, y = self.lines[name], axis.y(time)
            places += [*([(begin, places[-1][1])] if places else []), (begin, y), (end, y)]

    def _rows(self, axis: Axis, column: Column) -> float:
        """Dots and their labels, without overlaps; late rows keep theirs if there is not enough space."""
        places: list[tuple[Dot, float, float]] = []
        for dot in column.dots:
            y, x = axis.y(dot.time), self.x + PAD + DOT_WIDTH / 2
            # Rows that would cover each other are drawn side by side.
            near = bool(places) and abs(places[-1][2] - y) < DOT_WIDTH / 2
            places.append((dot, places[-1][1] + DOT_WIDTH if near else x, y))
        begin = max((x for _, x, _ in places), default=self.x + PAD) + DOT_WIDTH / 2
        late_first = sorted(places, key=lambda place: place[0].fate is RowFate.KEPT)
        shown = sorted(late_first[:MOST_LABELS], key=lambda place: place[2])
        parts = []
        for (dot, x, y), height in zip(shown, apart((y for _, _, y in shown), BOTTOM - 20), strict=True):
            if abs(y - height) > LABEL_GAP / 2:
                parts.append(line(x + 4, y, begin + 3, height, stroke=AXIS, stroke_width=0.8))
            ink = RED if dot.fate is RowFate.DROPPED else self._ink(dot.source)
            parts.append(haloed(begin + 4, height + 4, dot.label, font_size=LABEL_SIZE, fill=ink))
        if more := len(places) - len(shown):
            parts.append(haloed(begin, BOTTOM - 5, f"+{more} more", font_size=LABEL_SIZE, fill=FAINT))
        for dot, x, y in places:
            told = element("title", words(f"{dot.label} ({dot.source})"))
            about = {"data_source": dot.source, "data_batch": str(column.batch.id)}
            drawn = _dot(dot.fate, self._ink(dot.source), x, y)
            parts.append(group([told, *drawn], class_=f"row {dot.fate.value}", **about))
        self.layers["rows"].append(group(parts, class_="rows"))
        return begin + max((width_of(dot.label, LABEL_SIZE) + 10 for dot in column.dots), default=0.0)

    def _windows(self, axis: Axis, column: Column, begin: float) -> float:
        """Windows in lanes, with as many of their values as fit, above the lines."""
        longest = max((width_of(text, BOX_SIZE) for box in column.boxes for text in box.texts), default=0.0)
        width, short = min(longest, WIDEST_TEXT) + BOX_SIZE, self.picture.calendar.short
        look: dict[str, str | float] = {"fill_opacity": "0.85", "stroke": WINDOW, "stroke_opacity": "0.6"}
        boxes, values, end = [], [], begin
        for box, lane in zip(column.boxes, box_lanes(column.boxes), strict=True):
            x, top, bottom = begin + lane * (width + BOX_GAP), axis.y(box.end), axis.y(box.start)
            end = max(end, x + width)
            told = element("title", words(f"{short(box.start)} – {short(box.end)}: {', '.join(box.texts)}"))
            tall = max(bottom - top - 2, 1.0)
            look |= {"class_": "window", "rx": 2, "fill": WINDOW_FILL}
            boxes.append(rect(x, top + 1, width, tall, told, **look))
            most = max(1, int((bottom - top - 4) / 12))
            texts = [cut(text, int((width - 6) / width_of("x", BOX_SIZE))) for text in box.texts]
            if len(texts) > most:
                texts[most - 1 :] = [f"+{len(texts) - most + 1} more"]
            for index, text in enumerate(texts):
                values.append(haloed(x + 4, top + 12 + 12 * index, text, font_size=BOX_SIZE, fill=INK))
        if column.hidden:
            more = f"+{column.hidden} more"
            values.append(haloed(begin, BOTTOM - 5, more, font_size=BOX_SIZE, fill=FAINT))
        self.layers["windows"].append(group(boxes, class_="windows"))
        self.layers["texts"].append(group(values, class_="texts"))
        return end

    # Below the plot.

    def _counts(self) -> Iterator[str]:
        """A small table below the plot, without lines that contain only zeros."""
        batches = [column.batch for column in self.picture.columns]
        table = [
            ("rows in", [sum(batch.rows_in.values()) for batch in batches], INK),
            ("rows out", [len(batch.rows) for batch in batches], INK),
            ("late", [batch.late for batch in batches], RED),
            ("state", [batch.state for batch in batches], FAINT),
        ]
        for index, (name, numbers, ink) in enumerate(row for row in table if any(row[1])):
            y = BOTTOM + 18 + LINE * index
            cells = [label(self.left - 8, y, name, text_anchor="end", fill=FAINT)]
            for x, count in zip(self.middles, numbers, strict=True):
                cells.append(label(x, y, str(count), text_anchor="middle", fill=ink if count else "#c3c8d0"))
            yield group(cells)

    def _legend(self, y: float, width: int) -> tuple[list[str], float]:
        """The entries in lines, and where the last one ends."""
        signs, x = [], 16.0
        for sign, text in self._signs() if self.axis else ():
            wide = 36 + width_of(text, 11)
            if x > 16 and x + wide > width:
                x, y = 16.0, y + LINE
            place = f"translate({x + 13:.1f} {y - 4:.1f})"
            signs.append(group([group(sign, transform=place), label(x + 30, y, text)]))
            x += wide + 8
        return signs, y

    def _signs(self) -> Iterator[Sign]:
        """An entry of the legend for each symbol in the diagram."""
        picture, columns = self.picture, self.picture.columns
        for source in picture.sources:
            if source in picture.result.event_times:
                name, delay = picture.result.event_times[source]
                told = f"row of {source} (event time: {name}, delay: {Duration(delay)})"
                yield _dot(RowFate.KEPT, self._ink(source)), told
        found = {dot.fate: self._ink(dot.source) for column in columns for dot in column.dots}
        windows = any(column.boxes for column in columns)
        for fate, told in FATES.items():
            if fate in found:
                once = " (Spark counts it once per window)" if windows and fate is RowFate.DROPPED else ""
                yield _dot(fate, found[fate]), told + once
        if picture.newest:
            yield [line(-12, 0, 12, 0, stroke=FAINT, stroke_dasharray="5 4")], "newest event time so far"
        if picture.watermark_after is not None or any(column.watermark is not None for column in columns):
            yield [line(-12, 0, 12, 0, stroke=RED, stroke_width=2.2)], "watermark that the batch used"
        if windows:
            yield [rect(-8, -7, 16, 14, fill=WINDOW_FILL, stroke=WINDOW)], "window in the output"
        if not all(column.has_data for column in columns):
            yield [rect(-8, -6, 16, 12, fill=SHADE, stroke="#d1d5db")], "batch without data"
        if picture.undated:
            yield [], f"not drawn (no event time): {picture.undated}"


def _dot(fate: RowFate, ink: str, x: float = 0.0, y: float = 0.0) -> list[str]:
    """Filled if kept, hollow if behind the watermark, red and crossed if dropped."""
    kept, dropped = fate is RowFate.KEPT, fate is RowFate.DROPPED
    stroke = RED if dropped else "#fff" if kept else ink
    fill = ink if kept else "#fff"
    parts = [element("circle", cx=x, cy=y, r=4.2, fill=fill, stroke=stroke, stroke_width=1.6)]
    for side in (2.7, -2.7) if dropped else ():
        parts.append(line(x - 2.7, y - side, x + 2.7, y + side, stroke=RED, stroke_width=1.6))
    return parts


def box_lanes(boxes: Sequence[Box]) -> list[int]:
    """For each window, the first lane that is free at its start."""
    free: list[int] = []
    placed = []
    for box in boxes:
        lane = next((index for index, end in enumerate(free) if end <= box.start), len(free))
        free[lane : lane + 1] = [box.end]
        placed.append(lane)
    return placed


def apart(wanted: Iterable[float], bottom: float) -> list[float]:
    """The requested heights, moved down until they are a gap apart, and up again from the bottom."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + LABEL_GAP) if places else place)
    for index in reversed(range(len(places))):
        bottom = places[index] = min(places[index], bottom)
        bottom -= LABEL_GAP
    return places


class Pictures:
    """Diagrams of tests in files: one file, or a directory with one file per test."""

    def __init__(self, path: Path, tests: int) -> None:
        """UsageError if one file is given for several tests."""
        self.single = path.suffix == ".svg"
        if self.single and tests != 1:
            raise UsageError(TEST_DRAWING_CONFLICT.at(None, path=str(path), count=tests))
        self.path = path
        self.written: list[str] = []

    def draw(self, result: TestResult) -> None:
        """Write the diagram of one test; a test that never started has none."""
        if not result.steps:
            return
        file = self.path if self.single else self._file(result.name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(result), encoding="utf-8")
        except OSError as error:
            raise UsageError(TEST_OUTPUT_UNWRITABLE.at(None, path=str(file), reason=error.strerror)) from None
        self.written.append(str(file))

    def _file(self, name: str) -> Path:
        """A file for a test; two tests with the same name get two files."""
        base = re.sub(r"\W+", "_", name.lower()).strip("_")[:80] or "test"
        numbered = [base, *(f"{base}_{number}" for number in range(2, len(self.written) + 2))]
        files = (self.path / f"{name}.svg" for name in numbered)
        return next(file for file in files if str(file) not in self.written)
