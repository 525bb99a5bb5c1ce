"""The listener for Spark's events: its calls into the JVM, its removal, and events that do not arrive."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark import SparkContext

import headwater as hw
from headwater.engine.listener import EventListener
from headwater.events import Event, QueryProgress
from tests.calls import calls_above, calls_per_batch
from tests.pipelines import feed

SECONDS = 60.0
MOST_CALLS = 3


def reading(folder: Path) -> hw.Pipeline:
    """A pipeline that takes one file with each batch, without sinks."""
    pipeline = hw.Pipeline("counting", run_dir=folder / "run")
    (folder / "in").mkdir(parents=True, exist_ok=True)
    source = hw.files(path=str(folder / "in"), format="json", schema="id int", max_files_per_batch=1)
    pipeline.source("orders", source)
    return pipeline


def counting(folder: Path) -> hw.Pipeline:
    """A stateful pipeline that ends when all files are read."""
    pipeline = reading(folder)
    pipeline.table("counts", sql="SELECT id % 2 AS odd, count(*) AS number FROM orders GROUP BY id % 2")
    pipeline.sink("out", hw.noop(), reads="counts", mode="update", trigger="available now")
    return pipeline


def copying(folder: Path) -> hw.Pipeline:
    """A stateless pipeline into files that ends when all files are read."""
    pipeline = reading(folder)
    sink = hw.files(path=str(folder / "out"), format="json")
    pipeline.sink("out", sink, reads="orders", trigger="available now")
    return pipeline


def batches(events: list[Event]) -> list[int]:
    return [event.batch_id for event in events if isinstance(event, QueryProgress)]


def finished(pipeline: hw.Pipeline) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    run = pipeline.start(on_event=events.append)
    assert run.wait(SECONDS)
    run.raise_for_failure()
    return run, events


@pytest.mark.feature("F1", part="progress does not fall behind")
def test_an_event_costs_a_few_calls_and_a_listener_ends_with_its_run(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[int] = Counter()
    takers: list[int] = []
    send, take = GatewayClient.send_command, EventListener.onQueryProgress

    def counted(client: Any, *arguments: Any, **options: Any) -> Any:
        calls[threading.get_ident()] += 1
        return send(client, *arguments, **options)

    def measured(listener: EventListener, event: Any) -> None:
        takers.append(threading.get_ident())
        take(listener, event)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    monkeypatch.setattr(EventListener, "onQueryProgress", measured)
    for run_number, wanted in enumerate(([0, 1], [2])):
        for batch in wanted:
            feed(tmp_path / "in", str(batch), [{"id": batch}])
        run, events = finished(counting(tmp_path))
        # Nothing of the first run hears of the second.
        assert batches(events) == wanted
        assert len(takers) == run_number + 2
        assert list(run._supervisor.tables.spark.streams._jsqm.listListeners()) == []
    # The threads on which Spark calls do nothing else; an event rebuilt field by field costs hundreds.
    assert sum(calls[thread] for thread in set(takers)) <= MOST_CALLS * len(takers)
    assert "headwater listener" not in {thread.name for thread in threading.enumerate()}


def test_batches_of_which_spark_never_told_are_in_the_events_and_the_counts(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop(listener: EventListener, event: Any) -> None:
        raise RuntimeError("the event is lost")

    monkeypatch.setattr(EventListener, "onQueryProgress", drop)
    for batch in range(3):
        feed(tmp_path / "in", str(batch), [{"id": batch}])
    run, events = finished(counting(tmp_path))
    assert batches(events) == [0, 1, 2]
    assert (run.queries["out"].rows_in, run.queries["out"].rows_out) == (3, 3)


def deduplicating(folder: Path) -> hw.Pipeline:
    """A pipeline that drops duplicates and ends when all files are read."""
    pipeline = reading(folder)
    pipeline.table("unique", reads="orders", deduplicate=["id"])
    pipeline.sink("out", hw.noop(), reads="unique", trigger="available now")
    return pipeline


def calling(folder: Path) -> hw.Pipeline:
    """A pipeline that calls a function with each batch and ends when all files are read."""
    pipeline = reading(folder)
    sink = hw.foreach_batch(function=lambda batch, batch_id: None)
    pipeline.sink("out", sink, reads="orders", trigger="available now")
    return pipeline


# The report of the batch, the unread files of a source with a limit, and the rows that a sink does not count.
CALLS_PER_BATCH: dict[Callable[[Path], hw.Pipeline], dict[str, int]] = {
    counting: {"json": 1, "get": 1, "size": 1},
    copying: {"json": 1, "get": 1, "size": 1, "of": 1},
    deduplicating: {"json": 1, "get": 1, "size": 1},
    calling: {
        "json": 1,
        "get": 1,
        "size": 1,
        # The batch is computed once, whatever the function does with it.
        "persist": 1,
        "count": 1,
        "unpersist": 1,
        # PySpark wraps the batch and its session for the function.
        "sparkSession": 1,
        "applyModifiableSettings": 1,
        "command i": 2,
        "command r": 4,
    },
}


@pytest.mark.parametrize("made", CALLS_PER_BATCH)
def test_a_batch_costs_these_calls_into_the_jvm_and_no_more(
    made: Callable[[Path], hw.Pipeline],
    context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(batches: int) -> None:
        folder = tmp_path / str(batches)
        for batch in range(batches):
            feed(folder / "in", str(batch), [{"id": batch}])
        finished(made(folder))

    found = calls_per_batch(run, monkeypatch)
    assert found["json"] >= 1
    assert calls_above(found, CALLS_PER_BATCH[made]) == {}
