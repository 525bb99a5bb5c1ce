"""The picture with an axis of event time: rows, windows, the newest time seen and the watermark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from headwater.testing.drawing.frame import NARROWEST, TOP, Entry, Frame, colour, document, shaded
from headwater.testing.drawing.layout import (
    BOX_SIZE,
    DOT_WIDTH,
    LABEL_GAP,
    LABEL_SIZE,
    Axis,
    Density,
    Slot,
    axis_of,
    box_lanes,
    density_of,
    dot_lanes,
    labelled,
    slots_of,
    spread,
)
from headwater.testing.drawing.picture import Box, Column, Dot, Fate, Picture
from headwater.testing.drawing.svg import (
    FAINT,
    GRID,
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
from headwater.values.durations import Duration

# The signs of a picture with event time, and what they mean.

WINDOW = "#475569"
WINDOW_FILL = "#eef1f5"
FATES = {
    Fate.BEHIND: "behind the watermark (dropped in part, or unclear)",
    Fate.DROPPED: "dropped as late",
}


def legend_of(picture: Picture) -> list[Entry]:
    """An entry for each sign that the picture holds."""
    return [*_legend_rows(picture), *_lines(picture), *_rest(picture)]


def _legend_rows(picture: Picture) -> Iterator[Entry]:
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


LOWEST, HIGHEST = 340.0, 440.0
MOST_LABELS = 24
TAIL = 26.0
"""How far the lines go on after the last batch."""
LIFT = 8.0
"""How far the label of the newest row stands above its dot."""
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Everything that the drawing functions look at."""

    picture: Picture
    frame: Frame
    axis: Axis
    density: Density


@dataclass(frozen=True)
class Placed:
    """A row where it stands."""

    dot: Dot
    x: float
    y: float


def draw_event_time(picture: Picture) -> str:
    """The file for a picture in which something has a time."""
    chart = _chart(picture)
    body = [
        *_grid(chart),
        *_newest(chart),
        *(group(_boxes(chart, slot, column), class_="windows") for slot, column in chart.frame.columns()),
        *_watermark(chart),
        *(group(_texts(chart, slot, column), class_="texts") for slot, column in chart.frame.columns()),
        *_tail(chart),
        *(group(_rows(chart, slot, column), class_="rows") for slot, column in chart.frame.columns()),
    ]
    return document(picture, chart.frame, body, legend_of(picture), _description(picture))


def _chart(picture: Picture) -> Chart:
    crowd = max(len(column.dots) for column in picture.columns)
    height = min(HIGHEST, max(LOWEST, crowd * LABEL_GAP + 40))
    axis = axis_of(picture.times, TOP, height)
    labels = [tick.label for tick in axis.ticks(picture.calendar)]
    left = max(62.0, 20 + max(width_of(each, 11) for each in labels))
    density = density_of(picture, axis.y)
    title = width_of(picture.name, 15) + 32
    tail = TAIL + 16 + max((width_of(text, LABEL_SIZE) for _, text, _ in _ends(picture)), default=0.0)
    slots = slots_of(picture, density, axis.y, left, max(NARROWEST, min(title, 900.0) - left - tail))
    right = slots[-1].right
    return Chart(picture, Frame(slots, left, right, TOP + height, ceil(right + tail)), axis, density)


def _grid(chart: Chart) -> Iterator[str]:
    left, right = chart.frame.left, chart.frame.right
    ticks = []
    for tick in chart.axis.ticks(chart.picture.calendar):
        ticks.append(line(left - 4, tick.y, right, tick.y, stroke=GRID))
        ticks.append(label(left - 8, tick.y + 4, tick.label, text_anchor="end", fill=FAINT))
    yield group(ticks, class_="axis", font_size=11)
    yield line(left, TOP, left, chart.frame.bottom, stroke="#9ca3af")
    for y in chart.axis.breaks:
        yield _break(left, y, right)


def _break(left: float, y: float, right: float) -> str:
    """Two short strokes through the axis, and a band without anything in it."""
    strokes = [
        line(left - 5, y + shift + 3, left + 5, y + shift - 3, stroke="#9ca3af", stroke_width=1.5)
        for shift in (-3.0, 3.0)
    ]
    across = line(left + 8, y, right, y, stroke="#d1d5db", stroke_dasharray="1 5")
    gap = element("rect", x=left - 1, y=y - 3, width=2, height=6, fill="#fff")
    return group([gap, across, *strokes], class_="break")


def _watermark(chart: Chart) -> Iterator[str]:
    """A step where a batch uses another watermark, and the band behind it."""
    values = [(slot.x, slot.right, column.watermark) for slot, column in chart.frame.columns()]
    values.append((chart.frame.right, chart.frame.right + TAIL, chart.picture.watermark_after))
    points: Points = []
    for begin, end, value in values:
        if value is not None:
            y = chart.axis.y(value)
            points += _step(points, begin, end, y)
    if points:
        bottom = chart.frame.bottom
        area = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
        written = " ".join(f"{x:.1f},{y:.1f}" for x, y in area)
        yield element("polygon", points=written, fill=RED, fill_opacity="0.045", stroke="none")
        yield path_through(points, class_="watermark", stroke=RED, stroke_width=2.2, stroke_linejoin="round")
        if chart.density.labels:
            yield group(_watermark_labels(chart), font_size=BOX_SIZE, fill=RED)


def _watermark_labels(chart: Chart) -> Iterator[str]:
    """Its value below the line, wherever it is a new one."""
    said = None
    for slot, column in chart.frame.columns():
        if column.watermark is None or column.watermark == said:
            continue
        said = column.watermark
        text = chart.picture.calendar.short(said)
        if width_of(text, BOX_SIZE) <= slot.width - 4:
            yield label(slot.x + 5, chart.axis.y(said) + 13, text)


def _step(before: Points, begin: float, end: float, y: float) -> Points:
    """Go on from the last point up to here, then step."""
    held = [(begin, before[-1][1])] if before else []
    return [*held, (begin, y), (end, y)]


def _newest(chart: Chart) -> Iterator[str]:
    for source in chart.picture.sources:
        points: Points = []
        for slot, column in chart.frame.columns():
            if source in column.newest:
                points += _step(points, slot.x, slot.right, chart.axis.y(column.newest[source]))
        if points:
            points.append((points[-1][0] + TAIL, points[-1][1]))
            ink = colour(chart.picture, source)
            yield path_through(
                points,
                class_="newest",
                data_source=source,
                stroke=ink,
                stroke_width=1.4,
                stroke_dasharray="5 4",
            )


def _ends(picture: Picture) -> list[tuple[int, str, str]]:
    """The labels behind the lines' ends: time, text, colour."""
    newest = picture.columns[-1].newest
    ends = []
    for source, time in newest.items():
        what = "newest" if len(newest) == 1 else cut(source, 16)
        ends.append((time, f"{what} {picture.calendar.short(time)}", colour(picture, source)))
    after = picture.watermark_after
    if after is not None:
        ends.append((after, f"watermark {picture.calendar.short(after)}", RED))
        ends += [
            ((time + after) // 2, str(Duration(_delay(picture, source))), FAINT)
            for source, time in _holding(picture)
        ]
    return ends


def _holding(picture: Picture) -> list[tuple[str, int]]:
    """The source whose newest time and delay make the watermark, if one does, with that time."""
    return [
        (source, time)
        for source, time in picture.columns[-1].newest.items()
        if (delay := _delay(picture, source)) and time - delay * 1_000 == picture.watermark_after
    ][:1]


def _delay(picture: Picture, source: str) -> int:
    return picture.event_times[source][1]


def _tail(chart: Chart) -> Iterator[str]:
    """What the lines mean, at their ends, and the delay between them."""
    ends = sorted(_ends(chart.picture), reverse=True)
    heights = [chart.axis.y(time) for time, _, _ in ends]
    places = spread(heights, LABEL_GAP, TOP + 4, chart.frame.bottom - 4)
    x = chart.frame.right + TAIL + 6
    yield group(
        (
            label(x, place + 4, text, fill=ink, font_size=LABEL_SIZE)
            for place, (_, text, ink) in zip(places, ends, strict=True)
        ),
        class_="ends",
    )
    for _, time in _holding(chart.picture):
        yield _arrow(x - 18, chart.axis.y(time), chart.axis.y(chart.picture.watermark_after or time))


def _arrow(x: float, top: float, bottom: float) -> str:
    head = min(5.0, (bottom - top) / 3)
    strokes = [line(x, top + 2, x, bottom - 2, stroke=FAINT)]
    for y, side in ((top + 2, head), (bottom - 2, -head)):
        strokes.append(path_through([(x - 3, y + side), (x, y), (x + 3, y + side)], stroke=FAINT))
    return group(strokes, class_="delay")


def _boxes(chart: Chart, slot: Slot, column: Column) -> Iterator[str]:
    for box, lane in zip(column.boxes, box_lanes(column.boxes), strict=True):
        place = slot.lanes[lane]
        yield _box(chart, box, slot.x + place.x, place.width)


def _texts(chart: Chart, slot: Slot, column: Column) -> Iterator[str]:
    """The values of windows, above the lines that cross them."""
    if not chart.density.texts:
        return
    for box, lane in zip(column.boxes, box_lanes(column.boxes), strict=True):
        place, top = slot.lanes[lane], chart.axis.y(box.end)
        texts = _box_texts(box, chart.axis.y(box.start) - top, place.width)
        for y, text in enumerate(texts):
            yield haloed(slot.x + place.x + 4, top + 12 + 12 * y, text, font_size=BOX_SIZE, fill="#1e293b")
    if column.hidden:
        x = slot.x + slot.lanes[0].x
        yield haloed(x, chart.frame.bottom - 5, f"+{column.hidden} more", font_size=BOX_SIZE, fill=FAINT)


def _box(chart: Chart, box: Box, x: float, width: float) -> str:
    top, bottom = chart.axis.y(box.end), chart.axis.y(box.start)
    short = chart.picture.calendar.short
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


def _box_texts(box: Box, height: float, width: float) -> list[str]:
    """As many lines as the window has room for."""
    letters = int((width - 6) / width_of("x", BOX_SIZE))
    most = max(1, int((height - 4) / 12))
    texts = [cut(text, letters) for text in box.texts]
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"+{len(texts) - most + 1} more"]


def _rows(chart: Chart, slot: Slot, column: Column) -> Iterator[str]:
    heights = [chart.axis.y(dot.time) for dot in column.dots]
    first = slot.x + chart.density.pad + DOT_WIDTH / 2
    placed = [
        Placed(dot, first + DOT_WIDTH * lane, y)
        for dot, y, lane in zip(column.dots, heights, dot_lanes(heights), strict=True)
    ]
    if chart.density.labels:
        yield from _labels(chart, column, slot.x + slot.labels_x + 4, placed)
    for each in placed:
        yield _dot(each, colour(chart.picture, each.dot.source), column.batch.id)


def _dot(placed: Placed, ink: str, batch: int) -> str:
    dot = placed.dot
    told = element("title", words(f"{dot.label} ({dot.source})"))
    parts = [told, *dot_sign(dot.fate, ink, placed.x, placed.y)]
    return group(parts, class_=f"row {dot.fate.value}", data_source=dot.source, data_batch=str(batch))


def _labels(chart: Chart, column: Column, x: float, dots: Sequence[Placed]) -> Iterator[str]:
    """Beside the dots and apart from each other, with a thread to the dot where that took them away."""
    shown = [dots[index] for index in labelled([each.dot for each in dots], MOST_LABELS)]
    more = len(dots) - len(shown)
    top, bottom = TOP + 7, chart.frame.bottom - (20 if more else 7)
    # On the line of the newest time a label would be struck through.
    lines = [chart.axis.y(time) for time in column.newest.values()]
    wanted = [each.y - LIFT * (each.y in lines) for each in shown]
    for each, y in zip(shown, spread(wanted, LABEL_GAP, top, bottom), strict=True):
        if abs(each.y - y) > LIFT:
            yield line(each.x + 4, each.y, x - 1, y, stroke="#9ca3af", stroke_width=0.8)
        ink = RED if each.dot.fate is Fate.DROPPED else colour(chart.picture, each.dot.source)
        if any(abs(y - at) < LIFT - 1 for at in lines):
            yield _backing(x, y, each.dot.label)
        yield haloed(x, y + 4, each.dot.label, font_size=LABEL_SIZE, fill=ink)
    if more:
        yield haloed(x, chart.frame.bottom - 5, f"+{more} more", font_size=LABEL_SIZE, fill=FAINT)


def _backing(x: float, y: float, text: str) -> str:
    """It keeps a line from striking through a text that found no other place."""
    width = width_of(text, LABEL_SIZE) * 0.95
    return element("rect", x=x, y=y - 6, width=width, height=12, fill="#fff", fill_opacity="0.85")


def _description(picture: Picture) -> str:
    """The picture for those who don't see it."""
    fates = Counter(dot.fate for column in picture.columns for dot in column.dots)
    sentences = [
        f"Event time against the batches of sink {picture.sink}.",
        f"Batches: {len(picture.columns)}; rows: {fates.total()}; dropped as late: {fates[Fate.DROPPED]}.",
    ]
    if picture.watermark_after is not None:
        sentences.append(f"The watermark at the end is {picture.calendar.short(picture.watermark_after)}.")
    return " ".join(sentences)
