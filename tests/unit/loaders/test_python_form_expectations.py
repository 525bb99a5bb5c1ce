"""Expectations in both forms of a declaration."""

from __future__ import annotations

from pathlib import Path

import headwater as hw
from headwater.loaders.python_form import Declarations
from headwater.spec import Expectation
from headwater.values import OnViolation, Position
from tests.unit.specs import spec_of

YAML = """
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      priced:
        sql: SELECT * FROM orders
        expect:
          positive: value >= 0
          paid: {condition: value < 9, on_violation: drop}
          known: {condition: value IS NOT NULL}
          long:
            condition: |
              value > 0
              AND value < 5
            on_violation: quarantine
    sinks: {out: {reads: priced, connector: console}}
"""


def declared() -> Declarations:
    p = Declarations("shop")
    p.source("orders", hw.rate())
    p.table(
        "priced",
        sql="SELECT * FROM orders",
        expect={
            "positive": "value >= 0",
            "paid": hw.expect("value < 9", on_violation="drop"),
            "known": {"condition": "value IS NOT NULL", "on_violation": "warn"},
            "long": hw.expect("value > 0\nAND value < 5", on_violation="quarantine"),
        },
    )
    p.sink("out", hw.console(), reads="priced")
    return p


def expectation(name: str, condition: str, on_violation: OnViolation) -> Expectation:
    return Expectation.model_validate({"name": name, "condition": condition, "on_violation": on_violation})


def test_both_forms_say_the_same() -> None:
    (table,) = spec_of(YAML).tables
    assert table.expect == (
        Expectation(name="positive", condition="value >= 0"),
        expectation("paid", "value < 9", OnViolation.DROP),
        expectation("known", "value IS NOT NULL", OnViolation.WARN),
        expectation("long", "value > 0\nAND value < 5", OnViolation.QUARANTINE),
    )
    assert declared().spec().tables[0].expect == table.expect


def test_each_condition_knows_its_place() -> None:
    positive, paid, _, long = spec_of(YAML).tables[0].expect
    assert positive.position == Position("pipeline.yml", 7, 7)
    assert positive.at((1, 7)) == Position("pipeline.yml", 7, 23)
    assert paid.at() == Position("pipeline.yml", 8, 25)
    assert long.at((2, 5)) == Position("pipeline.yml", 13, 15)


def test_in_python_they_stand_where_the_table_does() -> None:
    (table,) = declared().spec().tables
    assert table.position is not None
    assert {each.at((2, 1)) for each in table.expect} == {table.position}
    assert Path(table.position.file) == Path(__file__)


def test_a_decorated_function_takes_them() -> None:
    p = Declarations("shop")
    p.source("orders", hw.rate())

    @p.table(expect={"positive": "value >= 0"})
    def priced(orders: object) -> object:
        return orders

    p.sink("out", hw.console(), reads="priced")
    assert p.spec().tables[0].expect == (Expectation(name="positive", condition="value >= 0"),)
