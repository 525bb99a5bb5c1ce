"""Batches whose events come late, twice, or never."""

from __future__ import annotations

import pytest

from headwater.events import Event, Notice, QueryProgress
from headwater.runtime.handles import Run
from tests.unit.runtime.queries import SECONDS, FakeQuery, running


def progress(batch: int, query: str = "out") -> QueryProgress:
    told = {"batchId": batch, "numInputRows": 10, "sources": []}
    return QueryProgress(query=query, rows_out=1, progress=told)


def commit(query: FakeQuery, *batches: int) -> None:
    query.committed += [progress(batch, query.name) for batch in batches]


def batches(events: list[Event]) -> list[int]:
    return [event.batch_id for event in events if isinstance(event, QueryProgress)]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def counts(run: Run) -> tuple[int | None, int | None]:
    return run.queries["out"].rows_in, run.queries["out"].rows_out


def test_a_batch_counts_once_however_often_it_is_told() -> None:
    with running("out") as (run, queries, events):
        commit(queries["out"], 0, 1)
        for batch in (0, 0, 1, 0):
            run._supervisor.handle(progress(batch))
        run._supervisor.catch_up()
        assert (batches(events), counts(run)) == ([0, 1], (20, 2))


def test_batches_whose_events_spark_dropped_are_taken_from_the_query() -> None:
    with running("out") as (run, queries, events):
        commit(queries["out"], *range(6))
        run._supervisor.handle(progress(0))
        run._supervisor.handle(progress(4))
        assert (batches(events), counts(run)) == ([0, 1, 2, 3, 4], (50, 5))
        run._supervisor.catch_up()
        assert batches(events) == [0, 1, 2, 3, 4, 5]
        assert notices(events) == []


def test_batches_that_spark_has_forgotten_are_reported() -> None:
    with running("out") as (run, queries, events):
        run._supervisor.handle(progress(0))
        commit(queries["out"], 3)
        run._supervisor.handle(progress(4))
        assert batches(events) == [0, 3, 4]
        (said,) = notices(events)
        assert said.startswith("HW-PROGRESS-LOST Query `out`: Spark dropped progress reports (2)")


@pytest.mark.parametrize("newest", [-1, 41])
def test_batches_that_spark_has_forgotten_at_the_beginning_of_a_run_are_reported(newest: int) -> None:
    with running("out") as (run, _, events):
        run._supervisor.adopt(resumed := FakeQuery("resumed"), newest)  # type: ignore[arg-type]
        try:
            commit(resumed, newest + 3)
            run._supervisor.handle(progress(newest + 4, "resumed"))
            assert batches(events) == [newest + 3, newest + 4]
            (said,) = notices(events)
            assert said.startswith("HW-PROGRESS-LOST Query `resumed`: Spark dropped progress reports (2)")
        finally:
            resumed.is_active = False


def test_the_progress_of_a_query_that_is_not_known_yet_is_caught_up_with() -> None:
    with running("out") as (run, _, events):
        run._supervisor.handle(progress(0, "late"))
        assert batches(events) == []
        commit(late := FakeQuery("late"), 0)
        run._supervisor.adopt(late)  # type: ignore[arg-type]
        try:
            run._supervisor.catch_up()
            assert batches(events) == [0]
        finally:
            late.is_active = False


def test_batches_of_earlier_runs_are_not_looked_for() -> None:
    asked: list[int] = []

    class Asked(FakeQuery):
        def progress_after(self, batch: int) -> tuple[QueryProgress, ...]:
            asked.append(batch)
            return super().progress_after(batch)

    with running("out") as (run, _, events):
        resumed = Asked("resumed")
        run._supervisor.adopt(resumed, 41)  # type: ignore[arg-type]
        try:
            run._supervisor.catch_up()
            run._supervisor.handle(progress(42, "resumed"))
            assert (asked, batches(events)) == ([41], [42])
        finally:
            resumed.is_active = False


def test_what_can_not_be_handled_is_reported_once_for_each_reason() -> None:
    with running("out") as (run, _, events):
        for reason in ("a", "b", "a"):
            run._supervisor.not_handled(ValueError(reason))
        said = notices(events)
        assert [text.split(". ")[0] for text in said] == [
            f"HW-EVENT-PROCESSING-FAILED Headwater could not process a Spark event: ValueError: {reason}"
            for reason in ("a", "b")
        ]


class Draining:
    """A listener whose last event comes only when it is drained."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.run: Run | None = None

    def drain(self, seconds: float) -> bool:
        self.calls.append("drain")
        assert self.run is not None
        self.run._supervisor.catch_up()
        return True

    def close(self) -> None:
        self.calls.append("close")


def test_the_last_batches_are_in_the_summary_and_the_listener_is_closed() -> None:
    listener = Draining()
    with running("out", listener=listener) as (run, queries, events):
        listener.run = run
        commit(queries["out"], 0, 1)
        queries["out"].in_batch = False
        run.stop()
        assert run.wait(SECONDS)
        assert (batches(events), counts(run)) == ([0, 1], (20, 2))
        assert listener.calls == ["drain", "close"]
        # The batches were told before the end of the query, and the end of the run came last.
        kinds = [event.kind for event in events]
        assert kinds[-3:] == ["query_progress", "query_terminated", "run_finished"]


class Hanging(Draining):
    """A listener that does not answer in time, as that of a JVM that hangs."""

    def drain(self, seconds: float) -> bool:
        self.calls.append("drain")
        return False


def test_queries_that_end_before_their_last_events_are_reported_and_their_counts_are_final() -> None:
    listener = Hanging()
    with running("a", "b", listener=listener) as (run, queries, events):
        with run._supervisor._changed:
            # Both end within one look.
            for query in queries.values():
                query.is_active = False
        assert run.wait(SECONDS)
        run._supervisor.handle(progress(0, "a"))
        assert batches(events) == []
        assert run.queries["a"].rows_in == 0
        # It waited once, however many queries ended.
        assert listener.calls == ["drain", "close"]
        assert [text.partition(", but")[0] for text in notices(events)] == [
            f"HW-PROGRESS-UNREADABLE Query `{name}` stopped" for name in "ab"
        ]
        kinds = [event.kind for event in events]
        assert kinds == ["notice", "query_terminated", "notice", "query_terminated", "run_finished"]
