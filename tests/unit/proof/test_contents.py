"""Rows of any driver are compared as multisets."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from headwater.proof.contents import Difference, as_rows


def test_equal_multisets_do_not_differ() -> None:
    rows = as_rows([(1, "a"), (1, "a"), (2, None)])
    assert rows == Counter({(1, "a"): 2, (2, None): 1})
    assert Difference.of(rows, as_rows([(2, None), (1, "a"), (1, "a")])) is None


def test_a_difference_counts_duplicates_and_shows_a_few_rows() -> None:
    expected = as_rows([(n,) for n in range(9)])
    found = Difference.of(expected, as_rows([(8,), (8,)]))
    assert found is not None
    assert (found.missing, found.extra) == (8, 1)
    assert found.missing_rows == ("(0,)", "(1,)", "(2,)", "(3,)", "(4,)")
    assert str(found) == "8 rows missing: (0,), (1,), (2,), (3,), (4,) …; 1 row extra: (8,)"


def test_a_partial_result_can_lack_rows_but_not_have_more() -> None:
    expected = as_rows([(1,), (2,)])
    assert Difference.of(expected, as_rows([(1,)]), partial=True) is None
    found = Difference.of(expected, as_rows([(1,), (1,)]), partial=True)
    assert found is not None
    assert (found.missing, found.extra) == (0, 1)


def test_values_of_drivers_are_comparable() -> None:
    berlin = datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    utc = datetime(2026, 1, 1, 12, tzinfo=UTC)
    left = as_rows([({"b": [1], "a": None}, float("nan"), berlin, memoryview(b"x"), Decimal("1.0"))])
    right = as_rows([({"a": None, "b": [1]}, float("nan"), utc, b"x", Decimal("1.0"))])
    assert left == right
