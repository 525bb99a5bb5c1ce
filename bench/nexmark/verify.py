"""Checks on small input that both Spark variants of a query return the rows that plain Python computes.

    python -m bench.nexmark.verify [QUERY …]

The check runs all queries in one JVM, first by hand and then as pipelines. The exit code is 1 if rows differ.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

import headwater as hw
from bench.nexmark.expected import Auctions, Row, expected
from bench.nexmark.generator import rows, write_files, write_side_input
from bench.nexmark.jobs import pipeline, result, started
from bench.nexmark.queries import QUERIES, Query
from bench.nexmark.store import store

EVENTS, PER_FILE, RATE, SEED = 20_000, 4_000, 200, 7
"""The input: 100 seconds of event time, so that windows close."""


def main(names: list[str]) -> int:
    """Check the named queries, or all."""
    with tempfile.TemporaryDirectory(prefix="headwater-nexmark-") as scratch:
        folder = Path(scratch)
        write_files(folder / "events", EVENTS, PER_FILE, SEED, RATE)
        write_side_input(folder / "side_input.csv")
        events = Auctions(rows(EVENTS, SEED, RATE))
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.sql.shuffle.partitions", 2)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        try:
            same = [_check(spark, QUERIES[name], folder, events) for name in names or QUERIES]
        finally:
            spark.stop()
    return 0 if all(same) else 1


def _check(spark: SparkSession, query: Query, folder: Path, events: Auctions) -> bool:
    right = expected(query, events)
    found = {"by hand": by_hand(spark, query, folder), "Headwater": by_headwater(query, folder)}
    for variant, got in found.items():
        if got != right:
            missing, extra = right - got, got - right
            print(
                f"{query.name}, {variant}: {missing.total()} rows are missing, {extra.total()} are wrong, such as"
            )
            print(f"  missing {next(iter(missing), None)}\n  wrong   {next(iter(extra), None)}")
    if not right:
        print(f"{query.name}: the input gives no rows")
    same = bool(right) and all(got == right for got in found.values())
    if same:
        print(
            f"{query.name}: {right.total():,} rows, the same by hand, with Headwater and with plain Python",
            flush=True,
        )
    return same


def by_hand(spark: SparkSession, query: Query, folder: Path) -> Counter[Row]:
    """The rows that the hand-written query returns."""
    own = folder / query.name / "by_hand"
    frame = result(spark, query, folder / "events", folder / "side_input.csv")
    started(frame.writeStream, query, own, store(own / "rows")).awaitTermination()
    return stored(query, own / "rows")


def by_headwater(query: Query, folder: Path) -> Counter[Row]:
    """The rows that the pipeline returns."""
    own = folder / query.name / "headwater"
    own.mkdir(parents=True)
    (own / "out.py").write_text(
        f"from pathlib import Path\nfrom bench.nexmark.store import store\nwrite = store(Path({str(own / 'rows')!r}))\n"
    )
    file = own / "pipeline.yml"
    file.write_text(pipeline(query, folder / "events", folder / "side_input.csv", "out.py:write"))
    run = hw.load(file).start()
    run.wait()
    run.raise_for_failure()
    return stored(query, own / "rows")


def stored(query: Query, folder: Path) -> Counter[Row]:
    """The stored rows as a multiset; in update mode, the last row of each key."""
    batches = sorted(folder.iterdir(), key=lambda batch: int(batch.name))
    found = [row for batch in batches for row in pq.read_table(batch).to_pylist()]
    if query.mode == "update":
        found = list({tuple(row[name] for name in query.key): row for row in found}.values())
    if query.summed:
        return _totals(found, query)
    return Counter(tuple(map(_plain, row.values())) for row in found)


def _totals(found: list[dict[str, Any]], query: Query) -> Counter[Row]:
    """The sums over windows whose times depend on the run."""
    totals: Counter[Any] = Counter()
    for row in found:
        totals[row[query.key[0]]] += row[query.summed]
    return Counter(totals.items())


def _plain(value: Any) -> Any:
    """Times as in the events: in UTC, without a zone."""
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
