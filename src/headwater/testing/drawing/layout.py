"""Where the parts of a picture stand from left to right, and how labels keep out of each other's way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.testing.drawing.lateness import Fate
from headwater.testing.drawing.picture import Box, Column, Dot, Mark, Picture
from headwater.testing.drawing.svg import width_of

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
