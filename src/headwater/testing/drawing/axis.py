"""The axis of event time: one scale, with breaks where nothing happens for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from headwater.testing.drawing.words import Calendar, clock

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
