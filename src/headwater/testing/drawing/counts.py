"""The picture without event time: how many rows each batch brought in and gave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from headwater.testing.drawing.frame import NARROWEST, TOP, Entry, Frame, colour, document, shaded
from headwater.testing.drawing.layout import Slot, density_of, slots_of
from headwater.testing.drawing.picture import Column, Picture
from headwater.testing.drawing.svg import FAINT, GRID, INK, element, group, label, line, width_of

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
    return document(picture, frame, body, list(_legend(picture)), told)


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
        yield group(_column(picture, slot, column, (HEIGHT - 24) / most, frame.bottom), class_="bars")


def _column(picture: Picture, slot: Slot, column: Column, scale: float, bottom: float) -> Iterator[str]:
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


def _legend(picture: Picture) -> Iterator[Entry]:
    for source in picture.sources:
        yield Entry(_square(colour(picture, source)), f"rows of {source}")
    if any(column.batch.rows for column in picture.columns):
        yield Entry(_square(OUT), "rows out")
    if not all(column.has_data for column in picture.columns):
        yield Entry(shaded, "batch without data")


def _square(ink: str) -> Callable[[float, float], str]:
    return lambda x, y: element("rect", x=x - 6, y=y - 6, width=12, height=12, fill=ink)
