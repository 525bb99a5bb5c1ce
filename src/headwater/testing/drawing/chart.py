"""A picture as SVG: title, batches, what happened between them, rows, windows, lines, counts and a legend."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from headwater.errors import UsageProblem
from headwater.errors.catalogue.testing import TEST_DRAW, TEST_WRITE
from headwater.testing.drawing.picture import (
    BOX_SIZE,
    LABEL_GAP,
    LABEL_SIZE,
    Axis,
    Box,
    Column,
    Fate,
    Mark,
    Picture,
    Slot,
    apart,
    picture_of,
    slots_of,
)
from headwater.testing.drawing.svg import (
    FAINT,
    GRID,
    INK,
    RED,
    cut,
    element,
    group,
    haloed,
    label,
    line,
    path_through,
    width_of,
    words,
)
from headwater.testing.results import TestResult
from headwater.values.durations import Duration

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
PALETTE = ("#0b62b0", "#b45309", "#0f766e", "#7e3ba3", "#4d7c0f", "#9d174d")
SHADE, MARK, OUT, AXIS = "#f3f4f6", "#6d28d9", "#94a3b8", "#9ca3af"
WINDOW, WINDOW_FILL = "#475569", "#eef1f5"
FATES = {
    Fate.BEHIND: "behind the watermark (dropped in part, or unclear)",
    Fate.DROPPED: "dropped as late",
}
TOP = 96.0
"""The upper edge of the plot, below title and names of batches."""
TIMES_HEIGHT, COUNTS_HEIGHT = 380.0, 200.0
NARROWEST = 420.0
LEFT = 66.0
TAIL = 26.0
"""How far the lines go on after the last batch."""
LINE = 18.0
"""The height of a line of counts or of the legend."""
MOST_LABELS = 24
Points = list[tuple[float, float]]
Sign = tuple[list[str], str]
"""A line of the legend: its sign, drawn around zero in a 26 pixels wide field, and its words."""


@dataclass(frozen=True)
class Chart:
    """The plot's place, the slots in it, and all that is drawn."""

    picture: Picture
    slots: Sequence[Slot]
    left: float
    right: float
    """Where the last slot ends."""
    axis: Axis | None
    """None where nothing has an event time."""
    width: int
    """Of the whole picture."""

    @classmethod
    def of(cls, picture: Picture) -> Chart:
        axis, left, tail = None, LEFT, 16.0
        if any(column.dots or column.boxes for column in picture.columns):
            axis = Axis(picture.times[0], picture.times[-1], TOP, TOP + TIMES_HEIGHT)
            left = max(LEFT, 20 + max(width_of(name, 11) for _, name in axis.ticks(picture.calendar)))
            tail = TAIL + 16 + max((width_of(text, LABEL_SIZE) for _, text, _ in _ends(picture)), default=0)
        narrowest = max(NARROWEST, min(width_of(picture.name, 15) + 32, 900.0) - left - tail)
        slots = slots_of(picture, axis.y if axis else lambda time: TOP, left, narrowest)
        right = max([left + narrowest, *(each.x + each.width for each in slots)])
        return cls(picture, slots, left, right, axis, ceil(right + tail))

    @property
    def bottom(self) -> float:
        return TOP + (TIMES_HEIGHT if self.axis else COUNTS_HEIGHT)

    def columns(self) -> Iterator[tuple[Slot, Column]]:
        return ((slot, slot.part) for slot in self.slots if isinstance(slot.part, Column))

    def svg(self) -> str:
        """The whole file: rows and windows at their event times, or bars of counts where nothing has one."""
        counts = list(self._counts())
        signs, bottom = self._legend(self.bottom + 34 + LINE * len(counts))
        height = ceil(bottom + 14)
        body = self._times(self.axis) if self.axis else self._bars()
        content = [
            element("title", words(self.picture.name)),
            element("desc", words(self._description())),
            element("rect", width=self.width, height=height, fill="#fff"),
            *self._head(),
            *(part for slot, column in self.columns() for part in self._column(slot, column)),
            *body,
            *(self._mark(slot.x + 6, slot.part) for slot in self.slots if isinstance(slot.part, Mark)),
            group(counts, class_="counts", font_size=11),
            group(signs, class_="legend", font_size=11),
        ]
        return element(
            "svg",
            "\n".join(["", *content, ""]),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {self.width} {height}",
            width=self.width,
            height=height,
            role="img",
            font_family=FONT,
            font_size=12,
            fill=INK,
        )

    def _description(self) -> str:
        """The picture for those who don't see it."""
        picture, batches = self.picture, f"Batches: {len(self.picture.columns)}"
        if not self.axis:
            return f"Rows in and out by batch of sink {picture.sink}. {batches}."
        fates = Counter(dot.fate for column in picture.columns for dot in column.dots)
        told = (
            f"Event time against the batches of sink {picture.sink}."
            f" {batches}; rows: {fates.total()}; dropped as late: {fates[Fate.DROPPED]}."
        )
        if picture.watermark_after is not None:
            told += f" The watermark at the end is {picture.calendar.short(picture.watermark_after)}."
        return told

    def _head(self) -> Iterator[str]:
        picture, longest = self.picture, int((self.width - 32) / width_of("x", 15))
        yield label(16, 28, cut(picture.name, longest), font_size=15, font_weight="bold")
        about = f"sink {picture.sink}" if picture.sink else "no sink"
        if picture.times:
            day = picture.calendar.day
            about += f" · event time, {picture.calendar.dated(day)} {day.year}, {picture.calendar.zone_name}"
        yield label(16, 47, about, fill=FAINT)

    def _column(self, slot: Slot, column: Column) -> Iterator[str]:
        """The name, the shade and the border of a batch."""
        middle = slot.x + slot.width / 2
        if not column.has_data:
            yield element("rect", x=slot.x, y=TOP, width=slot.width, height=self.bottom - TOP, fill=SHADE)
        yield line(slot.x, TOP, slot.x, self.bottom, stroke=GRID)
        under = "again" if column.batch.again else "" if column.has_data else "no data"
        weight = "bold" if column.has_data else "normal"
        name = f"batch {column.batch.id}"
        yield label(middle, TOP - 20, name, text_anchor="middle", font_weight=weight)
        if under:
            yield label(middle, TOP - 7, under, text_anchor="middle", font_size=10, fill=FAINT)

    def _mark(self, x: float, mark: Mark) -> str:
        text = haloed(
            x + 11,
            TOP + 6,
            cut(mark.text, int((self.bottom - TOP - 12) / width_of("x", 11))),
            transform=f"rotate(-90 {x + 11:.1f} {TOP + 6:.1f})",
            text_anchor="end",
            font_size=11,
            fill=MARK,
        )
        dashes = line(x, TOP, x, self.bottom, stroke=MARK, stroke_width=1.5, stroke_dasharray="2 3")
        return group([dashes, text], class_="mark")

    def _counts(self) -> Iterator[str]:
        """A small table below the plot; lines that would hold nothing but zeros are left out."""
        batches = [column.batch for column in self.picture.columns]
        table = [
            ("rows in", [sum(batch.rows_in.values()) for batch in batches], INK),
            ("rows out", [len(batch.rows) for batch in batches], INK),
            ("late", [batch.late for batch in batches], RED),
            ("state", [batch.state for batch in batches], FAINT),
        ]
        for index, (name, numbers, ink) in enumerate(row for row in table if any(row[1])):
            y = self.bottom + 18 + LINE * index
            cells = [label(self.left - 8, y, name, text_anchor="end", fill=FAINT)]
            for (slot, _), count in zip(self.columns(), numbers, strict=True):
                shown = ink if count else "#c3c8d0"
                cells.append(label(slot.x + slot.width / 2, y, str(count), text_anchor="middle", fill=shown))
            yield group(cells)

    def _legend(self, y: float) -> tuple[list[str], float]:
        """The entries in lines, and where the last one ends."""
        signs, x = [], 16.0
        for sign, text in self._time_signs() if self.axis else self._count_signs():
            wide = 36 + width_of(text, 11)
            if x > 16 and x + wide > self.width:
                x, y = 16.0, y + LINE
            place = f"translate({x + 13:.1f} {y - 4:.1f})"
            signs.append(group([group(sign, transform=place), label(x + 30, y, text)]))
            x += wide + 8
        return signs, y

    # The picture without event time.

    def _bars(self) -> Iterator[str]:
        """How many rows each batch brought in from each source and gave out."""
        if not self.picture.columns:
            middle = (self.left + self.right) / 2
            yield label(middle, TOP + COUNTS_HEIGHT / 2, "no batch ran", text_anchor="middle", fill=FAINT)
        bars = [
            [*column.batch.rows_in.items(), ("out", len(column.batch.rows))] for _, column in self.columns()
        ]
        most = max((count for each in bars for _, count in each), default=0) or 1
        for (slot, _), each in zip(self.columns(), bars, strict=True):
            wide = min(26.0, slot.width / len(each))
            for x, (name, count) in enumerate(bar for bar in each if bar[1]):
                place = {"x": slot.x + wide * x + 1, "width": wide - 2}
                height = count * (COUNTS_HEIGHT - 24) / most
                ink = OUT if name == "out" else _colour(self.picture, name)
                yield element(
                    "rect",
                    class_="bar",
                    data_of=name,
                    y=self.bottom - height,
                    height=height,
                    fill=ink,
                    **place,
                )

    def _count_signs(self) -> Iterator[Sign]:
        inks = [(f"rows of {source}", _colour(self.picture, source)) for source in self.picture.sources]
        for text, ink in [*inks, ("rows out", OUT)]:
            yield [element("rect", x=-6, y=-6, width=12, height=12, fill=ink)], text

    # The picture with event time.

    def _times(self, axis: Axis) -> Iterator[str]:
        """What is drawn later lies above: windows below the lines, rows above all."""
        ticks = []
        for y, name in axis.ticks(self.picture.calendar):
            ticks.append(line(self.left - 4, y, self.right, y, stroke=GRID))
            ticks.append(label(self.left - 8, y + 4, name, text_anchor="end", fill=FAINT))
        yield group(ticks, class_="axis", font_size=11)
        yield line(self.left, TOP, self.left, self.bottom, stroke=AXIS)
        yield from self._newest(axis)
        for slot, _ in self.columns():
            yield group((self._box(axis, *place) for place in slot.boxes), class_="windows")
        yield from self._watermark(axis)
        for slot, column in self.columns():
            yield group(self._texts(axis, slot, column), class_="texts")
        yield from self._tail(axis)
        for slot, column in self.columns():
            yield group(self._rows(slot, column.batch.id), class_="rows")

    def _watermark(self, axis: Axis) -> Iterator[str]:
        """A step where a batch uses another watermark, and the band behind it."""
        used = [(slot.x, slot.x + slot.width, column.watermark) for slot, column in self.columns()]
        used.append((self.right, self.right + TAIL, self.picture.watermark_after))
        if points := _stairs((begin, end, axis.y(value)) for begin, end, value in used if value is not None):
            area = [(points[0][0], self.bottom), *points, (points[-1][0], self.bottom)]
            written = " ".join(f"{x:.1f},{y:.1f}" for x, y in area)
            yield element("polygon", points=written, fill=RED, fill_opacity="0.045", stroke="none")
            yield path_through(points, class_="watermark", stroke=RED, stroke_width=2.2)

    def _newest(self, axis: Axis) -> Iterator[str]:
        for source in self.picture.event_times:
            points = _stairs(
                (slot.x, slot.x + slot.width, axis.y(column.newest[source]))
                for slot, column in self.columns()
                if source in column.newest
            )
            if points:
                points.append((points[-1][0] + TAIL, points[-1][1]))
                dashes = {"stroke": _colour(self.picture, source), "stroke_dasharray": "5 4"}
                yield path_through(points, class_="newest", data_source=source, stroke_width=1.4, **dashes)

    def _tail(self, axis: Axis) -> Iterator[str]:
        """What the lines mean, at their ends, and the delay between them."""
        x = self.right + TAIL + 6
        ends = sorted(_ends(self.picture), reverse=True)
        places = apart([axis.y(time) for time, _, _ in ends], self.bottom - 4)
        yield group(
            (
                label(x, y + 4, text, fill=ink, font_size=LABEL_SIZE)
                for y, (_, text, ink) in zip(places, ends, strict=True)
            ),
            class_="ends",
        )
        for _, time, after in _holding(self.picture):
            top, bottom = axis.y(time) + 2, axis.y(after) - 2
            yield group([line(x - 18, top, x - 18, bottom, stroke=FAINT)], class_="delay")

    def _box(self, axis: Axis, box: Box, x: float, width: float) -> str:
        top, bottom = axis.y(box.end), axis.y(box.start)
        short = self.picture.calendar.short
        told = f"{short(box.start)} – {short(box.end)}: " + ", ".join(box.texts)
        return element(
            "rect",
            element("title", words(told)),
            class_="window",
            x=x,
            y=top + 1,
            width=width,
            height=max(bottom - top - 2, 1.0),
            rx=2,
            fill=WINDOW_FILL,
            fill_opacity="0.85",
            stroke=WINDOW,
            stroke_opacity="0.6",
        )

    def _texts(self, axis: Axis, slot: Slot, column: Column) -> Iterator[str]:
        """The values of windows, as many as there is room for, above the lines that cross them."""
        for box, x, width in slot.boxes:
            top = axis.y(box.end)
            most = max(1, int((axis.y(box.start) - top - 4) / 12))
            texts = [cut(text, int((width - 6) / width_of("x", BOX_SIZE))) for text in box.texts]
            if len(texts) > most:
                texts[most - 1 :] = [f"+{len(texts) - most + 1} more"]
            for index, text in enumerate(texts):
                yield haloed(x + 4, top + 12 + 12 * index, text, font_size=BOX_SIZE, fill="#1e293b")
        if column.hidden:
            more = f"+{column.hidden} more"
            yield haloed(slot.boxes[0][1], self.bottom - 5, more, font_size=BOX_SIZE, fill=FAINT)

    def _rows(self, slot: Slot, batch: int) -> Iterator[str]:
        """Dots, and their labels apart from each other; late rows keep theirs if not all can have one."""
        late_first = sorted(slot.dots, key=lambda place: place[0].fate is Fate.KEPT)
        most = MOST_LABELS if len(slot.dots) <= MOST_LABELS else MOST_LABELS - 1
        shown = sorted(late_first[:most], key=lambda place: place[2])
        more = len(slot.dots) - len(shown)
        heights = apart([y for _, _, y in shown], self.bottom - (20 if more else 7))
        for (dot, x, y), height in zip(shown, heights, strict=True):
            if abs(y - height) > LABEL_GAP / 2:
                yield line(x + 4, y, slot.labels_x + 3, height, stroke=AXIS, stroke_width=0.8)
            ink = RED if dot.fate is Fate.DROPPED else _colour(self.picture, dot.source)
            yield haloed(slot.labels_x + 4, height + 4, dot.label, font_size=LABEL_SIZE, fill=ink)
        if more:
            yield haloed(slot.labels_x, self.bottom - 5, f"+{more} more", font_size=LABEL_SIZE, fill=FAINT)
        for dot, x, y in slot.dots:
            told = element("title", words(f"{dot.label} ({dot.source})"))
            parts = [told, *_dot(dot.fate, _colour(self.picture, dot.source), x, y)]
            yield group(parts, class_=f"row {dot.fate.value}", data_source=dot.source, data_batch=str(batch))

    def _time_signs(self) -> Iterator[Sign]:
        """An entry of the legend for each sign that the picture holds."""
        picture, columns = self.picture, self.picture.columns
        for source in picture.sources:
            if source in picture.event_times:
                name, delay = picture.event_times[source]
                told = f"row of {source} (event time: {name}, delay: {Duration(delay)})"
                yield _dot(Fate.KEPT, _colour(self.picture, source)), told
        found = {dot.fate: _colour(self.picture, dot.source) for column in columns for dot in column.dots}
        windows = any(column.boxes for column in columns)
        for fate, told in FATES.items():
            if fate in found:
                once = " (Spark counts it once per window)" if windows and fate is Fate.DROPPED else ""
                yield _dot(fate, found[fate]), told + once
        if columns[-1].newest:
            yield [line(-12, 0, 12, 0, stroke=FAINT, stroke_dasharray="5 4")], "newest event time so far"
        if picture.watermark_after is not None or any(column.watermark is not None for column in columns):
            yield [line(-12, 0, 12, 0, stroke=RED, stroke_width=2.2)], "watermark that the batch used"
        if windows:
            window = element("rect", x=-8, y=-7, width=16, height=14, fill=WINDOW_FILL, stroke=WINDOW)
            yield [window], "window in the output"
        if not all(column.has_data for column in columns):
            shade = element("rect", x=-8, y=-6, width=16, height=12, fill=SHADE, stroke="#d1d5db")
            yield [shade], "batch without data"
        if picture.undated:
            yield [], f"not drawn, having no event time: {picture.undated}"


def _stairs(steps: Iterable[tuple[float, float, float]]) -> Points:
    """A line that goes on from step to step: where each begins and ends, and its height."""
    points: Points = []
    for begin, end, y in steps:
        points += [*([(begin, points[-1][1])] if points else []), (begin, y), (end, y)]
    return points


def _dot(fate: Fate, ink: str, x: float = 0.0, y: float = 0.0) -> list[str]:
    """Filled if kept, hollow if behind the watermark, red and crossed if dropped."""
    kept, dropped = fate is Fate.KEPT, fate is Fate.DROPPED
    stroke = RED if dropped else "#fff" if kept else ink
    fill = ink if kept else "#fff"
    parts = [element("circle", cx=x, cy=y, r=4.2, fill=fill, stroke=stroke, stroke_width=1.6)]
    for side in (2.7, -2.7) if dropped else ():
        parts.append(line(x - 2.7, y - side, x + 2.7, y + side, stroke=RED, stroke_width=1.6))
    return parts


def _colour(picture: Picture, source: str) -> str:
    return PALETTE[picture.sources.index(source) % len(PALETTE)]


def _ends(picture: Picture) -> list[tuple[int, str, str]]:
    """The labels behind the lines' ends: time, text, colour."""
    newest, after, short = picture.columns[-1].newest, picture.watermark_after, picture.calendar.short
    ends = [
        (time, f"{'newest' if len(newest) == 1 else cut(source, 16)} {short(time)}", _colour(picture, source))
        for source, time in newest.items()
    ]
    if after is not None:
        ends.append((after, f"watermark {short(after)}", RED))
    ends += [((time + end) // 2, str(Duration(delay)), FAINT) for delay, time, end in _holding(picture)]
    return ends


def _holding(picture: Picture) -> list[tuple[int, int, int]]:
    """The delay that makes the watermark, if one does, with the newest time and the watermark around it."""
    after = picture.watermark_after
    return [
        (delay, time, after)
        for source, time in picture.columns[-1].newest.items()
        if after is not None and (delay := picture.event_times[source][1]) and time - delay * 1_000 == after
    ][:1]


# A picture of a test: its batches against event time.


def draw(result: TestResult, sink: str | None = None) -> str:
    """A standalone SVG of one sink's query: of the first that ran a batch unless told.

    From left to right stand its batches; upwards goes event time. Where nothing has an event time, the
    picture shows how many rows each batch brought in and gave out.
    """
    return Chart.of(picture_of(result, sink)).svg()


# Pictures of tests, written to files: one named file, or a folder with one for each test.

_LONGEST_NAME = 80


class Pictures:
    """Draws results and remembers the files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[str] = []

    @classmethod
    def into(cls, path: Path, names: Sequence[str]) -> Pictures:
        """UsageProblem where one file is named for several tests."""
        if path.suffix == ".svg" and len(names) != 1:
            raise UsageProblem(TEST_DRAW.at(None, path=str(path), count=len(names)))
        return cls(path)

    def draw(self, result: TestResult) -> None:
        """Write the picture of one test; one that never began has none."""
        if not result.steps:
            return
        file = self.path if self.path.suffix == ".svg" else self._file(result.name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(result), encoding="utf-8")
        except OSError as error:
            raise UsageProblem(TEST_WRITE.at(None, path=str(file), reason=error.strerror)) from None
        self.written.append(str(file))

    def _file(self, name: str) -> Path:
        """A file for a test; two tests of one name get two."""
        base = re.sub(r"\W+", "_", name.lower()).strip("_")[:_LONGEST_NAME] or "test"
        file, number = self.path / f"{base}.svg", 1
        while str(file) in self.written:
            number += 1
            file = self.path / f"{base}_{number}.svg"
        return file
