"""Counting the rows of a DataFrame while a batch run writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import count, lit

_TELL_SECONDS = 5.0


def counted(rows: DataFrame) -> tuple[DataFrame, Callable[[], int | None]]:
    """The same rows, and what tells after the write how many they were; None if Spark does not say."""
    observation = Observation()
    return rows.observe(observation, count(lit(1)).alias("rows")), lambda: _told(observation)


def observed_counts(observation: Observation) -> dict[str, int] | None:
    """What was counted under each name; None if Spark does not say."""
    row = _row(observation)
    return {name: int(row.getAs(name)) for name in row.schema().fieldNames()} if row is not None else None


def _told(observation: Observation) -> int | None:
    row = _row(observation)
    return int(row.getLong(0)) if row is not None else None


def _row(observation: Observation) -> Any:
    # Spark tells it a moment after the write, on another thread. `observation.get` would wait for ever if the
    # sink had not read the rows at all; this one waits a tenth of a second by itself.
    deadline = time.monotonic() + _TELL_SECONDS
    while time.monotonic() < deadline:
        row = observation._jo.getRowOrEmpty() if observation._jo else None
        if row is not None and row.isDefined():
            return row.get()
    return None
