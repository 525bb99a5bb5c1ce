"""A row that fails its query, as a problem of the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.translate import failure_problem
from headwater.errors import Problem
from headwater.values import Position, secret
from tests.unit.specs import spec_of

SPEC = spec_of("""
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      priced:
        sql: SELECT * FROM orders
        expect:
          paid: {check: value > 0, else: fail}
    sinks: {out: {reads: priced, connector: console}}
""")


def told(row: str, about: str = "HW-EXPECTATION-FAILED\tpriced\tpaid") -> Problem:
    text = f"[USER_RAISED_EXCEPTION] {about}\t{row} SQLSTATE: P0001\n\tat org…"
    return failure_problem(RuntimeError(text), SPEC.sinks[0], SPEC.tables, SPEC.root, Path("spark.log"))


def test_the_row_is_named_at_the_line_of_the_condition() -> None:
    problem = told('{"value":0,"text":"a\\tb"}')
    assert (problem.code, problem.place) == ("HW-EXPECTATION-FAILED", Position("pipeline.yml", 7, 21))
    assert problem.params == {
        "table": "priced",
        "expectation": "paid",
        "check": "value > 0",
        "row": '{"value":0,"text":"a\\tb"}',
    }


def test_a_text_that_was_fed_again_is_named_at_its_table() -> None:
    problem = told('{"value":', "HW-FED-AGAIN-UNREADABLE\tpriced")
    assert (problem.code, problem.place) == ("HW-FED-AGAIN-UNREADABLE", Position("pipeline.yml", 4, 3))
    assert problem.params == {"table": "priced", "row": '{"value":'}


def test_a_long_row_is_cut_after_its_secrets_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROW_CANARY", "canary-7f3a")
    secret("ROW_CANARY").reveal()
    problem = told('{"value":"' + "x" * 283 + 'canary-7f3a and much more"}' + "y" * 400)
    row = str(problem.params["row"])
    assert (len(row), row[-1]) == (301, "…")
    assert "cana" not in row
    assert "canary" not in problem.detail
