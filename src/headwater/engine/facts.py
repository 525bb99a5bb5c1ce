"""QueryFacts from Spark: what it will do for one sink, before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import LongTasks, Source, sink_side, source_side
from headwater.connectors.connector import CountsPartitions, KnowsContents
from headwater.engine.builder import SPARK_ERRORS, columns_in, columns_of
from headwater.engine.plan_record import Owners, record_of
from headwater.engine.prepare import Prepared, canonical, trigger_refusal_of
from headwater.engine.session import FROZEN, PipelineSession, Setting
from headwater.engine.state_plan import state_plan
from headwater.plan import QueryFacts, Refusal, SourceFacts
from headwater.plan.groups import group_table
from headwater.plan.predicates import delivery_of
from headwater.plan.quarantine import quarantine_fingerprints, replay_stream
from headwater.plan.reader import Steps, steps_of
from headwater.plan.state_layout import state_layouts
from headwater.spark.errors import sentence_of
from headwater.spark.plans import PlanReader
from headwater.spec import Mode, PipelineSpec, QuerySpec, SinkSpec, SourceSpec
from headwater.values import Continuous, Never, RealTime, Secret, Trigger
from headwater.values.secrets import MASK, masked

# The contents of a sink's path before the start, if its connector can read them.


@dataclass(frozen=True)
class SinkContents:
    """The output of earlier runs: its schema, the newest batch, and its problems."""

    schema: Mapping[str, str] = field(default_factory=dict)
    batch: int | None = None
    outside: str = ""
    unreadable: str = ""


def contents_of(spark: SparkSession, sink: SinkSpec, frame: DataFrame) -> SinkContents:
    """Ask the sink's connector. Unreadable output is reported: it affects readers, but not this query."""
    side = sink_side(sink.connector)
    # In a group, a sink has no log: the connector itself compares its target with the query.
    if sink.group or not isinstance(side, KnowsContents):
        return SinkContents()
    batch, outside = None, ""
    try:
        batch = side.stored_batch(spark, sink.options)
        outside = side.stored_elsewhere(sink.options) or ""
        schema = side.stored_schema(spark, sink.options, frame.schema)
    except SPARK_ERRORS as error:
        return SinkContents({}, batch, outside, sentence_of(error))
    return SinkContents(columns_of(schema) if schema else {}, batch, outside)


def steps_in(frame: DataFrame, sources: Mapping[str, DataFrame], owners: Owners) -> Steps:
    """What the plan of a streaming DataFrame does with its rows."""
    return steps_of(record_of(frame, sources, owners))


def of_steps(steps: Steps) -> dict[str, Any]:
    """The content of a plan, under the names of the facts; the source counts how often a stream is read."""
    return {
        "operators": steps.operators,
        "state": steps.state,
        "state_unknown": steps.state_unknown,
        "non_deterministic": steps.non_deterministic,
        "python_functions": steps.python_functions,
        "beyond_rows": steps.beyond_rows,
        "clock_reads": steps.clock_reads,
        "repeated_streams": steps.repeated_streams,
    }


def facts_of(
    prepared: Prepared,
    spec: PipelineSpec,
    sink: SinkSpec,
    settings: tuple[Setting, ...],
    owners: Owners | None = None,
    known: dict[str, Steps] | None = None,
) -> QueryFacts:
    """What Spark will do for one sink; `known` caches the steps of a table's plan for other sinks."""
    frame = prepared.frames[sink.name]
    steps = _steps(prepared, spec, sink, owners, {} if known is None else known)
    side, contents = sink_side(sink.connector), contents_of(prepared.session.spark, sink, frame)
    return QueryFacts(
        sink=sink.name,
        connector=sink.connector,
        mode=sink.mode.value,
        root=str(spec.root),
        timezone=spec.timezone,
        sources=_sources(prepared, spec, sink, steps),
        output_schema=columns_in(frame),
        places=_places(side.places(sink.options)),
        fixed_options={key: masked(key, _shown(getattr(sink.options, key))) for key in side.fixed_keys},
        group=sink.group or "",
        delivery=delivery_of(sink).name,
        modes=tuple(mode.value for mode in Mode if mode.value in side.modes),
        trigger=str(sink.trigger),
        cores=prepared.session.cores,
        **of_steps(steps),
        inputs=PlanReader.of(prepared.frames.get(sink.query, frame)).inputs(_streams(prepared, spec)).sources,
        verdicts=quarantine_fingerprints(spec, prepared.graph, canonical(spec, sink.reads)),
        sink_continuous=side.continuous,
        sink_real_time=side.real_time,
        refusal=prepared.refusals.get(sink.name),
        trigger_refusal=_refused_by_trigger(prepared, sink),
        **_contents(contents),
        settings={setting.key: setting.value for setting in settings if setting.key in FROZEN},
        passed_over={setting.key: setting.passed_over for setting in settings if setting.passed_over},
        spark_version=prepared.session.spark.version,
    )


def group_facts(
    prepared: Prepared, spec: PipelineSpec, query: QuerySpec, settings: tuple[Setting, ...]
) -> QueryFacts:
    """What Spark will do for the query of a group, which computes the common table of its sinks."""
    read = {"reads": group_table(prepared.graph, query), "group": query.name}
    sink = query.sink.model_copy(update=read)
    facts = facts_of(prepared, spec, sink, settings)
    return replace(facts, connector="", group=query.name, places=(), fixed_options={}, delivery="", modes=())


def _steps(
    prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, owners: Owners | None, known: dict[str, Steps]
) -> Steps:
    """The steps of the plan of a sink's table, read once for all sinks that read it."""
    # The rows that a table quarantines have a different plan from those that it passes on.
    reads = sink.name if sink.is_quarantine else canonical(spec, sink.reads)
    frames = prepared.builder.frames
    if reads not in known:
        streams, frame = _streams(prepared, spec), prepared.frames[sink.name]
        steps = steps_in(frame, streams, owners or Owners.of(frames))
        named = {each.name for each in spec.sources}
        forms = (frames, prepared.builder.parts(lambda node: node.with_metadata))
        sources = [(name, rows) for form in forms for name, rows in form.items() if name in named]
        replayed = prepared.builder.parts(lambda node: node.replayed)
        known[reads] = _with_state(frame, sources, replayed, steps)
    return known[reads]


def _with_state(
    frame: DataFrame,
    sources: Iterable[tuple[str, DataFrame]],
    replayed: Mapping[str, DataFrame],
    steps: Steps,
) -> Steps:
    """The steps with what the stateful operators store, each with its location in the user's SQL."""
    stateful = [each for each in steps.operators if each.is_stateful]
    if not stateful:
        return replace(steps, state=())
    states = tuple(each.state for each in stateful if each.state)
    try:
        plan = state_plan(frame, sources, replayed)
        layouts = state_layouts(plan.root, plan.columns, states)
    except (*SPARK_ERRORS, LookupError, ValueError, RecursionError) as error:
        # An unexpected plan, or a different version of Spark: a rule reports the consequences.
        return replace(steps, state_unknown=f"{type(error).__name__}: {sentence_of(error)}")
    if len(layouts) == len(stateful):
        pairs = zip(layouts, stateful, strict=True)
        placed = (replace(each, table=at.table, line=at.line, column=at.column) for each, at in pairs)
        layouts = tuple(placed)
    return replace(steps, state=layouts)


def _sources(prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, steps: Steps) -> tuple[SourceFacts, ...]:
    needed = prepared.graph.upstream(canonical(spec, sink.reads))
    used = [each for each in spec.sources if each.name in needed]
    slots = {each.name: _slots(prepared.session, each, sink.trigger) for each in used}
    return tuple(source_facts(each, steps, sink.trigger, slots[each.name]) for each in used)


def _streams(prepared: Prepared, spec: PipelineSpec) -> dict[str, DataFrame]:
    """The streams by name; the stream of replayed rows is inside its source's frame, and is named last."""
    frames, replayed = prepared.builder.frames, prepared.builder.parts(lambda node: node.replayed)
    named = [each.name for each in spec.sources if each.name in frames and not each.static]
    again = {replay_stream(name): rows for name, rows in replayed.items()}
    return {name: frames[name] for name in named} | again


def _contents(contents: SinkContents) -> dict[str, Any]:
    """The contents of the sink's path, under the names of the facts."""
    return {f"held_{each.name}": getattr(contents, each.name) for each in fields(contents)}


def _refused_by_trigger(prepared: Prepared, sink: SinkSpec) -> Refusal | None:
    if prepared.refusals.get(sink.name):
        return None
    frame = prepared.frames[sink.name]
    return trigger_refusal_of(prepared.session.spark, frame, sink.mode, str(sink.trigger))


def source_facts(source: SourceSpec, steps: Steps, trigger: Trigger, slots: int) -> SourceFacts:
    """A declared source as a query reads it."""
    side = source_side(source.connector)
    tasks = _long_tasks(side, trigger)
    options = _options(source)
    return SourceFacts(
        source.name,
        source.connector,
        _places(side.places(source.options)),
        streaming=not source.static,
        replayable=side.replayable,
        options=options,
        reads=max(1, steps.streams.count(source.name)),
        made_while_running=side.made_while_running,
        continuous=side.continuous is not None,
        real_time=side.real_time is not None,
        slots=slots,
        idle_options=idle_options(options, tasks.without) if tasks else (),
        switches=side.same_offsets,
        own_code=bool(side.functions(source.options)),
    )


def _slots(session: PipelineSession, source: SourceSpec, trigger: Trigger) -> int:
    """The tasks that do not end; a server is asked only if the trigger requires it."""
    side = source_side(source.connector)
    if _long_tasks(side, trigger) is None or source.static:
        return 0
    if isinstance(side, CountsPartitions):
        return side.partitions(session.spark, source.options)
    return side.slots(source.options, session.cores)


def _long_tasks(side: Source[Any], trigger: Trigger) -> LongTasks | None:
    match trigger:
        case Continuous():
            return side.continuous
        case RealTime():
            return side.real_time
    return None


def idle_options(options: Mapping[str, str], without: tuple[str, ...]) -> tuple[str, ...]:
    """The given options that have no effect."""
    idle = {key.lower() for key in without}
    return tuple(key for key in options if key.lower() in idle)


def _options(source: SourceSpec) -> dict[str, str]:
    """The declared options, without secrets, whether resolved or in plain text."""
    named = {key: getattr(source.options, key) for key in source.options.model_fields_set - {"options"}}
    if source.static:
        named |= {"refresh": source.refresh} if not isinstance(source.refresh, Never) else {}
        named |= {"cache": source.cache} if source.cache else {}
    shown = {**named, **source.options.options}
    return {key: masked(key, _shown(value)) for key, value in sorted(shown.items()) if value is not None}


def _places(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(masked("", place) for place in places)


def _shown(value: Any) -> str:
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ", ".join(_shown(each) for each in value)
    return str(value)
