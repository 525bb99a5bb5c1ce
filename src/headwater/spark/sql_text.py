"""What a SQL text reads: its plan before Spark acts on it, and its analyzed plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.plans import analyzed, frame_of_plan, parsed
from headwater.spark.private import (
    JavaObject,
    items_of,
    java_context,
    jvm_of,
    kind_of,
    scala_object,
    session_state,
)
from headwater.spark.session import copy_of

# A session in which a text can only read.

_CALLS_JAVA = "it calls any Java method"
_READS_FILES = "it can read any file, which its arguments name"
FORBIDDEN_FUNCTIONS = {
    "reflect": _CALLS_JAVA,
    "java_method": _CALLS_JAVA,
    "try_reflect": _CALLS_JAVA,
    # A descriptor file, or the name of a class.
    "from_protobuf": _READS_FILES,
    "to_protobuf": _READS_FILES,
    # The option `avroSchemaUrl`.
    "from_avro": _READS_FILES,
    "schema_of_avro": _READS_FILES,
    # The option `rowValidationXSDPath`.
    "from_xml": _READS_FILES,
    "schema_of_xml": _READS_FILES,
    # The DOCTYPE of the XML.
    "xpath": _READS_FILES,
    "xpath_boolean": _READS_FILES,
    "xpath_double": _READS_FILES,
    "xpath_float": _READS_FILES,
    "xpath_int": _READS_FILES,
    "xpath_long": _READS_FILES,
    "xpath_number": _READS_FILES,
    "xpath_short": _READS_FILES,
    "xpath_string": _READS_FILES,
    "python_worker_logs": "it reads the logs of the run's Python processes",
}
"""The functions that reach beyond the tables of a run, each with the reason."""
_SETTINGS = {
    # `SELECT * FROM parquet.`/path``
    "spark.sql.runSQLOnFiles": "false",
    # `${env:NAME}` and `${spark.…}` in a text would show variables and settings of the run.
    "spark.sql.variable.substitute": "false",
    # A window over large rows moves them to disk. By default, it holds thousands of them in memory.
    "spark.sql.windowExec.buffer.in.memory.threshold": "1",
}
_UNKNOWN_FUNCTION = {"UNRESOLVED_ROUTINE": "routineName", "UNRESOLVABLE_TABLE_VALUED_FUNCTION": "name"}
"""The conditions of Spark's errors for a function that it does not know, with the parameter that names it."""
_PARTITIONS = (
    "spark.sql.shuffle.partitions",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.files.maxPartitionNum",
)


def read_only_copy(spark: SparkSession, partitions: int) -> SparkSession:
    """A copy of a session with all its functions, except those that reach beyond Spark.

    Each stage of its queries has about this number of tasks.
    """
    copy = copy_of(spark)
    for key, value in {**_SETTINGS, **dict.fromkeys(_PARTITIONS, str(partitions))}.items():
        copy.conf.set(key, value)
    state, identifier = session_state(copy), jvm_of(copy).org.apache.spark.sql.catalyst.FunctionIdentifier
    for name in FORBIDDEN_FUNCTIONS:
        for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
            registry.dropFunction(identifier(name))
    return copy


def forbidden_function(error: Exception) -> str | None:
    """The forbidden function for which Spark has rejected a text, if that is the reason."""
    if not isinstance(error, PySparkException):
        return None
    parameters = error.getMessageParameters() or {}
    called = parameters.get(_UNKNOWN_FUNCTION.get(error.getCondition() or "", ""), "")
    name = called.rpartition(".")[2].strip("`").lower()
    return name if name in FORBIDDEN_FUNCTIONS else None


def show_as(spark: SparkSession, name: str, rows: DataFrame) -> None:
    """Let a session see the rows of a DataFrame of any session, under a name in its SQL."""
    frame_of_plan(spark, analyzed(rows)).createOrReplaceTempView(quoted_name(name))


def quoted_name(name: str) -> str:
    """A name as SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


# The plan of a text, before it is analyzed: analysis alone runs some statements.

_QUERY_NODES = {
    "Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join",
    "LateralJoin", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot",
    "Project", "Repartition", "RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Union",
    "Unpivot", "UnresolvedEventTimeWatermark", "UnresolvedHaving", "UnresolvedHint",
    "UnresolvedInlineTable", "UnresolvedRelation", "UnresolvedSubqueryColumnAliases",
    "UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "UnresolvedWith", "WithWindowDefinition",
}  # fmt: skip
"""What a parsed query consists of. Statements such as INSERT DIRECTORY do not have a common class."""


@dataclass(frozen=True)
class SqlText:
    """A text as Spark has parsed it."""

    spark: SparkSession
    plan: JavaObject
    tables: tuple[tuple[str, ...], ...]
    """The parts of the name of each table that it reads, without those of its own WITH clauses."""
    statement: str | None
    """The kind of the first node that is not part of a query; None if the text only reads these tables."""

    @classmethod
    def of(cls, spark: SparkSession, text: str) -> SqlText:
        """Parse a text; one of SPARK_ERRORS if that fails. Nothing is executed."""
        plan = parsed(spark, text)
        tables, statement = dict[tuple[str, ...], None](), None
        for kind, node, named in _nodes_in_scope(plan):
            if kind == "UnresolvedRelation":
                parts = tuple(map(str, items_of(node.multipartIdentifier())))
                if len(parts) > 1 or parts[0].lower() not in named:
                    tables[parts] = None
            elif kind not in _QUERY_NODES:
                statement = statement or kind
        return cls(spark, plan, tuple(tables), statement)

    def analyzed(self) -> DataFrame | None:
        """The result of a query; None if it is a statement after all, which is not executed then."""
        execution = jvm_of(self.spark).org.apache.spark.sql.execution
        skip = scala_object(execution, "CommandExecutionMode").SKIP()
        plan = session_state(self.spark).executePlan(self.plan, skip).analyzed()
        command = jvm_of(self.spark).org.apache.spark.sql.catalyst.trees.TreePattern.COMMAND()
        return None if plan.containsPattern(command) else frame_of_plan(self.spark, plan)


def _nodes_in_scope(plan: JavaObject) -> Iterator[tuple[str, JavaObject, frozenset[str]]]:
    """Every node of a parsed plan with its kind, and the names of the WITH clauses that it can read."""
    waiting = [(plan, frozenset[str]())]
    while waiting:
        node, names = waiting.pop()
        kind, inner = kind_of(node), items_of(node.innerChildren())
        yield kind, node, names
        if kind == "UnresolvedWith":
            # Each reads the ones before it. Only a recursive one reads itself; for others, its name is a table.
            for each in inner:
                own = names | {str(each.alias()).lower()}
                waiting.append((each, own if node.allowRecursion() else names))
                names = own
        else:
            waiting += ((each, names) for each in inner)
        waiting += ((each, names) for each in items_of(node.children()))


# The analyzed plan.

_OWN_LEAVES = {"OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef"}


def read_besides(rows: DataFrame, views: Collection[str]) -> str | None:
    """What a DataFrame reads besides temporary views with these names (in lower case); None if nothing."""

    def is_view(kind: str, node: JavaObject) -> bool:
        return kind == "View" and bool(node.isTempView()) and _view_name(node).lower() in views

    for kind, node in _all_nodes(analyzed(rows), skip=is_view):
        if kind == "View" and not is_view(kind, node):
            return _view_name(node)
        if kind != "View" and kind not in _OWN_LEAVES and not node.children().size():
            return kind
    return None


def _view_name(view: JavaObject) -> str:
    return str(view.desc().identifier().table())


def _all_nodes(
    plan: JavaObject, skip: Callable[[str, JavaObject], bool] = lambda kind, node: False
) -> Iterator[tuple[str, JavaObject]]:
    """Every node of a plan with its kind, those of subqueries included; nothing below one to `skip`."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        kind = kind_of(node)
        yield kind, node
        if not skip(kind, node):
            waiting += [*items_of(node.innerChildren()), *items_of(node.children())]


def cancel_group(spark: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, and those that it has not started yet (`cancelJobGroupAndFutureJobs`)."""
    with suppress(Py4JError):
        java_context(spark.sparkContext).cancelJobGroupAndFutureJobs(group)
