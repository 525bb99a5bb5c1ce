"""The Python functions of a plan: what Spark calls them with, told by its numbers for that."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.plan.operators import PythonFunction
from headwater.plan.tree import Node, Term

_EVALUATIONS = (
    (range(100, 101), "row"),
    (range(101, 102), "arrow"),
    (range(200, 201), "pandas"),
    (range(201, 202), "grouped map"),
    (range(202, 205), "pandas"),
    (range(205, 206), "map"),
    (range(206, 207), "cogrouped map"),
    (range(207, 208), "map"),
    (range(208, 209), "state"),
    (range(209, 210), "grouped map"),
    (range(210, 211), "cogrouped map"),
    (range(211, 217), "state"),
    (range(250, 260), "arrow"),
)
_PANDAS_PROCESSORS = (211, 212)


def functions_in(node: Node) -> Iterator[PythonFunction]:
    """The Python functions in the expressions of a node."""
    for term in (each for terms in node.terms.values() for top in terms for each in top.walk()):
        if term.kind.startswith("Python"):
            deterministic = term.details.get("udfDeterministic", "True") == "True"
            yield PythonFunction(term.name, form_of(term), deterministic)


def form_of(function: Term) -> str:
    """How a Python function gets its rows: `row`, `pandas`, `arrow`, `map`, `state` …"""
    number = _number(function)
    return next((form for numbers, form in _EVALUATIONS if number in numbers), "row")


def is_pandas_processor(function: Term) -> bool:
    """Whether a StatefulProcessor gets pandas DataFrames instead of rows."""
    return _number(function) in _PANDAS_PROCESSORS


def _number(function: Term) -> int:
    return int(function.details.get("evalType", -1))
