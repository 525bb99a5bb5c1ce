"""Reading files on Spark: as a stream, as a batch, as a static table, and with a verdict on each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os.path import commonpath
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.connectors.contract import Context, Reader, StaticRows, Task
from headwater.connectors.files.admission import Admissions, Finished, place_of
from headwater.connectors.files.bad_rows import admits
from headwater.connectors.files.clean_up import FinishedFiles
from headwater.connectors.files.folders import is_left_to_spark
from headwater.connectors.files.opening import PlannedFiles
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.reading import (
    columns_of,
    decoded,
    file_of_row,
    folders_of,
    limits,
    lister,
    load_deep,
    load_path,
    read,
    read_options,
    schema_of,
    struct_of,
    united,
)
from headwater.connectors.files.static import StaticFiles
from headwater.connectors.files.validated import JudgedFiles
from headwater.connectors.options import plain
from headwater.spec import CleanUp
from headwater.spec.paths import as_glob, fixed_folder, in_project, is_pattern
from headwater.values import Refresh


def read_stream(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """New files as they appear."""
    if is_left_to_spark(options.options):
        return read(spark, lambda: spark.readStream, options, context)
    schema = struct_of(schema_of(spark, options, context))
    columns, settings = columns_of(schema), {**read_options(options), **plain(options)}

    def followed(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, lister(spark, path))
        inside = StructType([schema[column.name] for column in folders.inside])
        reader = spark.readStream.format(options.format).schema(inside)
        reader = reader.options(**{**limits(options, path, context), **settings})
        rows = decoded(load_deep(reader, path, folders, context), options, context.name)
        return rows.where(folders.guard).selectExpr(*folders.selected, *file_of_row(context))

    return united([followed(path) for path in options.path])


def read_batch(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """The files that are there now."""
    if is_left_to_spark(options.options):
        return read(spark, lambda: spark.read, options, context)
    schema = schema_of(spark, options, context)
    columns, settings = columns_of(schema), {**read_options(options), **plain(options)}

    def held(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, lister(spark, path))
        reader = spark.read.format(options.format).schema(schema).options(**settings)
        # Spark finds no key=value columns of what a pattern stands for by itself.
        reader = reader.option("basePath", folders.base) if folders.keys else reader
        rows = decoded(load_path(reader, path, context), options, context.name)
        return rows.selectExpr(*(f"`{column.name}`" for column in columns), *file_of_row(context))

    return united([held(path) for path in options.path])


def read_validated(
    spark: SparkSession,
    options: FilesSource,
    context: Context,
    *,
    max_row_bytes: int | None,
    replayed: Callable[[], DataFrame] | None,
) -> DataFrame:
    """The rows of all paths, each with a verdict; `replayed` reads rows that were set aside."""
    schema = struct_of(schema_of(spark, options, context))
    return JudgedFiles(spark, options, context, schema, max_row_bytes).rows(replayed)


def admission(spark: SparkSession, options: FilesSource, context: Context, finished: Finished) -> Admissions:
    """The task that opens new files before a batch takes them; `finished` are those that all have read."""
    schema = struct_of(schema_of(spark, options, context))
    return JudgedFiles(spark, options, context, schema, None).admission(finished)


def watch(options: FilesSource, context: Context, readers: list[Reader]) -> PlannedFiles:
    """Makes batches fit that were planned when bad files were treated otherwise."""
    admitted = admits(options, context.bad_rows)
    return PlannedFiles(context, len(options.path), readers, admitted=admitted)


def read_static(
    spark: SparkSession, options: FilesSource, context: Context, refresh: Refresh, *, cache: bool
) -> tuple[DataFrame, tuple[StaticRows, ...]]:
    """The files that are there when a batch starts, as far as `refresh` says so."""
    given = {**read_options(options), **plain(options)}
    schema = schema_of(spark, options, context)
    columns = columns_of(schema)

    def table(number: int, path: str) -> StaticFiles:
        settings = given
        if not is_left_to_spark(options.options):
            folders = folders_of(path, options, columns, context, lister(spark, path))
            settings = {**given, "basePath": folders.base} if folders.keys else given

        def load(more: Mapping[str, str], fixed: StructType | None) -> DataFrame:
            reader = spark.read.format(options.format).schema(fixed or schema)
            return load_path(reader.options(**{**settings, **more}), path, context)

        return StaticFiles(
            spark,
            load,
            settings,
            context.directory.snapshots / str(number),
            refresh=refresh,
            cache=cache,
            empty_if_missing=is_pattern(in_project(path, context.root)),
        )

    tables = [table(number, path) for number, path in enumerate(options.path)]
    frames = [each.rows for each in tables]
    if not is_left_to_spark(options.options):
        frames = [frame.select(*(f"`{column.name}`" for column in columns)) for frame in frames]
    place = f"'{context.name}'"
    return united([decoded(frame, options, context.name, place) for frame in frames]), tuple(tables)


def clean_up(options: FilesSource, context: Context, readers: Iterable[Reader]) -> Task:
    """What becomes of finished files, in view of every query that reads files."""
    folder = commonpath(fixed_folder(path, context.root) for path in options.path)
    places = [as_glob(path, context.root) for path in options.path]
    readers = [replace(each, places=tuple(place_of(place) for place in each.places)) for each in readers]
    deep = is_left_to_spark(options.options)
    return FinishedFiles(context.name, CleanUp(options.archive_to), Path(folder), places, readers, deep=deep)
