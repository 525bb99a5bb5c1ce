"""What a picture of a test shows: batches in order, rows, windows, watermarks and what happened between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from itertools import accumulate
from math import gcd
from typing import Any

from headwater.testing.drawing.svg import Calendar, calendar_of, clock, row_label, value_text, width_of
from headwater.testing.results import Batch, StepTrace, TestResult, Values

# Which rows a batch dropped as late, told from what Spark counts and from the windows that came out.

MANY_WINDOWS = 1_000


class Fate(Enum):
    """What became of a row."""

    KEPT = "kept"
    BEHIND = "behind"
    """Behind the watermark: dropped in part, or it can't be told whether it was dropped."""
    DROPPED = "dropped"


@dataclass(frozen=True)
class Span:
    """The window of one output row, in microseconds, and the columns that tell it."""

    start: int
    end: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Windows:
    """The windows of a query as its output shows them."""

    length: int
    slide: int
    """Zero where windows begin with a row, as sessions do."""
    origin: int

    def ends(self, time: int) -> list[int]:
        """The ends of all windows that a row of this time belongs to."""
        if not self.slide:
            return [time + self.length]
        last = time - (time - self.origin) % self.slide
        return [start + self.length for start in range(last, time - self.length, -self.slide)]


def span_of(row: Mapping[str, Any], calendar: Calendar) -> Span | None:
    """A struct with start and end, or two columns of such names."""
    for name, value in row.items():
        if isinstance(value, Mapping) and _are_times(value.get("start"), value.get("end")):
            return _span(value["start"], value["end"], (name,), calendar)
        if name == "start" or name.endswith("_start"):
            pair = name.removesuffix("start") + "end"
            if _are_times(value, row.get(pair)):
                return _span(value, row[pair], (name, pair), calendar)
    return None


def _are_times(*values: Any) -> bool:
    return all(isinstance(value, datetime) for value in values)


def _span(start: datetime, end: datetime, columns: tuple[str, ...], calendar: Calendar) -> Span | None:
    span = Span(calendar.micros(start), calendar.micros(end), columns)
    return span if span.start < span.end else None


def windows_of(spans: Iterable[Span]) -> Windows | None:
    """The length and the slide that explain the windows seen; windows of several lengths are sessions."""
    seen = sorted({(span.start, span.end) for span in spans})
    if not seen:
        return None
    lengths = {end - start for start, end in seen}
    shortest, origin = min(lengths), seen[0][0]
    if len(lengths) > 1:
        return Windows(shortest, 0, origin)
    apart = gcd(*(start - origin for start, _ in seen))
    slide = gcd(apart, shortest) if apart == 0 or apart > shortest else apart
    return Windows(shortest, slide if shortest <= slide * MANY_WINDOWS else 0, origin)


def fates(times: Sequence[int], late: int, watermark: int | None, windows: Windows | None) -> list[Fate]:
    """What became of the rows of a batch.

    The watermark is the one of the batch before: Spark drops late rows by it, and by the batch's own one it
    only clears state. A row is called dropped only where that explains the number that Spark counted.
    """
    if watermark is None or not late:
        return [Fate.KEPT] * len(times)
    if windows is not None:
        ends = [windows.ends(time) for time in times]
        if _explained(ends, late, watermark):
            return [_fate_in(each, watermark) for each in ends]
    behind = [time <= watermark for time in times]
    told = Fate.DROPPED if sum(behind) == late else Fate.BEHIND
    return [told if each else Fate.KEPT for each in behind]


def _explained(ends: Sequence[Sequence[int]], late: int, watermark: int) -> bool:
    """Spark counts late rows once per window, and rows of one key and window as one at the least."""
    closed = [end for each in ends for end in each if end <= watermark]
    return len(set(closed)) <= late <= len(closed)


def _fate_in(ends: Sequence[int], watermark: int) -> Fate:
    closed = sum(end <= watermark for end in ends)
    if not closed:
        return Fate.KEPT
    return Fate.DROPPED if closed == len(ends) else Fate.BEHIND


MOST_BOXES = 6
Fed = list[tuple[str, Values]]
"""Rows with the names of their sources."""


@dataclass(frozen=True)
class Dot:
    """One row that was fed and has an event time."""

    source: str
    time: int
    label: str
    fate: Fate


@dataclass(frozen=True)
class Box:
    """One window of a batch's output, with the values of its rows."""

    start: int
    end: int
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """One batch."""

    batch: Batch
    watermark: int | None
    dots: tuple[Dot, ...]
    """The newest first."""
    boxes: tuple[Box, ...]
    hidden: int
    """Windows beyond those that are shown."""
    newest: Mapping[str, int]
    """The newest event time seen so far, by source."""

    @property
    def has_data(self) -> bool:
        return any(self.batch.rows_in.values())


@dataclass(frozen=True)
class Mark:
    """Something that happened between two batches."""

    text: str


@dataclass(frozen=True)
class Picture:
    """All of it."""

    name: str
    sink: str | None
    calendar: Calendar
    parts: tuple[Column | Mark, ...]
    sources: tuple[str, ...]
    """Those of which rows came in, in the order in which they came."""
    event_times: Mapping[str, tuple[str, int]]
    watermark_after: int | None
    """The one that the next batch would use."""
    undated: int
    """Rows of sources with event time that have none."""

    @property
    def columns(self) -> list[Column]:
        return [part for part in self.parts if isinstance(part, Column)]

    @property
    def times(self) -> list[int]:
        """Every time that needs a place on the axis."""
        found = {self.watermark_after}
        for column in self.columns:
            found.add(column.watermark)
            found.update(dot.time for dot in column.dots)
            found.update(edge for box in column.boxes for edge in (box.start, box.end))
        return sorted(time for time in found if time is not None)


def picture_of(result: TestResult, sink: str | None) -> Picture:
    """The picture of one sink's query; of the first that ran a batch unless told."""
    ran = (name for step in result.steps for name, batches in step.batches.items() if batches)
    chosen = sink if sink is not None else next(ran, None)
    calendar = calendar_of(result)
    story = _Story(result, chosen or "", calendar)
    for step in result.steps:
        story.take(step)
    return Picture(
        result.name,
        chosen,
        calendar,
        tuple(story.parts),
        tuple(dict.fromkeys(name for batch in story.batches.values() for name in batch.rows_in)),
        result.event_times,
        story.micros(story.watermark_after),
        story.undated,
    )


@dataclass
class _Story:
    """The steps of a test, taken one after the other."""

    result: TestResult
    sink: str
    calendar: Calendar
    parts: list[Column | Mark] = field(default_factory=list)
    waiting: dict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    """Rows that no batch has read yet, by source."""
    read: dict[int, Fed] = field(default_factory=dict)
    """The rows of each batch, for when it runs again."""
    batches: dict[int, Batch] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    watermark_after: datetime | None = None
    undated: int = 0

    def __post_init__(self) -> None:
        self.windows: Windows | None = windows_of(self._spans())

    def _spans(self) -> Iterator[Any]:
        rows = (row for step in self.result.steps for batch in self._of(step) for row in batch.rows)
        return (span for row in rows if (span := span_of(row, self.calendar)))

    def _of(self, step: StepTrace) -> tuple[Batch, ...]:
        return step.batches.get(self.sink, ())

    def micros(self, time: datetime | None) -> int | None:
        return None if time is None else self.calendar.micros(time)

    def take(self, step: StepTrace) -> None:
        if step.text.partition(" ")[0] not in ("feed", "check"):
            self._mark(step)
        for source, rows in step.fed.items():
            self.waiting[source].extend(rows)
        self.parts.extend(self._column(batch) for batch in self._of(step))
        self.watermark_after = step.watermarks.get(self.sink, self.watermark_after)

    def _mark(self, step: StepTrace) -> None:
        text = step.text
        if text.startswith("advance "):
            text += f", to {self.calendar.short(self.calendar.micros(step.clock))}"
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Mark):
            self.parts[-1] = Mark(f"{last.text} · {text}")
        else:
            self.parts.append(Mark(text))

    def _column(self, batch: Batch) -> Column:
        fed = self._fed(batch)
        self.batches.setdefault(batch.id, batch)
        dated = [(source, row, time) for source, row in fed if (time := self._time(source, row)) is not None]
        before = self.batches.get(batch.id - 1)
        told = fates(
            [time for _, _, time in dated],
            batch.late,
            self.micros(before.watermark if before else None),
            self.windows,
        )
        found = (
            Dot(source, time, row_label(time, row, self.calendar), fate)
            for (source, row, time), fate in zip(dated, told, strict=True)
        )
        dots = tuple(sorted(found, key=lambda dot: -dot.time))
        for dot in dots:
            self.newest[dot.source] = max(dot.time, self.newest.get(dot.source, dot.time))
        boxes = _boxes(batch, self.calendar)
        shown = tuple(boxes[-MOST_BOXES:])
        hidden = len(boxes) - len(shown)
        return Column(batch, self.micros(batch.watermark), dots, shown, hidden, dict(self.newest))

    def _fed(self, batch: Batch) -> Fed:
        """A batch reads all that waits in the sources that it read from at all."""
        if batch.again and batch.id in self.read:
            return self.read[batch.id]
        names = [name for name, count in batch.rows_in.items() if count]
        fed = [(name, row) for name in names for row in self.waiting.pop(name, [])]
        self.undated += sum(
            name in self.result.event_times and self._time(name, row) is None for name, row in fed
        )
        self.read[batch.id] = fed
        return fed

    def _time(self, source: str, row: Values) -> int | None:
        column, _ = self.result.event_times.get(source, ("", 0))
        value = row.get(column)
        return self.calendar.micros(value) if isinstance(value, datetime) else None


def _boxes(batch: Batch, calendar: Calendar) -> list[Box]:
    """The windows of a batch's output by time, each with its rows in order."""
    texts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for row in batch.rows:
        if span := span_of(row, calendar):
            others = (value_text(value, calendar) for name, value in row.items() if name not in span.columns)
            texts[span.start, span.end].append(" ".join(others))
    return [Box(*edges, tuple(sorted(texts[edges]))) for edges in sorted(texts)]


# Where everything stands in a picture: the axis of event time, and batches from left to right.

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
