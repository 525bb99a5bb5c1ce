"""What a batch counts besides its rows in and out: bad rows, violations and late rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Bad rows by source, late rows by operator.

SOURCE_COUNTS = "headwater.rows."
"""The prefix of the metric that counts a source's rows."""
READ, BAD = "read", "bad"


@dataclass(frozen=True)
class SourceCounts:
    """The rows of one source; every row is good or bad."""

    read: int = 0
    bad: int = 0

    @property
    def good(self) -> int:
        return self.read - self.bad

    def __add__(self, other: SourceCounts) -> SourceCounts:
        return SourceCounts(self.read + other.read, self.bad + other.bad)

    def to_json(self) -> dict[str, int]:
        return {"read": self.read, "good": self.good, "bad": self.bad}


def source_counts(progress: Mapping[str, Any]) -> dict[str, SourceCounts]:
    """The rows of each source that detects bad rows, by its name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(SOURCE_COUNTS): SourceCounts(int(counts[READ]), int(counts[BAD]))
        for name, counts in observed.items()
        if name.startswith(SOURCE_COUNTS)
    }


_WORDS = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within watermark",
    "symmetricHashJoin": "join",
    "flatMapGroupsWithState": "state",
    "applyInPandasWithState": "state",
    "transformWithStateExec": "state",
    "transformWithStateInPandasExec": "state",
    "transformWithStateInPySparkExec": "state",
}
"""Spark's names of stateful operators, in the terms of the docs."""


def operator_labels(operators: Iterable[str]) -> list[str]:
    """Stateful operators, starting at the source, in the terms of the docs; several of one kind are numbered."""
    names = [_WORDS.get(name, name) for name in operators]
    numbered = (f"{name} {names[:number].count(name) + 1}" for number, name in enumerate(names))
    return [each if names.count(name) > 1 else name for name, each in zip(names, numbered, strict=True)]


def late_rows(progress: Mapping[str, Any]) -> dict[str, int]:
    """The rows that each stateful operator dropped because they arrived behind the watermark.

    An aggregation drops rows after it has combined the rows of one group, so it counts fewer rows than arrived.
    """
    operators = list(reversed(progress.get("stateOperators") or ()))
    labels = operator_labels(str(each.get("operatorName")) for each in operators)
    dropped = (int(each.get("numRowsDroppedByWatermark") or 0) for each in operators)
    return dict(zip(labels, dropped, strict=True))


# Violations of the expectations of its tables.

TABLE_COUNTS = "headwater.expect."
"""The prefix of the metric that counts a table's rows."""
ALL_ROWS = "all rows"
"""The count of all rows; an expectation cannot have a name with a space."""


@dataclass(frozen=True)
class TableCounts:
    """The rows of one table that were checked, and how many of them failed each expectation."""

    rows: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: TableCounts) -> TableCounts:
        names = dict.fromkeys((*self.failed, *other.failed))
        failed = {name: self.failed.get(name, 0) + other.failed.get(name, 0) for name in names}
        return TableCounts(self.rows + other.rows, failed)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "failed": dict(self.failed)}


def counts_of(observed: Mapping[str, Any]) -> TableCounts:
    """Counts as Spark returns them."""
    failed = {name: int(rows or 0) for name, rows in observed.items() if name != ALL_ROWS}
    return TableCounts(int(observed[ALL_ROWS] or 0), failed)


def table_counts(progress: Mapping[str, Any]) -> dict[str, TableCounts]:
    """The counts of a batch, by table name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(TABLE_COUNTS): counts_of(counts)
        for name, counts in observed.items()
        if name.startswith(TABLE_COUNTS)
    }


# What the queries of sink groups count outside of Spark's report.

_KEPT_BATCHES = 200


class BranchCounts:
    """What the branches of groups have counted, by query and batch, until Spark reports the batch."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], Mapping[str, Mapping[str, int]]] = {}

    def put(self, query_id: str, batch: int, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Store the counts of a batch, under the names of Spark's metrics."""
        self._counts[query_id, batch] = counts
        self._counts.pop((query_id, batch - _KEPT_BATCHES), None)

    def added_to(self, progress: Mapping[str, Any]) -> Mapping[str, Any]:
        """Spark's report of a batch with these counts."""
        counts = self._counts.get((progress["id"], progress["batchId"]))
        if not counts:
            return progress
        return {**progress, "observedMetrics": {**(progress.get("observedMetrics") or {}), **counts}}
