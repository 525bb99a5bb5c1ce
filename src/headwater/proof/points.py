"""Where a run is killed, as data: the points, what is killed there, and the schedule of a proof."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Victim(StrEnum):
    """What is killed."""

    BOTH = "driver and JVM"
    DRIVER = "driver"
    JVM = "JVM"
    WORKER = "Python worker"
    CONNECTION = "database connection"


class Needs(StrEnum):
    """What a sink must have for a point."""

    NOTHING = ""
    BATCHES = "the number of its newest batch"
    LEDGER = "a ledger that can be locked"
    CONNECTIONS = "connections to a server"


@dataclass(frozen=True)
class Point:
    """A moment of a run at which it is killed."""

    name: str
    summary: str
    victims: tuple[Victim, ...] = (Victim.BOTH,)
    needs: Needs = Needs.NOTHING
    starts: bool = False
    """It needs a run that has just been started."""


_ANY = (Victim.BOTH, Victim.DRIVER, Victim.JVM)

POINTS = (
    Point("before-offsets", "between two batches, before Spark writes `offsets/N`", _ANY),
    Point("after-offsets", "after Spark has written `offsets/N`", _ANY),
    Point("mid-task", "while the tasks of a batch run", _ANY),
    Point("worker", "all Python workers, while a batch runs", (Victim.WORKER,)),
    Point("after-staging", "after the rows are staged", needs=Needs.LEDGER),
    Point("before-sink-commit", "inside the transaction of the sink", needs=Needs.LEDGER),
    Point("after-sink-commit", "after the commit of the sink, before that of Spark", needs=Needs.BATCHES),
    Point("before-spark-commit", "before Spark writes `commits/N`"),
    Point("during-restart", "while Spark starts again", _ANY, starts=True),
    Point("during-stop", "during a graceful stop"),
    Point("connection", "in the transaction of the sink", (Victim.CONNECTION,), Needs.CONNECTIONS),
    Point("random", "at a random moment", _ANY),
)
BY_NAME = {point.name: point for point in POINTS}


@dataclass(frozen=True)
class PlannedKill:
    """One kill of a schedule."""

    number: int
    point: Point
    sink: str
    victim: Victim
    chance: float
    """From 0 to 1: where a point leaves the moment open, and how late it is then."""


@dataclass(frozen=True)
class Target:
    """A sink that can be chosen for a kill, and what it has."""

    sink: str
    has: frozenset[Needs]


def schedule(
    points: Sequence[Point], targets: Sequence[Target], kills: int | None, seed: int
) -> list[PlannedKill]:
    """Every point once and in a random order, and then again, up to the number of kills; without one, every point once.

    With the same seed, points, sinks, victims and moments are the same.
    """
    chance = random.Random(seed)
    found: list[PlannedKill] = []
    if kills is None:
        kills = sum(bool(_able(point, targets)) for point in points)
    while len(found) < kills:
        turn = [(point, _able(point, targets)) for point in chance.sample(points, len(points))]
        usable = [(point, able) for point, able in turn if able]
        if not usable:
            break
        for point, able in usable[: kills - len(found)]:
            target, victim = chance.choice(able), chance.choice(point.victims)
            found.append(PlannedKill(len(found) + 1, point, target.sink, victim, chance.random()))
    return found


def _able(point: Point, targets: Iterable[Target]) -> list[Target]:
    return [each for each in targets if point.needs is Needs.NOTHING or point.needs in each.has]
