"""Spark's exceptions as problems of the catalogue, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from headwater.connectors import all_connectors
from headwater.engine.translate import failure_problem, function_problem, sql_problem
from headwater.errors import Problem
from headwater.values import Position, secret
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources: {{orders: {{connector: rate}}}}
    tables: {{total: SELECT sum(amont) FROM orders}}
    sinks:
      out: {{reads: total, mode: {mode}, {connector}}}
"""
CONSOLE = "connector: console"


class Unresolved(AnalysisException):
    """What Spark raises for a column that is not there."""

    def __init__(self, column: str, proposal: str) -> None:
        super().__init__("a column can't be resolved")
        self.parameters = {"objectName": column, "proposal": proposal}

    def getCondition(self) -> str:
        return "UNRESOLVED_COLUMN.WITH_SUGGESTION"

    def getMessageParameters(self) -> dict[str, str]:
        return self.parameters

    def getQueryContext(self) -> list[object]:  # type: ignore[override]
        return []


class StreamInside(Unresolved):
    """What Spark raises for a stream inside an expression."""

    def getCondition(self) -> str:
        return "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"


@pytest.mark.parametrize(
    ("where", "semi", "null"),
    [
        ("id IN (SELECT id FROM paid)", True, False),
        ("EXISTS (SELECT 1 FROM paid)", True, False),
        ("id NOT IN (SELECT id FROM paid)", False, True),
        ("NOT id IN (SELECT id FROM paid)", False, True),
        ("not exists (SELECT 1 FROM paid)", False, True),
        ("id IS NOT NULL AND EXISTS (SELECT 1 FROM paid)", True, False),
    ],
)
def test_a_subquery_over_a_stream_is_a_join(where: str, semi: bool, null: bool) -> None:
    text = PIPELINE.replace("SELECT sum(amont) FROM orders", f'"SELECT * FROM orders WHERE {where}"')
    (table,) = spec_of(text.format(mode="append", connector=CONSOLE)).tables
    problem = sql_problem(StreamInside("", ""), table)
    hint = str(problem.params["hint"])
    assert problem.code == "HW-SUBQUERY-UNSUPPORTED"
    assert ("LEFT SEMI JOIN" in hint, "IS NULL" in hint) == (semi, null)


def test_a_subquery_of_python_is_told_every_way() -> None:
    (table,) = spec_of(PIPELINE.format(mode="append", connector=CONSOLE)).tables
    problem = function_problem(StreamInside("", ""), table, Path("/project"))
    hint = str(problem.params["hint"])
    assert "LEFT SEMI JOIN" in hint
    assert "IS NULL" in hint


@pytest.mark.parametrize(
    ("column", "proposal", "hint"),
    [
        ("`amont`", "`amount`, `id`", "Did you mean `amount`?"),
        ("`o`.`amont`", "`o`.`id`, `o`.`amount`", "Did you mean `o`.`amount`?"),
        ("`x`", "`amount`, `id`", "Use one of `amount`, `id`."),
        ("`x`", "", "Check the columns of the table that it reads."),
    ],
)
def test_an_unknown_column(column: str, proposal: str, hint: str) -> None:
    (table,) = spec_of(PIPELINE.format(mode="append", connector=CONSOLE)).tables
    problem = sql_problem(Unresolved(column, proposal), table)
    assert (problem.code, problem.place) == ("HW-COLUMN-NOT-FOUND", Position("pipeline.yml", 3, 10))
    assert problem.params == {"where": "Table `total`", "column": column, "hint": hint}


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("HW-PARTITION-VALUE-INVALID orders file:///in/day=x/1.json", "HW-PARTITION-VALUE-INVALID"),
        ("HW-FILES-OWN orders file:///in/1.json", "HW-QUERY-FAILED"),
    ],
)
def test_only_what_the_files_source_raises_is_a_wrong_file(raised: str, code: str) -> None:
    spec = spec_of(PIPELINE.format(mode="append", connector=CONSOLE))
    error = RuntimeError(f"[USER_RAISED_EXCEPTION] {raised} SQLSTATE: P0001")
    assert failure_problem(error, spec.sinks[0], (), Path("/p"), Path("/p/log")).code == code


def test_a_connector_that_fails_to_explain_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(failure: object, sink: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(all_connectors()["kafka"].source, "explain", explain)
    spec = spec_of("name: p\nsources: {r: {connector: rate}}\nsinks: {o: {reads: r, connector: noop}}\n")
    error = RuntimeError("something else")
    found = failure_problem(error, spec.sinks[0], (), Path("/p"), Path("/p/log"))
    assert (found.code, "something else" in found.message) == ("HW-QUERY-FAILED", True)
    assert "explain failed:" in found.detail
    assert "RuntimeError: broken" in found.detail


SPEC = spec_of("""
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      priced:
        sql: SELECT * FROM orders
        expect:
          paid: {condition: value > 0, on_violation: fail}
    sinks: {out: {reads: priced, connector: console}}
""")


def told(row: str, about: str = "HW-EXPECTATION-FAILED\tpriced\tpaid") -> Problem:
    text = f"[USER_RAISED_EXCEPTION] {about}\t{row} SQLSTATE: P0001\n\tat org…"
    return failure_problem(RuntimeError(text), SPEC.sinks[0], SPEC.tables, SPEC.root, Path("spark.log"))


def test_the_row_is_named_at_the_line_of_the_condition() -> None:
    problem = told('{"value":0,"text":"a\\tb"}')
    assert (problem.code, problem.place) == ("HW-EXPECTATION-FAILED", Position("pipeline.yml", 7, 25))
    assert problem.params == {
        "table": "priced",
        "expectation": "paid",
        "condition": "value > 0",
        "row": '{"value":0,"text":"a\\tb"}',
    }


def test_a_text_that_was_fed_again_is_named_at_its_table() -> None:
    problem = told('{"value":', "HW-REPLAYED-ROWS-INVALID\tpriced")
    assert (problem.code, problem.place) == ("HW-REPLAYED-ROWS-INVALID", Position("pipeline.yml", 4, 3))
    assert problem.params == {"table": "priced", "row": '{"value":'}


def test_a_long_row_is_cut_after_its_secrets_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROW_CANARY", "canary-7f3a")
    secret("ROW_CANARY").reveal()
    problem = told('{"value":"' + "x" * 283 + 'canary-7f3a and much more"}' + "y" * 400)
    row = str(problem.params["row"])
    assert (len(row), row[-1]) == (301, "…")
    assert "cana" not in row
    assert "canary" not in problem.detail
