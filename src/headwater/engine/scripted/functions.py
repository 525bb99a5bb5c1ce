"""A function from DataFrames to a DataFrame under test, in a copy of the user's own session."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checks import Query
from headwater.checks.refusals import judged
from headwater.engine.build import SPARK_ERRORS
from headwater.engine.connector_code import active, active_kept
from headwater.engine.plain.facts import plain_facts
from headwater.engine.plain.written import Written
from headwater.engine.scripted.sinks import Target, capturing
from headwater.engine.scripted.subjects import QUICK, Held, Read, schema_of
from headwater.engine.settings import FASTER_FILE_MANAGER, FILE_MANAGER, STATE, TIMEZONE
from headwater.engine.translate import failure_problem, function_problem, planning_problem
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.running import TABLE_NOT_A_DATAFRAME
from headwater.spec import (
    Mode,
    SinkOptions,
    SinkSpec,
    TableSpec,
)


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
        with active_kept(before._jvm):
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
            found = judged(Query(facts))
            problems = [each.problem for each in found if each.is_error and not each.acceptable]
            if problems:
                raise PipelineError.of(problems)
        return frame

    def table(self, sink: str, frame: DataFrame, real: Path | None, checkpoint: Path) -> Target:
        return capturing(self.spark)

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


def has_session() -> bool:
    """Whether this process has a Spark session already."""
    return SparkContext._active_spark_context is not None


def in_utc() -> None:
    """The zone of a session that was started for functions alone."""
    _active_session().conf.set(TIMEZONE, "UTC")


def _active_session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def copy_of(spark: SparkSession) -> SparkSession:
    """A session with the same settings, views and functions, in which changes are its own."""
    session: Any = spark._jsparkSession
    return SparkSession(spark.sparkContext, session.cloneSession())


def made_of(spark: SparkSession, rows: Any) -> DataFrame:
    """A static DataFrame; Spark would make its session the active one for good."""
    with active(spark):
        return spark.createDataFrame(rows)
