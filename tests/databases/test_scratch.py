"""Scratch tables of proofs: what a reader sees, commits that wait, lost connections, and the end of the table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import Scratch
from headwater.connectors.databases import scratch
from headwater.connectors.databases.database import Database
from headwater.connectors.databases.options import FileSink
from tests.databases.conftest import PostgresStore, Store, a_batch

SECONDS = 30.0


def scratch_database(store: Store, rows: DataFrame, directory: Path) -> Database:
    """The scratch copy of a table."""
    declared = store.database(rows, "orders").target.options
    options = scratch.scratch_options(declared, Scratch(directory, "ab12_0"))
    keys = {"path": options.path} if isinstance(options, FileSink) else {}
    database = store.database(rows, "orders", **keys, into=options.into)
    assert database.target.options == options
    return database


def numbers(spark: SparkSession, *values: int) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "id int")


def batches_in(database: Database) -> tuple[int | None, Counter[tuple[int, ...]]]:
    """The newest batch and the rows, as a reader sees them."""
    found = scratch.snapshot(database)
    assert found is not None
    return found.batch, Counter(found.rows)


@pytest.mark.feature("H3", part="prove: the rows and the ledger are read at one moment")
def test_a_scratch_table_shows_its_rows_with_their_batch(
    store: Store, spark: SparkSession, tmp_path: Path
) -> None:
    rows = numbers(spark, 1, 2)
    database = scratch_database(store, rows, tmp_path / "scratch")
    assert scratch.newest_batch(database) is None
    assert batches_in(database) == (None, Counter())
    with scratch.hold(scratch_database(store, rows, tmp_path / "scratch")) as held:
        assert held is None

    writer = store.writer(rows, "orders", **_place(database))
    writer.write(rows, a_batch(0))
    assert (scratch.newest_batch(database), batches_in(database)) == (0, (0, Counter([(1,), (2,)])))

    # A commit that waits has changed nothing.
    with scratch.hold(scratch_database(store, rows, tmp_path / "scratch")) as held:
        assert held is not None
        more = numbers(spark, 2)
        waits = threading.Thread(target=lambda: writer.write(more, a_batch(1)))
        waits.start()
        if isinstance(store, PostgresStore):
            _until(lambda: held.waiting() is True)
            assert batches_in(database) == (0, Counter([(1,), (2,)]))
            # The writer connects again, and waits again.
            assert held.disconnect() == 1
            _until(lambda: held.waiting() is True)
        else:
            assert held.waiting() is None
    waits.join(SECONDS)
    assert not waits.is_alive()
    assert batches_in(database) == (1, Counter([(1,), (2,), (2,)]))

    # An empty table of a batch is not the same as no table.
    scratch.discard(scratch_database(store, rows, tmp_path / "scratch"))
    if not isinstance(database.target.options, FileSink):
        assert batches_in(database) == (None, Counter())
        assert (store.ledger(), store.staged()) == ([], 0)


@pytest.mark.feature("H3", part="prove: an empty result is a result")
def test_an_empty_table_has_a_batch(store: Store, spark: SparkSession, tmp_path: Path) -> None:
    rows = numbers(spark, 1)
    database = scratch_database(store, rows, tmp_path / "scratch")
    store.writer(rows, "orders", "complete", **_place(database)).write(rows.where("id > 1"), a_batch(0))
    assert batches_in(database) == (0, Counter())


def _place(database: Database) -> dict[str, str]:
    options = database.target.options
    return {"into": options.into, **({"path": options.path} if isinstance(options, FileSink) else {})}


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
