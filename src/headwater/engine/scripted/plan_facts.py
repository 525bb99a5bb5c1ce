"""What the analysed plan of a scripted query tells: its event times, and whether it looks at the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headwater.engine.inputs import analysed, kind_of, nodes_of
from headwater.events.idle import QueryInputs


@dataclass(frozen=True)
class EventTime:
    """A watermark in a plan."""

    column: str
    delay_ms: int
    sources: tuple[str, ...]
    """The sources whose rows pass it."""


def event_times(frame: DataFrame, inputs: QueryInputs) -> tuple[EventTime, ...]:
    """The watermarks of a query."""
    jvm: Any = frame.sparkSession._jvm
    kind = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    return tuple(
        EventTime(
            str(node.eventTime().name()),
            int(kind.getDelayMs(node.delay())),
            inputs.watermarks[str(node.nodeId())],
        )
        for node in nodes_of(analysed(frame))
        if kind_of(node) == "EventTimeWatermark"
    )


def looks_at_the_clock(frame: DataFrame) -> bool:
    """Whether state times out by processing time: Spark then makes a batch at every trigger."""
    return any(_timing(node).startswith("ProcessingTime") for node in nodes_of(analysed(frame)))


def _timing(node: Any) -> str:
    match kind_of(node):
        case "FlatMapGroupsInPandasWithState":
            return str(node.timeout())
        case "TransformWithStateInPySpark":
            return str(node.timeMode())
        case _:
            return ""
