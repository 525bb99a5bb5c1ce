"""`spark_metrics` in its short and its long form."""

from __future__ import annotations

import pytest

from headwater.errors import PipelineError
from headwater.spec.spark_metrics import CsvMetrics, GraphiteMetrics, NoKeys, SparkMetrics
from headwater.values import Duration
from tests.unit.specs import spec_of

PIPELINE = """
name: shop
spark_metrics: WRITTEN
sources:
  ticks: {connector: rate}
sinks:
  out: {reads: ticks, connector: noop}
"""


def metrics_of(written: str) -> SparkMetrics | None:
    return spec_of(PIPELINE.replace("WRITTEN", written)).spark_metrics


@pytest.mark.feature("G3.2", part="forms")
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("csv", SparkMetrics(csv=CsvMetrics())),
        ("jmx", SparkMetrics(jmx=NoKeys())),
        ("graphite", SparkMetrics(graphite=GraphiteMetrics(host="localhost", port=2003))),
        ("prometheus", SparkMetrics(prometheus=NoKeys())),
        (
            "{csv: {directory: measured, period: 1 minute}}",
            SparkMetrics(csv=CsvMetrics(directory="/project/measured", period=Duration.parse("60s"))),
        ),
        (
            "{graphite: {host: example.org, port: 2004}, jmx: {}}",
            SparkMetrics(graphite=GraphiteMetrics(host="example.org", port=2004), jmx=NoKeys()),
        ),
    ],
)
def test_both_forms(written: str, expected: SparkMetrics) -> None:
    assert metrics_of(written) == expected


def test_by_default_there_are_none() -> None:
    assert spec_of(PIPELINE.replace("spark_metrics: WRITTEN", "")).spark_metrics is None


@pytest.mark.parametrize(
    ("written", "says", "hint"),
    [
        ("statsd", "`statsd` is not a sink of Spark", "Write one of `csv`"),
        ("[csv]", "expected a sink", "Write one of `csv`"),
        ("{}", "no sink", "Write one of `csv`"),
        ("{csv: {period: 10 ms}}", "`10 milliseconds` is too short", "Write at least `1 second`."),
        ('{csv: {directory: "s3://a/b"}}', "expected a local directory", "Write a path relative"),
        ("{graphite: {port: 0}}", "Expected a number of at least 1", "Correct the value."),
    ],
)
def test_what_is_wrong_is_said_at_its_line(written: str, says: str, hint: str) -> None:
    with pytest.raises(PipelineError) as error:
        metrics_of(written)
    (problem,) = error.value.problems
    assert problem.code == "HW-VALUE-INVALID"
    assert (says in problem.message, problem.hint.startswith(hint)) == (True, True), str(problem)
    assert problem.place is not None
    assert problem.place.line == 2


def test_an_unknown_key_is_reported_with_the_one_that_is_meant() -> None:
    with pytest.raises(PipelineError) as error:
        metrics_of("{csv: {perod: 1s}}")
    (problem,) = error.value.problems
    assert (problem.code, problem.hint) == ("HW-KEY-UNKNOWN", "Did you mean `period`?")


def test_prometheus_needs_the_ui_of_spark() -> None:
    with pytest.raises(PipelineError) as error:
        metrics_of("prometheus\nspark: {spark.ui.enabled: false}")
    (problem,) = error.value.problems
    assert (problem.code, problem.params["key"]) == ("HW-SPARK-SETTING-NOT-ALLOWED", "spark.ui.enabled")
    assert problem.place is not None
    assert problem.place.line == 3
    assert metrics_of("csv\nspark: {spark.ui.enabled: false}") == SparkMetrics(csv=CsvMetrics())
