"""A user's function as it is named in a pipeline file: `"out.py:write"`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from headwater.spec.declared import FunctionRef
from headwater.spec.paths import absolute, project_root


def function_ref(written: object, info: ValidationInfo) -> FunctionRef:
    """`file.py:function`, relative to the pipeline file, or the function itself."""
    if isinstance(written, FunctionRef):
        return written
    if callable(written):
        return function_of(written)
    if not isinstance(written, str):
        raise ValueError('a function is named as "file.py:function"')
    file, colon, name = written.rpartition(":")
    if not colon or not file.endswith(".py") or not name.replace(".", "").isidentifier():
        raise ValueError(f'`{written}` does not name a function; write "file.py:function"')
    return FunctionRef(absolute(file, project_root(info)), name)


def function_of(function: Callable[..., Any]) -> FunctionRef:
    """The reference to a function that is at hand."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"`{name}` is not a function with a `def`; write one that calls it")
    parameters = inspect.signature(plain).parameters.values()
    for each in parameters:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise ValueError(
                f"`{plain.__name__}` takes `{each}`, but every parameter has to be passed by its name; "
                "write its parameters out"
            )
    names = tuple(each.name for each in parameters)
    return FunctionRef(os.path.abspath(plain.__code__.co_filename), plain.__qualname__, names, function)


FunctionField = Annotated[
    FunctionRef,
    BeforeValidator(function_ref),
    WithJsonSchema({"type": "string", "examples": ["out.py:write"], "pattern": r"\.py:"}),
]
