"""Checks that need the whole pipeline: names, output locations, paths, Spark settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headwater.connectors import sink_side, source_side, validates
from headwater.connectors.connector import RefreshesStatic
from headwater.errors import Place, Problem
from headwater.errors.catalogue import connectors
from headwater.errors.catalogue.pipelines import (
    JAR_NOT_FOUND,
    NAME_CONFLICT,
    PIPELINE_NO_SINKS,
    RUN_DIR_REMOTE,
    SINK_IN_RUN_DIR,
    SINK_PATH_CONFLICT,
    SINK_WRITES_SOURCE,
    SOURCE_PATH_NOT_FOUND,
    SPARK_SETTING_INVALID,
    SPARK_SETTING_NOT_ALLOWED,
    STATIC_UNSUPPORTED,
)
from headwater.errors.catalogue.running import BAD_ROWS_UNSUPPORTED, QUARANTINE_STATIC_SOURCE
from headwater.loaders.groups import group_problems
from headwater.loaders.keys import Declaration
from headwater.spec import Named, PipelineSpec, SourceSpec
from headwater.spec.paths import as_glob, in_project, is_pattern, is_uri, lies_in, overlap, spelt_once
from headwater.values import BadRows, EveryBatch, Never, did_you_mean, nearest

# Names of Spark settings, from the file, a call or the command line.

_FIXED = {
    "spark.sql.session.timeZone": "Set `timezone` at the top level of the file.",
    "spark.sql.streaming.multipleWatermarkPolicy": "Set `watermark_policy` at the top level of the file.",
    "spark.sql.streaming.checkpointLocation": "Set `run_dir` at the top level of the file.",
    "spark.scheduler.mode": "Remove it. Each query already has its own fair scheduler pool.",
}
SPARK_UI = "spark.ui.enabled"
_UI_NEEDED = "Remove it. Spark serves the metrics of `spark_metrics: prometheus` on its UI."
_HADOOP = ("fs.", "dfs.", "hadoop.", "parquet.", "hive.")


def setting_problem(key: str, place: Place | None = None) -> Problem | None:
    """The problem of a setting that Spark would ignore, or that Headwater sets."""
    if key in _FIXED:
        return SPARK_SETTING_NOT_ALLOWED.at(place, key=key, hint=_FIXED[key])
    if not key.startswith("spark."):
        meant = _meant(key)
        full = (
            "Write the full name from the Spark configuration page, such as `spark.sql.shuffle.partitions`."
        )
        return SPARK_SETTING_INVALID.at(place, key=key, hint=f"Did you mean `{meant}`?" if meant else full)
    return None


def _meant(key: str) -> str | None:
    """The name that was most likely meant; None if there is no likely one."""
    first, _, rest = key.partition(".")
    if rest and nearest(first, ["spark"]):
        return f"spark.{rest}"
    if key.startswith(_HADOOP):
        return f"spark.hadoop.{key}"
    return f"spark.{key}" if first in ("sql", "driver", "executor", "ui") else None


def whole_problems(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    """Every problem of the pipeline as a whole."""
    yield from _names(spec)
    yield from _sources(spec, declaration)
    yield from _places(spec)
    yield from _loops(spec)
    yield from group_problems(spec)
    for key in spec.spark:
        if problem := setting_problem(key, declaration.places.of_key(("spark", key))):
            yield problem
    if spec.spark_metrics and spec.spark_metrics.prometheus and spec.spark.get(SPARK_UI) == "false":
        place = declaration.places.of_key(("spark", SPARK_UI))
        yield SPARK_SETTING_NOT_ALLOWED.at(place, key=SPARK_UI, hint=_UI_NEEDED)
    yield from _jars(spec, declaration)
    folder = str(declaration.values.get("run_dir", ""))
    if is_uri(folder):
        yield RUN_DIR_REMOTE.at(declaration.places.of_value(("run_dir",)), folder=folder)
    if not declaration.values.get("sinks"):
        table = (*spec.names, "a_table")[0]
        yield PIPELINE_NO_SINKS.at(spec.position, name=spec.name, table=table)


def _jars(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    for index, path in enumerate(spec.jars):
        if not is_uri(path) and not Path(path).is_file():
            jars = [each.name for each in Path(path).parent.glob("*.jar")]
            there = "Copy it there, or correct the path. Paths are relative to the pipeline file."
            hint = did_you_mean(Path(path).name, jars, there)
            yield JAR_NOT_FOUND.at(declaration.places.of_value(("jars", index)), path=path, hint=hint)


def _names(spec: PipelineSpec) -> Iterator[Problem]:
    parts: tuple[tuple[Named, ...], ...] = (spec.functions, spec.readable, spec.sinks)
    for things in parts:
        seen: dict[str, Named] = {}
        for thing in things:
            first = seen.setdefault(thing.name.lower(), thing)
            if first is not thing:
                yield NAME_CONFLICT.at(
                    thing.position, name=thing.name, first=_title(first), second=_title(thing)
                )


def _title(thing: Named) -> str:
    kind = type(thing).__name__.removesuffix("Spec").lower()
    return f"a {kind} on line {thing.position.line}" if thing.position else f"a {kind}"


def _sources(spec: PipelineSpec, declaration: Declaration) -> Iterator[Problem]:
    for source in spec.sources:
        side = source_side(source.connector)
        if source.static and not side.batch:
            yield STATIC_UNSUPPORTED.at(source.position, name=source.name, connector=source.connector)
        yield from _refresh(source, refreshes=isinstance(side, RefreshesStatic))
        refused = tuple(side.problems(source))
        told = {problem.place for problem in refused}
        # The connector reports the same position in more detail.
        yield from (problem for problem in _bad_rows(source) if problem.place not in told)
        yield from refused
        for key in side.stream_keys if source.static else ():
            if (key,) in source.places:
                yield connectors.OPTION_NEEDS_STREAM.at(source.at(key), name=source.name, key=key)
        for index, path in enumerate(side.places(source.options)):
            # A location that is not an absolute path is an address, not a path on this machine.
            written = in_project(path, spec.root)
            if os.path.isabs(path) and not is_pattern(written) and not Path(path).exists():
                place = declaration.places.of_value(("sources", source.name, "path", index))
                yield SOURCE_PATH_NOT_FOUND.at(
                    place, name=source.name, path=path, hint=_path_hint(Path(path))
                )


def _refresh(source: SourceSpec, *, refreshes: bool) -> Iterator[Problem]:
    """Keys of static sources that would have no effect, or that conflict."""
    if not source.static:
        for key in ("refresh", "cache"):
            if (key,) in source.places:
                yield connectors.OPTION_NEEDS_STATIC.at(source.at(key), name=source.name, key=key)
    elif source.cache and isinstance(source.refresh, EveryBatch):
        yield connectors.CACHE_REFRESH_CONFLICT.at(source.at("cache"), name=source.name)
    elif not refreshes and not isinstance(source.refresh, Never):
        yield connectors.REFRESH_UNSUPPORTED.at(
            source.at("refresh"), name=source.name, connector=source.connector
        )


def _bad_rows(source: SourceSpec) -> Iterator[Problem]:
    """Bad-row keys that the connector does not support, and quarantines of static sources."""
    if validates(source, BadRows.QUARANTINE):
        if source.static and source.bad_rows is BadRows.QUARANTINE:
            yield QUARANTINE_STATIC_SOURCE.at(source.at("bad_rows"), name=source.name)
        return
    for key in ("bad_rows", "max_row_bytes"):
        if (key,) in source.places:
            yield BAD_ROWS_UNSUPPORTED.at(
                source.at(key), name=source.name, key=key, connector=source.connector
            )


def _path_hint(path: Path) -> str:
    parent = path.parent
    meant = nearest(path.name, (each.name for each in parent.iterdir())) if parent.is_dir() else None
    create = f"Create the directory before the first start: `mkdir -p {path}`."
    return f"Did you mean `{meant}`? Otherwise, run `mkdir -p {path}`." if meant else create


def _is_around(one: str, other: str) -> bool:
    """Whether two locations are the same, or one is inside the other; addresses never overlap."""
    return one == other or (os.path.isabs(one) and os.path.isabs(other) and overlap(one, other))


def _loops(spec: PipelineSpec) -> Iterator[Problem]:
    """Sinks that write what a source reads, as only their connector can tell."""
    for sink in spec.sinks:
        side = sink_side(sink.connector)
        for source in spec.sources:
            if side.feeds(sink.options, source.options):
                written = ", ".join(side.places(sink.options))
                read = ", ".join(source_side(source.connector).places(source.options))
                yield SINK_WRITES_SOURCE.at(
                    sink.position, sink=sink.name, source=source.name, place=written, read=read
                )


def _places(spec: PipelineSpec) -> Iterator[Problem]:
    written: dict[str, str] = {}
    read = [
        (place, source.name)
        for source in spec.sources
        for place in source_side(source.connector).places(source.options)
    ]
    for sink in spec.sinks:
        for place in sink_side(sink.connector).places(sink.options):
            spelt = spelt_once(place)
            met = [name for other, name in written.items() if _is_around(other, spelt) and name != sink.name]
            if met and not sink_side(sink.connector).appends:
                yield SINK_PATH_CONFLICT.at(sink.position, first=met[0], second=sink.name, place=place)
            written.setdefault(spelt, sink.name)
            if os.path.isabs(spelt) and _is_around(spelt_once(str(spec.run_dir)), spelt):
                yield SINK_IN_RUN_DIR.at(sink.position, sink=sink.name, place=place, folder=spec.run_dir)
            for other, source in read:
                if lies_in(place, as_glob(other, spec.root)):
                    yield SINK_WRITES_SOURCE.at(
                        sink.position, sink=sink.name, source=source, place=place, read=other
                    )
                    break
