"""Rows of a table that are replayed: what is read of their texts, and what becomes of the others."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import ROW_TYPE
from headwater.engine.rows import expected_rows, quarantined_violations, validated_rows, with_replayed_rows
from headwater.spec import TableSpec
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources: {orders: {connector: rate}}
    tables: {judged: {sql: SELECT * FROM orders EXPECT}}
    sinks: {out: {reads: judged, connector: console}}
"""
GOOD = [b'{"id":2,"channel":"web","cost":5}', b'{"channel":"","cost":0,"id":3} ', b'{"id":4,"channel":"{}"}']
UNREADABLE = [
    b"{broken",
    b"",
    b"null",
    b"7",
    b'[{"id":5,"channel":"web"}]',
    b'{"id":5,"cost":5}',
    b'{"id":5,"channel":null,"cost":5}',
    b'{"id":5,"channel":"web","cost":"much"}',
    b'{"id":5,"channel":"w\xffb"}',
    b'{"id":5,"channel":"web"}{"id":6,"channel":"web"}',
    b'{"id":5,"channel":"web"},{"id":6,"channel":"web"}',
]


def table(otherwise: str) -> TableSpec:
    """One that quarantines rows or does something else with them, or expects nothing."""
    expect = f", expect: {{known: {{condition: id > 0, on_violation: {otherwise}}}}}" if otherwise else ""
    (declared,) = spec_of(PIPELINE.replace(" EXPECT", expect)).tables
    return declared


def validated(spark: SparkSession, declared: TableSpec, texts: list[bytes]) -> DataFrame:
    """The rows of a table in which `channel` is never null, and those that are replayed."""
    row, values = f"CAST(struct({'null, ' * 8}value) AS {ROW_TYPE})", (f"(X'{text.hex()}')" for text in texts)
    again = spark.sql(f"SELECT {row} AS row FROM VALUES {', '.join(values)} AS fed(value)")
    rows = spark.sql("SELECT nullif(1, 0) AS id, 'app' AS channel, nullif(1, 0) AS cost")
    return validated_rows(with_replayed_rows(rows, again), declared)


def test_only_a_whole_row_goes_on_and_every_other_text_is_set_aside(spark: SparkSession) -> None:
    declared = table("quarantine")
    rows = validated(spark, declared, GOOD + UNREADABLE)
    assert not expected_rows(rows, declared, None).schema["channel"].nullable
    assert Counter(map(tuple, expected_rows(rows, declared, None).collect())) == Counter(
        [(1, "app", 1), (2, "web", 5), (3, "", 0), (4, "{}", None)]
    )
    quarantined = quarantined_violations(rows, declared).selectExpr("reason", "row.value").collect()
    assert Counter((reason, bytes(value)) for reason, value in quarantined) == Counter(
        ("malformed", text) for text in UNREADABLE
    )


@pytest.mark.parametrize("otherwise", ["", "warn", "drop", "fail"])
def test_without_a_quarantine_a_text_that_is_no_row_ends_the_query(
    spark: SparkSession, otherwise: str
) -> None:
    declared = table(otherwise)
    ends = expected_rows(validated(spark, declared, [*GOOD, b"{\tbroken"]), declared, None)
    with pytest.raises(PySparkException, match=re.escape("HW-REPLAYED-ROWS-INVALID\tjudged\t{ broken")):
        ends.collect()
