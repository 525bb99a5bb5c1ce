"""`headwater run --batch`: the same tables over the current data of the sources, without checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.api.results import BatchResult
from headwater.checkpoint import SINK_LOG
from headwater.connectors import sink_side, source_side
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.groups import cached
from headwater.engine.listener import counted, observed_counts
from headwater.engine.pipeline_file import load
from headwater.engine.prepare import Prepared, canonical, prepare
from headwater.engine.session import open_session
from headwater.engine.shared_paths import batch_paths, unshared
from headwater.engine.translate import code_problem, failure_problem
from headwater.errors import HeadwaterError, PipelineError, Problem, QueryFailedError
from headwater.errors.catalogue.notices import BATCH_ROWS_BAD, BATCH_ROWS_PARTLY_COUNTED, BATCH_ROWS_VIOLATING
from headwater.errors.catalogue.running import (
    BATCH_APPEND_REQUIRED,
    BATCH_OUTPUT_DIR_CONFLICT,
    BATCH_OUTPUT_DIR_MISSING,
    BATCH_UNSUPPORTED,
)
from headwater.events import BatchRunFinished, Emit, Notice, SinkFinished, SinkStarted, SparkStarting
from headwater.events.counts import BAD, READ, SourceCounts, TableCounts, counts_of
from headwater.plan.predicates import secret_problems
from headwater.run_directory import RunDirectory
from headwater.runtime import RunOptions
from headwater.spark.session import active
from headwater.spec import Mode, PipelineSpec, SinkOptions, SinkSpec
from headwater.spec.paths import fixed_folder, lies_in
from headwater.values import BadRows, OnViolation

# What a batch run counted while it wrote: rows that could not be read, and rows that failed expectations.

_NO_QUARANTINE = " (dropped; batch runs do not quarantine rows)"
_ACTIONS = {
    BadRows.DROP: " (dropped)",
    BadRows.QUARANTINE: _NO_QUARANTINE,
    BadRows.KEEP: " (kept)",
}


def in_order(prepared: Prepared, sinks: tuple[SinkSpec, ...]) -> list[SinkSpec]:
    """The sinks in the order of writing: Spark counts rows once, for the first sink that reads them.

    A console reads only a few rows. If anything is counted, sinks that store every row come first.
    """
    counts = prepared.builder.parts(lambda node: node.counts)
    return sorted(sinks, key=lambda sink: not sink_side(sink.connector).stores) if counts else list(sinks)


def _counts(prepared: Prepared) -> tuple[dict[str, SourceCounts], dict[str, TableCounts]]:
    """The counts by source and by table, as far as Spark reported them."""
    sources = {source.name for source in prepared.builder.spec.sources}
    told = prepared.builder.parts(lambda node: observed_counts(node.counts) if node.counts else None)
    return (
        {name: SourceCounts(each[READ], each[BAD]) for name, each in told.items() if name in sources},
        {name: counts_of(each) for name, each in told.items() if name not in sources},
    )


def _notices(
    prepared: Prepared,
    written: list[SinkSpec],
    read: Mapping[str, SourceCounts],
    judged: Mapping[str, TableCounts],
) -> Iterator[Problem]:
    """Notices about the counted rows, given the order in which the sinks were written."""
    spec = prepared.builder.spec
    for source in spec.sources:
        if source.name in read and (bad := read[source.name].bad):
            action, rows = _ACTIONS.get(source.bad_rows, ""), read[source.name].read
            yield BATCH_ROWS_BAD.at(None, source=source.name, bad=bad, rows=rows, action=action)
    for table in spec.tables:
        for each in table.expect if table.name in judged else ():
            if failed := judged[table.name].failed[each.name]:
                quarantined = each.on_violation is OnViolation.QUARANTINE
                action = _NO_QUARANTINE if quarantined else ""
                params = {"rows": judged[table.name].rows, "expectation": each.name, "action": action}
                yield BATCH_ROWS_VIOLATING.at(None, table=table.name, failed=failed, **params)
    first: dict[str, SinkSpec] = {}
    for sink in written:
        for name in prepared.graph.upstream(canonical(spec, sink.reads)):
            first.setdefault(name, sink)
    for name in (*read, *judged):
        # A sink that stores no rows may have asked for some of them only.
        if name in first and not sink_side(first[name].connector).stores:
            yield BATCH_ROWS_PARTLY_COUNTED.at(None, name=name, sink=first[name].name)


def run_batch(
    pipeline: PipelineSpec | str | Path,
    options: RunOptions,
    *,
    into: Path | None = None,
    append: bool = False,
    stdout: Callable[[str], None],
    emit: Emit = lambda event: None,
) -> BatchResult:
    """Run the table of every sink once, as a batch job, and pass the rows to the sink.

    `append` allows appending to locations that the stream also appends to.
    """
    spec = pipeline if isinstance(pipeline, PipelineSpec) else load(pipeline)
    problems = list(_problems(spec, into, append=append))
    if problems:
        raise PipelineError.of(problems)

    emit(SparkStarting())
    ui = options.spark_ui
    session = open_session(
        spec, master=options.master, conf=options.conf, spark_ui=ui, stdout=stdout, emit=emit
    )
    try:
        prepared = prepare(session, spec, batch=True)
        if prepared.problems:
            raise PipelineError.of(problem for _, problem in prepared.problems)
        paths = batch_paths(prepared, spec, {sink.name: _options(sink, into) for sink in spec.sinks})
        if not_shared := unshared(prepared, paths, emit):
            raise PipelineError.of(finding.problem for finding in not_shared)
        order = in_order(prepared, spec.sinks)
        written = _write_all(prepared, spec, order, into, emit)
        read, judged = _counts(prepared)
        for notice in _notices(prepared, order, read, judged):
            emit(Notice.of(notice))
    finally:
        session.jvm.stop()
    places = {sink.name: written[sink.name].path for sink in spec.sinks}
    rows = {sink.name: written[sink.name].rows for sink in spec.sinks}
    sources = {source: each.to_json() for source, each in read.items()}
    failed = {table: each.to_json() for table, each in judged.items()}
    emit(BatchRunFinished(written=places, rows=rows, sources=sources, expectations=failed))
    return BatchResult(places, rows, judged, read)


def _write_all(
    prepared: Prepared, spec: PipelineSpec, order: list[SinkSpec], into: Path | None, emit: Emit
) -> dict[str, SinkFinished]:
    """Write the sinks; the common table of a group is computed once, for its first sink."""
    written: dict[str, SinkFinished] = {}
    with ExitStack() as kept:
        begun = set[str]()
        for sink in order:
            if sink.group and sink.group not in begun and sink.group in prepared.frames:
                begun.add(sink.group)
                with _explained(prepared, spec, spec.query(sink.group).sink):
                    kept.enter_context(cached(prepared.frames[sink.group]))
            written[sink.name] = _written(prepared, spec, sink, into, emit)
    return written


def _problems(spec: PipelineSpec, into: Path | None, *, append: bool) -> Iterator[Problem]:
    # Validate all sinks before writing any: the first sink already replaces earlier results.
    for thing in spec.connected:
        yield from secret_problems(thing)
    for source in spec.sources:
        if not source_side(source.connector).batch:
            told = {"name": source.name, "connector": source.connector}
            yield BATCH_UNSUPPORTED.at(source.position, what="Source", **told)
    for sink in spec.sinks:
        side = sink_side(sink.connector)
        if side.batch and (side.appends or side.writes_in_place):
            if not append and (side.appends or sink.mode is Mode.APPEND):
                place = ", ".join(side.places(sink.options)) or "the topics that they specify"
                yield BATCH_APPEND_REQUIRED.at(sink.position, sink=sink.name, place=place)
            continue
        # `--output-dir` overrides the key `path`, so a sink that stores rows needs this key.
        if not side.batch or (side.stores and "path" not in side.options.model_fields):
            yield BATCH_UNSUPPORTED.at(sink.position, what="Sink", name=sink.name, connector=sink.connector)
        elif side.stores and into is None:
            place = ", ".join(side.places(sink.options))
            yield BATCH_OUTPUT_DIR_MISSING.at(sink.position, sink=sink.name, place=place)
        elif side.stores and into is not None:
            folder = into.absolute() / sink.name
            if why := _why_taken(spec, folder):
                yield BATCH_OUTPUT_DIR_CONFLICT.at(sink.position, place=str(folder), why=why)


def _why_taken(spec: PipelineSpec, place: Path) -> str:
    """Why a batch run must not replace a directory: it replaces only its own results."""
    if (place / SINK_LOG).exists():
        return "it belongs to a streaming sink (_spark_metadata), and Spark readers would not see the rows"
    declared = [p for each in spec.sources for p in source_side(each.connector).places(each.options)]
    declared += [p for each in spec.sinks for p in sink_side(each.connector).places(each.options)]
    for other in declared:
        # Either path can contain the other, and the declared one can be a glob.
        if lies_in(str(place), other) or lies_in(fixed_folder(other, spec.root), str(place)):
            return f"this pipeline reads or writes {other}"
    if place.is_dir() and any(place.iterdir()) and not _marker(place).exists():
        return "it contains files that a Headwater batch run did not write"
    return ""


def _marker(place: Path) -> Path:
    """A file next to the directory that marks it as written by a batch run, so the next one can replace it."""
    return place.parent / f".{place.name}.headwater-batch"


def _options(sink: SinkSpec, into: Path | None) -> SinkOptions:
    """The options of the sink; a sink that stores rows writes below `--output-dir` in its declared format."""
    side = sink_side(sink.connector)
    if not side.stores or side.appends or side.writes_in_place or into is None:
        return sink.options
    return sink.options.model_copy(update={"path": str(into.absolute() / sink.name)})


@contextmanager
def _explained(prepared: Prepared, spec: PipelineSpec, sink: SinkSpec) -> Iterator[None]:
    """Errors of this block as problems of a sink."""
    try:
        with active(prepared.session.spark):
            yield
    except HeadwaterError:
        raise
    except SPARK_ERRORS as error:
        log = RunDirectory(spec.run_dir).spark_log
        raise QueryFailedError(failure_problem(error, sink, spec.tables, spec.root, log)) from error
    except Exception as error:  # user code: report any exception at the user's line
        raise QueryFailedError(code_problem(error, sink, spec.root)) from error


def _written(
    prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, into: Path | None, emit: Emit
) -> SinkFinished:
    """Write one sink, with an event before and after."""
    emit(SinkStarted(sink=sink.name))
    options, side = _options(sink, into), sink_side(sink.connector)
    # Count only rows that the sink stores: a console prints a few of them, and a function can do anything.
    # For a sink that appends, Spark does not report the number.
    counts = side.stores and not side.appends
    frame = prepared.frames[sink.name]
    frame, rows = counted(frame) if counts else (frame, lambda: None)
    with _explained(prepared, spec, sink):
        side.write_batch(frame, options, prepared.builder.context(sink))
    if into is not None and counts and not side.writes_in_place:
        _marker(into.absolute() / sink.name).touch()
    event = SinkFinished(sink=sink.name, path=", ".join(side.places(options)), rows=rows())
    emit(event)
    return event
