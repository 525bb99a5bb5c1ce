"""The signs of a picture with event time, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.testing.drawing.frame import Entry, colour, shaded
from headwater.testing.drawing.lateness import Fate
from headwater.testing.drawing.picture import Picture
from headwater.testing.drawing.svg import FAINT, RED, element, group, line
from headwater.values.durations import Duration

WINDOW = "#475569"
WINDOW_FILL = "#eef1f5"
FATES = {
    Fate.BEHIND: "behind the watermark (dropped in part, or unclear)",
    Fate.DROPPED: "dropped as late",
}


def legend_of(picture: Picture) -> list[Entry]:
    """An entry for each sign that the picture holds."""
    return [*_rows(picture), *_lines(picture), *_rest(picture)]


def _rows(picture: Picture) -> Iterator[Entry]:
    for source in picture.sources:
        if source in picture.event_times:
            column, delay = picture.event_times[source]
            told = f"row of {source} (event time: {column}, delay: {Duration(delay)})"
            yield Entry(_dot_entry(Fate.KEPT, colour(picture, source)), told)
    found = {dot.fate: colour(picture, dot.source) for column in picture.columns for dot in column.dots}
    per_window = " (Spark counts it once per window)" if any(each.boxes for each in picture.columns) else ""
    for fate, told in FATES.items():
        if fate in found:
            counted = told + per_window if fate is Fate.DROPPED else told
            yield Entry(_dot_entry(fate, found[fate]), counted)


def _lines(picture: Picture) -> Iterator[Entry]:
    newest = list(picture.columns[-1].newest)
    if newest:
        ink = colour(picture, newest[0]) if len(newest) == 1 else FAINT
        yield Entry(lambda x, y: _stroke(x, y, ink, "5 4", 1.4), "newest event time so far")
    used = [column.watermark for column in picture.columns]
    if any(time is not None for time in (*used, picture.watermark_after)):
        yield Entry(lambda x, y: _stroke(x, y, RED, "none", 2.2), "watermark that the batch used")


def _rest(picture: Picture) -> Iterator[Entry]:
    if any(column.boxes for column in picture.columns):
        yield Entry(_window, "window in the output")
    if not all(column.has_data for column in picture.columns):
        yield Entry(shaded, "batch without data")
    if picture.undated:
        yield Entry(lambda x, y: "", f"not drawn, having no event time: {picture.undated}")


def dot_sign(fate: Fate, ink: str, x: float, y: float) -> Iterator[str]:
    """Filled if kept, hollow if behind the watermark, red and crossed if dropped."""
    kept, dropped = fate is Fate.KEPT, fate is Fate.DROPPED
    yield element(
        "circle",
        cx=x,
        cy=y,
        r=4.2,
        fill=ink if kept else "#fff",
        stroke=RED if dropped else "#fff" if kept else ink,
        stroke_width=1 if kept else 1.6,
    )
    if dropped:
        for side in (1.0, -1.0):
            yield line(x - 2.7, y - 2.7 * side, x + 2.7, y + 2.7 * side, stroke=RED, stroke_width=1.6)


def _dot_entry(fate: Fate, ink: str) -> Callable[[float, float], str]:
    return lambda x, y: group(dot_sign(fate, ink, x, y))


def _stroke(x: float, y: float, ink: str, dashes: str, wide: float) -> str:
    return line(x - 12, y, x + 12, y, stroke=ink, stroke_width=wide, stroke_dasharray=dashes)


def _window(x: float, y: float) -> str:
    return element("rect", x=x - 8, y=y - 7, width=16, height=14, rx=2, fill=WINDOW_FILL, stroke=WINDOW)
