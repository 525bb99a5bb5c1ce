"""What a user holds of a run in Python: its queries, their progress, waiting, stopping, failing."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
from headwater.checkpoint import Owner
from headwater.errors import CheckpointLockedError, PipelineError, QueryFailedError, UsageError
from headwater.events import Event, Notice, QueryProgress, QueryStarted, QueryStatus, RunFinished
from tests.pipelines import feed, rows_of, run_until_idle, wait_for, write

SECONDS = 60.0


def orders(folder: Path, name: str = "orders", /, **spark: str) -> hw.Pipeline:
    """A pipeline with one source and no sink yet."""
    pipeline = hw.Pipeline(name, run_dir=folder / "run", spark=spark)
    path = folder / "in"
    path.mkdir(parents=True, exist_ok=True)
    pipeline.source("orders", hw.files(path=str(path), format="json", schema="id int", max_files_per_batch=1))
    return pipeline


def to_files(pipeline: hw.Pipeline, folder: Path, name: str, trigger: str | None = None) -> None:
    pipeline.sink(name, hw.files(path=str(folder / name), format="json"), reads="orders", trigger=trigger)


def to_function(pipeline: hw.Pipeline, name: str, function: Callable[[DataFrame, int], Any]) -> None:
    pipeline.sink(name, hw.foreach_batch(function=function), reads="orders")


def spark_says(query: Any) -> list[dict[str, Any]]:
    """Every progress as Spark's own handle tells it; there, looking for data without success counts too."""
    return [json.loads(each.json()) for each in query._state.query.handle._jsq.recentProgress()]


@pytest.mark.feature("F1")
def test_a_query_tells_what_it_is_and_what_it_does(context: SparkContext, tmp_path: Path) -> None:
    pipeline = orders(tmp_path)
    to_files(pipeline, tmp_path, "out")
    feed(tmp_path / "in", "1", [{"id": 1}, {"id": 2}])
    with pipeline.start() as run:
        query = run.queries["out"]
        assert run.wait_idle(SECONDS)
        assert not query.wait(timeout=0)
        assert not run.wait(timeout=0)
        assert (query.name, query.status, query.exception) == ("out", QueryStatus.IDLE, None)
        assert query.progress in spark_says(query)
        assert query.progress is not None
        assert (query.progress["id"], query.progress["runId"]) == (query.id, query.run_id)
        assert "FileScan json [id" in query.plan()

        feed(tmp_path / "in", "2", [{"id": 3}])
        wait_for(lambda: len(query.recent_progress) == 2, run)
        batches = [(batch["batchId"], batch["numInputRows"]) for batch in query.recent_progress]
        assert batches == [(0, 2), (1, 1)]
        assert (query.rows_in, query.rows_out) == (3, 3)
        first = (query.id, query.run_id)
        query.stop()
        assert query.wait()
        assert run.wait(SECONDS)
    assert (query.status, run.exit_code, run.is_active) == (QueryStatus.STOPPED, 0, False)

    with pipeline.start() as again:
        other = again.queries["out"]
        assert other.id == first[0]
        assert other.run_id != first[1]


@pytest.mark.feature("F1", part="exception")
def test_a_failed_query_tells_why_and_where(context: SparkContext, tmp_path: Path) -> None:
    def write_orders(batch: DataFrame, batch_id: int) -> None:
        raise ValueError("no room")

    pipeline = orders(tmp_path)
    to_function(pipeline, "called", write_orders)
    feed(tmp_path / "in", "1", [{"id": 1}])
    run = pipeline.start()
    assert run.wait(SECONDS)
    query = run.queries["called"]
    assert (query.status, run.exit_code) == (QueryStatus.FAILED, 1)
    assert isinstance(query.exception, QueryFailedError)
    assert query.problem is not None
    assert query.problem.code == "HW-QUERY-CODE-FAILED"
    assert query.problem.params == {"sink": "called", "error": "ValueError: no room"}
    assert query.problem.place is not None
    assert (query.problem.place.file, query.problem.place.line) == (
        __file__,
        write_orders.__code__.co_firstlineno + 1,
    )
    with pytest.raises(QueryFailedError):
        run.raise_for_failure()


@pytest.mark.feature("F2")
def test_many_queries_in_one_application(context: SparkContext, tmp_path: Path) -> None:
    pools: dict[str, str | None] = {}

    def remember(name: str) -> Callable[[DataFrame, int], None]:
        def call(batch: DataFrame, batch_id: int) -> None:
            pools[name] = batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool")

        return call

    pipeline = orders(tmp_path)
    names = ["one", "two", "three"]
    for name in names:
        to_function(pipeline, name, remember(name))
    other = orders(tmp_path / "other", "others")
    to_files(other, tmp_path / "other", "out")
    feed(tmp_path / "in", "1", [{"id": 1}])
    feed(tmp_path / "other" / "in", "1", [{"id": 2}])
    with pipeline.start() as run, other.start() as beside:
        assert list(run.queries) == names
        assert [run.query(run.queries[name].id).name for name in names] == names
        assert run.query("two").id == run.queries["two"].id
        with pytest.raises(UsageError) as unknown:
            run.query("four")
        params = unknown.value.problems[0].params
        assert (params["name"], params["known"]) == ("four", "one, two, three")
        assert run.wait_idle(SECONDS)
        assert beside.wait_idle(SECONDS)
        assert pools == {name: f"orders.{name}" for name in names}
        assert str(context._jsc.sc().getSchedulingMode()) == "FAIR"
        found = context._jsc.sc().getAllPools()
        made = {found.apply(index).name() for index in range(found.size())}
        assert {f"orders.{name}" for name in names} | {"others.out"} <= made

        assert not run.wait_any(timeout=0)
        run.queries["two"].stop()
        assert run.wait_any(timeout=SECONDS)
        assert [query.name for query in run.queries.values() if query.status is QueryStatus.STOPPED] == [
            "two"
        ]
        assert not run.wait(timeout=0)
        # Its pools and metrics would be those of the first.
        same_name = orders(tmp_path / "same")
        to_files(same_name, tmp_path / "same", "out")
        with pytest.raises(PipelineError) as refused:
            same_name.start()
        (problem,) = refused.value.problems
        assert (problem.code, problem.params["name"]) == ("HW-PIPELINE-NAME-CONFLICT", "orders")
        assert str(tmp_path / "run") in str(problem.params["other"])
        run.queries["one"].stop()
        run.queries["three"].stop()
        assert run.wait(SECONDS)
        assert beside.is_active
        with same_name.start() as later:
            assert later.wait_idle(SECONDS)
    assert (run.exit_code, beside.exit_code, later.exit_code) == (0, 0, 0)


@pytest.mark.feature("F3", part="--fail-fast")
@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_failing_query_and_the_others(context: SparkContext, tmp_path: Path, fail_fast: bool) -> None:
    def fail(batch: DataFrame, batch_id: int) -> None:
        raise ValueError("no room")

    pipeline = orders(tmp_path)
    to_files(pipeline, tmp_path, "good")
    to_function(pipeline, "bad", fail)
    feed(tmp_path / "in", "1", [{"id": 1}])
    run = pipeline.start(fail_fast=fail_fast)
    assert run.queries["bad"].wait(SECONDS)
    if not fail_fast:
        feed(tmp_path / "in", "2", [{"id": 2}])
        assert run.wait_idle(SECONDS)
        assert run.queries["good"].status is QueryStatus.IDLE
        run.stop()
    assert run.wait(SECONDS)
    assert run.queries["good"].status is QueryStatus.STOPPED
    assert run.queries["good"].problem is None
    assert (run.queries["bad"].status, run.exit_code) == (QueryStatus.FAILED, 1)


@pytest.mark.feature("F4", part="from Python, between two batches an hour apart")
def test_a_stop_does_not_wait_for_the_next_trigger(
    context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = orders(tmp_path)
    to_files(pipeline, tmp_path, "out", trigger="every 1 hour")
    feed(tmp_path / "in", "1", [{"id": 1}])
    run = pipeline.start()
    query = run.queries["out"]
    wait_for(lambda: bool(query.recent_progress), run)
    run.stop(timeout=SECONDS)
    assert (query.status, query.problem, run.exit_code) == (QueryStatus.STOPPED, None, 0)
    assert rows_of(spark, tmp_path / "out", schema="id int") == Counter({(1,): 1})


@pytest.mark.feature("F4", part="bounded; a query that cannot be stopped is named")
def test_a_batch_that_hangs_does_not_hang_the_stop(context: SparkContext, tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()
    events: list[Event] = []

    def named() -> list[tuple[str, Any]]:
        notices = [each for each in events if isinstance(each, Notice)]
        return [(each.code, each.fields) for each in notices if each.code == "HW-QUERY-STUCK"]

    def hang(batch: DataFrame, batch_id: int) -> None:
        entered.set()
        assert leave.wait(SECONDS)

    pipeline = orders(tmp_path, **{"spark.sql.streaming.stopTimeout": "100ms"})
    to_function(pipeline, "called", hang)
    to_files(pipeline, tmp_path, "out")
    feed(tmp_path / "in", "1", [{"id": 1}])
    run = pipeline.start(on_event=events.append)
    assert entered.wait(SECONDS)
    wait_for(lambda: bool(run.queries["out"].recent_progress), run)
    run.stop(timeout=0.1)
    assert (run.is_stuck, run.is_active) == (True, True)
    # Spark has interrupted the batch, and its Python code continues. The other query has stopped.
    wait_for(lambda: bool(named()), run)
    assert named() == [("HW-QUERY-STUCK", {"sink": "called"})]
    assert run.queries["out"].status is QueryStatus.STOPPED
    # The checkpoint stays this run's for as long as its batch may still write.
    with pytest.raises(CheckpointLockedError):
        pipeline.start()
    leave.set()
    assert run.wait(SECONDS)
    query = run.queries["called"]
    assert (run.is_stuck, run.is_active) == (False, False)
    assert query.problem is not None
    assert query.problem.code == "HW-STOP-TIMEOUT"
    assert query.problem.params == {"sink": "called", "limit": "0.1 s"}
    assert (query.status, run.exit_code) == (QueryStatus.STOPPED, 1)
    (finished,) = [each for each in events if isinstance(each, RunFinished)]
    problems = {name: each.problem and each.problem.code for name, each in finished.queries.items()}
    assert problems == {"called": "HW-STOP-TIMEOUT", "out": None}
    assert len(named()) == 1


@pytest.mark.feature("F1", part="the status during a batch")
def test_a_long_batch_is_running_before_it_is_committed(context: SparkContext, tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work(batch: DataFrame, batch_id: int) -> None:
        entered.set()
        assert leave.wait(SECONDS)

    pipeline = orders(tmp_path)
    to_function(pipeline, "called", work)
    with pipeline.start() as run:
        query = run.queries["called"]
        # The first batch, and one after the query was idle.
        for batch in range(2):
            entered.clear()
            feed(tmp_path / "in", str(batch), [{"id": batch}])
            assert entered.wait(SECONDS)
            assert run._supervisor.wait(lambda: query.status is QueryStatus.RUNNING, SECONDS)
            assert len(query.recent_progress) == batch
            leave.set()
            assert run.wait_idle(SECONDS)
            assert (query.status, len(query.recent_progress)) == (QueryStatus.IDLE, batch + 1)
            leave.clear()


@pytest.mark.feature("F5", part="the lock names a JVM that was there before the run")
def test_the_lock_names_the_jvm_that_will_write(context: SparkContext, tmp_path: Path) -> None:
    pipeline = orders(tmp_path)
    to_files(pipeline, tmp_path, "out")
    with pipeline.start():
        file = tmp_path / "run" / "checkpoints" / "out.lock"
        owner = Owner.from_bytes(file.read_bytes(), str(file))
        assert owner is not None
        assert owner.jvm is not None
        assert owner.jvm.alive
        gateway: Any = context._gateway
        assert owner.jvm.pid == gateway.proc.pid


def test_until_idle_does_not_wait_for_an_interval(spark: SparkSession, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        name: orders
        sources: {orders: {connector: files, path: in, format: json, schema: {id: int}}}
        sinks: {out: {reads: orders, connector: files, path: out, format: json, trigger: every 1 hour}}
        """,
    )
    feed(tmp_path / "in", "1", [{"id": 1}])
    feed(tmp_path / "in", "2", [{"id": 2}])
    began = time.monotonic()
    assert run_until_idle(file).exit_code == 0
    assert time.monotonic() - began < SECONDS
    assert rows_of(spark, tmp_path / "out", schema="id int") == Counter({(1,): 1, (2,): 1})


def test_events_come_to_the_caller_in_order(context: SparkContext, tmp_path: Path) -> None:
    events: list[Event] = []
    pipeline = orders(tmp_path)
    to_files(pipeline, tmp_path, "out")
    feed(tmp_path / "in", "1", [{"id": 1}])
    with pipeline.start(on_event=events.append) as run:
        assert run.wait_idle(SECONDS)
        query = run.queries["out"]
        assert [(each.id, each.run_id) for each in events if isinstance(each, QueryStarted)] == [
            (query.id, query.run_id)
        ]
        assert [each.progress for each in events if isinstance(each, QueryProgress)] == [query.progress]
    ended = [each for each in events if isinstance(each, RunFinished)]
    assert [each.exit_code for each in ended] == [0]
    assert events[-1] is ended[0]


LOADED = """
name: loaded
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}, max_files_per_batch: 1}
tables:
  doubled: SELECT id * 2 AS id FROM orders WHERE 1 / (id - 100) < 1
sinks:
  out: {reads: doubled, connector: files, path: out, format: json, trigger: every 1 hour}
"""


@pytest.mark.feature("F1", part="a loaded file, until idle")
def test_a_loaded_pipeline_runs_until_it_is_idle(
    context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    file = write(tmp_path, LOADED)
    feed(tmp_path / "in", "1", [{"id": 1}, {"id": 2}], at=1000)
    feed(tmp_path / "in", "2", [{"id": 3}], at=1001)
    events: list[Event] = []

    def cell() -> hw.Run:
        """What a user runs again and again in a notebook."""
        return hw.load(file).start(until_idle=True, on_event=events.append)

    run = cell()
    assert (run.is_active, run.exit_code) == (False, 0)
    assert {query.status for query in run.queries.values()} == {QueryStatus.STOPPED}
    assert [event.exit_code for event in events if isinstance(event, RunFinished)] == [0]
    assert "HW-ALL-DATA-READ" in [event.code for event in events if isinstance(event, Notice)]
    assert rows_of(spark, tmp_path / "out") == Counter([(2,), (4,), (6,)])

    feed(tmp_path / "in", "3", [{"id": 4}], at=1002)
    feed(tmp_path / "in", "4", [{"id": 100}], at=1003)
    failed = cell()
    assert rows_of(spark, tmp_path / "out") == Counter([(2,), (4,), (6,), (8,)])
    assert (failed.is_active, failed.exit_code) == (False, 1)
    with pytest.raises(QueryFailedError) as raised:
        failed.raise_for_failure()
    assert {problem.place and problem.place.line for problem in raised.value.problems} == {6}


@pytest.mark.feature("J3")
def test_queries_share_the_cores_fairly_and_too_few_cores_are_found(
    context: SparkContext, tmp_path: Path
) -> None:
    pools: dict[str, str | None] = {}

    def remember(name: str) -> Callable[[DataFrame, int], None]:
        def call(batch: DataFrame, batch_id: int) -> None:
            pools[name] = batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool")

        return call

    pipeline = orders(tmp_path)
    for name in ("one", "two"):
        to_function(pipeline, name, remember(name))
    feed(tmp_path / "in", "1", [{"id": 1}])
    pipeline.start(until_idle=True)
    assert pools == {"one": "orders.one", "two": "orders.two"}

    crowded = hw.Pipeline("crowded", run_dir=tmp_path / "crowded")
    crowded.source("ticks", hw.rate(num_partitions=context.defaultParallelism))
    crowded.sink("quick", hw.console(), reads="ticks", trigger="continuous 1 second")
    crowded.sink("kept", hw.noop(), reads="ticks")
    found = [each.problem for each in crowded.check() if each.problem.code == "HW-CORES-CONFLICT"]
    assert [(each.params["needed"], each.params["starved"]) for each in found] == [
        (context.defaultParallelism + 1, "`kept`")
    ]
