"""What stands against taking finished files away, and what it means for others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headwater.checkpoint import SINK_LOG
from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import sink_side, source_side
from headwater.errors import Problem
from headwater.errors.catalogue.files_source import (
    CLEAN_UP_ARCHIVE,
    CLEAN_UP_DISK,
    CLEAN_UP_IN_PROCESS,
    CLEAN_UP_NEW_SINK,
    CLEAN_UP_SHARED,
    CLEAN_UP_SINK,
    CLEAN_UP_STATIC,
    CLEAN_UP_WAITS,
)
from headwater.spec import CleanUp, PipelineSpec, SourceSpec
from headwater.spec.paths import fixed_folder, is_uri, overlap


def clean_up_of(source: SourceSpec) -> CleanUp | None:
    """What becomes of a source's finished input."""
    return source_side(source.connector).clean_up(source.options)


class CleanUpUnsafe(Rule):
    """Finished files are taken away from the source that names it, and from nobody else."""

    entries = {
        CLEAN_UP_STATIC: Severity.ERROR,
        CLEAN_UP_SHARED: Severity.ERROR,
        CLEAN_UP_SINK: Severity.ERROR,
        CLEAN_UP_ARCHIVE: Severity.ERROR,
        CLEAN_UP_DISK: Severity.ERROR,
        CLEAN_UP_IN_PROCESS: Severity.ERROR,
    }
    example = """
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
          known: {connector: files, path: orders/, format: json, schema: {id: int}, static: true}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            clean_up = clean_up_of(source)
            if clean_up:
                for problem in _objections(situation.spec, source, clean_up):
                    yield Finding(problem)
                for sink in situation.graph.readers(source.name):
                    if sink_side(sink.connector).in_process:
                        problem = CLEAN_UP_IN_PROCESS.at(
                            sink.position, sink=sink.name, name=source.name, done=clean_up.done
                        )
                        yield Finding(problem)


class CleanUpWaits(Rule):
    """A file stays until every stream over its folder has read it; some streams leave files unread."""

    entries = {CLEAN_UP_WAITS: Severity.WARNING}
    example = """
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
          recent: {connector: files, path: orders/, format: json, schema: {id: int}, max_file_age: 1 day}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        spec = situation.spec
        streams = [source for source in spec.sources if not source.static]
        for source in (each for each in streams if clean_up_of(each)):
            mine = _folders(spec, source)
            for other in (each for each in streams if each is not source):
                shared = [f for f in _folders(spec, other) if any(overlap(f, each) for each in mine)]
                keys = source_side(other.connector).passes_by(other.options)
                if keys and shared:
                    named = ", ".join(f"`{key}`" for key in keys)
                    problem = CLEAN_UP_WAITS.at(
                        other.position, name=source.name, other=other.name, keys=named, place=shared[0]
                    )
                    yield Finding(problem, Severity.WARNING)


class CleanUpNewSink(Rule):
    """A sink that starts anew does not see the files that were taken away before it came."""

    entries = {CLEAN_UP_NEW_SINK: Severity.ADVICE}
    example = """
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
        sinks:
          all: {reads: orders, connector: files, path: all/, format: json}
          added_later: {reads: orders, connector: console}
    """
    lasting = False

    def findings(self, situation: Situation) -> Iterator[Finding]:
        spec, graph = situation.spec, situation.graph
        names = {name.lower(): name for name in spec.names}
        for source in spec.sources:
            clean_up = clean_up_of(source)
            readers = [s for s in spec.sinks if source.name in graph.upstream(names[s.reads.lower()])]
            if clean_up is None or not any(sink.name in situation.stored for sink in readers):
                continue
            for sink in readers:
                if sink.name not in situation.stored:
                    problem = CLEAN_UP_NEW_SINK.at(
                        sink.position, sink=sink.name, name=source.name, done=clean_up.done
                    )
                    yield Finding(problem, Severity.ADVICE, sink.name)


def _objections(spec: PipelineSpec, source: SourceSpec, clean_up: CleanUp) -> Iterator[Problem]:
    place = source.at("clean_up")
    if source.static:
        yield CLEAN_UP_STATIC.at(place, name=source.name)
        return
    for folder in _folders(spec, source):
        for other in spec.sources:
            if other.static and any(overlap(folder, each) for each in _folders(spec, other)):
                yield CLEAN_UP_SHARED.at(place, name=source.name, other=other.name, place=folder)
        written = [each for sink in spec.sinks for each in sink_side(sink.connector).places(sink.options)]
        if (Path(folder) / SINK_LOG).exists() or any(overlap(folder, each) for each in written):
            yield CLEAN_UP_SINK.at(place, name=source.name, place=folder)
    if clean_up.archive_to:
        yield from _archive_objections(spec, source, clean_up.archive_to)


def _archive_objections(spec: PipelineSpec, source: SourceSpec, archive: str) -> Iterator[Problem]:
    place = source.at("archive_to")
    for other in spec.sources:
        for folder in _folders(spec, other):
            if overlap(archive, folder):
                yield CLEAN_UP_ARCHIVE.at(
                    place, name=source.name, archive=archive, other=other.name, place=folder
                )
    for folder in _folders(spec, source):
        if _disk(folder) != _disk(archive):
            yield CLEAN_UP_DISK.at(place, name=source.name, archive=archive, place=folder)


def _folders(spec: PipelineSpec, source: SourceSpec) -> list[str]:
    places = source_side(source.connector).places(source.options)
    return [fixed_folder(place, spec.root) for place in places if place.startswith("/") or is_uri(place)]


def _disk(folder: str) -> int:
    """The file system that a folder is on, or will be."""
    path = Path(folder)
    while not path.exists():
        path = path.parent
    return os.stat(path).st_dev
