"""Write one batch to two destinations: JSON files and a SQLite table."""

import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame

HERE = Path(__file__).parent
TABLE = "CREATE TABLE IF NOT EXISTS large (order_id INTEGER PRIMARY KEY, customer TEXT, amount REAL)"


def write(batch: DataFrame, batch_id: int) -> None:
    """Both writes are idempotent: one overwrites its directory, the other replaces its rows."""
    batch.write.mode("overwrite").json(str(HERE / "archive" / f"batch={batch_id}"))
    rows = [(row.order_id, row.customer, row.amount) for row in batch.collect()]
    with closing(sqlite3.connect(HERE / "large.db")) as database, database:
        database.execute(TABLE)
        database.executemany("INSERT OR REPLACE INTO large VALUES (?, ?, ?)", rows)
