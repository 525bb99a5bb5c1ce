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
from headwater.spark.functions import (
    JavaFunction,
    aggregator_input,
    function_kind,
    has_encoder,
    is_built_in,
    load_class,
    register_aggregator,
)
from headwater.spec import FunctionRef, FunctionSpec, PipelineSpec


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
    if is_built_in(spark, declared.name):
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
    name, java_class = declared.name, str(declared.java_class)
    try:
        found = load_class(spark, java_class)
    except Py4JJavaError as error:
        problem = CLASS_MISSING.at(declared.position, name=name, java_class=java_class)
        raise PipelineError(problem) from error
    match function_kind(spark, found):
        case JavaFunction.AGGREGATOR:
            taken = aggregator_input(found) or "an unknown type"
            if not has_encoder(taken):
                raise PipelineError(
                    AGGREGATOR_INPUT.at(declared.position, name=name, java_class=java_class, taken=taken)
                )
            register_aggregator(spark, name, found, taken)
        case JavaFunction.OLD_AGGREGATE:
            spark.udf.registerJavaUDAF(name, java_class)
        case JavaFunction.UDF:
            spark.udf.registerJavaFunction(name, java_class, declared.returns)
        case None:
            raise PipelineError(CLASS_NO_FUNCTION.at(declared.position, name=name, java_class=java_class))
