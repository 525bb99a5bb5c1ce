"""`headwater explain`: what Spark will run for a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.api.analysis import analyzed
from headwater.api.check import loaded, refuse_unknown_rates
from headwater.api.results import ExplainResult, SinkExplained, TableExplained
from headwater.checks.outline import Outline
from headwater.engine.outcome import CheckOutcome
from headwater.engine.prepare import Prepared
from headwater.errors import PipelineError
from headwater.events import Emit, SparkStarting
from headwater.plan.predicates import delivery_of
from headwater.runtime.records import RunRecords
from headwater.spark.plans import physical_plan
from headwater.spec import PipelineSpec
from headwater.values import scrub


def explain(
    pipeline: PipelineSpec | str | Path,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rates: Mapping[str, float] | None = None,
    emit: Emit = lambda event: None,
) -> ExplainResult:
    """Graph, schemas, settings, operators and plans; raise PipelineError if the pipeline would not start.

    `rates` are rows per second by source, used to estimate the size of the state.
    """
    spec = loaded(pipeline)
    refuse_unknown_rates(spec, rates)
    emit(SparkStarting())
    with analyzed(spec, master, conf) as (prepared, outcome):
        errors = [finding.problem for finding in outcome.findings if finding.is_error]
        if errors:
            raise PipelineError.of(errors)
        return ExplainResult(
            pipeline=spec.name,
            run_dir=str(spec.run_dir),
            tables=_tables(prepared, spec),
            sinks=_sinks(prepared, spec, outcome, rates),
        )


def _tables(prepared: Prepared, spec: PipelineSpec) -> tuple[TableExplained, ...]:
    kinds = {source.name: f"source ({source.connector})" for source in spec.sources}
    statics = {source.name: source for source in spec.sources if source.static}
    kinds |= {table.name: f"table ({table.form})" for table in spec.tables}
    return tuple(
        TableExplained(
            name=name,
            kind=kinds[name],
            streaming=frame.isStreaming,
            reads=prepared.graph.reads[name] or (),
            schema={field.name: field.dataType.simpleString() for field in frame.schema.fields},
            refresh=str(statics[name].refresh) if name in statics else None,
            cache=name in statics and statics[name].cache,
        )
        for name, frame in prepared.builder.frames.items()
    )


def _sinks(
    prepared: Prepared, spec: PipelineSpec, outcome: CheckOutcome, rates: Mapping[str, float] | None
) -> tuple[SinkExplained, ...]:
    explained = []
    for sink in spec.sinks:
        settings = outcome.settings[sink.name]
        prepared.session.apply(settings)
        explained.append(
            SinkExplained(
                name=sink.name,
                reads=sink.reads,
                connector=sink.connector,
                mode=sink.mode.value,
                trigger=str(sink.trigger),
                delivery=delivery_of(sink).value,
                checkpoint=str(RunRecords.of(spec).checkpoint(sink.query)),
                group=sink.group,
                settings=tuple({"key": s.key, "value": s.value, "origin": s.origin} for s in settings),
                plan=scrub(physical_plan(prepared.session.spark, prepared.frames[sink.name])),
                outline=Outline.of(outcome.facts[sink.name], rates),
            )
        )
    return tuple(explained)
