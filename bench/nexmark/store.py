"""Stores the rows of each batch, to compare them; the pipelines of the check import it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame


def store(folder: Path) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch to a directory with its number as name."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.parquet(str(folder / str(number)))

    return write
