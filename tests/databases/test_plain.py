"""The sinks in plain PySpark: a checkpoint, `foreachBatch`, and no pipeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
from headwater.connectors.databases.writer import FunctionLedger
from headwater.errors import UsageError
from tests.databases.conftest import PostgresStore, SqliteStore, Store
from tests.pipelines import feed


def orders(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema("id int, customer string").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder / "in"))


def run(rows: DataFrame, folder: Path, function: Any, mode: str = "append") -> None:
    writer = rows.writeStream.foreachBatch(function).outputMode(mode).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def lose_commit(folder: Path, batch: int) -> None:
    """What a crash between the sink's commit and Spark's leaves."""
    for name in (str(batch), f".{batch}.crc"):
        (folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)


@pytest.mark.feature("L3")
def test_an_upsert_from_plain_pyspark(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    for number, customer in enumerate("aba"):
        feed(tmp_path / "in", str(number), [{"id": number, "customer": customer}], at=1_700_000_000 + number)
    totals = orders(spark, tmp_path).groupBy("customer").count()
    into = store.into("totals")

    def sink() -> Any:
        return getattr(hw.sinks, store.kind.name)(**store.keys, into=into, key=["customer"])

    run(totals, tmp_path, sink(), "update")
    assert store.rows("totals") == Counter([("a", 2), ("b", 1)])
    lose_commit(tmp_path, 2)
    store.run(f"UPDATE {into} SET count = 100")
    feed(tmp_path / "in", "9", [{"id": 9, "customer": "b"}])
    run(totals, tmp_path, sink(), "update")
    # The batch that Spark replayed has changed nothing.
    assert store.rows("totals") == Counter([("a", 100), ("b", 2)])
    assert store.ledger() == [(3, 2)]


@pytest.mark.feature("L3", part="an existing checkpoint")
def test_an_existing_checkpoint(spark: SparkSession, postgres: PostgresStore, tmp_path: Path) -> None:
    feed(tmp_path / "in", "0", [{"id": 0, "customer": "a"}])
    run(orders(spark, tmp_path), tmp_path, lambda batch, batch_id: batch.count())
    feed(tmp_path / "in", "1", [{"id": 1, "customer": "b"}])
    run(
        orders(spark, tmp_path),
        tmp_path,
        hw.sinks.postgres(url=postgres.keys["url"], into=postgres.into("t")),
    )
    assert postgres.rows("t") == Counter([(1, "b")])
    # A new checkpoint would write all rows again.
    with pytest.raises(StreamingQueryException, match="HW-DATABASE-LEDGER-FOREIGN"):
        run(orders(spark, tmp_path), tmp_path / "new", _of(tmp_path, postgres))
    assert postgres.rows("t") == Counter([(1, "b")])


def _of(folder: Path, postgres: PostgresStore) -> Any:
    return hw.sinks.postgres(url=postgres.keys["url"], into=postgres.into("t"))


@pytest.mark.feature("D8.3", part="a function that gets a token, with a ledger")
@pytest.mark.parametrize("on_server", [True, False])
def test_a_function_is_called_once_for_each_batch(
    spark: SparkSession, postgres: PostgresStore, sqlite: SqliteStore, tmp_path: Path, on_server: bool
) -> None:
    ledger = postgres.keys["url"] if on_server else sqlite.keys["path"]
    name = f"store {tmp_path.name}"
    calls: list[tuple[int, int, str]] = []

    def store(batch: DataFrame, batch_id: int, token: str) -> None:
        calls.append((batch_id, batch.count(), token))
        if len(calls) == 2:
            raise ValueError("the store is down")

    for number in range(2):
        feed(tmp_path / "in", str(number), [{"id": number, "customer": "a"}], at=1_700_000_000 + number)
    rows = orders(spark, tmp_path).groupBy("customer").count()
    with pytest.raises(StreamingQueryException, match="the store is down"):
        run(rows, tmp_path, hw.sinks.exactly_once(store, ledger=ledger, name=name), "update")
    function = hw.sinks.exactly_once(store, ledger=ledger, name=name)
    # The same function, as in a notebook, and one of a new process.
    for each in (function, function, hw.sinks.exactly_once(store, ledger=ledger, name=name)):
        run(rows, tmp_path, each, "update")
        lose_commit(tmp_path, 1)
    assert [(batch, count) for batch, count, _ in calls] == [(0, 1), (1, 1), (1, 1)]
    assert len({token for _, _, token in calls}) == 2
    assert calls[1] == calls[2]
    # Another checkpoint would call it with the same rows.
    with pytest.raises(StreamingQueryException, match="HW-DATABASE-FUNCTION-FOREIGN") as error:
        run(orders(spark, tmp_path), tmp_path / "new", function)
    assert "other_writers" not in str(error.value)
    assert len(calls) == 3


class RowStore:
    """A store with only a batch writer: it writes rows by their key, one after another, and can fail in between."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], tuple[int, str]] = {}
        self.fail_after: int | None = None

    def write(self, batch: DataFrame, batch_id: int, token: str) -> None:
        """The recipe: each row has a key that is the same at each attempt."""
        for number, row in enumerate(batch.orderBy("id").collect()):
            if number == self.fail_after:
                raise ValueError("the store is down")
            self.rows[token, number] = (row.id, row.customer)


@pytest.mark.feature("D8.3")
def test_a_store_that_has_only_a_batch_writer(
    spark: SparkSession, sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in the middle of a batch; then the process dies after the batch and before the ledger has it."""
    store, record = RowStore(), FunctionLedger._record
    lost: list[int] = []

    def run_query() -> None:
        function = hw.sinks.exactly_once(store.write, ledger=sqlite.keys["path"], name="store")
        run(orders(spark, tmp_path), tmp_path, function)

    def record_late(self: FunctionLedger, *given: Any) -> None:
        lost.append(1)
        if len(lost) == 1:
            raise RuntimeError("the process dies here")
        record(self, *given)

    for number in range(2):
        rows = [{"id": 10 * number + each, "customer": "a"} for each in (0, 0, 1)]
        feed(tmp_path / "in", str(number), rows, at=1_700_000_000 + number)
    store.fail_after = 2
    with pytest.raises(StreamingQueryException, match="the store is down"):
        run_query()
    assert len(store.rows) == 2
    store.fail_after = None
    monkeypatch.setattr(FunctionLedger, "_record", record_late)
    with pytest.raises(StreamingQueryException, match="the process dies here"):
        run_query()
    assert len(store.rows) == 3
    run_query()
    lose_commit(tmp_path, 1)
    run_query()
    assert Counter(store.rows.values()) == Counter({(0, "a"): 2, (1, "a"): 1, (10, "a"): 2, (11, "a"): 1})
    assert len(lost) == 3


def test_wrong_arguments_and_calls(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`url`: expected postgresql://"):
        hw.sinks.postgres(url="jdbc:postgresql://localhost/shop", into="t")
    with pytest.raises(UsageError, match="expected an address without parameters"):
        hw.sinks.mysql(url="mysql://ada@localhost/shop?charset=utf8", into="t")
    with pytest.raises(UsageError, match="outside of a streaming query"):
        hw.sinks.sqlite(path=str(tmp_path / "x.db"), into="t")(spark.range(1), 0)


def test_each_start_of_a_function_is_a_run(spark: SparkSession, sqlite: SqliteStore, tmp_path: Path) -> None:
    """In a notebook, the same function can be used again: an earlier start of it cannot write then."""
    function = hw.sinks.sqlite(path=sqlite.keys["path"], into="t")
    for number in range(2):
        feed(tmp_path / "in", str(number), [{"id": number, "customer": "a"}], at=1_700_000_000 + number)
        run(orders(spark, tmp_path), tmp_path, function)
        assert sqlite.ledger() == [(number, number + 1)]
    assert sqlite.rows("t") == Counter([(0, "a"), (1, "a")])
