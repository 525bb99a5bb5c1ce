"""Continuous queries: their epochs are told, and no rows are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.connectors.contract import Moment
from headwater.errors import PipelineError
from headwater.events import EpochCommitted, Event, QueryStatus, RunEnded
from headwater.runtime.handles import Run
from headwater.runtime.tasks import EpochWatch
from headwater.values import Continuous, Duration
from tests.unit.runtime.queries import FakeQuery, running


class ContinuousQuery(FakeQuery):
    """A query that commits an epoch at some looks."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.has_batches = self.ends_batches = False
        self.trigger = Continuous(Duration.parse("1 second"))
        self.epochs: Iterator[int | None] = iter((None, 0, 0, 2))

    def epoch(self) -> int | None:
        return next(self.epochs)


def _watch(run: Run, told: list[Event], before: int | None = None) -> EpochWatch:
    supervisor = run._supervisor

    def tell(event: Event) -> None:
        told.append(event)
        supervisor.handle(event)

    known = {} if before is None else {"copy": before}
    return EpochWatch(lambda: supervisor.tracks.values(), tell, known)


def test_each_new_epoch_is_told_once() -> None:
    told: list[Event] = []
    with running("copy", query=ContinuousQuery) as (run, _, _):
        watch = _watch(run, told)
        seen = []
        for _ in range(4):
            watch(Moment(frozenset()))
            seen.append(run.queries["copy"].status)
        assert seen == [QueryStatus.STARTING, *[QueryStatus.RUNNING] * 3]
        assert (run.queries["copy"].epoch, run.queries["copy"].rows_in) == (2, None)
        assert repr(run.queries["copy"]) == "<Query copy: running, epoch 2>"
    assert [each.epoch for each in told if isinstance(each, EpochCommitted)] == [0, 2]


def test_what_the_run_before_has_committed_is_not_told() -> None:
    told: list[Event] = []
    with running("copy", query=ContinuousQuery) as (run, _, _):
        watch = _watch(run, told, before=0)
        for _ in range(3):
            watch(Moment(frozenset()))
        assert (run.queries["copy"].status, run.queries["copy"].epoch) == (QueryStatus.STARTING, None)
        watch(Moment(frozenset()))
        assert (run.queries["copy"].status, run.queries["copy"].epoch) == (QueryStatus.RUNNING, 2)


def test_nobody_waits_for_an_end_that_never_comes() -> None:
    with running("copy", query=ContinuousQuery) as (run, _, _):
        with pytest.raises(PipelineError) as refused:
            run.wait_idle()
        (problem,) = refused.value.problems
        assert (problem.code, problem.params["sink"]) == ("HW-NEVER-IDLE", "copy")


def test_queries_with_batches_are_not_asked() -> None:
    told: list[Event] = []
    with running("copy") as (run, _, _):
        _watch(run, told)(Moment(frozenset()))
    assert told == []


def test_the_summary_holds_the_epoch_and_no_rows() -> None:
    with running("copy", query=ContinuousQuery) as (run, _, events):
        watch = _watch(run, [])
        for _ in range(2):
            watch(Moment(frozenset()))
    (ended,) = (each for each in events if isinstance(each, RunEnded))
    assert {key: ended.queries["copy"][key] for key in ("rows_in", "rows_out", "batch")} == {
        "rows_in": None,
        "rows_out": None,
        "batch": 0,
    }
