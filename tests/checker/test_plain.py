"""`hw.check` on DataFrames of a running program: judged where they stand, with nothing started or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

import headwater as hw
from headwater.checks.guarantees import Level
from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import UsageError
from headwater.spark.session import may_be_python, prevent_search, register_installed
from headwater.values.secrets import hide


class Ticks(DataSource):
    """A source of the user's own."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "n int"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        raise NotImplementedError


@pytest.fixture
def spark(context: SparkContext) -> SparkSession:
    session = SparkSession(context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture
def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 5).load()


def codes(result: Any) -> list[str]:
    return [finding.problem.code for finding in result.findings]


def settings(spark: SparkSession) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


@pytest.mark.feature("L1", part="a DataFrame")
def test_a_stream_is_judged_with_its_sink_and_mode_and_nothing_is_started_or_changed(
    spark: SparkSession, rates: DataFrame, tmp_path: Path
) -> None:
    before, views = settings(spark), spark.catalog.listTables()
    windows = (
        rates.withWatermark("timestamp", "10 minutes")
        .groupBy(functions.window("timestamp", "5 minutes"))
        .count()
    )
    sound = hw.check(windows, sink="parquet", trigger="every 10 seconds", name="windows")
    assert (sound.ok, codes(sound)) == (True, [])
    assert sound.outline is not None
    assert sound.outline.guarantee.level is Level.EXACTLY_ONCE
    assert [bound.retention[0].words for bound in sound.outline.bounds] == ["15 minutes"]
    assert sound.facts is not None
    assert (sound.facts.trigger, sound.facts.mode) == ("every 10 seconds", "append")
    assert [(each.name, each.connector, each.options) for each in sound.facts.sources] == [
        ("rate", "rate", {"rowsPerSecond": "5"})
    ]

    unsound = hw.check(rates.groupBy("value").count(), mode="append", sink="console", name="counts")
    assert not unsound.ok
    (error,) = [finding for finding in unsound.findings if finding.is_error]
    assert error.problem.place is not None
    assert (error.problem.place.file, error.sink) == (__file__, "counts")
    assert error.problem.code in repr(unsound)
    assert error.problem.code in unsound._repr_html_()
    assert error.problem.code in [each["code"] for each in unsound.to_json()["findings"]]

    assert settings(spark) == before
    assert spark.catalog.listTables() == views
    assert spark.streams.active == []


@pytest.mark.feature("L1", part="sinks")
def test_every_form_of_a_sink(rates: DataFrame) -> None:
    totals = rates.groupBy("value").count()
    levels = {
        "unknown": hw.check(totals, "update"),
        "a format": hw.check(totals, "update", "console"),
        "a function": hw.check(totals, "update", lambda batch, number: None),
        "an object": hw.check(totals, "update", type("Rows", (), {"process": lambda self, row: None})()),
        "a connector": hw.check(totals, "complete", hw.memory()),
        "a word of ours": hw.check(totals, "update", "foreach_batch"),
    }
    assert {
        name: str(result.outline and result.outline.guarantee.level) for name, result in levels.items()
    } == {
        "unknown": "unknown",
        "a format": "at-least-once",
        "a function": "at-least-once",
        "an object": "at-least-once",
        "a connector": "exactly-once",
        "a word of ours": "at-least-once",
    }
    assert [name for name, result in levels.items() if not result.ok] == []


@pytest.mark.feature("L1", part="refusals of sinks")
def test_what_a_sink_does_not_take(rates: DataFrame) -> None:
    files = hw.files(path="out", format="csv")
    assert "HW-SINK-MODE-UNSUPPORTED" in codes(hw.check(rates.groupBy("value").count(), "complete", files))
    nested = rates.select(functions.struct("value").alias("both"))
    assert "HW-FILES-CSV-TYPE-UNSUPPORTED" in codes(hw.check(nested, sink=files))
    assert "HW-SCRIPT-SOURCE-NOT-FOUND" in codes(hw.check(rates, sink="no_such_format"))
    assert "HW-SINK-FORMAT-UNSUPPORTED" in codes(hw.check(rates, sink="rate"))
    assert "HW-SINK-FORMAT-UNSUPPORTED" in codes(hw.check(rates, sink="jdbc"))
    with pytest.raises(UsageError) as error:
        hw.check(rates, sink=3)
    assert [problem.code for problem in error.value.problems] == ["HW-SINK-INVALID"]


@pytest.mark.feature("L1", part="one cause, told once")
def test_what_a_rule_explains_is_not_told_again_in_sparks_words(rates: DataFrame) -> None:
    late = rates.withWatermark("timestamp", "10 minutes")
    sessions = late.groupBy(functions.session_window("timestamp", "5 minutes")).count()
    several = late.groupBy(functions.window("timestamp", "5 minutes"), "timestamp").count()
    found = {"sessions": hw.check(sessions, sink="parquet"), "several": hw.check(several, sink="parquet")}
    assert {
        name: [each.problem.code for each in result.findings if each.is_error]
        for name, result in found.items()
    } == {"sessions": ["HW-SESSION-NEEDS-KEY"], "several": ["HW-EVENT-TIME-CONFLICT"]}


@pytest.mark.feature("L1", part="suppressed findings")
def test_findings_are_accepted_with_a_reason(rates: DataFrame) -> None:
    reasons = {"HW-GROUPS-SPLIT-BY-BATCH": "each batch is whole", "HW-UNBOUNDED-DEDUP": "there are few"}
    by_value = rates.dropDuplicates(["value"]).groupBy("value")
    grouped = by_value.applyInPandas(lambda rows: rows, "timestamp timestamp, value long")
    assert [each.is_error for each in hw.check(grouped, sink="parquet").findings] == [True, False]
    result = hw.check(grouped, sink="parquet", suppress=reasons)
    assert {each.problem.code: each.suppressed for each in result.findings} == reasons
    assert result.ok

    totals = rates.groupBy("value").count()
    refused = hw.check(
        totals,
        "append",
        "console",
        suppress={"HW-APPEND-NEEDS-WATERMARK": "why", "HW-APPEND-NEDS-WATERMARK": "why"},
    )
    assert sorted(codes(refused)) == [
        "HW-APPEND-NEEDS-WATERMARK",
        "HW-SUPPRESS-CODE-UNKNOWN",
        "HW-SUPPRESS-NOT-ALLOWED",
    ]
    unmatched = {"HW-SORT-UNSUPPORTED": "why"}
    assert codes(hw.check(totals, "update", "console", suppress=unmatched)) == ["HW-SUPPRESS-UNUSED"]
    # Without a sink not all is asked.
    assert codes(hw.check(totals, "update", suppress=unmatched)) == []


@pytest.mark.feature("L1", part="what is no stream")
def test_what_is_no_stream(spark: SparkSession) -> None:
    static = hw.check(spark.range(3), name="numbers")
    assert (codes(static), static.ok, static.facts) == (["HW-STREAM-EXPECTED"], False, None)
    with pytest.raises(UsageError) as error:
        hw.check([1, 2])
    assert [problem.code for problem in error.value.problems] == ["HW-DATAFRAME-EXPECTED"]


@pytest.mark.feature("L1", part="sources")
def test_what_a_query_reads_is_told_without_secrets(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("clicks", "users"):
        (tmp_path / name).mkdir()
    spark.dataSource.register(Ticks)
    spark.range(1).withColumn("name", functions.lit("a")).write.mode("overwrite").parquet(
        str(tmp_path / "users")
    )
    clicks = (
        spark.readStream.schema("id LONG")
        .option("password", "open sesame 1")
        .option("url", "jdbc:x://u:open-sesame-2@db")
        .json(str(tmp_path / "clicks"))
    )
    hide("open sesame 1", "u:open-sesame-2")
    users = spark.read.parquet(str(tmp_path / "users"))
    lines = spark.readStream.format("socket").option("host", "localhost").option("port", 9).load()
    joined = clicks.join(users, "id").select("id").union(lines.select(functions.length("value").cast("long")))
    facts = hw.check(joined.union(clicks), sink="noop").facts
    assert facts is not None
    assert [
        (each.name, each.connector, each.streaming, each.replayable, each.reads) for each in facts.sources
    ] == [
        ("clicks", "files", True, True, 1),
        ("users", "files", False, True, 1),
        ("localhost:9", "socket", True, False, 1),
    ]
    assert facts.sources[0].options["password"] == "***"
    assert "sesame" not in facts.to_json()
    twice = hw.check(clicks.alias("a").join(clicks.alias("b"), "id"), sink="noop").facts
    assert twice is not None
    assert [each.reads for each in twice.sources] == [2]
    own = hw.check(spark.readStream.format("ticks").load(), sink="noop").facts
    assert own is not None
    assert [(each.connector, each.own_code) for each in own.sources] == [("ticks", True)]


@pytest.mark.feature("L1", part="no search for Python data sources")
def test_an_unknown_format_imports_nothing(spark: SparkSession, rates: DataFrame, tmp_path: Path) -> None:
    probe, marker = tmp_path / "pyspark_probe.py", tmp_path / "imported"
    probe.write_text(f"open({str(marker)!r}, 'w')\nraise RuntimeError\n", encoding="utf-8")
    spark.sparkContext.addPyFile(str(probe))
    assert "HW-SCRIPT-SOURCE-NOT-FOUND" in codes(hw.check(rates, sink="no_such_format"))
    with pytest.raises(SPARK_ERRORS):
        spark.readStream.format("no_such_format").load()
    jvm: Any = spark._jvm
    # In the user's own JVM the search is still to come, and may find the format.
    searched = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    getattr(getattr(searched, "MODULE$"), "dataSourceBuilders_$eq")(jvm.scala.Option.empty())
    try:
        assert hw.check(rates, sink="no_such_format").ok
    finally:
        prevent_search(spark.sparkContext)
    assert not marker.exists()


NUMBERS = """
from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "numbers"
"""


@pytest.mark.feature("L1", part="installed Python data sources")
def test_an_installed_data_source_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in (("site-packages", "pyspark_numbers"), ("own", "pyspark_own")):
        (tmp_path / folder).mkdir()
        text = NUMBERS.replace('"numbers"', repr(name.removeprefix("pyspark_")))
        (tmp_path / folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path / folder)
    register_installed(spark)
    assert (may_be_python(spark, "Numbers"), may_be_python(spark, "own")) == (True, False)
