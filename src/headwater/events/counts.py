"""What a batch counted besides its rows in and out: bad rows by source, late rows by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SOURCE_COUNTS = "headwater.rows."
"""The name under which a source's rows are counted, before the source's own."""
READ, BAD = "read", "bad"


@dataclass(frozen=True)
class SourceCounts:
    """The rows of one source: all that were read are good or bad."""

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
    """The rows of each source that tells good ones from bad ones, by its name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(SOURCE_COUNTS): SourceCounts(int(counts[READ]), int(counts[BAD]))
        for name, counts in observed.items()
        if name.startswith(SOURCE_COUNTS)
    }


_WORDS = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "distinct",
    "dedupeWithinWatermark": "distinct within watermark",
    "symmetricHashJoin": "join",
    "flatMapGroupsWithState": "state",
    "applyInPandasWithState": "state",
    "transformWithStateExec": "state",
    "transformWithStateInPandasExec": "state",
    "transformWithStateInPySparkExec": "state",
}
"""Spark's names for stateful operators, in the words of the docs."""


def late_rows(progress: Mapping[str, Any]) -> dict[str, int]:
    """The rows that each stateful operator dropped because they came behind the watermark.

    Several operators of one kind are numbered from the source on. An aggregation drops
    after it has put rows of one group together, so it counts fewer than came.
    """
    operators = list(reversed(progress.get("stateOperators") or ()))
    names = [_WORDS.get(str(name := each.get("operatorName")), str(name)) for each in operators]
    found: dict[str, int] = {}
    for number, (name, operator) in enumerate(zip(names, operators, strict=True)):
        place = names[: number + 1].count(name)
        label = f"{name} {place}" if names.count(name) > 1 else name
        found[label] = int(operator.get("numRowsDroppedByWatermark") or 0)
    return found
