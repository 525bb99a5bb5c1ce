"""The settings that `spark_metrics` adds, and how they meet those of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine import launch as launching
from headwater.engine.launch import launch_spark
from headwater.engine.spark_metrics import create_csv_directory, late_metrics, metrics_settings
from headwater.errors import SetupError
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of

SINK = "org.apache.spark.metrics.sink"
SWITCH = {"spark.sql.streaming.metricsEnabled": "true", "spark.metrics.namespace": "shop"}


def spec(written: str, root: Path = Path("/project"), more: str = "") -> PipelineSpec:
    return spec_of(
        f"""
        name: shop
        spark_metrics: {written}
        {more}
        sources:
          ticks: {{connector: rate}}
        sinks:
          out: {{reads: ticks, connector: noop}}
        """,
        root,
    )


def test_the_settings_of_each_sink() -> None:
    csv = "spark.metrics.conf.driver.sink.csv."
    assert metrics_settings(spec("csv")) == {
        **SWITCH,
        f"{csv}class": f"{SINK}.CsvSink",
        f"{csv}directory": "/project/.headwater/spark_metrics",
        f"{csv}period": "10000",
        f"{csv}unit": "milliseconds",
    }
    assert metrics_settings(spec("jmx")) == {
        **SWITCH,
        "spark.metrics.conf.*.sink.jmx.class": f"{SINK}.JmxSink",
    }
    graphite = "spark.metrics.conf.*.sink.graphite."
    assert metrics_settings(spec("{graphite: {host: example.org, period: 1.5s}}")) == {
        **SWITCH,
        f"{graphite}class": f"{SINK}.GraphiteSink",
        f"{graphite}host": "example.org",
        f"{graphite}port": "2003",
        f"{graphite}period": "1500",
        f"{graphite}unit": "milliseconds",
    }
    servlet = "spark.metrics.conf.driver.sink.prometheusServlet."
    assert metrics_settings(spec("prometheus")) == {
        **SWITCH,
        f"{servlet}class": f"{SINK}.PrometheusServlet",
        f"{servlet}path": "/metrics/prometheus",
        "spark.ui.enabled": "true",
    }


def test_the_users_own_settings_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launching, "has_jvm", lambda: True)
    own = "spark: {spark.metrics.conf.driver.sink.csv.period: 3, spark.metrics.namespace: mine}"
    measured = spec("csv", tmp_path, own)

    def settings(metrics: bool) -> dict[str, str]:
        launched = launch_spark(measured, stdout=lambda line: None, metrics=metrics)
        return {key: value for key, value in launched.settings.items() if "metrics" in key}

    with_metrics = settings(True)
    assert with_metrics["spark.metrics.conf.driver.sink.csv.period"] == "3"
    assert with_metrics["spark.metrics.conf.driver.sink.csv.unit"] == "milliseconds"
    assert with_metrics["spark.metrics.namespace"] == "mine"
    # A check, a test and a batch have no queries to measure.
    assert settings(False) == {
        "spark.metrics.conf.driver.sink.csv.period": "3",
        "spark.metrics.namespace": "mine",
    }


def test_the_directory_is_created(tmp_path: Path) -> None:
    create_csv_directory(spec("jmx", tmp_path))
    assert list(tmp_path.iterdir()) == []
    create_csv_directory(spec("csv", tmp_path))
    create_csv_directory(spec("{csv: {directory: a/b}}", tmp_path))
    create_csv_directory(spec("{csv: {directory: a/b}}", tmp_path))
    assert (tmp_path / ".headwater" / "spark_metrics").is_dir()
    assert (tmp_path / "a" / "b").is_dir()


def test_a_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(SetupError) as error:
        create_csv_directory(spec("{csv: {directory: a/b}}", tmp_path))
    (problem,) = error.value.problems
    assert problem.code == "HW-METRICS-DIR-UNWRITABLE"
    assert problem.params == {"path": str(tmp_path / "a" / "b"), "reason": "Not a directory"}
    assert problem.place is not None
    assert problem.place.line == 2


def test_a_running_spark_needs_the_sinks() -> None:
    both = spec("{csv: {}, graphite: {}}")
    running = {"spark.metrics.conf.*.sink.csv.class": f"{SINK}.CsvSink"}
    assert [problem.params["value"] for problem in late_metrics(both, running)] == ["graphite"]
    assert late_metrics(both, metrics_settings(both)) == []
    assert [problem.params["value"] for problem in late_metrics(both, {})] == ["csv", "graphite"]
