"""Payments: lines of text that are validated, and a ledger in SQLite that takes each batch once."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from headwater.checkpoint import Read
from headwater.connectors import Connector, Context, Sink, Source
from headwater.connectors.contract import DETAIL, REASON, ROW, BatchContext, Reason, RowPlace, row_sql
from headwater.errors import Entry, PipelineError
from headwater.spec import Delivery, Schema, SinkOptions, SourceOptions
from headwater.spec.paths import ProjectPath
from headwater.values import BadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

JAR = Path(__file__).with_name("ledger.jar")
DIES = "LEDGER_DIES"
"""A variable of the environment for tests: the process dies when the ledger has a batch."""
SUPERSEDED = Entry(
    "The ledger {path} was taken over by a newer run.",
    "Stop this run, and let the newer one work.",
    code="LEDGER-SUPERSEDED",
)


class LedgerSource(SourceOptions):
    """Files of lines such as `17,12.50` that appear in a folder: an id and an amount."""

    path: ProjectPath = Field(description="The folder; relative to the pipeline file.")


class LedgerReader(Source[LedgerSource]):
    """Reads lines with Spark's own source, and parses amounts with a class of the package's jar."""

    options = LedgerSource
    replayable = True
    validity_keys = ()

    def places(self, options: LedgerSource) -> tuple[str, ...]:
        return (options.path,)

    def columns(self, options: LedgerSource) -> Schema:
        return Schema.of("id int, cents bigint")

    def jars(self, options: LedgerSource) -> tuple[str, ...]:
        return (str(JAR),)

    def spark_settings(self, options: LedgerSource) -> Mapping[str, str]:
        return {"spark.sql.extensions": "example.ledger.Extensions"}

    def validates(self, options: LedgerSource, bad_rows: BadRows) -> bool:
        return True

    def read_validated(
        self,
        spark: SparkSession,
        options: LedgerSource,
        context: Context,
        *,
        max_row_bytes: int | None,
        replayed: Callable[[], DataFrame] | None,
    ) -> DataFrame:
        reader = spark.read if context.batch else spark.readStream
        read = reader.format("text").load(options.path)
        lines = read.selectExpr(
            "value AS line", "regexp_replace(_metadata.file_path, '^file:/+', '/') AS file"
        )
        if replayed is not None:
            lines = lines.unionByName(replayed().selectExpr("string(row.value) AS line", "row.file AS file"))
        spark.udf.registerJavaFunction("ledger_cents", "example.ledger.Cents", "bigint")
        limit = max_row_bytes if max_row_bytes is not None else 2**31 - 1
        return lines.selectExpr(
            "line",
            "file",
            "try_cast(split_part(line, ',', 1) AS int) AS id",
            "ledger_cents(split_part(line, ',', 2)) AS cents",
        ).selectExpr(
            "id",
            "cents",
            f"CASE WHEN octet_length(line) > {limit} THEN '{Reason.TOO_LARGE}' "
            f"WHEN id IS NULL OR cents IS NULL THEN '{Reason.MALFORMED}' END AS {REASON}",
            f"IF(id IS NULL OR cents IS NULL, 'no id and amount', NULL) AS {DETAIL}",
            f"{row_sql(file='file', value='line')} AS {ROW}",
        )

    def has_read(self, read: Read, row: RowPlace) -> bool:
        return row.file in read.files


class LedgerSink(SinkOptions):
    """A SQLite database with the payments, and the batches that they came with."""

    path: ProjectPath = Field(description="The file of the database; relative to the pipeline file.")


class LedgerWriter(Sink[LedgerSink]):
    """Enters each batch in one transaction; one that is there is passed over, and an old run is refused."""

    options = LedgerSink
    modes = frozenset({"append"})
    delivery = Delivery.IDEMPOTENT
    stores = True
    on_driver = True
    fixed_keys = ("path",)

    def places(self, options: LedgerSink) -> tuple[str, ...]:
        return (options.path,)

    def write_stream(
        self, writer: DataStreamWriter, options: LedgerSink, context: Context
    ) -> DataStreamWriter:
        def write(rows: DataFrame, batch_id: int) -> None:
            enter(options.path, rows, context.of_batch(batch_id))
            if DIES in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)

        return writer.foreachBatch(write)

    def write_batch(self, rows: DataFrame, options: LedgerSink, context: Context) -> None:
        enter(options.path, rows, BatchContext(context.name, "batch run", 0, 0))


def enter(path: str, rows: DataFrame, batch: BatchContext) -> None:
    """Enter a batch, unless the ledger has it."""
    payments = [(row["id"], row["cents"]) for row in rows.collect()]
    with closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.execute("BEGIN IMMEDIATE")
        ledger.execute("CREATE TABLE IF NOT EXISTS payments (id INT, cents INT)")
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS batches "
            "(query TEXT, batch INT, epoch INT, PRIMARY KEY (query, batch))"
        )
        (newest,) = ledger.execute("SELECT coalesce(max(epoch), 0) FROM batches").fetchone()
        if newest > batch.epoch:
            raise PipelineError(SUPERSEDED.at(None, path=path))
        entered = ledger.execute(
            "INSERT OR IGNORE INTO batches VALUES (?, ?, ?)", (batch.query_id, batch.batch_id, batch.epoch)
        )
        if entered.rowcount:
            ledger.executemany("INSERT INTO payments VALUES (?, ?)", payments)


CONNECTOR = Connector(
    "ledger",
    "Payments in lines of text, and a ledger in SQLite.",
    source=LedgerReader(),
    sink=LedgerWriter(),
)
