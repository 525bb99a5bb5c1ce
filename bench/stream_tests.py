"""Compares the duration of tests of a streaming query: Headwater and hand-written PySpark.

    python bench/stream_tests.py [TESTS]

Each test feeds a windowed count twice and compares the rows after each feed. The hand-written tests use a directory
of JSON files, a memory sink and `processAllAvailable`, once with Spark's default settings and once with those of
Headwater. All tests run in one process and one JVM, after a warm-up. Compare the ratios, not the absolute times.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, window

from headwater.engine.session import FILE_MANAGER, STATE
from headwater.spark.session import FASTER_FILE_MANAGER
from headwater.testing.stream_test import StreamTest
from headwater.testing.subjects import QUICK
from headwater.testing.test_runner import TestRunner

TESTS = 20
SCHEMA = "at timestamp, word string"
DAY = "2026-01-01"
FIRST = [("12:07", "owl"), ("12:02", "cat")]
SECOND = [("12:14", "owl"), ("12:09", "owl")]
AFTER_FIRST = [("12:00", "owl", 1), ("12:00", "cat", 1)]
AFTER_SECOND = [("12:10", "owl", 1), ("12:00", "owl", 2)]


def counts(words: DataFrame) -> DataFrame:
    """The query under test."""
    windows = words.withWatermark("at", "10 minutes").groupBy(window("at", "10 minutes"), "word")
    return windows.count().select("window.start", "word", col("count").alias("n"))


def headwater_test(stream_test: StreamTest) -> None:
    """One test with Headwater."""
    run = stream_test(counts, streams={"words": SCHEMA}, mode="update")
    run.feed(FIRST, expect=AFTER_FIRST)
    run.feed(SECOND, expect=AFTER_SECOND)
    run.stop()


def plain_test(spark: SparkSession, folder: Path) -> None:
    """The same test, hand-written."""
    source = folder / "words"
    source.mkdir(parents=True)
    writer = counts(spark.readStream.schema(SCHEMA).json(str(source))).writeStream
    query = (
        writer.outputMode("update")
        .format("memory")
        .queryName("result")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    seen: list[tuple[str, str, int]] = []
    for number, (rows, expected) in enumerate([(FIRST, AFTER_FIRST), (SECOND, AFTER_SECOND)]):
        lines = [json.dumps({"at": f"{DAY}T{at}:00Z", "word": word}) for at, word in rows]
        part = folder / f"{number}.json"
        part.write_text("\n".join(lines), encoding="utf-8")
        part.rename(source / part.name)
        query.processAllAvailable()
        table = spark.sql("SELECT date_format(start, 'HH:mm'), word, n FROM result").collect()
        new = sorted(tuple(row) for row in table)
        for row in seen:
            new.remove(row)
        assert new == sorted(expected), new
        seen += new
    query.stop()


def seconds(test: Callable[[], None], tests: int, first: int = 1) -> float:
    """The total time of the tests, after the first ones as a warm-up."""
    for _ in range(first):
        test()
    began = time.perf_counter()
    for _ in range(tests):
        test()
    return time.perf_counter() - began


def plain(spark: SparkSession, folder: Path, tests: int) -> float:
    """The total time of the hand-written tests."""

    def test() -> None:
        plain_test(spark, folder)
        shutil.rmtree(folder)

    return seconds(test, tests)


def main() -> None:
    """Measure, and print the ratios."""
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else TESTS
    builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    work, player = Path(tempfile.mkdtemp()), TestRunner()
    try:
        stream_test = StreamTest(player)
        # The first tests warm up the JVM.
        ours = seconds(lambda: headwater_test(stream_test), tests, first=10)
        equal = spark.newSession()
        for key, value in {**STATE, FILE_MANAGER: FASTER_FILE_MANAGER, **QUICK}.items():
            equal.conf.set(key, value)
        tuned = plain(equal, work / "equal", tests)
        default = plain(spark.newSession(), work / "default", tests)
    finally:
        player.close()
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(f"{tests} tests, two feeds each, after a warm-up")
    print(f"  Headwater                          {ours:7.1f} s  {ours / tests:5.2f} s per test")
    for name, took in (
        ("hand-written, Spark defaults", default),
        ("hand-written, Headwater settings", tuned),
    ):
        print(f"  {name:33}  {took:7.1f} s  {took / tests:5.2f} s per test  {took / ours:5.1f} times as long")


if __name__ == "__main__":
    main()
