"""Everything up to the start: DataFrames built, Spark's verdicts heard, facts taken. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from headwater.engine.analysis import (
    as_refusal,
    batch_problems,
    code_problems,
    column_problems,
    refused_by_spark,
    sink_problems,
)
from headwater.engine.builder import Builder
from headwater.engine.class_path import late_problems
from headwater.engine.session import PipelineSession, Setting, query_settings
from headwater.engine.sql_functions import register_functions
from headwater.engine.user_code import ship_user_code
from headwater.errors import PipelineError, Problem
from headwater.plan import Graph, Refusal
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import Continuous


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
    refusals: Mapping[str, Refusal | None] = field(default_factory=dict)
    """What Spark has against the query of each sink."""


def prepare(
    session: PipelineSession,
    spec: PipelineSpec,
    *,
    batch: bool = False,
    starts: bool = False,
    ends_when_idle: bool = False,
    counted: Callable[[int], None] = lambda sinks: None,
) -> Prepared:
    """Ship the user's code, build every sink's DataFrame, and ask Spark about each.

    Nothing is written, but where a run `starts`. `counted` hears how many sinks have been asked about.
    """
    uncounted: set[str] = set()
    builder, unregistered = assemble(
        session,
        spec,
        batch=batch,
        starts=starts,
        ends_when_idle=ends_when_idle,
        counts=lambda name: name not in uncounted,
    )
    graph = builder.graph()
    uncounted |= _uncounted(spec, graph)
    frames, refusals = dict[str, DataFrame](), dict[str, Refusal | None]()
    problems = {str(problem): ("", problem) for problem in (*unregistered, *graph.problems)}
    # SQL that calls a function which is not there would be told for what the function is to blame.
    known = () if unregistered else [sink for sink in spec.sinks if _is_declared(spec, sink.reads)]
    for sink in known:
        try:
            frame = builder.frame(canonical(spec, sink.reads), graph)
            frames[sink.name] = builder.aside[canonical(spec, sink.reads)] if sink.sets_aside else frame
        except PipelineError as error:
            found = list(error.problems)
        else:
            refusals[sink.name], found = objections(builder, sink, frames[sink.name])
        counted(len(frames))
        for problem in found:
            # One broken table stops several sinks; it is told once.
            problems.setdefault(str(problem), (sink.name, problem))
    for name, problem in late_problems(spec, () if batch else session.late_jars).items():
        problems.setdefault(str(problem), (name, problem))
    if batch:
        problems |= {str(problem): ("", problem) for problem in batch_problems(builder)}
    return Prepared(session, builder, graph, frames, tuple(problems.values()), refusals)


def assemble(session: PipelineSession, spec: PipelineSpec, **how: Any) -> tuple[Builder, list[Problem]]:
    """All that comes before the first DataFrame, and the functions that SQL will miss."""
    # Spark binds the time zone and other settings while it analyses, not only while it runs.
    session.apply(settings_of(session, spec))
    builder = Builder(session.spark, spec, ship_user_code(spec, session.spark.sparkContext), **how)
    return builder, list(register_functions(session.spark, spec, builder.load))


def objections(builder: Builder, sink: SinkSpec, frame: DataFrame) -> tuple[Refusal | None, list[Problem]]:
    """What Spark has against the query of a sink, and all that is wrong with the sink."""
    of_code = list(code_problems(builder, sink))
    if builder.batch:
        return None, [*column_problems(builder, sink, frame), *of_code]
    refused = refused_by_spark(builder.spark, frame, sink.mode) if frame.isStreaming else None
    return as_refusal(refused), [*sink_problems(builder, sink, frame, refused), *of_code]


def settings_of(
    session: PipelineSession, spec: PipelineSpec, kept: Mapping[str, str] | None = None
) -> tuple[Setting, ...]:
    """The settings of a query; what froze at its first start is kept."""
    return query_settings(spec, session.given, session.cores, kept or {})


def _uncounted(spec: PipelineSpec, graph: Graph) -> set[str]:
    """What a continuous query reads, in which nothing can be counted."""
    sinks = [sink for sink in spec.sinks if isinstance(sink.trigger, Continuous)]
    reads = [canonical(spec, sink.reads) for sink in sinks if _is_declared(spec, sink.reads)]
    return {name for read in reads for name in graph.upstream(read)}


def _is_declared(spec: PipelineSpec, name: str) -> bool:
    return name.lower() in {declared.lower() for declared in spec.names}


def canonical(spec: PipelineSpec, name: str) -> str:
    """The name as it was declared; SQL does not mind upper and lower case, so neither do we."""
    return next(declared for declared in spec.names if declared.lower() == name.lower())
