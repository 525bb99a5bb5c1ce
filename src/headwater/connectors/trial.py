"""Connectors for trying things out: clocks that make rows, a socket, the terminal, a table in memory."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from headwater.connectors.connector import (
    ALL_MODES,
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
    """So many rows per second: `timestamp timestamp, value bigint`, the values 0, 1, 2 …"""

    also_called = {"numPartitions": "partitions", "rampUpTime": "ramp_up"}

    rows_per_second: int = Field(default=1, gt=0, description="Rows made in each second.")
    ramp_up: Duration | None = Field(
        default=None, description="Time to come up to the full rate, in whole seconds."
    )
    partitions: int | None = Field(default=None, gt=0, description="Partitions of each batch.")

    @field_validator("ramp_up")
    @classmethod
    def _whole_seconds(cls, ramp_up: Duration | None) -> Duration | None:
        if ramp_up and ramp_up.milliseconds % 1000:
            raise ValueError(f"`ramp_up` counts in whole seconds, not {ramp_up}")
        return ramp_up


class RateReader(Source[RateSource]):
    """Rows from Spark's own rate source."""

    options = RateSource
    replayable = True
    batch = False
    made_while_running = True
    continuous = LongTasks(without=("ramp_up", "rampUpTime"))

    def columns(self, options: RateSource) -> Schema:
        return Schema.of("timestamp timestamp, value bigint")

    def slots(self, options: RateSource, cores: int) -> int:
        return _given_partitions(options) or options.partitions or cores

    def read_stream(self, spark: SparkSession, options: RateSource, context: Context) -> DataFrame:
        reader = spark.readStream.format("rate").option("rowsPerSecond", options.rows_per_second)
        if options.ramp_up:
            reader = reader.option("rampUpTime", f"{options.ramp_up.milliseconds // 1000}s")
        if options.partitions:
            reader = reader.option("numPartitions", options.partitions)
        return reader.options(**plain(options)).load()


def _given_partitions(options: SourceOptions) -> int:
    """What `options` says: Spark makes as many partitions as there are cores, and this has the last word."""
    given = {key.lower(): str(value) for key, value in options.options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else 0


class RatePerBatchSource(SourceOptions):
    """The same number of rows in every batch: `timestamp timestamp, value bigint`."""

    also_called = {
        "advanceMillisPerBatch": "step",
        "numPartitions": "partitions",
        "startTimestamp": "start",
    }

    rows_per_batch: int = Field(gt=0, description="Rows in each batch.")
    partitions: int | None = Field(default=None, gt=0, description="Partitions of each batch.")
    start: datetime = Field(
        default=EPOCH, description="Event time of the first batch (UTC unless it says otherwise)."
    )
    step: Duration = Field(
        default=Duration(1000), description="How far event time moves from one batch to the next."
    )

    @property
    def start_ms(self) -> int:
        """The start as Spark takes it."""
        start = self.start if self.start.tzinfo else self.start.replace(tzinfo=UTC)
        return round(start.timestamp() * 1000)


class RatePerBatchReader(Source[RatePerBatchSource]):
    """Rows from Spark's own rate-micro-batch source."""

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
            .option("advanceMillisPerBatch", options.step.milliseconds)
        )
        if options.partitions:
            reader = reader.option("numPartitions", options.partitions)
        return reader.options(**plain(options)).load()


class SocketSource(SourceOptions):
    """Lines of text that a server sends: `value string`, with `arrival_time` also `timestamp timestamp`."""

    also_called = {"includeTimestamp": "arrival_time", "hostname": "host"}

    host: str = Field(min_length=1, description="The machine whose server sends the lines.")
    port: int = Field(gt=0, lt=65536, description="The port on which it listens.")
    arrival_time: bool = Field(
        default=False, description="Add a column `timestamp`: when the line came in, by this machine's clock."
    )


class SocketReader(Source[SocketSource]):
    """Lines as they come; Spark connects when the query starts, not before."""

    options = SocketSource
    replayable = False
    batch = False
    made_while_running = True
    continuous = LongTasks()

    def columns(self, options: SocketSource) -> Schema:
        return Schema.of("value string, timestamp timestamp" if options.arrival_time else "value string")

    def can_resume(self, offset: object) -> bool:
        """Spark counts the lines of one connection, and a new one begins to count anew: -1 is none yet."""
        if isinstance(offset, list):
            # Of a continuous query: the lines of each partition.
            return not any(isinstance(each, int) and each > 0 for each in offset)
        return not isinstance(offset, int) or offset < 0

    def slots(self, options: SocketSource, cores: int) -> int:
        return _given_partitions(options) or cores

    def read_stream(self, spark: SparkSession, options: SocketSource, context: Context) -> DataFrame:
        return (
            spark.readStream.format("socket")
            .option("host", options.host)
            .option("port", options.port)
            .option("includeTimestamp", options.arrival_time)
            .options(**plain(options))
            .load()
        )


class ConsoleSink(SinkOptions):
    """The rows of each batch as a table on the terminal; for trying things out."""

    also_called = {"limit": "rows", "numRows": "rows"}

    rows: int = Field(default=20, gt=0, description="Most rows shown of a batch.")
    truncate: bool = Field(default=True, description="Cut values to 20 characters.")


class ConsoleWriter(Sink[ConsoleSink]):
    """Spark's own console sink."""

    options = ConsoleSink
    modes = ALL_MODES
    temporary_checkpoint = True
    delivery = Delivery.REPEATS
    continuous = True
    real_time = True

    def write_stream(
        self, writer: DataStreamWriter, options: ConsoleSink, context: Context
    ) -> DataStreamWriter:
        return (
            writer.format("console")
            .option("numRows", options.rows)
            .option("truncate", options.truncate)
            .options(**plain(options))
        )

    def write_batch(self, rows: DataFrame, options: ConsoleSink, context: Context) -> None:
        """The rows once, as `show()` prints them."""
        from headwater.spark.frames import shown

        truncate = 20 if options.truncate else 0
        sys.stdout.write(shown(rows, options.rows, truncate) + "\n")


class MemorySink(SinkOptions):
    """A table named after the sink, kept by this process and queried with `run.sql("SELECT …")`."""

    takes_options = False


class MemoryWriter(Sink[MemorySink]):
    """Spark's own memory sink, which makes a view with the name of the query in the pipeline's session."""

    options = MemorySink
    modes = ALL_MODES
    by_writer = True
    temporary_checkpoint = True
    # The table and the checkpoint begin together, and Spark's sink passes over a batch that it has.
    delivery = Delivery.IDEMPOTENT
    batch = False
    continuous = True
    in_process = True

    def write_stream(
        self, writer: DataStreamWriter, options: MemorySink, context: Context
    ) -> DataStreamWriter:
        return writer.format("memory")


class NoopSink(SinkOptions):
    """Computes every row and keeps none; for measuring."""


class NoopWriter(Sink[NoopSink]):
    """Spark's own noop sink."""

    options = NoopSink
    modes = ALL_MODES
    temporary_checkpoint = True
    delivery = Delivery.IDEMPOTENT
    continuous = True

    def write_stream(self, writer: DataStreamWriter, options: NoopSink, context: Context) -> DataStreamWriter:
        return writer.format("noop").options(**plain(options))

    def write_batch(self, rows: DataFrame, options: NoopSink, context: Context) -> None:
        """Compute the rows and drop them."""
        rows.write.format("noop").mode("overwrite").options(**plain(options)).save()


RATE = Connector(
    "rate",
    "So many rows per second, made by a clock; for trying things out.",
    source=RateReader(),
    spark_formats=("rate",),
)
RATE_PER_BATCH = Connector(
    "rate_per_batch",
    "A fixed number of rows in each batch, with event time that moves by a fixed step.",
    source=RatePerBatchReader(),
    spark_formats=("rate-micro-batch",),
)
SOCKET = Connector(
    "socket",
    "Lines of text from a socket; for trying things out.",
    source=SocketReader(),
    spark_formats=("socket", "textsocket"),
)
CONSOLE = Connector(
    "console",
    "The rows of each batch, printed on the terminal.",
    sink=ConsoleWriter(),
    spark_formats=("console",),
)
MEMORY = Connector(
    "memory",
    "A table in the memory of this process, queried by SQL while the stream runs.",
    sink=MemoryWriter(),
    spark_formats=("memory",),
)
NOOP = Connector(
    "noop", "Computes every row and keeps none; for measuring.", sink=NoopWriter(), spark_formats=("noop",)
)


def rate(
    *,
    rows_per_second: int | None = None,
    ramp_up: str | Duration | None = None,
    partitions: int | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """So many rows per second, made by a clock."""
    return connector("rate", **locals())


def rate_per_batch(
    *,
    rows_per_batch: int,
    partitions: int | None = None,
    start: str | datetime | None = None,
    step: str | Duration | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """A fixed number of rows in each batch."""
    return connector("rate_per_batch", **locals())


def socket(
    *, host: str, port: int, arrival_time: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """Lines of text from a socket; for trying things out."""
    return connector("socket", **locals())


def console(
    *, rows: int | None = None, truncate: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """The rows of each batch, printed on the terminal."""
    return connector("console", **locals())


def noop(*, options: Options | None = None) -> ConnectorCall:
    """Compute every row and keep none."""
    return connector("noop", **locals())


def memory() -> ConnectorCall:
    """A table in the memory of this process, queried with `run.sql`."""
    return connector("memory", **locals())
