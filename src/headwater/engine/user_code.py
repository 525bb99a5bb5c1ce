"""The user's Python code on its way to the executors, for every form of a pipeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headwater.connectors import sink_side, source_side
from headwater.engine.project_code import (
    PLAIN,
    ProjectCode,
    PyFileTaker,
    ship_archive,
    unique_name,
    write_archive,
)
from headwater.engine.project_imports import ProjectTree, needed_modules
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import (
    AGGREGATOR_INPUT_UNSUPPORTED,
    CLASS_NOT_A_FUNCTION,
    CLASS_NOT_FOUND,
    FUNCTION_NAME_CONFLICT,
    FUNCTION_RETURN_TYPE,
)
from headwater.spark.frames import (
    JavaFunction,
    aggregator_input,
    function_kind,
    has_encoder,
    is_built_in,
    load_class,
    register_aggregator,
)
from headwater.spec import FunctionRef, FunctionSpec, PipelineSpec
from headwater.values.user_frames import PACKAGE_PREFIX, is_users


def ship_user_code(spec: PipelineSpec, context: PyFileTaker) -> ProjectCode | None:
    """Make every module that the pipeline's functions need available to the executors.

    Headwater loads functions named in YAML, under a name unique to the project. A `pipeline.py` that was
    passed to a command was loaded in the same way. If the user's own script or notebook declares the
    pipeline, its modules were imported under their plain names, so the executors get these.
    """
    refs = list(_functions(spec))
    named = sorted({Path(ref.file) for ref in refs if ref.function is None})
    code = ProjectCode.of(spec.root, named) if named else None
    if code:
        code.ship(context)
    at_hand = [ref for ref in refs if ref.function is not None]
    loaded = [_module(ref).startswith(PACKAGE_PREFIX) for ref in at_hand]
    if any(loaded):
        ProjectCode.of(spec.root, [Path(os.path.abspath(spec.declared_in))]).ship(context)
    if not all(loaded):
        _ship_plain(spec.root, context)
    return code


def _functions(spec: PipelineSpec) -> Iterator[FunctionRef]:
    yield from (declared.function for declared in spec.functions if declared.function)
    yield from (table.function for table in spec.tables if table.function)
    yield from filter(None, (spec.on_event,))
    for sink in spec.sinks:
        yield from sink_side(sink.connector).functions(sink.options)
    for source in spec.sources:
        yield from source_side(source.connector).functions(source.options)


def _module(ref: FunctionRef) -> str:
    return str(getattr(ref.function, "__module__", ""))


def _ship_plain(root: Path, context: PyFileTaker) -> None:
    """Ship the modules of the project that this process has imported, and what they import in turn."""
    entries = sorted(set(_imported_files(root)))
    if not entries:
        return
    modules = needed_modules(ProjectTree(root), entries)
    name = f"{unique_name(root, modules)}{PLAIN}"

    def compiled() -> Iterator[tuple[str, CodeType]]:
        for module in modules:
            path = module.found.name.replace(".", "/") + ("/__init__" if module.found.package else "")
            # A directory without `__init__.py` gets an empty one: Python would not find it inside an archive.
            code = module.source.tree if module.source else ""
            yield path, compile(code, str(module.found.file), "exec", dont_inherit=True)

    ship_archive(context, name, lambda folder: write_archive(folder, name, compiled(), package=""))


def _imported_files(root: Path) -> Iterator[Path]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        plain = name not in ("__main__", "__mp_main__") and not name.startswith(PACKAGE_PREFIX)
        if plain and file and file.endswith(".py") and is_users(file, root):
            yield Path(file)


# The functions that a pipeline declares for SQL, registered in its session.


def register_functions(
    spark: SparkSession, spec: PipelineSpec, load: Callable[[FunctionRef], Callable[..., Any]]
) -> tuple[Problem, ...]:
    """Register every declared function for SQL; returns all problems together."""
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
    """A function with the name of a built-in would replace it everywhere, even inside Spark."""
    if is_built_in(spark, declared.name):
        raise PipelineError(FUNCTION_NAME_CONFLICT.at(declared.position, name=declared.name))


def _register_python(spark: SparkSession, declared: FunctionSpec, function: Any) -> None:
    is_udf = hasattr(function, "returnType") and hasattr(function, "evalType")
    if is_udf == bool(declared.returns):
        raise PipelineError(
            FUNCTION_RETURN_TYPE.at(
                declared.position,
                name=declared.name,
                says="already declares its return type" if is_udf else "does not declare its return type",
                hint="Remove `returns:`." if is_udf else "Add `returns: string`, or decorate it with `@udf`.",
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
        problem = CLASS_NOT_FOUND.at(declared.position, name=name, java_class=java_class)
        raise PipelineError(problem) from error
    match function_kind(spark, found):
        case JavaFunction.AGGREGATOR:
            taken = aggregator_input(found) or "an unknown type"
            if not has_encoder(taken):
                raise PipelineError(
                    AGGREGATOR_INPUT_UNSUPPORTED.at(
                        declared.position, name=name, java_class=java_class, taken=taken
                    )
                )
            register_aggregator(spark, name, found, taken)
        case JavaFunction.OLD_AGGREGATE:
            spark.udf.registerJavaUDAF(name, java_class)
        case JavaFunction.UDF:
            spark.udf.registerJavaFunction(name, java_class, declared.returns)
        case None:
            raise PipelineError(CLASS_NOT_A_FUNCTION.at(declared.position, name=name, java_class=java_class))
