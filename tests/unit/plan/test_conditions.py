"""Conditions read without Spark."""

from __future__ import annotations

import pytest

from headwater.plan.sql import Asked, Fault, columns_asked, fault_in


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("cost >= 0", None),
        ("status IN ('a', 'b') AND NOT closed", None),
        ("cost > 0 -- paid", None),
        # Spark takes these, and sqlglot does not: nothing is said of what only Spark knows.
        ("raw:order.id > 1", None),
        ("cost > 0 extra words", None),
        ("cost >=", Fault("something is missing beside an operator", 1, 7)),
        ("= 3", Fault("something is missing beside an operator", 1, 3)),
        ("(cost > 1", Fault("a `)` is missing", 1, 9)),
        ("name = 'x", Fault("a quote in it is not closed")),
        ("a > 1; b > 2", Fault("it holds several statements")),
    ],
)
def test_only_what_is_certainly_wrong_is_told(check: str, fault: Fault | None) -> None:
    assert fault_in(check) == fault


@pytest.mark.parametrize(
    ("check", "asked"),
    [
        ("cost >= 0", [Asked(("cost",), 1, 1)]),
        ("1 < cost\n  AND address.city = 'x'", [Asked(("cost",), 1, 5), Asked(("address", "city"), 2, 7)]),
        ("`odd name` > 1", [Asked(("odd name",), 1, 1)]),
        ("at < current_timestamp", [Asked(("at",), 1, 1)]),
        ("exists(items, x -> x.price > 0)", []),
        ("cost > (SELECT max(limit) FROM limits)", []),
        ("raw:order.id > 1", []),
    ],
)
def test_the_columns_of_a_condition(check: str, asked: list[Asked]) -> None:
    assert sorted(columns_asked(check), key=lambda each: (each.line, each.column)) == asked
