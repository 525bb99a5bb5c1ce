"""From the graph to DataFrames: each source and table is built once and visible to SQL by its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.types import StructType

from headwater.connectors import Context, sink_side, source_side, validates
from headwater.connectors.connector import RefreshesStatic, ValidatesRows
from headwater.connectors.contract import METADATA, QUARANTINE_COLUMNS, ValidatedRows
from headwater.engine.plan_record import parsed_references
from headwater.engine.project_code import ProjectCode, driver_path
from headwater.engine.rows import (
    apply_bad_rows,
    expectation_problems,
    expected_rows,
    quarantined_bad_rows,
    quarantined_violations,
    validated_rows,
    with_replayed_rows,
)
from headwater.engine.session import send_by_value
from headwater.engine.static_sources import CachedRows, StaticSources
from headwater.engine.translate import function_problem, source_problem, sql_problem, unknown_column
from headwater.errors import HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue.connectors import CONNECTOR_FILE_OUTSIDE_RUN_DIR
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.events.counts import SOURCE_COUNTS, TABLE_COUNTS
from headwater.plan import Graph, Reference
from headwater.plan.graph import SESSION_PARAMETER, offline_references
from headwater.plan.predicates import secret_problems, watermark_problem
from headwater.plan.quarantine import accepts_replay, quarantines_rows
from headwater.plan.sql import names_metadata
from headwater.run_directory import RunDirectory
from headwater.spark.interception import without_writes
from headwater.spark.plans import extend_processor_paths
from headwater.spark.sql_text import show_as
from headwater.spec import Deduplication, FunctionRef, PipelineSpec, SinkSpec, SourceSpec, TableSpec
from headwater.spec.paths import as_glob
from headwater.values import BadRows

SPARK_ERRORS = (PySparkException, Py4JError)
Part = TypeVar("Part")


def columns_in(frame: DataFrame) -> dict[str, str]:
    """The columns of a DataFrame by name and type."""
    return columns_of(frame.schema)


def columns_of(schema: StructType) -> dict[str, str]:
    """The columns of a schema by name and type."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


@dataclass
class Node:
    """What was built for one source or table."""

    frame: DataFrame | None = None
    with_metadata: DataFrame | None = None
    """A file source with the column `_metadata`, if a table uses it."""
    quarantined: DataFrame | None = None
    """The rows that it quarantines, if it does."""
    replayed: DataFrame | None = None
    """The quarantined rows that are replayed."""
    counts: Observation | None = None
    """In a batch run or a group: counts bad rows, or rows that fail expectations."""
    problems: tuple[Problem, ...] = ()
    """Why it could not be built; what only reads it is not reported."""


@dataclass
class Builder:
    """Builds the DataFrames of one pipeline in one session."""

    spark: SparkSession
    spec: PipelineSpec
    code: ProjectCode | None
    batch: bool = False
    """Read every source as a static data set."""
    starts: bool = False
    """A run is about to start with what is built."""
    ends_when_idle: bool = False
    """That run stops when all data is read."""
    epoch: int = 0
    """The number of that run in its run directory."""
    kept: dict[Path, str] = field(default_factory=dict)
    """Texts for the run directory (an inferred schema), written when the run really starts."""
    stand_in: Callable[[SourceSpec], DataFrame | None] = lambda source: None
    """In a test: the rows of a source instead of what its connector reads; None for the connector's."""
    test: bool = False
    """The tables are built for a test, without the servers of sources and sinks."""
    observes: bool = False
    """Rows are counted by observations that the caller reads, as in a batch run."""
    counts: Callable[[str], bool] = lambda source: True
    """Whether the rows of a source or table are counted in its queries; some triggers do not support that."""
    nodes: dict[str, Node] = field(default_factory=lambda: defaultdict(Node))
    """What was built, in that order."""
    statics: StaticSources = field(init=False)

    def __post_init__(self) -> None:
        self.statics = StaticSources(self.spec.root, self._directory)
        read, written = self.spec.sources, self.spec.sinks
        for connector in {*(each.connector for each in read), *(each.connector for each in written)}:
            send_by_value(connector)

    @property
    def _directory(self) -> RunDirectory:
        return RunDirectory(self.spec.run_dir)

    @cached_property
    def graph(self) -> Graph:
        """The graph from Spark's own parser, computed once, with all its problems."""
        return Graph.of(self.spec, self._references)

    @property
    def frames(self) -> dict[str, DataFrame]:
        """The DataFrames of everything that could be built."""
        return self.parts(lambda node: node.frame)

    def parts(self, part: Callable[[Node], Part | None]) -> dict[str, Part]:
        """One part of everything that was built, by name."""
        found = {name: part(node) for name, node in self.nodes.items()}
        return {name: each for name, each in found.items() if each is not None}

    def frame(self, name: str, graph: Graph) -> DataFrame:
        """The DataFrame of a source or table, after all that it reads; PipelineError with all problems.

        An invalid table does not hide another one: everything that does not read it is still built.
        """
        needed = graph.upstream(name)
        for each in needed:
            reads = graph.reads[each] or ()
            if each not in self.nodes and graph.sound(each) and self.frames.keys() >= set(reads):
                self._build(each)
        frame = self.frames.get(name)
        if frame is None:
            problems = self.parts(lambda node: node.problems)
            raise PipelineError.of(problem for each in needed for problem in problems.get(each, ()))
        return frame

    def build(self, name: str) -> DataFrame:
        """Build a source or table whose inputs are built; PipelineError with its problems."""
        self._build(name)
        node = self.nodes[name]
        if node.frame is None:
            raise PipelineError.of(node.problems)
        return node.frame

    def _build(self, name: str) -> None:
        sources = {source.name: source for source in self.spec.sources}
        tables = {table.name: table for table in self.spec.tables}
        node = self.nodes[name]
        try:
            built = self._source(sources[name]) if name in sources else self._table(tables[name])
        except PipelineError as error:
            node.problems = error.problems
            return
        self.show(name, built)

    def show(self, name: str, rows: DataFrame) -> None:
        """Let what reads a source or table read these rows."""
        if rows.sparkSession is self.spark:
            rows.createOrReplaceTempView(name)
        else:
            show_as(self.spark, name, rows)
        self.nodes[name].frame = rows

    def of_batch(self, common: str, rows: DataFrame) -> Builder:
        """Builds the tables that read a table from the rows of one of its batches, with the same static tables."""
        static = {name: node for name, node in self.nodes.items() if not self.graph.streaming(name)}
        nodes = defaultdict(Node, static)
        made = replace(self, spark=rows.sparkSession, observes=True, nodes=nodes)
        made.show(common, rows)
        return made

    def load(self, ref: FunctionRef) -> Callable[..., Any]:
        """The user's function."""
        if ref.function is not None:
            return ref.function
        assert self.code is not None, "a named function has a project"
        return self.code.function(Path(ref.file), ref.name, ref.place)

    def context(self, declared: Any) -> Context:
        """The context for a connector."""
        return Context(
            declared.name,
            declared.position,
            self.spec.root,
            self._directory.source(declared.name),
            self.load,
            partial(self._keep, declared),
            at=declared.at,
            batch=self.batch,
            bad_rows=declared.bad_rows if isinstance(declared, SourceSpec) else BadRows.FAIL,
            starts=self.starts,
            ends_when_idle=self.ends_when_idle,
            resumes=isinstance(declared, SourceSpec) and self._resumes(declared),
            metadata=any(names_metadata(table) for table in self.spec.tables),
            checkpoint=self._directory.checkpoint(declared.query) if isinstance(declared, SinkSpec) else None,
            epoch=self.epoch,
            pipeline=self.spec.name,
            test=self.test,
            mode=declared.mode if isinstance(declared, SinkSpec) else None,
            group=(declared.group or "") if isinstance(declared, SinkSpec) else "",
        )

    def _keep(self, declared: SourceSpec | SinkSpec, file: Path, text: str) -> None:
        if not file.is_relative_to(self.spec.run_dir):
            params = {"name": declared.name, "connector": declared.connector, "file": str(file)}
            problem = CONNECTOR_FILE_OUTSIDE_RUN_DIR.at(
                declared.position, **params, directory=str(self.spec.run_dir)
            )
            raise PipelineError(problem)
        self.kept[file] = text

    def _resumes(self, source: SourceSpec) -> bool:
        """Whether every query that reads a source resumes from a checkpoint."""
        if self.batch or source.static or not source_side(source.connector).first_start_keys:
            return False
        readers = self.graph.readers(source.name)
        states = [
            self._directory.state(sink.query, in_process=sink_side(sink.connector).in_process)
            for sink in readers
        ]
        return bool(states) and all(state.resumes for state in states)

    def _references(self, table: TableSpec) -> tuple[Reference, ...] | None:
        if table.sql is None:
            return offline_references(table)
        try:
            return parsed_references(self.spark, table)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _source(self, source: SourceSpec) -> DataFrame:
        try:
            rows = self.stand_in(source) or self.read(source)
            if METADATA in rows.columns:
                seen = rows.withColumnRenamed(METADATA, "_metadata")
                rows = rows.drop(METADATA)
                # A declared column of that name belongs to the user.
                if "_metadata" not in rows.columns:
                    self.nodes[source.name].with_metadata = self._watermarked(seen, source)
            return self._watermarked(rows, source)
        except SPARK_ERRORS as error:
            raise PipelineError(source_problem(error, source, self.spec.root)) from error

    def read(self, source: SourceSpec) -> DataFrame:
        """The rows of a source as declared."""
        missing = tuple(secret_problems(source))
        if missing:
            raise PipelineError(*missing)
        side, context = source_side(source.connector), self.context(source)
        if isinstance(side, ValidatesRows) and self._validates(source):
            return self._validated(source, side, context)
        if not source.static and not self.batch:
            return side.read_stream(self.spark, source.options, context)
        if self.batch or not isinstance(side, RefreshesStatic):
            frame = side.read_batch(self.spark, source.options, context)
            if source.cache and not self.batch:
                self.statics.add(source, CachedRows(frame))
            return frame
        frame, rows = side.read_static(
            self.spark, source.options, context, source.refresh, cache=source.cache
        )
        self.statics.add(source, *rows)
        return frame

    def _validates(self, source: SourceSpec) -> bool:
        """Whether its rows are validated: it is configured to, or rows are replayed along with it."""
        if validates(source, source.bad_rows) or source.max_row_bytes is not None:
            return True
        return accepts_replay(source) and self._replays(source.name)

    def _validated(self, source: SourceSpec, side: ValidatesRows, context: Context) -> DataFrame:
        """The rows of a source that detects bad rows."""
        read = side.read_validated(
            self.spark,
            source.options,
            replace(context, batch=context.batch or source.static),
            max_row_bytes=source.max_row_bytes,
            replayed=self.replay_of(source.name),
        )
        rows = read if isinstance(read, ValidatedRows) else ValidatedRows.of(read)
        if source.bad_rows is BadRows.QUARANTINE:
            self.nodes[source.name].quarantined = quarantined_bad_rows(rows, source)
        return apply_bad_rows(rows, source, self._counted(source.name, SOURCE_COUNTS))

    def _counted(self, name: str, prefix: str) -> str | Observation | None:
        """Counts the rows of a source or table, if its triggers support that."""
        if self.batch or self.observes:
            self.nodes[name].counts = Observation(f"{prefix}{name}")
            return self.nodes[name].counts
        return f"{prefix}{name}" if self.counts(name) else None

    def replay_of(self, name: str) -> Callable[[], DataFrame] | None:
        """Reads the replayed rows of a quarantine; None if there are none, and in a batch run.

        Each call creates a separate source: Spark numbers one that appears twice in a plan as if it were two.
        """
        return partial(self._read_replayed, name) if self._replays(name) else None

    def _read_replayed(self, name: str) -> DataFrame:
        folder = self._directory.quarantine(name).replay
        reader = self.spark.readStream.schema(QUARANTINE_COLUMNS)
        # Otherwise, Spark reads files several times if the path of the run directory contains a glob
        # character.
        reader = reader.option("recursiveFileLookup", "true")
        rows = reader.parquet(as_glob(str(folder), folder))
        before = self.nodes[name].replayed
        self.nodes[name].replayed = before.union(rows) if before is not None else rows
        return rows.select("row")

    def _replays(self, name: str) -> bool:
        """Whether rows were ever replayed; a query must keep every source that it has read."""
        return not self.batch and bool(self._directory.quarantine(name).replayed)

    def _table(self, table: TableSpec) -> DataFrame:
        try:
            return self._watermarked(self._expected(self._rows(table), table), table)
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error

    def _expected(self, rows: DataFrame, table: TableSpec) -> DataFrame:
        """The rows that pass the table's expectations, or are passed on although they do not."""
        problems = expectation_problems(rows, table) if table.expect else []
        if problems:
            raise PipelineError.of(problems)
        # Also without expectations: a removed expectation may have quarantined rows.
        replay = self.replay_of(table.name)
        if replay is not None:
            rows = with_replayed_rows(rows, replay())
        elif not table.expect:
            return rows
        validated = validated_rows(rows, table)
        if quarantines_rows(table):
            self.nodes[table.name].quarantined = quarantined_violations(validated, table)
        counted = self._counted(table.name, TABLE_COUNTS) if table.expect else None
        return expected_rows(validated, table, counted)

    def _rows(self, table: TableSpec) -> DataFrame:
        if table.sql is not None:
            return self._sql(table)
        return self._deduplicated(table, table.deduplicate) if table.deduplicate else self._call(table)

    def _deduplicated(self, table: TableSpec, deduplication: Deduplication) -> DataFrame:
        names = {name.lower(): name for name in self.spec.names}
        frame, columns = self.frames[names[deduplication.reads.lower()]], list(deduplication.columns)
        known = {column.lower() for column in frame.columns}
        unknown = [column for column in columns if column.lower() not in known]
        if unknown:
            raise PipelineError.of(unknown_column(table, column, frame.columns) for column in unknown)
        if deduplication.within_watermark:
            return frame.dropDuplicatesWithinWatermark(columns)
        return frame.dropDuplicates(columns)

    def _sql(self, table: TableSpec) -> DataFrame:
        # A view hides `_metadata`, so the tables that use it see sources with that column.
        seen = self.parts(lambda node: node.with_metadata) if names_metadata(table) else {}
        try:
            for name, frame in seen.items():
                frame.createOrReplaceTempView(name)
            return self.spark.sql(table.sql or "")
        except SPARK_ERRORS as error:
            raise PipelineError(sql_problem(error, table)) from error
        finally:
            for name, frame in self.frames.items():
                if name in seen:
                    frame.createOrReplaceTempView(name)

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
        except Exception as error:  # the user's own code: whatever it raises is reported at the user's line
            raise PipelineError(function_problem(error, table, self.spec.root)) from error
        if not isinstance(returned, DataFrame):
            says = "nothing" if returned is None else f"a {type(returned).__name__}"
            place = table.function.defined or table.position
            raise PipelineError(TABLE_NOT_A_DATAFRAME.at(place, name=table.name, returned=says))
        extend_processor_paths(returned, driver_path())
        return returned

    def _watermarked(self, frame: DataFrame, thing: SourceSpec | TableSpec) -> DataFrame:
        if thing.watermark is None:
            return frame
        problem = watermark_problem(thing, columns_in(frame))
        if problem:
            raise PipelineError(problem)
        # A watermark has no effect on static data, and Spark accepts it.
        return frame.withWatermark(thing.watermark.column, str(thing.watermark.delay))
