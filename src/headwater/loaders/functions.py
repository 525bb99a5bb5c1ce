"""User functions and classes that a pipeline names: found in their files and told by their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.usercode import FUNCTION_PARAMETER_KINDS
from headwater.loaders.python_classes import class_ref_problems
from headwater.loaders.python_functions import (
    DeclaredFunction,
    arguments_problem,
    called_function,
    declared_function,
)
from headwater.spec import ClassRef, FunctionRef, SinkSide, SourceSide
from headwater.values import Position


def with_parameters(ref: FunctionRef, place: Position | None) -> FunctionRef:
    """The reference with the function's parameters; PipelineError where file or function is missing."""
    if ref.function is not None:
        return ref
    return _declared(ref, declared_function(Path(ref.file), ref.name, place), place)


def table_function(ref: FunctionRef, place: Position | None, names: Iterable[str]) -> FunctionRef:
    """A table's function, called by names: its parameters are of `names`, or have no default.

    PipelineError where it is missing, or has parameters that can't be passed by name.
    """
    if ref.function is None:
        declared = declared_function(Path(ref.file), ref.name, place)
        ref, unnamed = _declared(ref, declared, place), declared.unnamed
    else:
        unnamed = _unnamed(ref.function)
    if unnamed:
        problem = FUNCTION_PARAMETER_KINDS.at(ref.defined, function=ref.name, parameter=unnamed)
        raise PipelineError(problem)
    known = {name.lower() for name in names}
    passed = [each for each in ref.parameters if each not in ref.optional or each.lower() in known]
    return replace(ref, parameters=tuple(passed))


def _declared(ref: FunctionRef, found: DeclaredFunction, place: Position | None) -> FunctionRef:
    return replace(
        ref, parameters=found.parameters, place=place, defined=found.position, optional=found.optional
    )


def _unnamed(function: Callable[..., Any]) -> str | None:
    """The first parameter of a function at hand that can't be passed by its name, in words."""
    for each in inspect.signature(inspect.unwrap(function)).parameters.values():
        if each.kind is each.POSITIONAL_ONLY:
            return f"`{each.name}` by its place only"
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            return f"`{str(each).partition(':')[0]}`"
    return None


def key_of(options: BaseModel, ref: FunctionRef) -> str:
    """The key under which a connector's options name a function or class."""
    fields = type(options).model_fields.items()
    named = [field.alias or name for name, field in fields if getattr(options, name) is ref]
    return named[0] if named else "function"


def reference_problems(
    ref: FunctionRef, side: SourceSide | SinkSide, place: Position | None
) -> list[Problem]:
    """What is wrong with a function or class that a connector uses, as far as its text tells."""
    if isinstance(ref, ClassRef):
        return list(class_ref_problems(ref, getattr(side, "methods", ()), place))
    passed = getattr(side, "passes", ())
    try:
        refuse_call(ref, passed, place) if passed else with_parameters(ref, place)
    except PipelineError as error:
        return list(error.problems)
    return []


def refuse_call(ref: FunctionRef, passed: tuple[str, ...], place: Position | None) -> None:
    """PipelineError where the function is missing, or certainly can't be called with `passed`, by place."""
    if ref.function is None:
        called_function(Path(ref.file), ref.name, passed, place)
        return
    # Not the function inside a wrapper: the wrapper is what gets called.
    signature = inspect.signature(ref.function, follow_wrapped=False)
    try:
        signature.bind(*passed)
    except TypeError:
        takes = str(signature.replace(return_annotation=inspect.Signature.empty))[1:-1]
        raise PipelineError(arguments_problem(ref.defined or place, ref.name, takes, passed)) from None
