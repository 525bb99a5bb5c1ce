"""Continuous queries: their epochs are told, and no rows are counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import cast

import pytest

from headwater.connectors.contract import Tick
from headwater.engine.query import RunningQuery
from headwater.errors import PipelineError
from headwater.events import EpochCommitted, Event, QueryStatus
from headwater.runtime.handles import Run
from headwater.runtime.query_state import QueryState
from headwater.runtime.supervisor import Supervisor
from headwater.runtime.tasks import EpochWatch
from headwater.values import Continuous, Duration
from tests.unit.runtime.queries import FakeQuery, FakeStarter, running, scope_of


class ContinuousQuery(FakeQuery):
    """A query that commits an epoch at some looks."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.has_batches = self.ends_batches = False
        self.trigger = Continuous(Duration.parse("1 second"))
        self.epochs: Iterator[int | None] = chain((None, 0, 0, 2), repeat(2))

    def epoch(self) -> int | None:
        return next(self.epochs)


def told(events: list[Event]) -> list[int]:
    return [each.epoch for each in events if isinstance(each, EpochCommitted)]


@contextmanager
def watched(newest: int = -1) -> Iterator[tuple[Run, EpochWatch, list[Event]]]:
    """A run that is not watched yet, and the watch over its epochs."""
    events: list[Event] = []
    supervisor = Supervisor(scope_of(events), FakeStarter())
    query = ContinuousQuery("copy")
    supervisor.adopt(cast(RunningQuery, query), newest)
    yield Run(supervisor), EpochWatch(supervisor.queries, supervisor.handle), events


def test_each_new_epoch_is_told_once() -> None:
    with watched() as (run, watch, events):
        seen = []
        for _ in range(4):
            watch.tick(Tick(frozenset()))
            seen.append(run.queries["copy"].status)
        assert seen == [QueryStatus.STARTING, *[QueryStatus.RUNNING] * 3]
        assert (run.queries["copy"].epoch, run.queries["copy"].rows_in) == (2, None)
        assert repr(run.queries["copy"]) == "<Query copy: running, epoch 2>"
        assert told(events) == [0, 2]


def test_what_the_run_before_has_committed_is_not_told() -> None:
    with watched(newest=0) as (run, watch, events):
        for _ in range(3):
            watch.tick(Tick(frozenset()))
        assert (run.queries["copy"].status, run.queries["copy"].epoch) == (QueryStatus.STARTING, None)
        watch.tick(Tick(frozenset()))
        assert (run.queries["copy"].status, told(events)) == (QueryStatus.RUNNING, [2])


def test_nobody_waits_for_an_end_that_never_comes() -> None:
    with running("copy", query=ContinuousQuery) as (run, _, _):
        with pytest.raises(PipelineError) as refused:
            run.wait_idle()
        (problem,) = refused.value.problems
        assert (problem.code, problem.params["sink"]) == ("HW-UNTIL-IDLE-UNSUPPORTED", "copy")


def test_queries_with_batches_are_not_asked() -> None:
    class Batches(FakeQuery):
        def epoch(self) -> int | None:
            raise AssertionError("it has none")

    states = {"copy": QueryState(cast(RunningQuery, Batches("copy")))}
    EpochWatch(states, print).tick(Tick(frozenset()))


def test_the_summary_holds_the_epoch_and_no_rows() -> None:
    with watched() as (run, watch, _):
        for _ in range(2):
            watch.tick(Tick(frozenset()))
        summary = run.summary["copy"]
        assert (summary.rows_in, summary.rows_out, summary.batch) == (None, None, 0)
