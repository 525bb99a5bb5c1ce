"""Databases: the sinks with their ledger against JDBC, ADBC and COPY, on a local PostgreSQL server.

Every run has an empty schema with the table. After it, the rows are compared with those of the input: their number,
and a checksum that does not depend on their order.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.csv  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
from pgpq import ArrowToPostgresBinaryEncoder

from bench.children import JobRun, run_by_hand, run_command, run_headwater, usage
from bench.database_jobs import (
    COLUMNS,
    FILES_PER_BATCH,
    KEY,
    SCHEMA_NAME,
    SMALL_COLUMNS,
    STAGING,
    TABLE,
    schema,
)
from bench.harness import (
    HEADWATER,
    ROOT,
    SAME,
    Benchmark,
    Case,
    CaseResult,
    Outcome,
    Sample,
    Target,
    Unavailable,
    Variant,
)
from bench.peers.environments import PeerUnavailableError, class_path, declared, ready
from bench.variants import Settings, settings
from headwater.dev import PostgresServer
from headwater.errors import SetupError

JDBC, REWRITE = "Spark JDBC", "Spark JDBC, reWriteBatchedInserts"
COPY, COPY_ONE, COPY_BINARY = "COPY, two CSV files", "COPY, one CSV file", "COPY, one binary file"
ADBC = "ADBC ingest in the tasks"
BY_HAND = "foreachBatch with COPY, no ledger"
APPEND, UPSERT, SMALL, OTHERS = "append", "upsert", "100 rows per batch", "append, embedded databases"
JOBS = "bench.database_jobs"
TYPES = {
    "int": "integer",
    "string": "text",
    "decimal(12,2)": "numeric(12,2)",
    "double": "double precision",
    "timestamp": "timestamp with time zone",
}
"""PostgreSQL's names of Spark's types, where they differ."""
SERVER = {
    # As servers come: the local server for development does not wait for its disk.
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    # It would run in some rounds and not in others.
    "autovacuum": "off",
}
CHECKSUM = "SELECT count(*), sum(hashtextextended(r::text, 0)) FROM {} AS r"
SIMPLE = "SELECT count(*), sum(id), sum(customer), sum(length(note)), sum(price) FROM {}"
"""What every database computes alike."""
FIRST_SECOND = 1_767_225_600
SMALL_ROWS, MORE_MS = 100, 30.0


@dataclass(frozen=True)
class Size:
    """The rows of a batch of the warm-up and of the measured one; the small batches, and the first that counts."""

    warm_up: int
    rows: int
    batches: int
    warm: int


FULL, QUICK = Size(300_000, 1_000_000, 110, 60), Size(500, 4_000, 12, 6)
WARM_UP = 3
"""The batches before the measured one, in which Java compiles the code of the query."""
WARM_UP_NAMES = tuple(f"warm-up-{number}" for number in range(WARM_UP))

LARGE_PIPELINE = """\
name: databases
sources:
  orders:
    connector: files
    path: {data}
    format: parquet
    schema: {schema}
    max_files_per_batch: {files}
sinks:
  out: {{reads: orders, {sink}, trigger: available now}}
"""
SMALL_PIPELINE = """\
name: databases
sources:
  orders:
    connector: files
    path: {data}
    format: json
    schema: {schema}
    max_files_per_batch: 1
sinks:
  out: {{reads: orders, {sink}, trigger: available now}}
"""


def postgres_sink(url: str, *, merge: bool = False) -> str:
    """The keys of a sink that writes the table."""
    more = f", mode: update, key: [{KEY}]" if merge else ""
    return f"connector: postgres, url: '{url}', into: {SCHEMA_NAME}.{TABLE}{more}"


def large_pipeline(data: Path, sink: str) -> str:
    """The pipeline file of the large batches."""
    return LARGE_PIPELINE.format(data=data, schema=json.dumps(schema()), files=FILES_PER_BATCH, sink=sink)


def small_pipeline(data: Path, sink: str) -> str:
    """The pipeline file of the small batches."""
    return SMALL_PIPELINE.format(data=data, schema=json.dumps(schema(SMALL_COLUMNS)), sink=sink)


# Input.


def orders(first: int, number: int) -> pa.Table:
    """Rows with consecutive IDs."""
    ids = range(first, first + number)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "customer": pa.array((each * 7919 % 50_021 for each in ids), pa.int32()),
        "code": pa.array(f"C{each % 9973:07}" for each in ids),
        "note": pa.array(f"order {each} of a customer, sent by mail" for each in ids),
        "amount": _cents(each * 37 % 1_000_000 for each in ids),
        "price": pa.array((each / 8 for each in ids), pa.float64()),
        "paid": pa.array(each % 3 == 0 for each in ids),
        "day": pa.array((each % 3_650 for each in ids), pa.int32()).cast(pa.date32()),
        "at": pa.array(((FIRST_SECOND + each) * 1_000_000 + each % 997 for each in ids), pa.int64()),
    }
    columns["at"] = columns["at"].cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)


def _cents(values: Iterable[int]) -> pa.Array:
    whole = pa.array(values, pa.int64()).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))).cast(pa.decimal128(12, 2))


def write_rows(folder: Path, name: str, rows: pa.Table, at: int) -> None:
    """Write rows as Parquet for Spark, in two files of one batch, and as CSV and in PostgreSQL's binary format."""
    half = rows.num_rows // FILES_PER_BATCH
    without_header = pyarrow.csv.WriteOptions(include_header=False)
    for number in range(FILES_PER_BATCH):
        length = half if number + 1 < FILES_PER_BATCH else rows.num_rows - number * half
        part = rows.slice(number * half, length)
        file = folder / "parquet" / f"{name}-{number}.parquet"
        pyarrow.parquet.write_table(part, file)
        # Spark reads the oldest files first.
        os.utime(file, (FIRST_SECOND + at,) * 2)
        pyarrow.csv.write_csv(part, folder / f"{name}-{number}.csv", without_header)
    pyarrow.csv.write_csv(rows, folder / f"{name}.csv", without_header)
    encoder = ArrowToPostgresBinaryEncoder(rows.schema)
    with (folder / f"{name}.bin").open("wb") as out:
        out.write(encoder.write_header())
        for batch in rows.to_batches(10_000):
            out.write(encoder.write_batch(batch))
        out.write(encoder.finish())


def write_input(folder: Path, size: Size) -> None:
    """The batches of the warm-up, with IDs of their own, and the measured one."""
    (folder / "parquet").mkdir()
    for number, name in enumerate(WARM_UP_NAMES):
        write_rows(folder, name, orders(2 * size.rows + number * size.warm_up, size.warm_up), number)
    write_rows(folder, "rows", orders(0, size.rows), WARM_UP)


def write_small(folder: Path, batches: int) -> None:
    """One JSON file per batch."""
    folder.mkdir()
    rows = orders(0, batches * SMALL_ROWS).select(SMALL_COLUMNS).to_pylist()
    for number in range(batches):
        file = folder / f"{number:05}.json"
        part = rows[number * SMALL_ROWS : (number + 1) * SMALL_ROWS]
        file.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in part), encoding="utf-8")
        os.utime(file, (FIRST_SECOND + number,) * 2)


# The server.


def table_statement(place: str, columns: Iterable[str] = COLUMNS, *, key: bool = False) -> str:
    """CREATE TABLE with the types that the sink also selects."""
    named = [f"{name} {TYPES.get(COLUMNS[name], COLUMNS[name])}" for name in columns]
    return f"TABLE {place} ({', '.join(named)}{f', PRIMARY KEY ({KEY})' if key else ''})"


class Server:
    """The PostgreSQL server, with the expected rows in tables of its own."""

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer(folder, settings=SERVER)

    @property
    def url(self) -> str:
        return self.server.url

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; returns the rows of the last one."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def prepare(self, input_: Path, size: Size) -> None:
        """The rows of the input; those that are in the table before an upsert; and the table after it."""
        self.run(f"CREATE {table_statement('appended')}", f"CREATE {table_statement('existing')}")
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            for name in (*WARM_UP_NAMES, "rows"):
                with cursor.copy("COPY appended FROM STDIN (FORMAT CSV)") as stream:
                    stream.write((input_ / f"{name}.csv").read_bytes())
        half = size.rows // 2
        old = ", ".join("'before the upsert'" if name == "note" else name for name in list(COLUMNS)[1:])
        self.run(
            f"INSERT INTO existing SELECT {KEY} + {half}, {old} FROM appended WHERE {KEY} < {size.rows}",
            f"CREATE VIEW merged AS SELECT * FROM appended UNION ALL SELECT * FROM existing e "
            f"WHERE NOT EXISTS (SELECT 1 FROM appended a WHERE a.{KEY} = e.{KEY})",
        )
        # The input itself was computed outside of the database.
        ((number, ids),) = self.run(f"SELECT count(*), sum({KEY}) FROM appended")
        others = WARM_UP * size.warm_up
        expected = sum(range(size.rows)) + sum(range(2 * size.rows, 2 * size.rows + others))
        if (number, ids) != (size.rows + others, expected):
            raise RuntimeError(f"the server has {number} rows of the input, expected {size.rows + others}")

    def reset(self, columns: Iterable[str] = COLUMNS, *, merge: bool = False) -> None:
        """An empty schema with the table; before an upsert, it has rows."""
        self.run(
            f"DROP SCHEMA IF EXISTS {SCHEMA_NAME} CASCADE",
            f"CREATE SCHEMA {SCHEMA_NAME}",
            f"CREATE {table_statement(f'{SCHEMA_NAME}.{TABLE}', columns, key=merge)}",
            f"CREATE UNLOGGED {table_statement(f'{SCHEMA_NAME}.{STAGING}', columns)}",
        )
        if merge:
            self.run(f"INSERT INTO {SCHEMA_NAME}.{TABLE} SELECT * FROM existing")
        self.run("VACUUM (ANALYZE)", "CHECKPOINT")

    def verify(self, expected: str) -> None:
        """The table must have the expected rows."""
        want, got = (self.run(CHECKSUM.format(each)) for each in (expected, f"{SCHEMA_NAME}.{TABLE}"))
        if want != got:
            raise RuntimeError(f"rows and checksum are {got[0]}, expected {want[0]}")

    def cpu(self) -> float:
        """The CPU seconds of all processes of the server."""
        return usage(self.server.pid, 0).cpu


# Measurement.


def sample(run: JobRun, size: Size, server_cpu: float | None) -> Sample:
    """The batch after the warm-up."""
    if [batch.rows for batch in run.batches] != [*[size.warm_up] * WARM_UP, size.rows]:
        raise RuntimeError(f"the batches have {[batch.rows for batch in run.batches]} rows")
    seconds = run.batches[WARM_UP].ms / 1000
    details = {"seconds": seconds} | ({} if server_cpu is None else {"server CPU, s": server_cpu})
    used = run.usage_at(WARM_UP)[1].cpu - run.usage_at(WARM_UP - 1)[1].cpu
    return Sample(run.rows_per_second(after=WARM_UP - 1), used, details)


def small_sample(run: JobRun, size: Size) -> Sample:
    """The median of the warm batches."""
    if [batch.rows for batch in run.batches] != [SMALL_ROWS] * size.batches:
        raise RuntimeError(f"{run.rows} rows were read in {len(run.batches)} batches")
    warm = size.warm, size.batches - 1
    return Sample(run.median_ms(*warm), run.cpu_ms(*warm), {"first batch": run.median_ms(0, 0)})


def more_ms(results: Sequence[CaseResult]) -> float | None:
    """The median over the rounds of how much longer a small batch takes with the ledger."""
    for result in results:
        ours, theirs = result.variant(HEADWATER), result.variant(BY_HAND)
        if result.name == SMALL and ours and theirs:
            both = ours.samples.keys() & theirs.samples.keys()
            return statistics.median(ours.samples[n].value - theirs.samples[n].value for n in both)
    return None


class Databases(Benchmark):
    """The sinks of databases."""

    name = "databases"
    title = "Databases"
    description = (
        f"A batch of {FULL.rows:,} rows with {len(COLUMNS)} columns from Parquet files into a local PostgreSQL server, "
        f"after a warm-up of {WARM_UP} batches of {FULL.warm_up:,} rows; and batches of {SMALL_ROWS} rows, of which "
        f"the value is the median of batches {FULL.warm}–{FULL.batches - 1}. Headwater writes each batch exactly once "
        "with a ledger, the others do not. After each run, the number of rows and a checksum of the table are compared "
        "with the input. Server CPU: of all processes of PostgreSQL during the run."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            self.server = Server(self.input / "server")
            with self.server.server:
                yield

    def cases(self, quick: bool) -> Iterable[Case]:
        size = QUICK if quick else FULL
        write_input(self.input, size)
        write_small(self.input / "small", size.batches)
        self.server.prepare(self.input, size)
        for name in (APPEND, UPSERT):
            variants = list(self._large(size, name == UPSERT))
            yield Case(name, "rows/s", "higher", variants, baseline=COPY, targets=TARGETS, note=NOTES[name])
        yield Case(SMALL, "ms per batch", "lower", list(self._small(size)), baseline=BY_HAND)
        yield Case(OTHERS, "rows/s", "higher", list(self._others(size)), baseline="Headwater, SQLite")

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        text = f"{SMALL}: {HEADWATER}, more than {BY_HAND}"
        yield Outcome(text, more_ms(results), MORE_MS, "at most", " ms")

    def _large(self, size: Size, merge: bool) -> Iterator[Variant]:
        def measured(run: Callable[[Path], JobRun]) -> Callable[[Path], Sample]:
            def measure(folder: Path) -> Sample:
                with self._table(merge) as used:
                    done = run(folder)
                return sample(done, size, used())

            return measure

        given = {"data": str(self.input / "parquet"), "url": self.server.url, "merge": merge}

        def headwater(folder: Path) -> JobRun:
            sink = postgres_sink(self.server.url, merge=merge)
            return run_headwater(large_pipeline(self.input / "parquet", sink), folder)

        def adbc(folder: Path) -> JobRun:
            parameters = {**given, "packages": adbc_packages()}
            return run_by_hand(f"{JOBS}:adbc", folder, with_workers(), parameters)

        def jdbc(rewrite: bool) -> Callable[[Path], JobRun]:
            parameters = {**given, "rewrite": rewrite}
            return lambda folder: run_by_hand(f"{JOBS}:jdbc", folder, with_jdbc(), parameters)

        yield Variant(HEADWATER, measured(headwater))
        yield Variant(JDBC, measured(jdbc(rewrite=False)), note="batchsize 10,000")
        yield Variant(REWRITE, measured(jdbc(rewrite=True)), note="batchsize 10,000")
        yield Variant(ADBC, measured(adbc))
        yield Variant(COPY, self._copied(size, merge, ("{}-0.csv", "{}-1.csv")), note="two connections")
        yield Variant(COPY_ONE, self._copied(size, merge, ("{}.csv",)), note="one connection")
        yield Variant(COPY_BINARY, self._copied(size, merge, ("{}.bin",)), note="one connection")

    @contextmanager
    def _table(self, merge: bool) -> Iterator[Callable[[], float]]:
        """The table before a run, whose rows are verified afterwards. Gives the CPU time of the server in the run."""
        self.server.reset(merge=merge)
        before = self.server.cpu()
        used: list[float] = []
        yield lambda: used[0]
        used.append(self.server.cpu() - before)
        self.server.verify("merged" if merge else "appended")

    def _copied(self, size: Size, merge: bool, files: Sequence[str]) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            batches = [
                [str(self.input / each.format(name)) for each in files] for name in (*WARM_UP_NAMES, "rows")
            ]
            description = json.dumps({"batches": batches, "url": self.server.url, "merge": merge})
            with self._table(merge) as used:
                command = [sys.executable, "-m", JOBS, description]
                done = run_command(command, folder, environ={**os.environ, "PYTHONPATH": str(ROOT)})
            found = json.loads(done.output.splitlines()[-1])
            details = {"seconds": found["seconds"], "server CPU, s": used()}
            return Sample(size.rows / found["seconds"], found["cpu"], details)

        return run

    def _small(self, size: Size) -> Iterator[Variant]:
        data = self.input / "small"

        def measured(run: Callable[[Path], JobRun]) -> Callable[[Path], Sample]:
            def measure(folder: Path) -> Sample:
                self.server.reset(SMALL_COLUMNS)
                found = small_sample(run(folder), size)
                rows = f"SELECT {', '.join(SMALL_COLUMNS)} FROM appended WHERE {KEY} < {size.batches * SMALL_ROWS}"
                self.server.verify(f"({rows})")
                return found

            return measure

        def by_hand(folder: Path) -> JobRun:
            parameters = {"data": str(data), "url": self.server.url}
            return run_by_hand(f"{JOBS}:small_copy", folder, settings(SAME), parameters)

        sink = postgres_sink(self.server.url)
        yield Variant(HEADWATER, measured(lambda folder: run_headwater(small_pipeline(data, sink), folder)))
        yield Variant(BY_HAND, measured(by_hand), note="Spark, same settings")

    def _others(self, size: Size) -> Iterator[Variant]:
        def measured(
            connector: str, read: Callable[[Path, str], Sequence[object]]
        ) -> Callable[[Path], Sample]:
            def measure(folder: Path) -> Sample:
                sink = f"connector: {connector}, path: out.db, into: {TABLE}"
                done = run_headwater(large_pipeline(self.input / "parquet", sink), folder)
                (want,) = self.server.run(SIMPLE.format("appended"))
                got = read(folder / "out.db", SIMPLE.format(TABLE))
                if [float(str(each)) for each in want] != [float(str(each)) for each in got]:
                    raise RuntimeError(f"rows and sums are {got}, expected {want}")
                return sample(done, size, None)

            return measure

        yield Variant("Headwater, SQLite", measured("sqlite", _read_sqlite), rounds=1)
        yield Variant("Headwater, DuckDB", measured("duckdb", _read_duckdb), rounds=1)


def _read_sqlite(file: Path, select: str) -> Sequence[object]:
    with closing(sqlite3.connect(file)) as connection:
        found: Sequence[object] = connection.execute(select).fetchone()
        return found


def _read_duckdb(file: Path, select: str) -> Sequence[object]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(select).fetchone() or ()


TARGETS = (
    Target(HEADWATER, JDBC, 4, "at least"),
    Target(HEADWATER, REWRITE, 2, "at least"),
    Target(HEADWATER, COPY, 0.65, "at least"),
)
NOTES: Mapping[str, str] = {
    APPEND: "A table without an index.",
    UPSERT: (
        "Half of the rows replace rows of the table, which has a primary key. The peers load their rows into an "
        "unlogged table, and apply them with INSERT … ON CONFLICT."
    ),
}


def with_jdbc() -> Settings:
    """The settings of Headwater, with PostgreSQL's JDBC driver on the class path."""
    try:
        jar = class_path(declared()["adbc"]).removeprefix("file://")
    except SetupError as error:
        raise Unavailable(str(error)) from error
    same = settings(SAME)
    jars = ",".join(filter(None, (same.conf.get("spark.jars", ""), jar)))
    return Settings({**same.conf, "spark.jars": jars}, same.environ)


def with_workers() -> Settings:
    """The settings of Headwater, with its Python for the workers."""
    same = settings(SAME)
    return Settings(same.conf, {**same.environ, "PYSPARK_PYTHON": sys.executable})


def adbc_packages() -> str:
    """The directory with the packages of ADBC."""
    try:
        home = ready("adbc").home
    except PeerUnavailableError as error:
        raise Unavailable(str(error)) from error
    (found,) = home.glob("lib/python*/site-packages")
    return str(found)


BENCHMARK = Databases()
