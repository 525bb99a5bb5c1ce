"""Rules over what was declared; they need no Spark."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.rule import Finding, Rule, Severity, Situation
from headwater.connectors import sink_side, source_side
from headwater.errors.catalogue.checks import SECRET_IN_CLEAR, SECRET_IN_SETTINGS
from headwater.errors.catalogue.connectors import (
    FILES_CSV_COLUMN,
    FILES_NO_COLUMNS,
    FILES_PARTITION_COLUMN,
    FILES_TEXT_COLUMN,
    TABLE_NOT_QUERIED,
)
from headwater.errors.catalogue.kafka import (
    COMPLETE_APPENDED,
    FINISHED_DATA_ONLY,
    FIRST_START_ONLY,
    KAFKA_AVRO_FIELD,
    KAFKA_AVRO_NAME,
    KAFKA_COLUMN_TYPE,
    KAFKA_DEDUP_TRIGGER,
    KAFKA_NO_TOPIC,
    KAFKA_NO_VALUE,
    KAFKA_UNKNOWN_COLUMN,
)
from headwater.errors.catalogue.running import (
    NOT_KNOWN_OFFLINE,
    SECRET_NOT_SET,
    SINK_MODE,
    UNUSED,
    WATERMARK_COLUMN,
    WATERMARK_TYPE,
    WITHIN_NO_WATERMARK,
)
from headwater.plan.predicates import columns_of, missing_secrets, mode_problem, watermark_problem
from headwater.spec import Mode, PipelineSpec, SinkSpec, SourceSpec
from headwater.values import Position
from headwater.values.secrets import masked


class UnusedTable(Rule):
    """A source or table that no sink reads does nothing; most often a name is misspelt somewhere."""

    entries = {UNUSED: Severity.WARNING}
    example = """
        tables:
          large: SELECT * FROM orders WHERE amount > 10
        sinks:
          orders: {reads: orders, connector: console}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        graph, spec = situation.graph, situation.spec
        if None in graph.reads.values():
            return
        names = {name.lower(): name for name in spec.names}
        used = set(graph.upstream(*(names[sink.reads.lower()] for sink in spec.sinks)))
        for thing in spec.readable:
            if thing.name not in used:
                kind = "source" if thing in spec.sources else "table"
                problem = UNUSED.at(thing.position, kind=kind, name=thing.name)
                table = thing.name if kind == "table" else ""
                yield Finding(problem, Severity.WARNING, table=table)


class SinkMode(Rule):
    """A connector takes some modes and no others, whatever the query does."""

    entries = {SINK_MODE: Severity.ERROR}
    example = """
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json, mode: update}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink in situation.spec.sinks:
            problem = mode_problem(sink)
            if problem:
                yield Finding(problem, sink=sink.name)


class CompleteAppended(Rule):
    """Complete mode gives the whole result with each batch. A sink that only adds, such as a topic, holds
    every such result one after the other, and grows with the number of batches."""

    entries = {COMPLETE_APPENDED: Severity.WARNING}
    example = """
        sinks:
          totals:
            reads: totals
            connector: kafka
            servers: localhost:9092
            topic: totals
            value: json
            mode: complete
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink in situation.spec.sinks:
            if sink.mode is Mode.COMPLETE and sink_side(sink.connector).appends:
                problem = COMPLETE_APPENDED.at(sink.at("mode"), sink=sink.name, connector=sink.connector)
                yield Finding(problem, Severity.WARNING, sink.name)


def unqueried(spec: PipelineSpec) -> Iterator[Finding]:
    """A warning for each sink whose rows nobody can query when a command runs the pipeline."""
    for sink in spec.sinks:
        if sink_side(sink.connector).in_process:
            problem = TABLE_NOT_QUERIED.at(sink.at("connector"), sink=sink.name)
            yield Finding(problem, Severity.WARNING, sink.name)


class TableNotQueried(Rule):
    """Commands can't query the table; a Python program that declares or loads the pipeline can."""

    entries = {TABLE_NOT_QUERIED: Severity.WARNING}
    example = """
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        if not situation.spec.in_program:
            yield from unqueried(situation.spec)


class SecretNotSet(Rule):
    """A secret that is not set here may well be set where the pipeline runs; the run itself refuses."""

    entries = {SECRET_NOT_SET: Severity.WARNING}
    example = """
        sources:
          ticks: {connector: rate, options: {key: "${secret:NOT_SET_HERE}"}}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for thing in situation.spec.connected:
            for name, place in missing_secrets(thing, situation.environ):
                yield Finding(SECRET_NOT_SET.at(place, name=name), Severity.WARNING)


class NotKnownOffline(Rule):
    """SQL that only Spark's own parser reads; without Spark it is unknown, never an error."""

    entries = {NOT_KNOWN_OFFLINE: Severity.ADVICE}
    example = """
        tables:
          parts: SELECT raw:order.id FROM orders
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for table in situation.spec.tables:
            if situation.graph.reads.get(table.name) is None:
                problem = NOT_KNOWN_OFFLINE.at(table.position, name=table.name)
                yield Finding(problem, Severity.ADVICE, table=table.name)


# What is wrong with columns that a declaration names, told from columns and types that are known.


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
            for problem in side.problems(sink, columns) if columns is not None else ():
                yield Finding(problem, sink=sink.name)


# Secrets that stand in a pipeline file for everybody to read.


class SecretInClear(Rule):
    """A password in a pipeline file is in the version control, in facts, plans and logs. `${secret:NAME}`
    is looked up when it is needed and shown nowhere."""

    asks_parts = True
    entries = {SECRET_IN_CLEAR: Severity.WARNING, SECRET_IN_SETTINGS: Severity.WARNING}
    example = """
        sources:
          orders:
            connector: python
            class: feeds.py:Orders
            options: {api_token: 4f9d2c}   # api_token: "${secret:ORDERS_TOKEN}"
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        spec = situation.spec
        for thing in spec.connected:
            kind = "source" if isinstance(thing, SourceSpec) else "sink"
            for key, value, place in _texts(thing):
                if is_clear_secret(key, value):
                    where = f"the {kind} `{thing.name}`"
                    problem = SECRET_IN_CLEAR.at(place, key=key, where=where)
                    yield Finding(problem, Severity.WARNING, thing.name if kind == "sink" else "")
        for key, value in spec.spark.items():
            if is_clear_secret(key, value):
                yield Finding(SECRET_IN_SETTINGS.at(spec.at("spark", key), key=key), Severity.WARNING)


def is_clear_secret(key: str, value: str) -> bool:
    """Whether a text is a secret by the name of its key, or has one in it."""
    return masked(key, value) != value


def _texts(thing: SourceSpec | SinkSpec) -> Iterator[tuple[str, str, Position | None]]:
    """The keys of a connector that have a plain text, and its options."""
    for name, field in type(thing.options).model_fields.items():
        value, key = getattr(thing.options, name), field.alias or name
        if isinstance(value, str):
            yield key, value, thing.at(key)
    for key, value in thing.options.options.items():
        if isinstance(value, str):
            yield key, value, thing.at("options", key)


# A rule over keys that count at a first start only.


class FirstStartOnly(Rule):
    """Where a source starts counts where no checkpoint says how far was read: later starts go on from there,
    whatever the key says by then."""

    entries = {FIRST_START_ONLY: Severity.ADVICE}
    example = """
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, start: latest}   # it was earliest
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        graph, spec = situation.graph, situation.spec
        for source in spec.sources if None not in graph.reads.values() else ():
            keys = source_side(source.connector).first_start_keys
            written = [key for key in keys if (key,) in source.places]
            readers = graph.readers(source.name)
            going_on = [sink.name for sink in readers if sink.name in situation.reached]
            for key in written if going_on and not source.static else ():
                sinks = ", ".join(f"`{name}`" for name in going_on)
                problem = FIRST_START_ONLY.at(source.at(key), key=key, source=source.name, sinks=sinks)
                yield Finding(problem, Severity.ADVICE)


# A rule over keys that count for finished data only.


class FinishedDataOnly(Rule):
    """A stream has no end: where reading ends counts for a static source, and under `run --batch`."""

    entries = {FINISHED_DATA_ONLY: Severity.ADVICE}
    example = """
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, end: {time: "2026-01-31"}}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            keys = source_side(source.connector).batch_keys
            for key in keys if not source.static else ():
                if (key,) in source.places:
                    problem = FINISHED_DATA_ONLY.at(source.at(key), key=key, source=source.name)
                    yield Finding(problem, Severity.ADVICE)
