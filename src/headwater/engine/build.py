"""From the graph to DataFrames: each source and table is built once and visible to SQL by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checks.columns import watermark_problem
from headwater.checks.declared import secret_problems
from headwater.connectors import Context, source_side
from headwater.engine.connector_code import spark_module
from headwater.engine.no_writes import without_writes
from headwater.engine.project_code import ProjectCode
from headwater.engine.spark_references import parsed_references
from headwater.engine.state_operators import let_processors_find_their_modules
from headwater.engine.static_sources import Kept, StaticSources
from headwater.engine.translate import function_problem, source_problem, sql_problem, unknown_column
from headwater.errors import HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.plan import Graph, Reference
from headwater.plan.graph import SESSION_PARAMETER, offline_references
from headwater.spec import Distinct, FunctionRef, PipelineSpec, SourceSpec, TableSpec

SPARK_ERRORS = (PySparkException, Py4JError)


def columns_in(frame: DataFrame) -> dict[str, str]:
    """The columns of a DataFrame by name and type."""
    return columns_of(frame.schema)


def columns_of(schema: StructType) -> dict[str, str]:
    """The columns of a schema by name and type."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


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
    stand_in: Callable[[SourceSpec], DataFrame | None] = lambda source: None
    """In a test: the rows of a source in place of what its connector reads; None for those."""
    frames: dict[str, DataFrame] = field(default_factory=dict)
    statics: StaticSources = field(init=False)
    broken: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """What can't be built, and why; nothing is said of what only reads it."""

    def __post_init__(self) -> None:
        self.statics = StaticSources(self.spec.root, self.spec.folder)

    def graph(self) -> Graph:
        """The graph as Spark's own parser sees it, with all that is wrong with it."""
        return Graph.of(self.spec, self._references)

    def frame(self, name: str, graph: Graph) -> DataFrame:
        """The DataFrame of a source or table, after all that it reads; PipelineError with all that is wrong.

        One broken table does not hide another: what does not read it is built all the same.
        """
        needed = graph.upstream(name)
        for each in needed:
            reads = graph.reads[each] or ()
            if each in self.frames or each in self.broken:
                continue
            if graph.sound(each) and all(other in self.frames for other in reads):
                self._build(each)
        problems = [problem for each in needed for problem in self.broken.get(each, ())]
        if name not in self.frames:
            raise PipelineError.of(problems)
        return self.frames[name]

    def _build(self, name: str) -> None:
        sources = {source.name: source for source in self.spec.sources}
        tables = {table.name: table for table in self.spec.tables}
        try:
            built = self._source(sources[name]) if name in sources else self._table(tables[name])
        except PipelineError as error:
            self.broken[name] = error.problems
            return
        built.createOrReplaceTempView(name)
        self.frames[name] = built

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
            at=declared.at,
            batch=self.batch,
        )

    def _references(self, table: TableSpec) -> tuple[Reference, ...] | None:
        if table.sql is None:
            return offline_references(table)
        try:
            return parsed_references(self.spark, table)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _source(self, source: SourceSpec) -> DataFrame:
        try:
            return self._watermarked(self.stand_in(source) or self.read(source), source)
        except SPARK_ERRORS as error:
            raise PipelineError(source_problem(error, source, self.spec.root)) from error

    def read(self, source: SourceSpec) -> DataFrame:
        """The rows of a source as it was declared."""
        missing = tuple(secret_problems(source))
        if missing:
            raise PipelineError(*missing)
        module, context = spark_module(source.connector), self.context(source)
        frame: DataFrame
        if not source.static and not self.batch:
            frame = module.read_stream(self.spark, source.options, context)
            return frame
        if self.batch or not source_side(source.connector).refreshes:
            frame = module.read_batch(self.spark, source.options, context)
            if source.cache and not self.batch:
                self.statics.add(source, Kept(frame))
            return frame
        frame, rows = module.read_static(
            self.spark, source.options, context, source.refresh, cache=source.cache
        )
        self.statics.add(source, *rows)
        return frame

    def _table(self, table: TableSpec) -> DataFrame:
        try:
            return self._watermarked(self._rows(table), table)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _rows(self, table: TableSpec) -> DataFrame:
        if table.sql is not None:
            return self._sql(table)
        return self._distinct(table, table.distinct) if table.distinct else self._call(table)

    def _distinct(self, table: TableSpec, distinct: Distinct) -> DataFrame:
        names = {name.lower(): name for name in self.spec.names}
        frame, columns = self.frames[names[distinct.reads.lower()]], list(distinct.columns)
        known = {column.lower() for column in frame.columns}
        unknown = [column for column in columns if column.lower() not in known]
        if unknown:
            raise PipelineError.of(unknown_column(table, column, frame.columns) for column in unknown)
        if distinct.within_watermark:
            return frame.dropDuplicatesWithinWatermark(columns)
        return frame.dropDuplicates(columns)

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
            with without_writes():
                returned = function(**given)
        except HeadwaterError:
            raise
        except Exception as error:  # the user's own code: whatever it raises is told at the user's line
            raise PipelineError(function_problem(error, table, self.spec.root)) from error
        if not isinstance(returned, DataFrame):
            says = "nothing" if returned is None else f"a {type(returned).__name__}"
            place = table.function.defined or table.position
            raise PipelineError(TABLE_NOT_A_DATAFRAME.at(place, name=table.name, returned=says))
        let_processors_find_their_modules(returned)
        return returned

    def _watermarked(self, frame: DataFrame, thing: SourceSpec | TableSpec) -> DataFrame:
        if thing.watermark is None:
            return frame
        problem = watermark_problem(thing, columns_in(frame))
        if problem:
            raise PipelineError(problem)
        # On static data a watermark changes nothing, and Spark takes it as that.
        return frame.withWatermark(thing.watermark.column, str(thing.watermark.delay))
