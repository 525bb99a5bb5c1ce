"""`headwater explain`: what Spark will do with a pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from headwater.api.loading import load
from headwater.api.results import ExplainResult, SinkExplained, TableExplained
from headwater.engine.analysis import physical_plan
from headwater.engine.prepare import Prepared, prepare, settings_of
from headwater.engine.session import open_session
from headwater.errors import PipelineError
from headwater.plan import Graph
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec
from headwater.values import scrub


def explain(
    file: str | Path, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> ExplainResult:
    """Graph, schemas, settings and plans; PipelineError if Spark would refuse the pipeline."""
    return explain_spec(load(file), master=master, conf=conf)


def explain_spec(
    spec: PipelineSpec, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> ExplainResult:
    """Explain a loaded pipeline."""
    with tempfile.TemporaryDirectory(prefix="headwater-explain-") as logs:
        session = open_session(spec, master=master, conf=conf, logs=Path(logs), stdout=lambda line: None)
        try:
            prepared = prepare(session, spec)
            if prepared.problems or prepared.graph is None:
                raise PipelineError.of(problem for _, problem in prepared.problems)
            return ExplainResult(
                pipeline=spec.name,
                folder=str(spec.folder),
                tables=_tables(prepared, prepared.graph, spec),
                sinks=_sinks(prepared, spec),
            )
        finally:
            session.jvm.stop()


def _tables(prepared: Prepared, graph: Graph, spec: PipelineSpec) -> tuple[TableExplained, ...]:
    kinds = {source.name: f"source ({source.connector})" for source in spec.sources}
    kinds |= {table.name: "table (sql)" if table.sql else "table (python)" for table in spec.tables}
    return tuple(
        TableExplained(
            name=name,
            kind=kinds[name],
            streaming=frame.isStreaming,
            reads=graph.reads[name] or (),
            schema={field.name: field.dataType.simpleString() for field in frame.schema.fields},
        )
        for name, frame in prepared.builder.frames.items()
    )


def _sinks(prepared: Prepared, spec: PipelineSpec) -> tuple[SinkExplained, ...]:
    folder = RunFolder.of(spec)
    stored = folder.stored(spec)
    explained = []
    for sink in spec.sinks:
        settings = settings_of(prepared.session, spec, stored.get(sink.name))
        prepared.session.apply(settings)
        explained.append(
            SinkExplained(
                name=sink.name,
                reads=sink.reads,
                connector=sink.connector,
                mode=sink.mode.value,
                trigger=str(sink.trigger),
                checkpoint=str(folder.checkpoint(sink.name)),
                settings=tuple(
                    {"key": setting.key, "value": setting.value, "origin": setting.origin}
                    for setting in settings
                ),
                plan=scrub(physical_plan(prepared.session.spark, prepared.frames[sink.name])),
            )
        )
    return tuple(explained)
