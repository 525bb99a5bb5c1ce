"""What surrounds every picture: title, batches, what happened between them, counts and the legend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from headwater.testing.drawing.layout import Slot, density_of, slots_of
from headwater.testing.drawing.picture import Column, Mark, Picture
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
    width_of,
    words,
)

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
PALETTE = ("#0b62b0", "#b45309", "#0f766e", "#7e3ba3", "#4d7c0f", "#9d174d")
SHADE = "#f3f4f6"
MARK = "#6d28d9"
TOP = 96.0
"""The upper edge of the plot, below title and names of batches."""
NARROWEST = 420.0
LEGEND_LINE = 20.0
COUNT_LINE = 16.0


@dataclass(frozen=True)
class Frame:
    """The plot's place and the slots in it."""

    slots: Sequence[Slot]
    left: float
    right: float
    """Where the last slot ends."""
    bottom: float
    width: int
    """Of the whole picture."""

    def columns(self) -> Iterator[tuple[Slot, Column]]:
        return ((slot, slot.part) for slot in self.slots if isinstance(slot.part, Column))

    def marks(self) -> Iterator[tuple[Slot, Mark]]:
        return ((slot, slot.part) for slot in self.slots if isinstance(slot.part, Mark))


@dataclass(frozen=True)
class Entry:
    """A line of the legend: its sign, drawn around the middle of a 26 pixels wide field, and its words."""

    sign: Callable[[float, float], str]
    text: str


def colour(picture: Picture, source: str) -> str:
    return PALETTE[picture.sources.index(source) % len(PALETTE)]


def document(picture: Picture, frame: Frame, body: Iterable[str], legend: Sequence[Entry], desc: str) -> str:
    """The whole file."""
    counts = list(_counts(picture, frame))
    below = frame.bottom + 10 + COUNT_LINE * len(counts)
    signs, bottom = _legend(legend, frame, below + 24)
    height = ceil(bottom + 14)
    content = [
        element("title", words(picture.name)),
        element("desc", words(desc)),
        element("rect", width=frame.width, height=height, fill="#fff"),
        *_head(picture, frame),
        *_columns(frame),
        *body,
        *_marks(frame),
        group(counts, class_="counts", font_size=11),
        group(signs, class_="legend", font_size=11),
    ]
    return "\n".join([_opening(frame.width, height), *content, "</svg>", ""])


def _opening(width: int, height: int) -> str:
    opened = element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        font_family=FONT,
        font_size=12,
        fill=INK,
    )
    return opened.removesuffix("/>") + ">"


def _head(picture: Picture, frame: Frame) -> Iterator[str]:
    longest = int((frame.width - 32) / width_of("x", 15))
    yield label(16, 28, cut(picture.name, longest), font_size=15, font_weight="bold")
    about = f"sink {picture.sink}" if picture.sink else "no sink"
    if picture.times:
        day = picture.calendar.day
        about += f" · event time, {picture.calendar.dated(day)} {day.year}, {picture.calendar.zone_name}"
    yield label(16, 47, about, fill=FAINT)


def _columns(frame: Frame) -> Iterator[str]:
    """Names, shades and borders of batches."""
    short = any(slot.width < width_of(f"batch {each.batch.id}", 12) for slot, each in frame.columns())
    if short:
        yield label(frame.left - 8, TOP - 12, "batch", text_anchor="end", font_size=11, fill=FAINT)
    for slot, column in frame.columns():
        yield from _column(slot, column, frame.bottom, short)
    if frame.slots:
        yield line(frame.right, TOP, frame.right, frame.bottom, stroke=GRID)


def _column(slot: Slot, column: Column, bottom: float, short: bool) -> Iterator[str]:
    middle, name = slot.x + slot.width / 2, str(column.batch.id)
    if not column.has_data:
        yield element("rect", x=slot.x, y=TOP, width=slot.width, height=bottom - TOP, fill=SHADE)
    yield line(slot.x, TOP, slot.x, bottom, stroke=GRID)
    under = "again" if column.batch.again else "" if column.has_data else "no data"
    if short:
        yield label(
            middle, TOP - 12, name + ("′" if column.batch.again else ""), text_anchor="middle", font_size=10
        )
        return
    weight = "bold" if column.has_data else "normal"
    yield label(
        middle, TOP - (20 if under else 12), f"batch {name}", text_anchor="middle", font_weight=weight
    )
    if under:
        yield label(middle, TOP - 7, under, text_anchor="middle", font_size=10, fill=FAINT)


def _marks(frame: Frame) -> Iterator[str]:
    for slot, mark in frame.marks():
        x = slot.x + 6
        room = int((frame.bottom - TOP - 12) / width_of("x", 11))
        yield group(
            [
                line(x, TOP, x, frame.bottom, stroke=MARK, stroke_width=1.5, stroke_dasharray="2 3"),
                haloed(
                    x + 11,
                    TOP + 6,
                    cut(mark.text, room),
                    transform=f"rotate(-90 {x + 11:.1f} {TOP + 6:.1f})",
                    text_anchor="end",
                    font_size=11,
                    fill=MARK,
                ),
            ],
            class_="mark",
        )


def _counts(picture: Picture, frame: Frame) -> Iterator[str]:
    """A small table below the plot; lines that would hold nothing but zeros are left out."""
    batches = [column.batch for column in picture.columns]
    rows = [
        ("rows in", [sum(batch.rows_in.values()) for batch in batches], INK),
        ("rows out", [len(batch.rows) for batch in batches], INK),
        ("late", [batch.late for batch in batches], RED),
        ("state", [batch.state for batch in batches], FAINT),
    ]
    y = frame.bottom + 18
    for name, numbers, ink in (row for row in rows if any(row[1])):
        cells = [label(frame.left - 8, y, name, text_anchor="end", fill=FAINT)]
        for (slot, _), count in zip(frame.columns(), numbers, strict=True):
            faint = {"fill": ink if count else "#c3c8d0"}
            cells.append(label(slot.x + slot.width / 2, y, str(count), text_anchor="middle", **faint))
        yield group(cells)
        y += COUNT_LINE


def _legend(entries: Sequence[Entry], frame: Frame, y: float) -> tuple[list[str], float]:
    """The entries in lines, and where the last one ends."""
    signs, x = [], 16.0
    for entry in entries:
        wide = 36 + width_of(entry.text, 11)
        if x > 16 and x + wide > frame.width:
            x, y = 16.0, y + LEGEND_LINE
        signs.append(group([entry.sign(x + 13, y - 4), label(x + 30, y, entry.text)]))
        x += wide + 8
    return signs, y


def shaded(x: float, y: float) -> str:
    """The legend's sign of a batch without data."""
    return element("rect", x=x - 8, y=y - 6, width=16, height=12, fill=SHADE, stroke="#d1d5db")


# The picture without event time: how many rows each batch brought in and gave out.

HEIGHT = 200.0
OUT = "#94a3b8"
LEFT = 66.0


def draw_counts(picture: Picture) -> str:
    """The file for a picture in which nothing has a time."""
    density = density_of(picture, _nowhere)
    narrowest = max(NARROWEST, min(width_of(picture.name, 15), 900.0) - LEFT)
    slots = slots_of(picture, density, _nowhere, LEFT, narrowest)
    right = max(slots[-1].right if slots else LEFT, LEFT + narrowest)
    frame = Frame(slots, LEFT, right, TOP + HEIGHT, ceil(right) + 16)
    body = list(_bars(picture, frame)) if picture.columns else [_nothing(frame)]
    told = f"Rows in and out by batch of sink {picture.sink}. Batches: {len(picture.columns)}."
    return document(picture, frame, body, list(_count_legend(picture)), told)


def _nowhere(time: int) -> float:
    """Times have no place in this picture."""
    return TOP


def _nothing(frame: Frame) -> str:
    middle = (frame.left + frame.right) / 2
    return label(middle, TOP + HEIGHT / 2, "no batch ran", text_anchor="middle", fill=FAINT)


def _bars(picture: Picture, frame: Frame) -> Iterator[str]:
    counts = [count for column in picture.columns for _, count, _ in _numbers(picture, column)]
    most = max(counts, default=0) or 1
    yield line(frame.left, frame.bottom, frame.right, frame.bottom, stroke="#9ca3af")
    for quarter in range(4):
        y = TOP + HEIGHT * quarter / 4
        yield line(frame.left, y, frame.right, y, stroke=GRID)
    for slot, column in frame.columns():
        yield group(_count_column(picture, slot, column, (HEIGHT - 24) / most, frame.bottom), class_="bars")


def _count_column(picture: Picture, slot: Slot, column: Column, scale: float, bottom: float) -> Iterator[str]:
    bars = _numbers(picture, column)
    wide = min(26.0, (slot.width - 8) / max(len(bars), 1))
    x = slot.x + (slot.width - wide * len(bars)) / 2
    for name, count, ink in bars:
        height = count * scale
        yield element(
            "rect",
            class_="bar",
            data_of=name,
            x=x + 1,
            y=bottom - height,
            width=wide - 2,
            height=height,
            fill=ink,
        )
        if wide >= 10:
            yield label(
                x + wide / 2, bottom - height - 5, str(count), text_anchor="middle", font_size=11, fill=INK
            )
        x += wide


def _numbers(picture: Picture, column: Column) -> list[tuple[str, int, str]]:
    """A bar for each source that brought rows and one for the output: name, number, colour."""
    came = [(name, count, colour(picture, name)) for name, count in column.batch.rows_in.items() if count]
    return [*came, ("out", len(column.batch.rows), OUT)] if column.batch.rows else came


def _count_legend(picture: Picture) -> Iterator[Entry]:
    for source in picture.sources:
        yield Entry(_square(colour(picture, source)), f"rows of {source}")
    if any(column.batch.rows for column in picture.columns):
        yield Entry(_square(OUT), "rows out")
    if not all(column.has_data for column in picture.columns):
        yield Entry(shaded, "batch without data")


def _square(ink: str) -> Callable[[float, float], str]:
    return lambda x, y: element("rect", x=x - 6, y=y - 6, width=12, height=12, fill=ink)
