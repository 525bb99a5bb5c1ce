"""What a batch counted of the expectations of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TABLE_COUNTS = "headwater.expect."
"""The name under which the rows of a table are judged, before the table's own."""
ALL_ROWS = "all rows"
"""The count of all; no expectation can have a name with a space."""


@dataclass(frozen=True)
class TableCounts:
    """The rows of one table that were judged, and how many of them failed each expectation."""

    rows: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: TableCounts) -> TableCounts:
        names = dict.fromkeys((*self.failed, *other.failed))
        failed = {name: self.failed.get(name, 0) + other.failed.get(name, 0) for name in names}
        return TableCounts(self.rows + other.rows, failed)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "failed": dict(self.failed)}


def counts_of(observed: Mapping[str, Any]) -> TableCounts:
    """Counts as Spark gives them."""
    failed = {name: int(rows or 0) for name, rows in observed.items() if name != ALL_ROWS}
    return TableCounts(int(observed[ALL_ROWS] or 0), failed)


def table_counts(progress: Mapping[str, Any]) -> dict[str, TableCounts]:
    """What a batch counted, by the name of the table."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(TABLE_COUNTS): counts_of(counts)
        for name, counts in observed.items()
        if name.startswith(TABLE_COUNTS)
    }
