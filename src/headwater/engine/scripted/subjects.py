"""What is under test, as a script sees it: a declared pipeline, or any function of DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.engine.connector_code import active
from headwater.engine.query import INTERRUPT_SECONDS, STOP_TIMEOUT
from headwater.engine.scripted.sinks import Target
from headwater.engine.settings import PARTITIONS
from headwater.errors import Problem
from headwater.spec import (
    Mode,
)

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
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    with active(spark):
        written = session.parseDataType(StructType.fromDDL(ddl).json())
    # Rows of char and varchar come out of every source as strings.
    lengths = jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils
    return StructType.fromJson(json.loads(lengths.replaceCharVarcharWithStringInSchema(written).json()))
