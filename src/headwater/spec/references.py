"""A user's function or class as named in a pipeline file: `"out.py:write"`, `"out.py:Writer"`."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable
from types import FunctionType
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from headwater.spec.connector import ClassRef, FunctionRef
from headwater.spec.paths import absolute, project_root
from headwater.values import Position


def function_ref(written: object, info: ValidationInfo) -> FunctionRef:
    """`file.py:function`, relative to the pipeline file, or the function itself."""
    if isinstance(written, FunctionRef):
        return written
    if callable(written):
        return function_of(written)
    if not isinstance(written, str):
        raise ValueError('expected the name of a function; write "file.py:function"')
    return FunctionRef(*_named_in_file(written, info, "a function", "file.py:function"))


def _named_in_file(written: str, info: ValidationInfo, what: str, form: str) -> tuple[str, str]:
    file, colon, name = written.rpartition(":")
    if not colon or not file.endswith(".py") or not name.replace(".", "").isidentifier():
        raise ValueError(f'`{written}` does not name {what}; write "{form}"')
    return absolute(file, project_root(info)), name


def function_of(function: Callable[..., Any]) -> FunctionRef:
    """The reference to a function object."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"`{name}` is not defined with `def`; write a function that calls it")
    parameters = inspect.signature(plain).parameters.values()
    names = tuple(each.name for each in parameters)
    optional = frozenset(each.name for each in parameters if each.default is not each.empty)
    file = os.path.abspath(plain.__code__.co_filename)
    place = _definition(plain, file)
    return FunctionRef(file, plain.__qualname__, names, function, defined=place, optional=optional)


def _definition(function: FunctionType, file: str) -> Position:
    """The line of the `def`: Python reports the line of the first decorator."""
    first = function.__code__.co_firstlineno
    lines = linecache.getlines(function.__code__.co_filename)[first - 1 :]
    steps = (step for step, line in enumerate(lines) if line.lstrip().startswith(("def ", "async def ")))
    return Position(file, first + next(steps, 0))


FunctionField = Annotated[
    FunctionRef,
    BeforeValidator(function_ref),
    WithJsonSchema({"type": "string", "examples": ["out.py:write"], "pattern": r"\.py:"}),
]


def class_ref(written: object, info: ValidationInfo) -> ClassRef:
    """`file.py:Class`, relative to the pipeline file, or the class itself."""
    if isinstance(written, ClassRef):
        return written
    if isinstance(written, type):
        return class_of(written)
    if not isinstance(written, str):
        raise ValueError('expected the name of a class; write "file.py:Class", or pass the class')
    return ClassRef(*_named_in_file(written, info, "a class", "file.py:Class"))


def class_of(found: type) -> ClassRef:
    """The reference to a class object."""
    try:
        file = os.path.abspath(inspect.getfile(found))
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        # Defined in an interactive shell, without a file.
        return ClassRef("<input>", found.__qualname__, function=found)
    return ClassRef(file, found.__qualname__, function=found, defined=Position(file, line))


ClassField = Annotated[
    ClassRef,
    BeforeValidator(class_ref),
    WithJsonSchema({"type": "string", "examples": ["out.py:Writer"], "pattern": r"\.py:"}),
]
