"""Sums and trends over a sliding period, in bounded memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise


class SlidingSums:
    """Sums over the last seconds, to a twentieth of them."""

    SLOTS = 20

    def __init__(self, seconds: float, width: int) -> None:
        self._length = seconds / self.SLOTS
        self._totals = [0] * width
        self._slots: deque[tuple[int, list[int]]] = deque()

    def add(self, now: float, *amounts: int) -> None:
        number = self._expire(now)
        if not self._slots or self._slots[-1][0] < number:
            self._slots.append((number, [0] * len(self._totals)))
        for place, amount in enumerate(amounts):
            self._slots[-1][1][place] += amount
            self._totals[place] += amount

    def totals(self, now: float) -> list[int]:
        self._expire(now)
        return list(self._totals)

    def _expire(self, now: float) -> int:
        number = int(now // self._length)
        while self._slots and self._slots[0][0] <= number - self.SLOTS:
            for place, amount in enumerate(self._slots.popleft()[1]):
                self._totals[place] -= amount
        return number


@dataclass
class Sample:
    """The lowest value of a short time, and a counter at its end."""

    at: float
    value: float
    counter: int


class Trend:
    """Samples of a value over a period; over a longer one if few samples were taken.

    Each sample is the lowest value of a thirtieth of the period: a value that returns to its base in every
    cycle, such as the lag of a query that keeps up, does not rise.
    """

    SAMPLES = 30
    FEWEST = 6

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._step = seconds / self.SAMPLES
        self._samples: deque[Sample] = deque()
        self._newest = 0.0

    def add(self, now: float, value: float, counter: int = 0) -> None:
        self._newest = now
        if self._samples and now - self._samples[-1].at < self._step:
            last = self._samples[-1]
            last.value, last.counter = min(last.value, value), counter
            return
        self._samples.append(Sample(now, value, counter))
        while len(self._samples) > self.FEWEST and self._samples[1].at <= now - self._seconds:
            self._samples.popleft()

    def clear(self) -> None:
        self._samples.clear()

    def rise(self, parts: int) -> tuple[Sample, Sample] | None:
        """The first and the last sample, if the value rose in every part of the complete period."""
        samples = list(self._samples)
        if len(samples) < self.FEWEST or self._newest - samples[0].at < self._seconds:
            return None
        bounds = [len(samples) * number // parts for number in range(parts + 1)]
        lowest = [min(each.value for each in samples[start:end]) for start, end in pairwise(bounds)]
        rising = all(before < after for before, after in pairwise(lowest))
        return (samples[0], samples[-1]) if rising else None
