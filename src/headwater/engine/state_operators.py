"""The processors of `transformWithState` in a plan."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

from headwater.engine.inputs import analysed, kind_of, nodes_of
from headwater.engine.project_archive import driver_path

_PROCESSOR = "TransformWithStateInPySpark"


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
