"""The private parts of Spark that Headwater uses, each with the feature that is lost without it.

The probes inspect only classes. They start no query, so they run on any session in well under a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from headwater.spark.private import jvm_of, texts_of

_SQL = "org.apache.spark.sql"
_RUN = f"{_SQL}.execution.streaming.runtime"
_FILES = f"{_SQL}.execution.datasources"
_LOGICAL = f"{_SQL}.catalyst.plans.logical"
_WRITER = (
    "createV1Sink/1",
    "ds",
    "extraOptions",
    "foreachBatchWriter",
    "outputMode",
    "partitioningColumns",
    "source",
    "trigger",
)
_CALL = re.compile(r"([\w.$]+)\(([^)]*)\)")


@dataclass(frozen=True)
class Probe:
    """A group of private names: what Headwater uses them for, and what it cannot do without them.

    A need is a class (`org.apache.spark.util.Clock`), one of its methods with the number of arguments
    (`…#startQuery/12`), a constructor (`…#new/7`), a field (`…#unreadFiles`), or an attribute of PySpark
    (`pyspark.sql:DataFrame.foreach`). With `|` between members, one of them is enough. A part that exists but
    does not work, such as because of a bug in one version, is named by a key of `_WORKS`.
    """

    name: str
    purpose: str
    lost: str
    needs: tuple[str, ...]
    versions: str = ""
    """The PySpark versions that have the part, if not all supported versions do."""


GRACEFUL_STOP = Probe(
    "graceful stop",
    "stop a query after the current batch",
    "a stop interrupts the current batch, and the next start retries it",
    (f"{_RUN}.StreamExecution#state/0", f"{_RUN}.TERMINATED$#MODULE$"),
)

PROBES: tuple[Probe, ...] = (
    GRACEFUL_STOP,
    Probe(
        "test streams",
        "run a query on a test clock, with rows from a test",
        "`headwater test` and Python tests do not work",
        (
            f"{_SQL}.classic.StreamingQueryManager#startQuery/12|startQuery/13",
            f"{_RUN}.MemoryStream",
            f"{_SQL}.execution.streaming.sources.MemorySink#latestBatchData/0",
            f"{_SQL}.execution.streaming.sources.ForeachBatchSink#new/2",
            "org.apache.spark.util.Clock#waitTillTime/1",
        ),
    ),
    Probe(
        "streaming checker",
        "check with Spark whether it supports a query before the start",
        "`headwater check` cannot detect what Spark rejects",
        tuple(
            f"{_SQL}.catalyst.analysis.UnsupportedOperationChecker$#{each}"
            for each in ("checkForStreaming/2", "checkForContinuous/2", "checkForBatch/1")
        ),
    ),
    Probe(
        "plans",
        "read the plan of a query",
        "`headwater check` cannot analyze a query, and a run cannot name its inputs",
        (
            f"{_SQL}.execution.QueryExecution#analyzed/0",
            f"{_SQL}.classic.Dataset#ofRows/2",
            f"{_LOGICAL}.EventTimeWatermark#getDelayMs/1",
            f"{_LOGICAL}.TransformWithStateInPySpark",
            f"{_LOGICAL}.FlatMapGroupsInPandasWithState",
            f"{_SQL}.catalyst.planning.ExtractEquiJoinKeys$#unapply/1",
            f"{_SQL}.catalyst.analysis.StreamingJoinHelper$#getStateValueWatermark/4",
        ),
    ),
    Probe(
        "state layouts",
        "derive the state layout of a query from its plan",
        "Headwater cannot check whether a changed query is compatible with the state in its checkpoint",
        (
            f"{_SQL}.execution.LogicalRDD#new/9",
            f"{_SQL}.catalyst.optimizer.InlineCTE#new/2",
            f"{_SQL}.catalyst.optimizer.ColumnPruning$#MODULE$",
            f"{_SQL}.catalyst.optimizer.PushDownPredicates$#MODULE$",
        ),
    ),
    Probe(
        "rows written to files",
        "take the number of rows that a batch wrote from the metrics of Spark's operators",
        "small batches of `files` sinks are slower, or the number of rows that they write is unknown",
        (
            "org.apache.spark.scheduler.LiveListenerBus#addToQueue/2",
            f"{_SQL}.execution.ui.SparkListenerSQLExecutionEnd#qe/0",
            f"{_SQL}.execution.streaming.runtime.IncrementalExecution#runId/0",
            f"{_SQL}.execution.ui.SparkListenerSQLExecutionEnd#executionFailure/0",
            f"{_SQL}.execution.streaming.runtime.IncrementalExecution#currentBatchId/0",
            f"{_SQL}.catalyst.trees.TreePattern#PLAN_EXPRESSION/0",
        ),
    ),
    Probe(
        "filters on expensive columns",
        "keep Spark from parsing JSON twice, for a filter and for the rows that pass it",
        "queries that filter on a column from `from_json` or a Python function are slower",
        (
            f"{_LOGICAL}.Generate#new/6",
            f"{_LOGICAL}.Project#new/2",
            f"{_SQL}.catalyst.expressions.CreateArray#new/1",
            f"{_SQL}.catalyst.expressions.Explode#new/1",
            f"{_SQL}.catalyst.trees.TreePattern#JSON_TO_STRUCT/0",
            f"{_SQL}.catalyst.trees.TreePattern#PYTHON_UDF/0",
            f"{_SQL}.catalyst.trees.TreePattern#CTE/0",
        ),
    ),
    Probe(
        "expressions outside of plans",
        "keep the reasons for bad rows out of the plan of each batch",
        "pipelines with a source of messages, such as Kafka, cannot start",
        (
            f"{_SQL}.catalyst.CatalystTypeConverters$#convertToScala/2",
            f"{_SQL}.catalyst.expressions.BindReferences$#bindReference/3",
            f"{_SQL}.catalyst.expressions.Expression#eval/1",
            f"{_SQL}.catalyst.expressions.GenericInternalRow#new/1",
            f"{_SQL}.catalyst.expressions.package$AttributeSeq#new/1",
            f"{_SQL}.catalyst.optimizer.ReplaceExpressions$#MODULE$",
        ),
    ),
    Probe(
        "state of arrays and maps",
        "store arrays and maps in the state of `applyInPandasWithState`",
        "such a query fails in its first batch, for example with KeyError: 'elementType'",
        ("pyspark.worker:EvalConf.state_value_schema",),
        "==4.1.*",
    ),
    Probe(
        "observations",
        "count the rows of a batch run",
        "`run --batch` fails if the pipeline has expectations or skips bad rows",
        (f"{_SQL}.Observation#future/0",),
    ),
    Probe(
        "event listener",
        "receive each progress event of a query in one call",
        "runs cannot start",
        (
            f"{_SQL}.streaming.PythonStreamingQueryListener",
            f"{_SQL}.streaming.PythonStreamingQueryListenerWrapper#new/1",
        ),
    ),
    Probe(
        "running query",
        "read the watermarks and committed epochs of a running query",
        "a run cannot detect which idle input blocks the watermark",
        (
            f"{_RUN}.StreamExecution#queryExecutionThread/0",
            f"{_RUN}.StreamExecution#commitLog/0",
            f"{_RUN}.MicroBatchExecution#watermarkTracker/0",
            f"{_RUN}.WatermarkTracker#watermarkMap/0",
        ),
    ),
    Probe(
        "waiting files",
        "count the files in the backlog",
        "progress does not show the backlog of files",
        (f"{_RUN}.FileStreamSource#unreadFiles",),
    ),
    Probe(
        "static tables",
        "list the files of a static table for each batch",
        "pipelines with a static `files` source cannot run",
        (
            f"{_FILES}.FileIndex#listFiles/2",
            f"{_FILES}.HadoopFsRelation#new/7",
            f"{_FILES}.InMemoryFileIndex#new/7",
            f"{_FILES}.NoopCache$#MODULE$",
        ),
    ),
    Probe(
        "stream writers",
        "read the settings of a DataStreamWriter",
        "`headwater check` cannot check scripts, and tests cannot use real sinks",
        tuple(f"{_SQL}.classic.DataStreamWriter#{each}" for each in _WRITER),
    ),
    Probe(
        "real-time trigger",
        "start a query with the real-time trigger",
        "`trigger: real time` is not available",
        (f"{_SQL}.streaming.Trigger#RealTime/1",),
    ),
    Probe(
        "Python data sources",
        "prevent Spark from importing modules in the current directory",
        "Spark imports every `pyspark_*` module that it finds",
        (
            f"{_FILES}.DataSourceManager$#MODULE$",
            f"{_FILES}.DataSourceManager#runtimeDataSourceBuilders",
            f"{_FILES}.DataSource$#lookupDataSourceV2/2",
        ),
    ),
    Probe(
        "checkpoint settings",
        "store state in RocksDB and write checkpoint settings in Spark's format",
        "runs cannot start",
        (
            f"{_SQL}.execution.streaming.checkpointing.OffsetSeqMetadata$#apply/3",
            f"{_SQL}.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
            f"{_SQL}.execution.streaming.state.RocksDBStateStoreProvider",
        ),
    ),
    Probe(
        "SQL classes",
        "load Spark's SQL classes while Spark starts",
        "starts take longer",
        (
            f"{_SQL}.catalyst.analysis.FunctionRegistry$#MODULE$",
            f"{_SQL}.execution.SparkSqlParser#parsePlan/1",
        ),
    ),
    Probe(
        "sessions",
        "create a separate session for each pipeline and add jars to queries",
        "runs cannot start",
        (
            f"{_SQL}.classic.SparkSession#cloneSession/0",
            f"{_SQL}.classic.SparkSession$#setActiveSession/1",
            f"{_SQL}.internal.SQLConf$#isStaticConfigKey/1",
        ),
    ),
    Probe(
        "read-only SQL",
        "check what a SQL text reads before Spark executes it",
        "`headwater sql` and `Run.sql()` are not available",
        (
            f"{_SQL}.catalyst.analysis.UnresolvedRelation#multipartIdentifier/0",
            f"{_LOGICAL}.View#isTempView/0",
            f"{_LOGICAL}.View#desc/0",
            f"{_SQL}.catalyst.trees.TreePattern#COMMAND/0",
            f"{_SQL}.execution.CommandExecutionMode$#SKIP/0",
            f"{_SQL}.internal.SessionState#executePlan/2",
            f"{_SQL}.catalyst.analysis.FunctionRegistryBase#dropFunction/1",
            "org.apache.spark.SparkContext#cancelJobGroupAndFutureJobs/1",
        ),
    ),
    Probe(
        "Java functions",
        "register Java and Scala functions for SQL",
        "functions with `java_class` are not available",
        (
            f"{_SQL}.catalyst.analysis.FunctionRegistry$#builtin/0",
            "org.apache.spark.util.Utils$#classForName/3",
            f"{_SQL}.functions$#udaf/2",
        ),
    ),
    Probe(
        "queries of threads",
        "find out which query and batch a thread runs",
        "`hw.sinks`, `dedup_headers` and `refresh` do not work",
        (
            f"{_RUN}.StreamExecution$#QUERY_ID_KEY/0",
            f"{_RUN}.MicroBatchExecution$#BATCH_ID_KEY/0",
        ),
    ),
    Probe(
        "intercepted writes",
        "prevent table functions and checked scripts from writing",
        "a checked script could write data",
        (
            "pyspark.sql.streaming.readwriter:DataStreamWriter.start",
            "pyspark.sql:DataFrameWriter.save",
            "pyspark.sql:DataFrameWriterV2.createOrReplace",
            "pyspark.sql.merge:MergeIntoWriter.merge",
            "pyspark.sql:Catalog.createTable",
            "pyspark.sql.classic.dataframe:DataFrame.foreach",
        ),
    ),
)


def missing(spark: SparkSession, probe: Probe) -> tuple[str, ...]:
    """The needs of a probe that this Spark does not have."""
    return _Classes(spark).lack(probe)


def lacking(spark: SparkSession) -> dict[str, tuple[str, ...]]:
    """What this Spark is missing, by the name of the probe."""
    classes = _Classes(spark)
    return {probe.name: needs for probe in PROBES if (needs := classes.lack(probe))}


@dataclass
class _Classes:
    """The members of Spark's classes; each class is inspected once."""

    spark: SparkSession
    known: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def lack(self, probe: Probe) -> tuple[str, ...]:
        return tuple(need for need in probe.needs if not self.have(need))

    def have(self, need: str) -> bool:
        if need in _WORKS:
            return _WORKS[need]()
        if ":" in need:
            return _in_pyspark(need)
        name, _, member = need.partition("#")
        if name not in self.known:
            self.known[name] = self._members(name)
        members = self.known[name]
        return members is not None and (not member or not members.isdisjoint(member.split("|")))

    def _members(self, name: str) -> frozenset[str] | None:
        """The members of a class, including inherited public ones; None if the class does not exist."""
        lang = jvm_of(self.spark).java.lang
        try:
            found = lang.Class.forName(name, False, lang.Thread.currentThread().getContextClassLoader())
        except Py4JJavaError:
            return None
        methods = (
            *texts_of(self.spark, found.getMethods()),
            *texts_of(self.spark, found.getDeclaredMethods()),
        )
        made = texts_of(self.spark, found.getDeclaredConstructors())
        calls = [(name, given) for each in methods for name, given in _CALL.findall(each)]
        return frozenset(
            {
                *(f"{name.rpartition('.')[2]}/{_count(given)}" for name, given in calls),
                *(f"new/{_count(given)}" for each in made for _, given in _CALL.findall(each)),
                *(each.rpartition(".")[2] for each in texts_of(self.spark, found.getDeclaredFields())),
            }
        )


def _in_pyspark(need: str) -> bool:
    module, _, path = need.partition(":")
    owner, _, name = path.partition(".")
    try:
        return hasattr(getattr(import_module(module), owner), name)
    except (ImportError, AttributeError):
        return False


def reads_state_schemas() -> bool:
    """Whether a worker keeps capital letters in the schema of a state: 4.2 and 4.3 read it in lower case."""
    try:
        of_worker: Any = import_module("pyspark.worker").EvalConf()
    except (ImportError, AttributeError):
        return True
    schema = StructType([StructField("Words", ArrayType(StringType()))])
    of_worker._conf["state_value_schema"] = schema.json()
    try:
        return bool(of_worker.state_value_schema == schema)
    except KeyError:
        return False


_WORKS: Mapping[str, Callable[[], bool]] = {"pyspark.worker:EvalConf.state_value_schema": reads_state_schemas}


def _count(arguments: str) -> int:
    return len(arguments.split(",")) if arguments else 0
