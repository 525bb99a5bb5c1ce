"""What is under test, as a script sees it: a declared pipeline, or any function of DataFrames."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checks import Query
from headwater.checks.suppression import check_query
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.plain_facts import Written, plain_facts
from headwater.engine.query import INTERRUPT_SECONDS, STOP_TIMEOUT
from headwater.engine.session import FILE_MANAGER, PARTITIONS, STATE, TIMEZONE
from headwater.engine.translate import failure_problem, function_problem, planning_problem
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.spark.memory import memory_sink
from headwater.spark.session import FASTER_FILE_MANAGER, active, active_kept, copy_of, without_lengths
from headwater.spark.writer import Target
from headwater.spec import Mode, SinkOptions, SinkSpec, TableSpec

QUICK = {PARTITIONS: "1", "spark.sql.streaming.pollingDelay": "1ms", STOP_TIMEOUT: f"{INTERRUPT_SECONDS}s"}
"""What makes tests quick and changes no row: one state partition, no waiting for files or for dead ends."""

Read = Callable[[SparkSession], DataFrame]
Held = tuple[tuple[dict[str, Any], ...], StructType]
"""Rows and their columns."""


class Subject(Protocol):
    """What a script plays with."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def zone(self) -> str: ...

    def alone(self) -> AbstractContextManager[None]:
        """Its session is the active one meanwhile, and the user's own again after it."""

    @property
    def modes(self) -> Mapping[str, Mode]:
        """The mode of each sink, by its name."""

    @property
    def streams(self) -> Collection[str]:
        """The names of the streaming sources."""

    @property
    def statics(self) -> Collection[str]: ...

    def read_by(self, sink: str) -> Collection[str]:
        """The sources, streaming or static, that a sink needs."""

    def schema(self, source: str) -> StructType: ...

    def build(self, sink: str, rows: Mapping[str, DataFrame], *, check: bool) -> DataFrame:
        """The DataFrame of a sink over these rows; with `check`, PipelineError says what is against it."""

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        """Where its rows go: captured, or with a folder into the sink as declared, moved to that folder."""

    def captured(self, sink: str) -> bool:
        """Whether a sink is captured in any case, since its rows live in this process alone."""

    def read_back(self, sink: str, frame: DataFrame, folder: Path, read: Read | None) -> Held:
        """What a real sink holds now; PipelineError where that can't be read."""

    def refusal(self, sink: str, error: Exception) -> Problem:
        """Why a query could not be started."""

    def problem(self, sink: str, error: Exception) -> Problem:
        """Why a running query failed."""


def schema_of(spark: SparkSession, ddl: str) -> StructType:
    """The schema of a DDL string, read by Spark."""
    with active(spark):
        return without_lengths(spark, StructType.fromDDL(ddl))


# A function from DataFrames to a DataFrame under test, in a copy of the user's own session.


@dataclass
class FunctionSubject:
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
        """In a copy of the session that is active, so that its settings, views and functions are there."""
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

    def alone(self) -> AbstractContextManager[None]:
        return active(self.spark)

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
                raise PipelineError(function_problem(error, self._as_table(), Path.cwd())) from error
        if not isinstance(frame, DataFrame):
            says = "nothing" if frame is None else f"a {type(frame).__name__}"
            raise PipelineError(TABLE_NOT_A_DATAFRAME.at(None, name=self.name, returned=says))
        if check and frame.isStreaming:
            facts = plain_facts(frame, Written("memory", self.mode.value), self.name)
            found = check_query(Query(facts))
            problems = [each.problem for each in found if each.is_error and not each.acceptable]
            if problems:
                raise PipelineError.of(problems)
        return frame

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        return memory_sink(self.spark)

    def captured(self, sink: str) -> bool:
        return True

    def read_back(self, sink: str, frame: DataFrame, folder: Path, read: Read | None) -> Held:
        raise AssertionError("the rows of a function are captured")

    def refusal(self, sink: str, error: Exception) -> Problem:
        return planning_problem(error, self._as_sink(), Path.cwd())

    def problem(self, sink: str, error: Exception) -> Problem:
        return failure_problem(error, self._as_sink(), (), Path.cwd(), Path("spark.log"))

    def _as_table(self) -> TableSpec:
        return TableSpec(name=self.name)

    def _as_sink(self) -> SinkSpec:
        options = SinkOptions()
        return SinkSpec(name=self.name, reads=self.name, connector="memory", options=options, mode=self.mode)


def _refuse_parameters(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """What is given has to be what the function takes."""
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        takes = ", ".join(inspect.signature(function).parameters) or "nothing"
        name = getattr(function, "__name__", "the function")
        raise TypeError(
            f"{name} takes {takes}; streams and static have {', '.join(given) or 'nothing'}: {error}"
        ) from None


def in_utc() -> None:
    """The zone of a session that was started for functions alone."""
    _active_session().conf.set(TIMEZONE, "UTC")


def _active_session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def made_of(spark: SparkSession, rows: Any) -> DataFrame:
    """A static DataFrame; Spark would make its session the active one for good."""
    with active(spark):
        return spark.createDataFrame(rows)
