"""Compares the output of the demo with a plain PySpark batch job over the same files.

The checkpoint of a query shows which files it has read and which minutes are closed. The job drops the rows that
were too late for the watermark; it does not need to know the batches. Stop the demo first.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headwater.checkpoint import Checkpoint, LocalStore, SinkLog
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context

HERE = Path(__file__).resolve().parent
ARRIVAL = "order_id string, at timestamp, product_id int, quantity int"
PRODUCT = "product_id int, product string, category string, price decimal(8,2)"
PRICED = "order_id string, at timestamp, product string, category string, quantity int, amount decimal(19,2)"
REVENUE = "minute timestamp, category string, orders bigint, revenue decimal(29,2)"

DELAY = timedelta(minutes=2)
AHEAD = 2
"""At most this many files with smaller numbers can be read in a later batch than a file."""
BEHIND = 2 * 5 + AHEAD
"""Spark compares rows with the watermark of the previous batch, and a batch reads at most five files. That
watermark therefore includes every file whose number is smaller by at least this much."""

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Standing:
    """The progress of a query: the files it has read, and the watermark of its last batch."""

    files: tuple[str, ...]
    watermark: datetime


@dataclass(frozen=True)
class Comparison:
    """The rows of a sink, and the expected rows."""

    query: str
    found: Rows
    expected: Rows
    says: str

    @property
    def equal(self) -> bool:
        return self.found == self.expected

    def __str__(self) -> str:
        if self.equal:
            return f"{self.query}: {self.found.total()} rows, equal to the batch result; {self.says}"
        more, less = self.found - self.expected, self.expected - self.found
        return (
            f"{self.query}: DIFFERENT; {more.total()} unexpected rows {more}, {less.total()} missing {less}"
        )


def standing(work: Path, query: str) -> Standing:
    """The progress of a query, from its checkpoint and the log of its sink."""
    checkpoint = Checkpoint(LocalStore(work / "run" / "checkpoints" / query))
    # The last batch of the sink, not the last commit: after a crash, the sink can be one batch ahead.
    batch = SinkLog(LocalStore(work / query)).last_batch
    entry = next(entry for entry in checkpoint.offsets() if entry.batch_id == batch)
    last = entry.sources["0"]["logOffset"]
    files = [file.path for file in checkpoint.source_files(0) if file.batch_id <= last]
    return Standing(tuple(files), datetime.fromtimestamp((entry.watermark_ms or 0) / 1000, UTC))


def in_time(spark: SparkSession, files: tuple[str, ...]) -> tuple[DataFrame, int]:
    """The rows that were in time, and the number of late rows. ValueError if that depends on the batches."""
    paths = [unquote(urlparse(file).path) for file in files]
    rows = spark.read.schema(ARRIVAL).json(paths).withColumn("file", F.col("_metadata.file_name"))
    newest = sorted((row[0], row[1]) for row in rows.groupBy("file").agg(F.max("at")).collect())
    highest = list(accumulate((at for _, at in newest), max))
    padded = [*[None] * BEHIND, *highest, *highest[-1:] * AHEAD]
    bounds = [(file, padded[place], padded[place + BEHIND + AHEAD]) for place, (file, _) in enumerate(newest)]
    bound = spark.createDataFrame(bounds, "file string, seen timestamp, perhaps_seen timestamp")
    checked = rows.join(F.broadcast(bound), "file")
    late, kept = _behind("seen"), ~_behind("perhaps_seen")
    unclear = checked.where(~late & ~kept).count()
    if unclear:
        raise ValueError(
            f"{unclear} rows are late or not, depending on the batches, so the results cannot be compared"
        )
    return checked.where(kept).select("order_id", "at", "product_id", "quantity"), checked.where(late).count()


def _behind(seen: str) -> Column:
    return F.coalesce(F.col("at") <= F.col(seen) - F.expr(f"INTERVAL {DELAY.seconds} SECONDS"), F.lit(False))


def priced(spark: SparkSession, orders: DataFrame, products: Path) -> DataFrame:
    """Each order once, with its price."""
    table = spark.read.schema(PRODUCT).csv(str(products), header=True)
    amount = (F.col("quantity") * F.col("price")).alias("amount")
    joined = orders.distinct().join(table, "product_id")
    return joined.select("order_id", "at", "product", "category", "quantity", amount)


def closed_revenue(orders: DataFrame, watermark: datetime) -> DataFrame:
    """The revenue of the minutes that the watermark has passed."""
    grouped = orders.groupBy(F.date_trunc("minute", "at").alias("minute"), "category")
    revenue = grouped.agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
    return revenue.where(F.col("minute") + F.expr("INTERVAL 1 MINUTE") <= F.lit(watermark))


def rows_of(frame: DataFrame) -> Rows:
    """The rows as a multiset."""
    return Counter(tuple(row) for row in frame.collect())


def comparisons(spark: SparkSession, demo: Path) -> Iterator[Comparison]:
    """The comparison of each query of the demo in a directory."""
    work, products = demo / "work", demo / "products.csv"
    for query, schema in (("priced", PRICED), ("revenue", REVENUE)):
        stands = standing(work, query)
        orders, late = in_time(spark, stands.files)
        expected = priced(spark, orders, products)
        if query == "revenue":
            expected = closed_revenue(expected, stands.watermark)
        found = spark.read.schema(schema).json(str(work / query))
        says = f"{len(stands.files)} files read, {late} late rows, watermark {stands.watermark:%F %T}"
        yield Comparison(query, rows_of(found), rows_of(expected), says)


def main() -> int:
    """Compare and print the results. The exit code is 1 if they differ."""
    with tempfile.TemporaryDirectory() as logs:
        settings = {"spark.master": "local[*]", "spark.sql.shuffle.partitions": "4"}
        settings["spark.sql.session.timeZone"] = "UTC"
        jvm = start_context(settings, java=find_java(), log_folder=Path(logs), stdout=print)
        try:
            found = list(comparisons(SparkSession(jvm.context), HERE))
        finally:
            jvm.stop()
    for comparison in found:
        print(comparison)
    return 0 if all(comparison.equal for comparison in found) else 1


if __name__ == "__main__":
    sys.exit(main())
