"""When a query is said to be behind."""

from __future__ import annotations

from typing import cast

from headwater.connectors.contract import Tick
from headwater.engine.query import RunningQuery
from headwater.runtime.query_state import QueryState
from headwater.runtime.tasks import Backlog, BacklogWatch
from headwater.spark.query import Waiting
from tests.unit.runtime.queries import FakeQuery


def told(counts: list[int], at_most: int | None) -> list[int]:
    """The numbers at which it is told."""
    backlog = Backlog()
    return [count for count in counts if backlog.falls_behind(Waiting("/in", count, at_most))]


def test_it_is_told_once_until_it_has_caught_up() -> None:
    assert told([0, 9, 19, 20, 25, 4, 30], at_most=2) == [20]
    assert told([25, 3, 19, 21], at_most=2) == [25, 21]


def test_without_a_number_in_the_limit_the_last_batch_counts() -> None:
    assert told([100, 95, 90], at_most=None) == [95]
    assert told([100, 60, 20, 500], at_most=None) == []


class Waits(FakeQuery):
    """A query with many files before it."""

    def waiting(self) -> tuple[Waiting, ...]:
        return (Waiting("/in", 29, 1),)


def test_the_advice_names_the_limit() -> None:
    watch = BacklogWatch({"a": QueryState(cast(RunningQuery, Waits("a")))})
    said = [*watch.tick(Tick(frozenset({"a"}))), *watch.tick(Tick(frozenset({"a"})))]
    (problem,) = said
    assert problem.code == "HW-BEHIND"
    assert problem.params == {
        "sink": "a",
        "waiting": 29,
        "path": "/in",
        "taken": 1,
        "limit": "max_files_per_batch",
    }
