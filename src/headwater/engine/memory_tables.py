"""SQL queries over the memory tables of a run."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import sink_side
from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import UsageError
from headwater.errors.catalogue.connectors import RUN_SQL_INVALID, RUN_SQL_STREAM_UNSUPPORTED
from headwater.plan.graph import NotAQuery, NotSql, sql_references
from headwater.spark.errors import sentence_of
from headwater.spec import PipelineSpec
from headwater.values import scrub

__all__ = ["DataFrame", "MemoryTables"]


@dataclass(frozen=True)
class MemoryTables:
    """The memory tables of one run, in the session of its pipeline."""

    spark: SparkSession
    spec: PipelineSpec

    def query(self, sql: str) -> DataFrame:
        """The rows of a query; UsageError if Spark rejects it or it reads a stream."""
        try:
            sql_references(sql)
        except NotAQuery as error:
            says = f"it is not a query ({error})"
            raise UsageError(RUN_SQL_INVALID.at(None, says=says, tables=self._names)) from None
        except NotSql as error:
            raise UsageError(RUN_SQL_INVALID.at(None, says=str(error), tables=self._names)) from None
        try:
            rows = self.spark.sql(sql)
        except SPARK_ERRORS as error:
            says = scrub(sentence_of(error))
            raise UsageError(RUN_SQL_INVALID.at(None, says=says, tables=self._names)) from error
        if rows.isStreaming:
            raise UsageError(RUN_SQL_STREAM_UNSUPPORTED.at(None, tables=self._names))
        return rows

    @property
    def _names(self) -> str:
        named = (sink.name for sink in self.spec.sinks if sink_side(sink.connector).in_process)
        return ", ".join(named) or "none"
