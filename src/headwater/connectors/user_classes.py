"""Whether a user's class has the methods that a connector calls, told from the class itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headwater.errors import Place, Problem
from headwater.errors.catalogue.user_code import (
    CLASS_METHOD_MISSING,
    CLASS_NEEDS_ARGUMENTS,
    FUNCTION_ARGUMENTS,
    NOT_A_CLASS,
)
from headwater.spec import ClassRef, Method


def class_problems(
    ref: ClassRef, found: object, methods: Sequence[Method], place: Place | None = None
) -> Iterator[Problem]:
    """What keeps a loaded class from being used; `place` is where the pipeline names it."""
    at = ref.defined or place
    if not isinstance(found, type):
        kind = "a function" if inspect.isroutine(found) else f"a value of type {type(found).__name__}"
        yield NOT_A_CLASS.at(place, name=ref.name, file=ref.file, kind=kind)
        return
    # Whoever calls no methods makes no object, either: Spark makes it, in its own way.
    needs = _needed(found) if methods else ""
    if needs:
        yield CLASS_NEEDS_ARGUMENTS.at(at, name=ref.name, needs=needs)
    for method in methods:
        value = inspect.getattr_static(found, method.name, None)
        called = getattr(found, method.name, None)
        if called is None and not method.required:
            continue
        if not callable(called):
            yield method_missing(ref.name, method, at)
        elif not _takes(called, value, method):
            yield method_arguments_problem(ref.name, method, _parameters(called), at)


def method_missing(name: str, method: Method, place: Place | None) -> Problem:
    """The problem of a class without a method that is called."""
    takes = ", ".join(("self", *method.passes))
    return CLASS_METHOD_MISSING.at(place, name=name, method=method.name, takes=takes)


def method_arguments_problem(name: str, method: Method, takes: str, place: Place | None) -> Problem:
    """The problem of a method that can't take what it is called with."""
    passed = ", ".join(("self", *method.passes))
    function = f"{name}.{method.name}"
    return FUNCTION_ARGUMENTS.at(
        place,
        function=function,
        short=method.name,
        takes=takes,
        count=len(method.passes) + 1,
        passed=passed,
    )


def _needed(found: type) -> str:
    """The parameters without which no object can be made."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        # A class of C code says nothing; making an object will tell.
        return ""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind not in optional]
    return ", ".join(each.name for each in needed)


def _takes(called: Callable[..., Any], value: object, method: Method) -> bool:
    bound = isinstance(value, classmethod | staticmethod)
    try:
        inspect.signature(called).bind(*(() if bound else ("self",)), *method.passes)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _parameters(called: Callable[..., Any]) -> str:
    signature = inspect.signature(called)
    return str(signature.replace(return_annotation=inspect.Signature.empty))[1:-1]
