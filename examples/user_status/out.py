"""Write the status of each user to a SQLite table."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

TABLE = "CREATE TABLE IF NOT EXISTS status (user TEXT PRIMARY KEY, status TEXT, actions INTEGER)"


def write(batch: DataFrame, batch_id: int) -> None:
    """Upsert the new status; a retried batch changes nothing."""
    rows = [tuple(row) for row in batch.collect()]
    with closing(sqlite3.connect(database())) as connection, connection:
        connection.execute(TABLE)
        connection.executemany("INSERT OR REPLACE INTO status VALUES (?, ?, ?)", rows)


def read(spark: SparkSession) -> DataFrame:
    """The rows of the table, for tests."""
    with closing(sqlite3.connect(database())) as connection:
        rows = connection.execute("SELECT user, status, actions FROM status").fetchall()
    return spark.createDataFrame(rows, "user string, status string, actions int")


def database() -> Path:
    """Next to this file; in a test, in the directory of the test."""
    return Path(os.environ.get("HEADWATER_TEST_DIR") or Path(__file__).parent) / "status.db"
