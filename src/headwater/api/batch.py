"""`headwater run --batch`: the same tables over what the sources hold now; checkpoints are not touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headwater.api.loading import load
from headwater.api.results import BatchResult
from headwater.connectors import sink_side, source_side
from headwater.engine.build import SPARK_ERRORS, spark_module
from headwater.engine.prepare import Prepared, prepare
from headwater.engine.session import open_session
from headwater.engine.translate import code_problem, failure_problem
from headwater.errors import PipelineError, Problem, QueryFailed
from headwater.errors.catalogue.running import (
    BATCH_NEEDS_INTO,
    INTO_DECLARED_PLACE,
    INTO_NOT_EMPTY,
    INTO_STREAM_FOLDER,
    NO_BATCH_FORM,
)
from headwater.runtime import RunOptions
from headwater.spec import PipelineSpec, SinkOptions, SinkSpec
from headwater.spec.paths import is_uri


def run_batch(
    file: str | Path, options: RunOptions, *, into: Path | None = None, stdout: Callable[[str], None]
) -> BatchResult:
    """Run every sink's table once over finished data and hand the rows to the sink."""
    return run_batch_spec(load(file), options, into=into, stdout=stdout)


def run_batch_spec(
    spec: PipelineSpec, options: RunOptions, *, into: Path | None = None, stdout: Callable[[str], None]
) -> BatchResult:
    """Run a loaded pipeline as a batch."""
    problems = list(_problems(spec, into))
    if problems:
        raise PipelineError.of(problems)
    session = open_session(
        spec, master=options.master, conf=options.conf, spark_ui=options.spark_ui, stdout=stdout
    )
    try:
        prepared = prepare(session, spec, batch=True)
        if prepared.problems:
            raise PipelineError.of(problem for _, problem in prepared.problems)
        return BatchResult({sink.name: _write(prepared, spec, sink, into) for sink in spec.sinks})
    finally:
        session.jvm.stop()


def _problems(spec: PipelineSpec, into: Path | None) -> Iterator[Problem]:
    for source in spec.sources:
        if not source_side(source.connector).batch:
            yield NO_BATCH_FORM.at(
                source.position, what="The source", name=source.name, connector=source.connector
            )
    for sink in spec.sinks:
        side = sink_side(sink.connector)
        # `--into` takes the place of the key `path`: what stores rows and has none can't be led elsewhere.
        if not side.batch or (side.stores and "path" not in side.options.model_fields):
            yield NO_BATCH_FORM.at(sink.position, what="The sink", name=sink.name, connector=sink.connector)
        elif side.stores and into is None:
            place = ", ".join(side.places(sink.options))
            yield BATCH_NEEDS_INTO.at(sink.position, sink=sink.name, place=place)
        elif side.stores and into is not None:
            yield from _place_problems(spec, sink, _place(into, sink))


def _place_problems(spec: PipelineSpec, sink: SinkSpec, place: Path) -> Iterator[Problem]:
    """Why a batch run must not replace what is in a folder: only its own results may go."""
    if (place / "_spark_metadata").exists():
        yield INTO_STREAM_FOLDER.at(sink.position, place=str(place))
        return
    declared = [p for each in spec.sources for p in source_side(each.connector).places(each.options)]
    declared += [p for each in spec.sinks for p in sink_side(each.connector).places(each.options)]
    touched = next((other for other in declared if _meet(place, Path(other))), None)
    if touched:
        yield INTO_DECLARED_PLACE.at(sink.position, place=str(place), other=touched)
    elif place.is_dir() and any(place.iterdir()) and not _marker(place).exists():
        yield INTO_NOT_EMPTY.at(sink.position, place=str(place))


def _marker(place: Path) -> Path:
    """A file beside the folder that says: a batch run wrote it, and the next one may replace it."""
    return place.parent / f".{place.name}.headwater-batch"


def _meet(one: Path, other: Path) -> bool:
    real, second = Path(os.path.realpath(one)), Path(os.path.realpath(other))
    return real.is_relative_to(second) or second.is_relative_to(real)


def _place(into: Path, sink: SinkSpec) -> Path:
    return into.absolute() / sink.name


def _options(sink: SinkSpec, into: Path | None) -> SinkOptions:
    """The sink's options; what stores rows writes below `--into` in its declared form."""
    if not sink_side(sink.connector).stores or into is None:
        return sink.options
    return sink.options.model_copy(update={"path": str(_place(into, sink))})


def _write(prepared: Prepared, spec: PipelineSpec, sink: SinkSpec, into: Path | None) -> str:
    options: Any = _options(sink, into)
    module = spark_module(sink.connector)
    try:
        module.write_batch(prepared.frames[sink.name], options, prepared.builder.context(sink))
    except SPARK_ERRORS as error:
        log = spec.folder / "logs" / "spark.log"
        raise QueryFailed(failure_problem(error, sink, spec.tables, spec.root, log)) from error
    except Exception as error:  # the user's own code: whatever it raises is told at the user's line
        raise QueryFailed(code_problem(error, sink, spec.root)) from error
    if into is not None and sink_side(sink.connector).stores:
        _marker(_place(into, sink)).touch()
    places = sink_side(sink.connector).places(options)
    return ", ".join(place if is_uri(place) else str(place) for place in places)
