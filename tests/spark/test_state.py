"""What a query keeps: only what it needs, and as much of it as can be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from headwater.events import Event
from tests.pipelines import batches, capture, captured, feed, run_until_idle, run_while, wait_for, write

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


GROUPINGS = """
name: groupings
spark: {spark.sql.shuffle.partitions: 1}
sources:
  sales:
    connector: files
    path: in
    format: json
    schema: {shop: string, kind: string, amount: int}
    max_files_per_batch: 1
tables:
  cubed: SELECT shop, kind, sum(amount) FROM sales GROUP BY CUBE (shop, kind)
  rolled: {python: "tables.py:rolled"}
sinks:
"""
ROLLED = """
from pyspark.sql.functions import sum


def rolled(sales):
    return sales.rollup("shop", "kind").agg(sum("amount"))
"""
SALES = (
    (("n", "tea", 1), ("n", "rum", 2), ("s", "tea", 4)),
    (("s", "rum", 8), ("n", "tea", 16)),
)
Key = tuple[str | None, str | None]


def groups(kind: str, shop: str, item: str) -> Iterator[Key]:
    """The groups that a row counts in."""
    for keep_shop, keep_item in product((True, False), repeat=2):
        if kind == "cubed" or keep_shop or not keep_item:
            yield (shop if keep_shop else None, item if keep_item else None)


def totals(kind: str, rows: list[tuple[str, str, int]]) -> dict[Key, int]:
    """The batch result, worked out in Python."""
    found: dict[Key, int] = {}
    for shop, item, amount in rows:
        for key in groups(kind, shop, item):
            found[key] = found.get(key, 0) + amount
    return found


@pytest.mark.feature("C2.5")
@pytest.mark.usefixtures("spark")
def test_cube_and_rollup_equal_the_batch_result_in_update_and_complete_mode(tmp_path: Path) -> None:
    for number, rows in enumerate(SALES):
        lines = [{"shop": shop, "kind": kind, "amount": amount} for shop, kind, amount in rows]
        feed(tmp_path / "in", str(number), lines, at=1000 + number)
    sinks = [f"{kind}_{mode}" for kind in ("cubed", "rolled") for mode in ("update", "complete")]
    capture(tmp_path, *sinks)
    write(tmp_path, ROLLED, "tables.py")
    declared = "".join(
        f"  {sink}: {{reads: {sink.split('_')[0]}, mode: {sink.split('_')[1]}, "
        f'connector: foreach_batch, function: "capture.py:{sink}"}}\n'
        for sink in sinks
    )
    run_until_idle(write(tmp_path, GROUPINGS + declared))

    for sink in sinks:
        kind, mode = sink.split("_")
        first, whole = totals(kind, list(SALES[0])), totals(kind, [*SALES[0], *SALES[1]])
        changed = {key: total for key, total in whole.items() if first.get(key) != total}
        second = changed if mode == "update" else whole
        expected = [Counter({(*key, total): 1 for key, total in each.items()}) for each in (first, second)]
        assert captured(tmp_path, sink) == expected, sink
