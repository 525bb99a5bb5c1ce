"""Files as Spark reads them: as a stream, as a batch, and as a static table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headwater.checkpoint import SINK_LOG
from headwater.checkpoint.store import Note
from headwater.connectors.contract import Context, StaticRows
from headwater.connectors.files import errors
from headwater.connectors.files.folders import (
    FILE_OF_ROW,
    PATH,
    Folders,
    base_of,
    common_base,
    fits_a_folder,
    is_hidden,
    is_left_to_spark,
    local_files,
    look,
    named_safely,
)
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.static import StaticFiles
from headwater.connectors.files.validity import NOT_TEXT, has_text, undecoded
from headwater.connectors.options import option_texts
from headwater.errors import PipelineError
from headwater.errors.catalogue.running import BAD_ROW
from headwater.spark.local_files import has_file_filter
from headwater.spark.private import file_system
from headwater.spec import Column
from headwater.spec.paths import as_glob, escaped, fixed_folder, in_project, is_pattern, is_uri, local_matches
from headwater.spec.schema import backticked
from headwater.values import Refresh

NO_GLOB = {"__globPaths__": "false"}
"""A Spark option to take a path literally. It works for a single path only, and streams ignore it."""
_AT_ONCE = 5
"""The maximum number of files per batch if paths contain glob characters: Spark then lists every file once per
file, and starts a job for it above 32 paths."""
_CHOOSE_FILES = ("pathGlobFilter", "modifiedAfter", "modifiedBefore", "maxFileAge")
_ANY_AGE = f"{2**63 - 1}ms"
"""By default, Spark skips files that are 7 days older than the newest one, even if that one is ignored."""


@dataclass(frozen=True)
class _StoredSchema:
    """A schema in Spark's JSON format."""

    schema: dict[str, Any]


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source, and what all read modes share."""

    spark: SparkSession
    options: FilesSource
    context: Context

    @cached_property
    def schema(self) -> StructType:
        if self.options.infer_schema:
            return self._inferred()
        declared = self.options.columns.ddl if self.options.columns else "value string"
        return cast(StructType, StructType.fromDDL(declared))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their types as strings; Spark cannot parse all of these strings."""
        return tuple(Column(field.name, field.dataType.simpleString()) for field in self.schema.fields)

    @property
    def file_of_row(self) -> list[str]:
        """SQL: the file of a row, if a table uses it."""
        return [FILE_OF_ROW] if self.context.metadata else []

    @property
    def _left_to_spark(self) -> bool:
        """Whether the user's options leave the directories to Spark."""
        return is_left_to_spark(self.options.options)

    def stream(self) -> DataFrame:
        """New files as they appear."""
        return united(map(self._loaded if self._left_to_spark else self._followed, self.options.path))

    def batch(self) -> DataFrame:
        """The existing files."""
        return united(map(self._loaded if self._left_to_spark else self._found, self.options.path))

    def _loaded(self, path: str) -> DataFrame:
        rows = self._decoded(self._load(self.reader(path, self.schema), path))
        # A batch lists each file once, and so does a stream with this option.
        if not self.context.batch and self.options.given("recursiveFileLookup").lower() != "true":
            rows = rows.where(named_safely(self.context.name))
        return rows.selectExpr("*", *self.file_of_row)

    def _followed(self, path: str) -> DataFrame:
        folders = self.folders(path)
        inside = StructType([self.schema[column.name] for column in folders.inside])
        reader = self.reader(path, inside)
        if self._has_file_filter(folders):
            reader = reader.options(**folders.file_filter, recursiveFileLookup="true")
            rows = self._decoded(self._load(reader, path))
        else:
            rows = self._decoded(self.load_deep(reader, path, folders)).where(folders.guard)
        return rows.selectExpr(*folders.selected, *self.file_of_row)

    def _has_file_filter(self, folders: Folders) -> bool:
        """Whether Spark can ask about each file when it lists it, so that rows need no path.

        It asks before it applies the options that choose files; with one of these, each row is checked.
        """
        chooses = any(self.options.given(option) for option in _CHOOSE_FILES) or self.options.max_file_age
        return folders.keys == () and not chooses and has_file_filter(self.spark)

    def _found(self, path: str) -> DataFrame:
        folders, reader = self.folders(path), self.reader(path, self.schema)
        # Spark does not find key=value columns below a pattern without a base path.
        reader = reader.option("basePath", folders.base) if folders.keys else reader
        rows = self._decoded(self._load(reader, path))
        return rows.selectExpr(*(f"`{column.name}`" for column in self.columns), *self.file_of_row)

    def static(self, refresh: Refresh, *, cache: bool) -> tuple[DataFrame, tuple[StaticRows, ...]]:
        """The files at the start of a batch, depending on `refresh`."""
        tables = [
            self._table(number, path, refresh, cache=cache) for number, path in enumerate(self.options.path)
        ]
        frames = [each.rows for each in tables]
        if not self._left_to_spark:
            frames = [frame.select(*(f"`{column.name}`" for column in self.columns)) for frame in frames]
        place = f"'{self.context.name}'"
        return united(self._decoded(frame, place) for frame in frames), tuple(tables)

    def _table(self, number: int, path: str, refresh: Refresh, *, cache: bool) -> StaticFiles:
        settings = self.options.spark_options()
        if not self._left_to_spark:
            folders = self.folders(path)
            settings |= {"basePath": folders.base} if folders.keys else {}

        def load(more: Mapping[str, str], fixed: StructType | None) -> DataFrame:
            reader = self.spark.read.format(self.options.format).schema(fixed or self.schema)
            return self._load(reader.options(**{**settings, **more}), path)

        return StaticFiles(
            self.spark,
            load,
            settings,
            self.context.directory.snapshots / str(number),
            refresh=refresh,
            cache=cache,
            empty_if_missing=is_pattern(in_project(path, self.context.root)),
        )

    def reader(
        self,
        path: str,
        schema: StructType | str,
        format_: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> DataFrameReader | DataStreamReader:
        """Spark's reader for a path; by default with the format and options of the source."""
        reader: Any = self.spark.read if self.context.batch else self.spark.readStream
        limits = {} if self.context.batch else self._limits(path)
        given = self.options.spark_options() if settings is None else settings
        made: DataFrameReader | DataStreamReader = (
            reader.format(format_ or self.options.format).schema(schema).options(**{**limits, **given})
        )
        return made

    def _limits(self, path: str) -> dict[str, str]:
        options, files = self.options, self.options.max_files_per_batch
        if is_pattern(fixed_folder(path, self.context.root)) and not options.max_bytes_per_batch:
            files = min(files or _AT_ONCE, _AT_ONCE)
        return option_texts(
            {
                "maxFilesPerTrigger": files,
                "maxBytesPerTrigger": options.max_bytes_per_batch,
                "maxFileAge": options.max_file_age or (None if options.given("maxFileAge") else _ANY_AGE),
                "latestFirst": options.latest_first or None,
                "fileNameOnly": options.file_name_only or None,
            }
        )

    def load_deep(self, reader: DataFrameReader | DataStreamReader, path: str, folders: Folders) -> DataFrame:
        """Load one path with the directories below it, without the files that the source ignores.

        Without `recursiveFileLookup`, a stream of Spark 4.1 reads all files of a batch again for each file
        with a glob character in its path. With it, it lists each file once.
        """
        rows = self._load(reader.option("recursiveFileLookup", "true"), path)
        return rows.where(replace(folders, path=PATH).is_read)

    def _load(self, reader: DataFrameReader | DataStreamReader, path: str) -> DataFrame:
        """Load one path. The user's path may be a glob, but the path of the project is taken literally."""
        spelled = self._spelled(path)
        if spelled == path or is_pattern(in_project(path, self.context.root)):
            return reader.load(spelled)
        # Spark treats any path with a backslash as a glob: it does not find key=value columns there, and does
        # not use the file list of its file sink.
        if isinstance(reader, DataFrameReader):
            return reader.options(**NO_GLOB).load(path)
        if (Path(path) / SINK_LOG).exists():
            params = {"name": self.context.name, "path": path}
            raise PipelineError(errors.FILES_PATH_INVALID.at(self.context.at("path"), **params))
        return reader.load(spelled)

    def _spelled(self, path: str) -> str:
        """The path as a glob; PipelineError if it does not match a file or directory with exactly that name."""
        spelled, inside = as_glob(path, self.context.root), in_project(path, self.context.root)
        if is_pattern(inside) and os.path.exists(path) and path not in local_matches(spelled):
            params = {"name": self.context.name, "path": path, "escaped": escaped(inside.lstrip("/"))}
            raise PipelineError(errors.FILES_PATH_IS_GLOB.at(self.context.at("path"), **params))
        return spelled

    def _decoded(self, rows: DataFrame, place: str = PATH) -> DataFrame:
        """Fail the query at a row that is not valid text, which Spark would change silently.

        Spark's CSV reader, and its JSON reader with an explicit encoding, replace bytes that they cannot decode
        with U+FFFD. A file that contains this character cannot be distinguished here, but can if each row is
        read as bytes (see `has_texts`). Spark's readers of other JSON and of XML detect such bytes.
        """
        options = self.options
        encoded = options.encoding or options.given("encoding") or options.given("charset")
        columns = [(backticked(each.name), each.dataType.simpleString()) for each in rows.schema]
        wrong: list[str] = []
        if options.format == "text":
            wrong = [f"NOT is_valid_utf8({name})" for name, type_ in columns if type_ == "string"]
        elif options.format == "csv" or (options.format == "json" and encoded):
            wrong = [undecoded(name, type_) for name, type_ in columns if has_text(type_)]
        if not wrong or options.given("mode"):
            return rows
        bad = " OR ".join(f"coalesce({each}, false)" for each in wrong)
        says = f"concat_ws('\t', '{BAD_ROW.code}', '{self.context.name}', 'malformed, {NOT_TEXT}', {place})"
        return rows.where(f"CASE WHEN {bad} THEN raise_error({says}) ELSE true END")

    def _inferred(self) -> StructType:
        """The schema inferred at the first start; later starts read the stored one."""
        options, context = self.options, self.context
        note = Note.at(context.directory.schema, _StoredSchema)
        try:
            noted = note.read()
            if noted is not None:
                return StructType.fromJson(noted.schema)
        except (ValueError, KeyError, TypeError) as error:
            file = str(context.directory.schema)
            raise PipelineError(errors.FILES_STORED_SCHEMA_UNREADABLE.at(context.place, file=file)) from error
        reader = self.spark.read.format(options.format).options(**options.spark_options())
        if options.format == "csv":
            reader = reader.option("inferSchema", "true")
        base = common_base(options.path, context.root)
        if base and not self._left_to_spark:
            reader = reader.option("basePath", base)
        try:
            schema = reader.load([self._spelled(path) for path in options.path]).schema
        except AnalysisException as error:
            params = {"name": context.name, "paths": ", ".join(options.path)}
            raise PipelineError(errors.FILES_SCHEMA_NOT_INFERRED.at(context.place, **params)) from error
        context.keep(context.directory.schema, note.text(_StoredSchema(schema.jsonValue())))
        return schema

    # The key=value directories of a source: those at the start, compared with its schema.

    def folders(self, path: str, *, sifted: bool = False) -> Folders:
        """How the files below a path get their columns; PipelineError if that differs between files.

        If each row is `sifted`, files in directories whose keys are not columns are not considered.
        """
        base = base_of(path, str(self.context.root), (column.name for column in self.columns))
        pattern = as_glob(path, self.context.root)
        files = partial(_remote_files, self.spark) if is_uri(path) else local_files
        examples = look(pattern, base, files)
        if sifted:
            known = {column.name.lower() for column in self.columns}
            fitting = {keys: file for keys, file in examples.items() if known >= set(map(str.lower, keys))}
            examples = fitting or examples
        keys = self._keys(examples)
        if keys is None and self.options.format == "text" and len(self.columns) > 1:
            # A text file contains only one column.
            names = [column.name for column in self.columns]
            inside = "value" if "value" in names else names[0]
            keys = tuple(name for name in names if name != inside)
        if keys is None and is_pattern(in_project(path, self.context.root)):
            keys = ()
        by_name = self.options.format not in ("csv", "text")
        return Folders(self.context.name, base, self.columns, keys, pattern, by_name=by_name)

    def _keys(self, examples: Mapping[tuple[str, ...], str]) -> tuple[str, ...] | None:
        """The partition keys of all files; empty without partition directories, None without files."""
        at, name = self.context.at, self.context.name
        different = {frozenset(map(str.lower, keys)): file for keys, file in examples.items()}
        if len(different) > 1:
            one, other = sorted(different.values())[:2]
            raise PipelineError(errors.PARTITION_KEYS_MIXED.at(at("path"), name=name, one=one, other=other))
        by_name = {column.name.lower(): column for column in self.columns}
        for key, file in ((key, file) for keys, file in examples.items() for key in keys):
            column = by_name.get(key.lower())
            if column is None:
                params = {"name": name, "key": key, "file": file}
                raise PipelineError(errors.PARTITION_KEY_MISSING.at(at("schema"), **params))
            if not fits_a_folder(column):
                place = at("schema", column.name)
                raise PipelineError(errors.PARTITION_KEY_TYPE.at(place, name=name, key=key, type=column.type))
        return next(iter(examples), None)


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows."""
    return reduce(DataFrame.unionByName, frames)


def _remote_files(spark: SparkSession, pattern: str) -> Iterator[tuple[str, str]]:
    """What Spark would list on a remote file system: one file per directory."""
    system, path = file_system(spark, pattern)
    for start in system.globStatus(path) or ():
        waiting = [start]
        while waiting:
            status = waiting.pop()
            if status.isFile():
                yield str(start.getPath()), str(status.getPath())
                continue
            listed = system.listStatus(status.getPath())
            below = [each for each in listed if not is_hidden(str(each.getPath().getName()))]
            waiting += [each for each in below if each.isDirectory()]
            waiting += [each for each in below if each.isFile()][:1]
