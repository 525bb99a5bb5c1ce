"""Intercepts batch writes of a checked script by permanently patching PySpark classes in this process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import Catalog, DataFrame, DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import PipelineError
from headwater.errors.catalogue.programs import SCRIPT_NEEDS_WRITE
from headwater.spark.interception import (
    MAKES_TABLE,
    Method,
    WritingMethod,
    intercept,
    replace_methods,
    writing_statement,
)
from headwater.spark.plans import frame_of_plan, parsed
from headwater.spark.query import catalog_session, option_of, writer_frame
from headwater.values import Position
from headwater.values.user_frames import own_place

# What a script would have written so far, so that later reads find it: nothing is written.

_READERS = ("load", "csv", "json", "orc", "parquet", "text", "xml")


@dataclass(frozen=True)
class VirtualWrite:
    """Rows that would exist, and the line that would have written them."""

    name: str
    frame: DataFrame
    place: Position | None


class VirtualWrites:
    """Paths and tables that the script would have created."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._paths: dict[str, VirtualWrite] = {}
        self._tables: dict[str, VirtualWrite] = {}
        self._folders: dict[str, str] = {}

    def as_meant(self, text: str) -> str:
        """A text in which the original paths replace the temporary empty directories."""
        for folder, place in self._folders.items():
            text = text.replace(folder, place)
        return text

    def path_written(self, path: str | None, frame: DataFrame, place: Position | None) -> None:
        """Record a write to a path."""
        if path is not None:
            self._paths[_plain(path)] = VirtualWrite(path, _static(frame), place)

    def table_written(self, name: str, frame: DataFrame, place: Position | None) -> None:
        """Record a write to a table; if the table does not exist, it can be read as a view."""
        spark = frame.sparkSession
        if _exists(spark, name):
            return
        static = _static(frame)
        self._tables[name.lower()] = VirtualWrite(name, static, place)
        if "." not in name:
            static.createOrReplaceTempView(name)

    def cover_reads(self) -> None:
        """Make PySpark's readers return these rows if they find nothing."""
        for kind in (DataFrameReader, DataStreamReader):
            for name in _READERS:
                self._cover(kind, name)
        for owner in (DataFrameReader, DataStreamReader, SparkSession):
            self._cover_table(owner)

    def _cover(self, kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def read(reader: Any, *given: Any, **named: Any) -> Any:
            try:
                return original(reader, *given, **named)
            except SPARK_ERRORS:
                path = given[0] if given else named.pop("path", None)
                write = self._paths.get(_plain(path)) if isinstance(path, str) else None
                if write is None or os.path.exists(_plain(path)):
                    raise
            folder = self._empty_folder(write.name)
            try:
                # No rows with the columns of the reader, or else the rows that would have been written.
                return original(reader, folder, *given[1:], **named)
            except SPARK_ERRORS:
                if kind is DataFrameReader:
                    return write.frame
            try:
                return original(reader.schema(write.frame.schema), folder, *given[1:], **named)
            except SPARK_ERRORS as error:
                where = write.place or Position("the script", 0)
                needs = {"place": path, "file": Path(where.file).name, "line": where.line}
                raise PipelineError(SCRIPT_NEEDS_WRITE.at(_here(), **needs)) from error

        replace_methods(kind, **{name: read})

    def _cover_table(self, kind: Any) -> None:
        original = kind.table

        def table(reader: Any, tableName: str) -> Any:  # noqa: N803 - PySpark's name
            write = self._tables.get(tableName.lower())
            if write is None:
                return original(reader, tableName)
            if kind is not DataStreamReader:
                return write.frame
            fresh = write.frame.sparkSession.readStream.schema(write.frame.schema)
            return fresh.format("parquet").load(self._empty_folder(write.name))

        replace_methods(kind, table=table)

    def _empty_folder(self, name: str) -> str:
        """An empty directory with the last part of a name, which becomes the name of a stream."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch)) / (name.rstrip("/").rpartition("/")[2] or "rows")
        folder.mkdir()
        self._folders[str(folder)] = name
        return str(folder)

    # Replacements for PySpark's methods.

    def save(self, writer: Any, path: str | None = None, *_: Any, **options: Any) -> None:
        path = path or options.get("path") or option_of(writer, "path")
        self.path_written(path, writer_frame(writer), _here())

    def save_as_table(self, writer: Any, name: str, *_: Any, **options: Any) -> None:
        self.table_written(name, writer_frame(writer), _here())

    def write_to(self, writer: Any, *_: Any) -> None:
        self.table_written(writer._headwater_table, writer_frame(writer), _here())

    def create_table(
        self,
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
        self.table_written(tableName, frame, _here())
        return frame

    def sql(self, spark: Any, sqlQuery: str, *_: Any, **__: Any) -> DataFrame:  # noqa: N803 - PySpark's name
        kind, table = writing_statement(spark, sqlQuery) or ("", "")
        if kind in MAKES_TABLE and table:
            frame = _made_by(spark, sqlQuery, kind)
            if frame is not None:
                self.table_written(table, frame, _here())
        # A statement returns no rows and no columns.
        nothing: DataFrame = spark.range(0).select()
        return nothing


def _static(frame: DataFrame) -> DataFrame:
    """The rows of a write; a stream has no rows yet."""
    return frame.sparkSession.createDataFrame([], frame.schema) if frame.isStreaming else frame


def _exists(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except SPARK_ERRORS:
        return False


def _plain(path: str) -> str:
    """The canonical form of a path."""
    local = path.removeprefix("file://").removeprefix("file:")
    return local.rstrip("/") if "://" in local else os.path.abspath(local)


def catch_writes(virtual: VirtualWrites, streams: Mapping[str, Method]) -> None:
    """Prevent all writes of Spark, and make the rows available to later reads.

    `streams` maps the names of methods that start a query to their replacements.
    """

    def nothing(*_: Any, **__: Any) -> None:
        """Ignore a write that no later read could find."""

    handlers: dict[type | tuple[type, str], Method] = {
        DataFrameWriter: virtual.save,
        (DataFrameWriter, "saveAsTable"): virtual.save_as_table,
        (DataFrameWriter, "insertInto"): virtual.save_as_table,
        (DataFrameWriter, "jdbc"): nothing,
        DataFrameWriterV2: virtual.write_to,
        MergeIntoWriter: nothing,
        Catalog: virtual.create_table,
        ClassicDataFrame: nothing,
        RDD: nothing,
        SparkSession: virtual.sql,
        **{(DataStreamWriter, name): start for name, start in streams.items()},
    }

    def caught(method: WritingMethod, original: Method) -> Method:
        handler = handlers.get((method.kind, method.name)) or handlers[method.kind]

        def called(*given: Any, **named: Any) -> Any:
            return (handler if method.writes(*given, **named) else original)(*given, **named)

        return called

    intercept(caught)
    begin: Method = DataFrameWriterV2.__init__

    def begun(writer: Any, df: DataFrame, table: str) -> None:
        begin(writer, df, table)
        writer._headwater_table = table

    replace_methods(DataFrameWriterV2, __init__=begun)


def _made_by(spark: Any, text: str, kind: str) -> DataFrame | None:
    """The rows of a new table: those of its query, or none."""
    plan = parsed(spark, text)
    if kind.endswith("AsSelect"):
        return frame_of_plan(spark, plan.query())
    columns = plan.tableSchema()
    return spark.createDataFrame([], str(columns.toDDL())) if columns.size() else None


def _here() -> Position | None:
    return own_place(sys._getframe(1))
