"""The facts of a plain query: the same plain data as for the query of a declared sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.engine.builder import SPARK_ERRORS, columns_in
from headwater.engine.facts import idle_options, of_steps, steps_in
from headwater.engine.plan_record import Owners
from headwater.engine.prepare import as_refusal, refused_by_spark, trigger_refusal_of
from headwater.engine.session import FROZEN, TIMEZONE, cores_of
from headwater.plan import QueryFacts, SourceFacts
from headwater.plan.predicates import SinkFormat, name_for, place_of, sink_format, source_format
from headwater.spark.plans import PlanReader, frame_of_plan
from headwater.spark.private import JavaObject, class_name, items_of, kind_of, pairs_of
from headwater.spark.query import stream_write, writer_session
from headwater.spark.session import table_provider
from headwater.spec import Mode
from headwater.values import Duration
from headwater.values.secrets import masked

# What a plain query reads, found in its analyzed plan.


@dataclass(frozen=True)
class Leaf:
    """One leaf of a plan that reads rows."""

    format: str
    options: Mapping[str, str]
    streaming: bool
    node: JavaObject = field(compare=False)
    places: tuple[str, ...] = ()
    own_code: bool = False


@dataclass(frozen=True)
class PlainSources:
    """The sources of a query, and the streams among them as DataFrames, by name."""

    facts: tuple[SourceFacts, ...]
    streams: Mapping[str, DataFrame]


def plain_sources(frame: DataFrame) -> PlainSources:
    """Everything that a query reads from outside the program."""
    named: dict[str, list[Leaf]] = {}
    names: dict[tuple[object, ...], str] = {}
    for leaf in _leaves(PlanReader.of(frame)):
        same = (leaf.format, tuple(sorted(leaf.options.items())), leaf.places, leaf.streaming)
        if same not in names:
            names[same] = _free_name(name_for(leaf.format, leaf.places), named)
        named.setdefault(names[same], []).append(leaf)
    facts = tuple(_facts(name, same) for name, same in named.items())
    streams = {name: _stream(same, frame) for name, same in named.items() if same[0].streaming}
    return PlainSources(facts, streams)


def _stream(leaves: list[Leaf], frame: DataFrame) -> DataFrame:
    """All readers of one stream in one DataFrame, so that the plan's walk recognizes each of them."""
    first, *others = (frame_of_plan(frame.sparkSession, leaf.node) for leaf in leaves)
    for other in others:
        first = first.union(other) if other.schema == first.schema else first
    return first


def _facts(name: str, leaves: list[Leaf]) -> SourceFacts:
    leaf = leaves[0]
    known = source_format(leaf.format)
    return SourceFacts(
        name,
        known.connector,
        tuple(masked("", place) for place in leaf.places),
        streaming=leaf.streaming,
        replayable=known.replayable,
        options={key: masked(key, value) for key, value in sorted(leaf.options.items())},
        reads=len(leaves),
        known=known.known or leaf.own_code,
        made_while_running=known.made_while_running,
        continuous=known.continuous and not leaf.own_code,
        real_time=known.real_time and not leaf.own_code,
        slots=_slots(leaf.options) if known.continuous else 0,
        idle_options=idle_options(leaf.options, known.idle_options),
        own_code=leaf.own_code,
    )


def _slots(options: Mapping[str, str]) -> int:
    """The configured number of partitions of a source; 0 if only Spark or its server decides."""
    given = {key.lower(): value for key, value in options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else 0


def _leaves(plan: PlanReader) -> Iterator[Leaf]:
    for node in plan.leaves:
        match kind_of(node):
            case "StreamingRelation":
                source = node.dataSource()
                options = pairs_of(source.options())
                yield Leaf(str(source.className()), options, True, node, place_of(options))
            case "StreamingRelationV2":
                options = dict(node.extraOptions().asCaseSensitiveMap())
                own = "PythonTable" in str(node.table().getClass().getName())
                yield Leaf(str(node.sourceName()), options, True, node, place_of(options), own)
            case "LogicalRelation":
                yield from _static_files(node)
            case "DataSourceV2Relation":
                yield Leaf(str(node.table().name()), {}, False, node, (str(node.table().name()),))


def _static_files(node: JavaObject) -> Iterator[Leaf]:
    relation = node.relation()
    kind = class_name(relation)
    if kind != "HadoopFsRelation":
        # For other static relations, such as JDBC, only the name is known.
        yield Leaf(kind, {}, False, node)
        return
    places = tuple(str(path.toString()) for path in items_of(relation.location().rootPaths()))
    yield Leaf(str(relation.fileFormat().toString()).lower(), {}, False, node, places)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


# The settings of a `DataStreamWriter`, read from its Java object, which has all of them.

_TRIGGER = re.compile(r"(\w+)Trigger(?:\((\d+)\))?")
_WORDS = {"ProcessingTime": "every", "Continuous": "continuous", "RealTime": "real time"}


@dataclass(frozen=True)
class WriterSettings:
    """Where and how a stream would be written, in plain values."""

    format: str
    mode: str = "append"
    trigger: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """The query's own name; empty if it has none."""
    table: str = ""
    """The table of `toTable`."""
    partitioned_by: tuple[str, ...] = ()


def writer_settings(writer: DataStreamWriter, path: str | None = None, table: str = "") -> WriterSettings:
    """What a PySpark writer would start."""
    told = stream_write(writer)
    options = told.options if path is None else {**told.options, "path": path}
    return WriterSettings(
        format=table_format(writer_session(writer), table, told.format) if table else told.format,
        mode=told.mode,
        trigger=trigger_text(told.trigger),
        options=options,
        name=options.get("queryname", ""),
        table=table,
        partitioned_by=told.partitioned_by,
    )


def table_format(spark: SparkSession, table: str, new: str) -> str:
    """The format of an existing table; a new one gets the format of the writer.

    For a table in a catalog other than Spark's own, only that catalog knows.
    """
    try:
        return table_provider(spark, table) or new
    except SPARK_ERRORS:
        own = table.count(".") < 2 or table.startswith("spark_catalog.")
        return new if own else "table"


def trigger_text(java: str) -> str:
    """A Spark trigger in the syntax of a pipeline file; Spark's own text if it is unknown."""
    found = _TRIGGER.fullmatch(java)
    if found is None:
        return java
    kind, milliseconds = found[1], int(found[2] or 0)
    if kind == "ProcessingTime" and milliseconds == 0:
        return "default"
    if kind in _WORDS:
        return f"{_WORDS[kind]} {Duration.parse(f'{milliseconds} milliseconds')}"
    return {"OneTime": "once", "AvailableNow": "available now"}.get(kind, java)


def plain_facts(
    frame: DataFrame, writer: WriterSettings, name: str, sink: SinkFormat | None = None
) -> QueryFacts:
    """What Spark would do for a stream that is written this way; the session is not changed."""
    spark = frame.sparkSession
    known = sink or sink_format(writer.format)
    sources = plain_sources(frame)
    steps = steps_in(frame, sources.streams, Owners.of({}))
    mode = Mode(writer.mode)
    refused = as_refusal(refused_by_spark(spark, frame, mode))
    return QueryFacts(
        sink=name,
        connector=known.connector,
        mode=writer.mode,
        root=os.getcwd(),
        timezone=spark.conf.get(TIMEZONE) or "",
        sources=sources.facts,
        output_schema=columns_in(frame),
        places=_places(writer),
        delivery=known.delivery,
        modes=known.modes,
        trigger=writer.trigger,
        cores=_cores(spark),
        **of_steps(steps),
        sink_continuous=known.continuous,
        sink_real_time=known.real_time,
        refusal=refused,
        trigger_refusal=None if refused else trigger_refusal_of(spark, frame, mode, writer.trigger),
        settings=_settings(spark),
        spark_version=spark.version,
    )


def _places(writer: WriterSettings) -> tuple[str, ...]:
    places = (writer.table,) if writer.table else place_of(writer.options)
    return tuple(masked("", place) for place in places)


def _cores(spark: SparkSession) -> int:
    context = spark.sparkContext
    return cores_of(
        str(context.master),
        dict(context.getConf().getAll()),
        machine_cores=os.cpu_count() or 1,
        running_cores=context.defaultParallelism,
    )


def _settings(spark: SparkSession) -> dict[str, str]:
    """What would freeze at the first start, as the program sets it."""
    found = {key: _setting(spark, key) for key in FROZEN}
    return {key: value for key, value in found.items() if value is not None}


def _setting(spark: SparkSession, key: str) -> str | None:
    """A setting, or its default; Spark does not know those of RocksDB before they are set."""
    try:
        return spark.conf.get(key)
    except SPARK_ERRORS:
        return None
