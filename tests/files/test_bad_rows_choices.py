"""What becomes of bad rows of files besides the quarantine: dropped, kept, counted in a batch, replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.api.batch import run_batch
from headwater.connectors.contract import DETAIL, REASON, ROW, ROW_TYPE, Context
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.rows import ValidatedFiles
from headwater.events import BatchRunFinished, Event, Notice
from headwater.run_directory import RunDirectory
from headwater.runtime import RunOptions
from headwater.values import BadRows
from tests.files.test_bad_rows_files import old, quarantined
from tests.pipelines import put, run_until_idle, write

CHOICES = """
name: choices
sources:
  dropped: {connector: files, path: json, format: json, bad_rows: drop,
            schema: {id: int not null, name: string}}
  kept: {connector: files, path: json, format: json, bad_rows: keep, schema: {id: int not null, name: string}}
  lines: {connector: files, path: csv, format: csv, header: true, bad_rows: keep,
          schema: {id: int, name: string}}
%s
sinks:
  shown: {reads: dropped, connector: console, num_rows: 1}
  dropped: {reads: dropped, connector: files, path: out/dropped, format: parquet}
  kept: {reads: kept, connector: files, path: out/kept, format: parquet}
  lines: {reads: lines, connector: files, path: out/lines, format: parquet}
%s
"""
PARQUET = """
  chosen: {connector: files, path: parquet, format: parquet, bad_rows: quarantine, schema: {id: bigint},
           options: {pathGlobFilter: "*.data"}}
  sifted: {connector: files, path: parquet, format: parquet, bad_rows: drop, schema: {id: bigint}}
"""
PARQUET_SINKS = """
  chosen: {reads: chosen, connector: files, path: out/chosen, format: parquet}
  sifted: {reads: sifted, connector: files, path: out/sifted, format: parquet}
"""
JSON = '{"id":1,"name":"owl"}\n{"id":"x","name":"jay"}\n{broken\n{"name":"nobody"}\n'
KEPT = [
    (1, "owl", None, None),
    (None, "jay", "type_mismatch", '{"id":"x","name":"jay"}'),
    (None, None, "malformed", "{broken"),
    (None, "nobody", "missing_value", '{"name":"nobody"}'),
]
LINES = [(1, "owl", None, None), (None, "jay", "type_mismatch", "x,jay")]


def rows(spark: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in spark.read.parquet(str(folder)).collect())


def texts(folder: Path) -> None:
    put(folder / "json" / "1.json", JSON)
    put(folder / "csv" / "1.csv", "id,name\n1,owl\nx,jay\n")


@pytest.mark.feature("K1.1", part="files: drop, keep, and a filter of names")
def test_bad_rows_are_dropped_or_kept_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    texts(tmp_path)
    spark.sql("SELECT 1L AS id").coalesce(1).write.parquet(str(tmp_path / "made"))
    (made,) = (tmp_path / "made").glob("*.parquet")
    for name, content in {"1.data": made.read_bytes(), "2.data": b"none", "3.other": b"none"}.items():
        old(tmp_path / "parquet" / name, content)
    result = run_until_idle(write(tmp_path, CHOICES % (PARQUET, PARQUET_SINKS)))
    out = tmp_path / "out"
    assert rows(spark, out / "dropped") == Counter([(1, "owl")])
    assert rows(spark, out / "kept") == Counter(KEPT)
    assert rows(spark, out / "lines") == Counter(LINES)
    assert rows(spark, out / "chosen") == rows(spark, out / "sifted") == Counter([(1,)])
    # The file in place of a rejected one has another name, which the filter must not hide.
    assert quarantined(spark, tmp_path, "chosen") == Counter([("unreadable_file", "parquet/2.data", None)])
    counts = {name: result.queries[name].sources for name in ("dropped", "kept", "lines", "chosen", "sifted")}
    assert counts == {
        "dropped": {"dropped": {"read": 4, "good": 1, "bad": 3}},
        "kept": {"kept": {"read": 4, "good": 1, "bad": 3}},
        "lines": {"lines": {"read": 2, "good": 1, "bad": 1}},
        "chosen": {"chosen": {"read": 2, "good": 1, "bad": 1}},
        "sifted": {"sifted": {"read": 3, "good": 1, "bad": 2}},
    }


BATCH_SOURCE = """
  aside: {connector: files, path: json, format: json, bad_rows: quarantine,
          schema: {id: int not null, name: string}}
"""


@pytest.mark.feature("K1.1", part="files: a batch run")
def test_a_batch_run_counts_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    texts(tmp_path)
    file = write(tmp_path, CHOICES % (BATCH_SOURCE, "  aside: {reads: aside, connector: noop}"))
    events: list[Event] = []
    result = run_batch(
        file, RunOptions(), into=tmp_path / "all", stdout=lambda line: None, emit=events.append
    )
    assert rows(spark, tmp_path / "all" / "dropped") == Counter([(1, "owl")])
    assert rows(spark, tmp_path / "all" / "kept") == Counter(KEPT)
    # The console comes first and shows one row; the rows are counted by the sink that stores them.
    told = {name: each.to_json() for name, each in result.sources.items()}
    four = {"read": 4, "good": 1, "bad": 3}
    assert told == {
        "dropped": four,
        "kept": four,
        "lines": {"read": 2, "good": 1, "bad": 1},
        "aside": four,
    }
    (ended,) = (event for event in events if isinstance(event, BatchRunFinished))
    assert ended.to_json()["sources"] == told
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "dropped: bad rows: 3 of 4 (dropped).",
        "kept: bad rows: 3 of 4 (kept).",
        "lines: bad rows: 1 of 2 (kept).",
        "aside: bad rows: 3 of 4 (dropped; batch runs do not quarantine rows).",
        "aside: these counts cover only the rows that sink `aside` requested, which may not be all.",
    ]
    assert not (tmp_path / ".headwater" / "quarantine").exists()


def files(spark: SparkSession, root: Path, options: dict[str, Any], **more: Any) -> ValidatedFiles:
    """A source that quarantines bad rows."""
    source = FilesSource.model_validate(options)
    context = Context(
        "s", None, root, RunDirectory(root / ".headwater").source("s"), lambda ref: print,
        lambda file, text: None, at=lambda *key: None, bad_rows=BadRows.QUARANTINE,
        **{"batch": False, **more},
    )  # fmt: skip
    return ValidatedFiles(spark, source, context)


def validated(
    spark: SparkSession, root: Path, options: dict[str, Any], replayed: dict[str, str]
) -> list[tuple[Any, ...]]:
    """The rows of a source whose rows are replayed: file and text of each."""
    found = files(spark, root, options, batch=True).rows(lambda: _again(spark, replayed))
    return [tuple(row) for row in found.select("id", "day", REASON, DETAIL).collect()]


def _again(spark: SparkSession, replayed: dict[str, str]) -> DataFrame:
    made = [
        ((file, None, None, None, None, None, None, None, bytearray(text.encode())),)
        for file, text in replayed.items()
    ]
    return spark.createDataFrame(made, f"row {ROW_TYPE}")


FED: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "json": ('{"id":2}', dict.fromkeys(["{broken", " ", "null"], "malformed"), {}),
    "csv": ("2", {"x": "type_mismatch", "# 2": "malformed", "": "malformed"}, {"options": {"comment": "#"}}),
    "xml": (
        "<r><id>2</id></r>",
        dict.fromkeys(["<r><id>2</r>", "<rr><id>2</id></rr>", ""], "malformed"),
        {"row_tag": "r"},
    ),
}


@pytest.mark.feature("K1.3", part="files: rows that are fed again, in key=value folders and of several paths")
@pytest.mark.parametrize("format", FED)
def test_rows_that_are_fed_again_have_the_columns_of_their_folders(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    good, bad, more = FED[format]
    # The first path begins like the second one and is not around it.
    one, other = tmp_path / "in", tmp_path / "inner"
    for folder in (one, other):
        (folder / "day=7").mkdir(parents=True)
        (folder / "day=7" / "empty").write_text("<rs/>" if format == "xml" else "")
    replayed = {f"{other}/day=8/a b": good, f"{one}/day=9/c": good, f"{one}/e=1/f": good}
    replayed |= {f"{other}/day=8/{number}": text for number, text in enumerate(bad)}
    options = {
        "path": [str(one), str(other)],
        "format": format,
        "schema": {"id": "int", "day": "int"},
        **more,
    }
    found = validated(spark, tmp_path, options, replayed)
    reasons = Counter((id_, day, reason) for id_, day, reason, _ in found)
    broken = [(None, 8, reason) for reason in bad.values()]
    assert reasons == Counter([(2, 8, None), (2, 9, None), (2, None, "wrong_partition_dir"), *broken]), found


MADE = "SELECT CAST(NULL AS int) AS id, ' a,\"\\\\b\n ' AS name, TIMESTAMP '2026-01-01 12:00:00.123456' AS at"
READ: dict[str, dict[str, Any]] = {
    "parquet": {},
    "csv": {"multi_line": True},
    "json": {"multi_line": True, "timestamp_format": "HH:mm:ss.SSSSSS yyyy-MM-dd"},
}


@pytest.mark.feature("K1.3", part="files: what is kept of a row that Spark's reader has found is read again")
@pytest.mark.parametrize("format", READ)
def test_a_row_that_is_kept_as_columns_is_fed_again_as_it_was(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    made = spark.sql(MADE).coalesce(1)
    times = {"timestampFormat": READ[format].get("timestamp_format", "yyyy-MM-dd HH:mm:ss.SSSSSS")}
    kept = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false", "escape": '"'}
    made.write.format(format).options(**times, **kept).save(str(tmp_path / "in"))

    def source(id_: str) -> ValidatedFiles:
        schema = {"id": id_, "name": "string", "at": "timestamp"}
        options = {"path": [str(tmp_path / "in")], "format": format, "schema": schema, **READ[format]}
        return files(spark, tmp_path, options, batch=True)

    (quarantined,) = source("int not null").rows(None).collect()
    assert quarantined[REASON] == "missing_value"
    replayed = _again(spark, {quarantined[ROW].file: bytes(quarantined[ROW].value).decode()})
    found = source("int").rows(lambda: replayed).select("id", "name", "at", REASON).collect()
    # The row of the file is good now as well.
    (row,) = made.collect()
    assert Counter(map(tuple, found)) == Counter([(*row, None)] * 2)


def test_nothing_is_written_but_for_a_start(spark: SparkSession, tmp_path: Path) -> None:
    options = {"path": [str(tmp_path / "in")], "format": "parquet", "schema": {"id": "int"}}
    for folder in ("in", ".headwater"):
        (tmp_path / folder).mkdir()
    assert files(spark, tmp_path, options).rows(None).isStreaming
    assert list((tmp_path / ".headwater").iterdir()) == []
    assert files(spark, tmp_path, options, starts=True).rows(None).isStreaming
    assert (tmp_path / ".headwater" / "validated_files" / "s" / "0").is_dir()
