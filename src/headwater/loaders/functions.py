"""User functions that a pipeline names: found in their files and told by their parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headwater.loaders.python_functions import function_parameters
from headwater.spec import FunctionRef
from headwater.values import Position


def with_parameters(ref: FunctionRef, place: Position | None) -> FunctionRef:
    """The reference with the function's parameters; PipelineError where file or function is missing."""
    if ref.function is not None:
        return ref
    return replace(ref, parameters=function_parameters(Path(ref.file), ref.name, place), place=place)
