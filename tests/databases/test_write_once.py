"""Batch runs, which have no ledger: what happens before, during and after their commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.connectors.databases.database import Database, Session, Unavailable
from headwater.connectors.databases.writer import TableWriter
from headwater.errors import QueryFailedError
from tests.databases.conftest import Store
from tests.databases.test_conformance import problem_of, totals


@contextmanager
def once_after_commit(store: Store, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection is lost after the first COMMIT of rows."""
    connect, merge, merged = type(database).connect, Database.merge, list[int]()

    @contextmanager
    def losing(self: Database) -> Iterator[Session]:
        with connect(self) as session:
            yield session
            if len(merged) == 1:
                merged.append(2)
                raise store.lost()

    def merge_and_note(self: Database, *given: Any) -> None:
        merge(self, *given)
        merged.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(type(database), "connect", losing)
        patch.setattr(Database, "merge", merge_and_note)
        yield


def test_a_batch_run_whose_commit_is_not_confirmed(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = totals(spark, ("a", 1))
    database = store.database(rows, "t")
    with once_after_commit(store, database, monkeypatch), pytest.raises(QueryFailedError) as error:
        TableWriter(database).write_once(rows)
    problem = problem_of(error)
    assert (problem.code, problem.entry.retryable) == ("HW-DATABASE-OUTCOME-UNKNOWN", False)
    assert store.rows("t") == Counter([("a", 1)])


def test_a_batch_run_is_repeated_before_its_commit(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, attempts, merge = totals(spark, ("a", 1)), list[int](), Database.merge

    def merge_and_fail(self: Database, *given: Any) -> None:
        merge(self, *given)
        attempts.append(1)
        if len(attempts) == 1:
            raise store.lost()

    monkeypatch.setattr(Database, "merge", merge_and_fail)
    store.writer(rows, "t").write_once(rows)
    assert len(attempts) == 2
    assert store.rows("t") == Counter([("a", 1)])
    assert store.staged() == 0


def test_a_batch_run_that_cannot_drop_its_staging_succeeds(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, calls = totals(spark, ("a", 1)), list[int]()

    def drop(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Unavailable("gone")

    database = store.database(rows, "t")
    monkeypatch.setattr(type(database), "drop_staging", drop)
    TableWriter(database).write_once(rows)
    assert len(calls) == 2
    assert store.rows("t") == Counter([("a", 1)])
