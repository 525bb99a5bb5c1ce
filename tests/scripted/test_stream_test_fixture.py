"""Scripted streams for plain PySpark code: a fixture, a function, no pipeline file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp, expr, window

from headwater.errors import HeadwaterError
from headwater.testing import Advance, Feed, Restart
from headwater.testing.stream_test import StreamTest
from headwater.testing.test_runner import TestRunner

PIPELINE = """
name: words
sources:
  words: {connector: files, path: nowhere/, format: json, schema: {word: string}}
tables:
  counts: SELECT word, count(*) AS n, '${SAID}' AS said FROM words GROUP BY word
sinks:
  out: {reads: words, connector: foreach_batch, function: "out.py:write"}
  counts: {reads: counts, connector: memory, mode: update}
"""
OUT = """
import os
from pathlib import Path


def write(batch, batch_id):
    with (Path(os.environ["HEADWATER_TEST_DIR"]) / "words.txt").open("a") as target:
        target.writelines(row.word + "\\n" for row in batch.collect())
"""
WORDS = {"words": "at timestamp, word string"}


@pytest.fixture
def stream_test(player: TestRunner) -> Iterator[StreamTest]:
    runs = StreamTest(player)
    yield runs
    runs.close()


@pytest.fixture
def session(context: SparkContext) -> SparkSession:
    """The user's own session: active, with settings and functions of its own."""
    spark = SparkSession(context).newSession()
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    spark.udf.register("shout", lambda word: word.upper() + "!")
    spark.sql("SELECT 1").count()
    return spark


def counts(words: DataFrame) -> DataFrame:
    windows = words.withWatermark("at", "10 minutes").groupBy(window("at", "10 minutes"), "word")
    return windows.count().select("window.start", "word", "count")


@pytest.mark.feature("L2")
def test_a_function_is_tested_like_a_pipeline(stream_test: StreamTest) -> None:
    run = stream_test(counts, streams=WORDS, mode="update")
    run.feed([["12:07", "owl"], {"at": "12:02", "word": "cat"}])
    run.expect([["12:00", "owl", 1], ["12:00", "cat", 1]], watermark="11:57", state=2)
    run.restart()
    run.feed(words=[["12:09", "owl"]], expect=[["12:00", "owl", 2]], crash=True)
    assert [batch.id for batch in run.batches] == [2, 2, 3]
    run.feed([["12:30", "owl"]], expect=[["12:30", "owl", 1]], watermark="12:20", state=1)
    assert run.watermark == datetime(2026, 1, 1, 12, 20, tzinfo=UTC)
    run.feed([["12:01", "owl"]], late=1, expect=[])
    run.run_steps(Feed({"words": [["12:31", "cat"]]}, expect={"counts": [["12:30", "cat", 1]]}), Restart())


@pytest.mark.feature("L2", part="two streams, static rows, the user's session")
def test_it_runs_in_a_copy_of_the_session(stream_test: StreamTest, session: SparkSession) -> None:
    kinds = session.createDataFrame([("owl", "bird")], "word string, kind string")

    def joined(words: DataFrame, names: DataFrame, kinds: DataFrame) -> DataFrame:
        loud = words.select("word", expr("shout(word)").alias("loud"), current_timestamp().alias("seen"))
        return loud.join(kinds, "word", "left").join(names, "word")

    run = stream_test(
        joined,
        streams={**WORDS, "names": "word string, name string"},
        static={"kinds": kinds},
        clock="08:00",
    )
    run.run_steps(Advance("90 minutes"))
    run.feed(words=[["12:00", "owl"]], names=[["owl", "Ann"]])
    run.expect([["owl", "owl!".upper(), "09:30", "bird", "Ann"]])
    assert run.rows[0]["seen"] == datetime(2026, 1, 1, 8, 30, tzinfo=UTC)
    assert session.conf.get("spark.sql.shuffle.partitions") == "7"
    # What is active stays so: a second run finds the same views and functions.
    session.range(1).createOrReplaceTempView("mine")
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active._jsparkSession.equals(session._jsparkSession)
    again = stream_test(lambda words: words.join(session.table("mine")), streams=WORDS)
    again.feed([["12:00", "owl"]], expect=[["12:00", "owl", 0]])


def test_a_pipeline_has_its_own_folder_and_checks_by_sink(stream_test: StreamTest, tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text(OUT, encoding="utf-8")
    (tmp_path / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")

    def kept(spark: SparkSession) -> DataFrame:
        words = (Path(os.environ["HEADWATER_TEST_DIR"]) / "words.txt").read_text(encoding="utf-8")
        return spark.createDataFrame([(word,) for word in words.split()], "word string")

    run = stream_test(tmp_path / "pipeline.yml", sinks=["counts"], real={"out": kept}, env={"SAID": "x"})
    run.feed(words=[["owl"], ["owl"]], expect={"counts": [["owl", 2, "x"]], "out": [["owl"], ["owl"]]})
    run.feed(words=[["cat"]], state={"counts": 2, "out": 0}, expect={"counts": [["cat", 1, "x"]]})
    assert not (tmp_path / "words.txt").exists()


def test_a_wrong_expectation_shows_the_difference(stream_test: StreamTest) -> None:
    run = stream_test(counts, streams=WORDS, mode="update")
    with pytest.raises(AssertionError) as caught:
        run.feed([["12:07", "owl"]], expect=[["12:00", "owl", 2]], watermark="11:58")
    assert "count: expected 2, got 1" in str(caught.value)
    assert "the watermark of counts is 11:57, expected 11:58" in str(caught.value)
    run.feed([["12:08", "owl"]], expect=[["12:00", "owl", 2]])


def test_what_can_not_be_run_is_refused(stream_test: StreamTest, tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError) as caught:
        stream_test(lambda words: words.groupBy("word").count(), streams=WORDS)
    assert [problem.code for problem in caught.value.problems] == ["HW-APPEND-NEEDS-WATERMARK"]
    with pytest.raises(HeadwaterError) as caught:
        stream_test(lambda words: words.select("wrd"), streams=WORDS)
    assert [problem.code for problem in caught.value.problems] == ["HW-COLUMN-NOT-FOUND"]
    with pytest.raises(HeadwaterError) as caught:
        stream_test(lambda words: None, streams=WORDS)
    assert [problem.code for problem in caught.value.problems] == ["HW-TABLE-NOT-A-DATAFRAME"]
    run = stream_test(counts, streams=WORDS, mode="update")
    with pytest.raises(HeadwaterError):
        run.feed([["noon", "owl"]])
    run.feed([["12:07", "owl"]], expect=[["12:00", "owl", 1]])
    with pytest.raises(TypeError, match="unknown check 'exspect'"):
        run.restart(exspect=[])
