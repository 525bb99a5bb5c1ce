# ruff: noqa: N802, N803 (the names of methods and parameters are those of the class that it replaces)
"""The state variables of a StatefulProcessor, found by running its `init()` on a recording handle."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.plan.operators import Variable
from headwater.spark.plans import processor_of

UNKNOWN = Variable("", "unknown")
"""Represents all variables of a processor that could not be run."""


def state_variables(spark: SparkSession, operator: Any) -> tuple[Variable, ...]:
    """The variables that the processor of a `transformWithState` requests; `UNKNOWN` if it cannot be run."""
    handle = _Notes()
    try:
        processor_of(spark, operator).init(handle)
    except Exception:  # noqa: BLE001 (the user's own code: Spark runs it again at the start, and reports it)
        return (UNKNOWN,)
    return tuple(handle.variables)


class _Notes:
    """Replaces Spark's handle, and returns empty variables."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        return self._note(stateName, "value", _text(schema), ttlDurationMs)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:
        return self._note(stateName, "list", _text(schema), ttlDurationMs)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Any,
        valueSchema: Any,
        ttlDurationMs: int | None = None,
    ) -> Any:
        held = f"{_text(userKeySchema)} → {_text(valueSchema)}"
        return self._note(stateName, "map", held, ttlDurationMs)

    def __getattr__(self, name: str) -> Any:
        """Timers and other parts of a handle: none of them is a variable."""
        return lambda *given, **named: None

    def _note(self, name: str, form: str, schema: str, ttl: int | None) -> Any:
        self.variables.append(Variable(name, form, schema, int(ttl or 0)))
        return _Empty()


class _Empty:
    """A variable without a value."""

    def exists(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: None


def _text(schema: Any) -> str:
    return schema.simpleString() if isinstance(schema, StructType) else str(schema)
