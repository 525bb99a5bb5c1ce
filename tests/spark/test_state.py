"""What a query keeps: only what it needs, and as much of it as can be seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwater.events import Event
from tests.pipelines import batches, capture, captured, run_while, wait_for, write

KEYS, ROWS = 100, 500_000
COUNTED = f"""
name: counted
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  numbers: {{connector: rate_per_batch, rows_per_batch: {ROWS}}}
tables:
  counts: SELECT value % {KEYS} AS k, count(*) AS n FROM numbers GROUP BY value % {KEYS}
sinks:
  counts: {{reads: counts, connector: foreach_batch, function: "capture.py:counts", mode: update}}
"""


@pytest.mark.feature("A3")
@pytest.mark.usefixtures("spark")
def test_of_a_million_rows_only_the_hundred_counts_are_kept(tmp_path: Path) -> None:
    capture(tmp_path, "counts")
    events: list[Event] = []
    run_while(
        write(tmp_path, COUNTED),
        lambda run: wait_for(lambda: len(batches(events, "counts")) >= 2, run),
        events,
    )

    second = batches(events, "counts")[1]
    assert captured(tmp_path, "counts")[1] == Counter({(k, 2 * ROWS // KEYS): 1 for k in range(KEYS)})
    (state,) = second.progress["stateOperators"]
    assert (state["numRowsTotal"], state["memoryUsedBytes"] > 0) == (KEYS, True)
    checkpoint = tmp_path / ".headwater" / "checkpoints" / "counts"
    # A million input rows would be eight million bytes.
    assert sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()) < 200_000
