"""What SQLite and DuckDB share: a file that only the driver writes, with the rows of a batch from Arrow."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from headwater.connectors.databases.database import Database, Session
from headwater.connectors.databases.names import table_name
from headwater.connectors.databases.options import FileSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_TURNS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""One sink of this process at a time uses a file: DuckDB rejects what two would change at the same time."""


@dataclass
class CollectedRows:
    """The rows of one batch on the driver; a temporary table has them inside the transaction."""

    database: EmbeddedDatabase
    table: pa.Table
    rows: int

    def relation(self, session: Session) -> str:
        return self.database.fill(session, self.table)

    def clear(self, session: Session) -> None:
        self.database.empty(session)


class EmbeddedDatabase(Database):
    """A table in a file."""

    folds_case = True
    folds_tables = True
    names_indexes = True

    @property
    def path(self) -> str:
        assert isinstance(self.target.options, FileSink)
        return self.target.options.path

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other sink of this process uses the file; its directory exists then."""
        with _TURNS[os.path.realpath(self.path)]:
            if not self.only_reads:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
            yield

    @property
    def is_missing(self) -> bool:
        """The file does not exist, and a check does not create it: the check sees an empty database."""
        return self.only_reads and not os.path.exists(self.path)

    @abstractmethod
    def fill(self, session: Session, rows: pa.Table) -> str:
        """Make the rows a table of the connection; returns its name."""

    @abstractmethod
    def empty(self, session: Session) -> None:
        """Remove that table."""

    def locate(self, session: Session) -> tuple[str, str]:
        schema, name = table_name(self.target.options.into)
        return "" if schema.lower() == "main" else schema, name

    def stage(self, rows: DataFrame, place: tuple[str, str], name: str) -> CollectedRows:
        table = rows.toArrow()
        return CollectedRows(self, table, table.num_rows)
