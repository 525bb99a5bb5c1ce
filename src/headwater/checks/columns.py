"""What is wrong with columns that a declaration names, told from columns and types that are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import sink_side
from headwater.connectors.source_columns import source_columns
from headwater.errors import Problem
from headwater.errors.catalogue.connectors import (
    FILES_CSV_COLUMN,
    FILES_NO_COLUMNS,
    FILES_PARTITION_COLUMN,
    FILES_TEXT_COLUMN,
)
from headwater.errors.catalogue.kafka_sink import (
    KAFKA_AVRO_FIELD,
    KAFKA_AVRO_NAME,
    KAFKA_COLUMN_TYPE,
    KAFKA_DEDUP_TRIGGER,
    KAFKA_NO_TOPIC,
    KAFKA_NO_VALUE,
    KAFKA_UNKNOWN_COLUMN,
)
from headwater.errors.catalogue.running import WATERMARK_COLUMN, WATERMARK_TYPE, WITHIN_NO_WATERMARK
from headwater.spec import SourceSpec, TableSpec
from headwater.values import nearest

_TEXT = ("char(", "varchar(")


def watermark_problem(thing: SourceSpec | TableSpec, columns: Mapping[str, str]) -> Problem | None:
    """What is wrong with a watermark over these columns; None where only Spark can tell."""
    if thing.watermark is None:
        return None
    column, place = thing.watermark.column, thing.at("watermark", "column")
    where = f"the {'source' if isinstance(thing, SourceSpec) else 'table'} `{thing.name}`"
    found = {name.lower(): type_ for name, type_ in columns.items()}.get(column.lower())
    if found is None:
        # A dot or a backtick leads into a struct, or quotes a name; Spark knows the way.
        if "." in column or "`" in column:
            return None
        return WATERMARK_COLUMN.at(place, where=where, column=column, hint=_hint(column, columns))
    # The struct that a window makes can carry a watermark, too.
    if found.startswith(("timestamp", "struct")):
        return None
    return WATERMARK_TYPE.at(place, where=where, column=column, type=found)


def columns_of(source: SourceSpec) -> dict[str, str] | None:
    """The columns of a source by name and type, as Spark would give them; None where only Spark can tell."""
    schema = source_columns(source)
    if schema is None:
        return None
    # Spark reads texts of a given length as texts of any.
    return {
        column.name: "string" if column.type.startswith(_TEXT) else column.type for column in schema.columns
    }


class WatermarkColumn(Rule):
    """A watermark needs a column with a time; where a source says its columns, no Spark is needed to see."""

    entries = {WATERMARK_COLUMN: Severity.ERROR, WATERMARK_TYPE: Severity.ERROR}
    example = """
        sources:
          orders:
            connector: files
            path: orders/
            format: json
            schema: {id: int, at: string}
            watermark: {column: at, delay: 10 minutes}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            columns = columns_of(source) if source.watermark else None
            problem = watermark_problem(source, columns) if columns is not None else None
            if problem:
                yield Finding(problem)


class WithinNoWatermark(Rule):
    """`within: watermark` needs a watermark above; SQL and Python tables may make one: they are trusted."""

    entries = {WITHIN_NO_WATERMARK: Severity.ERROR}
    example = """
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, at: timestamp}}
        tables:
          once: {reads: orders, distinct: id, within: watermark}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        tables = {table.name.lower(): table for table in situation.spec.tables}
        sources = {source.name.lower(): source for source in situation.spec.sources}
        # Where Spark has been asked, the rule over its facts knows more.
        for table in () if situation.facts else situation.spec.tables:
            if table.distinct is None or not table.distinct.within_watermark:
                continue
            read = table.distinct.reads.lower()
            while read in tables and not tables[read].watermark and (inner := tables[read].distinct):
                read = inner.reads.lower()
            if read in sources and not sources[read].watermark and not sources[read].static:
                source = f"`{sources[read].name}`"
                problem = WITHIN_NO_WATERMARK.at(table.distinct.position, name=table.name, source=source)
                yield Finding(problem, table=table.name)


class SinkColumns(Rule):
    """A sink that reads a source directly gets its columns; what the sink has against them is known early."""

    entries = {
        FILES_PARTITION_COLUMN: Severity.ERROR,
        FILES_NO_COLUMNS: Severity.ERROR,
        FILES_TEXT_COLUMN: Severity.ERROR,
        FILES_CSV_COLUMN: Severity.ERROR,
        KAFKA_AVRO_FIELD: Severity.ERROR,
        KAFKA_AVRO_NAME: Severity.ERROR,
        KAFKA_COLUMN_TYPE: Severity.ERROR,
        KAFKA_DEDUP_TRIGGER: Severity.ERROR,
        KAFKA_NO_TOPIC: Severity.ERROR,
        KAFKA_NO_VALUE: Severity.ERROR,
        KAFKA_UNKNOWN_COLUMN: Severity.ERROR,
    }
    example = """
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, shop: string}}
        sinks:
          orders: {reads: orders, connector: files, path: out/, format: parquet, partition_by: day}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        sources = {source.name.lower(): source for source in situation.spec.sources if not source.static}
        for sink in situation.spec.sinks:
            side, source = sink_side(sink.connector), sources.get(sink.reads.lower())
            # In a mode that it does not take, the sink is not asked about rows.
            columns = columns_of(source) if source and sink.mode.value in side.modes else None
            for problem in side.refuses(sink, columns) if columns is not None else ():
                yield Finding(problem, sink=sink.name)


def _hint(column: str, columns: Mapping[str, str]) -> str:
    meant = nearest(column, columns)
    return f"Did you mean `{meant}`?" if meant else f"Its columns are: {', '.join(columns)}."
