"""Tables of files whose listing is ours: Spark's index of files, implemented in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.plans import analysed
from headwater.spark.private import (
    JavaObject,
    items_of,
    java_session,
    jvm_of,
    scala_map,
    scala_object,
    texts_of,
)


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
    return analysed(frame).relation()


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
    """Spark's own index of what lies below these URIs (`InMemoryFileIndex`)."""
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
