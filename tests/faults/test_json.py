"""`run --json`: one object per line, with all that Spark tells about a batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines import feed, write
from tests.processes import headwater

PIPELINE = """
name: pages
sources:
  visits:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, page: string}
    watermark: {column: at, delay: 1 minute}
tables:
  counted: |
    SELECT window.start AS at, page, count(*) AS visits
    FROM visits GROUP BY window(at, '5 minutes'), page
sinks:
  shown: {reads: counted, connector: console, mode: update}
  first: {reads: visits, connector: console, num_rows: 1, truncate: false}
"""

PROGRESS = {
    "id", "runId", "name", "timestamp", "batchId", "batchDuration", "numInputRows", "inputRowsPerSecond",
    "processedRowsPerSecond", "durationMs", "eventTime", "stateOperators", "sources", "sink",
}  # fmt: skip
DURATIONS = {
    "addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit",
}  # fmt: skip
STATE = {
    "operatorName", "numRowsTotal", "numRowsUpdated", "allUpdatesTimeMs", "numRowsRemoved",
    "allRemovalsTimeMs", "commitTimeMs", "memoryUsedBytes", "numRowsDroppedByWatermark",
    "numShufflePartitions", "numStateStoreInstances", "customMetrics",
}  # fmt: skip
SOURCE = {
    "description", "startOffset", "endOffset", "latestOffset", "numInputRows", "inputRowsPerSecond",
    "processedRowsPerSecond",
}  # fmt: skip


@pytest.mark.feature("G1", part="JSON")
@pytest.mark.feature("D6", part="console: rows and truncate")
def test_every_line_is_an_object_and_progress_is_whole(tmp_path: Path) -> None:
    write(tmp_path, PIPELINE)
    page = "/a-page-with-a-long-name"
    visits = [{"at": f"2026-01-01T12:0{minute}:00Z", "page": page} for minute in (0, 3)]
    feed(tmp_path / "in", "1", visits)
    with headwater(tmp_path, "run", "pipeline.yml", "--json", "--until-idle") as run:
        assert run.wait() == 0, run.told

    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert all(isinstance(event, dict) for event in events)
    # The console sink's rows are not lost: they are no events, so they stand beside them.
    lines = run.stderr.splitlines()
    assert "|2026-01-01 12:00:00|/a-page-with-a-lo...|     2|" in lines
    whole = lines.index(f"|2026-01-01 12:00:00|{page}|")
    assert lines[whole + 2] == "only showing top 1 row"
    assert f"|2026-01-01 12:03:00|{page}|" not in lines
    kinds = [event["event"] for event in events if event["event"] != "query_idle"]
    kinds = [kind for kind in kinds if kind != "start_phase"]
    assert kinds[:3] == ["spark_starting", "run_started", "query_started"]
    assert kinds[-2:] == ["query_terminated", "run_finished"]

    told = [event for event in events if event["event"] == "query_progress" and event["query"] == "shown"]
    progress = told[0]["progress"]
    assert set(progress) == PROGRESS
    assert set(progress["durationMs"]) >= DURATIONS
    assert set(progress["eventTime"]) == {"avg", "max", "min", "watermark"}
    assert [set(operator) for operator in progress["stateOperators"]] == [STATE]
    assert [set(source) for source in progress["sources"]] == [SOURCE]
    assert set(progress["sink"]) == {"description", "numOutputRows"}
    assert (progress["name"], progress["batchId"], progress["numInputRows"]) == ("shown", 0, 2)
    assert progress["eventTime"]["max"] == "2026-01-01T12:03:00.000Z"
    assert progress["sources"][0]["endOffset"] == {"logOffset": 0}
    assert progress["stateOperators"][0]["numRowsTotal"] == 1
    ended = events[-1]
    assert ended["exit_code"] == 0
    assert (ended["queries"]["shown"]["status"], ended["queries"]["shown"]["rows_in"]) == ("stopped", 2)
