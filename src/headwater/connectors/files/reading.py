"""What all ways of reading files share: schema, options, and the loading of one path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headwater.checkpoint import SINK_LOG
from headwater.checkpoint.store import Note
from headwater.connectors.contract import Context
from headwater.connectors.files.errors import (
    FILES_KEY_NOT_NAMED,
    FILES_KEY_TYPE,
    FILES_KEYS_DIFFER,
    FILES_LOG_UNREAD,
    FILES_NOT_INFERRED,
    FILES_PATH_IS_GLOB,
    FILES_STORED_SCHEMA,
)
from headwater.connectors.files.folders import (
    FILE_OF_ROW,
    PATH,
    Folders,
    Lister,
    base_of,
    common_base,
    fits_a_folder,
    is_hidden,
    is_left_to_spark,
    local_files,
    look,
    named_safely,
)
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.files.validity import NOT_TEXT, has_text, undecoded
from headwater.connectors.options import plain
from headwater.errors import PipelineError
from headwater.errors.catalogue.running import BAD_ROW
from headwater.spark.private import file_system
from headwater.spec import Column
from headwater.spec.paths import as_glob, escaped, fixed_folder, in_project, is_pattern, is_uri, local_matches
from headwater.spec.schema import backticked

NO_GLOB = {"__globPaths__": "false"}
"""Spark's own option to take a path literally. It works for one path alone, and a stream ignores it."""
_AT_ONCE = 5
"""So many files make a batch where each has a character of a glob in its path: Spark then lists every file as
often as there are files, and above 32 paths it starts a job for that."""
_ANY_AGE = f"{2**63 - 1}ms"
"""Spark skips files that are 7 days older than the newest that it has listed, in ignored directories, too."""


def read(
    spark: SparkSession,
    reader: Callable[[], DataStreamReader | DataFrameReader],
    options: FilesSource,
    context: Context,
) -> DataFrame:
    """Read all paths with their directories left to Spark."""
    schema = schema_of(spark, options, context)
    given = {key.lower(): value.lower() for key, value in plain(options).items()}
    lists_once = context.batch or given.get("recursivefilelookup") == "true"

    def loaded(path: str) -> DataFrame:
        more = {} if context.batch else limits(options, path, context)
        settings = {**read_options(options), **more, **plain(options)}
        rows = load_path(reader().format(options.format).schema(schema).options(**settings), path, context)
        rows = decoded(rows, options, context.name)
        rows = rows if lists_once else rows.where(named_safely(context.name))
        return rows.selectExpr("*", *file_of_row(context))

    return united([loaded(path) for path in options.path])


def united(frames: list[DataFrame]) -> DataFrame:
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionByName(frame)
    return united


def load_deep(
    reader: DataFrameReader | DataStreamReader, path: str, folders: Folders, context: Context
) -> DataFrame:
    """Load one path with the directories below it, without the files that the source ignores.

    A stream of Spark 4.1 that does not look into directories reads all files of a batch once more for each
    file that has a character of a glob in its path. With `recursiveFileLookup` it lists each file once.
    """
    rows = load_path(reader.option("recursiveFileLookup", "true"), path, context)
    return rows.where(replace(folders, path=PATH).is_read)


def load_path(reader: DataFrameReader | DataStreamReader, path: str, context: Context) -> DataFrame:
    """Load one path. What the user wrote may be a glob; the folder that the project lies in never is."""
    spelled = _spelled(path, context)
    if spelled == path or is_pattern(in_project(path, context.root)):
        return reader.load(spelled)
    # Spark takes any path with a backslash for a glob: it finds no key=value columns there by itself, and it
    # does not look for the list of files that its own file sink keeps.
    if isinstance(reader, DataFrameReader):
        return reader.options(**NO_GLOB).load(path)
    if (Path(path) / SINK_LOG).exists():
        raise PipelineError(FILES_LOG_UNREAD.at(context.at("path"), name=context.name, path=path))
    return reader.load(spelled)


def _spelled(path: str, context: Context) -> str:
    """The path as a glob; PipelineError if a file or directory of that very name exists that it misses."""
    spelled, inside = as_glob(path, context.root), in_project(path, context.root)
    if is_pattern(inside) and os.path.exists(path) and path not in local_matches(spelled):
        params = {"name": context.name, "path": path, "escaped": escaped(inside.lstrip("/"))}
        raise PipelineError(FILES_PATH_IS_GLOB.at(context.at("path"), **params))
    return spelled


def file_of_row(context: Context) -> list[str]:
    """SQL: the file that a row is from, if a table asks for it."""
    return [FILE_OF_ROW] if context.metadata else []


def decoded(rows: DataFrame, options: FilesSource, name: str, place: str = PATH) -> DataFrame:
    """Fails the query at a row that is not valid text, which Spark would change without a word.

    Spark's reader of csv, and of json in a given encoding, has put U+FFFD in place of what it could not
    decode. If the file itself has that character, that can't be told here; it can where each row is read as
    bytes (see `has_texts`). Its readers of other json and of xml find such bytes themselves.
    """
    given = {key.lower() for key in options.options} | ({"encoding"} if options.encoding else set())
    replaces = options.format == "csv" or (options.format == "json" and given & {"encoding", "charset"})
    columns = [(backticked(each.name), each.dataType.simpleString()) for each in rows.schema]
    wrong: list[str] = []
    if options.format == "text":
        wrong = [f"NOT is_valid_utf8({name})" for name, type_ in columns if type_ == "string"]
    elif replaces:
        wrong = [undecoded(name, type_) for name, type_ in columns if has_text(type_)]
    if not wrong or "mode" in given:
        return rows
    bad = " OR ".join(f"coalesce({each}, false)" for each in wrong)
    says = f"concat_ws('\t', '{BAD_ROW.code}', '{name}', 'malformed, {NOT_TEXT}', {place})"
    return rows.where(f"CASE WHEN {bad} THEN raise_error({says}) ELSE true END")


def schema_of(spark: SparkSession, options: FilesSource, context: Context) -> StructType | str:
    if options.columns:
        return options.columns.ddl
    if options.infer_schema:
        return _inferred(spark, options, context)
    return "value string"


def lister(spark: SparkSession, path: str) -> Lister:
    return partial(_remote_files, spark) if is_uri(path) else local_files


def _remote_files(spark: SparkSession, pattern: str) -> Iterator[tuple[str, str]]:
    """What Spark would list on another file system: one file of each folder."""
    system, path = file_system(spark, pattern)
    for start in system.globStatus(path) or ():
        waiting = [start]
        while waiting:
            status = waiting.pop()
            if status.isFile():
                yield str(start.getPath()), str(status.getPath())
                continue
            below = [each for each in system.listStatus(status.getPath()) if not _is_hidden(each)]
            waiting += [each for each in below if each.isDirectory()]
            waiting += [each for each in below if each.isFile()][:1]


def _is_hidden(status: Any) -> bool:
    return is_hidden(str(status.getPath().getName()))


def columns_of(schema: StructType | str) -> tuple[Column, ...]:
    """The columns as others see them; Spark can't read every type back from this text."""
    return tuple(Column(field.name, field.dataType.simpleString()) for field in struct_of(schema).fields)


def struct_of(schema: StructType | str) -> StructType:
    return schema if isinstance(schema, StructType) else cast(StructType, StructType.fromDDL(schema))


@dataclass(frozen=True)
class _StoredSchema:
    """As Spark writes it in JSON."""

    schema: dict[str, Any]


def _inferred(spark: SparkSession, options: FilesSource, context: Context) -> StructType:
    """The schema worked out at the first start; every later start reads the stored one."""
    stored = context.directory.schema
    note = Note.at(stored, _StoredSchema)
    try:
        noted = note.read()
        if noted is not None:
            return StructType.fromJson(noted.schema)
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(FILES_STORED_SCHEMA.at(context.place, file=str(stored))) from error
    reader = spark.read.format(options.format).options(**read_options(options), **plain(options))
    if options.format == "csv":
        reader = reader.option("inferSchema", "true")
    base = common_base(options.path, context.root)
    if base and not is_left_to_spark(options.options):
        reader = reader.option("basePath", base)
    try:
        schema = reader.load([_spelled(path, context) for path in options.path]).schema
    except AnalysisException as error:
        paths = ", ".join(options.path)
        raise PipelineError(FILES_NOT_INFERRED.at(context.place, name=context.name, paths=paths)) from error
    context.keep(stored, note.text(_StoredSchema(schema.jsonValue())))
    return schema


def limits(options: FilesSource, path: str, context: Context) -> dict[str, str]:
    files = options.max_files_per_batch
    if is_pattern(fixed_folder(path, context.root)) and not options.max_bytes_per_batch:
        files = min(files or _AT_ONCE, _AT_ONCE)
    given = {key.lower() for key in options.options}
    age = None if "maxfileage" in given else _ANY_AGE
    limits = {
        "maxFilesPerTrigger": files,
        "maxBytesPerTrigger": options.max_bytes_per_batch,
        "maxFileAge": f"{options.max_file_age.milliseconds}ms" if options.max_file_age else age,
        "latestFirst": "true" if options.latest_first else None,
        "fileNameOnly": "true" if options.file_name_only else None,
    }
    return {key: str(value) for key, value in limits.items() if value is not None}


def read_options(options: FilesSource) -> dict[str, str]:
    settings = {
        **format_options(options),
        "multiLine": "true" if options.multiline else None,
        "encoding": options.encoding,
        # Names in the first line that are not those of the schema stop the query; Spark's own default reads
        # the values by their places, whatever stands above them.
        "enforceSchema": "false" if options.header else None,
        # A row that does not fit its schema stops the query; Spark's own default turns it into nulls.
        "mode": "FAILFAST" if options.format in ("csv", "json", "xml") else None,
    }
    return {key: value for key, value in settings.items() if value is not None}


def format_options(options: FilesSource | FilesSink) -> dict[str, str | None]:
    given = {key.lower() for key in options.options}
    return {
        # As in RFC 4180, a quote inside quotes is doubled; Spark's own default is a backslash before it.
        "escape": '"' if options.format == "csv" and "escape" not in given else None,
        "header": "true" if options.header else None,
        "sep": options.delimiter,
        "rowTag": options.row_tag,
        "timestampFormat": options.timestamp_format,
        "dateFormat": options.date_format,
    }


# The key=value folders of a declared source: what is there at the start, held against its schema.


def folders_of(
    path: str,
    options: FilesSource,
    columns: tuple[Column, ...],
    context: Context,
    files: Lister,
    *,
    sifted: bool = False,
) -> Folders:
    """How the files below a path get their columns; PipelineError where that is not one way for all.

    Files in folders whose keys are no columns are left out of it where each row is `sifted`.
    """
    base = base_of(path, str(context.root), (column.name for column in columns))
    pattern = as_glob(path, context.root)
    examples = look(pattern, base, files)
    if sifted:
        known = {column.name.lower() for column in columns}
        fitting = {keys: file for keys, file in examples.items() if known >= {key.lower() for key in keys}}
        examples = fitting or examples
    keys = _keys(examples, columns, context)
    if keys is None and options.format == "text" and len(columns) > 1:
        # Only one column of a text file stands in the file.
        names = [column.name for column in columns]
        inside = "value" if "value" in names else names[0]
        keys = tuple(name for name in names if name != inside)
    if keys is None and is_pattern(in_project(path, context.root)):
        keys = ()
    by_name = options.format not in ("csv", "text")
    return Folders(context.name, base, columns, keys, pattern, by_name=by_name)


def _keys(
    examples: Mapping[tuple[str, ...], str], columns: tuple[Column, ...], context: Context
) -> tuple[str, ...] | None:
    """The keys of all files; none where they lie in no such folder, None where nothing is there."""
    different = {frozenset(key.lower() for key in keys): file for keys, file in examples.items()}
    if len(different) > 1:
        one, other = sorted(different.values())[:2]
        raise PipelineError(FILES_KEYS_DIFFER.at(context.at("path"), name=context.name, one=one, other=other))
    by_name = {column.name.lower(): column for column in columns}
    for keys, file in examples.items():
        for key in keys:
            column = by_name.get(key.lower())
            if column is None:
                place = context.at("schema")
                raise PipelineError(FILES_KEY_NOT_NAMED.at(place, name=context.name, key=key, file=file))
            if not fits_a_folder(column):
                place = context.at("schema", column.name)
                raise PipelineError(FILES_KEY_TYPE.at(place, name=context.name, key=key, type=column.type))
    return next(iter(examples), None)
