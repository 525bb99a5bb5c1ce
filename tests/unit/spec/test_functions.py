"""Functions that are at hand, as references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.spec.pipeline import function_of
from headwater.values import Position


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@plainly
@plainly
def decorated(clicks: Any) -> Any:
    return clicks


def test_a_function_is_defined_at_its_def_and_not_at_its_decorators() -> None:
    first = decorated.__code__.co_firstlineno
    assert function_of(decorated).defined == Position(__file__, first + 2)
    assert function_of(plainly).defined == Position(__file__, plainly.__code__.co_firstlineno)
