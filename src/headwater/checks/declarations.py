"""Rules over what was declared; they need no Spark."""

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
from headwater.spec import Mode, PipelineSpec, SourceSpec
from headwater.values import quoted
from headwater.values.secrets import masked


@pipeline_rule(
    "HW-DECLARATION-UNUSED",
    "The {kind} `{name}` is read by no sink.",
    "Take it out, or add a sink that reads it.",
    Severity.WARNING,
    example="""
        tables:
          large: SELECT * FROM orders WHERE amount > 10
        sinks:
          orders: {reads: orders, connector: console}
    """,
    whole=True,
)
def unused_table(situation: Situation) -> Iterator[Match]:
    """A source or table that no sink reads does nothing; most often a name is misspelt somewhere."""
    graph, spec = situation.graph, situation.spec
    if None in graph.reads.values():
        return
    names = {name.lower(): name for name in spec.names}
    used = set(graph.upstream(*(names[sink.reads.lower()] for sink in spec.sinks)))
    for thing in spec.readable:
        if thing.name not in used:
            kind = "source" if thing in spec.sources else "table"
            table = thing.name if kind == "table" else ""
            yield Match.at(thing.position, table=table, kind=kind, name=thing.name)


@pipeline_rule(
    entries=[SINK_MODE_UNSUPPORTED],
    example="""
        sinks:
          totals: {reads: totals, connector: files, path: out/, format: json, mode: update}
    """,
)
def sink_mode(situation: Situation) -> Iterator[Finding]:
    """A connector takes some modes and no others, whatever the query does."""
    for sink in situation.spec.sinks:
        if problem := mode_problem(sink):
            yield Finding(problem, sink=sink.name)


@pipeline_rule(
    "HW-COMPLETE-TO-APPEND-SINK",
    "In complete mode the sink `{sink}` ({connector}) gets the whole result with each batch, and adds all "
    "of it to what is there.",
    "Use `mode: update`, which writes only what has changed; readers take the last message of each key.",
    Severity.WARNING,
    example="""
        sinks:
          totals:
            reads: totals
            connector: kafka
            servers: localhost:9092
            topic: totals
            value: json
            mode: complete
    """,
)
def complete_appended(situation: Situation) -> Iterator[Match]:
    """Complete mode gives the whole result with each batch. A sink that only adds, such as a topic, holds
    every such result one after the other, and grows with the number of batches."""
    for sink in situation.spec.sinks:
        if sink.mode is Mode.COMPLETE and sink_side(sink.connector).appends:
            yield Match.at(sink.at("mode"), sink=sink.name, connector=sink.connector)


def unqueried(spec: PipelineSpec) -> Iterator[Finding]:
    """A warning for each sink whose rows nobody can query when a command runs the pipeline."""
    for sink in spec.sinks:
        if sink_side(sink.connector).in_process:
            problem = MEMORY_TABLE_UNREACHABLE.at(sink.at("connector"), sink=sink.name)
            yield Finding(problem, Severity.WARNING, sink.name)


MEMORY_TABLE_UNREACHABLE = Entry(
    "The rows of the sink `{sink}` are kept by the process of the run, and from the command line nobody can "
    "query them.",
    "Start the pipeline in Python and use `run.sql(…)`, or use a `files` or `console` sink.",
    code="HW-MEMORY-TABLE-UNREACHABLE",
)


@pipeline_rule(
    entries=[MEMORY_TABLE_UNREACHABLE],
    severity=Severity.WARNING,
    example="""
        sinks:
          totals: {reads: totals, connector: memory, mode: complete}
    """,
    lasting=False,
)
def table_not_queried(situation: Situation) -> Iterator[Finding]:
    """Commands can't query the table; a Python program that declares or loads the pipeline can."""
    if not situation.spec.in_program:
        yield from unqueried(situation.spec)


@pipeline_rule(
    "HW-SECRET-NOT-SET",
    "The secret `{name}` is not set here; the run will need it.",
    "Set it before the run: `export {name}=…`, or `export {name}_FILE=` the path of a file that holds it.",
    Severity.WARNING,
    example="""
        sources:
          ticks: {connector: rate, options: {key: "${secret:NOT_SET_HERE}"}}
    """,
    lasting=False,
)
def secret_not_set(situation: Situation) -> Iterator[Match]:
    """A secret that is not set here may well be set where the pipeline runs; the run itself refuses."""
    for thing in situation.spec.connected:
        for name, place in missing_secrets(thing, situation.environ):
            yield Match.at(place, name=name)


@pipeline_rule(
    "HW-SQL-UNKNOWN-OFFLINE",
    "The SQL of the table `{name}` can't be read without Spark.",
    "Nothing to do: the full check (`headwater check`) reads it.",
    Severity.ADVICE,
    example="""
        tables:
          parts: SELECT raw:order.id FROM orders
    """,
    lasting=False,
)
def not_known_offline(situation: Situation) -> Iterator[Match]:
    """SQL that only Spark's own parser reads; without Spark it is unknown, never an error."""
    for table in situation.spec.tables:
        if situation.graph.reads.get(table.name) is None:
            yield Match.at(table.position, table=table.name, name=table.name)


# What is wrong with columns that a declaration names, told from columns and types that are known.


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
    """A watermark needs a column with a time; where a source says its columns, no Spark is needed to see."""
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
          once: {reads: orders, distinct: id, within: watermark}
    """,
    whole=True,
)
def within_no_watermark(situation: Situation) -> Iterator[Match]:
    """`within: watermark` needs a watermark above; SQL and Python tables may make one: they are trusted."""
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
            yield Match.at(table.distinct.position, table=table.name, name=table.name, source=source)


class _Rejections(Mapping[Entry, Severity]):
    """What sinks have against columns. It loads the connectors only when asked, since one may be broken."""

    def __getitem__(self, entry: Entry) -> Severity:
        return dict.fromkeys(self, Severity.ERROR)[entry]

    def __iter__(self) -> Iterator[Entry]:
        return (entry for each in all_connectors().values() if each.sink for entry in each.sink.rejections)

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
    """A sink that reads a source directly gets its columns; what the sink has against them is known early."""
    sources = {source.name.lower(): source for source in situation.spec.sources if not source.static}
    for sink in situation.spec.sinks:
        side, source = sink_side(sink.connector), sources.get(sink.reads.lower())
        # In a mode that it does not take, the sink is not asked about rows.
        columns = columns_of(source) if source and sink.mode.value in side.modes else None
        for problem in side.problems(sink, columns) if columns is not None else ():
            yield Finding(problem, sink=sink.name)


# Secrets that stand in a pipeline file for everybody to read.


SECRET_PLAINTEXT = Entry(
    "The value of `{key}` in {where} is a secret in clear: it is stored, shown and logged like any other "
    "text.",
    "Write it under `options:` as `${{secret:NAME}}` (in Python `hw.secret('NAME')`) and set the environment "
    "variable NAME, or NAME_FILE for a file that holds it.",
    code="HW-SECRET-PLAINTEXT",
)
SECRET_IN_SPARK_SETTINGS = Entry(
    "The setting `{key}` of Spark is a secret in clear, and settings are stored, shown and sent to every "
    "executor.",
    "Take it out of the file: let the store's own means bring it (a credential provider, a role of the "
    "machine, `spark-defaults.conf` readable by the user alone).",
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
def secret_in_clear(situation: Situation) -> Iterator[Match]:
    """A password in a pipeline file is in the version control, in facts, plans and logs. `${secret:NAME}`
    is looked up when it is needed and shown nowhere."""
    spec = situation.spec
    for thing in spec.connected:
        fields, options = type(thing.options).model_fields, thing.options.options
        texts = [((each.alias or name,), getattr(thing.options, name)) for name, each in fields.items()]
        for keys, value in [*texts, *((("options", key), value) for key, value in options.items())]:
            if isinstance(value, str) and is_clear_secret(keys[-1], value):
                kind, sink = ("source", "") if isinstance(thing, SourceSpec) else ("sink", thing.name)
                where = f"the {kind} `{thing.name}`"
                yield Match.at(thing.at(*keys), sink=sink, key=keys[-1], where=where)
    for key, value in spec.spark.items():
        if is_clear_secret(key, value):
            yield Match.at(spec.at("spark", key), entry=SECRET_IN_SPARK_SETTINGS, key=key)


def is_clear_secret(key: str, value: str) -> bool:
    """Whether a text is a secret by the name of its key, or has one in it."""
    return masked(key, value) != value


# A rule over keys that count at a first start only.


@pipeline_rule(
    "HW-OPTION-IGNORED-AFTER-FIRST-START",
    "`{key}` of the source `{source}` counts at a first start only: {sinks} goes on from its checkpoint.",
    "Nothing is to be done. To start there all the same, give the sink another name, or remove its "
    "checkpoint.",
    Severity.ADVICE,
    example="""
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, start: latest}   # it was earliest
    """,
    lasting=False,
)
def first_start_only(situation: Situation) -> Iterator[Match]:
    """Where a source starts counts where no checkpoint says how far was read: later starts go on from there,
    whatever the key says by then."""
    graph, spec = situation.graph, situation.spec
    for source in spec.sources if None not in graph.reads.values() else ():
        readers = [] if source.static else graph.readers(source.name)
        resuming = [sink.name for sink in readers if sink.name in situation.reached]
        for key in source_side(source.connector).first_start_keys if resuming else ():
            if (key,) in source.places:
                yield Match.at(source.at(key), key=key, source=source.name, sinks=quoted(resuming))


# A rule over keys that count for finished data only.


@pipeline_rule(
    "HW-OPTION-IGNORED-ON-STREAM",
    "`{key}` of the source `{source}` counts for finished data only (`run --batch`, `static: true`): a "
    "stream goes on.",
    "Nothing is to be done if it is there for `run --batch`; else leave `{key}` out.",
    Severity.ADVICE,
    example="""
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, end: {time: "2026-01-31"}}
    """,
)
def finished_data_only(situation: Situation) -> Iterator[Match]:
    """A stream has no end: where reading ends counts for a static source, and under `run --batch`."""
    for source in situation.spec.sources:
        for key in () if source.static else source_side(source.connector).batch_keys:
            if (key,) in source.places:
                yield Match.at(source.at(key), key=key, source=source.name)
