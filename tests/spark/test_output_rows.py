"""The rows that each batch writes to files, counted by Spark's own operators or, where they do not, by Headwater."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from headwater.events import Event
from headwater.spark.output_rows import OutputRows
from headwater.spark.private import java_frame, jvm_of
from tests.pipelines import batches, feed, run_to_its_end, write

PIPELINE = """
name: counted
sources:
  events:
    connector: files
    path: in
    format: json
    schema: {id: int, k: string, at: timestamp}
    max_files_per_batch: 1
    watermark: {column: at, delay: 1 minute}
  checked:
    connector: files
    path: in
    format: json
    schema: {id: int not null, k: string, at: timestamp}
    max_files_per_batch: 1
    bad_rows: drop
  known: {connector: files, path: known, format: json, schema: {k: string}, static: true}
  others:
    connector: files
    path: in
    format: json
    schema: {id: int, k: string, at: timestamp}
    max_files_per_batch: 1
    watermark: {column: at, delay: 1 minute}
tables:
  filtered: SELECT id, upper(k) AS k FROM events WHERE id % 5 <> 0
  named: {python: "tables.py:named"}
  shouted: {python: "tables.py:shouted"}
  vectors: {python: "tables.py:vectors"}
  members: SELECT id, k FROM events WHERE k IN (SELECT k FROM known)
  windows: SELECT window.start, k, count(*) AS number FROM events GROUP BY window(at, '1 minute'), k
  busy: SELECT start, k FROM windows WHERE number > 4
  twice: SELECT id, k FROM events UNION ALL SELECT id, k FROM events WHERE id = 1
  thrice: >-
    SELECT id, upper(k) AS k FROM (SELECT * FROM twice UNION ALL SELECT id, k FROM others WHERE k = 'a') WHERE id < 4
  labeled: SELECT e.id, k.k FROM events e JOIN known k ON e.k = k.k
  outer_labeled: SELECT e.id, k.k FROM events e LEFT JOIN known k ON e.k = k.k AND e.id < 2
  pairs: >-
    SELECT e.id, o.k FROM events e JOIN others o
    ON e.id = o.id AND o.at BETWEEN e.at AND e.at + INTERVAL 10 MINUTES WHERE concat(e.k, o.k) <> 'bb'
  first_pairs: SELECT id, k FROM pairs LIMIT 7
  some_labeled: SELECT id, k FROM labeled LIMIT 8
  exploded: SELECT id, explode(array(k, k)) AS k FROM events
  some: SELECT id, k FROM events LIMIT 14
  unique: {reads: events, deduplicate: [id], within: watermark}
  distinct: {python: "tables.py:distinct"}
sinks:
  filtered:
    {reads: filtered, connector: files, path: filtered, format: parquet, partition_by: [k], trigger: available now}
  named: {reads: named, connector: files, path: named, format: json, trigger: available now}
  shouted: {reads: shouted, connector: files, path: shouted, format: json, trigger: available now}
  vectors: {reads: vectors, connector: files, path: vectors, format: json, trigger: available now}
  members: {reads: members, connector: files, path: members, format: json, trigger: available now}
  checked: {reads: checked, connector: files, path: checked, format: json, trigger: available now}
  windows: {reads: windows, connector: files, path: windows, format: json, trigger: available now}
  busy: {reads: busy, connector: files, path: busy, format: json, trigger: available now}
  twice: {reads: twice, connector: files, path: twice, format: json, trigger: available now}
  some: {reads: some, connector: files, path: some, format: json, trigger: available now}
  unique: {reads: unique, connector: files, path: unique, format: json, trigger: available now}
  distinct: {reads: distinct, connector: files, path: distinct, format: json, trigger: available now}
  thrice: {reads: thrice, connector: files, path: thrice, format: json, trigger: available now}
  labeled: {reads: labeled, connector: files, path: labeled, format: json, trigger: available now}
  outer_labeled: {reads: outer_labeled, connector: files, path: outer_labeled, format: json, trigger: available now}
  pairs: {reads: pairs, connector: files, path: pairs, format: json, trigger: available now}
  some_labeled: {reads: some_labeled, connector: files, path: some_labeled, format: json, trigger: available now}
  first_pairs: {reads: first_pairs, connector: files, path: first_pairs, format: json, trigger: available now}
  exploded: {reads: exploded, connector: files, path: exploded, format: json, trigger: available now}
"""
TABLES = """
from pyspark.sql.functions import pandas_udf, udf


def named(events):
    return events.where(udf(lambda k: k == "a", "boolean")("k")).select("id", "k")


def distinct(events):
    return events.dropDuplicates(["id", "at"]).select("id", "at")


def shouted(events):
    return events.select("id", udf(lambda k: k + "!", "string")("k").alias("k"))


def vectors(events):
    return events.select("id", pandas_udf(lambda k: k + "!", "string")("k").alias("k"))
"""
OBSERVED = {"exploded", "members", "labeled", "outer_labeled"}
"""Spark's operators do not have the number of these."""
SINKS = (
    "filtered",
    "named",
    "shouted",
    "vectors",
    "members",
    "checked",
    "windows",
    "busy",
    "twice",
    "some",
    "unique",
    "distinct",
    "thrice",
    "labeled",
    "outer_labeled",
    "pairs",
    "first_pairs",
    "some_labeled",
    "exploded",
)
ROWS = {
    # Ids 0 to 10 are in each of four files, and a row without an id; every file is an hour later.
    "filtered": [8, 8, 8, 8],
    "named": [6, 6, 6, 6],
    "shouted": [12, 12, 12, 12],
    "vectors": [12, 12, 12, 12],
    "members": [6, 6, 6, 6],
    "checked": [11, 11, 11, 11],
    "twice": [13, 13, 13, 13],
    "some": [12, 2, 0, 0],
    "distinct": [12, 12, 12, 12],
    # Ids 0 to 3 of the first source, id 1 again, and ids 0 and 2 of the other one.
    "thrice": [7, 7, 7, 7],
    "labeled": [6, 6, 6, 6],
    "outer_labeled": [12, 12, 12, 12],
    "pairs": [6, 6, 6, 6],
    "first_pairs": [6, 1, 0, 0],
    "some_labeled": [6, 2, 0, 0],
    "exploded": [24, 24, 24, 24],
}


def rows_in(folder: Path, batch: int) -> int:
    """The rows in the files of a batch, by Spark's log."""
    log = folder / "_spark_metadata" / str(batch)
    files = [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
    paths = [Path(unquote(urlsplit(file).path)) for file in files]
    return sum(
        pq.read_metadata(path).num_rows if path.suffix == ".parquet" else path.read_text().count("\n")
        for path in paths
    )


@pytest.mark.feature("G1", part="rows out of file sinks")
def test_the_rows_of_every_batch_are_those_in_the_files(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    write(tmp_path, TABLES, "tables.py")
    feed(tmp_path / "known", "0", [{"k": "a"}])
    for hour in range(4):
        rows = [{"id": each, "k": "ab"[each % 2], "at": f"2026-01-01T0{hour}:00:00Z"} for each in range(11)]
        feed(
            tmp_path / "in",
            str(hour),
            [*rows, {"k": "b", "at": f"2026-01-01T0{hour}:00:00Z"}],
            at=hour + 1000,
        )
    events: list[Event] = []
    assert run_to_its_end(file, events).exit_code == 0
    reported = {name: {each.batch_id: each.rows_out for each in batches(events, name)} for name in SINKS}
    assert reported == {
        name: {batch: rows_in(tmp_path / name, batch) for batch in reported[name]} for name in SINKS
    }
    # Batches without input only move the watermark.
    written = {name: [rows for batch, rows in reported[name].items() if batch < 4] for name in ROWS}
    assert written == ROWS
    observed = {
        name
        for name in SINKS
        for event in batches(events, name)
        if "headwater" in (event.progress.get("observedMetrics") or {})
    }
    assert observed == OBSERVED


WAITED_SECONDS = 2.0
"""Each wait takes at least this long. Without one, a call takes milliseconds, and even on a busy machine far less."""


def seconds_of(counter: OutputRows, batch: int) -> float:
    """How long it takes to learn that the rows of a batch are unknown."""
    began = time.monotonic()
    assert counter.of("run", batch) is None
    return time.monotonic() - began


@pytest.fixture
def counter(spark: SparkSession) -> OutputRows:
    """One that receives only the events of the test."""
    made = OutputRows(spark)
    made.is_open = True
    return made


def ended(spark: SparkSession, body: str) -> Any:
    """The end of a batch, as this Spark reports it; its plan is an `IncrementalExecution` with these methods."""
    jvm: Any = jvm_of(spark)
    of = java_frame(spark.range(3)).queryExecution()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(
        "package fake; public class IncrementalExecution extends org.apache.spark.sql.execution.QueryExecution {"
        "  public IncrementalExecution(org.apache.spark.sql.execution.QueryExecution of) {"
        "    super(of.sparkSession(), of.logical(), of.tracker(), of.mode(), of.shuffleCleanupMode(), false);"
        f"  }} {body} }}"
    )
    kind = compiler.getClassLoader().loadClass("fake.IncrementalExecution")
    event = jvm.org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd(1, 1, jvm.scala.Option.empty())
    getattr(event, "qe_$eq")(kind.getConstructors()[0].newInstance(array_of(spark, of)))
    return event


def array_of(spark: SparkSession, item: Any) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    made = gateway.new_array(jvm_of(spark).java.lang.Object, 1)
    made[0] = item
    return made


KNOWN = 'public String runId() { return "run"; } public long currentBatchId() { return 7L; }'
BROKEN = (
    "public org.apache.spark.sql.execution.SparkPlan executedPlan() { throw new IllegalStateException(); }"
)


def test_after_a_batch_without_a_number_nobody_waits(spark: SparkSession, counter: OutputRows) -> None:
    assert seconds_of(counter, 0) >= WAITED_SECONDS
    assert seconds_of(counter, 1) < WAITED_SECONDS
    # Spark reports a number again, which was only late.
    counter._counter.onOtherEvent(ended(spark, KNOWN))
    assert counter.of("run", 7) == 0  # it was planned and not executed
    assert seconds_of(counter, 8) >= WAITED_SECONDS


def test_a_spark_that_does_not_name_the_batch_is_not_waited_for(
    spark: SparkSession, counter: OutputRows
) -> None:
    counter._counter.onOtherEvent(ended(spark, ""))
    assert seconds_of(counter, 7) < WAITED_SECONDS


def test_a_plan_that_cannot_be_read_is_not_waited_for(spark: SparkSession, counter: OutputRows) -> None:
    with pytest.raises(Exception, match="IllegalStateException"):
        counter._counter.onOtherEvent(ended(spark, KNOWN + BROKEN))
    assert seconds_of(counter, 7) < WAITED_SECONDS
