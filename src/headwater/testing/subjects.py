"""What is under test: a declared pipeline, or any function of DataFrames."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checks import Query, query_of
from headwater.checks.suppression import check_query, with_reasons
from headwater.connectors import all_connectors, sink_side
from headwater.connectors.connector import ReadsBack
from headwater.connectors.registry import source_columns
from headwater.engine.builder import SPARK_ERRORS, Builder
from headwater.engine.facts import facts_of
from headwater.engine.plain_facts import WriterSettings, plain_facts
from headwater.engine.prepare import Prepared, assemble, objections, settings_of
from headwater.engine.query import INTERRUPT_SECONDS, STOP_TIMEOUT, rerun_unfinished
from headwater.engine.session import FILE_MANAGER, PARTITIONS, STATE, TIMEZONE, PipelineSession
from headwater.engine.translate import failure_problem, function_problem, planning_problem
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.errors.catalogue.testing import TEST_SINK_READ_FAILED, TEST_SINK_UNREADABLE
from headwater.plan import Graph
from headwater.spark.errors import sentence_of
from headwater.spark.private import has_stopped
from headwater.spark.query import Target, memory_sink, target_of
from headwater.spark.session import FASTER_FILE_MANAGER, active, active_kept, copy_of, without_lengths
from headwater.spec import Mode, PipelineSpec, SinkOptions, SinkSpec, TableSpec
from headwater.testing.query import rows_of
from headwater.values import scrub
from headwater.values.user_frames import user_line

QUICK = {PARTITIONS: "1", "spark.sql.streaming.pollingDelay": "1ms", STOP_TIMEOUT: f"{INTERRUPT_SECONDS}s"}
"""Makes tests fast without changing any row: one state partition, no waiting for files or interrupts."""

ReadFunction = Callable[[SparkSession], DataFrame]
"""A user's function that reads back a real sink."""
ReadBack = tuple[tuple[Mapping[str, Any], ...], StructType]
"""The rows of a real sink, and their columns."""


class Subject(Protocol):
    """What is under test: a declared pipeline, or any function of DataFrames."""

    spark: SparkSession

    @property
    def zone(self) -> str: ...

    def alone(self) -> AbstractContextManager[None]:
        """Its session is the active one inside this block, and the user's own again after it."""
        return active(self.spark)

    @property
    def modes(self) -> Mapping[str, Mode]:
        """The mode of each sink, by name."""

    @property
    def streams(self) -> Collection[str]:
        """The names of the streaming sources."""

    @property
    def statics(self) -> Collection[str]: ...

    def read_by(self, sink: str) -> Collection[str]:
        """The sources, streaming or static, that a sink needs."""

    def schema(self, source: str) -> StructType: ...

    def build(self, sink: str, rows: Mapping[str, DataFrame], *, check: bool) -> DataFrame:
        """The DataFrame of a sink over these rows; with `check`, PipelineError reports its problems."""

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        """Where its rows go: captured, or, with a directory, into the declared sink, moved there."""

    def captured(self, sink: str) -> bool:
        """Whether a sink is always captured, because its rows exist only in this process."""

    def read_back(self, sink: str, frame: DataFrame, folder: Path, read: ReadFunction | None) -> ReadBack:
        """The current contents of a real sink; PipelineError if they cannot be read."""

    def refusal(self, sink: str, error: Exception) -> Problem:
        """Why a query could not be started."""

    def problem(self, sink: str, error: Exception) -> Problem:
        """Why a running query failed."""


def schema_of(spark: SparkSession, ddl: str) -> StructType:
    """The schema of a DDL string, parsed by Spark."""
    with active(spark):
        return without_lengths(spark, StructType.fromDDL(ddl))


# A function from DataFrames to a DataFrame under test, in a copy of the user's own session.


@dataclass
class FunctionSubject(Subject):
    """A function from DataFrames to a DataFrame, in a copy of the user's own session."""

    spark: SparkSession
    function: Callable[..., Any]
    schemas: Mapping[str, StructType]
    given: Mapping[str, DataFrame]
    mode: Mode

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        streams: Mapping[str, Any],
        static: Mapping[str, Any],
        mode: Mode,
    ) -> FunctionSubject:
        """In a copy of the active session, with its settings, views and functions."""
        _refuse_parameters(function, {**streams, **static})
        before = _active_session()
        with active_kept(before):
            spark = copy_of(before)
        for key, value in {**STATE, FILE_MANAGER: FASTER_FILE_MANAGER, **QUICK}.items():
            spark.conf.set(key, value)
        schemas = {
            name: schema_of(spark, written) if isinstance(written, str) else written
            for name, written in streams.items()
        }
        given = {
            name: rows if isinstance(rows, DataFrame) else made_of(spark, rows)
            for name, rows in static.items()
        }
        return cls(spark, function, schemas, given, mode)

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "result").strip("<>")

    @property
    def zone(self) -> str:
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def modes(self) -> Mapping[str, Mode]:
        return {self.name: self.mode}

    @property
    def streams(self) -> Collection[str]:
        return list(self.schemas)

    @property
    def statics(self) -> Collection[str]:
        return ()

    def read_by(self, sink: str) -> Collection[str]:
        return list(self.schemas)

    def schema(self, source: str) -> StructType:
        return self.schemas[source]

    def build(self, sink: str, rows: Mapping[str, DataFrame], *, check: bool) -> DataFrame:
        with active(self.spark):
            try:
                frame = self.function(**rows, **self.given)
            except SPARK_ERRORS as error:
                raise PipelineError(function_problem(error, TableSpec(name=self.name), Path.cwd())) from error
        if not isinstance(frame, DataFrame):
            says = "nothing" if frame is None else f"a {type(frame).__name__}"
            raise PipelineError(TABLE_NOT_A_DATAFRAME.at(None, name=self.name, returned=says))
        if check and frame.isStreaming:
            facts = plain_facts(frame, WriterSettings("memory", self.mode.value), self.name)
            found = check_query(Query(facts))
            problems = [each.problem for each in found if each.is_error and not each.suppressible]
            if problems:
                raise PipelineError.of(problems)
        return frame

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        return memory_sink(self.spark)

    def captured(self, sink: str) -> bool:
        return True

    def read_back(self, sink: str, frame: DataFrame, folder: Path, read: ReadFunction | None) -> ReadBack:
        raise AssertionError("the rows of a function are captured")

    def refusal(self, sink: str, error: Exception) -> Problem:
        return planning_problem(error, self._as_sink(), Path.cwd())

    def problem(self, sink: str, error: Exception) -> Problem:
        return failure_problem(error, self._as_sink(), (), Path.cwd(), Path("spark.log"))

    def _as_sink(self) -> SinkSpec:
        # Its rows exist only in this process, as those of one connector do.
        known = all_connectors().items()
        own = next(name for name, each in known if each.built_in and each.sink and each.sink.in_process)
        return SinkSpec(name=self.name, reads=self.name, connector=own, options=SinkOptions(), mode=self.mode)


def _refuse_parameters(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """The given streams and rows must match the parameters of the function."""
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        takes = ", ".join(inspect.signature(function).parameters) or "nothing"
        name = getattr(function, "__name__", "the function")
        raise TypeError(
            f"{name} takes {takes}; streams and static provide {', '.join(given) or 'nothing'}: {error}"
        ) from None


def in_utc() -> None:
    """The time zone of a session that was started only for functions."""
    _active_session().conf.set(TIMEZONE, "UTC")


def _active_session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def made_of(spark: SparkSession, rows: Any) -> DataFrame:
    """A static DataFrame; Spark would keep its session active."""
    with active(spark):
        return spark.createDataFrame(rows)


# A declared pipeline under test.


@dataclass
class PipelineSubject(Subject):
    """A declared pipeline in a separate session."""

    session: PipelineSession
    spec: PipelineSpec
    log: Path
    spark: SparkSession = field(init=False)
    _schemas: dict[str, StructType] = field(default_factory=dict)
    _graph: Graph = field(init=False)
    _builder: Builder = field(init=False)

    def __post_init__(self) -> None:
        self.spark = self.session.spark
        # Each sink is tested as a query of its own: the rows of a group's sinks are the same.
        sinks = tuple(sink.model_copy(update={"group": None}) for sink in self.spec.sinks)
        self.spec = self.spec.model_copy(update={"sinks": sinks})
        self._builder, unregistered = assemble(self.session, self.spec)
        for key, value in QUICK.items():
            self.spark.conf.set(key, value)
        self._graph = self._builder.graph
        if unregistered or self._graph.problems:
            raise PipelineError.of([*unregistered, *self._graph.problems])

    @property
    def stopped(self) -> bool:
        """Whether its Spark has stopped."""
        return has_stopped(self.spark.sparkContext)

    @property
    def zone(self) -> str:
        return self.spec.timezone

    @property
    def modes(self) -> Mapping[str, Mode]:
        return {sink.name: sink.mode for sink in self.spec.sinks}

    @property
    def streams(self) -> Collection[str]:
        return [source.name for source in self.spec.sources if not source.static]

    @property
    def statics(self) -> Collection[str]:
        return [source.name for source in self.spec.sources if source.static]

    def read_by(self, sink: str) -> Collection[str]:
        needed = {name.lower() for name in self._graph.upstream(self._reads(sink))}
        return [source.name for source in self.spec.sources if source.name.lower() in needed]

    def schema(self, source: str) -> StructType:
        """The columns of a source: from its declaration if it is complete, else as Spark reads it."""
        if source not in self._schemas:
            known = source_columns(next(each for each in self.spec.sources if each.name == source))
            self._schemas[source] = (
                schema_of(self.spark, known.ddl) if known else self._builder.frame(source, self._graph).schema
            )
        return self._schemas[source]

    def build(self, sink: str, rows: Mapping[str, DataFrame], *, check: bool) -> DataFrame:
        code = self._builder.code
        builder = Builder(
            self.spark, self.spec, code, stand_in=lambda source: rows.get(source.name), test=True
        )
        frame = builder.frame(self._reads(sink), self._graph)
        declared = self._sink(sink)
        if check:
            problems = list(self._problems(builder, declared, frame))
            if problems:
                raise PipelineError.of(problems)
        self._builder = builder
        return frame

    def _problems(self, builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
        """What keeps a query from starting: its declaration, Spark, or the rules over its facts."""
        refusal, found = objections(builder, sink, frame)
        yield from found
        if frame.isStreaming:
            refusals = {sink.name: refusal}
            prepared = Prepared(self.session, builder, self._graph, {sink.name: frame}, (), refusals)
            facts = facts_of(prepared, self.spec, sink, settings_of(self.session, self.spec))
            told = with_reasons(check_query(query_of(self.spec, facts)), self.spec)
            yield from (each.problem for each in told if each.is_error)

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        declared = self._sink(sink)
        if real is None:
            return memory_sink(self.spark)
        moved = self._moved(declared, real)
        context = self._builder.context(moved)
        rerun_unfinished(self.spark, moved, checkpoint, settings_of(self.session, self.spec))
        try:
            with active(self.spark):
                side = sink_side(declared.connector)
                rows = side.outgoing(frame, moved.options, context)
                writer = rows.writeStream.outputMode(declared.mode.value)
                written = side.write_stream(writer, moved.options, context)
                return target_of(self.spark, written)
        except SPARK_ERRORS as error:
            raise PipelineError(planning_problem(error, declared, self.spec.root)) from error

    def captured(self, sink: str) -> bool:
        return sink_side(self._sink(sink).connector).in_process

    def read_back(self, sink: str, frame: DataFrame, folder: Path, read: ReadFunction | None) -> ReadBack:
        declared = self._sink(sink)
        side = sink_side(declared.connector)
        if read is None and not isinstance(side, ReadsBack):
            raise PipelineError(TEST_SINK_UNREADABLE.at(None, name=sink, connector=declared.connector))
        try:
            with active(self.spark):
                if read is not None:
                    found = read(self.spark)
                elif isinstance(side, ReadsBack):
                    found = side.read_back(self.spark, self._moved(declared, folder).options, frame.schema)
                if not isinstance(found, DataFrame):
                    raise PipelineError(
                        _read_failed(sink, f"it returned {type(found).__name__}, expected a DataFrame")
                    )
                return rows_of(found), found.schema
        except PipelineError:
            raise
        except SPARK_ERRORS as error:
            raise PipelineError(_read_failed(sink, sentence_of(error))) from error
        except Exception as error:  # the user's own code: whatever it raises is reported
            place = user_line(error.__traceback__, self.spec.root)
            says = f"{type(error).__name__}: {error}".rstrip(". ")
            raise PipelineError(replace(_read_failed(sink, says), place=place)) from error

    def refusal(self, sink: str, error: Exception) -> Problem:
        return planning_problem(error, self._sink(sink), self.spec.root)

    def problem(self, sink: str, error: Exception) -> Problem:
        return failure_problem(error, self._sink(sink), self.spec.tables, self.spec.root, self.log)

    def _sink(self, name: str) -> SinkSpec:
        return next(sink for sink in self.spec.sinks if sink.name == name)

    def _reads(self, sink: str) -> str:
        """The table of a sink as declared; like SQL, this ignores case."""
        wanted = self._sink(sink).reads.lower()
        return next((name for name in self.spec.names if name.lower() == wanted), self._sink(sink).reads)

    def _moved(self, sink: SinkSpec, folder: Path) -> SinkSpec:
        """The sink with every path moved below a directory of the test, so that no real data is touched."""
        places = sink_side(sink.connector).places(sink.options)
        moved = {
            key: str(folder / key)
            for key, value in sink.options
            if isinstance(value, str) and value in places
        }
        return sink.model_copy(update={"options": sink.options.model_copy(update=moved)})


def _read_failed(sink: str, says: str) -> Problem:
    return TEST_SINK_READ_FAILED.at(None, name=sink, says=scrub(says))
