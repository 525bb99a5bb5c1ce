"""Everything up to the start: build DataFrames, ask Spark about them, collect facts. Nothing is written."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.checks import Finding, Severity
from headwater.connectors import sink_side
from headwater.connectors.connector import ChecksCode
from headwater.engine.builder import SPARK_ERRORS, Builder, columns_in
from headwater.engine.doctor import Check, range_of
from headwater.engine.session import PipelineSession, Setting, late_problems, query_settings
from headwater.engine.translate import planning_problem, sql_problem
from headwater.engine.user_code import register_functions, ship_user_code
from headwater.errors import HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue.environment import SPARK_PART_MISSING
from headwater.errors.catalogue.running import (
    BATCH_UNSUPPORTED,
    SINK_NOT_STREAMING,
    SOURCE_NOT_REPLAYABLE_TWICE,
)
from headwater.plan import Graph, Refusal
from headwater.plan.groups import group_table
from headwater.plan.predicates import mode_problem, unreplayable_sources
from headwater.spark.errors import condition_of, python_failure, sentence_of
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.spark.plans import (
    PlanReader,
    check_batch,
    check_continuous,
    check_streaming,
    physical_plan,
)
from headwater.spark.probes import GRACEFUL_STOP, PROBES, Probe, lacking, missing
from headwater.spec import Mode, PipelineSpec, SinkSpec
from headwater.values import Continuous

# What Spark reports about a sink's query before it starts: its streaming checker, its planner.

_MOVING_JOIN = re.compile(r"SortMergeJoin|ShuffledHashJoin|BroadcastNestedLoopJoin|CartesianProduct")
_STREAM_ONLY = re.compile(r"(unsupported in|not supported with) batch")


def sink_problems(
    builder: Builder, sink: SinkSpec, frame: DataFrame, refused: Exception | None
) -> Iterator[Problem]:
    """What would keep this sink's query from starting, besides the rules about Spark's rejection."""
    if not frame.isStreaming:
        yield SINK_NOT_STREAMING.at(sink.position, sink=sink.name, reads=sink.reads)
        return
    if refused and python_failure(refused, builder.spec.root):
        yield planning_problem(refused, sink, builder.spec.root)
    if refused or mode_problem(sink):
        return
    yield from column_problems(builder, sink, frame)
    yield from _read_twice(builder, sink, frame)


def column_problems(builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
    """Problems of the sink with its input columns, and of Spark with the sink's output."""
    side = sink_side(sink.connector)
    refused = list(side.problems(sink, columns_in(frame)))
    yield from refused
    if refused:
        return
    try:
        side.outgoing(frame, sink.options, builder.context(sink))
    except PipelineError as error:
        yield from error.problems
    except SPARK_ERRORS as error:
        yield planning_problem(error, sink, builder.spec.root)


def _read_twice(builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
    """A self-join of a source reads it twice, as two sources; a union does not."""
    for source in unreplayable_sources(builder.spec):
        if source.name in builder.frames:
            own, read = PlanReader.of(builder.frames[source.name]), PlanReader.of(frame)
            count = max(sum(bool(leaf.sameResult(one)) for leaf in read.streams) for one in own.streams)
            if count > 1:
                yield SOURCE_NOT_REPLAYABLE_TWICE.at(
                    sink.position, sink=sink.name, name=source.name, connector=source.connector, count=count
                )


def code_problems(builder: Builder, sink: SinkSpec) -> list[Problem]:
    """Problems of the user's code in the sink's connector, if it can detect them."""
    side = sink_side(sink.connector)
    if not isinstance(side, ChecksCode):
        return []
    return list(side.code_problems(sink.options, builder.context(sink)))


def batch_problems(builder: Builder) -> Iterator[Problem]:
    """The tables that only a stream can compute; tables that read such a table are not reported."""
    blamed = set[str]()
    for table in (table for table in builder.spec.tables if table.name in builder.frames):
        try:
            check_batch(builder.spark, builder.frames[table.name])
        except SPARK_ERRORS as error:
            says = sentence_of(error)
            if not _STREAM_ONLY.search(says):
                yield sql_problem(error, table)
            elif says not in blamed:
                blamed.add(says)
                # Spark's message begins with the call that does not support batch runs.
                call = says.partition(" ")[0]
                yield BATCH_UNSUPPORTED.at(table.position, what="Table", name=table.name, connector=call)


def refused_by_spark(spark: SparkSession, frame: DataFrame, mode: Mode) -> Exception | None:
    """Spark's error for a query and its mode, from the start or from the first batch."""
    try:
        check_streaming(spark, frame, mode)
    except SPARK_ERRORS as error:
        return error
    return None


def trigger_refusal_of(spark: SparkSession, frame: DataFrame, mode: Mode, trigger: str) -> Refusal | None:
    """Spark's error for a query with its trigger, if it accepts the query itself."""
    if trigger.startswith("continuous "):
        try:
            check_continuous(spark, frame, mode)
        except SPARK_ERRORS as error:
            return as_refusal(error)
    if trigger.startswith("real time "):
        # A join that shuffles rows cannot run in real time; one whose static side is broadcast can.
        found = _MOVING_JOIN.search(physical_plan(spark, frame))
        return Refusal("", found[0]) if found else None
    return None


def as_refusal(error: Exception | None) -> Refusal | None:
    """A Spark error as plain data."""
    return Refusal(condition_of(error), sentence_of(error)) if error else None


@dataclass(frozen=True)
class Prepared:
    """A pipeline that Spark has analyzed, and everything that blocks its start."""

    session: PipelineSession
    builder: Builder
    graph: Graph
    frames: Mapping[str, DataFrame]
    """The DataFrame of each sink's table, by sink name, and that of each group, by the group's name."""
    problems: tuple[tuple[str, Problem], ...]
    """Problems with the name of the sink that they stop; an empty name for the whole pipeline."""
    refusals: Mapping[str, Refusal | None] = field(default_factory=dict)
    """Spark's error for the query of each sink."""


def prepare(
    session: PipelineSession,
    spec: PipelineSpec,
    *,
    batch: bool = False,
    starts: bool = False,
    ends_when_idle: bool = False,
    epoch: int = 0,
    counted: Callable[[int], None] = lambda sinks: None,
) -> Prepared:
    """Ship the user's code, build every sink's DataFrame, and ask Spark about each.

    Nothing is written unless a run `starts`. `counted` receives the number of sinks that are done.
    """
    uncounted: set[str] = set()
    builder, unregistered = assemble(
        session,
        spec,
        batch=batch,
        starts=starts,
        ends_when_idle=ends_when_idle,
        epoch=epoch,
        counts=lambda name: name not in uncounted,
    )
    graph = builder.graph
    uncounted |= _uncounted(spec, graph)
    frames, refusals = dict[str, DataFrame](), dict[str, Refusal | None]()
    problems = {str(problem): ("", problem) for problem in (*unregistered, *graph.problems)}
    # Otherwise, SQL that calls a missing function would be reported for a problem of the function.
    known = () if unregistered else [sink for sink in spec.sinks if _is_declared(spec, sink.reads)]
    for sink in known:
        try:
            frame = builder.frame(canonical(spec, sink.reads), graph)
            quarantined = builder.parts(lambda node: node.quarantined)
            frames[sink.name] = quarantined[canonical(spec, sink.reads)] if sink.is_quarantine else frame
        except PipelineError as error:
            found = list(error.problems)
        else:
            refusals[sink.name], found = objections(builder, sink, frames[sink.name])
        counted(len(frames))
        for problem in found:
            # One invalid table stops several sinks; it is reported once.
            problems.setdefault(str(problem), (sink.name, problem))
    frames |= _group_frames(builder)
    for name, problem in late_problems(spec, () if batch else session.late_jars).items():
        problems.setdefault(str(problem), (name, problem))
    if batch:
        problems |= {str(problem): ("", problem) for problem in batch_problems(builder)}
    return Prepared(session, builder, graph, frames, tuple(problems.values()), refusals)


def _group_frames(builder: Builder) -> dict[str, DataFrame]:
    """What the query of each group computes; a rule reports a group without a common table."""
    groups = (query for query in builder.spec.queries if query.is_group)
    tables = {query.name: group_table(builder.graph, query) for query in groups}
    frames = builder.frames
    return {name: frames[table] for name, table in tables.items() if table in frames}


def assemble(session: PipelineSession, spec: PipelineSpec, **how: Any) -> tuple[Builder, list[Problem]]:
    """Everything before the first DataFrame, and the functions that SQL will not find."""
    # Spark applies the time zone and other settings during analysis, not only during execution.
    session.apply(settings_of(session, spec))
    builder = Builder(session.spark, spec, ship_user_code(spec, session.spark.sparkContext), **how)
    return builder, list(register_functions(session.spark, spec, builder.load))


def objections(builder: Builder, sink: SinkSpec, frame: DataFrame) -> tuple[Refusal | None, list[Problem]]:
    """Spark's error for the query of a sink, and all problems of the sink."""
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
    """What a continuous query reads; nothing can be counted there."""
    sinks = [sink for sink in spec.sinks if isinstance(sink.trigger, Continuous)]
    reads = [canonical(spec, sink.reads) for sink in sinks if _is_declared(spec, sink.reads)]
    return {name for read in reads for name in graph.upstream(read)}


def _is_declared(spec: PipelineSpec, name: str) -> bool:
    return name.lower() in {declared.lower() for declared in spec.names}


def canonical(spec: PipelineSpec, name: str) -> str:
    """The name as declared; like SQL, this ignores case."""
    return next(declared for declared in spec.names if declared.lower() == name.lower())


# Internal Spark APIs that Headwater needs and the installed Spark does not have.

_SETTINGS = {"spark.master": "local[1]", "spark.app.name": "headwater doctor", "spark.ui.enabled": "false"}


def examine_spark() -> list[Check]:
    """Start Spark, check every internal API, and stop it; no query runs."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            jvm = start_context(
                _SETTINGS, java=find_java(), log_folder=Path(folder), stdout=lambda text: None
            )
        except HeadwaterError as error:
            return [Check("spark parts", "error", p.message, p.hint, p.code) for p in error.problems]
        try:
            spark = SparkSession(jvm.context)
            return list(_checks(spark.version, lacking(spark)))
        finally:
            jvm.stop()


def _checks(version: str, lacks: dict[str, tuple[str, ...]]) -> Iterator[Check]:
    for probe in PROBES:
        if probe.name in lacks:
            problem = _problem(version, probe, lacks[probe.name])
            name = f"spark part: {probe.name}"
            yield Check(name, "warning", problem.message, problem.hint, problem.code)
    there = len(PROBES) - len(lacks)
    says = f"Spark {version} has {there} of {len(PROBES)} groups of internal APIs that Headwater needs"
    yield Check("spark parts", "warning" if lacks else "ok", says)


def stop_findings(spark: SparkSession) -> list[Finding]:
    """A warning if a stop would interrupt the current batch instead of letting it commit."""
    parts = missing(spark, GRACEFUL_STOP)
    return [Finding(_problem(spark.version, GRACEFUL_STOP, parts), Severity.WARNING)] if parts else []


def _problem(version: str, probe: Probe, parts: tuple[str, ...]) -> Problem:
    return SPARK_PART_MISSING.at(
        None,
        version=version,
        purpose=probe.purpose,
        lost=probe.lost,
        parts=", ".join(parts),
        supported=probe.versions or range_of("pyspark"),
    )
