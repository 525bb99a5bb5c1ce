"""Reading files on Spark: as a stream, as a batch, as a static table, and validated row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import commonpath
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from headwater.connectors.contract import METADATA, Context, QueryCheckpoint, RunTask, StaticRows
from headwater.connectors.files.admission import (
    Admission,
    Admissions,
    Finished,
    Record,
    place_of,
    read_by_all,
)
from headwater.connectors.files.bad_rows import BINARY, admits, has_texts, required
from headwater.connectors.files.clean_up import FinishedFiles
from headwater.connectors.files.errors import FILES_ADMITTED
from headwater.connectors.files.folders import FILE_FIELDS, PATH, Folders, encoded, is_left_to_spark
from headwater.connectors.files.opening import Opened, PlannedFiles
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
from headwater.connectors.files.validity import (
    ADDRESS,
    CORRUPT,
    REJECTED,
    TEXT,
    WHOLE_LINE,
    Decoder,
    Validation,
    address,
    no_text,
    replayed_texts,
)
from headwater.connectors.options import plain
from headwater.errors import PipelineError
from headwater.spec import CleanUp
from headwater.spec.paths import as_glob, fixed_folder, in_project, is_pattern
from headwater.values import BadRows, Refresh

# The rows of a files source, each validated: what Spark reads, and by which of its readers.

_CHOOSES = "pathglobfilter"
# What concerns files and lines, and not the values in them.
_ABOUT_FILES = (
    "linesep",
    "comment",
    _CHOOSES,
    "modifiedafter",
    "modifiedbefore",
    "ignoremissingfiles",
)


@dataclass(frozen=True)
class ValidatedFiles:
    """A files source whose rows are validated."""

    spark: SparkSession
    options: FilesSource
    context: Context
    schema: StructType
    max_row_bytes: int | None

    def rows(self, replayed: Callable[[], DataFrame] | None) -> DataFrame:
        """The rows of all paths; those that are replayed go to the path that they came from."""
        found, left, last = [], f.lit(True), len(self.options.path) - 1
        for number, path in enumerate(self.options.path):
            folders = self._folders(path)
            here = left & _lies_in(folders.base) if number < last else left
            left = left & ~here
            found.append(self._below(number, path, folders, replayed().where(here) if replayed else None))
        return united(found)

    def admission(self, readers: Sequence[QueryCheckpoint]) -> Admissions:
        """The task that opens new files."""
        finished = partial(read_by_all, readers, self.context.name)
        paths = enumerate(self.options.path)
        return Admissions(self._admission(number, path, finished) for number, path in paths)

    def _admission(self, number: int, path: str, finished: Finished) -> Admission:
        settings = {**self._settings, "mode": "PERMISSIVE"}
        inside = self._inside(self._folders(path))
        opened = Opened(self.spark, self.context.name, self.options.format, inside, settings)
        pattern = as_glob(path, self.context.root)
        record = Record(self.context.directory.admitted(number), pattern)
        record.begin()
        only = {key.lower(): value for key, value in self._settings.items()}.get(_CHOOSES, "")
        return Admission(
            self.context.name, pattern, record, opened, opened.stand_in, only=only, finished=finished
        )

    @property
    def _admitted(self) -> bool:
        return admits(self.options, self.context.bad_rows) and not self.context.batch

    @property
    def _settings(self) -> dict[str, str]:
        return {**read_options(self.options), **plain(self.options)}

    def _folders(self, path: str) -> Folders:
        sifted = self.context.bad_rows is not BadRows.FAIL
        columns, files = columns_of(self.schema), lister(self.spark, path)
        folders = folders_of(path, self.options, columns, self.context, files, sifted=sifted)
        return replace(folders, path=ADDRESS, validated=sifted)

    def _inside(self, folders: Folders) -> StructType:
        fields = [self.schema[column.name] for column in folders.inside]
        return StructType([StructField(each.name, each.dataType) for each in fields])

    def _below(self, number: int, path: str, folders: Folders, replayed: DataFrame | None) -> DataFrame:
        inside = self._inside(folders)
        format_ = "json" if self.options.format in BINARY else self.options.format
        decoder = Decoder(format_, inside, {} if self.options.format in BINARY else self._settings)
        decodes = self.options.format not in BINARY
        carried = (METADATA,) if self.context.metadata else ()
        validation = Validation(
            decoder, folders, required(self.options), self.max_row_bytes, decodes, carried
        )
        if has_texts(self.options, admitted=self._admitted):
            texts = decoder.rows(self._lines(number, path, folders))
            if replayed is not None:
                more = replayed_texts(replayed).select("*", *self._file_of_replayed)
                texts = texts.unionByName(decoder.replayed(more))
            return validation.texts(self._guarded(texts, folders))
        read = self._read(number, path, folders, inside)
        if replayed is not None:
            read = read.unionByName(_decoded(replayed, decoder).select("*", *self._file_of_replayed))
        return validation.read(self._guarded(read, folders))

    def _guarded(self, rows: DataFrame, folders: Folders) -> DataFrame:
        """A file in the wrong folders fails the query where bad rows do."""
        return rows if folders.validated else rows.where(folders.guard)

    def _lines(self, number: int, path: str, folders: Folders) -> DataFrame:
        kept = {key: value for key, value in self._settings.items() if key.lower() in _ABOUT_FILES}
        if self.options.header:
            settings, text = {**kept, **WHOLE_LINE}, f.encode("value", "ISO-8859-1").cast("string")
            rows = self._loaded("csv", "value string", settings, number, path, folders)
        else:
            more = {"wholetext": "true"} if self.options.format == "xml" else {}
            rows = self._loaded("text", "value string", {**kept, **more}, number, path, folders)
            text = f.col("value")
        read = rows.select(text.alias(TEXT), f.col(PATH).alias(ADDRESS), *self._file_of_row)
        if not self._admitted:
            return read.withColumn(REJECTED, no_text())
        inside = encoded_path(Record(self._admitted_folder(number), path).rejected)
        stands_in = f.instr(f.col(ADDRESS), inside) > 0
        return read.withColumn(REJECTED, f.when(stands_in, f.col(TEXT)))

    def _read(self, number: int, path: str, folders: Folders, inside: StructType) -> DataFrame:
        text, settings = self.options.format not in BINARY, self._settings
        own = CORRUPT if text else REJECTED
        if text:
            settings |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        schema = StructType([*inside, StructField(own, StringType())])
        rows = self._loaded(self.options.format, schema, settings, number, path, folders)
        other = REJECTED if text else CORRUPT
        address = f.col(PATH).alias(ADDRESS)
        return rows.select(*rows.columns, address, no_text().alias(other), *self._file_of_row)

    @property
    def _file_of_row(self) -> list[Column]:
        return [f.expr(each) for each in file_of_row(self.context)]

    @property
    def _file_of_replayed(self) -> list[Column]:
        """The same of a row that is replayed: of its file only the name is known."""
        known = {"file_path": f.col(ADDRESS), "file_name": f.regexp_extract(ADDRESS, "[^/]*$", 0)}
        fields = [known.get(name, f.lit(None)).cast(type_).alias(name) for name, type_ in FILE_FIELDS.items()]
        return [f.struct(*fields).alias(METADATA)] if self.context.metadata else []

    def _loaded(
        self,
        format_: str,
        schema: StructType | str,
        settings: dict[str, str],
        number: int,
        path: str,
        folders: Folders,
    ) -> DataFrame:
        more = {} if self.context.batch else limits(self.options, path, self.context)
        reader: Any = self.spark.read if self.context.batch else self.spark.readStream
        listed = self._list(number)
        if listed is not None:
            # The list has chosen already, and the files in place of rejected ones have names of their own.
            settings = {key: value for key, value in settings.items() if key.lower() != _CHOOSES}
            reader = reader.format(format_).schema(schema).options(**{**settings, **more})
            rows: DataFrame = reader.option("recursiveFileLookup", "true").load(str(listed))
            return rows
        reader = reader.format(format_).schema(schema).options(**{**settings, **more})
        return load_deep(reader, path, folders, self.context)

    def _list(self, number: int) -> Path | None:
        """The folder with the list of admitted files; none where nothing was ever started."""
        if not self._admitted:
            return None
        folder = self._admitted_folder(number)
        if self.context.starts:
            folder.mkdir(parents=True, exist_ok=True)
        return folder if folder.is_dir() else None

    def _admitted_folder(self, number: int) -> Path:
        folder = self.context.directory.admitted(number)
        if is_pattern(str(folder)):
            place, name = self.context.at("bad_rows"), self.context.name
            raise PipelineError(FILES_ADMITTED.at(place, name=name, folder=str(folder)))
        return folder


def _lies_in(base: str) -> Column:
    """Whether a row that is replayed came from a file below a folder, or from the file of that name."""
    file = f.col("row.file")
    return f.coalesce((file == base) | file.startswith(base.rstrip("/") + "/"), f.lit(False))


def encoded_path(path: Any) -> str:
    """A path as it stands in the address of a file."""
    return "/".join(encoded(part) for part in str(path).split("/")) + "/"


def _decoded(replayed: DataFrame, decoder: Decoder) -> DataFrame:
    """Rows that are replayed, as Spark's reader would give them."""
    text = f.col("row.value").cast("string")
    read = replayed.select(
        decoder.typed(text).alias("read"), text.alias("text"), f.col("row.file").alias("file")
    )
    # Of an xml file Spark keeps the whole text, in which the row is not to be found again.
    lost = f.col("read").isNull() if decoder.format != "xml" else f.lit(True)
    corrupt = f.when(lost, f.coalesce(f.col("text"), f.lit(""))).otherwise(f.col("read")[CORRUPT])
    return read.select(
        *(f.col("read")[each.name].alias(each.name) for each in decoder.inside),
        corrupt.alias(CORRUPT),
        f.expr(address("file")).alias(ADDRESS),
        no_text().alias(REJECTED),
    )


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
    """The rows of all paths, each validated; `replayed` reads rows that were quarantined."""
    schema = struct_of(schema_of(spark, options, context))
    return ValidatedFiles(spark, options, context, schema, max_row_bytes).rows(replayed)


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


def run_tasks(
    spark: SparkSession, options: FilesSource, context: Context, queries: Sequence[QueryCheckpoint]
) -> Iterator[RunTask]:
    """What opens new files, takes finished ones away, and makes planned batches fit."""
    admitted = admits(options, context.bad_rows)
    if admitted:
        readers = [each for each in queries if context.name in each.sources]
        schema = struct_of(schema_of(spark, options, context))
        yield ValidatedFiles(spark, options, context, schema, None).admission(readers)
    if options.clean_up:
        yield _clean_up(options, context, queries)
    yield PlannedFiles(context, len(options.path), queries, admitted=admitted)


def _clean_up(options: FilesSource, context: Context, queries: Iterable[QueryCheckpoint]) -> FinishedFiles:
    folder = commonpath(fixed_folder(path, context.root) for path in options.path)
    places = [as_glob(path, context.root) for path in options.path]
    queries = [replace(each, places=tuple(place_of(place) for place in each.places)) for each in queries]
    deep = is_left_to_spark(options.options)
    return FinishedFiles(context.name, CleanUp(options.archive_to), Path(folder), places, queries, deep=deep)
