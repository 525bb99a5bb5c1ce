"""The keys that every source, table and sink has, whatever its connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from headwater.errors import PipelineError, Problem
from headwater.loaders.known_keys import (
    OF_EXPECTATIONS,
    OF_FUNCTIONS,
    OF_PIPELINES,
    OF_SINKS,
    OF_SOURCES,
    OF_TABLES,
    OF_WATERMARKS,
)
from headwater.spec import Mode, PipelineSpec, Watermark, WatermarkPolicy
from headwater.spec.paths import ProjectPath
from headwater.spec.pipeline import FunctionField
from headwater.spec.schema import canonical_type
from headwater.values import (
    BadRows,
    Duration,
    Never,
    Otherwise,
    Position,
    RefreshField,
    Secret,
    TextPosition,
    TriggerField,
    Unpaced,
)

NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""What declared things and expectations may be called."""


class Keys(BaseModel):
    """What may stand at one level of a pipeline file."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)

    also_called: ClassVar[Mapping[str, str]] = {}
    """Keys by the names that others have for them; written, they suggest the key."""


def _watermark(written: object) -> object:
    """Python declarations may write `("shown_at", "2 hours")`."""
    if isinstance(written, tuple) and len(written) == 2:
        return {"column": written[0], "delay": written[1]}
    if isinstance(written, Mapping | WatermarkKeys | Secret | None):
        return written
    raise ValueError("a column and a delay are wanted here; write `{column: shown_at, delay: 10 minutes}`")


class WatermarkKeys(Keys):
    """`watermark: {column: shown_at, delay: 2 hours}`."""

    also_called = OF_WATERMARKS

    column: str = Field(description="The event-time column.")
    delay: Duration = Field(description="How late a row may be, such as 10 minutes.")

    def to_spec(self) -> Watermark:
        return Watermark(column=self.column, delay=self.delay)


WatermarkField = Annotated[WatermarkKeys | None, BeforeValidator(_watermark)]


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"`{name}` is not a time zone; write a name such as UTC or Europe/Berlin") from error
    return name


def _folder(path: str) -> str:
    if not path.strip():
        raise ValueError("a folder is wanted here; leave the key out for `.headwater` beside the file")
    return path


def _setting(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Setting = Annotated[str, BeforeValidator(_setting)]
Things = Annotated[dict[str, Any], BeforeValidator(lambda written: {} if written is None else written)]


def _reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a reason is wanted here; write in a few words why it is all right")
    return reason.strip()


Reason = Annotated[str, AfterValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})]
Accept = dict[str, Reason]


def _listed(written: object) -> object:
    return [written] if isinstance(written, str) else written


_ONE_OR_MORE = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}], "default": []}
)


class PipelineKeys(Keys):
    """The top level of a pipeline file."""

    also_called = OF_PIPELINES

    name: str = Field(description="The pipeline's name.")
    timezone: Annotated[str, AfterValidator(_timezone)] = Field(
        default="UTC", description="The time zone in which times without one are read and shown."
    )
    folder: Annotated[str, AfterValidator(_folder)] = Field(
        default=".headwater",
        description="The run folder: checkpoints, facts, logs. Relative to the pipeline file.",
    )
    spark: dict[str, Setting] = Field(default_factory=dict, description="Settings of Spark, word for word.")
    watermark_policy: WatermarkPolicy = Field(
        default=WatermarkPolicy.SLOWEST, description="Which of several watermarks in one query counts."
    )
    jars: Annotated[tuple[ProjectPath, ...], BeforeValidator(_listed), _ONE_OR_MORE] = Field(
        default=(), description="Jars of your own, with functions or data sources. Relative to the file."
    )
    accept: Accept = Field(
        default_factory=dict, description="Codes of findings that are all right, each with the reason."
    )
    functions: Things = Field(default_factory=dict, description="Functions that SQL can call by name.")
    sources: Things = Field(default_factory=dict, description="Where rows come from.")
    tables: Things = Field(default_factory=dict, description="Rows worked out from sources and other tables.")
    sinks: Things = Field(default_factory=dict, description="Where the rows of a table go.")


class FunctionKeys(Keys):
    """Keys of a function for SQL."""

    also_called = OF_FUNCTIONS

    python: FunctionField | None = Field(
        default=None, description='A UDF or a plain function of yours, as `"file.py:function"`.'
    )
    java_class: str | None = Field(
        default=None,
        alias="class",
        description="A class in one of the `jars`: a UDF0 … UDF22 or an Aggregator.",
    )
    returns: Annotated[str, AfterValidator(canonical_type)] | None = Field(
        default=None, description="The type that a plain Python function returns, such as `bigint`."
    )


class SourceKeys(Keys):
    """Keys of every source."""

    also_called = OF_SOURCES

    connector: str = Field(description="What kind of source it is.")
    static: bool = Field(default=False, description="Read it as a finished table, not as a stream.")
    refresh: Annotated[RefreshField, WithJsonSchema({"type": "string"})] = Field(
        default=Never(),
        description="static: when to look for changed files: `never`, `every batch`, `every 10 minutes`.",
    )
    cache: bool = Field(default=False, description="static: keep the rows in Spark; read once per refresh.")
    watermark: WatermarkField = Field(default=None, description="The event-time column and its delay.")
    bad_rows: BadRows = Field(
        default=BadRows.FAIL,
        description="What becomes of a row that can't be read: `fail`, `drop`, `keep` or `quarantine`.",
    )
    max_row_bytes: int | None = Field(
        default=None, gt=0, description="A longer row counts as one that can't be read."
    )


def _condition(check: str) -> str:
    if not check.strip():
        raise ValueError("a condition is wanted here; write one such as `cost >= 0`")
    return check.strip()


Condition = Annotated[str, AfterValidator(_condition), WithJsonSchema({"type": "string", "minLength": 1})]


class ExpectationKeys(Keys):
    """`paid: {check: cost >= 0, else: drop}`."""

    also_called = OF_EXPECTATIONS

    check: Condition = Field(description="A condition in SQL over the table's columns.")
    otherwise: Otherwise = Field(
        default=Otherwise.WARN,
        alias="else",
        description="What becomes of a row that fails it: `warn`, `drop`, `fail` or `quarantine`.",
    )


def _expectations(written: object) -> object:
    """A condition alone is one that warns."""
    if not isinstance(written, Mapping):
        return written
    return {name: {"check": each} if isinstance(each, str) else each for name, each in written.items()}


Expectations = Annotated[dict[str, ExpectationKeys], BeforeValidator(_expectations)]


class TableKeys(Keys):
    """Keys of a table that is not written as SQL alone."""

    also_called = OF_TABLES

    sql: str | None = Field(default=None, description="A SELECT over sources and tables.")
    python: FunctionField | None = Field(
        default=None, description='A function from DataFrames to a DataFrame, as `"file.py:function"`.'
    )
    distinct: Annotated[tuple[str, ...], BeforeValidator(_listed), _ONE_OR_MORE] = Field(
        default=(), description="Columns; one row of each combination is kept, the first that comes."
    )
    reads: str | None = Field(default=None, description="With `distinct`: the source or table that it reads.")
    within: Literal["watermark"] | None = Field(
        default=None,
        description="With `distinct`: a repeat is dropped only while it is not later than the watermark's "
        "delay. Else for ever; with the event-time column among the columns, until the watermark passes it.",
    )
    watermark: WatermarkField = Field(default=None, description="An event-time column made by this table.")
    expect: Expectations = Field(
        default_factory=dict,
        description="Conditions that rows should fulfil, by name: `{paid: cost >= 0}` counts the others and "
        "warns; `{paid: {check: cost >= 0, else: drop}}` does more: `drop`, `fail`, `quarantine`.",
    )
    accept: Accept = Field(
        default_factory=dict,
        description="Codes of findings in this table that are all right, each with the reason.",
    )


class SinkKeys(Keys):
    """Keys of every sink."""

    also_called = OF_SINKS

    reads: str = Field(description="The table or source whose rows it takes.")
    connector: str = Field(description="What kind of sink it is.")
    mode: Mode = Field(default=Mode.APPEND, description="Which rows of the result a batch hands over.")
    trigger: Annotated[TriggerField, WithJsonSchema({"type": "string"})] = Field(
        default=Unpaced(),
        description="When the next batch starts: `every 10 seconds`, `available now`, `once`, "
        "`continuous 1 second`, `real time 5 minutes`; else at once.",
    )
    accept: Accept = Field(
        default_factory=dict,
        description="Codes of findings about this query that are all right, each with the reason.",
    )


# A pipeline as it was written, in either form: plain values, and where each of them stands.

Route = tuple[str | int, ...]
"""The way to a value: `("sources", "clicks", "path")`."""


class Places(Protocol):
    """Finds the place of a key or a value in the user's file."""

    def of_key(self, route: Route) -> Position: ...

    def of_value(self, route: Route) -> Position: ...

    def of_text(self, route: Route) -> TextPosition: ...


def value_places(places: Places, written: Mapping[str, Any], route: Route) -> dict[Route, Position]:
    """Where the values of a thing's keys stand, and of the keys one step inside.

    A code that is accepted is a key, and what is wrong with it stands there.
    """
    inside = [(key, inner) for key, value in written.items() if isinstance(value, Mapping) for inner in value]
    return {
        way: (places.of_key if way[0] == "accept" else places.of_value)((*route, *way))
        for way in (*((key,) for key in written), *inside)
    }


@dataclass(frozen=True)
class Declaration:
    """What was written, before it is judged."""

    values: Mapping[str, Any]
    places: Places
    root: Path
    file: str


class Refused(PipelineError):
    """A declaration that is wrong somewhere, with what else can be said: the parts of it that are right."""

    def __init__(
        self, *problems: Problem, sound: PipelineSpec | None = None, besides: Iterable[str] = ()
    ) -> None:
        super().__init__(*problems)
        self.sound = sound
        """The sources, tables and sinks with which nothing is wrong; None where names are not certain."""
        self.besides = tuple(besides)
        """All names of sources and tables that were declared, rightly or not."""
