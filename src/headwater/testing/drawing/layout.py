"""The axis of event time: one scale, with breaks where nothing happens for long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from headwater.testing.drawing.picture import Box, Column, Dot, Fate, Mark, Picture
from headwater.testing.drawing.svg import Calendar, clock, width_of

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
STEPS = (
    *(SECOND // 1_000 * each for each in (1, 10, 100, 500)),
    *(SECOND * each for each in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12)),
    *(DAY * each for each in (1, 2, 7, 28, 91, 364)),
)
BREAK = 26.0
"""The height of a break."""
MARGIN = 16.0
"""Room above and below the outermost times."""
DENSE = 14.0
"""Neighbouring times nearer than this, on average, are worth a break elsewhere."""
TICK = 32.0
"""The least distance of two ticks."""


@dataclass(frozen=True)
class Stretch:
    """A part of the axis without a break; its bottom and its top count from the upper edge of the picture."""

    first: int
    last: int
    bottom: float
    top: float
    scale: float
    """Pixels for a microsecond."""

    def y(self, time: int) -> float:
        if self.first == self.last:
            return (self.bottom + self.top) / 2
        return self.bottom - MARGIN - (time - self.first) * self.scale


@dataclass(frozen=True)
class Tick:
    """A line across the picture with a time beside it."""

    y: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Where each time stands."""

    stretches: tuple[Stretch, ...]

    def y(self, time: int) -> float:
        return next((each for each in self.stretches if time <= each.last), self.stretches[-1]).y(time)

    @property
    def breaks(self) -> list[float]:
        """The middles of the breaks."""
        return [each.top - BREAK / 2 for each in self.stretches[:-1]]

    def ticks(self, calendar: Calendar) -> list[Tick]:
        """Round times; one at the least in every stretch; days are named where they begin or change."""
        ticks: list[Tick] = []
        said = calendar.day
        for stretch in self.stretches:
            times, step = _round_times(stretch, calendar)
            for time in times:
                local = calendar.local(time)
                ticks.append(Tick(stretch.y(time), _label(calendar, time, said, step)))
                said = local.date()
        return ticks


def _round_times(stretch: Stretch, calendar: Calendar) -> tuple[list[int], int]:
    if stretch.first == stretch.last:
        return [stretch.first], 0
    step = next((each for each in STEPS if each * stretch.scale >= TICK), STEPS[-1])
    beyond = int(MARGIN / stretch.scale)
    offset = calendar.offset(stretch.first)
    begin = -(-(stretch.first + offset - beyond) // step) * step - offset
    times = list(range(begin, stretch.last + beyond + 1, step))
    return (times, step) if times else ([stretch.first], 0)


def _label(calendar: Calendar, time: int, said: date, step: int) -> str:
    local = calendar.local(time)
    if step >= DAY:
        return calendar.dated(local.date())
    return clock(local) if local.date() == said else f"{calendar.dated(local.date())} {clock(local)}"


def axis_of(times: Sequence[int], top: float, height: float) -> Axis:
    """The axis for these times, earliest at the bottom."""
    groups = _groups(times, height)
    total = sum(group[-1] - group[0] for group in groups)
    room = height - BREAK * (len(groups) - 1) - 2 * MARGIN * len(groups)
    scale = room / total if total else 0.0
    spare = 0.0 if total else room / len(groups)
    stretches, bottom = [], top + height
    for group in groups:
        upper = bottom - 2 * MARGIN - spare - (group[-1] - group[0]) * scale
        stretches.append(Stretch(group[0], group[-1], bottom, upper, scale))
        bottom = upper - BREAK
    return Axis(tuple(stretches))


def _groups(times: Sequence[int], height: float) -> list[list[int]]:
    """Break the longest gap as long as it takes most of the axis and leaves the rest too dense to read."""
    groups = [list(times)]
    while True:
        gaps = [
            (after - before, index, at)
            for index, group in enumerate(groups)
            for at, (before, after) in enumerate(pairwise(group), start=1)
        ]
        if len(gaps) < 2:
            return groups
        total = sum(gap for gap, _, _ in gaps)
        longest, index, at = max(gaps)
        room = height - (BREAK + 2 * MARGIN) * len(groups)
        if 2 * longest <= total or (total - longest) / total * room >= DENSE * (len(gaps) - 1):
            return groups
        group = groups[index]
        groups[index : index + 1] = [group[:at], group[at:]]


# Where the parts of a picture stand from left to right, and how labels keep out of each other's way.

WIDEST = 1_500.0
MARK_WIDTH = 22.0
DOT_WIDTH = 11.0
DOT_LANES = 4
DOT_APART = 6.0
"""Rows nearer than this stand side by side."""
LABEL_SIZE = 11.0
LABEL_GAP = 13.0
BOX_SIZE = 10.0
BOX_GAP = 4.0
Heights = Callable[[int], float]
"""Where a time stands on the axis."""


@dataclass(frozen=True)
class Density:
    """How much is written into the picture."""

    labels: bool
    """Beside rows."""
    texts: bool
    """In windows."""
    pad: float
    data: float
    """The least width of a batch."""
    no_data: float


DENSITIES = (
    Density(labels=True, texts=True, pad=9, data=84, no_data=58),
    Density(labels=True, texts=False, pad=7, data=64, no_data=58),
    Density(labels=False, texts=False, pad=5, data=30, no_data=20),
)


@dataclass(frozen=True)
class Lane:
    """A place for windows that don't overlap."""

    x: float
    width: float


@dataclass(frozen=True)
class Slot:
    """The place of a batch or of a mark between two; places inside it count from its left edge."""

    part: Column | Mark
    x: float
    width: float
    labels_x: float = 0.0
    lanes: tuple[Lane, ...] = ()

    @property
    def right(self) -> float:
        return self.x + self.width


def density_of(picture: Picture, y: Heights) -> Density:
    """The most that fits."""
    fitting = (each for each in DENSITIES if sum(_width(part, each, y) for part in picture.parts) <= WIDEST)
    return next(fitting, DENSITIES[-1])


def slots_of(picture: Picture, density: Density, y: Heights, left: float, narrowest: float) -> list[Slot]:
    """All parts side by side; batches with data share what is left of the narrowest width."""
    widths = [_width(part, density, y) for part in picture.parts]
    wide = [index for index, part in enumerate(picture.parts) if isinstance(part, Column) and part.has_data]
    for index in wide:
        widths[index] += max(0.0, narrowest - sum(widths)) / (len(wide) - wide.index(index))
    slots, x = [], left
    for part, width in zip(picture.parts, widths, strict=True):
        slots.append(_slot(part, density, y, x, width))
        x += width
    return slots


def _slot(part: Column | Mark, density: Density, y: Heights, x: float, width: float) -> Slot:
    if isinstance(part, Mark):
        return Slot(part, x, width)
    lanes, at = [], density.pad + _rows_width(part, density, y)
    for lane_width in _lane_widths(part, density):
        lanes.append(Lane(at, lane_width))
        at += lane_width + BOX_GAP
    return Slot(part, x, width, density.pad + _dots_width(part, y), tuple(lanes))


def _width(part: Column | Mark, density: Density, y: Heights) -> float:
    if isinstance(part, Mark):
        return MARK_WIDTH
    lanes = sum(width + BOX_GAP for width in _lane_widths(part, density))
    least = density.data if part.has_data else density.no_data
    return max(least, _rows_width(part, density, y) + lanes + 2 * density.pad)


def _dots_width(column: Column, y: Heights) -> float:
    return DOT_WIDTH * (max(dot_lanes([y(dot.time) for dot in column.dots]), default=-1) + 1)


def _rows_width(column: Column, density: Density, y: Heights) -> float:
    if not column.dots:
        return 0.0
    labels = max(width_of(dot.label, LABEL_SIZE) for dot in column.dots) + 10 if density.labels else 2.0
    return _dots_width(column, y) + labels


def _lane_widths(column: Column, density: Density) -> list[float]:
    placed = box_lanes(column.boxes)
    widths = [9.0] * (max(placed, default=-1) + 1)
    if density.texts:
        for box, lane in zip(column.boxes, placed, strict=True):
            texts = max((width_of(text, BOX_SIZE) for text in box.texts), default=0.0)
            widths[lane] = max(widths[lane], min(texts, 90.0) + 9)
        if column.hidden:
            widths[0] = max(widths[0], 46.0)
    return widths


def box_lanes(boxes: Sequence[Box]) -> list[int]:
    """For each window the first lane that is free at its start."""
    free: list[int] = []
    placed = []
    for box in boxes:
        lane = next((index for index, end in enumerate(free) if end <= box.start), len(free))
        free[lane : lane + 1] = [box.end]
        placed.append(lane)
    return placed


def dot_lanes(heights: Sequence[float]) -> list[int]:
    """For each dot the first lane where no other lies; beyond the last lane they lie on each other."""
    lanes: list[list[float]] = [[] for _ in range(DOT_LANES)]
    placed = []
    for height in heights:
        free = (
            at for at, taken in enumerate(lanes) if all(abs(height - each) >= DOT_APART for each in taken)
        )
        lane = next(free, DOT_LANES - 1)
        lanes[lane].append(height)
        placed.append(lane)
    return placed


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places in the same order, a gap apart and as near as can be to those wanted, between two bounds."""
    blocks: list[list[float]] = []
    for index, place in enumerate(wanted):
        blocks.append([place - index * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    highest = high - (len(wanted) - 1) * gap
    bases = [max(low, min(_mean(block), highest)) for block in blocks for _ in block]
    return [base + index * gap for index, base in enumerate(bases)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def labelled(dots: Sequence[Dot], most: int) -> list[int]:
    """Which rows get a label if not all can: late ones before others, and the newest before the rest."""
    order = sorted(
        range(len(dots)), key=lambda index: (dots[index].fate is Fate.KEPT, -dots[index].time, index)
    )
    return sorted(order if len(dots) <= most else order[: most - 1])
