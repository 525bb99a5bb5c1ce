"""Tests of a streaming query: scripted tests of Headwater against hand-written ones.

Each test feeds a windowed count twice and compares the rows after each feed. The hand-written tests use a directory
of JSON files, a memory sink and `processAllAvailable`. All tests of a variant run in one process and one JVM, after
a warm-up.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, window

from bench.children import run_command, usage
from bench.harness import DEFAULTS, GUIDE, HEADWATER, ROOT, SAME, Benchmark, Case, Sample, Target, Variant
from bench.variants import Settings, settings
from headwater.testing.subjects import QUICK

TESTS, WARM_UP, SLOW_TESTS = 100, 10, 5
SCHEMA = "at timestamp, word string"
DAY = "2026-01-01"
FIRST = [("12:07", "owl"), ("12:02", "cat")]
SECOND = [("12:14", "owl"), ("12:09", "owl")]
AFTER_FIRST = [("12:00", "owl", 1), ("12:00", "cat", 1)]
AFTER_SECOND = [("12:10", "owl", 1), ("12:00", "owl", 2)]

Test = Callable[[], None]


def counts(words: DataFrame) -> DataFrame:
    """The query under test."""
    windows = words.withWatermark("at", "10 minutes").groupBy(window("at", "10 minutes"), "word")
    return windows.count().select("window.start", "word", col("count").alias("n"))


@contextmanager
def headwater_tests() -> Iterator[Test]:
    """One test with Headwater, repeatedly."""
    from headwater.testing.stream_test import StreamTest
    from headwater.testing.test_runner import TestRunner

    runner = TestRunner()
    stream_test = StreamTest(runner)

    def test() -> None:
        run = stream_test(counts, streams={"words": SCHEMA}, mode="update")
        run.feed(FIRST, expect=AFTER_FIRST)
        run.feed(SECOND, expect=AFTER_SECOND)
        run.stop()

    try:
        yield test
    finally:
        runner.close()


@contextmanager
def plain_tests(conf: dict[str, str]) -> Iterator[Test]:
    """The same test, hand-written, each in a session of its own."""
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))

    def test() -> None:
        plain_test(spark.newSession(), folder)
        shutil.rmtree(folder)

    yield test
    spark.stop()


def plain_test(spark: SparkSession, folder: Path) -> None:
    """One test, hand-written."""
    source = folder / "words"
    source.mkdir(parents=True)
    writer = counts(spark.readStream.schema(SCHEMA).json(str(source))).writeStream
    checkpoint = str(folder / "checkpoint")
    named = writer.outputMode("update").format("memory").queryName("result")
    query = named.option("checkpointLocation", checkpoint).start()
    seen: list[tuple[str, str, int]] = []
    for number, (rows, expected) in enumerate([(FIRST, AFTER_FIRST), (SECOND, AFTER_SECOND)]):
        lines = [json.dumps({"at": f"{DAY}T{at}:00Z", "word": word}) for at, word in rows]
        part = folder / f"{number}.json"
        part.write_text("\n".join(lines), encoding="utf-8")
        part.rename(source / part.name)
        query.processAllAvailable()
        table = spark.sql("SELECT date_format(start, 'HH:mm'), word, n FROM result").collect()
        new = sorted((str(row[0]), str(row[1]), int(row[2])) for row in table)
        for row in seen:
            new.remove(row)
        assert new == sorted(expected), new
        seen += new
    query.stop()


class StreamTests(Benchmark):
    """How long a test of a streaming query takes."""

    name = "stream-tests"
    title = "Tests of a streaming query"
    description = (
        f"{TESTS} tests of a windowed count, each with two feeds, after {WARM_UP} as a warm-up. "
        "CPU in milliseconds per test."
    )

    def cases(self, quick: bool) -> Iterable[Case]:
        tests, slow, first = (3, 1, 1) if quick else (TESTS, SLOW_TESTS, WARM_UP)
        note = f"200 shuffle partitions: only {slow} tests after one as a warm-up"
        yield Case(
            "test",
            "ms per test",
            "lower",
            [
                Variant(HEADWATER, _run(HEADWATER, tests, first)),
                Variant(SAME, _run(SAME, tests, first)),
                Variant(GUIDE, _run(GUIDE, tests, first)),
                Variant(DEFAULTS, _run(DEFAULTS, slow, 1), rounds=2, note=note),
            ],
            targets=[Target(HEADWATER, SAME, 1.0, "at most")],
        )


def _run(name: str, tests: int, warm_up: int) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        chosen = settings(name) if name != HEADWATER else Settings({})
        # Headwater runs tests with a few more settings, such as one shuffle partition.
        conf = json.dumps({**chosen.conf, **(QUICK if name == SAME else {})})
        environ = {**os.environ, **chosen.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "bench.stream_tests", name, conf, str(tests), str(warm_up)]
        done = run_command(command, folder, environ=environ)
        found = json.loads(done.output.splitlines()[-1])
        return Sample(
            1000 * found["seconds"] / tests, 1000 * found["cpu"] / tests, {"whole command, s": done.seconds}
        )

    return run


def main(name: str, conf: str, tests: int, warm_up: int) -> None:
    """Run the tests of one variant, and print how long they took without the warm-up."""
    with headwater_tests() if name == HEADWATER else plain_tests(json.loads(conf)) as test:
        for _ in range(warm_up):
            test()
        began, used = time.perf_counter(), usage(os.getpid(), 0).cpu
        for _ in range(tests):
            test()
        took = {"seconds": time.perf_counter() - began, "cpu": usage(os.getpid(), 0).cpu - used}
    print(json.dumps(took))


BENCHMARK = StreamTests()
if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
