"""What can only be seen when the whole pipeline is there: names, places, paths."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from headwater.connectors import sink_side, source_side
from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    NAME_TAKEN,
    NO_SINKS,
    NO_SUCH_PATH,
    REMOTE_FOLDER,
    SAME_PLACE,
    SPARK_SETTING_FIXED,
    SPARK_SETTING_NAME,
    STATIC_NOT_BATCH,
    WRITES_SOURCE,
)
from headwater.loaders.declaration import Declaration
from headwater.spec import Named, PipelineSpec
from headwater.spec.paths import is_uri
from headwater.values import nearest

FIXED_SETTINGS = {
    "spark.sql.session.timeZone": "Write `timezone:` at the top level of the file.",
    "spark.sql.streaming.multipleWatermarkPolicy": "Write `watermark_policy:` at the top level of the file.",
    "spark.sql.streaming.checkpointLocation": "Write `folder:` at the top level of the file.",
    "spark.scheduler.mode": "Take it out: each query has a fair pool of its own.",
}


def whole_problems(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    """Every problem of the pipeline as a whole."""
    yield from _names(spec)
    yield from _sources(spec, declaration)
    yield from _places(spec)
    yield from _settings(spec, declaration)
    folder = str(declaration.values.get("folder", ""))
    if is_uri(folder):
        yield REMOTE_FOLDER.at(declaration.places.of_value(("folder",)), folder=folder)
    if not declaration.values.get("sinks"):
        table = (*spec.names, "a_table")[0]
        yield NO_SINKS.at(spec.position, name=spec.name, table=table)


def _settings(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    for key in spec.spark:
        place = declaration.places.of_key(("spark", key))
        if key in FIXED_SETTINGS:
            yield SPARK_SETTING_FIXED.at(place, key=key, hint=FIXED_SETTINGS[key])
        elif not key.startswith("spark."):
            hadoop = key.startswith(("fs.", "dfs.", "hadoop.", "parquet.", "hive."))
            meant = f"spark.hadoop.{key}" if hadoop else f"spark.{key}"
            yield SPARK_SETTING_NAME.at(place, key=key, hint=f"Did you mean `{meant}`?")


def _names(spec: PipelineSpec) -> Iterator[Problem]:
    parts: tuple[tuple[Named, ...], ...] = (spec.readable, spec.sinks)
    for things in parts:
        seen: dict[str, Named] = {}
        for thing in things:
            first = seen.setdefault(thing.name.lower(), thing)
            if first is not thing:
                yield NAME_TAKEN.at(
                    thing.position, name=thing.name, first=_title(first), second=_title(thing)
                )


def _title(thing: Named) -> str:
    kind = type(thing).__name__.removesuffix("Spec").lower()
    return f"a {kind} in line {thing.position.line}" if thing.position else f"a {kind}"


def _sources(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    for source in spec.sources:
        side = source_side(source.connector)
        if source.static and not side.batch:
            yield STATIC_NOT_BATCH.at(source.position, name=source.name, connector=source.connector)
        for index, path in enumerate(side.places(source.options)):
            # A place that is no absolute path is an address, and nothing to look for on the disk.
            if os.path.isabs(path) and not glob.has_magic(path) and not Path(path).exists():
                place = declaration.places.of_value(("sources", source.name, "path", index))
                yield NO_SUCH_PATH.at(place, name=source.name, path=path, hint=_path_hint(Path(path)))


def _path_hint(path: Path) -> str:
    parent = path.parent
    names = [each.name for each in parent.iterdir()] if parent.is_dir() else []
    meant = nearest(path.name, names)
    make = f"Make the folder before the first start: `mkdir -p {path}`."
    return f"Did you mean `{meant}`? Else: `mkdir -p {path}`." if meant else make


def _places(spec: PipelineSpec) -> Iterator[Problem]:
    written: dict[str, str] = {}
    read = [
        (place, source.name)
        for source in spec.sources
        for place in source_side(source.connector).places(source.options)
    ]
    for sink in spec.sinks:
        for place in sink_side(sink.connector).places(sink.options):
            first = written.setdefault(_spelt_once(place), sink.name)
            if first != sink.name:
                yield SAME_PLACE.at(sink.position, first=first, second=sink.name, place=place)
            for other, source in read:
                if _lies_in(place, other):
                    yield WRITES_SOURCE.at(
                        sink.position, sink=sink.name, source=source, place=place, read=other
                    )
                    break


def _spelt_once(place: str) -> str:
    """One place has one spelling, whatever links and `file:` say."""
    local = re.sub(r"^file:/+", "/", place)
    return os.path.realpath(local) if os.path.isabs(local) else local.rstrip("/")


def _lies_in(place: str, read: str) -> bool:
    """Whether a place is what a source reads or is inside: Spark looks into folders below, too."""
    inner, outer = PurePath(_spelt_once(place)), PurePath(_spelt_once(read))
    # A glob over files names no folder, so a file that the sink would write is tried.
    written = inner / f"part-00000{outer.suffix}"
    return any(outer == each or each.match(str(outer)) for each in (written, inner, *inner.parents))
