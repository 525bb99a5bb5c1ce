"""From the graph to DataFrames: each source and table is built once and visible to SQL by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import Context, all_connectors
from headwater.engine.project_code import ProjectCode
from headwater.engine.spark_references import parsed_references
from headwater.engine.translate import function_problem, source_problem, sql_problem
from headwater.errors import HeadwaterError, PipelineError
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.plan import Graph, Reference
from headwater.plan.graph import SESSION_PARAMETER, offline_references
from headwater.spec import FunctionRef, PipelineSpec, SourceSpec, TableSpec, Watermark

SPARK_ERRORS = (PySparkException, Py4JError)


def spark_module(connector: str) -> Any:
    """The half of a connector that talks to Spark, loaded by name."""
    return import_module(all_connectors()[connector].spark)


@dataclass
class Builder:
    """Builds the DataFrames of one pipeline in one session."""

    spark: SparkSession
    spec: PipelineSpec
    code: ProjectCode | None
    batch: bool = False
    """Read every source as a finished data set."""
    kept: dict[Path, str] = field(default_factory=dict)
    """Texts for the run folder (an inferred schema), written when the run really starts."""
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The graph as Spark's own parser sees it; PipelineError with all that is wrong."""
        graph = Graph.of(self.spec, self._references)
        if graph.problems:
            raise PipelineError.of(graph.problems)
        return graph

    def frame(self, name: str, graph: Graph) -> DataFrame:
        """The DataFrame of a source or table, after all that it reads."""
        sources = {source.name: source for source in self.spec.sources}
        tables = {table.name: table for table in self.spec.tables}
        for each in graph.upstream(name):
            if each not in self.frames:
                built = self._source(sources[each]) if each in sources else self._table(tables[each])
                built.createOrReplaceTempView(each)
                self.frames[each] = built
        return self.frames[name]

    def load(self, ref: FunctionRef) -> Callable[..., Any]:
        """The user's function."""
        if ref.function is not None:
            return ref.function
        assert self.code is not None, "a named function has a project"
        return self.code.function(Path(ref.file), ref.name, ref.place)

    def context(self, declared: Any) -> Context:
        """What a connector's spark module gets to know."""
        return Context(
            declared.name,
            declared.position,
            self.spec.root,
            self.spec.folder,
            self.load,
            self.kept.__setitem__,
        )

    def _references(self, table: TableSpec) -> tuple[Reference, ...] | None:
        if table.function:
            return offline_references(table)
        try:
            return parsed_references(self.spark, table)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _source(self, source: SourceSpec) -> DataFrame:
        module = spark_module(source.connector)
        read = module.read_batch if source.static or self.batch else module.read_stream
        try:
            frame: DataFrame = read(self.spark, source.options, self.context(source))
            return self._watermarked(frame, source.watermark)
        except SPARK_ERRORS as error:
            raise PipelineError(source_problem(error, source)) from error

    def _table(self, table: TableSpec) -> DataFrame:
        frame = self._sql(table) if table.sql is not None else self._call(table)
        try:
            return self._watermarked(frame, table.watermark)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _sql(self, table: TableSpec) -> DataFrame:
        try:
            return self.spark.sql(table.sql or "")
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _call(self, table: TableSpec) -> DataFrame:
        assert table.function is not None, "a table is SQL or a function"
        function = self.load(table.function)
        names = {name.lower(): name for name in self.spec.names}
        given = {
            name: self.spark if name == SESSION_PARAMETER else self.frames[names[name.lower()]]
            for name in table.function.parameters
        }
        try:
            returned = function(**given)
        except HeadwaterError:
            raise
        except Exception as error:  # the user's own code: whatever it raises is told at the user's line
            raise PipelineError(function_problem(error, table, self.spec.root)) from error
        if not isinstance(returned, DataFrame):
            says = "nothing" if returned is None else f"a {type(returned).__name__}"
            raise PipelineError(TABLE_NOT_A_DATAFRAME.at(table.position, name=table.name, returned=says))
        return returned

    def _watermarked(self, frame: DataFrame, watermark: Watermark | None) -> DataFrame:
        # On static data a watermark changes nothing, and Spark takes it as that.
        return frame.withWatermark(watermark.column, str(watermark.delay)) if watermark else frame
