"""The deep half of `headwater check`: Spark analyzes and plans each sink without starting it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.api.checking import loaded, refuse_unknown_rates
from headwater.api.results import ExplainResult, SinkExplained, TableExplained
from headwater.checks.outline import Outline
from headwater.connectors import sink_side
from headwater.engine.outcome import CheckOutcome, check_outcome
from headwater.engine.prepare import Prepared, prepare
from headwater.engine.session import open_session
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.errors import PipelineError
from headwater.events import Event, SparkStarting
from headwater.plan import Graph
from headwater.runtime.records import RunRecords
from headwater.spark.plans import physical_plan
from headwater.spec import PipelineSpec
from headwater.values import scrub

_WAREHOUSE = "spark-warehouse"


def check_with_spark(
    spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None, say: Callable[[str], None]
) -> CheckOutcome:
    """Everything that Spark and the rules over its facts have to say."""
    with _analyzed(spec, master, conf) as (prepared, outcome):
        paths = stream_paths(prepared, spec, outcome.facts)
        return outcome.with_findings(unshared(prepared, paths, say, starts=False))


@contextmanager
def _analyzed(
    spec: PipelineSpec, master: str | None, conf: Mapping[str, str] | None
) -> Iterator[tuple[Prepared, CheckOutcome]]:
    """The pipeline on a Spark of its own, which leaves nothing behind."""
    existed = os.path.exists(_WAREHOUSE)
    try:
        with tempfile.TemporaryDirectory(prefix="headwater-check-") as logs:
            session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
            try:
                prepared, directory = prepare(session, spec), RunRecords.of(spec)
                yield (
                    prepared,
                    check_outcome(prepared, spec, directory.stored(spec), lambda: directory.reached(spec)),
                )
            finally:
                session.jvm.stop()
    finally:
        if not existed:
            # Spark makes it as soon as it looks for a table in its catalog. It is missing or empty, unless
            # another process has written into it meanwhile.
            with suppress(OSError):
                os.rmdir(_WAREHOUSE)


# `headwater explain`: what Spark will do with a pipeline.


def explain(
    pipeline: PipelineSpec | str | Path,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rates: Mapping[str, float] | None = None,
    emit: Callable[[Event], None] = lambda event: None,
) -> ExplainResult:
    """Graph, schemas, settings, operators and plans; PipelineError if the pipeline would not start.

    `rates` are rows per second by source; they tell how many rows are kept.
    """
    spec = loaded(pipeline)
    refuse_unknown_rates(spec, rates)
    emit(SparkStarting())
    with _analyzed(spec, master, conf) as (prepared, outcome):
        errors = [finding.problem for finding in outcome.findings if finding.is_error]
        if errors:
            raise PipelineError.of(errors)
        return ExplainResult(
            pipeline=spec.name,
            folder=str(spec.folder),
            tables=_tables(prepared, prepared.graph, spec),
            sinks=_sinks(prepared, spec, outcome, rates),
        )


def _tables(prepared: Prepared, graph: Graph, spec: PipelineSpec) -> tuple[TableExplained, ...]:
    kinds = {source.name: f"source ({source.connector})" for source in spec.sources}
    statics = {source.name: source for source in spec.sources if source.static}
    kinds |= {table.name: f"table ({table.form})" for table in spec.tables}
    return tuple(
        TableExplained(
            name=name,
            kind=kinds[name],
            streaming=frame.isStreaming,
            reads=graph.reads[name] or (),
            schema={field.name: field.dataType.simpleString() for field in frame.schema.fields},
            refresh=str(statics[name].refresh) if name in statics else None,
            cache=name in statics and statics[name].cache,
        )
        for name, frame in prepared.builder.frames.items()
    )


def _sinks(
    prepared: Prepared, spec: PipelineSpec, outcome: CheckOutcome, rates: Mapping[str, float] | None
) -> tuple[SinkExplained, ...]:
    directory = RunRecords.of(spec)
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
                delivery=sink_side(sink.connector).delivers(sink.options).value,
                checkpoint=str(directory.checkpoint(sink.name)),
                settings=tuple(
                    {"key": setting.key, "value": setting.value, "origin": setting.origin}
                    for setting in settings
                ),
                plan=scrub(physical_plan(prepared.session.spark, prepared.frames[sink.name])),
                outline=Outline.of(outcome.facts[sink.name], rates),
            )
        )
    return tuple(explained)
