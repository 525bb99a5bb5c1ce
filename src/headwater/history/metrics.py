"""The metrics of a run for Prometheus, read from its status when they are requested.

`FAMILIES` describes every metric; the reference page is generated from it. Labels are bounded: their values come
from the declared pipeline, from Spark's fixed names, or from a limited number of partitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import islice
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.events.counts import operator_labels
from headwater.events.kinds import QueryStatus
from headwater.events.status import QueryView, RunView

MAX_PARTITIONS = 100
"""How many partitions of a source have their own series; the rest share one."""
OTHER = "other"
"""The label of the partitions that share a series."""

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value of the metric."""


@dataclass(frozen=True)
class Family:
    """One metric: its name, type and labels, and how its samples are read from a run."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    help: str
    labels: tuple[str, ...]
    read: Callable[[RunView], Iterable[Sample]]
    """The samples of a run; of a summary, its sum, with the count in `count`."""
    count: Callable[[RunView], Iterable[Sample]] | None = None

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        return (f"{self.name}_count", f"{self.name}_sum") if self.kind == "summary" else (self.name,)


class RunCollector(Collector):
    """Reads the metrics of several runs."""

    def __init__(self, views: Callable[[], Sequence[RunView]]) -> None:
        self._views = views

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        # Prometheus rejects two samples with equal labels; these are updated instead.
        samples: list[dict[tuple[str, ...], float]] = [{} for _ in FAMILIES]
        counts: list[dict[tuple[str, ...], float]] = [{} for _ in FAMILIES]
        for view in self._views():
            # All values of a run are of the same moment.
            with view.turn:
                for number, family in enumerate(FAMILIES if view.started_at else ()):
                    samples[number].update(family.read(view))
                    counts[number].update(family.count(view) if family.count else ())
        return map(_metric, FAMILIES, samples, counts)


def _metric(
    family: Family, samples: Mapping[tuple[str, ...], float], counts: Mapping[tuple[str, ...], float]
) -> Metric:
    if family.kind == "summary":
        summary = SummaryMetricFamily(family.name, family.help, labels=family.labels)
        for labels, total in samples.items():
            summary.add_metric(labels, count_value=int(counts[labels]), sum_value=total)
        return summary
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = make(family.name, family.help, labels=family.labels)
    for labels, value in samples.items():
        metric.add_metric(labels, value)
    return metric


# How samples are read from a run and its queries.


def _of_queries(read: Callable[[QueryView], Iterable[Sample]]) -> Callable[[RunView], Iterable[Sample]]:
    """Samples of each query; the labels start with the pipeline and the query."""

    def read_all(view: RunView) -> Iterator[Sample]:
        for query in view.queries.values():
            for labels, value in read(query):
                yield (view.pipeline, query.name, *labels), value

    return read_all


def _one(value: Callable[[QueryView], float | None]) -> Callable[[RunView], Iterable[Sample]]:
    """One sample for each query that has the value."""
    return _of_queries(lambda query: [((), found)] if (found := value(query)) is not None else [])


def _counted(name: str) -> Callable[[RunView], Iterable[Sample]]:
    """A count of batches; Spark reports only the number of the epoch for a continuous query."""
    return _one(lambda query: getattr(query, name) if query.batches or query.batch is None else None)


def _status(query: QueryView) -> Iterator[Sample]:
    return (((status.value,), float(query.status is status)) for status in QueryStatus)


def _phases(query: QueryView) -> Iterator[Sample]:
    phases = query.last_batch.phases_ms if query.last_batch else {}
    return (((phase,), ms / 1000) for phase, ms in phases.items())


def _of_last_batch(name: str, scale: float = 1.0) -> Callable[[RunView], Iterable[Sample]]:
    def read(query: QueryView) -> float | None:
        found = getattr(query.last_batch, name, None)
        return None if found is None else found * scale

    return _one(read)


def _lag(query: QueryView) -> Iterator[Sample]:
    for source in query.sources:
        # The same partitions have their own series at each request.
        ordered = iter(sorted(source.lag.items(), key=lambda each: _natural(each[0])))
        single = MAX_PARTITIONS if len(source.lag) <= MAX_PARTITIONS else MAX_PARTITIONS - 1
        yield from (((source.name, partition), rows) for partition, rows in islice(ordered, single))
        rest = [rows for _, rows in ordered]
        if rest:
            yield (source.name, OTHER), sum(rest)


def _natural(text: str) -> list[tuple[int, str]]:
    """An order in which `orders-2` precedes `orders-10`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]


def _state(name: str) -> Callable[[RunView], Iterable[Sample]]:
    def read(query: QueryView) -> Iterator[Sample]:
        operators = query.state[::-1]
        labels = operator_labels(each.operator for each in operators)
        return (((label,), getattr(each, name)) for label, each in zip(labels, operators, strict=True))

    return _of_queries(read)


def _alerts(query: QueryView) -> Iterator[Sample]:
    return (((alert.alert, alert.severity), 1.0) for alert in query.alerts.values())


def _violations(query: QueryView) -> Iterator[Sample]:
    for table, counts in query.expectations.items():
        yield from (((table, name), rows) for name, rows in counts.failed.items())


def _seconds(time: str | None) -> float | None:
    """A time of an event or of Spark, in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp() if time else None


def _event_times(query: QueryView) -> Iterator[Sample]:
    return (((name,), seconds) for name, time in query.event_time.items() if (seconds := _seconds(time)))


def _interval(query: QueryView) -> float | None:
    milliseconds = query.details.interval_ms
    return None if milliseconds is None else milliseconds / 1000


def _build(view: RunView) -> list[Sample]:
    return [((version("headwater"), view.spark_version), 1.0)]


# Every metric, in the order of the reference page.

_PIPELINE = ("pipeline",)
_QUERY = (*_PIPELINE, "query")
_SOURCE = (*_QUERY, "source")
_OPERATOR = (*_QUERY, "operator")


def _counter(name: str, help: str, labels: tuple[str, ...], read: Any) -> Family:
    return Family(f"headwater_{name}_total", "counter", help, labels, read)


def _gauge(name: str, help: str, labels: tuple[str, ...], read: Any) -> Family:
    return Family(f"headwater_{name}", "gauge", help, labels, read)


FAMILIES = (
    _gauge("build_info", "Versions of Headwater and Spark. Always 1.", ("version", "spark_version"), _build),
    _gauge(
        "run_start_time_seconds",
        "Start of the run, in seconds since 1970.",
        _PIPELINE,
        lambda view: [((view.pipeline,), _seconds(view.started_at))],
    ),
    _gauge(
        "run_exit_code",
        "Exit code of a run that has ended: 0 if it succeeded. Its series stay until the last run of the process ends.",
        _PIPELINE,
        lambda view: [] if view.exit_code is None else [((view.pipeline,), view.exit_code)],
    ),
    _counter(
        "events_dropped",
        "Events that a consumer missed: its queue was full, or it could not write or send them.",
        (*_PIPELINE, "consumer"),
        lambda view: [((view.pipeline, consumer), count) for consumer, count in view.dropped.items()],
    ),
    _gauge(
        "query_status",
        "Status of the query: 1 for the current status, 0 for all others.",
        (*_QUERY, "status"),
        _of_queries(_status),
    ),
    _counter("query_restarts", "Restarts of the query.", _QUERY, _one(lambda query: query.restarts)),
    _gauge(
        "query_last_failure_timestamp_seconds",
        "Time of the last failure, in seconds since 1970.",
        _QUERY,
        _one(lambda query: _seconds(query.failed_at)),
    ),
    _gauge(
        "alert_active",
        "Alerts of `headwater status` that are active. Always 1.",
        (*_QUERY, "alert", "severity"),
        _of_queries(_alerts),
    ),
    _counter("query_batches", "Committed batches.", _QUERY, _counted("batches")),
    _counter("query_rows_in", "Rows read by committed batches.", _QUERY, _counted("rows_in")),
    _counter("query_rows_out", "Rows written by committed batches.", _QUERY, _counted("rows_out")),
    Family(
        "headwater_query_batch_duration_seconds",
        "summary",
        "Durations of committed batches.",
        _QUERY,
        _one(lambda query: query.batch_ms / 1000),
        _one(lambda query: query.batches),
    ),
    _gauge(
        "query_last_batch_timestamp_seconds",
        "Start of the last batch, in seconds since 1970.",
        _QUERY,
        _one(lambda query: _seconds(query.last_batch.at) if query.last_batch else None),
    ),
    _gauge(
        "query_last_batch_duration_seconds",
        "Duration of the last batch.",
        _QUERY,
        _of_last_batch("duration_ms", 0.001),
    ),
    _gauge(
        "query_last_batch_phase_seconds",
        "Duration of each phase of the last batch, by Spark's name of the phase.",
        (*_QUERY, "phase"),
        _of_queries(_phases),
    ),
    _gauge(
        "query_trigger_interval_seconds", "Interval of the trigger, if it has one.", _QUERY, _one(_interval)
    ),
    _gauge(
        "query_input_rows_per_second",
        "Rate at which rows arrived before the last batch.",
        _QUERY,
        _of_last_batch("rows_in_per_second"),
    ),
    _gauge(
        "query_processed_rows_per_second",
        "Rate at which the last batch processed rows.",
        _QUERY,
        _of_last_batch("rows_processed_per_second"),
    ),
    _gauge(
        "query_watermark_timestamp_seconds",
        "Watermark of the query, in seconds since 1970.",
        _QUERY,
        _one(lambda query: _seconds(query.watermark)),
    ),
    _gauge(
        "query_event_time_seconds",
        "Event times of the last batch, in seconds since 1970: `min`, `avg` and `max`.",
        (*_QUERY, "statistic"),
        _of_queries(_event_times),
    ),
    _gauge(
        "query_idle_inputs",
        "Idle inputs that block the watermark.",
        _QUERY,
        _one(lambda query: len(query.idle_inputs)),
    ),
    _gauge(
        "source_lag_rows",
        f"Rows behind the newest offset, by partition. A source has at most {MAX_PARTITIONS} series: "
        f"further partitions are added up in `{OTHER}`.",
        (*_SOURCE, "partition"),
        _of_queries(_lag),
    ),
    _gauge(
        "source_waiting_files",
        "Files that were listed and not read, by path of the source.",
        (*_QUERY, "path"),
        _of_queries(lambda query: (((path,), count) for path, count in query.waiting_files.items())),
    ),
    _counter(
        "source_rows",
        "Rows of sources that detect bad rows, good and bad.",
        _SOURCE,
        _of_queries(lambda query: (((name,), each.read) for name, each in query.row_counts.items())),
    ),
    _counter(
        "source_bad_rows",
        "Bad rows.",
        _SOURCE,
        _of_queries(lambda query: (((name,), each.bad) for name, each in query.row_counts.items())),
    ),
    _gauge("state_rows", "Rows in the state of a stateful operator.", _OPERATOR, _state("rows")),
    _gauge("state_bytes", "Memory that the state of a stateful operator uses.", _OPERATOR, _state("bytes")),
    _counter(
        "late_rows",
        "Rows that a stateful operator dropped behind the watermark.",
        _OPERATOR,
        _of_queries(lambda query: (((name,), rows) for name, rows in query.late_rows.items())),
    ),
    _counter(
        "expectation_rows",
        "Rows that were checked against the expectations of a table.",
        (*_QUERY, "table"),
        _of_queries(lambda query: (((name,), each.rows) for name, each in query.expectations.items())),
    ),
    _counter(
        "expectation_violations",
        "Rows that violated an expectation.",
        (*_QUERY, "table", "expectation"),
        _of_queries(_violations),
    ),
)
