"""The Spark settings of `spark_metrics`: which of Spark's own metrics go where. Imports no PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.errors import Problem, SetupError
from headwater.errors.catalogue.environment import METRICS_DIR_UNWRITABLE
from headwater.errors.catalogue.running import SETTING_TOO_LATE
from headwater.run_directory import RunDirectory
from headwater.spec import PipelineSpec
from headwater.values import Duration

METRICS_ENABLED = "spark.sql.streaming.metricsEnabled"
"""Whether queries report metrics; a setting of a session."""
_NAMESPACE = "spark.metrics.namespace"
_UI = "spark.ui.enabled"
_NAMES = {
    "csv": ("csv", "CsvSink"),
    "jmx": ("jmx", "JmxSink"),
    "graphite": ("graphite", "GraphiteSink"),
    # Spark's UI finds it by this name.
    "prometheus": ("prometheusServlet", "PrometheusServlet"),
}
"""Spark's name and class of each sink."""
_EVERY, _DRIVER = "*", "driver"


def metrics_settings(spec: PipelineSpec) -> dict[str, str]:
    """The settings that switch the metrics on; those of the user take precedence over them."""
    wanted = spec.spark_metrics
    if wanted is None:
        return {}
    # Without a name, Spark uses the ID of the application, which is new at each start.
    settings = {METRICS_ENABLED: "true", _NAMESPACE: spec.name}
    if wanted.csv is not None:
        # Only of the driver: executors on other machines would write to their own disks.
        settings |= _sink("csv", _DRIVER, directory=str(csv_directory(spec)), **_period(wanted.csv.period))
    if wanted.jmx is not None:
        settings |= _sink("jmx", _EVERY)
    if wanted.graphite is not None:
        sink = wanted.graphite
        settings |= _sink("graphite", _EVERY, host=sink.host, port=str(sink.port), **_period(sink.period))
    if wanted.prometheus is not None:
        # A page of Spark's UI, which is off by default.
        settings |= {**_sink("prometheus", _DRIVER, path="/metrics/prometheus"), _UI: "true"}
    return settings


def _sink(name: str, instance: str, **keys: str) -> dict[str, str]:
    found = {"class": f"org.apache.spark.metrics.sink.{_NAMES[name][1]}", **keys}
    return {f"{_prefix(name, instance)}{key}": value for key, value in found.items()}


def _prefix(name: str, instance: str) -> str:
    return f"spark.metrics.conf.{instance}.sink.{_NAMES[name][0]}."


def _period(period: Duration) -> dict[str, str]:
    return {"period": str(period.milliseconds), "unit": "milliseconds"}


def csv_directory(spec: PipelineSpec) -> Path:
    """The directory of the CSV files."""
    written = spec.spark_metrics and spec.spark_metrics.csv and spec.spark_metrics.csv.directory
    return Path(written) if written else RunDirectory(spec.run_dir).spark_metrics


def create_csv_directory(spec: PipelineSpec) -> None:
    """Create the directory of the CSV files: Spark only logs that it is missing."""
    if spec.spark_metrics is None or spec.spark_metrics.csv is None:
        return
    directory = csv_directory(spec)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        problem = METRICS_DIR_UNWRITABLE.at(spec.at("spark_metrics"), path=str(directory), reason=reason)
        raise SetupError(problem) from error


def late_metrics(spec: PipelineSpec, running: Mapping[str, str]) -> list[Problem]:
    """Sinks that a Spark that was started elsewhere lacks; they start with Spark only."""
    sinks = spec.spark_metrics.sinks if spec.spark_metrics else ()
    return [
        SETTING_TOO_LATE.at(spec.at("spark_metrics"), key="spark_metrics", value=sink, now="unset")
        for sink in sinks
        if not any(f"{_prefix(sink, instance)}class" in running for instance in (_EVERY, _DRIVER))
    ]
