"""A run with something of everything: a Kafka query, a file query and a failed one, as their events tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors.catalogue.running import CONNECTION_FAILED
from headwater.events import (
    Alert,
    BacklogChanged,
    EventsDropped,
    InputsIdle,
    QueryDetails,
    QueryIdle,
    QueryProgress,
    QueryRestarted,
    QueryRestarting,
    QueryStarted,
    QueryStatus,
    QueryTerminated,
    RunStarted,
)
from headwater.events.status import RunView

AT = "2026-01-31T12:00:00.000Z"
AT_SECONDS = 1769860800.0
QUERIES = ("clicks", "files", "lost")


def offsets(*rows: int) -> dict[str, dict[str, int]]:
    """Offsets of a topic, by partition."""
    return {"clicks": {str(partition): each for partition, each in enumerate(rows)}}


def progress(query: str, batch: int, **more: Any) -> QueryProgress:
    """A batch of 100 rows that took 250 ms."""
    reported = {
        "batchId": batch,
        "timestamp": AT,
        "batchDuration": 250,
        "durationMs": {"addBatch": 200, "walCommit": 20, "triggerExecution": 250},
        "numInputRows": 100,
        "inputRowsPerSecond": 50.0,
        "processedRowsPerSecond": 400.0,
        "sources": [],
        **more,
    }
    return QueryProgress(at=AT, query=query, rows_out=90, progress=reported)


def kafka_progress(batch: int, latest: Mapping[str, Any] | None = None) -> QueryProgress:
    """A batch of a join and an aggregation over two partitions, the second 40 rows behind."""
    source = {
        "description": "KafkaV2[Subscribe[clicks]]",
        "startOffset": offsets(0, 0),
        "endOffset": offsets(50, 60),
        "latestOffset": latest or offsets(50, 100),
        "numInputRows": 100,
    }
    operators = [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 7,
            "memoryUsedBytes": 700,
            "numRowsDroppedByWatermark": 2,
        },
        {"operatorName": "symmetricHashJoin", "numRowsTotal": 9, "memoryUsedBytes": 900},
    ]
    return progress(
        "clicks",
        batch,
        sources=[source],
        stateOperators=operators,
        eventTime={"watermark": AT, "max": AT, "min": AT, "avg": AT},
        observedMetrics={
            "headwater.rows.clicks": {"read": 100, "bad": 10},
            "headwater.expect.priced": {"all rows": 90, "paid": 5},
        },
    )


def run_view() -> RunView:
    """The run after two batches of one query and one of another; the third query has failed."""
    view = RunView()
    kafka = QueryDetails(connector="kafka", interval_ms=10_000, sources=("clicks",))
    view.apply(
        RunStarted(
            at=AT,
            run_id="1",
            pipeline="shop",
            queries=QUERIES,
            run_dir="/project/.headwater",
            spark_version="4.1.4",
            details={"clicks": kafka},
        )
    )
    for query in QUERIES:
        view.apply(QueryStarted(at=AT, query=query, id=f"{query}-id", run_id="1"))
    problem = CONNECTION_FAILED.at(None, sink="lost", says="refused", error="refused")
    events = (
        kafka_progress(0),
        kafka_progress(1),
        InputsIdle(query="clicks", idle_inputs=({"sources": ["clicks"]},)),
        Alert(
            at=AT,
            query="clicks",
            alert="falling_behind",
            severity="warning",
            active=True,
            code="HW-X",
            message="Behind.",
        ),
        QueryRestarting(at=AT, query="files", attempt=1, attempts=10, delay_ms=1000, problem=problem),
        QueryRestarted(at=AT, query="files", restarts=1),
        progress("files", 0),
        BacklogChanged(query="files", files={"/project/in": 12}),
        QueryIdle(at=AT, query="files"),
        QueryTerminated(at=AT, query="lost", status=QueryStatus.FAILED, problem=problem),
        EventsDropped(consumer="history", dropped=3),
    )
    for event in events:
        view.apply(event)
    return view
