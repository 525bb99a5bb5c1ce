"""Failed expectations in the progress of a query."""

from __future__ import annotations

from headwater.events import QueryProgress
from headwater.events.kinds import TableCounts

PROGRESS = {
    "batchId": 3,
    "numInputRows": 5,
    "sources": [],
    "observedMetrics": {
        "headwater": {"rows": 4},
        "headwater.rows.orders": {"read": 9, "bad": 1},
        "headwater.expect.priced": {"all rows": 5, "paid": 2, "rows": 0},
        "headwater.expect.empty": {"all rows": None, "paid": None},
    },
}


def test_what_failed_is_told_by_table_and_expectation() -> None:
    event = QueryProgress(query="out", rows_out=4, progress=PROGRESS)
    priced = TableCounts(5, {"paid": 2, "rows": 0})
    assert event.table_counts == {"priced": priced, "empty": TableCounts(0, {"paid": 0})}
    assert event.to_json()["expectations"]["priced"] == {"rows": 5, "failed": {"paid": 2, "rows": 0}}


def test_batches_add_up() -> None:
    total = TableCounts() + TableCounts(5, {"paid": 2}) + TableCounts(3, {"paid": 1, "new": 4})
    assert total == TableCounts(8, {"paid": 3, "new": 4})
