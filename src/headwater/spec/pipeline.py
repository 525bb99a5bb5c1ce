"""The pipeline as it was declared: sources, tables, sinks."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import FunctionType
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

from headwater.spec.connector import (
    OF_EXPECTATIONS,
    OF_FUNCTIONS,
    OF_PIPELINES,
    OF_SINKS,
    OF_SOURCES,
    OF_WATERMARKS,
    ClassRef,
    Declared,
    FunctionRef,
    SinkOptions,
    SourceOptions,
    option_text,
)
from headwater.spec.paths import ProjectPath, absolute, project_root
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


class Mode(StrEnum):
    """Which rows of the result a batch hands to the sink."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class WatermarkPolicy(StrEnum):
    """Which of several watermarks counts: the slowest (nothing is lost) or the fastest."""

    SLOWEST = "slowest"
    FASTEST = "fastest"


class Watermark(Declared):
    """`watermark: {column: shown_at, delay: 2 hours}`."""

    also_called = OF_WATERMARKS

    column: str = Field(description="The event-time column.")
    delay: Duration = Field(description="How late a row may be, such as 10 minutes.")


def _watermark(written: object) -> object:
    """Python declarations may write `("shown_at", "2 hours")`."""
    if isinstance(written, tuple) and len(written) == 2:
        return {"column": written[0], "delay": written[1]}
    if isinstance(written, Mapping | Watermark | Secret | None):
        return written
    raise ValueError("a column and a delay are wanted here; write `{column: shown_at, delay: 10 minutes}`")


WatermarkField = Annotated[Watermark | None, BeforeValidator(_watermark)]


def _filled(says: str) -> AfterValidator:
    def stripped(text: str) -> str:
        if not text.strip():
            raise ValueError(says)
        return text.strip()

    return AfterValidator(stripped)


Reason = Annotated[
    str,
    _filled("a reason is wanted here; write in a few words why it is all right"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Accept = dict[str, Reason]


class Named(Declared):
    """A declared thing with a name."""

    where_only = frozenset({"position", "places"})

    name: str
    places: dict[tuple[str | int, ...], Position] = Field(default_factory=dict, exclude=True, repr=False)
    """Where the values of its keys stand, as far as the form of the declaration tells."""

    def at(self, *key: str | int) -> Position | None:
        """Where the value of a key stands, or else the thing itself."""
        return self.places.get(key, self.position)


class SourceKeys(Declared):
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


class SourceSpec(Named, SourceKeys):
    """A source: where rows come from."""

    options: SerializeAsAny[SourceOptions]


Condition = Annotated[
    str,
    _filled("a condition is wanted here; write one such as `cost >= 0`"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class ExpectationKeys(Declared):
    """`paid: {check: cost >= 0, else: drop}`."""

    also_called = OF_EXPECTATIONS

    check: Condition = Field(description="A condition in SQL over the table's columns.")
    otherwise: Otherwise = Field(
        default=Otherwise.WARN,
        alias="else",
        description="What becomes of a row that fails it: `warn`, `drop`, `fail` or `quarantine`.",
    )


class Expectation(ExpectationKeys):
    """What a table's rows should fulfil, and what becomes of those that don't; null fails it, too."""

    model_config = ConfigDict(populate_by_name=True)

    where_only = frozenset({"position", "text"})

    name: str
    text: TextPosition | None = Field(default=None, exclude=True, repr=False)
    """Where the condition stands."""

    def at(self, spot: tuple[int, int] | None = None) -> Position | None:
        """Where a line and column of the condition stand, or else its beginning."""
        return self.text.at(*(spot or (1, 1))) if self.text else self.position


class Distinct(Declared):
    """One row of each key: of all that ever came, or within the watermark only."""

    where_only = frozenset({"position", "reads_position"})

    reads: str
    columns: tuple[str, ...]
    within_watermark: bool = False
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)


class TableSpec(Named):
    """A table: rows worked out from sources and other tables, by SQL, by a Python function or as distinct."""

    where_only = frozenset({"position", "places", "text"})

    sql: str | None = None
    function: FunctionRef | None = None
    distinct: Distinct | None = None
    watermark: Watermark | None = None
    expect: tuple[Expectation, ...] = ()
    accept: dict[str, str] = Field(default_factory=dict)
    """Codes of findings that stand in this table and are accepted, each with the reason."""
    text: TextPosition | None = Field(default=None, exclude=True, repr=False)

    @property
    def form(self) -> str:
        """How it is declared."""
        return "sql" if self.sql is not None else "distinct" if self.distinct else "python"


class SinkKeys(Declared):
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


class SinkSpec(Named, SinkKeys):
    """A sink: where the rows of a table go. Running, it is a query with one checkpoint."""

    where_only = frozenset({"position", "places", "reads_position"})

    options: SerializeAsAny[SinkOptions]
    is_quarantine: bool = False
    """Whether it is the quarantine of what it reads: it takes the rows that are kept from all others."""
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"`{name}` is not a time zone; write a name such as UTC or Europe/Berlin") from error
    return name


def _folder(path: object, info: ValidationInfo) -> object:
    if isinstance(path, Path):
        return path
    if not isinstance(path, str):
        raise PydanticKnownError("string_type")
    if not path.strip():
        raise ValueError("a folder is wanted here; leave the key out for `.headwater` beside the file")
    return Path(absolute(path, project_root(info)))


OneOrMore = (
    BeforeValidator(lambda written: [written] if isinstance(written, str) else written),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}], "default": []}
    ),
)
"""A text may stand for a list of one."""


class PipelineSettings(Declared):
    """The keys at the top of a pipeline file that declare no thing."""

    also_called = OF_PIPELINES

    name: str = Field(description="The pipeline's name.")
    timezone: Annotated[str, AfterValidator(_timezone)] = Field(
        default="UTC", description="The time zone in which times without one are read and shown."
    )
    folder: Annotated[Path, BeforeValidator(_folder), WithJsonSchema({"type": "string"})] = Field(
        default=".headwater",
        validate_default=True,
        description="The run folder: checkpoints, facts, logs. Relative to the pipeline file.",
    )
    spark: dict[str, Annotated[str, BeforeValidator(option_text)]] = Field(
        default_factory=dict, description="Settings of Spark, word for word."
    )
    watermark_policy: WatermarkPolicy = Field(
        default=WatermarkPolicy.SLOWEST, description="Which of several watermarks in one query counts."
    )
    jars: Annotated[tuple[ProjectPath, ...], *OneOrMore] = Field(
        default=(), description="Jars of your own, with functions or data sources. Relative to the file."
    )
    accept: Accept = Field(
        default_factory=dict, description="Codes of findings that are all right, each with the reason."
    )


class PipelineSpec(Named, PipelineSettings):
    """Everything that was declared, from whichever form."""

    where_only = frozenset({"position", "places", "declared_in", "in_program"})

    root: Path
    """The project root: the folder of the declaring file. Relative paths start here."""
    functions: tuple[FunctionSpec, ...] = ()
    sources: tuple[SourceSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    declared_in: str = Field(default="", exclude=True, repr=False)
    in_program: bool = Field(default=False, exclude=True, repr=False)
    """Whether a Python program declares or loads it, which can then query its tables in memory."""

    def content(self) -> dict[str, Any]:
        content = super().content()
        # The order of declaration carries no meaning.
        for part in ("functions", "sources", "tables", "sinks"):
            things: tuple[Named, ...] = content[part]
            content[part] = {thing.name: thing for thing in things}
        return content

    def setting_place(self, key: str, value: str) -> Position | None:
        """Where a setting of Spark stands; None where the value came from the command line."""
        return self.at("spark", key) if self.spark.get(key) == value else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names that a table or a sink can read: sources and tables share one name space."""
        return tuple(declared.name for declared in self.readable)

    @property
    def readable(self) -> tuple[Named, ...]:
        """Sources and tables."""
        return (*self.sources, *self.tables)

    @property
    def connected(self) -> tuple[SourceSpec | SinkSpec, ...]:
        """Everything that has a connector."""
        return (*self.sources, *self.sinks)


# A user's function or class as it is named in a pipeline file: `"out.py:write"`, `"out.py:Writer"`.


def function_ref(written: object, info: ValidationInfo) -> FunctionRef:
    """`file.py:function`, relative to the pipeline file, or the function itself."""
    if isinstance(written, FunctionRef):
        return written
    if callable(written):
        return function_of(written)
    if not isinstance(written, str):
        raise ValueError('a function is named as "file.py:function"')
    return FunctionRef(*_named_in_file(written, info, "a function", "file.py:function"))


def _named_in_file(written: str, info: ValidationInfo, what: str, form: str) -> tuple[str, str]:
    file, colon, name = written.rpartition(":")
    if not colon or not file.endswith(".py") or not name.replace(".", "").isidentifier():
        raise ValueError(f'`{written}` does not name {what}; write "{form}"')
    return absolute(file, project_root(info)), name


def function_of(function: Callable[..., Any]) -> FunctionRef:
    """The reference to a function that is at hand."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"`{name}` is not a function with a `def`; write one that calls it")
    parameters = inspect.signature(plain).parameters.values()
    names = tuple(each.name for each in parameters)
    optional = frozenset(each.name for each in parameters if each.default is not each.empty)
    file = os.path.abspath(plain.__code__.co_filename)
    place = _definition(plain, file)
    return FunctionRef(file, plain.__qualname__, names, function, defined=place, optional=optional)


def _definition(function: FunctionType, file: str) -> Position:
    """The line of the `def`: Python counts from the first decorator."""
    first = function.__code__.co_firstlineno
    lines = linecache.getlines(function.__code__.co_filename)[first - 1 :]
    steps = (step for step, line in enumerate(lines) if line.lstrip().startswith(("def ", "async def ")))
    return Position(file, first + next(steps, 0))


FunctionField = Annotated[
    FunctionRef,
    BeforeValidator(function_ref),
    WithJsonSchema({"type": "string", "examples": ["out.py:write"], "pattern": r"\.py:"}),
]


class FunctionKeys(Declared):
    """Keys of a function for SQL."""

    also_called = OF_FUNCTIONS

    function: FunctionField | None = Field(
        default=None,
        alias="python",
        description='A UDF or a plain function of yours, as `"file.py:function"`.',
    )
    java_class: str | None = Field(
        default=None,
        alias="class",
        description="A class in one of the `jars`: a UDF0 … UDF22 or an Aggregator.",
    )
    returns: Annotated[str, AfterValidator(canonical_type)] | None = Field(
        default=None, description="The type that a plain Python function returns, such as `bigint`."
    )


class FunctionSpec(Named, FunctionKeys):
    """A function for SQL: a Python function of the project, or a class in a jar."""

    model_config = ConfigDict(populate_by_name=True)


def class_ref(written: object, info: ValidationInfo) -> ClassRef:
    """`file.py:Class`, relative to the pipeline file, or the class itself."""
    if isinstance(written, ClassRef):
        return written
    if isinstance(written, type):
        return class_of(written)
    if not isinstance(written, str):
        raise ValueError('a class is named as "file.py:Class"; write its name, or give the class itself')
    return ClassRef(*_named_in_file(written, info, "a class", "file.py:Class"))


def class_of(found: type) -> ClassRef:
    """The reference to a class that is at hand."""
    try:
        file = os.path.abspath(inspect.getfile(found))
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        # Typed into a shell, where no file holds it.
        return ClassRef("<input>", found.__qualname__, function=found)
    return ClassRef(file, found.__qualname__, function=found, defined=Position(file, line))


ClassField = Annotated[
    ClassRef,
    BeforeValidator(class_ref),
    WithJsonSchema({"type": "string", "examples": ["out.py:Writer"], "pattern": r"\.py:"}),
]
