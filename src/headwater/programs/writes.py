"""Writes of finished rows, caught: PySpark's classes are changed in this process, for good."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import Catalog, DataFrame, DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamReader

from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import PipelineError
from headwater.errors.catalogue.programs import SCRIPT_NEEDS_WRITE
from headwater.spark.interception import (
    FILES,
    INTO_TABLES,
    MAKES_TABLE,
    OF_CATALOGS,
    OF_FRAMES,
    OF_RDDS,
    replace_methods,
    writing_statement,
)
from headwater.spark.plans import frame_of_plan, parsed
from headwater.spark.query import catalog_session, option_of, writer_frame
from headwater.values import Position
from headwater.values.user_frames import own_place

# What a script would have written by now, to be read in its place: nothing was written.

_READERS = ("load", "csv", "json", "orc", "parquet", "text", "xml")


@dataclass(frozen=True)
class Shadow:
    """Rows that would be there, and the line that would have written them."""

    name: str
    frame: DataFrame
    place: Position | None


class Shadows:
    """Paths and tables that only the script's own writes would have made."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._paths: dict[str, Shadow] = {}
        self._tables: dict[str, Shadow] = {}
        self._folders: dict[str, str] = {}

    def as_meant(self, text: str) -> str:
        """A text with the places that the script named, where empty folders stand for them."""
        for folder, place in self._folders.items():
            text = text.replace(folder, place)
        return text

    def path_written(self, path: str | None, frame: DataFrame, place: Position | None) -> None:
        """A write to a path was caught."""
        if path is not None:
            self._paths[_plain(path)] = Shadow(path, _static(frame), place)

    def table_written(self, name: str, frame: DataFrame, place: Position | None) -> None:
        """A write to a table was caught; where there is none of this name, it can be read as a view."""
        spark = frame.sparkSession
        if _exists(spark, name):
            return
        static = _static(frame)
        self._tables[name.lower()] = Shadow(name, static, place)
        if "." not in name:
            static.createOrReplaceTempView(name)

    def cover_reads(self) -> None:
        """Let PySpark's readers find the shadows where they find nothing."""
        for name in _READERS:
            self._cover(DataFrameReader, name, self._read)
            self._cover(DataStreamReader, name, self._stream)
        self._cover_tables()

    def _cover(self, kind: Any, name: str, instead: Callable[..., Any]) -> None:
        original = getattr(kind, name)

        def read(reader: Any, *given: Any, **named: Any) -> Any:
            try:
                return original(reader, *given, **named)
            except SPARK_ERRORS:
                path = given[0] if given else named.pop("path", None)
                shadow = self._paths.get(_plain(path)) if isinstance(path, str) else None
                if shadow is None or os.path.exists(_plain(path)):
                    raise
                return self._found(instead, path, shadow, reader, original, given[1:], named)

        replace_methods(kind, **{name: read})

    def _found(
        self, instead: Callable[..., Any], path: str, shadow: Shadow, reader: Any, original: Any, *given: Any
    ) -> Any:
        place = own_place(sys._getframe(2))
        try:
            return instead(shadow, reader, original, *given)
        except SPARK_ERRORS as error:
            where = shadow.place or Position("the script", 0)
            raise PipelineError(
                SCRIPT_NEEDS_WRITE.at(place, place=path, file=Path(where.file).name, line=where.line)
            ) from error

    def _read(self, shadow: Shadow, reader: Any, original: Any, given: Any, named: Any) -> Any:
        """No rows in the reader's own columns, or else the rows that would have been written."""
        try:
            return original(reader, self._empty_folder(shadow.name), *given, **named)
        except SPARK_ERRORS:
            return shadow.frame

    def _stream(self, shadow: Shadow, reader: Any, original: Any, given: Any, named: Any) -> Any:
        try:
            return original(reader, self._empty_folder(shadow.name), *given, **named)
        except SPARK_ERRORS:
            folder = self._empty_folder(shadow.name)
            return original(reader.schema(shadow.frame.schema), folder, *given, **named)

    def _cover_tables(self) -> None:
        stream, read, named = DataStreamReader.table, DataFrameReader.table, SparkSession.table

        def streamed(reader: Any, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
            shadow = self._tables.get(tableName.lower())
            if shadow is None:
                return stream(reader, tableName)
            fresh = shadow.frame.sparkSession.readStream.schema(shadow.frame.schema)
            return fresh.format("parquet").load(self._empty_folder(shadow.name))

        def static(original: Any) -> Any:
            def table(reader: Any, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
                shadow = self._tables.get(tableName.lower())
                found: DataFrame = shadow.frame if shadow else original(reader, tableName)
                return found

            return table

        replace_methods(DataStreamReader, table=streamed)
        replace_methods(DataFrameReader, table=static(read))
        replace_methods(SparkSession, table=static(named))

    def _empty_folder(self, name: str) -> str:
        """An empty folder with the last part of a name, by which a stream is called."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch)) / (name.rstrip("/").rpartition("/")[2] or "rows")
        folder.mkdir()
        self._folders[str(folder)] = name
        return str(folder)


def _static(frame: DataFrame) -> DataFrame:
    """The rows of a write; those of a stream are not there yet."""
    return frame.sparkSession.createDataFrame([], frame.schema) if frame.isStreaming else frame


def _exists(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except SPARK_ERRORS:
        return False


def _plain(path: str) -> str:
    """A path in the one way in which it is remembered."""
    local = path.removeprefix("file://").removeprefix("file:")
    return local.rstrip("/") if "://" in local else os.path.abspath(local)


def catch_writes(shadows: Shadows) -> None:
    """Let nothing of Spark's write: what would be there afterwards is a shadow, which can be read."""
    _catch_writers(shadows)
    _catch_tables(shadows)
    _catch_row_functions()
    _catch_sql(shadows)


def _catch_writers(shadows: Shadows) -> None:
    def save(writer: Any, path: str | None = None, *_: Any, **options: Any) -> None:
        shadows.path_written(
            path or options.get("path") or option_of(writer, "path"), writer_frame(writer), _here()
        )

    def save_as_table(writer: Any, name: str, *_: Any, **options: Any) -> None:
        shadows.table_written(name, writer_frame(writer), _here())

    def jdbc(writer: Any, url: str, table: str, *_: Any, **options: Any) -> None:
        return None

    named = {"save": save, "saveAsTable": save_as_table, "insertInto": save_as_table, "jdbc": jdbc}
    replace_methods(DataFrameWriter, **{**named, **dict.fromkeys(FILES, save)})


def _catch_tables(shadows: Shadows) -> None:
    begin: Callable[..., None] = DataFrameWriterV2.__init__

    def begun(writer: Any, df: DataFrame, table: str) -> None:
        begin(writer, df, table)
        writer._headwater_table = table

    def write(writer: Any, *_: Any) -> None:
        shadows.table_written(writer._headwater_table, writer_frame(writer), _here())

    def create_table(
        catalog: Any,
        tableName: str,  # noqa: N803 - PySpark's name
        path: Any = None,
        source: Any = None,
        schema: Any = None,
        *_: Any,
        **__: Any,
    ) -> DataFrame:
        spark = catalog_session(catalog)
        frame: DataFrame = spark.createDataFrame([], schema if schema is not None else "value string")
        shadows.table_written(tableName, frame, _here())
        return frame

    replace_methods(DataFrameWriterV2, __init__=begun, **dict.fromkeys(INTO_TABLES, write))
    replace_methods(Catalog, **dict.fromkeys(OF_CATALOGS, create_table))
    replace_methods(MergeIntoWriter, merge=lambda writer: None)


def _catch_row_functions() -> None:
    """Functions that are called with rows for what they do elsewhere; on a stream Spark refuses them."""
    for name in OF_FRAMES:
        original = getattr(ClassicDataFrame, name)

        def called(frame: Any, function: Any, original: Any = original) -> None:
            if frame.isStreaming:
                original(frame, function)

        replace_methods(ClassicDataFrame, **{name: called})
    replace_methods(RDD, **dict.fromkeys(OF_RDDS, lambda rdd, *given, **options: None))


def _catch_sql(shadows: Shadows) -> None:
    run = SparkSession.sql

    def sql(spark: Any, sqlQuery: str, *given: Any, **named: Any) -> DataFrame:  # noqa: N803 - PySpark's name
        statement = writing_statement(spark, sqlQuery)
        if statement is None:
            return run(spark, sqlQuery, *given, **named)
        kind, table = statement
        if kind in MAKES_TABLE and table:
            frame = _made_by(spark, sqlQuery, kind)
            if frame is not None:
                shadows.table_written(table, frame, _here())
        # A statement returns no rows and no columns.
        nothing: DataFrame = spark.range(0).select()
        return nothing

    replace_methods(SparkSession, sql=sql)


def _made_by(spark: Any, text: str, kind: str) -> DataFrame | None:
    """The rows that a new table would hold: those of its query, or none."""
    plan = parsed(spark, text)
    if kind.endswith("AsSelect"):
        return frame_of_plan(spark, plan.query())
    columns = plan.tableSchema()
    return spark.createDataFrame([], _schema(columns)) if columns.size() else None


def _schema(java: Any) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(java.toDDL())


def _here() -> Position | None:
    return own_place(sys._getframe(2))
