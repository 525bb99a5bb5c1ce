"""Everything up to the start: DataFrames built, Spark's verdicts heard, facts taken. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headwater.connectors import sink_side, source_side
from headwater.engine.analysis import batch_problems, code_problems, sink_problems
from headwater.engine.build import Builder
from headwater.engine.held import held_by
from headwater.engine.session import PipelineSession
from headwater.engine.settings import FROZEN, Setting, query_settings
from headwater.engine.sql_functions import register_functions
from headwater.engine.user_code import ship_user_code
from headwater.errors import PipelineError, Problem
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.spec import PipelineSpec, SinkSpec


@dataclass(frozen=True)
class Prepared:
    """A pipeline that Spark has analysed, and all that is against starting it."""

    session: PipelineSession
    builder: Builder
    graph: Graph
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
    unregistered = register_functions(session.spark, spec, builder.load)
    graph = builder.graph()
    frames: dict[str, DataFrame] = {}
    problems = {str(problem): ("", problem) for problem in (*unregistered, *graph.problems)}
    # SQL that calls a function which is not there would be told for what the function is to blame.
    known = () if unregistered else [sink for sink in spec.sinks if _is_declared(spec, sink.reads)]
    for sink in known:
        try:
            frames[sink.name] = builder.frame(_canonical(spec, sink.reads), graph)
        except PipelineError as error:
            found = list(error.problems)
        else:
            found = [] if batch else list(sink_problems(builder, sink, frames[sink.name]))
            found += code_problems(builder, sink)
        for problem in found:
            # One broken table stops several sinks; it is told once.
            problems.setdefault(str(problem), (sink.name, problem))
    if batch:
        problems |= {str(problem): ("", problem) for problem in batch_problems(builder)}
    return Prepared(session, builder, graph, frames, tuple(problems.values()))


def settings_of(
    session: PipelineSession, spec: PipelineSpec, kept: Mapping[str, str] | None = None
) -> tuple[Setting, ...]:
    """The settings of a query; what froze at its first start is kept."""
    return query_settings(spec, session.given, session.cores, kept or {})


def facts_of(
    prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, settings: tuple[Setting, ...]
) -> QueryFacts:
    """What Spark will do for one sink."""
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
    held = held_by(prepared.session.spark, sink, frame)
    return QueryFacts(
        sink=sink.name,
        connector=sink.connector,
        mode=sink.mode.value,
        root=str(spec.root),
        timezone=spec.timezone,
        sources=sources,
        output_schema={field.name: field.dataType.simpleString() for field in frame.schema.fields},
        places=sink_side(sink.connector).places(sink.options),
        held_schema=held.schema,
        held_batch=held.batch,
        held_outside=held.outside,
        held_unreadable=held.unreadable,
        settings={setting.key: setting.value for setting in settings if setting.key in FROZEN},
        passed_over={setting.key: setting.passed_over for setting in settings if setting.passed_over},
        spark_version=prepared.session.spark.version,
    )


def _is_declared(spec: PipelineSpec, name: str) -> bool:
    return name.lower() in {declared.lower() for declared in spec.names}


def _canonical(spec: PipelineSpec, name: str) -> str:
    """The name as it was declared; SQL does not mind upper and lower case, so neither do we."""
    return next(declared for declared in spec.names if declared.lower() == name.lower())
