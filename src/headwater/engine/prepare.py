"""Everything up to the start: DataFrames built, Spark's verdicts heard, facts taken. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headwater.connectors import source_side
from headwater.engine.analysis import held_schema, sink_problems
from headwater.engine.build import Builder
from headwater.engine.session import PipelineSession
from headwater.engine.settings import FROZEN, Setting, query_settings
from headwater.engine.user_code import ship_user_code
from headwater.errors import PipelineError, Problem
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.spec import PipelineSpec, SinkSpec


@dataclass(frozen=True)
class Prepared:
    """A pipeline that Spark has analysed, and all that is against starting it."""

    session: PipelineSession
    builder: Builder
    graph: Graph | None
    frames: Mapping[str, DataFrame]
    """The DataFrame of each sink's table, by the name of the sink."""
    problems: tuple[tuple[str, Problem], ...]
    """Problems with the name of the sink that they stop; an empty name for the whole pipeline."""


def prepare(session: PipelineSession, spec: PipelineSpec, *, batch: bool = False) -> Prepared:
    """Ship the user's code, build every sink's DataFrame, and ask Spark about each."""
    # Spark binds the time zone and other settings while it analyses, not only while it runs.
    session.apply(settings_of(session, spec))
    code = ship_user_code(spec, session.spark.sparkContext)
    builder = Builder(session.spark, spec, code, batch=batch)
    try:
        graph = builder.graph()
    except PipelineError as error:
        return Prepared(session, builder, None, {}, tuple(("", problem) for problem in error.problems))
    frames: dict[str, DataFrame] = {}
    problems: dict[str, tuple[str, Problem]] = {}
    for sink in spec.sinks:
        try:
            frames[sink.name] = builder.frame(_canonical(spec, sink.reads), graph)
        except PipelineError as error:
            found = list(error.problems)
        else:
            found = [] if batch else list(sink_problems(builder, sink, frames[sink.name]))
        for problem in found:
            # One broken table stops several sinks; it is told once.
            problems.setdefault(str(problem), (sink.name, problem))
    return Prepared(session, builder, graph, frames, tuple(problems.values()))


def settings_of(
    session: PipelineSession, spec: PipelineSpec, stored: QueryFacts | None = None
) -> tuple[Setting, ...]:
    """The settings of a query; what froze at its first start is kept."""
    return query_settings(spec, session.given, session.cores, stored.settings if stored else {})


def facts_of(
    prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, settings: tuple[Setting, ...]
) -> QueryFacts:
    """What Spark will do for one sink."""
    assert prepared.graph is not None, "facts are taken of pipelines that have a graph"
    frame = prepared.frames[sink.name]
    needed = set(prepared.graph.upstream(_canonical(spec, sink.reads)))
    sources = tuple(
        SourceFacts(
            source.name,
            source.connector,
            source_side(source.connector).places(source.options),
            streaming=not source.static,
        )
        for source in spec.sources
        if source.name in needed
    )
    return QueryFacts(
        sink=sink.name,
        connector=sink.connector,
        mode=sink.mode.value,
        root=str(spec.root),
        timezone=spec.timezone,
        sources=sources,
        output_schema={field.name: field.dataType.simpleString() for field in frame.schema.fields},
        held_schema=held_schema(prepared.session.spark, sink, frame),
        settings={setting.key: setting.value for setting in settings if setting.key in FROZEN},
        passed_over={setting.key: setting.passed_over for setting in settings if setting.passed_over},
        spark_version=prepared.session.spark.version,
    )


def _canonical(spec: PipelineSpec, name: str) -> str:
    """The name as it was declared; SQL does not mind upper and lower case, so neither do we."""
    return next(declared for declared in spec.names if declared.lower() == name.lower())
