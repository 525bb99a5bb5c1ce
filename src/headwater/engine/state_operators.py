"""Arbitrary state in a plan: `applyInPandasWithState` and `transformWithState` in its two forms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from headwater.engine.inputs import analysed, kind_of, nodes_of
from headwater.engine.project_archive import driver_path
from headwater.errors import Problem
from headwater.errors.catalogue.stateful import STATE_AGGREGATED, STATE_UPDATES
from headwater.spec import Mode, SinkSpec

_PROCESSOR = "TransformWithStateInPySpark"
_CALLS = {"FlatMapGroupsInPandasWithState": "applyInPandasWithState", _PROCESSOR: "transformWithState"}


def let_processors_find_their_modules(frame: DataFrame) -> None:
    """Add the shipped modules to the search path of every processor in the plan.

    Spark asks a processor for its state variables in a Python process on the driver, to which it hands none
    of the files that executors get. Its search path comes from the environment the function was made with.
    """
    for node in nodes_of(analysed(frame)):
        if kind_of(node) == _PROCESSOR:
            variables = node.functionExpr().func().envVars()
            known = str(variables.get("PYTHONPATH") or "").split(os.pathsep)
            path = dict.fromkeys(each for each in (*known, *driver_path()) if each)
            variables.put("PYTHONPATH", os.pathsep.join(path))


def state_mode_problem(sink: SinkSpec, frame: DataFrame) -> Problem | None:
    """Rows that state gives as changes, where they would be taken for rows that stay as they are.

    Spark refuses that for `applyInPandasWithState` only.
    """
    for operator, aggregated in _operators(analysed(frame)):
        if str(operator.outputMode()) != "Update":
            continue
        call = _CALLS[kind_of(operator)]
        if aggregated:
            return STATE_AGGREGATED.at(sink.position, sink=sink.name, call=call)
        if sink.mode is Mode.APPEND:
            return STATE_UPDATES.at(sink.position, sink=sink.name, call=call)
    return None


def _operators(plan: Any, *, aggregated: bool = False) -> Iterator[tuple[Any, bool]]:
    """The operators with arbitrary state, and whether an aggregation takes their rows."""
    if kind_of(plan) in _CALLS:
        yield plan, aggregated
    children = plan.children()
    for number in range(children.size()):
        yield from _operators(children.apply(number), aggregated=aggregated or kind_of(plan) == "Aggregate")
