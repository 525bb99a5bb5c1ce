"""The functions that a pipeline declares for SQL, registered in its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.user_code import (
    AGGREGATOR_INPUT,
    CLASS_MISSING,
    CLASS_NO_FUNCTION,
    FUNCTION_BUILT_IN,
    FUNCTION_RETURNS,
)
from headwater.spec import FunctionRef, FunctionSpec, PipelineSpec

_INPUTS = {
    "java.lang.Boolean": "BOOLEAN", "java.lang.Byte": "BYTE", "java.lang.Short": "SHORT",
    "java.lang.Integer": "INT", "java.lang.Long": "LONG", "java.lang.Float": "FLOAT",
    "java.lang.Double": "DOUBLE", "java.lang.String": "STRING", "java.math.BigDecimal": "DECIMAL",
    "java.sql.Date": "DATE", "java.sql.Timestamp": "TIMESTAMP", "java.time.LocalDate": "LOCALDATE",
    "java.time.Instant": "INSTANT", "byte[]": "BINARY",
}  # fmt: skip
"""What an Aggregator takes, and the encoder that Spark has for it."""

_MOST_ARGUMENTS = 22


def register_functions(
    spark: SparkSession, spec: PipelineSpec, load: Callable[[FunctionRef], Callable[..., Any]]
) -> tuple[Problem, ...]:
    """Make every declared function known to SQL; what is wrong with them is returned together."""
    problems: list[Problem] = []
    for declared in spec.functions:
        try:
            _refuse_built_in(spark, declared)
            if declared.function:
                _register_python(spark, declared, load(declared.function))
            else:
                _register_class(spark, declared)
        except PipelineError as error:
            problems += error.problems
    return tuple(problems)


def _refuse_built_in(spark: SparkSession, declared: FunctionSpec) -> None:
    """A function of a built-in's name would take its place everywhere, in what Spark itself computes too."""
    jvm: Any = spark._jvm
    analysis = jvm.org.apache.spark.sql.catalyst
    built_in = analysis.analysis.FunctionRegistry.builtin()
    if built_in.functionExists(analysis.FunctionIdentifier(declared.name)):
        raise PipelineError(FUNCTION_BUILT_IN.at(declared.position, name=declared.name))


def _register_python(spark: SparkSession, declared: FunctionSpec, function: Any) -> None:
    is_udf = hasattr(function, "returnType") and hasattr(function, "evalType")
    if is_udf == bool(declared.returns):
        raise PipelineError(
            FUNCTION_RETURNS.at(
                declared.position,
                name=declared.name,
                says="says by itself what it returns" if is_udf else "does not say what type it returns",
                hint="Take `returns:` out." if is_udf else "Add `returns: string`, or decorate it with @udf.",
            )
        )
    if is_udf:
        spark.udf.register(declared.name, function)
    else:
        spark.udf.register(declared.name, function, declared.returns)


def _register_class(spark: SparkSession, declared: FunctionSpec) -> None:
    jvm: Any = spark._jvm
    found = _load_class(jvm, declared)
    if _extends(jvm, found, "org.apache.spark.sql.expressions.Aggregator"):
        encoder = _input_encoder(jvm, found, declared)
        made = jvm.org.apache.spark.sql.functions.udaf(_instance(spark, found), encoder)
        session: Any = spark
        session._jsparkSession.udf().register(declared.name, made)
    elif _extends(jvm, found, "org.apache.spark.sql.expressions.UserDefinedAggregateFunction"):
        spark.udf.registerJavaUDAF(declared.name, str(declared.java_class))
    elif any(
        _extends(jvm, found, f"org.apache.spark.sql.api.java.UDF{count}")
        for count in range(_MOST_ARGUMENTS + 1)
    ):
        spark.udf.registerJavaFunction(declared.name, str(declared.java_class), declared.returns)
    else:
        raise PipelineError(
            CLASS_NO_FUNCTION.at(declared.position, name=declared.name, java_class=declared.java_class)
        )


def _load_class(jvm: Any, declared: FunctionSpec) -> Any:
    try:
        return jvm.org.apache.spark.util.Utils.classForName(declared.java_class, True, False)
    except Py4JJavaError as error:
        problem = CLASS_MISSING.at(declared.position, name=declared.name, java_class=declared.java_class)
        raise PipelineError(problem) from error


def _extends(jvm: Any, found: Any, base: str) -> bool:
    return bool(jvm.java.lang.Class.forName(base).isAssignableFrom(found))


def _instance(spark: SparkSession, found: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    return found.getDeclaredConstructor(none).newInstance(gateway.new_array(gateway.jvm.java.lang.Object, 0))


def _input_encoder(jvm: Any, found: Any, declared: FunctionSpec) -> Any:
    """The encoder of what the class takes, which its declaration names first."""
    superclass = found.getGenericSuperclass()
    taken = superclass.getActualTypeArguments()[0] if hasattr(superclass, "getActualTypeArguments") else None
    name = str(taken.getTypeName()) if taken is not None else "an unknown type"
    if name not in _INPUTS:
        raise PipelineError(
            AGGREGATOR_INPUT.at(
                declared.position, name=declared.name, java_class=declared.java_class, taken=name
            )
        )
    return getattr(jvm.org.apache.spark.sql.Encoders, _INPUTS[name])()
