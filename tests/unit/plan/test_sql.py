"""Conditions read without Spark, and queries rewritten so that they group by whole windows."""

from __future__ import annotations

import pytest

from headwater.plan.sql import ColumnReference, columns_asked, fault_in, grouped_by_windows
from headwater.plan.sql_syntax import Fault


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("cost >= 0", None),
        ("status IN ('a', 'b') AND NOT closed", None),
        ("cost > 0 -- paid", None),
        # Spark takes these, and sqlglot does not: nothing is said of what only Spark knows.
        ("raw:order.id > 1", None),
        ("cost > 0 extra words", None),
        ("cost >=", Fault("an operator is missing an operand", 1, 7)),
        ("= 3", Fault("an operator is missing an operand", 1, 3)),
        ("(cost > 1", Fault("a `)` is missing", 1, 9)),
        ("name = 'x", Fault("a quote is not closed")),
        ("a > 1; b > 2", Fault("it contains several statements")),
    ],
)
def test_only_what_is_certainly_wrong_is_told(check: str, fault: Fault | None) -> None:
    assert fault_in(check) == fault


@pytest.mark.parametrize(
    ("check", "asked"),
    [
        ("cost >= 0", [ColumnReference(("cost",), 1, 1)]),
        (
            "1 < cost\n  AND address.city = 'x'",
            [ColumnReference(("cost",), 1, 5), ColumnReference(("address", "city"), 2, 7)],
        ),
        ("`odd name` > 1", [ColumnReference(("odd name",), 1, 1)]),
        ("at < current_timestamp", [ColumnReference(("at",), 1, 1)]),
        ("exists(items, x -> x.price > 0)", []),
        ("cost > (SELECT max(limit) FROM limits)", []),
        ("raw:order.id > 1", []),
    ],
)
def test_the_columns_of_a_condition(check: str, asked: list[ColumnReference]) -> None:
    assert sorted(columns_asked(check), key=lambda each: (each.line, each.column)) == asked


WRITTEN = {
    "SELECT window(at, '1 hour').start AS s, k FROM t GROUP BY window(at, '1 hour').start, k": (
        "SELECT window(at, '1 hour').start AS s, k FROM t GROUP BY window(at, '1 hour'), k"
    ),
    "SELECT w.start, w.end FROM t GROUP BY w.start, w.end": "SELECT w.start, w.end FROM t GROUP BY w",
    "SELECT session_window(at, '5 minutes').start AS s FROM t GROUP BY s": (
        "SELECT session_window(at, '5 minutes').start AS s FROM t GROUP BY session_window(at, '5 minutes')"
    ),
    "SELECT date_trunc('hour', at) AS h FROM t GROUP BY 1": (
        "SELECT window(at, '1 hour').start AS h FROM t GROUP BY window(at, '1 hour')"
    ),
    "SELECT date_trunc('hour', at) AS h FROM t GROUP BY 1 HAVING date_trunc('hour', at) > '2026' "
    "ORDER BY date_trunc('hour', at)": (
        "SELECT window(at, '1 hour').start AS h FROM t GROUP BY window(at, '1 hour') "
        "HAVING window.start > '2026' ORDER BY window.start"
    ),
    "SELECT to_date(at), k FROM t GROUP BY to_date(at), k": (
        "SELECT CAST(window(at, '1 day').start AS DATE) AS start, k FROM t GROUP BY window(at, '1 day'), k"
    ),
}


@pytest.mark.parametrize("sql", WRITTEN)
def test_parts_of_windows_and_cut_times_become_windows(sql: str) -> None:
    assert grouped_by_windows(sql, "UTC") == WRITTEN[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT t.start FROM t GROUP BY t.start",
        "SELECT date_trunc('month', at) FROM t GROUP BY 1",
        "SELECT count(*) FROM t",
        "SELECT date_trunc('day', at) AS d, date_trunc('hour', at) AS h FROM t GROUP BY 1, 2",
        "not SQL at all (",
    ],
)
def test_what_has_no_such_form_is_left_alone(sql: str) -> None:
    assert grouped_by_windows(sql, "UTC") is None


@pytest.mark.parametrize(
    ("timezone", "hour", "day"),
    [
        ("UTC", True, True),
        ("Europe/Berlin", True, False),
        ("Asia/Kolkata", False, False),
        ("Nowhere/At_All", False, False),
    ],
)
def test_hours_and_days_are_windows_where_they_begin_with_those_of_utc(
    timezone: str, hour: bool, day: bool
) -> None:
    by_hour = grouped_by_windows("SELECT date_trunc('hour', at) AS h FROM t GROUP BY 1", timezone)
    by_day = grouped_by_windows("SELECT to_date(at) AS d FROM t GROUP BY 1", timezone)
    assert (by_hour is not None, by_day is not None) == (hour, day)
