"""The pipeline as it was declared: sources, tables, sinks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny

from headwater.spec.connector import SinkOptions, SourceOptions
from headwater.spec.declared import Declared, FunctionRef
from headwater.values import Duration, Position, TextPosition, TriggerField, Unpaced


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

    name: str


class SourceSpec(Named):
    """A source: where rows come from."""

    connector: str
    options: SerializeAsAny[SourceOptions]
    static: bool = False
    watermark: Watermark | None = None


class TableSpec(Named):
    """A table: rows worked out from sources and other tables, by SQL or by a Python function."""

    where_only = frozenset({"position", "text"})

    sql: str | None = None
    function: FunctionRef | None = None
    watermark: Watermark | None = None
    text: TextPosition | None = Field(default=None, exclude=True, repr=False)


class SinkSpec(Named):
    """A sink: where the rows of a table go. Running, it is a query with one checkpoint."""

    where_only = frozenset({"position", "reads_position"})

    reads: str
    connector: str
    options: SerializeAsAny[SinkOptions]
    mode: Mode = Mode.APPEND
    trigger: TriggerField = Unpaced()
    reads_position: Position | None = Field(default=None, exclude=True, repr=False)


class PipelineSpec(Declared):
    """Everything that was declared, from whichever form."""

    where_only = frozenset({"position", "declared_in"})

    name: str
    root: Path
    """The project root: the folder of the declaring file. Relative paths start here."""
    folder: Path
    """The run folder: checkpoints, facts, logs."""
    timezone: str = "UTC"
    spark: dict[str, str] = Field(default_factory=dict)
    watermark_policy: WatermarkPolicy = WatermarkPolicy.SLOWEST
    sources: tuple[SourceSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    sinks: tuple[SinkSpec, ...] = ()
    declared_in: str = Field(default="", exclude=True, repr=False)

    def _content(self) -> dict[str, Any]:
        content = super()._content()
        # The order of declaration carries no meaning.
        for part in ("sources", "tables", "sinks"):
            things: tuple[Named, ...] = content[part]
            content[part] = {thing.name: thing for thing in things}
        return content

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
