"""Plain scripts under `headwater check`: every query is judged, none starts, nothing is written."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.api.check import check
from headwater.api.results import CheckResult
from headwater.values import scrub
from tests import short_lives

# Others may use this machine, too.
SECONDS = 240.0

STREAMS = '''
"""Queries of another module of the user's."""


def start_totals(frame, mode):
    return (
        frame.groupBy("value")
        .count()
        .writeStream.outputMode(mode)
        .format("memory")
        .queryName(f"totals_{mode}")
        .start()
    )
'''
SOUND = """
import argparse
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions
from streams import start_totals


def write(batch, batch_id):
    batch.write.parquet("written_by_the_batch")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    spark = (
        SparkSession.builder.appName("job")
        .master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    seed = spark.range(3).withColumn("name", functions.lit("a"))
    seed.write.mode("overwrite").parquet("seed")
    seed.write.csv("seed_csv")
    seed.write.saveAsTable("seed_table")
    seed.writeTo("other_table").using("parquet").createOrReplace()
    seed.foreach(lambda row: open("a_row", "w"))
    seed.rdd.saveAsTextFile("seed_text")
    spark.sql("CREATE TABLE made (id BIGINT, name STRING) USING parquet")
    spark.sql("INSERT INTO made VALUES (1, 'a')")
    spark.sql("WITH x AS (SELECT 1L AS id, 'b' AS name) INSERT INTO made SELECT * FROM x")
    spark.sql("FROM seed_table INSERT INTO made SELECT * INSERT INTO made SELECT id, 'c'")
    spark.sql("INSERT INTO made SELECT * FROM {seed}", seed=seed)
    spark.sql("DELETE FROM made")
    spark.sql("DROP TABLE made")
    spark.sql("CREATE TABLE chosen AS SELECT id FROM seed_table")
    seed.mergeInto("made", functions.expr("made.id = seed.id")).whenMatched().updateAll().merge()
    assert spark.read.parquet("seed").count() == 3
    assert spark.table("seed_table").count() == spark.sql("SELECT * FROM chosen").count() == 3
    assert spark.table("made").columns == ["id", "name"]

    rates = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    for mode in ("update", "complete"):
        query = start_totals(rates, mode)
        while query.isActive:
            time.sleep(1)
    query.processAllAvailable()
    assert spark.sql("SELECT * FROM totals_complete").columns == ["value", "count"]

    files = spark.readStream.schema("id BIGINT, name STRING").parquet("seed")
    more = spark.readStream.table("made")
    (
        files.union(more)
        .join(seed, "id")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{out}/checkpoints/batches")
        .trigger(processingTime="10 seconds")
        .start()
    )
    late = rates.withWatermark("timestamp", "10 minutes")
    windows = late.groupBy(functions.window("timestamp", "5 minutes")).count()
    ended = windows.writeStream.option("checkpointLocation", f"{out}/checkpoints/table").toTable("windows")
    assert ended.awaitTermination(3) is True
    assert (ended.exception(), ended.lastProgress, ended.recentProgress) == (None, None, [])
    assert spark.streams.active == []
    assert spark.table("windows").count() == 0

    def in_a_thread():
        rates.writeStream.format("parquet").start(
            f"{out}/rates", queryName="rates", checkpointLocation=f"{out}/checkpoints/rates"
        ).awaitTermination()

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    spark.read.parquet(f"{out}/rates").count()
    spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()
    spark.stop()
    print("came to the end", file=sys.stderr)
    sys.exit(0)


if __name__ == "__main__":
    main()
"""
UNSOUND = """
from pyspark.sql import SparkSession
import headwater as hw

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rates = spark.readStream.format("rate").load()
clicks = (
    spark.readStream.format("rate")
    .option("kafka.sasl.jaas.config", 'Login required password="open sesame";')
    .option("password", "top-secret-1")
    .load()
)


def start(frame, **options):
    return frame.writeStream.start(**options)


def after(frame):
    checkpoint = {"checkpointLocation": "checkpoints/after"}
    return frame.writeStream.options(**checkpoint).format("parquet").start("out")


start(rates.groupBy("value").count(), path="out", format="parquet", checkpointLocation="c/1")
start(rates, format="parquet", checkpointLocation="c/2", outputMode="complete", path="out")
start(rates, format="parquet", path="out")
start(rates, format="parquet", checkpointLocation="c/3")
start(rates, format="memory")
start(rates, format="rate")
start(rates, format="no_such_format", checkpointLocation="c/4")
start(clicks.orderBy("value"), format="console", queryName="sorted")
after(rates)
after(rates)
rates.writeStream.foreachBatch(lambda batch, number: None).start()
print("the password is top-secret-1", hw.check(rates), hw.check(rates.orderBy("value")).ok)
clicks.select("valu")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, in which the command is typed."""
    for key, value in short_lives.environment().items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def checked(folder: Path, text: str, *arguments: str, seconds: float = SECONDS) -> CheckResult:
    (folder / "jobs" / "job.py").write_text(text.lstrip("\n"), encoding="utf-8")
    return check("jobs/job.py", arguments=arguments, timeout=seconds)


def told(result: CheckResult) -> list[tuple[str, str, str, int | None]]:
    found = [finding.to_json() for finding in result.findings]
    return [(each["severity"], each["code"], each["sink"], each["line"]) for each in found]


def left_behind(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.feature("L1", part="a sound script")
def test_a_sound_script_comes_to_its_end_and_nothing_is_written(folder: Path) -> None:
    (folder / "jobs" / "streams.py").write_text(STREAMS, encoding="utf-8")
    result = checked(folder, SOUND, "--out", str(folder / "out"))
    assert [finding.to_json() for finding in result.errors] == []
    shown = {sink["name"]: sink for sink in result.to_json()["sinks"]}
    assert list(shown) == ["totals_update", "totals_complete", "job.py:63", "job.py:67", "rates"]
    levels = [sink["guarantee"]["level"] for sink in shown.values()]
    assert levels == ["exactly-once", "exactly-once", "at-least-once", "exactly-once", "exactly-once"]
    (aggregation, *_) = shown["job.py:67"]["bounds"]
    assert aggregation["extent"] == "bounded"
    assert left_behind(folder) == {"jobs", "jobs/job.py", "jobs/streams.py"}


@pytest.mark.feature("L1")
def test_an_unsound_script_is_told_at_its_lines(folder: Path) -> None:
    result = checked(folder, UNSOUND)
    errors = [(each.sink, each.problem) for each in result.errors]
    codes: dict[str, set[str]] = {}
    for sink, problem in errors:
        codes.setdefault(sink, set()).add(problem.code)
    assert codes == {
        "": {"HW-COLUMN-NOT-FOUND"},
        "job.py:15": {"HW-APPEND-NEEDS-WATERMARK"},
        "job.py:15 (2, from job.py:24)": {"HW-SINK-MODE-UNSUPPORTED", "HW-COMPLETE-NEEDS-AGGREGATION"},
        "job.py:15 (3, from job.py:25)": {"HW-CHECKPOINT-MISSING"},
        "job.py:15 (4, from job.py:26)": {"HW-SINK-PATH-MISSING"},
        "job.py:15 (5, from job.py:27)": {"HW-QUERY-NAME-MISSING"},
        "job.py:15 (6, from job.py:28)": {"HW-SINK-FORMAT-UNSUPPORTED"},
        "job.py:15 (7, from job.py:29)": {"HW-SCRIPT-SOURCE-NOT-FOUND"},
        "sorted": {"HW-SORT-UNSUPPORTED"},
        "job.py:20 (2, from job.py:32)": {"HW-CHECKPOINT-CONFLICT"},
    }
    lines = {problem.place.line for _, problem in errors if problem.place}
    assert lines == {15, 20, 35}
    assert [each[1:] for each in told(result) if each[0] == "warning" and each[2] == "job.py:33"] == [
        ("HW-CHECKPOINT-TEMPORARY", "job.py:33", 33)
    ]
    details = scrub("".join(finding.problem.detail for finding in result.findings))
    assert "the password is *** query: check passed" in details
    assert " False\n" in f"{details}\n"
    assert "open sesame" not in details + json.dumps(result.to_json())
    assert left_behind(folder) == {"jobs", "jobs/job.py"}


QUICK: dict[str, tuple[str, str, dict[str, Any], int | None]] = {
    "an exit code": ("import sys\n\nsys.exit(3)\n", "HW-SCRIPT-EXIT", {"code": 3}, 3),
    "a failure": ("def f():\n    return {}['a']\n\nf()\n", "HW-SCRIPT-FAILED", {"error": "KeyError: 'a'"}, 2),
    "no Spark": ("print('nothing')\n", "HW-SCRIPT-QUERY-MISSING", {"file": "jobs/job.py"}, None),
    "Spark Connect": (
        "from pyspark.sql import SparkSession\n\nSparkSession.builder.remote('sc://x').getOrCreate()\n",
        "HW-CONNECT-SESSION-UNSUPPORTED",
        {},
        3,
    ),
    "a hard end": ("import os\nos._exit(7)\n", "HW-SCRIPT-DIED", {"how": "exited with code 7"}, None),
    "arguments": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('day')\np.parse_args()\n",
        "HW-SCRIPT-EXIT",
        {"code": 2, "says": ": the following arguments are required: day"},
        4,
    ),
}


@pytest.mark.feature("L1", part="scripts that end early")
@pytest.mark.parametrize("name", QUICK)
def test_a_script_that_ends_early(folder: Path, name: str) -> None:
    text, code, params, line = QUICK[name]
    (finding,) = checked(folder, text).findings
    shown = finding.problem.place.line if finding.problem.place else None
    assert (finding.problem.code, shown) == (code, line)
    assert params.items() <= finding.problem.params.items()


@pytest.mark.feature("L1", part="what counts of the time")
def test_the_start_of_spark_does_not_count(folder: Path) -> None:
    text = """
        import time
        from pyspark import SparkContext
        def come_up(*given, **named):
            time.sleep(4)
            raise RuntimeError("enough")
        SparkContext._ensure_initialized = come_up
        try:
            SparkContext()
        except RuntimeError as error:
            assert str(error) == "enough"
    """
    began = time.monotonic()
    (finding,) = checked(folder, "\n".join(line[8:] for line in text.split("\n")), seconds=3).findings
    assert finding.problem.code == "HW-SCRIPT-QUERY-MISSING"
    assert time.monotonic() - began > 4
