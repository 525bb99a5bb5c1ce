"""Spark numbers the sources of a query by its plan; here they get the names that were declared."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.engine.pipeline_file import load
from headwater.events import Event
from headwater.events.idle import QueryInputs
from headwater.runtime import RunOptions, start
from tests.pipelines import LONGEST, batches, feed, write

FEEDS = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader


class Ones(DataSource):
    def schema(self):
        return "at timestamp, n bigint"

    def simpleStreamReader(self, schema):
        return OneReader()


class OneReader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        return iter([] if start["at"] else [(None, 1)]), {"at": 1}

    def readBetweenOffsets(self, start, end):
        return iter([(None, 1)])
"""

PIPELINE = """
name: inputs
sources:
  a: {connector: files, path: a, format: json, schema: {at: timestamp, n: bigint}}
  b:
    connector: files
    path: b
    format: json
    schema: {at: timestamp, n: bigint}
    watermark: {column: at, delay: 1 hour}
  like_b: {connector: files, path: b, format: json, schema: {at: timestamp, n: bigint}}
  ticks: {connector: rate, rows_per_second: 1}
  steps: {connector: rate_per_batch, rows_per_batch: 7}
  own: {connector: python, class: "feeds.py:Ones"}
  still: {connector: files, path: still, format: json, schema: {at: timestamp, n: bigint}, static: true}
tables:
  every: |
    SELECT at, n FROM own UNION ALL SELECT timestamp, value FROM steps
    UNION ALL SELECT still.at, n FROM still JOIN a USING (n)
    UNION ALL SELECT timestamp, value FROM ticks UNION ALL SELECT at, n FROM b
  twice: SELECT x.n FROM b x JOIN b y ON x.n = y.n
  alike: SELECT * FROM like_b UNION ALL SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM a
  named:
    sql: WITH x AS (SELECT * FROM a), y AS (SELECT * FROM x) SELECT * FROM y
    watermark: {column: at, delay: 1 hour}
  apart: |
    WITH of_b AS (SELECT * FROM b), of_a AS (SELECT * FROM named)
    SELECT * FROM of_a UNION ALL SELECT * FROM of_b
sinks:
  every: {reads: every, connector: noop, trigger: once}
  twice: {reads: twice, connector: noop, trigger: once}
  alike: {reads: alike, connector: noop, trigger: once}
  apart: {reads: apart, connector: noop, trigger: once}
"""

KINDS = {
    "a": "/a]",
    "b": "/b]",
    "like_b": "/b]",
    "ticks": "RateStreamV2[",
    "steps": "RatePerMicroBatchStream[",
    "own": "PythonMicroBatchStream",
}


@pytest.mark.feature("C8.4", part="sources by name")
def test_the_sources_of_a_query_go_by_the_declared_names(context: SparkContext, tmp_path: Path) -> None:
    write(tmp_path, FEEDS, "feeds.py")
    feed(tmp_path / "a", "1", [{"n": number} for number in range(2)])
    feed(tmp_path / "b", "1", [{"n": number} for number in range(3)])
    feed(tmp_path / "still", "1", [{"n": 0}])
    events: list[Event] = []
    inputs = inputs_of_one_batch(write(tmp_path, PIPELINE), events)

    assert {name: each.sources for name, each in inputs.items()} == {
        "every": ("own", "steps", "a", "ticks", "b"),
        "twice": ("b",),
        "alike": ("like_b", "a", "b"),
        "apart": ("b", "a"),
    }
    assert {name: sorted(each.watermarks.values()) for name, each in inputs.items()} == {
        "every": [("b",)],
        "twice": [("b",)],
        "alike": [("b",)],
        "apart": [("a",), ("b",)],
    }
    progress = {name: batch.progress for name in inputs for batch in batches(events, name)}
    for name, each in inputs.items():
        described = [source["description"] for source in progress[name]["sources"]]
        assert len(described) == len(each.sources)
        assert all(KINDS[source] in text for source, text in zip(each.sources, described, strict=True))
    rows = {name: each.rows_in(progress[name]) for name, each in inputs.items()}
    # How many ticks there are is a question of time. What is read twice counts twice.
    rows["every"].pop("ticks", None)
    assert rows == {
        "every": {"own": 1, "steps": 7, "a": 2, "b": 3},
        "twice": {"b": 6},
        "alike": {"like_b": 3, "a": 4, "b": 3},
        "apart": {"b": 3, "a": 2},
    }


def inputs_of_one_batch(file: Path, events: list[Event]) -> dict[str, QueryInputs]:
    told = threading.Event()

    def emit(event: Event) -> None:
        events.append(event)
        if all(batches(events, name) for name in ("every", "twice", "alike", "apart")):
            told.set()

    running = start(load(file), RunOptions(), emit, lambda line: None)
    assert running.wait(LONGEST.seconds)
    running.raise_for_failure()
    # On a busy machine a query may be seen to have ended before its progress is heard.
    assert told.wait(LONGEST.seconds)
    return {name: state.query.inputs for name, state in running._supervisor.queries.items()}
