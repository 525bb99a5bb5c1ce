"""Where Spark's own metrics go: `spark_metrics: csv`, or `spark_metrics: {csv: {directory: metrics/}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from headwater.spec.connector import Declared
from headwater.spec.paths import ProjectPath, is_uri
from headwater.values import Duration

_SINKS = ("csv", "jmx", "graphite", "prometheus")
_SHORTEST = Duration.parse("1 second")


def _long_enough(period: Duration) -> Duration:
    if period < _SHORTEST:
        raise ValueError(f"`{period}` is too short; write at least `1 second`")
    return period


def _local(path: str) -> str:
    if is_uri(path):
        raise ValueError("expected a local directory; write a path relative to the pipeline file")
    return path


Period = Annotated[Duration, AfterValidator(_long_enough)]
_PERIOD = Duration.parse("10 seconds")


class CsvMetrics(Declared):
    """One file per metric; each period appends a line."""

    directory: Annotated[ProjectPath, AfterValidator(_local)] | None = Field(
        default=None,
        description="The directory of the files. Relative to the pipeline file. Default: `spark_metrics` in the run "
        "directory.",
    )
    period: Period = Field(default=_PERIOD, description="How often to write, at least `1 second`.")


class GraphiteMetrics(Declared):
    """Sent to a Graphite server over TCP."""

    host: str = Field(default="localhost", min_length=1, description="The host of the Graphite server.")
    port: int = Field(default=2003, ge=1, le=65535, description="Its port for the plaintext protocol.")
    period: Period = Field(default=_PERIOD, description="How often to send, at least `1 second`.")


class NoKeys(Declared):
    """A sink without keys."""


class SparkMetrics(Declared):
    """The sinks of Spark's own metrics."""

    csv: CsvMetrics | None = None
    jmx: NoKeys | None = None
    graphite: GraphiteMetrics | None = None
    prometheus: NoKeys | None = None

    @model_validator(mode="after")
    def _some(self) -> SparkMetrics:
        if not self.sinks:
            raise ValueError("no sink; write one of `csv`, `jmx`, `graphite` and `prometheus`")
        return self

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of the sinks that are on."""
        return tuple(name for name in _SINKS if getattr(self, name) is not None)


def _spark_metrics(written: object) -> object:
    """`csv` is `{csv: {}}`."""
    if isinstance(written, str):
        if written not in _SINKS:
            raise ValueError(
                f"`{written}` is not a sink of Spark; write one of `csv`, `jmx`, `graphite` and `prometheus`"
            )
        return {written: {}}
    if isinstance(written, SparkMetrics | Mapping | None):
        return written
    raise ValueError("expected a sink; write one of `csv`, `jmx`, `graphite` and `prometheus`")


def _json_schema() -> dict[str, Any]:
    duration = {"type": "string", "examples": [str(_PERIOD)]}
    keys = {
        "csv": {"directory": {"type": "string"}, "period": duration},
        "jmx": {},
        "graphite": {
            "host": {"type": "string", "minLength": 1},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "period": duration,
        },
        "prometheus": {},
    }
    sinks = {
        name: {"type": "object", "properties": inner, "additionalProperties": False}
        for name, inner in keys.items()
    }
    sink_keys = {"type": "object", "properties": sinks, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [{"type": "string", "enum": list(_SINKS)}, sink_keys]}


SparkMetricsField = Annotated[
    SparkMetrics | None, BeforeValidator(_spark_metrics), WithJsonSchema(_json_schema())
]
"""The word of a sink, or the sinks with their keys."""
