"""Rows as people write them, and as Spark gives them through Arrow, have one form."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from headwater.spark.frames import arrow_schema
from headwater.testing.values import BadRow, Cell, LocalDay, canonical, plain, read_row, read_time

DAY = date(2026, 1, 1)
IN_UTC = LocalDay(DAY, ZoneInfo("UTC"))
BERLIN = LocalDay(date(2026, 7, 1), ZoneInfo("Europe/Berlin"))
WORDS = StructType().add("at", TimestampType()).add("word", StringType()).add("n", LongType(), False)


def read(value: Any, type: DataType, reading: LocalDay = IN_UTC) -> Any:
    return read_row({"c": value}, StructType().add("c", type), reading)["c"]


def refused(values: Any, schema: StructType) -> BadRow:
    with pytest.raises(BadRow) as caught:
        read_row(values, schema, IN_UTC)
    assert caught.value.says
    assert not caught.value.says.endswith(".")
    return caught.value


def refused_value(value: Any, type: DataType) -> str:
    bad = refused({"c": value}, StructType().add("c", type))
    assert bad.column == "c"
    return bad.says


@pytest.mark.parametrize(
    ("value", "type", "wanted"),
    [
        (True, BooleanType(), True),
        (127, ByteType(), 127),
        (-32768, ShortType(), -32768),
        (2**31 - 1, IntegerType(), 2**31 - 1),
        (-(2**63), LongType(), -(2**63)),
        (0.1, FloatType(), 0.10000000149011612),
        (1, DoubleType(), 1.0),
        ("Infinity", DoubleType(), float("inf")),
        ("-Infinity", FloatType(), float("-inf")),
        (3, DecimalType(5, 2), Decimal("3.00")),
        (0.1, DecimalType(38, 37), Decimal("0.1")),
        ("999.99", DecimalType(5, 2), Decimal("999.99")),
        (Decimal("1.5000"), DecimalType(5, 2), Decimal("1.50")),
        ("owl", StringType(), "owl"),
        ("12", StringType(), "12"),
        ("owl", VarcharType(3), "owl"),
        ("o", CharType(3), "o"),
        (b"\xff", BinaryType(), b"\xff"),
        ("ü", BinaryType(), b"\xc3\xbc"),
        ("2026-01-02", DateType(), date(2026, 1, 2)),
        (date(2026, 1, 2), DateType(), date(2026, 1, 2)),
        ("12:07", TimestampType(), datetime(2026, 1, 1, 12, 7, tzinfo=UTC)),
        ("12:07", TimestampNTZType(), datetime(2026, 1, 1, 12, 7)),
        (datetime(2026, 1, 1, 9), TimestampNTZType(), datetime(2026, 1, 1, 9)),
        ("1 hour 30 minutes", DayTimeIntervalType(), timedelta(minutes=90)),
        ("-90s", DayTimeIntervalType(), timedelta(seconds=-90)),
        (timedelta(microseconds=1), DayTimeIntervalType(), timedelta(microseconds=1)),
        ([1, None], ArrayType(IntegerType()), [1, None]),
        ((1, 2), ArrayType(IntegerType()), [1, 2]),
        ({"a": "12:00"}, MapType(StringType(), TimestampNTZType()), {"a": datetime(2026, 1, 1, 12)}),
        ({"1": "a", 2: "b"}, MapType(IntegerType(), StringType()), {1: "a", 2: "b"}),
        ({"at": "0:05", "N": 1}, WORDS, {"at": datetime(2026, 1, 1, 0, 5, tzinfo=UTC), "word": None, "n": 1}),
        ([None, "owl", 2], WORDS, {"at": None, "word": "owl", "n": 2}),
        (None, NullType(), None),
        (None, VariantType(), None),
    ],
)
def test_values_are_read_for_the_type_of_their_column(value: Any, type: DataType, wanted: Any) -> None:
    found = read(value, type)
    assert found == wanted
    assert type_of(found) == type_of(wanted)


def type_of(value: Any) -> str:
    return type(value).__name__


def test_nan_is_read_from_its_word() -> None:
    found = read("NaN", DoubleType())
    assert found != found
    assert canonical(found, DoubleType()) == canonical(float("nan"), DoubleType())


@pytest.mark.parametrize(
    ("value", "type", "hint"),
    [
        ("true", BooleanType(), "without quotes"),
        (1, BooleanType(), "a boolean"),
        (128, ByteType(), "-128 to 127"),
        (2**63, LongType(), "bigint"),
        (True, IntegerType(), "an integer"),
        (1.0, IntegerType(), "an integer"),
        ("3", IntegerType(), "write 3 without quotes"),
        ("1.5", DoubleType(), "write 1.5 without quotes"),
        (True, DoubleType(), "a number"),
        (10**400, DoubleType(), "double"),
        (1e39, FloatType(), "float"),
        (1.555, DecimalType(5, 2), "decimal(5,2)"),
        (1000, DecimalType(5, 2), "3 digits before"),
        ("NaN", DecimalType(5, 2), "12.50"),
        ("many", DecimalType(5, 2), "12.50"),
        (True, DecimalType(5, 2), "12.50"),
        (12, StringType(), 'quote it, as in "12"'),
        (False, StringType(), 'quote it, as in "false"'),
        (["owl"], StringType(), "a string"),
        ("\ud800", StringType(), "U+D800"),
        (12, BinaryType(), "bytes"),
        ("2026-02-30", DateType(), "2026-01-01"),
        (datetime(2026, 1, 1), DateType(), "2026-01-01"),
        (1767225600, TimestampType(), "12:07"),
        ("25:00", TimestampType(), "12:07"),
        ("12:07:00.1234567", TimestampType(), "12:07"),
        ("12:07Z", TimestampNTZType(), "zone"),
        ("ten minutes", DayTimeIntervalType(), "10 minutes"),
        (timedelta(days=200_000_000), DayTimeIntervalType(), "too long"),
        ("1, 2", ArrayType(IntegerType()), "[1, 2]"),
        ([1], MapType(StringType(), IntegerType()), "mapping"),
        ({"1": "a", "01": "b"}, MapType(IntegerType(), StringType()), "duplicate key"),
        ({"a": 1}, MapType(StructType().add("x", LongType()), LongType()), "map<struct<x:bigint>,bigint>"),
        ("owl", WORDS, "a list of these values"),
        ({"a": 1}, VariantType(), "variant"),
        (1, YearMonthIntervalType(), "interval year to month"),
        (1, NullType(), "void"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_wanted(value: Any, type: DataType, hint: str) -> None:
    assert hint in refused_value(value, type)


@pytest.mark.parametrize(
    ("values", "column", "hint"),
    [
        ({"wrod": "owl", "n": 1}, "", '"word"'),
        ({"colour": "red", "n": 1}, "", "3 columns (at, word, n)"),
        ({"word": "owl", "WORD": "cat", "n": 1}, "", "twice"),
        (["12:00", "owl"], "", "2 values for 3 columns"),
        (["12:00", "owl", 1, 2], "", "4 values"),
        ("owl", "", "a list of these values"),
        ({"word": "owl"}, "n", "null"),
        (["12:00", "owl", None], "n", "null"),
        ({"word": 7, "n": 1}, "word", "quote it"),
    ],
)
def test_rows_that_do_not_fit_are_refused(values: Any, column: str, hint: str) -> None:
    bad = refused(values, WORDS)
    assert bad.column == column
    assert hint in bad.says


def test_the_path_leads_to_the_value_inside() -> None:
    shop = StructType().add("tags", ArrayType(StringType(), containsNull=False)).add("open", BooleanType())
    schema = StructType().add("shop", shop).add("sold", MapType(StringType(), IntegerType(), False))
    assert refused({"shop": {"tags": ["a", 1]}}, schema).column == "shop.tags[1]"
    assert refused({"shop": {"tags": [None]}}, schema).column == "shop.tags[0]"
    assert refused({"shop": {"tags": [], "opne": True}}, schema).column == "shop"
    assert refused({"sold": {"owl": None}}, schema).column == "sold[owl]"


def test_columns_that_differ_only_by_case_are_told_apart() -> None:
    schema = StructType().add("word", StringType()).add("Word", StringType())
    assert read_row({"Word": "x", "word": "y"}, schema, IN_UTC) == {"word": "y", "Word": "x"}
    assert "word or Word" in refused({"WORD": "x"}, schema).says


def test_a_row_of_pyspark_is_read_by_its_names() -> None:
    row = read_row(Row(n=1, word="owl"), WORDS, IN_UTC)
    assert row == {"at": None, "word": "owl", "n": 1}
    assert list(row) == ["at", "word", "n"]


@pytest.mark.parametrize(
    ("cell", "type", "wanted"),
    [
        ("007", StringType(), "007"),
        (" 7 ", LongType(), 7),
        ("TRUE", BooleanType(), True),
        ("1e3", DoubleType(), 1000.0),
        ("nan", StringType(), "nan"),
        ("12.5", DecimalType(5, 2), Decimal("12.50")),
        ("12:07", TimestampType(), datetime(2026, 1, 1, 12, 7, tzinfo=UTC)),
    ],
)
def test_a_cell_is_what_its_column_is(cell: str, type: DataType, wanted: Any) -> None:
    found = read(Cell(cell), type)
    assert (found, type_of(found)) == (wanted, type_of(wanted))


@pytest.mark.parametrize("type", [LongType(), DoubleType(), BooleanType(), ArrayType(StringType())])
def test_a_cell_that_does_not_fit_is_refused(type: DataType) -> None:
    assert "without quotes" not in refused_value(Cell("x"), type)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("12:07", datetime(2026, 7, 1, 10, 7, tzinfo=UTC)),
        ("12:07:30.5", datetime(2026, 7, 1, 10, 7, 30, 500_000, tzinfo=UTC)),
        ("12:07Z", datetime(2026, 7, 1, 12, 7, tzinfo=UTC)),
        ("2026-01-01 12:07", datetime(2026, 1, 1, 11, 7, tzinfo=UTC)),
        ("2026-01-01T12:07:00Z", datetime(2026, 1, 1, 12, 7, tzinfo=UTC)),
        ("2026-01-01 12:07 +0530", datetime(2026, 1, 1, 6, 37, tzinfo=UTC)),
        ("2026-01-01", datetime(2025, 12, 31, 23, tzinfo=UTC)),
        (date(2026, 1, 1), datetime(2025, 12, 31, 23, tzinfo=UTC)),
        (time(12, 7), datetime(2026, 7, 1, 10, 7, tzinfo=UTC)),
        (datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 11, tzinfo=UTC)),
        (
            datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=-1))),
            datetime(2026, 1, 1, 13, tzinfo=UTC),
        ),
        # Clocks are put back at 3:00: of the two, Spark takes the earlier.
        ("2026-10-25 02:30", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
    ],
)
def test_times_without_day_or_zone_are_in_those_of_the_reading(value: Any, wanted: datetime) -> None:
    found = read_time(value, BERLIN)
    assert found == wanted
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value", ["2026-03-29 02:30", datetime(2026, 3, 29, 2, 30), "0001-01-01 00:00", 12, ""]
)
def test_times_that_there_are_not_are_refused(value: Any) -> None:
    with pytest.raises(BadRow):
        read_time(value, BERLIN)


def test_the_canonical_form_of_equal_values_is_equal() -> None:
    zoned = datetime(2026, 1, 1, 13, tzinfo=ZoneInfo("Europe/Berlin"))
    assert canonical(zoned, TimestampType()) == datetime(2026, 1, 1, 12, tzinfo=UTC)
    counts = MapType(StringType(), DoubleType())
    nan = float("nan")
    assert canonical({"a": 1.0, "b": nan}, counts) == canonical([("b", float("nan")), ("a", 1.0)], counts)
    assert canonical({"a": None}, counts) != canonical({}, counts)
    assert canonical([1, 2], ArrayType(LongType())) != canonical([2, 1], ArrayType(LongType()))
    assert hash(canonical({"at": zoned, "word": "owl"}, WORDS))
    assert hash(canonical({"value": b"\x01", "metadata": [b"\x02"]}, VariantType()))


def test_maps_with_keys_that_hold_others_stay_pairs() -> None:
    type = MapType(StructType().add("at", TimestampType()), LongType())
    at = datetime(2026, 1, 1, 13, tzinfo=ZoneInfo("Europe/Berlin"))
    assert plain([({"at": at}, 1)], type) == [({"at": at}, 1)]
    assert canonical([({"at": at}, 1)], type) == canonical([({"at": at.astimezone(UTC)}, 1)], type)


def scalar_types() -> st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]]:
    """Types of single values, each with what one may write for it."""
    sizes = {ByteType(): 8, ShortType(): 16, IntegerType(): 32, LongType(): 64}
    whole = [(type, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for type, bits in sizes.items()]
    times = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))
    others: list[tuple[DataType, st.SearchStrategy[Any]]] = [
        (BooleanType(), st.booleans()),
        (FloatType(), st.floats(width=32)),
        (DoubleType(), st.floats() | st.integers(-(2**53), 2**53)),
        (DecimalType(38, 10), st.decimals(-(10**20), 10**20, places=10) | st.integers(-(10**27), 10**27)),
        (StringType(), st.text(st.characters(exclude_categories=["Cs"]))),
        (BinaryType(), st.binary()),
        (DateType(), st.dates() | st.dates().map(str)),
        (TimestampType(), times | times.map(lambda moment: moment.isoformat(" "))),
        (TimestampNTZType(), times),
        (DayTimeIntervalType(), st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000))),
    ]
    return st.sampled_from([*whole, *others])


def nested_types(
    inner: st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]]:
    arrays = inner.map(lambda one: (ArrayType(one[0]), st.lists(st.none() | one[1], max_size=3)))
    maps = inner.map(
        lambda one: (
            MapType(LongType(), one[0]),
            st.dictionaries(st.integers(-9, 9), st.none() | one[1], max_size=3),
        )
    )
    return arrays | maps | st.lists(inner, min_size=1, max_size=3).map(struct_of)


def struct_of(columns: list[tuple[DataType, st.SearchStrategy[Any]]]) -> tuple[StructType, Any]:
    names = [f"c{index}" for index in range(len(columns))]
    type = StructType([StructField(name, column[0]) for name, column in zip(names, columns, strict=True)])
    optional: dict[Any, Any] = {
        name: st.none() | column[1] for name, column in zip(names, columns, strict=True)
    }
    return type, st.fixed_dictionaries({}, optional=optional)


TABLES = st.lists(st.recursive(scalar_types(), nested_types, max_leaves=4), min_size=1, max_size=4).map(
    struct_of
)


@settings(deadline=None)
@given(st.data())
def test_a_row_comes_back_from_arrow_as_it_was_read(data: st.DataObject) -> None:
    schema, written = data.draw(TABLES)
    rows = [read_row(row, schema, BERLIN) for row in data.draw(st.lists(written, max_size=3))]
    given_back = pa.Table.from_pylist(rows, arrow_schema(schema)).to_pylist()
    plainly = [plain(row, schema) for row in given_back]
    assert [canonical(row, schema) for row in plainly] == [canonical(row, schema) for row in rows]
    assert [canonical(row, schema) for row in given_back] == [canonical(row, schema) for row in rows]
    assert str(plainly) == str(rows)
    assert [list(row) for row in rows] == [schema.names] * len(rows)


def test_reading_rows_does_not_load_spark() -> None:
    imports = "import sys, headwater.testing.report, headwater.testing.file_keys"
    code = f"{imports}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
