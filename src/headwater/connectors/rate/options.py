"""What can be said about the rate source."""

from __future__ import annotations

from pydantic import Field, field_validator

from headwater.spec import Connector, LongTasks, Schema, SourceOptions, SourceSide
from headwater.values import Duration


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


def _columns(_: RateSource) -> Schema:
    return Schema.of("timestamp timestamp, value bigint")


def _slots(options: RateSource, cores: int) -> int:
    # Spark makes as many partitions as there are cores, unless told; `options` has the last word.
    given = {key.lower(): str(value) for key, value in options.options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else options.partitions or cores


CONNECTOR = Connector(
    name="rate",
    summary="So many rows per second, made by a clock; for trying things out.",
    spark="headwater.connectors.rate.spark",
    source=SourceSide(
        options=RateSource,
        replayable=True,
        batch=False,
        columns=_columns,
        made_while_running=True,
        continuous=LongTasks(_slots, without=("ramp_up", "rampUpTime")),
    ),
)
