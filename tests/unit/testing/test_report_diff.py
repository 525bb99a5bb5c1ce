"""Rows compared as multisets, and the lines that tell the difference."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from headwater.testing.report import compare, describe, show
from headwater.testing.results import RowDiff
from headwater.testing.values import LocalDay, read_row

DAY = date(2026, 1, 1)
IN_UTC = LocalDay(DAY, ZoneInfo("UTC"))
COUNTS = StructType().add("start", TimestampType()).add("word", StringType()).add("n", LongType())
LETTERS = StructType().add("a", StringType()).add("b", LongType())


def berlin(day: str) -> LocalDay:
    return LocalDay(date.fromisoformat(day), ZoneInfo("Europe/Berlin"))


def rows(*written: Any, schema: StructType = COUNTS) -> list[dict[str, Any]]:
    return [read_row(row, schema, IN_UTC) for row in written]


def lines(
    expected: list[dict[str, Any]], got: list[dict[str, Any]], schema: StructType = COUNTS
) -> list[str]:
    diff = compare(expected, got, schema)
    return describe(diff, IN_UTC) if diff else []


def test_equal_multisets_have_no_difference() -> None:
    one = rows(["12:00", "owl", 1], ["12:00", "owl", 1], ["12:05", None, 2])
    assert compare(one, list(reversed(one)), COUNTS) is None
    assert compare([], [], COUNTS) is None


def test_every_repetition_counts() -> None:
    owl = rows(["12:00", "owl", 1])
    assert compare(owl, owl * 3, COUNTS) == RowDiff(
        ("start", "word", "n"), missing=(), unexpected=(*owl, *owl), changed=(), same=1
    )
    assert lines(owl, owl * 3) == [
        "  1 row as expected, 2 unexpected",
        "  + unexpected  {start: 12:00, word: owl, n: 1}   (2 times)",
    ]


def test_a_difference_of_every_kind() -> None:
    expected = rows(["12:00", "ant", 1], ["12:00", "bee", 1], ["12:10", "cat", 4], ["12:05", "owl", 2])
    got = rows(["12:05", "owl", 3], ["12:00", "bee", 1], ["12:15", "dog", 9], ["12:00", "ant", 1])
    assert lines(expected, got) == [
        "  2 rows as expected, 1 missing, 1 unexpected, 1 changed",
        "  - missing     {start: 12:10, word: cat, n: 4}",
        "  + unexpected  {start: 12:15, word: dog, n: 9}",
        "  ~ changed     {start: 12:05, word: owl, n: 2}   n: expected 2, got 3",
    ]


def test_no_row_as_expected() -> None:
    assert lines(rows(["12:00", "owl", 1]), []) == [
        "  no rows as expected, 1 missing",
        "  - missing     {start: 12:00, word: owl, n: 1}",
    ]


def test_the_closest_rows_are_paired_first() -> None:
    expected = rows(["12:00", "owl", 1], ["12:00", "cat", 2])
    got = rows(["12:00", "cat", 7], ["12:05", "owl", 8])
    diff = compare(expected, got, COUNTS)
    assert diff is not None
    assert diff.changed == ((expected[0], got[1]), (expected[1], got[0]))
    assert (diff.missing, diff.unexpected) == ((), ())


def test_rows_that_agree_only_in_nulls_are_not_paired() -> None:
    diff = compare(rows(["12:00", None, 1]), rows(["12:05", None, 2]), COUNTS)
    assert diff is not None
    assert diff.changed == ()


def test_a_null_is_shown_as_such_in_a_changed_row() -> None:
    (line,) = lines(rows(["12:00", "owl", None]), rows(["12:05", "owl", 0]))[1:]
    row, changes = line.removeprefix("  ~ changed     ").split("   ")
    assert row == "{start: 12:00, word: owl, n: null}"
    assert changes == "start: expected 12:00, got 12:05; n: expected null, got 0"


def test_nan_equals_nan_inside_too() -> None:
    nested = StructType().add("x", ArrayType(DoubleType())).add("m", MapType(StringType(), DoubleType()))
    one = [{"x": [float("nan")], "m": {"a": float("nan")}}]
    other = [{"x": [float("nan")], "m": {"a": float("nan")}}]
    assert compare(one, other, nested) is None
    other[0]["m"] = {"a": 1.0}
    assert lines(one, other, nested)[1:] == [
        "  ~ changed     {x: [NaN], m: {a: NaN}}   m: expected {a: NaN}, got {a: 1.0}"
    ]


def test_big_differences_are_not_paired_and_cut() -> None:
    expected = rows(*(["12:00", f"w{n:03}", n] for n in range(201)))
    got = rows(*(["12:00", f"w{n:03}", n + 1] for n in range(201)))
    told = lines(expected, got)
    assert told[0] == "  no rows as expected, 201 missing, 201 unexpected"
    assert told[21] == "  … and 181 more missing"
    assert told[-1] == "  … and 181 more unexpected"
    assert len(told) == 43
    paired = compare(expected[:200], got[:200], COUNTS)
    assert paired is not None
    assert len(paired.changed) == 200


@given(
    st.lists(st.tuples(st.sampled_from("abc") | st.none(), st.integers(0, 2) | st.none()), max_size=6),
    st.lists(st.tuples(st.sampled_from("abc") | st.none(), st.integers(0, 2) | st.none()), max_size=6),
    st.randoms(use_true_random=False),
)
def test_a_difference_explains_every_row_once_in_any_order(
    written: list[Any], other: list[Any], chance: random.Random
) -> None:
    expected, got = rows(*written, schema=LETTERS), rows(*other, schema=LETTERS)
    diff = compare(expected, got, LETTERS)
    shuffled = list(got)
    chance.shuffle(shuffled)
    assert compare(expected, shuffled, LETTERS) == diff
    if diff is None:
        assert sorted(map(str, expected)) == sorted(map(str, got))
        return
    gone = [*diff.missing, *(pair[0] for pair in diff.changed)]
    new = [*diff.unexpected, *(pair[1] for pair in diff.changed)]
    assert diff.same + len(gone) == len(expected)
    assert sorted(map(str, [*got, *gone])) == sorted(map(str, [*expected, *new]))
    assert all(row not in new for row in gone)
    assert all(
        any(one[name] == two[name] is not None for name in ("a", "b")) and one != two
        for one, two in diff.changed
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (3.0, "3.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1E+3"), "1000"),
        ("owl", "owl"),
        ("owl and cat", "owl and cat"),
        ("", '""'),
        (" owl", '" owl"'),
        ("12", '"12"'),
        ("1e3", '"1e3"'),
        ("null", '"null"'),
        ("true", '"true"'),
        ("NaN", '"NaN"'),
        ("12:07", '"12:07"'),
        ("2026-01-01", '"2026-01-01"'),
        ("a, b", '"a, b"'),
        ("a: b", '"a: b"'),
        ("https://example.org/a", "https://example.org/a"),
        ("two\nlines", '"two\\nlines"'),
        ('say "ü"', '"say \\"ü\\""'),
        (b"owl", "owl"),
        (b"", '""'),
        (b"\xff\x00", "0xff00"),
        (date(2026, 1, 1), "2026-01-01"),
        (timedelta(minutes=90), "1 hour 30 minutes"),
        (timedelta(seconds=-5), "-5 seconds"),
        (timedelta(microseconds=1), "0:00:00.000001"),
        (datetime(2026, 1, 1, 12, 7, tzinfo=UTC), "12:07"),
        (datetime(2026, 1, 1, 12, 7), "12:07"),
        (datetime(2026, 1, 1, 12, 7, 30, tzinfo=UTC), "12:07:30"),
        (datetime(2026, 1, 1, 12, 7, 0, 500_000, tzinfo=UTC), "12:07:00.5"),
        (datetime(2026, 1, 2, 12, 7, tzinfo=UTC), "2026-01-02 12:07"),
        (datetime(970, 1, 2, 12, 7, tzinfo=UTC), "0970-01-02 12:07"),
        ([1, {"a": None}], "[1, {a: null}]"),
        ({1: "a", "b c": [b"x"]}, "{1: a, b c: [x]}"),
    ],
)
def test_values_are_shown_as_one_writes_them(value: Any, text: str) -> None:
    assert show(value, IN_UTC) == text


def test_times_are_shown_in_the_zone() -> None:
    noon = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
    assert show(noon, berlin("2026-01-02")) == "00:30"
    assert show(noon, berlin("2026-01-01")) == "2026-01-02 00:30"


def test_a_time_that_comes_twice_is_shown_with_its_offset() -> None:
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))
    assert show(first, berlin("2026-10-25")) == "02:30+0200"
    assert show(second, berlin("2026-10-25")) == "02:30+0100"
