"""Spark's exceptions as problems of the catalogue, without Spark."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from headwater.engine.translate import sql_problem, streaming_problem
from headwater.spec import SinkSpec
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
FILES = "connector: files, path: out, format: json"
WATERMARK = "Declare `watermark:` on the source and group by window(…)"


def sink_of(connector: str, mode: str = "append") -> SinkSpec:
    (sink,) = spec_of(PIPELINE.format(mode=mode, connector=connector)).sinks
    return sink


def refused(says: str) -> Exception:
    return Exception(f"[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid output mode: x. {says}")


@pytest.mark.parametrize(
    ("connector", "mode", "says", "hint"),
    [
        (
            CONSOLE,
            "append",
            "It has sums without watermark.",
            f"{WATERMARK}, or use update or complete mode.",
        ),
        (FILES, "append", "It has sums without watermark.", f"{WATERMARK}."),
        (
            CONSOLE,
            "complete",
            "There are no streaming aggregations.",
            "Use append or update mode, or aggregate.",
        ),
        (CONSOLE, "append", "Something else.", "Try update or complete mode, or change the query."),
        (FILES, "append", "Something else.", "Change the query."),
        (FILES, "append", "Sorting is not supported.", "Sort inside a `foreach_batch` function."),
        (
            CONSOLE,
            "append",
            "Sorting is not supported.",
            "Sort only after an aggregation in complete mode, or sort inside a `foreach_batch` function.",
        ),
    ],
)
def test_the_remedy_names_modes_that_the_connector_takes(
    connector: str, mode: str, says: str, hint: str
) -> None:
    problem = streaming_problem(refused(says), sink_of(connector, mode))
    assert (problem.code, problem.params["mode"], problem.params["hint"]) == (
        "HW-MODE-NOT-SUPPORTED",
        mode,
        hint,
    )
    assert problem.place == Position("pipeline.yml", 5, 3)


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
