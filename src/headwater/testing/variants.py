"""The same test once more under harder conditions: rows in another order, a crash after every feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

from headwater.testing.steps import ChangeTo, Crash, Feed, Restart, Rows, Start, Step, Stop, Test


def shuffled(test: Test, number: int) -> Test:
    """The test with the rows of every feed in another order; the same number gives the same order."""
    random = Random(number)
    steps = [
        replace(step, rows=_reordered(step.rows, random)) if isinstance(step, Feed) else step
        for step in test.steps
    ]
    return replace(test, name=f"{test.name} [shuffled {number}]", steps=steps)


def _reordered(rows: Mapping[str, Rows], random: Random) -> dict[str, Rows]:
    return {name: _another_order(fed, random) for name, fed in rows.items()}


def _another_order(rows: Rows, random: Random) -> Rows:
    order = list(range(len(rows)))
    # Of two rows every second draw would be the order that is tested already.
    while len(order) > 1 and order == sorted(order):
        random.shuffle(order)
    return [rows[index] for index in order]


def crashed(test: Test) -> Test:
    """The test with a crash right after every feed; what the test expects of a feed stays with it."""
    return replace(test, name=f"{test.name} [crashed]", steps=list(_with_crashes(test)))


def _with_crashes(test: Test) -> Iterator[Step]:
    running = True
    following: list[Step | None] = [*test.steps[1:], None]
    for step, after in zip(test.steps, following, strict=True):
        running = isinstance(step, Start | Restart | ChangeTo) or (running and not isinstance(step, Stop))
        yield step
        # A stopped query has nothing to crash, and a failed one is down already.
        if isinstance(step, Feed) and running and step.fails is None and not isinstance(after, Crash):
            yield Crash(place=step.place)
