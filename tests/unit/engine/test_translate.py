"""Spark's exceptions as problems of the catalogue, without Spark."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from headwater.engine.translate import sql_problem
from headwater.values import Position
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


@pytest.mark.parametrize(
    ("column", "proposal", "hint"),
    [
        ("`amont`", "`amount`, `id`", "Did you mean `amount`?"),
        ("`o`.`amont`", "`o`.`id`, `o`.`amount`", "Did you mean `o`.`amount`?"),
        ("`x`", "`amount`, `id`", "It has `amount`, `id`."),
        ("`x`", "", "Check what the table that it reads returns."),
    ],
)
def test_an_unknown_column(column: str, proposal: str, hint: str) -> None:
    (table,) = spec_of(PIPELINE.format(mode="append", connector=CONSOLE)).tables
    problem = sql_problem(Unresolved(column, proposal), table)
    assert (problem.code, problem.place) == ("HW-UNKNOWN-COLUMN", Position("pipeline.yml", 3, 10))
    assert problem.params == {"where": "The table `total`", "column": column, "hint": hint}
