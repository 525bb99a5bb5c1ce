"""SQL functions from Headwater's jar.

`OneJsonObject` reads a message once, where Spark's own functions read it several times. `LazyExpression` keeps an
expression that few rows need out of the plan, which Spark analyzes, optimizes and compiles for each batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headwater.spark.local_files import has_jar, is_one_jvm
from headwater.spark.plans import analyzed, optimizer_rule
from headwater.spark.private import JavaObject, java_session, jvm_of

_ONE_OBJECT = "__hw_is_one_object"


def jar_functions(spark: SparkSession) -> JarFunctions | None:
    """The functions of the jar; None if the executors do not have it."""
    if not is_one_jvm(str(spark.sparkContext.master)) or not has_jar(jvm_of(spark)):
        return None
    return JarFunctions(spark)


@dataclass(frozen=True)
class JarFunctions:
    """Registers functions in a session; each method returns the name of one."""

    spark: SparkSession

    def is_one_object(self) -> str:
        """Whether bytes are one JSON object, with nothing after it."""
        types = jvm_of(self.spark).org.apache.spark.sql.types.DataTypes
        function = jvm_of(self.spark).headwater.rows.OneJsonObject()
        return self._registered(_ONE_OBJECT, function, types.BooleanType)

    def lazy(self, sql: str, columns: Mapping[str, str]) -> str:
        """A function of a struct of columns, by name and type, that evaluates a SQL expression over them.

        The expression must be deterministic, because Spark can call the function any number of times for a row.
        """
        catalyst = jvm_of(self.spark).org.apache.spark.sql.catalyst.expressions
        nulls = self.spark.range(0).selectExpr(
            *(f"CAST(NULL AS {each}) AS {name}" for name, each in columns.items())
        )
        # Spark's optimizer replaces functions that cannot evaluate themselves.
        plan = optimizer_rule(self.spark, "ReplaceExpressions").apply(
            analyzed(nulls.selectExpr(f"{sql} AS result"))
        )
        fields = getattr(catalyst, "package$AttributeSeq")(plan.child().output())
        bound = catalyst.BindReferences.bindReference(plan.projectList().head().child(), fields, False)
        assert bound.deterministic(), f"not deterministic: {sql}"
        # Several sources of a session may have different expressions.
        name = f"__hw_lazy_{hashlib.sha256(sql.encode()).hexdigest()[:12]}"
        return self._registered(
            name, jvm_of(self.spark).headwater.rows.LazyExpression(bound), bound.dataType()
        )

    def _registered(self, name: str, function: JavaObject, returns: JavaObject) -> str:
        java_session(self.spark).udf().register(name, function, returns)
        return name
