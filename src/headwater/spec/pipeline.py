"""The declared pipeline: sources, tables, sinks, functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticKnownError

from headwater.spec.alerts import Alerts
from headwater.spec.connector import (
    OF_EXPECTATIONS,
    OF_FUNCTIONS,
    OF_PIPELINES,
    OF_SINKS,
    OF_SOURCES,
    OF_WATERMARKS,
    Declared,
    FunctionRef,
    SinkOptions,
    SourceOptions,
    option_text,
)
from headwater.spec.history import EventLogPath, HistoryKeys, WebAddress
from headwater.spec.paths import ProjectPath, absolute, project_root
from headwater.spec.references import FunctionField
from headwater.spec.restarts import OnFailure, RestartField, RestartPolicy
from headwater.spec.schema import canonical_type
from headwater.spec.spark_metrics import SparkMetricsField
from headwater.values import (
    BadRows,
    Duration,
    Never,
    OnViolation,
    Position,
    RefreshField,
    Secret,
    TextPosition,
    TriggerField,
    Unpaced,
)


class Mode(StrEnum):
    """Which rows of the result each batch emits."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class WatermarkPolicy(StrEnum):
    """Which of several watermarks a query uses: the slowest (drops no rows early) or the fastest."""

    SLOWEST = "slowest"
    FASTEST = "fastest"


class Watermark(Declared):
    """`watermark: {column: shown_at, delay: 2 hours}`."""

    also_called = OF_WATERMARKS

    column: str = Field(description="The event-time column.")
    delay: Duration = Field(description="How late a row can arrive, such as `10 minutes`.")


def _watermark(written: object) -> object:
    """Python declarations can write `("shown_at", "2 hours")`."""
    if isinstance(written, tuple) and len(written) == 2:
        return {"column": written[0], "delay": written[1]}
    if isinstance(written, Mapping | Watermark | Secret | None):
        return written
    raise ValueError("expected a column and a delay; write `{column: shown_at, delay: 10 minutes}`")


WatermarkField = Annotated[Watermark | None, BeforeValidator(_watermark)]


def _filled(says: str) -> AfterValidator:
    def stripped(text: str) -> str:
        if not text.strip():
            raise ValueError(says)
        return text.strip()

    return AfterValidator(stripped)


Reason = Annotated[
    str,
    _filled("the reason is empty; write briefly why the finding is intentional"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Suppression = dict[str, Reason]


class Named(Declared):
    """A declared object with a name."""

    where_only = frozenset({"position", "places"})

    name: str
    places: dict[tuple[str | int, ...], Position] = Field(default_factory=dict, exclude=True, repr=False)
    """The positions of the values of its keys, if the declaration has them."""

    def at(self, *key: str | int) -> Position | None:
        """The position of the value of a key, or else of the object."""
        return self.places.get(key, self.position)


class SourceKeys(Declared):
    """Keys of every source."""

    also_called = OF_SOURCES

    connector: str = Field(description="The type of source, such as `files` or `kafka`.")
    static: bool = Field(default=False, description="Read it as a static table, not as a stream.")
    refresh: Annotated[RefreshField, WithJsonSchema({"type": "string"})] = Field(
        default=Never(),
        description="Static sources: when to check for changed files: `never`, `every batch` or an interval "
        "such as `every 10 minutes`.",
    )
    cache: bool = Field(
        default=False, description="Static sources: cache the rows in Spark, and read them once per refresh."
    )
    watermark: WatermarkField = Field(default=None, description="The event-time column and its delay.")
    bad_rows: BadRows = Field(
        default=BadRows.FAIL,
        description="What to do with a row that does not match the schema: `fail`, `drop`, `keep` or "
        "`quarantine`.",
    )
    max_row_bytes: int | None = Field(
        default=None,
        gt=0,
        description="The maximum size of a row in bytes. A longer row is a bad row. Default: no limit.",
    )


class SourceSpec(Named, SourceKeys):
    """A source of rows."""

    options: SerializeAsAny[SourceOptions]


Condition = Annotated[
    str,
    _filled("the condition is empty; write one such as `cost >= 0`"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class ExpectationKeys(Declared):
    """`paid: {condition: cost >= 0, on_violation: drop}`."""

    also_called = OF_EXPECTATIONS

    condition: Condition = Field(description="A SQL condition on the columns of the table.")
    on_violation: OnViolation = Field(
        default=OnViolation.WARN,
        description="What to do with a row that violates the condition: `warn`, `drop`, `fail` or "
        "`quarantine`.",
    )


class Expectation(ExpectationKeys):
    """A condition on the rows of a table, and what to do with violations; null also violates it."""

    model_config = ConfigDict(populate_by_name=True)

    where_only = frozenset({"position", "text"})

    name: str
    text: TextPosition | None = Field(default=None, exclude=True, repr=False)
    """The position of the condition."""

    def at(self, spot: tuple[int, int] | None = None) -> Position | None:
        """The position of a line and column of the condition, or else of its start."""
        return self.text.at(*(spot or (1, 1))) if self.text else self.position


class Deduplication(Declared):
    """Emits one row per key: of all rows so far, or only of those within the watermark."""

    where_only = frozenset({"position", "reads_position"})

    reads: str
    columns: tuple[str, ...]
    within_watermark: bool = False
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)


class TableSpec(Named):
    """A transformation of sources and other tables: SQL, a Python function or a deduplication."""

    where_only = frozenset({"position", "places", "text"})

    sql: str | None = None
    function: FunctionRef | None = None
    deduplicate: Deduplication | None = None
    watermark: Watermark | None = None
    expect: tuple[Expectation, ...] = ()
    suppress: dict[str, str] = Field(default_factory=dict)
    """Codes of findings that are suppressed in this table, each with the reason."""
    text: TextPosition | None = Field(default=None, exclude=True, repr=False)

    @property
    def form(self) -> str:
        """How it is declared: `sql`, `deduplicate` or `python`."""
        return "sql" if self.sql is not None else "deduplicate" if self.deduplicate else "python"


class SinkKeys(Declared):
    """Keys of every sink."""

    also_called = OF_SINKS

    reads: str = Field(description="The source or table to write.")
    connector: str = Field(description="The type of sink, such as `files` or `kafka`.")
    mode: Mode = Field(default=Mode.APPEND, description="Output mode: the rows that each batch emits.")
    trigger: Annotated[TriggerField, WithJsonSchema({"type": "string"})] = Field(
        default=Unpaced(),
        description="When the next batch starts: `every 10 seconds`, `available now`, `once`, "
        "`continuous 1 second` or `real time 5 minutes`. Default: as soon as the previous batch completes.",
    )
    restart: RestartField = Field(
        default=None,
        description="When to restart the query after a failure that a retry can fix: `never` or an object. "
        "Default: `restart` of the pipeline.",
    )
    on_failure: OnFailure | None = Field(
        default=None,
        description="What happens to the other queries when this one fails for good: `continue` or `stop`. "
        "Default: `on_failure` of the pipeline.",
    )
    group: str | None = Field(
        default=None,
        description="The sink group: its sinks share one query, which reads and computes each batch once. Default: "
        "the sink has its own query.",
    )
    suppress: Suppression = Field(
        default_factory=dict,
        description="Findings to suppress for this query, by code, each with a reason.",
    )


class SinkSpec(Named, SinkKeys):
    """An output of the pipeline. It runs as one streaming query with its own checkpoint, or in that of its group."""

    where_only = frozenset({"position", "places", "reads_position"})

    options: SerializeAsAny[SinkOptions]
    is_quarantine: bool = False
    """Whether it is the quarantine of what it reads: it receives the rows that all other sinks do not."""
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)

    @property
    def query(self) -> str:
        """The name of its query: that of its group, or its own."""
        return self.group or self.name


@dataclass(frozen=True)
class QuerySpec:
    """A streaming query: one sink, or the sinks of a group, which agree in all that concerns the query."""

    name: str
    sinks: tuple[SinkSpec, ...]

    @property
    def sink(self) -> SinkSpec:
        """A sink as which the whole query can be treated: for a group, its first one under the group's name."""
        first = self.sinks[0]
        return first.model_copy(update={"name": self.name, "group": None}) if first.group else first

    @property
    def is_group(self) -> bool:
        """Whether its sinks are a group, even of one."""
        return self.sinks[0].group is not None


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"`{name}` is not a time zone; write a name such as `UTC` or `Europe/Berlin`"
        ) from error
    return name


def _run_dir(path: object, info: ValidationInfo) -> object:
    if isinstance(path, Path):
        return path
    if not isinstance(path, str):
        raise PydanticKnownError("string_type")
    if not path.strip():
        raise ValueError("the path is empty; omit the key to use `.headwater` next to the pipeline file")
    return Path(absolute(path, project_root(info)))


OneOrMore = (
    BeforeValidator(lambda written: [written] if isinstance(written, str) else written),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}], "default": []}
    ),
)
"""A string is a list of one item."""


class PipelineSettings(Declared):
    """The settings at the top level of a pipeline file."""

    also_called = OF_PIPELINES

    name: str = Field(description="The name of the pipeline.")
    timezone: Annotated[str, AfterValidator(_timezone)] = Field(
        default="UTC", description="The time zone of timestamps without one, when read and when shown."
    )
    run_dir: Annotated[Path, BeforeValidator(_run_dir), WithJsonSchema({"type": "string"})] = Field(
        default=".headwater",
        validate_default=True,
        description="The run directory, with checkpoints, query metadata and logs. Relative to the pipeline file.",
    )
    spark: dict[str, Annotated[str, BeforeValidator(option_text)]] = Field(
        default_factory=dict, description="Spark settings, passed to Spark unchanged."
    )
    watermark_policy: WatermarkPolicy = Field(
        default=WatermarkPolicy.SLOWEST,
        description="Which watermark a query with several inputs uses: `slowest` (Spark's `min`) or `fastest` "
        "(Spark's `max`).",
    )
    restart: RestartField = Field(
        default=None,
        description="When to restart a query after a failure that a retry can fix, and Spark after its process "
        "died: `never` or an object. Default: up to 10 restarts within 10 minutes.",
    )
    on_failure: OnFailure = Field(
        default=OnFailure.CONTINUE,
        description="What happens to the other queries when one fails for good: `continue` or `stop`.",
    )
    history: HistoryKeys = Field(
        default_factory=HistoryKeys, description="How long the history of runs is kept, and its maximum size."
    )
    event_log: EventLogPath | None = Field(
        default=None,
        description="A file to which every event is appended, one JSON object per line. Relative to the pipeline "
        "file.",
    )
    webhook: WebAddress | None = Field(
        default=None,
        description="A URL that receives alerts, notices, restarts, terminated queries, and the start and end of "
        "runs, each as a JSON object by POST. Use `${secret:NAME}` for a URL with a token.",
    )
    on_event: FunctionField | None = Field(
        default=None,
        description='A function that is called with every event, as `"file.py:function"`.',
    )
    spark_metrics: SparkMetricsField = Field(
        default=None,
        description="Where Spark writes its own metrics: `csv`, `jmx`, `graphite` or `prometheus`, or an object with "
        "the keys of these sinks. Default: nowhere.",
    )
    jars: Annotated[tuple[ProjectPath, ...], *OneOrMore] = Field(
        default=(),
        description="Your own jars, with functions or data sources. Relative to the pipeline file.",
    )
    suppress: Suppression = Field(
        default_factory=dict,
        description="Findings to suppress in the whole pipeline, by code, each with a reason.",
    )
    alerts: Alerts = Field(
        default_factory=Alerts,
        description="The alerts about the health of queries, by name: `off`, or an object of thresholds.",
    )


class PipelineSpec(Named, PipelineSettings):
    """A complete pipeline, from either form of declaration."""

    where_only = frozenset({"position", "places", "declared_in"})

    root: Path
    """The project root: the directory of the declaring file. Relative paths start here."""
    functions: tuple[FunctionSpec, ...] = ()
    sources: tuple[SourceSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    declared_in: str = Field(default="", exclude=True, repr=False)

    def content(self) -> dict[str, Any]:
        content = super().content()
        # The order of declaration does not matter.
        for part in ("functions", "sources", "tables", "sinks"):
            things: tuple[Named, ...] = content[part]
            content[part] = {thing.name: thing for thing in things}
        return content

    @property
    def queries(self) -> tuple[QuerySpec, ...]:
        """The queries, in the order of their first sinks."""
        found: dict[str, list[SinkSpec]] = {}
        for sink in self.sinks:
            found.setdefault(sink.query, []).append(sink)
        return tuple(QuerySpec(name, tuple(sinks)) for name, sinks in found.items())

    def query(self, name: str) -> QuerySpec:
        """The query with this name."""
        return next(each for each in self.queries if each.name == name)

    def restart_policy(self, sink: SinkSpec | None = None) -> RestartPolicy:
        """When a query is restarted; without a sink, when Spark is."""
        return (sink and sink.restart) or self.restart or RestartPolicy()

    def stops_on_failure_of(self, sink: SinkSpec) -> bool:
        """Whether the run ends when this query has failed for good."""
        return (sink.on_failure or self.on_failure) is OnFailure.STOP

    def setting_place(self, key: str, value: str) -> Position | None:
        """The position of a Spark setting; None if the value came from the command line."""
        return self.at("spark", key) if self.spark.get(key) == value else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a table or a sink can read: sources and tables share one namespace."""
        return tuple(declared.name for declared in self.readable)

    @property
    def readable(self) -> tuple[Named, ...]:
        """Sources and tables."""
        return (*self.sources, *self.tables)

    @property
    def connected(self) -> tuple[SourceSpec | SinkSpec, ...]:
        """All sources and sinks."""
        return (*self.sources, *self.sinks)


class FunctionKeys(Declared):
    """Keys of a SQL function."""

    also_called = OF_FUNCTIONS

    function: FunctionField | None = Field(
        default=None,
        alias="python",
        description='Your UDF or plain Python function, as `"file.py:function"`.',
    )
    java_class: str | None = Field(
        default=None,
        description="A class in one of the `jars` that implements UDF0 … UDF22 or extends Aggregator.",
    )
    returns: Annotated[str, AfterValidator(canonical_type)] | None = Field(
        default=None, description="The return type of a plain Python function, such as `bigint`."
    )


class FunctionSpec(Named, FunctionKeys):
    """A SQL function: a Python function of the project, or a class in a jar."""

    model_config = ConfigDict(populate_by_name=True)
