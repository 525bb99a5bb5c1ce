"""Where everything stands in a picture: the axis of event time, and batches from left to right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headwater.testing.drawing.picture import Box, Column, Dot, Mark, Picture
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
MARGIN = 16.0
"""Room above and below the outermost times."""
TICK = 32.0
"""The least distance of two ticks."""
DOT_WIDTH = 11.0
LABEL_SIZE, LABEL_GAP = 11.0, 13.0
BOX_SIZE, BOX_GAP = 10.0, 4.0
PAD = 9.0
MARK_WIDTH, BATCH_WIDTH, NO_DATA_WIDTH = 22.0, 84.0, 58.0


@dataclass(frozen=True)
class Axis:
    """Where each time stands, the earliest at the bottom; heights count from the picture's upper edge."""

    first: int
    last: int
    top: float
    bottom: float

    @property
    def scale(self) -> float:
        """Pixels for a microsecond."""
        return (self.bottom - self.top - 2 * MARGIN) / max(self.last - self.first, 1)

    def y(self, time: int) -> float:
        if self.first == self.last:
            return (self.bottom + self.top) / 2
        return self.bottom - MARGIN - (time - self.first) * self.scale

    def ticks(self, calendar: Calendar) -> Iterator[tuple[float, str]]:
        """Heights and names of round times; days are named where they change."""
        step = next((each for each in STEPS if each * self.scale >= TICK), STEPS[-1])
        offset = calendar.offset(self.first)
        begin = -(-(self.first + offset) // step) * step - offset
        said = calendar.day
        for time in range(begin, self.last + 1, step) or [self.first]:
            local = calendar.local(time)
            day = "" if local.date() == said and step < DAY else calendar.dated(local.date())
            yield self.y(time), f"{day} {'' if step >= DAY else clock(local)}".strip()
            said = local.date()


@dataclass(frozen=True)
class Slot:
    """The place of a batch or of a mark between two."""

    part: Column | Mark
    x: float
    width: float
    dots: tuple[tuple[Dot, float, float], ...] = ()
    """Rows with their places."""
    labels_x: float = 0.0
    boxes: tuple[tuple[Box, float, float], ...] = ()
    """Windows with their left edges and widths."""


def slots_of(picture: Picture, y: Callable[[int], float], left: float, narrowest: float) -> list[Slot]:
    """All parts side by side; batches with data share what is left of the narrowest width."""
    drafts = [_slot(part, y) for part in picture.parts]
    wide = sum(isinstance(each.part, Column) and each.part.has_data for each in drafts)
    spare = max(0.0, narrowest - sum(each.width for each in drafts)) / max(wide, 1)
    widths = [each.width + spare * (isinstance(each.part, Column) and each.part.has_data) for each in drafts]
    starts = accumulate(widths, initial=left)
    return [_moved(slot, x, width) for slot, x, width in zip(drafts, starts, widths, strict=False)]


def _slot(part: Column | Mark, y: Callable[[int], float]) -> Slot:
    """A part as wide as it must be, beginning at zero."""
    if isinstance(part, Mark):
        return Slot(part, 0, MARK_WIDTH)
    dots: list[tuple[Dot, float, float]] = []
    for dot in part.dots:
        # Rows that would cover each other stand side by side.
        near = bool(dots) and abs(dots[-1][2] - y(dot.time)) < DOT_WIDTH / 2
        dots.append((dot, dots[-1][1] + DOT_WIDTH if near else PAD + DOT_WIDTH / 2, y(dot.time)))
    labels_x = max((x for _, x, _ in dots), default=PAD) + DOT_WIDTH / 2
    at = labels_x + max((width_of(dot.label, LABEL_SIZE) + 10 for dot in part.dots), default=0.0)
    lanes = box_lanes(part.boxes)
    widths = [0.0] * (max(lanes, default=-1) + 1)
    for box, lane in zip(part.boxes, lanes, strict=True):
        texts = max((width_of(text, BOX_SIZE) for text in box.texts), default=0.0)
        widths[lane] = max(widths[lane], min(texts, 90.0) + BOX_SIZE)
    edges = list(accumulate((width + BOX_GAP for width in widths), initial=at))
    boxes = tuple((box, edges[lane], widths[lane]) for box, lane in zip(part.boxes, lanes, strict=True))
    width = max(BATCH_WIDTH if part.has_data else NO_DATA_WIDTH, edges[-1] + PAD)
    return Slot(part, 0, width, tuple(dots), labels_x, boxes)


def _moved(slot: Slot, x: float, width: float) -> Slot:
    dots = tuple((dot, x + at, y) for dot, at, y in slot.dots)
    boxes = tuple((box, x + at, wide) for box, at, wide in slot.boxes)
    return Slot(slot.part, x, width, dots, x + slot.labels_x, boxes)


def box_lanes(boxes: Sequence[Box]) -> list[int]:
    """For each window the first lane that is free at its start."""
    free: list[int] = []
    placed = []
    for box in boxes:
        lane = next((index for index, end in enumerate(free) if end <= box.start), len(free))
        free[lane : lane + 1] = [box.end]
        placed.append(lane)
    return placed


def apart(wanted: Sequence[float], bottom: float) -> list[float]:
    """The heights wanted, moved down until they stand a gap apart, and up again from the bottom."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + LABEL_GAP) if places else place)
    for index in reversed(range(len(places))):
        bottom = places[index] = min(places[index], bottom)
        bottom -= LABEL_GAP
    return places
