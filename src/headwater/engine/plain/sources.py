"""What a plain query reads, found in its analysed plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headwater.engine.facts import idle_options
from headwater.engine.inputs import analysed, kind_of, nodes_of
from headwater.plan import SourceFacts
from headwater.plan.formats import name_for, place_of, source_format
from headwater.values.secret_names import masked


@dataclass(frozen=True)
class Leaf:
    """One place in a plan where rows come in."""

    format: str
    options: Mapping[str, str]
    streaming: bool
    node: Any = field(compare=False)
    places: tuple[str, ...] = ()
    own_code: bool = False


@dataclass(frozen=True)
class PlainSources:
    """The sources of a query, and the streams among them as DataFrames, by name."""

    facts: tuple[SourceFacts, ...]
    streams: Mapping[str, DataFrame]


def plain_sources(frame: DataFrame) -> PlainSources:
    """Everything that a query reads and that lies outside of the program."""
    leaves = list(_distinct(_leaves(analysed(frame))))
    named: dict[str, list[Leaf]] = {}
    names: dict[tuple[object, ...], str] = {}
    for leaf in leaves:
        same = (leaf.format, tuple(sorted(leaf.options.items())), leaf.places, leaf.streaming)
        if same not in names:
            names[same] = _free_name(name_for(leaf.format, leaf.places), named)
        named.setdefault(names[same], []).append(leaf)
    facts = tuple(_facts(name, same) for name, same in named.items())
    streams = {name: _stream(same, frame) for name, same in named.items() if same[0].streaming}
    return PlainSources(facts, streams)


def _stream(leaves: list[Leaf], frame: DataFrame) -> DataFrame:
    """All readers of one stream in one DataFrame, by which the plan's walk knows each of them."""
    first, *others = (_frame_of(leaf.node, frame) for leaf in leaves)
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
    """The partitions that a source was told to make; 0 where only Spark or its server decides."""
    given = {key.lower(): value for key, value in options.items()}.get("numpartitions", "")
    return int(given) if given.isdigit() else 0


def _leaves(plan: Any) -> Iterator[Leaf]:
    for node in nodes_of(plan):
        match kind_of(node):
            case "StreamingRelation":
                source = node.dataSource()
                options = _pairs(source.options())
                yield Leaf(str(source.className()), options, True, node, place_of(options))
            case "StreamingRelationV2":
                options = dict(node.extraOptions().asCaseSensitiveMap())
                own = "PythonTable" in str(node.table().getClass().getName())
                yield Leaf(str(node.sourceName()), options, True, node, place_of(options), own)
            case "LogicalRelation":
                yield from _static_files(node)
            case "DataSourceV2Relation":
                yield Leaf(str(node.table().name()), {}, False, node, (str(node.table().name()),))


def _static_files(node: Any) -> Iterator[Leaf]:
    relation = node.relation()
    if kind_of(relation) != "HadoopFsRelation":
        # Of other static relations, such as those of JDBC, only the name is told.
        yield Leaf(kind_of(relation), {}, False, node)
        return
    paths = relation.location().rootPaths()
    places = tuple(str(paths.apply(index).toString()) for index in range(paths.size()))
    yield Leaf(str(relation.fileFormat().toString()).lower(), {}, False, node, places)


def _distinct(leaves: Iterator[Leaf]) -> Iterator[Leaf]:
    """What is equal shares one source when the query starts; what is joined with itself is not equal."""
    seen: list[Any] = []
    for leaf in leaves:
        if leaf.node not in seen:
            seen.append(leaf.node)
            yield leaf


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def _frame_of(node: Any, frame: DataFrame) -> DataFrame:
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, node)
    return ClassicDataFrame(rows, spark)


def _pairs(java: Any) -> dict[str, str]:
    pairs = java.toSeq()
    found = (pairs.apply(index) for index in range(pairs.size()))
    return {str(pair._1()): str(pair._2()) for pair in found}
