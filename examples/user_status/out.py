"""The status of each user, in a table of SQLite."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

TABLE = "CREATE TABLE IF NOT EXISTS status (user TEXT PRIMARY KEY, status TEXT, actions INTEGER)"


def write(batch: DataFrame, batch_id: int) -> None:
    """Put the new status in place of the old one; a batch that comes twice changes nothing."""
    rows = [tuple(row) for row in batch.collect()]
    with closing(sqlite3.connect(database())) as connection, connection:
        connection.execute(TABLE)
        connection.executemany("INSERT OR REPLACE INTO status VALUES (?, ?, ?)", rows)


def read(spark: SparkSession) -> DataFrame:
    """What the table holds, for tests."""
    with closing(sqlite3.connect(database())) as connection:
        rows = connection.execute("SELECT user, status, actions FROM status").fetchall()
    return spark.createDataFrame(rows, "user string, status string, actions int")


def database() -> Path:
    """Beside this file; in a test, in the folder that is the test's own."""
    return Path(os.environ.get("HEADWATER_TEST_FOLDER") or Path(__file__).parent) / "status.db"
