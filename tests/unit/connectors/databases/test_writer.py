"""How long steps are repeated, and which staging is dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from headwater.connectors.databases.database import Database, Target, Unavailable
from headwater.connectors.databases.options import SqliteSink
from headwater.connectors.databases.sqlite import Sqlite
from headwater.connectors.databases.writer import Steps, _is_dead
from headwater.errors import QueryFailedError
from headwater.spec import Mode


@dataclass
class ManualClock:
    """A clock that only its sleeps advance."""

    seconds: float = 0
    pauses: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def uptime(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds


def sqlite_database() -> Database:
    options = SqliteSink.model_validate({"path": "/nowhere/shop.db", "into": "t"})
    return Sqlite(Target("out", "shop", Mode.APPEND, (), options))


def test_a_long_step_is_repeated_too() -> None:
    """The time to repeat starts at the first failure, not at the start of the step."""
    clock = ManualClock()

    def step() -> str:
        if clock.seconds == 0:
            clock.seconds = 3_600
            raise Unavailable("connection lost")
        return "done"

    assert Steps(sqlite_database(), patience=60, clock=clock).repeated(step) == "done"
    assert clock.pauses == [0.1]


def test_steps_are_repeated_for_a_limited_time() -> None:
    clock = ManualClock()

    def step() -> None:
        raise Unavailable("connection refused")

    with pytest.raises(QueryFailedError) as error:
        Steps(sqlite_database(), patience=10, clock=clock).repeated(step)
    (problem,) = error.value.problems
    assert problem.code == "HW-DATABASE-UNAVAILABLE"
    assert problem.params == {"sink": "out", "says": "connection refused", "address": "/nowhere/shop.db"}
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


@pytest.mark.parametrize(
    ("name", "alone", "dead"),
    [
        ("headwater_staging_t_own_4", True, True),
        ("headwater_staging_t_own_5", True, True),
        ("headwater_staging_t_own_10", True, False),
        ("headwater_staging_t_own_5_1", False, True),
        ("headwater_staging_t_own_10_1", True, False),
        ("headwater_staging_t_old_9", True, True),
        ("headwater_staging_t_old_9", False, False),
    ],
)
def test_only_the_staging_of_dead_runs_is_dropped(name: str, alone: bool, dead: bool) -> None:
    assert _is_dead(name, "headwater_staging_t_own_5", alone) is dead
