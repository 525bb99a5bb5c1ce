"""The hand-written peers of the benchmark of databases: `foreachBatch` with plain PySpark, and COPY without Spark.

The tasks of Spark import this module, so it imports little. `python -m bench.database_jobs DESCRIPTION` copies files.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA_NAME, TABLE, STAGING = "bench", "orders", "orders_staging"
COLUMNS = {
    "id": "bigint",
    "customer": "int",
    "code": "string",
    "note": "string",
    "amount": "decimal(12,2)",
    "price": "double",
    "paid": "boolean",
    "day": "date",
    "at": "timestamp",
}
KEY = "id"
SMALL_COLUMNS = ("id", "customer", "code", "price", "at")
"""The columns of small batches, which JSON files can contain."""
FILES_PER_BATCH = 2
BATCH_SIZE = 10_000
"""The rows of a JDBC batch, as guides recommend; Spark's default is 1,000."""
CHUNK = 1 << 18
MERGE = (
    f"INSERT INTO {SCHEMA_NAME}.{TABLE} ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS)} "
    f"FROM {SCHEMA_NAME}.{STAGING} ON CONFLICT ({KEY}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != KEY)
)


def schema(columns: Iterable[str] = COLUMNS) -> str:
    """Columns, as Spark declares them."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)


def place(merge: bool) -> str:
    """The table that a peer loads rows into: for an upsert, one from which a statement merges them."""
    return f"{SCHEMA_NAME}.{STAGING if merge else TABLE}"


def merged(url: str) -> None:
    """Apply the rows of the staging table, and empty it."""
    with psycopg.connect(url) as connection:
        connection.execute(MERGE.encode())
        connection.execute(f"TRUNCATE {SCHEMA_NAME}.{STAGING}".encode())


# Queries with `foreachBatch`.


def _start(rows: DataFrame, folder: Path, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _orders(spark: SparkSession, data: str) -> DataFrame:
    reader = spark.readStream.schema(schema()).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.parquet(data)


def jdbc(
    spark: SparkSession, folder: Path, data: str, url: str, merge: bool, rewrite: bool
) -> StreamingQuery:
    """Spark's JDBC writer."""

    def write(batch: DataFrame, batch_id: int) -> None:
        writer = batch.write.format("jdbc").mode("append").option("driver", "org.postgresql.Driver")
        writer = writer.option("url", jdbc_url(url, rewrite=rewrite)).option("batchsize", BATCH_SIZE)
        writer.option("dbtable", place(merge)).save()
        if merge:
            merged(url)

    return _start(_orders(spark, data), folder, write)


def jdbc_url(url: str, *, rewrite: bool) -> str:
    """The address of `postgresql://user@host:port/database` for JDBC."""
    user, _, location = url.removeprefix("postgresql://").partition("@")
    return f"jdbc:postgresql://{location}?user={user}" + ("&reWriteBatchedInserts=true" if rewrite else "")


def adbc(
    spark: SparkSession, folder: Path, data: str, url: str, merge: bool, packages: str
) -> StreamingQuery:
    """The tasks ingest their Arrow batches with ADBC, which is in the directory `packages`."""
    table = STAGING if merge else TABLE

    def ingest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.append(packages)
        from adbc_driver_postgresql import dbapi

        found = iter(batches)
        first = next(found, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, _chained(first, found))
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            number = cursor.adbc_ingest(table, reader, mode="append", db_schema_name=SCHEMA_NAME)
            connection.commit()
        yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64())})

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.mapInArrow(ingest, "number bigint").collect()
        if merge:
            merged(url)

    return _start(_orders(spark, data), folder, write)


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def small_copy(spark: SparkSession, folder: Path, data: str, url: str) -> StreamingQuery:
    """Small batches: the driver collects the rows and copies them; no ledger, so a retried batch is a duplicate."""
    copy = f"COPY {place(merge=False)} ({', '.join(SMALL_COLUMNS)}) FROM STDIN"

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.collect()
        with psycopg.connect(url) as connection, connection.cursor().copy(copy.encode()) as stream:
            for row in rows:
                stream.write_row(row)

    reader = spark.readStream.schema(schema(SMALL_COLUMNS)).option("maxFilesPerTrigger", 1)
    return _start(reader.json(data), folder, write)


# COPY of prepared files, without Spark.


def copy_file(url: str, file: Path, table: str) -> None:
    """Copy a CSV file, or one in the binary format, in one transaction."""
    form = "BINARY" if file.suffix == ".bin" else "CSV"
    statement = f"COPY {table} FROM STDIN (FORMAT {form})"
    with (
        file.open("rb") as opened,
        psycopg.connect(url) as connection,
        connection.cursor().copy(statement.encode()) as stream,
    ):
        while chunk := opened.read(CHUNK):
            stream.write(chunk)


def copy_files(url: str, files: Sequence[str], merge: bool) -> None:
    """Copy files, each on its own connection and at the same time."""
    with ThreadPoolExecutor(len(files)) as pool:
        copies = [pool.submit(copy_file, url, Path(file), place(merge)) for file in files]
    for each in copies:
        each.result()
    if merge:
        merged(url)


def main() -> None:
    """Copy the files of each batch; print the seconds and the CPU seconds of the last one."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    *warm_up, measured = given["batches"]
    for files in warm_up:
        copy_files(given["url"], files, given["merge"])
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    copy_files(given["url"], measured, given["merge"])
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main()
