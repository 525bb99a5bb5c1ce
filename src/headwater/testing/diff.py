"""Two multisets of rows compared, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.engine.scripted.values import NotANumber, canonical
from headwater.testing.results import RowDiff, Values
from headwater.testing.shown import describe, show

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["compare", "describe", "show"]

_MOST_PAIRS = 200 * 200

_Row = tuple[Hashable, Values]
"""A row in canonical form, and as it is."""


def compare(expected: Sequence[Values], got: Sequence[Values], schema: StructType) -> RowDiff | None:
    """What is different, or None; the order of neither side matters, every repetition does."""
    wanted = [(canonical(row, schema), row) for row in expected]
    found = [(canonical(row, schema), row) for row in got]
    missing, unexpected = list(_beyond(wanted, found)), list(_beyond(found, wanted))
    if not missing and not unexpected:
        return None
    # Spark promises no order of rows, and the same difference should always look the same.
    unexpected.sort(key=lambda row: _order(row[0]))
    pairs = _pairs(missing, unexpected)
    return RowDiff(
        columns=tuple(schema.names),
        missing=_without(missing, {first for first, _ in pairs}),
        unexpected=_without(unexpected, {second for _, second in pairs}),
        changed=tuple((missing[first][1], unexpected[second][1]) for first, second in pairs),
        same=len(wanted) - len(missing),
    )


def _beyond(rows: list[_Row], others: list[_Row]) -> Iterator[_Row]:
    """The rows that the others do not hold, or do not hold as often."""
    spare = Counter(key for key, _ in others)
    for key, row in rows:
        if spare[key] > 0:
            spare[key] -= 1
        else:
            yield key, row


def _without(rows: list[_Row], taken: set[int]) -> tuple[Values, ...]:
    return tuple(row for index, (_, row) in enumerate(rows) if index not in taken)


def _pairs(missing: list[_Row], unexpected: list[_Row]) -> list[tuple[int, int]]:
    """The rows that most likely stand for each other, by their places; the closest are paired first."""
    if len(missing) * len(unexpected) > _MOST_PAIRS:
        return []
    near = sorted(
        (-agreeing, first, second)
        for first, (wanted, _) in enumerate(missing)
        for second, (found, _) in enumerate(unexpected)
        if (agreeing := _agreeing(wanted, found))
    )
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for _, first, second in near:
        if first not in chosen and second not in taken:
            chosen[first] = second
            taken.add(second)
    return sorted(chosen.items())


def _agreeing(wanted: Any, found: Any) -> int:
    """How many columns hold the same; none do if only nulls are the same."""
    same = [pair[1] for pair, other in zip(wanted, found, strict=True) if pair == other]
    return len(same) if any(value is not None for value in same) else 0


def _order(value: Any) -> tuple[Any, ...]:
    """Sorts canonical values of one type: null first, NaN last."""
    if value is None:
        return (0,)
    if value is NotANumber.NAN:
        return (2,)
    if isinstance(value, tuple):
        return (1, tuple(_order(item) for item in value))
    if isinstance(value, frozenset):
        return (1, tuple(sorted(_order(item) for item in value)))
    return (1, value)
