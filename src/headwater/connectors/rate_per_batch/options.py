"""What can be said about the rate-per-batch source."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field

from headwater.spec import Connector, Schema, SourceOptions, SourceSide
from headwater.values import Duration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def _columns(_: RatePerBatchSource) -> Schema:
    return Schema.of("timestamp timestamp, value bigint")


CONNECTOR = Connector(
    name="rate_per_batch",
    summary="A fixed number of rows in each batch, with event time that moves by a fixed step.",
    spark="headwater.connectors.rate_per_batch.spark",
    source=SourceSide(options=RatePerBatchSource, replayable=True, batch=False, columns=_columns),
)
