"""Rows of Arrow in place of a DataFrame, for tests of SQL that need no Spark: the tasks run in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from headwater.connectors.databases.database import Database
from headwater.connectors.databases.server import LoadedRows, ServerDatabase


class Result(NamedTuple):
    """What a task returns, as Spark would."""

    task: int
    rows: int
    bytes: int
    state: str | None
    says: str | None
    column: int | None


@dataclass
class Collected:
    """Results of tasks."""

    results: list[Result]

    def collect(self) -> list[Result]:
        return self.results


@dataclass
class ArrowRows:
    """Rows with the columns c0, c1, …"""

    table: pa.Table

    def toArrow(self) -> pa.Table:
        return self.table

    def mapInArrow(self, task: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Collected:
        found = [row for batch in task(iter(self.table.to_batches())) for row in batch.to_pylist()]
        return Collected([Result(**row) for row in found])


def put(database: Database, columns: Sequence[Any], *, deleted: Sequence[bool] | None = None) -> None:
    """Create the table, and apply rows in one transaction, as a batch does."""
    names = [f"c{number}" for number in range(len(columns))]
    arrays = list(columns)
    if deleted is not None:
        names, arrays = [*names, "deleted"], [*arrays, pa.array(deleted)]
    rows: Any = ArrowRows(pa.Table.from_arrays(arrays, names=names))
    with database.connect() as session:
        place = database.locate(session)
        found = database.describe(session, place)
        assert [str(each) for each in database.compare(place, found)] == []
        table = database.create(session, place, found)
    if isinstance(database, ServerDatabase):
        # Only Spark can collect a small batch.
        database.last_was_small = False
    staged = database.stage(rows, place, "headwater_staging_0_0_1")
    with database.connect() as session, session.transaction():
        database.merge(session, place, table, staged)
        staged.clear(session)
    if isinstance(staged, LoadedRows):
        with database.connect() as session:
            database.drop_staging(session, place, "headwater_staging_0_0_1", lambda name: True)
