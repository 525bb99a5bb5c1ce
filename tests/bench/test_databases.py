"""The benchmark of databases: its rows, its pipelines, and what it compares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import MagicMock

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from bench import database_jobs, databases
from bench.children import Batch, JobRun, Usage
from bench.database_jobs import COLUMNS, SMALL_COLUMNS, jdbc_url, schema
from bench.databases import (
    BY_HAND,
    SMALL,
    WARM_UP,
    WARM_UP_NAMES,
    Server,
    Size,
    large_pipeline,
    more_ms,
    orders,
    postgres_sink,
    sample,
    small_pipeline,
    small_sample,
    write_input,
    write_small,
)
from bench.harness import HEADWATER, Case, Sample, Variant, compare
from headwater.engine.pipeline_file import load
from headwater.spec import Mode

SIZE = Size(10, 40, 4, 2)


def test_the_rows_have_the_declared_columns() -> None:
    rows = orders(5, 3)
    types = [str(each) for each in rows.schema.types]
    assert rows.column_names == list(COLUMNS)
    assert types == [
        "int64",
        "int32",
        "string",
        "string",
        "decimal128(12, 2)",
        "double",
        "bool",
        "date32[day]",
        "timestamp[us, tz=UTC]",
    ]
    assert [str(each) for each in rows["amount"].to_pylist()] == ["1.85", "2.22", "2.59"]


@pytest.mark.parametrize("merge", [False, True])
def test_the_pipelines_are_valid(merge: bool, tmp_path: Path) -> None:
    for number, pipeline in enumerate((large_pipeline, small_pipeline)):
        (tmp_path / "in").mkdir(exist_ok=True)
        file = tmp_path / f"{number}.yml"
        file.write_text(pipeline(tmp_path / "in", postgres_sink("postgresql://u@h:1/d", merge=merge)))
        (sink,) = load(file).sinks
        assert sink.mode is (Mode.UPDATE if merge else Mode.APPEND)
        assert getattr(sink.options, "key", None) == (("id",) if merge else None)
        (source,) = YAML(typ="safe").load(file.read_text())["sources"].values()
        assert source["schema"] == schema(SMALL_COLUMNS if number else COLUMNS)


def test_the_queries_by_hand_read_the_same_rows() -> None:
    spark = MagicMock()
    reader = spark.readStream.schema
    database_jobs.jdbc(spark, Path("/nowhere"), "/in", "postgresql://u@h:1/d", merge=False, rewrite=False)
    reader.assert_called_with(schema())
    reader.return_value.option.assert_called_with("maxFilesPerTrigger", database_jobs.FILES_PER_BATCH)
    reader.return_value.option.return_value.parquet.assert_called_with("/in")
    database_jobs.small_copy(spark, Path("/nowhere"), "/in", "postgresql://u@h:1/d")
    reader.assert_called_with(schema(SMALL_COLUMNS))
    reader.return_value.option.return_value.json.assert_called_with("/in")


def test_the_address_for_jdbc() -> None:
    url = "postgresql://postgres@127.0.0.1:5432/shop"
    assert jdbc_url(url, rewrite=False) == "jdbc:postgresql://127.0.0.1:5432/shop?user=postgres"
    rewritten = "jdbc:postgresql://127.0.0.1:5432/shop?user=postgres&reWriteBatchedInserts=true"
    assert jdbc_url(url, rewrite=True) == rewritten


def test_the_small_batches_have_their_rows(tmp_path: Path) -> None:
    write_small(tmp_path / "small", 2)
    files = sorted((tmp_path / "small").iterdir())
    rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    assert [[each["id"] for each in part] for part in rows] == [list(range(100)), list(range(100, 200))]
    assert list(rows[0][0]) == list(SMALL_COLUMNS)


def test_every_form_of_the_input_is_verified_by_the_server(tmp_path: Path) -> None:
    """The checksum finds a row that is missing, repeated or different, and no difference in order or form."""
    write_input(tmp_path, SIZE)
    files = [pa.parquet.read_table(file) for file in sorted((tmp_path / "parquet").glob("rows-*"))]
    assert pa.concat_tables(files).equals(orders(0, SIZE.rows))
    server = Server(tmp_path / "server")
    with server.server:
        server.prepare(tmp_path, SIZE)
        for merge, expected in ((False, "appended"), (True, "merged")):
            server.reset(merge=merge)
            warm_up = [f"{tmp_path}/{name}.bin" for name in WARM_UP_NAMES]
            for copied in (warm_up, [f"{tmp_path}/rows-1.csv", f"{tmp_path}/rows-0.csv"]):
                database_jobs.copy_files(server.url, copied, merge)
            server.verify(expected)
            for change in (
                "DELETE FROM bench.orders WHERE id = 7",
                "INSERT INTO bench.orders SELECT (jsonb_populate_record(o, '{\"id\": 7}')).* FROM bench.orders o "
                "WHERE id = 8",
            ):
                server.run(change)
                with pytest.raises(RuntimeError, match="rows and checksum"):
                    server.verify(expected)
        assert len(server.run("SELECT id FROM merged WHERE note = 'before the upsert'")) == SIZE.rows // 2


def test_a_file_that_is_not_copied_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(psycopg.OperationalError):
        database_jobs.copy_files("postgresql://u@127.0.0.1:1/d", [str(tmp_path / "a.csv")], merge=False)


def run_of(batches: Mapping[int, tuple[int, float]]) -> JobRun:
    commits = {number: Usage(number, 10.0 * number, 0, 0, 1) for number in batches}
    made = [Batch(number, rows, ms, {"addBatch": ms}) for number, (rows, ms) in batches.items()]
    return JobRun(1, 1, "", made, commits)


def test_the_batch_after_the_warm_up_is_the_sample() -> None:
    warm_up = dict.fromkeys(range(WARM_UP), (10, 500.0))
    found = sample(run_of({**warm_up, WARM_UP: (40, 2000)}), SIZE, 3.5)
    assert (found.value, found.cpu) == (20, 10)
    assert found.details == {"seconds": 2, "server CPU, s": 3.5}
    with pytest.raises(RuntimeError, match=r"\[10, 10, 10, 39\] rows"):
        sample(run_of({**warm_up, WARM_UP: (39, 2000)}), SIZE, 3.5)


def test_the_warm_batches_are_the_small_sample() -> None:
    found = small_sample(run_of({number: (100, 10.0 * number) for number in range(4)}), SIZE)
    assert (found.value, found.details["first batch"]) == (25, 0)
    with pytest.raises(RuntimeError, match="300 rows"):
        small_sample(run_of(dict.fromkeys(range(3), (100, 10.0))), SIZE)


def test_the_difference_is_the_median_of_the_rounds() -> None:
    samples = {
        HEADWATER: {0: Sample(120), 1: Sample(90), 2: Sample(100)},
        BY_HAND: {0: Sample(90), 1: Sample(85), 2: Sample(98)},
    }
    case = Case(SMALL, "ms per batch", "lower", [Variant(name, lambda f: Sample(0)) for name in samples])
    assert more_ms([compare(case, samples, {})]) == 5
    assert more_ms([]) is None


def test_the_benchmark_has_targets_for_append_and_upsert() -> None:
    wanted = [(each.relative_to, each.limit, each.kind) for each in databases.TARGETS]
    expected = [(databases.JDBC, 4, "at least"), (databases.REWRITE, 2, "at least")]
    assert wanted == [*expected, (databases.COPY, 0.65, "at least")]
