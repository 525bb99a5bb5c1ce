"""The pipeline as it was declared: sources, tables, sinks."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, WithJsonSchema

from headwater.spec.connector import ClassRef, Declared, FunctionRef, SinkOptions, SourceOptions
from headwater.spec.paths import absolute, project_root
from headwater.values import (
    BadRows,
    Duration,
    Never,
    Otherwise,
    Position,
    RefreshField,
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
    """An event-time column, and how late a row may be."""

    column: str
    delay: Duration


class Named(Declared):
    """A declared thing with a name."""

    where_only = frozenset({"position", "places"})

    name: str
    places: dict[tuple[str | int, ...], Position] = Field(default_factory=dict, exclude=True, repr=False)
    """Where the values of its keys stand, as far as the form of the declaration tells."""

    def at(self, *key: str | int) -> Position | None:
        """Where the value of a key stands, or else the thing itself."""
        return self.places.get(key, self.position)


class SourceSpec(Named):
    """A source: where rows come from."""

    connector: str
    options: SerializeAsAny[SourceOptions]
    static: bool = False
    refresh: RefreshField = Never()
    """When a static source looks for changed files."""
    cache: bool = False
    """Spark keeps the rows of a static source between batches."""
    watermark: Watermark | None = None
    bad_rows: BadRows = BadRows.FAIL
    """What becomes of a row that can't be read."""
    max_row_bytes: int | None = None
    """A longer row counts as one that can't be read."""


class Expectation(Declared):
    """What a table's rows should fulfil, and what becomes of those that don't."""

    where_only = frozenset({"position", "text"})

    name: str
    check: str
    """A condition in SQL over the table's columns; a row for which it is null fails it too."""
    otherwise: Otherwise = Otherwise.WARN
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


class SinkSpec(Named):
    """A sink: where the rows of a table go. Running, it is a query with one checkpoint."""

    where_only = frozenset({"position", "places", "reads_position"})

    reads: str
    connector: str
    options: SerializeAsAny[SinkOptions]
    mode: Mode = Mode.APPEND
    trigger: TriggerField = Unpaced()
    sets_aside: bool = False
    """Whether it is the quarantine of what it reads: it takes the rows that are kept from all others."""
    accept: dict[str, str] = Field(default_factory=dict)
    """Codes of findings about this query that are accepted, each with the reason."""
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)


class FunctionSpec(Named):
    """A function for SQL: a Python function of the project, or a class in a jar."""

    function: FunctionRef | None = None
    java_class: str | None = None
    returns: str | None = None
    """The type that a plain Python function returns; a UDF says it itself."""


class PipelineSpec(Named):
    """Everything that was declared, from whichever form."""

    where_only = frozenset({"position", "places", "declared_in", "in_program"})

    root: Path
    """The project root: the folder of the declaring file. Relative paths start here."""
    folder: Path
    """The run folder: checkpoints, facts, logs."""
    timezone: str = "UTC"
    spark: dict[str, str] = Field(default_factory=dict)
    watermark_policy: WatermarkPolicy = WatermarkPolicy.SLOWEST
    jars: tuple[str, ...] = ()
    """The user's own jars, as absolute paths."""
    accept: dict[str, str] = Field(default_factory=dict)
    """Codes of findings that are accepted wherever they are found, each with the reason."""
    functions: tuple[FunctionSpec, ...] = ()
    sources: tuple[SourceSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    declared_in: str = Field(default="", exclude=True, repr=False)
    in_program: bool = Field(default=False, exclude=True, repr=False)
    """Whether a Python program declares or loads it, which can then query its tables in memory."""

    def _content(self) -> dict[str, Any]:
        content = super()._content()
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
    file, colon, name = written.rpartition(":")
    if not colon or not file.endswith(".py") or not name.replace(".", "").isidentifier():
        raise ValueError(f'`{written}` does not name a function; write "file.py:function"')
    return FunctionRef(absolute(file, project_root(info)), name)


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


def class_ref(written: object, info: ValidationInfo) -> ClassRef:
    """`file.py:Class`, relative to the pipeline file, or the class itself."""
    if isinstance(written, ClassRef):
        return written
    if isinstance(written, type):
        return class_of(written)
    if not isinstance(written, str):
        raise ValueError('a class is named as "file.py:Class"; write its name, or give the class itself')
    file, colon, name = written.rpartition(":")
    if not colon or not file.endswith(".py") or not name.replace(".", "").isidentifier():
        raise ValueError(f'`{written}` does not name a class; write "file.py:Class"')
    return ClassRef(absolute(file, project_root(info)), name)


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
