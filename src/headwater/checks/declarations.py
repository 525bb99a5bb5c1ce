"""Rules about declarations; they do not need Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.checks.rules import Finding, Match, Severity, Situation, pipeline_rule
from headwater.connectors import all_connectors, sink_side, source_side
from headwater.errors import Entry
from headwater.errors.catalogue.running import (
    DEDUP_NEEDS_WATERMARK,
    SINK_MODE_UNSUPPORTED,
    WATERMARK_COLUMN_NOT_FOUND,
    WATERMARK_TYPE_INVALID,
)
from headwater.plan.predicates import columns_of, missing_secrets, mode_problem, watermark_problem
from headwater.spec import Mode, SourceSpec
from headwater.values import capitalized, quoted
from headwater.values.secrets import masked


@pipeline_rule(
    "HW-DECLARATION-UNUSED",
    "{kind} `{name}`: no sink reads it.",
    "Remove it, or add a sink that reads it.",
    Severity.WARNING,
    example="""
        tables:
          large: SELECT * FROM orders WHERE amount > 10
        sinks:
          orders: {reads: orders, connector: console}
    """,
    whole=True,
)
def unused_declaration(situation: Situation) -> Iterator[Match]:
    """A source or table that no sink reads has no effect. Usually a name is misspelled."""
    graph, spec = situation.graph, situation.spec
    if None in graph.reads.values():
        return
    names = {name.lower(): name for name in spec.names}
    used = set(graph.upstream(*(names[sink.reads.lower()] for sink in spec.sinks)))
    for thing in spec.readable:
        if thing.name not in used:
            kind = "source" if thing in spec.sources else "table"
            table = thing.name if kind == "table" else ""
            yield Match.at(thing.position, table=table, kind=capitalized(kind), name=thing.name)


@pipeline_rule(
    entries=[SINK_MODE_UNSUPPORTED],
    example="""
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json, mode: update}
    """,
)
def sink_mode(situation: Situation) -> Iterator[Finding]:
    """Each connector supports certain output modes, regardless of the query."""
    for sink in situation.spec.sinks:
        if problem := mode_problem(sink):
            yield Finding(problem, sink=sink.name)


@pipeline_rule(
    "HW-COMPLETE-TO-APPEND-SINK",
    "Sink `{sink}` ({connector}): complete mode appends the whole result again with every batch.",
    "Set `mode: update` to write only changed rows. Readers then use the latest message of each key.",
    Severity.WARNING,
    example="""
        sinks:
          totals:
            reads: totals
            connector: kafka
            bootstrap_servers: localhost:9092
            topic: totals
            value: json
            mode: complete
    """,
)
def complete_to_append_sink(situation: Situation) -> Iterator[Match]:
    """Complete mode writes the whole result with every batch. A sink that only appends, such as a Kafka
    topic, stores all these results one after the other and grows with the number of batches."""
    for sink in situation.spec.sinks:
        if sink.mode is Mode.COMPLETE and sink_side(sink.connector).appends:
            yield Match.at(sink.at("mode"), sink=sink.name, connector=sink.connector)


@pipeline_rule(
    "HW-SECRET-NOT-SET",
    "Secret `{name}` is not set in this environment. The run requires it.",
    "Before the run, set `export {name}=…`, or `export {name}_FILE=…` with the path of a file that contains "
    "it.",
    Severity.WARNING,
    example="""
        sources:
          ticks: {connector: rate, options: {key: "${secret:NOT_SET_HERE}"}}
    """,
    lasting=False,
)
def secret_not_set(situation: Situation) -> Iterator[Match]:
    """A secret that is missing here can be set where the pipeline runs, so this is a warning. A run without
    the secret fails."""
    for thing in situation.spec.connected:
        for name, place in missing_secrets(thing, situation.environ):
            yield Match.at(place, name=name)


@pipeline_rule(
    "HW-SQL-UNKNOWN-OFFLINE",
    "Table `{name}`: its SQL cannot be parsed without Spark, so it was not checked.",
    "Run `headwater check` without `--offline`.",
    Severity.NOTE,
    example="""
        tables:
          parts: SELECT raw:order.id FROM orders
    """,
    lasting=False,
)
def sql_unknown_offline(situation: Situation) -> Iterator[Match]:
    """Only Spark can parse some SQL. An offline check skips it and never reports an error for it."""
    for table in situation.spec.tables:
        if situation.graph.reads.get(table.name) is None:
            yield Match.at(table.position, table=table.name, name=table.name)


# Problems with columns in a declaration, if columns and types are known without Spark.


@pipeline_rule(
    entries=[WATERMARK_COLUMN_NOT_FOUND, WATERMARK_TYPE_INVALID],
    example="""
        sources:
          orders:
            connector: files
            path: orders/
            format: json
            schema: {id: int, at: string}
            watermark: {column: at, delay: 10 minutes}
    """,
)
def watermark_column(situation: Situation) -> Iterator[Finding]:
    """A watermark requires a timestamp column. If a source declares its columns, the check does not need
    Spark."""
    for source in situation.spec.sources:
        columns = columns_of(source) if source.watermark else None
        if columns is not None and (problem := watermark_problem(source, columns)):
            yield Finding(problem)


@pipeline_rule(
    entries=[DEDUP_NEEDS_WATERMARK],
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, at: timestamp}}
        tables:
          once: {reads: orders, deduplicate: id, within: watermark}
    """,
    whole=True,
)
def dedup_without_watermark(situation: Situation) -> Iterator[Match]:
    """`within: watermark` requires a watermark upstream. This check does not inspect SQL and Python tables,
    which can declare one."""
    tables = {table.name.lower(): table for table in situation.spec.tables}
    sources = {source.name.lower(): source for source in situation.spec.sources}
    # With Spark's facts, the query rule is more precise.
    for table in () if situation.facts else situation.spec.tables:
        if table.deduplicate is None or not table.deduplicate.within_watermark:
            continue
        read = table.deduplicate.reads.lower()
        while read in tables and not tables[read].watermark and (inner := tables[read].deduplicate):
            read = inner.reads.lower()
        if read in sources and not sources[read].watermark and not sources[read].static:
            source = f"`{sources[read].name}`"
            yield Match.at(table.deduplicate.position, table=table.name, name=table.name, source=source)


class _Rejections(Mapping[Entry, Severity]):
    """The column errors of sinks. Connectors are loaded on first use because one can fail to load."""

    def __getitem__(self, entry: Entry) -> Severity:
        return dict.fromkeys(self, Severity.ERROR)[entry]

    def __iter__(self) -> Iterator[Entry]:
        sinks = (each.sink for each in all_connectors().values() if each.sink)
        return iter(dict.fromkeys(entry for sink in sinks for entry in sink.rejections))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True


@pipeline_rule(
    entries=_Rejections(),
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int, shop: string}}
        sinks:
          orders: {reads: orders, connector: files, path: out/, format: parquet, partition_by: day}
    """,
)
def sink_columns(situation: Situation) -> Iterator[Finding]:
    """A sink that reads a source directly receives its columns, so a sink that cannot write them is reported
    without Spark."""
    sources = {source.name.lower(): source for source in situation.spec.sources if not source.static}
    for sink in situation.spec.sinks:
        side, source = sink_side(sink.connector), sources.get(sink.reads.lower())
        # If the sink does not support the mode, its columns are not checked.
        columns = columns_of(source) if source and sink.mode.value in side.modes else None
        for problem in side.problems(sink, columns) if columns is not None else ():
            yield Finding(problem, sink=sink.name)


# Secrets in plain text in a pipeline file.


SECRET_PLAINTEXT = Entry(
    "{where}: `{key}` is a secret in plain text. It is stored, displayed and logged like any other value.",
    "Under `options:`, write it as `${{secret:NAME}}` (in Python, `hw.secret('NAME')`), and set the "
    "environment variable `NAME`, or `NAME_FILE` with the path of a file that contains it.",
    code="HW-SECRET-PLAINTEXT",
)
SECRET_IN_SPARK_SETTINGS = Entry(
    "Spark setting `{key}` is a secret in plain text. Spark settings are stored, displayed and sent to every "
    "executor.",
    "Remove it from the file. Use a credential provider, a machine role, or a `spark-defaults.conf` that "
    "only your user can read.",
    code="HW-SECRET-IN-SPARK-SETTINGS",
)


@pipeline_rule(
    entries=[SECRET_PLAINTEXT, SECRET_IN_SPARK_SETTINGS],
    severity=Severity.WARNING,
    example="""
        sources:
          orders:
            connector: python
            class: feeds.py:Orders
            options: {api_token: 4f9d2c}   # api_token: "${secret:ORDERS_TOKEN}"
    """,
)
def secret_plaintext(situation: Situation) -> Iterator[Match]:
    """A password in a pipeline file ends up in version control, query metadata, plans and logs. Headwater
    resolves `${secret:NAME}` when it needs the value and never displays it."""
    spec = situation.spec
    for thing in spec.connected:
        fields, options = type(thing.options).model_fields, thing.options.options
        texts = [((each.alias or name,), getattr(thing.options, name)) for name, each in fields.items()]
        for keys, value in [*texts, *((("options", key), value) for key, value in options.items())]:
            if isinstance(value, str) and is_clear_secret(keys[-1], value):
                kind, sink = ("source", "") if isinstance(thing, SourceSpec) else ("sink", thing.name)
                where = f"{capitalized(kind)} `{thing.name}`"
                yield Match.at(thing.at(*keys), sink=sink, key=keys[-1], where=where)
    for key, value in spec.spark.items():
        if is_clear_secret(key, value):
            yield Match.at(spec.at("spark", key), entry=SECRET_IN_SPARK_SETTINGS, key=key)


def is_clear_secret(key: str, value: str) -> bool:
    """Whether the key or the contents of a string suggest a secret."""
    return masked(key, value) != value


# A rule about keys that apply only at the first start.


@pipeline_rule(
    "HW-OPTION-IGNORED-AFTER-FIRST-START",
    "Source `{source}`: `{key}` applies only at the first start. It is ignored because a checkpoint exists "
    "for {sinks}.",
    "To apply `{key}`, start from scratch: give the sink a new name and a new output path.",
    Severity.NOTE,
    example="""
        sources:
          clicks:
            connector: kafka
            bootstrap_servers: localhost:9092
            topic: clicks
            start: latest   # before: earliest
    """,
    lasting=False,
)
def option_ignored_after_first_start(situation: Situation) -> Iterator[Match]:
    """The start position of a source applies only if there is no checkpoint. Later starts resume from the
    checkpoint, regardless of the key."""
    graph, spec = situation.graph, situation.spec
    for source in spec.sources if None not in graph.reads.values() else ():
        readers = [] if source.static else graph.readers(source.name)
        resuming = [sink.name for sink in readers if sink.name in situation.reached]
        for key in source_side(source.connector).first_start_keys if resuming else ():
            if (key,) in source.places:
                yield Match.at(source.at(key), key=key, source=source.name, sinks=quoted(resuming))


# A rule about keys that apply only to bounded data.


@pipeline_rule(
    "HW-OPTION-IGNORED-ON-STREAM",
    "Source `{source}`: `{key}` is ignored on a stream. It applies only to `run --batch` and to `static: "
    "true`.",
    "If you do not use `run --batch`, remove `{key}`.",
    Severity.NOTE,
    example="""
        sources:
          clicks:
            connector: kafka
            bootstrap_servers: localhost:9092
            topic: clicks
            end: {timestamp: "2026-01-31"}
    """,
)
def option_ignored_on_stream(situation: Situation) -> Iterator[Match]:
    """A stream is unbounded. An end position applies only to a static source and to `run --batch`."""
    for source in situation.spec.sources:
        for key in () if source.static else source_side(source.connector).batch_keys:
            if (key,) in source.places:
                yield Match.at(source.at(key), key=key, source=source.name)
