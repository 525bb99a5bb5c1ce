"""Connectors for tests and demos: generated rows, a socket, the terminal, an in-memory table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from headwater.connectors.connector import (
    ALL_MODES,
    BatchWriter,
    Connector,
    ConnectorCall,
    LongTasks,
    Options,
    Sink,
    Source,
    connector,
)
from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.spec import Delivery, Schema, SinkOptions, SourceOptions
from headwater.values import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RateSource(SourceOptions):
    """Generated rows, a fixed number per second: `timestamp timestamp, value bigint` (values 0, 1, 2, …)."""

    rows_per_second: int = Field(default=1, gt=0, description="Number of rows to generate per second.")
    ramp_up_time: Duration | None = Field(
        default=None,
        description="Time until the source reaches its full rate, in whole seconds. Default: no ramp-up.",
    )
    num_partitions: int | None = Field(
        default=None,
        gt=0,
        description="Number of Spark partitions per batch. Default: Spark's default parallelism.",
    )

    @field_validator("ramp_up_time")
    @classmethod
    def _whole_seconds(cls, ramp_up_time: Duration | None) -> Duration | None:
        if ramp_up_time and ramp_up_time.milliseconds % 1000:
            raise ValueError(
                f"expected whole seconds, got {ramp_up_time}; write a duration such as 10 seconds"
            )
        return ramp_up_time


class RateReader(Source[RateSource]):
    """Reads Spark's `rate` source."""

    options = RateSource
    replayable = True
    batch = False
    made_while_running = True
    continuous = LongTasks(without=("ramp_up_time", "rampUpTime"))

    def columns(self, options: RateSource) -> Schema:
        return Schema.of("timestamp timestamp, value bigint")

    def slots(self, options: RateSource, cores: int) -> int:
        return _given_partitions(options) or options.num_partitions or cores

    def read_stream(self, spark: SparkSession, options: RateSource, context: Context) -> DataFrame:
        reader = spark.readStream.format("rate").option("rowsPerSecond", options.rows_per_second)
        if options.ramp_up_time:
            reader = reader.option("rampUpTime", f"{options.ramp_up_time.milliseconds // 1000}s")
        if options.num_partitions:
            reader = reader.option("numPartitions", options.num_partitions)
        return reader.options(**plain(options)).load()


def _given_partitions(options: SourceOptions) -> int:
    """`numPartitions` from `options`, which overrides the key; 0 if it is not set."""
    given = {key.lower(): str(value) for key, value in options.options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else 0


class RatePerBatchSource(SourceOptions):
    """Generated rows, a fixed number per batch: `timestamp timestamp, value bigint`."""

    also_called = {"advanceMillisPerBatch": "advance_per_batch"}

    rows_per_batch: int = Field(gt=0, description="Number of rows to generate per batch.")
    num_partitions: int | None = Field(
        default=None,
        gt=0,
        description="Number of Spark partitions per batch. Default: Spark's default parallelism.",
    )
    start_timestamp: datetime = Field(
        default=EPOCH, description="Event time of the first batch, in UTC unless it has an offset."
    )
    advance_per_batch: Duration = Field(
        default=Duration(1000), description="How much event time advances from one batch to the next."
    )

    @property
    def start_ms(self) -> int:
        """The start in milliseconds since 1970, as Spark expects it."""
        start = self.start_timestamp
        known = start if start.tzinfo else start.replace(tzinfo=UTC)
        return round(known.timestamp() * 1000)


class RatePerBatchReader(Source[RatePerBatchSource]):
    """Reads Spark's `rate-micro-batch` source."""

    options = RatePerBatchSource
    replayable = True
    batch = False

    def columns(self, options: RatePerBatchSource) -> Schema:
        return Schema.of("timestamp timestamp, value bigint")

    def read_stream(self, spark: SparkSession, options: RatePerBatchSource, context: Context) -> DataFrame:
        reader = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", options.rows_per_batch)
            .option("startTimestamp", options.start_ms)
            .option("advanceMillisPerBatch", options.advance_per_batch.milliseconds)
        )
        if options.num_partitions:
            reader = reader.option("numPartitions", options.num_partitions)
        return reader.options(**plain(options)).load()


class SocketSource(SourceOptions):
    """Lines of text from a TCP server, in a column `value string`."""

    also_called = {"hostname": "host"}

    host: str = Field(min_length=1, description="Host name or IP address of the server.")
    port: int = Field(gt=0, lt=65536, description="TCP port of the server.")
    include_timestamp: bool = Field(
        default=False,
        description="Add a column `timestamp timestamp` with the time when Spark received the line.",
    )


class SocketReader(Source[SocketSource]):
    """Reads Spark's `socket` source, which connects when the query starts."""

    options = SocketSource
    replayable = False
    batch = False
    made_while_running = True
    continuous = LongTasks()

    def columns(self, options: SocketSource) -> Schema:
        return Schema.of("value string, timestamp timestamp" if options.include_timestamp else "value string")

    def can_resume(self, offset: object) -> bool:
        """Offsets count the lines of one connection, and a new connection starts at -1 (no line yet)."""
        if isinstance(offset, list):
            # A continuous query stores one offset per partition.
            return not any(isinstance(each, int) and each > 0 for each in offset)
        return not isinstance(offset, int) or offset < 0

    def slots(self, options: SocketSource, cores: int) -> int:
        return _given_partitions(options) or cores

    def read_stream(self, spark: SparkSession, options: SocketSource, context: Context) -> DataFrame:
        return (
            spark.readStream.format("socket")
            .option("host", options.host)
            .option("port", options.port)
            .option("includeTimestamp", options.include_timestamp)
            .options(**plain(options))
            .load()
        )


class ConsoleSink(SinkOptions):
    """Prints the rows of each batch to the terminal as a table."""

    also_called = {"limit": "num_rows"}

    num_rows: int = Field(default=20, gt=0, description="Maximum number of rows to print per batch.")
    truncate: bool = Field(default=True, description="Truncate values to 20 characters.")


class ConsoleWriter(Sink[ConsoleSink]):
    """Writes to Spark's `console` sink."""

    options = ConsoleSink
    modes = ALL_MODES
    temporary_checkpoint = True
    delivery = Delivery.DUPLICATES
    continuous = True
    real_time = True

    def spark_counts_rows(self, options: ConsoleSink) -> bool:
        return True

    def write_stream(
        self, writer: DataStreamWriter, options: ConsoleSink, context: Context
    ) -> DataStreamWriter:
        return (
            writer.format("console")
            .option("numRows", options.num_rows)
            .option("truncate", options.truncate)
            .options(**plain(options))
        )

    def write_batch(self, rows: DataFrame, options: ConsoleSink, context: Context) -> None:
        """Print the rows once, in the format of `show()`."""
        from headwater.spark.frames import shown

        truncate = 20 if options.truncate else 0
        sys.stdout.write(shown(rows, options.num_rows, truncate) + "\n")

    def ungrouped_keys(self, options: ConsoleSink) -> Mapping[str, str]:
        return {"options": "Headwater prints the rows of a group itself"} if options.options else {}

    def delivers_batches(self, options: ConsoleSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: ConsoleSink, context: Context) -> BatchWriter:
        """Print each batch as Spark's console sink does."""
        line = "-" * 43

        def write(rows: DataFrame, batch_id: int) -> None:
            sys.stdout.write(f"{line}\nSink: {context.name}, batch: {batch_id}\n{line}\n")
            self.write_batch(rows, options, context)
            sys.stdout.flush()

        return write


class MemorySink(SinkOptions):
    """An in-memory table with the name of the sink. Query it with `run.sql("SELECT …")`."""

    takes_options = False


class MemoryWriter(Sink[MemorySink]):
    """Writes to Spark's `memory` sink, which creates a view named after the query in the session."""

    options = MemorySink
    modes = ALL_MODES
    by_writer = True
    temporary_checkpoint = True
    # The table and the checkpoint start together, and Spark's sink skips a batch that it already has.
    delivery = Delivery.IDEMPOTENT
    batch = False
    continuous = True
    in_process = True

    def spark_counts_rows(self, options: MemorySink) -> bool:
        return True

    def write_stream(
        self, writer: DataStreamWriter, options: MemorySink, context: Context
    ) -> DataStreamWriter:
        return writer.format("memory")


class NoopSink(SinkOptions):
    """Computes every row and discards it. Use it for benchmarks."""


class NoopWriter(Sink[NoopSink]):
    """Writes to Spark's `noop` sink."""

    options = NoopSink
    modes = ALL_MODES
    temporary_checkpoint = True
    delivery = Delivery.IDEMPOTENT
    continuous = True

    def spark_counts_rows(self, options: NoopSink) -> bool:
        return True

    def write_stream(self, writer: DataStreamWriter, options: NoopSink, context: Context) -> DataStreamWriter:
        return writer.format("noop").options(**plain(options))

    def write_batch(self, rows: DataFrame, options: NoopSink, context: Context) -> None:
        """Compute the rows and discard them."""
        rows.write.format("noop").mode("overwrite").options(**plain(options)).save()

    def ungrouped_keys(self, options: NoopSink) -> Mapping[str, str]:
        return {}

    def delivers_batches(self, options: NoopSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: NoopSink, context: Context) -> BatchWriter:
        return lambda rows, batch_id: self.write_batch(rows, options, context)


RATE = Connector(
    "rate",
    "Generates a fixed number of rows per second. For tests and demos.",
    source=RateReader(),
    spark_formats=("rate",),
)
RATE_PER_BATCH = Connector(
    "rate_per_batch",
    "Generates a fixed number of rows per batch, with reproducible event times. For tests and demos.",
    source=RatePerBatchReader(),
    spark_formats=("rate-micro-batch",),
)
SOCKET = Connector(
    "socket",
    "Reads lines of text from a TCP socket. For tests and demos.",
    source=SocketReader(),
    spark_formats=("socket", "textsocket"),
)
CONSOLE = Connector(
    "console",
    "Prints the rows of each batch to the terminal.",
    sink=ConsoleWriter(),
    spark_formats=("console",),
)
MEMORY = Connector(
    "memory",
    "Stores rows in an in-memory table that you can query with SQL while the pipeline runs.",
    sink=MemoryWriter(),
    spark_formats=("memory",),
)
NOOP = Connector(
    "noop",
    "Computes every row and discards it. For benchmarks.",
    sink=NoopWriter(),
    spark_formats=("noop",),
)


def rate(
    *,
    rows_per_second: int | None = None,
    ramp_up_time: str | Duration | None = None,
    num_partitions: int | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Declare a source that generates a fixed number of rows per second."""
    return connector("rate", **locals())


def rate_per_batch(
    *,
    rows_per_batch: int,
    num_partitions: int | None = None,
    start_timestamp: str | datetime | None = None,
    advance_per_batch: str | Duration | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Declare a source that generates a fixed number of rows per batch."""
    return connector("rate_per_batch", **locals())


def socket(
    *, host: str, port: int, include_timestamp: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """Declare a source that reads lines of text from a TCP socket."""
    return connector("socket", **locals())


def console(
    *, num_rows: int | None = None, truncate: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """Declare a sink that prints the rows of each batch to the terminal."""
    return connector("console", **locals())


def noop(*, options: Options | None = None) -> ConnectorCall:
    """Declare a sink that computes every row and discards it."""
    return connector("noop", **locals())


def memory() -> ConnectorCall:
    """Declare a sink that stores rows in an in-memory table, which you query with `run.sql`."""
    return connector("memory", **locals())
