"""What the check says of triggers, held against real starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import broadcast, col, udf

import headwater as hw
from headwater.checks import Finding
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.outcome import check_outcome
from headwater.engine.prepare import Prepared, prepare
from headwater.engine.session import open_session
from headwater.spec import PipelineSpec
from tests.checker.cases import Case
from tests.checker.cases.triggers import TRIGGERED
from tests.checker.matrix import QUICK, connector_of
from tests.checker.starting import Captured
from tests.pipelines import feed

pytestmark = pytest.mark.usefixtures("context")
LONGEST = 60.0
SILENT = 4.0
"""How long a query that waits for cores is waited for: it would wait for ever."""


def pipeline(case: Case, folder: Path) -> PipelineSpec:
    made = hw.Pipeline("triggers", run_dir=folder / ".headwater", spark=QUICK)
    made.source("ticks", hw.rate(rows_per_second=20, num_partitions=1))
    made.source("wide", hw.rate(rows_per_second=20, num_partitions=3))
    made.source("steps", hw.rate_per_batch(rows_per_batch=2))
    files: dict[str, Any] = {"format": "json", "schema": "n bigint"}
    made.source("words", hw.files(path=str(folder / "words"), **files))
    made.source("names", hw.files(path=str(folder / "names"), **files), static=True)
    if isinstance(case.query, str):
        made.table("result", sql=case.query)
    else:
        made.table("result", python=case.query)
    made.sink(
        case.id, connector_of(case, folder / "declared"), reads="result", mode=case.mode, trigger=case.trigger
    )
    return made.spec()


def prepared_case(case: Case, folder: Path) -> tuple[Prepared, list[Finding]]:
    for name in ("words", "names"):
        feed(folder / name, "0", [{"n": 0}, {"n": 1}])
    spec = pipeline(case, folder)
    session = open_session(spec, logs=folder / "logs", stdout=lambda line: None)
    prepared = prepare(session, spec)
    found = check_outcome(prepared, spec, {}, dict).findings
    return prepared, [each for each in found if each.is_error]


def works(case: Case, frame: DataFrame, folder: Path) -> bool:
    """Whether a real start, with Spark's own writer, gives rows."""
    sink = Captured(case, frame, folder / "run")
    try:
        query = sink.writer().start()
    except SPARK_ERRORS:
        return False
    deadline = time.monotonic() + (SILENT if case.kind == "too few cores" else LONGEST)
    try:
        while time.monotonic() < deadline:
            if query.exception() is not None:
                return False
            if _gave_rows(sink, case, folder):
                return True
            if not query.isActive:
                return _gave_rows(sink, case, folder)
            query.awaitTermination(1)
        return False
    except SPARK_ERRORS:
        return False
    finally:
        query.stop()


def _gave_rows(sink: Captured, case: Case, folder: Path) -> bool:
    if case.sink in ("console", "noop"):
        # Of a continuous query only the commits are told; the second epoch has rows.
        return (folder / "run" / "checkpoint" / "commits" / "2").exists()
    commits = folder / "run" / "checkpoint" / "commits"
    return any(commits.glob("[0-9]*")) and bool(sink.rows())


@pytest.mark.feature("E4.2", part="every case")
@pytest.mark.feature("E5", part="rules")
@pytest.mark.parametrize("case", TRIGGERED, ids=lambda case: case.id)
def test_the_check_judges_each_case_as_a_real_start_does(case: Case, tmp_path: Path) -> None:
    prepared, errors = prepared_case(case, tmp_path)
    frame = prepared.frames.get(case.id)
    real = frame is not None and works(case, frame, tmp_path)
    assert (not errors) is real, [str(each.problem) for each in errors]
    for error in errors:
        assert error.problem.code != "HW-CONTINUOUS-QUERY-UNSUPPORTED"
        assert error.problem.place is not None
        assert error.problem.hint


def _in_real_time(spark: SparkSession, numbers: list[int]) -> DataFrame:
    """A stream in memory that can be read in real time, which nothing but Kafka can else."""
    jvm: Any = spark._jvm
    streams = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    made = streams.apply(spark._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.INT())
    rows = jvm.java.util.ArrayList()
    for number in numbers:
        rows.append(number)
    made.addData(jvm.scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq())
    return ClassicDataFrame(made.toDF(), spark)


def _exploded(numbers: DataFrame) -> DataFrame:
    names = numbers.sparkSession.createDataFrame([(1, "one")], "value int, name string")
    return numbers.join(broadcast(names), "value").selectExpr("name", "explode(array(value, value)) AS value")


REFUSED_STEPS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "state": lambda numbers: numbers.groupBy("value").count(),
    "python": lambda numbers: numbers.select(udf(lambda value: value, "int")("value")),
    "large static side": lambda numbers: numbers.join(
        numbers.sparkSession.range(3).hint("merge"), numbers.value == col("id")
    ),
    "shuffle": lambda numbers: numbers.repartition(2),
    "twice": lambda numbers: numbers.union(numbers),
}
# A query, its mode, its trigger and the codes of its errors.
REAL_TIME: dict[str, tuple[Callable[[DataFrame], DataFrame], str, str, set[str]]] = {
    "stateless": (_exploded, "update", "5 seconds", set()),
    "mode": (_exploded, "append", "5 seconds", {"HW-REAL-TIME-MODE-UNSUPPORTED"}),
    "interval": (_exploded, "update", "1 second", {"HW-REAL-TIME-INTERVAL"}),
    **{
        name: (each, "update", "5 seconds", {"HW-REAL-TIME-UNSUPPORTED"})
        for name, each in REFUSED_STEPS.items()
    },
}


@pytest.mark.feature("E5", part="a real start of what the rules allow, and of what they refuse")
@pytest.mark.parametrize("name", REAL_TIME)
def test_real_time_is_judged_as_a_real_start_does(context: SparkContext, tmp_path: Path, name: str) -> None:
    query, mode, trigger, codes = REAL_TIME[name]
    spark = SparkSession(context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    frame = query(_in_real_time(spark, [1, 2]))
    found = hw.check(frame, mode=mode, sink="console", trigger=f"real time {trigger}").findings
    assert {each.problem.code for each in found if each.is_error} == codes
    case = Case("real time", "", mode=mode, sink="console", trigger=f"real time {trigger}")
    assert _has_batch(Captured(case, frame, tmp_path)) is not bool(codes)


def _has_batch(sink: Captured) -> bool:
    """Whether a real start comes to the end of its first batch with its rows."""
    try:
        query = sink.writer().start()
    except SPARK_ERRORS:
        return False
    try:
        deadline = time.monotonic() + LONGEST
        while query.isActive and time.monotonic() < deadline:
            if any(each.numInputRows for each in query.recentProgress):
                return True
            query.awaitTermination(1)
        return False
    except SPARK_ERRORS:
        return False
    finally:
        query.stop()
