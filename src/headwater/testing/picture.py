"""The contents of a diagram of a test: batches in order, rows, windows, watermarks and events in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum
from math import gcd
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.testing.results import Batch, StepTrace, TestResult, Values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LONGEST_LABEL, LONGEST_VALUE = 18, 14
MANY_WINDOWS = 1_000
MOST_BOXES = 6
Span = tuple[int, int]
"""The start and the end of a window, in microseconds since 1970, like all times of a diagram."""


@dataclass(frozen=True)
class Calendar:
    """The time zone in which times are shown, and the day that is omitted."""

    zone: tzinfo
    zone_name: str
    day: date

    @classmethod
    def of(cls, result: TestResult) -> Calendar:
        """Time zones that only Spark knows, such as `GMT+3`, are shown in UTC."""
        day = date.fromisoformat(result.day)
        try:
            return cls(ZoneInfo(result.zone), result.zone, day)
        except (ZoneInfoNotFoundError, ValueError):
            return cls(UTC, "UTC", day)

    def micros(self, time: datetime) -> int:
        """A time as a number; one without a zone is in the time zone of the diagram."""
        return ((time if time.tzinfo else time.replace(tzinfo=self.zone)) - EPOCH) // MICROSECOND

    def local(self, micros: int) -> datetime:
        return (EPOCH + micros * MICROSECOND).astimezone(self.zone)

    def short(self, micros: int) -> str:
        """`12:07`, with the day only if it is a different one."""
        local = self.local(micros)
        return clock(local) if local.date() == self.day else f"{self.dated(local)} {clock(local)}"

    def dated(self, day: date) -> str:
        """`2 Jan`, with the year only if it is a different one."""
        written = f"{day.day} {day:%b}"
        return written if day.year == self.day.year else f"{written} {day.year}"

    def text(self, value: Any) -> str:
        """A value in a few characters."""
        match value:
            case None:
                return "null"
            case datetime():
                return self.short(self.micros(value))
            case bool():
                return str(value).lower()
            case float():
                return f"{value:g}"
            case Mapping():
                return " ".join(map(self.text, value.values()))
            case _:
                return cut(" ".join(str(value).split()), LONGEST_VALUE)

    def label(self, time: int, row: Values) -> str:
        """The time of a row and the first of its values that is not a time: `12:07 owl`."""
        others = [each for each in row.values() if each is not None and not isinstance(each, datetime)]
        return cut(" ".join([self.short(time), *map(self.text, others[:1])]), LONGEST_LABEL)


def clock(local: datetime) -> str:
    """Hours and minutes, and more if there is more."""
    if local.microsecond:
        return local.strftime("%H:%M:%S.%f").rstrip("0")
    return local.strftime("%H:%M:%S" if local.second else "%H:%M")


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


# Which rows a batch dropped as late, inferred from Spark's counts and from the emitted windows.


class RowFate(Enum):
    """What happened to a row."""

    KEPT = "kept"
    BEHIND = "behind"
    """Behind the watermark: partly dropped, or it is unknown whether it was dropped."""
    DROPPED = "dropped"


WindowEnds = Callable[[int], Sequence[int]]
"""The ends of all windows that a row of this time belongs to."""


def window_ends(seen: set[Span]) -> WindowEnds | None:
    """The length and the slide that explain the observed windows; windows of several lengths are sessions."""
    if not seen:
        return None
    origin, shortest = min(seen)[0], min(end - start for start, end in seen)
    apart = gcd(*(start - origin for start, _ in seen))
    slide = gcd(apart, shortest) if apart == 0 or apart > shortest else apart
    sessions = any(end - start != shortest for start, end in seen)
    if sessions or shortest > slide * MANY_WINDOWS:
        return lambda time: [time + shortest]
    return lambda time: range(time - (time - origin) % slide + shortest, time, -slide)


def fates(times: Sequence[int], late: int, watermark: int | None, ends: WindowEnds | None) -> list[RowFate]:
    """What happened to the rows of a batch.

    The watermark is that of the previous batch: Spark drops late rows by it, and uses the batch's own one
    only to clear state. A row counts as dropped only if that explains Spark's count.
    """
    if watermark is None or not late:
        return [RowFate.KEPT] * len(times)
    windows = [ends(time) for time in times] if ends else []
    closed = [[end for end in each if end <= watermark] for each in windows]
    each_closed = [end for each in closed for end in each]
    # Spark counts late rows once per window, and at least one for all rows of one key and window.
    if len(set(each_closed)) <= late <= len(each_closed):
        return [
            RowFate.KEPT if not shut else RowFate.DROPPED if len(shut) == len(every) else RowFate.BEHIND
            for shut, every in zip(closed, windows, strict=True)
        ]
    behind = [time <= watermark for time in times]
    told = RowFate.DROPPED if sum(behind) == late else RowFate.BEHIND
    return [told if each else RowFate.KEPT for each in behind]


@dataclass(frozen=True)
class Dot:
    """One row that was fed and has an event time."""

    source: str
    time: int
    label: str
    fate: RowFate


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
    """The newest event time so far, by source."""

    @property
    def has_data(self) -> bool:
        return any(self.batch.rows_in.values())


@dataclass(frozen=True)
class Mark:
    """Something that happened between two batches."""

    text: str


@dataclass
class Picture:
    """The steps of a test as one sink's query saw them, one after another."""

    result: TestResult
    sink: str
    """Empty if no query ran a batch."""
    calendar: Calendar
    parts: list[Column | Mark] = field(default_factory=list)
    undated: int = 0
    """Rows without event time, of sources that have one."""
    newest: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    """Rows that no batch has read yet, by source."""
    _read: dict[int, list[tuple[str, Values]]] = field(default_factory=dict)
    """The rows of each batch with their sources, in case it is retried."""

    def __post_init__(self) -> None:
        batches = [batch for step in self.result.steps for batch in self._of(step)]
        self.sources = list(dict.fromkeys(name for batch in batches for name in batch.rows_in))
        self._watermarks = {batch.id: self._micros(batch.watermark) for batch in batches}
        spans = (self._span(row) for batch in batches for row in batch.rows)
        self._ends = window_ends({span for span, _ in spans if span})
        for step in self.result.steps:
            self._take(step)

    @classmethod
    def of(cls, result: TestResult, sink: str | None) -> Picture:
        """The diagram of one sink's query; by default, of the first one that ran a batch."""
        ran = (name for step in result.steps for name, batches in step.batches.items() if batches)
        return cls(result, sink if sink is not None else next(ran, ""), Calendar.of(result))

    @property
    def columns(self) -> list[Column]:
        return [part for part in self.parts if isinstance(part, Column)]

    @property
    def watermark_after(self) -> int | None:
        """The one that the next batch would use."""
        told = [step.watermarks[self.sink] for step in self.result.steps if self.sink in step.watermarks]
        return self._micros(told[-1]) if told else None

    @property
    def times(self) -> list[int]:
        """Every time that needs a position on the axis; none if no row and no window has one."""
        found = {dot.time for column in self.columns for dot in column.dots}
        found |= {edge for column in self.columns for box in column.boxes for edge in (box.start, box.end)}
        marks = {self.watermark_after, *(column.watermark for column in self.columns)} if found else set()
        return sorted(found.union(mark for mark in marks if mark is not None))

    def _of(self, step: StepTrace) -> tuple[Batch, ...]:
        return step.batches.get(self.sink, ())

    def _micros(self, time: datetime | None) -> int | None:
        return None if time is None else self.calendar.micros(time)

    def _take(self, step: StepTrace) -> None:
        text = step.text
        if text.startswith("advance "):
            text += f", to {self.calendar.short(self.calendar.micros(step.clock))}"
        if text.partition(" ")[0] not in ("feed", "check"):
            if self.parts and isinstance(before := self.parts[-1], Mark):
                self.parts.pop()
                text = f"{before.text} · {text}"
            self.parts.append(Mark(text))
        for source, rows in step.fed.items():
            self._waiting[source].extend(rows)
        self.parts.extend(self._column(batch) for batch in self._of(step))

    def _column(self, batch: Batch) -> Column:
        if batch.id not in self._read:
            # A batch reads everything that is pending in each source it reads from.
            names = [name for name, count in batch.rows_in.items() if count]
            self._read[batch.id] = [(name, row) for name in names for row in self._waiting.pop(name, [])]
        dated = []
        for source, row in self._read[batch.id]:
            column, _ = self.result.event_times.get(source, ("", 0))
            value = row.get(column)
            if isinstance(value, datetime):
                dated.append((source, row, self.calendar.micros(value)))
            elif column and not batch.retried:
                self.undated += 1
        late_by = self._watermarks.get(batch.id - 1)
        told = fates([time for _, _, time in dated], batch.late, late_by, self._ends)
        dots = [
            Dot(source, time, self.calendar.label(time, row), fate)
            for (source, row, time), fate in zip(dated, told, strict=True)
        ]
        for dot in dots:
            self.newest[dot.source] = max(dot.time, self.newest.get(dot.source, dot.time))
        boxes = self._boxes(batch)
        shown = boxes[-MOST_BOXES:]
        return Column(
            batch,
            self._watermarks[batch.id],
            tuple(sorted(dots, key=lambda dot: -dot.time)),
            tuple(shown),
            len(boxes) - len(shown),
            dict(self.newest),
        )

    def _boxes(self, batch: Batch) -> list[Box]:
        """The windows of a batch's output by time, each with its rows in order."""
        texts: dict[Span, list[str]] = defaultdict(list)
        for row in batch.rows:
            span, columns = self._span(row)
            if span:
                others = (self.calendar.text(value) for name, value in row.items() if name not in columns)
                texts[span].append(" ".join(others))
        return [Box(*span, tuple(sorted(texts[span]))) for span in sorted(texts)]

    def _span(self, row: Values) -> tuple[Span | None, tuple[str, ...]]:
        """The window of a row and its columns: a struct with start and end, or two columns."""
        for name, value in row.items():
            columns: tuple[str, ...] = (name,)
            if isinstance(value, Mapping):
                pair = (value.get("start"), value.get("end"))
            elif name == "start" or name.endswith("_start"):
                end = name.removesuffix("start") + "end"
                pair, columns = (value, row.get(end)), (name, end)
            else:
                continue
            span = [self.calendar.micros(edge) for edge in pair if isinstance(edge, datetime)]
            if len(span) == 2 and span[0] < span[1]:
                return (span[0], span[1]), columns
        return None, ()
