"""Spark's listener of streaming queries, implemented in Python, and the row of an observation."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession

from headwater.spark.plans import analyzed
from headwater.spark.private import (
    JavaObject,
    accept_calls,
    items_of,
    java_session,
    jvm_of,
    scala_map,
    scala_object,
    texts_of,
)

_LOOK_SECONDS = 0.1


class QueryListener(ABC):
    """`PythonStreamingQueryListener`, the private interface behind PySpark's listener: each event as JSON.

    PySpark's own listener rebuilds each event with hundreds of calls into the JVM; its JSON is one call.
    """

    @abstractmethod
    def take(self, kind: str, text: str) -> None:
        """An event, `started`, `progress`, `idle` or `terminated`; Spark waits until this returns."""

    def listen(self, spark: SparkSession) -> Callable[[], None]:
        """Listen to the queries of a session, until what is returned is called."""
        accept_calls(spark)
        wrapper = jvm_of(spark).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)
        manager: Any = spark.streams._jsqm
        manager.addListener(wrapper)

        def remove() -> None:
            manager.removeListener(wrapper)

        return remove

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("started", event.json())

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("progress", event.json())

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("idle", event.json())

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 (Spark's name)
        self.take("terminated", event.json())

    class Java:
        """The Java interface, under the name that py4j looks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def observed_row(observation: Observation, seconds: float) -> JavaObject | None:
    """The observed metrics (`Observation._jo`, its `future`); None if Spark has none within that time.

    `observation.get` would wait forever if a sink had not read the rows. The future fails with the query
    since Spark 4.2, and stays open before.
    """
    future = observation._jo.future() if observation._jo else None
    deadline = time.monotonic() + seconds
    while future is not None and time.monotonic() < deadline:
        if future.isCompleted():
            row = future.value().get()
            return row.get() if row.isSuccess() else None
        time.sleep(_LOOK_SECONDS)
    return None


# Processing time under control: Spark asks this clock, and waits at it between two batches.


class StepClock:
    """Spark's clock of a query's triggers (`org.apache.spark.util.Clock`), implemented here.

    Spark has a manual clock of its own. It can't say whether the query has woken up already, and its time
    has to move for every batch. At this one the query's thread waits until it is let go, so that one `tick`
    is one trigger, and time moves only when a test says so.

        query's thread   waitTillTime ──▶ waits … ──▶ one trigger (a batch, or nothing due) ──▶ waitTillTime
        the test                            tick ──▶ waits until the query waits again ──▶ looks
    """

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.util.Clock",)

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds
        self._turn = threading.Condition()
        self._waits = False
        self._open = False

    def getTimeMillis(self) -> int:  # noqa: N802 - Spark calls it by this name
        return self.milliseconds

    def nanoTime(self) -> int:  # noqa: N802 - Spark calls it by this name
        return self.milliseconds * 1_000_000

    def waitTillTime(self, target: int) -> int:  # noqa: N802 - Spark calls it by this name
        with self._turn:
            self._waits = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._waits or self._open)
            self._waits = False
        return self.milliseconds

    def tick(self) -> None:
        """Let the waiting query go for one trigger."""
        with self._turn:
            self._waits = False
            self._turn.notify_all()

    def open(self) -> None:
        """Never hold the query again; it is about to end."""
        with self._turn:
            self._open = True
            self._turn.notify_all()

    def await_waiting(self, lives: Callable[[], bool], limit: float) -> bool:
        """Wait until the query waits; False when it has died, TimeoutError after `limit` seconds."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            with self._turn:
                if self._turn.wait_for(lambda: self._waits, _LOOK_SECONDS):
                    return True
            if not lives():
                return False
        raise TimeoutError

    def toString(self) -> str:  # noqa: N802 - Spark calls it by this name
        return f"StepClock({self.milliseconds})"


# Tables of files whose listing is ours: Spark's index of files, implemented in Python.


class FileIndex:
    """Spark's `FileIndex`, implemented in Python: Spark calls its methods from the JVM.

    Spark asks a relation's index for sizes while it plans a batch, and for files once per scan when the batch
    runs; on the query's thread or, for a broadcast, on another one that has the query's local properties.
    Each question is handed to the Spark index that `answering` names, with its files as they were listed.

    Two relations are the same to Spark when their indexes say so. That is how kept rows are found: while it
    plans a batch, Spark compares every relation with those it keeps. `equals` is given the text of the other
    one, which is its name.
    """

    def __init__(
        self, name: str, first: JavaObject, answering: Callable[[], JavaObject], equals: Callable[[str], bool]
    ) -> None:
        self._name = name
        # These never change, and Spark asks for them dozens of times in each batch.
        self._roots, self._columns = first.rootPaths(), first.partitionSchema()
        self._listing_took = first.metadataOpsTimeNs()
        self._answering = answering
        self._equals = equals

    def rootPaths(self) -> JavaObject:  # noqa: N802 (Spark's name)
        return self._roots

    def partitionSchema(self) -> JavaObject:  # noqa: N802 (Spark's name)
        return self._columns

    def metadataOpsTimeNs(self) -> JavaObject:  # noqa: N802 (Spark's name)
        return self._listing_took

    def listFiles(self, partition_filters: JavaObject, data_filters: JavaObject) -> JavaObject:  # noqa: N802 (Spark's name)
        return self._answering().listFiles(partition_filters, data_filters)

    def inputFiles(self) -> JavaObject:  # noqa: N802 (Spark's name)
        return self._answering().inputFiles()

    def sizeInBytes(self) -> int:  # noqa: N802 (Spark's name)
        return int(self._answering().sizeInBytes())

    def refresh(self) -> None:
        """Nothing: what a batch reads is decided by its listing."""

    def equals(self, other: JavaObject) -> bool:
        return self._equals(str(other))

    def hashCode(self) -> int:  # noqa: N802 (Java's name)
        return 17

    def toString(self) -> str:  # noqa: N802 (Java's name)
        return self._name

    class Java:
        """What the methods above implement."""

        implements = ["org.apache.spark.sql.execution.datasources.FileIndex"]


def relation_of(frame: DataFrame) -> JavaObject:
    """The `HadoopFsRelation` of a DataFrame that reads files: its columns, its format, its `location`."""
    return analyzed(frame).relation()


def frame_with_index(spark: SparkSession, of: JavaObject, index: FileIndex) -> DataFrame:
    """The table of a relation with another index (`HadoopFsRelation`, `baseRelationToDataFrame`)."""
    session = java_session(spark)
    relation = jvm_of(spark).org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        of.partitionSchema(),
        of.dataSchema(),
        of.bucketSpec(),
        of.fileFormat(),
        of.options(),
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def index_of_folders(
    spark: SparkSession, folders: Iterable[str], settings: Mapping[str, str], schema: JavaObject
) -> JavaObject:
    """Spark's index of the files below these URIs (`InMemoryFileIndex`)."""
    jvm = jvm_of(spark)
    sources, option = jvm.org.apache.spark.sql.execution.datasources, jvm.scala.Option
    path = jvm.org.apache.hadoop.fs.Path
    return sources.InMemoryFileIndex(
        java_session(spark),
        jvm.PythonUtils.toSeq([path(folder) for folder in folders]),
        scala_map(spark, settings),
        option.apply(schema),
        scala_object(sources, "NoopCache"),
        option.empty(),
        option.empty(),
    )


def roots_of(location: JavaObject) -> list[str]:
    """The paths that an index was asked for."""
    return str(location.rootPaths().mkString("\n")).split("\n")


def paths_in(spark: SparkSession, location: JavaObject) -> list[str]:
    """The path of every file of an index."""
    return texts_of(spark, location.inputFiles())


def files_of(location: JavaObject) -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of every file of an index."""
    found = items_of(location.allFiles())
    return tuple((str(each.getPath()), each.getLen(), each.getModificationTime()) for each in found)
