"""What a batch counted besides its rows in and out."""

from __future__ import annotations

from headwater.events import QueryProgress
from headwater.events.kinds import SourceCounts


def progress(**more: object) -> QueryProgress:
    said = {"batchId": 3, "numInputRows": 5, "sources": [], **more}
    return QueryProgress(query="q", rows_out=2, progress=said)


def test_good_and_bad_rows_by_source() -> None:
    observed = {"headwater": {"rows_out": 2}, "headwater.rows.orders": {"read": 5, "bad": 2}}
    event = progress(observedMetrics=observed)
    assert event.source_counts == {"orders": SourceCounts(5, 2)}
    assert event.to_json()["sources"] == {"orders": {"read": 5, "good": 3, "bad": 2}}
    assert SourceCounts(5, 2) + SourceCounts(1, 1) == SourceCounts(6, 3)
    assert progress().source_counts == {}


def test_late_rows_by_operator_from_the_sources_on() -> None:
    operators = [
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 1},
        {"operatorName": "dedupe", "numRowsDroppedByWatermark": 2},
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0},
        {"operatorName": "newOne", "numRowsDroppedByWatermark": 4},
    ]
    late = progress(stateOperators=operators).late_rows
    assert late == {"newOne": 4, "aggregation 1": 0, "distinct": 2, "aggregation 2": 1}
    assert progress().late_rows == {}
