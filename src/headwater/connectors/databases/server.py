"""What the databases on servers share: executors load their partitions into a staging table, in parallel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headwater.connectors.databases import errors, server_task
from headwater.connectors.databases.database import Database, Field, Rejected, Session

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, Row

FEW_ROWS, FEW_BYTES = 2_000, 1 << 20
"""A batch like this is small: the driver loads it, because Python on the executors costs more than the batch itself."""
LONG_VALUE = 1 << 14
"""A text of more bytes makes a batch large, so the driver never collects many of them."""


@dataclass
class LoadedRows:
    """The rows of one batch in the staging table, by the numbers of the tasks that loaded them."""

    database: ServerDatabase
    place: tuple[str, str]
    tasks: Sequence[int]
    rows: int

    @property
    def condition(self) -> str:
        """The condition of these rows in the staging table."""
        return f"task IN ({', '.join(map(str, self.tasks)) or 'NULL'})"

    def relation(self, session: Session) -> str:
        return f"(SELECT * FROM {self.database.qualified(self.place)} WHERE {self.condition})"

    def clear(self, session: Session) -> None:
        self.database.clear_staging(session, self)


class ServerDatabase(Database):
    """A table on a server."""

    task_module: ModuleType
    """The executor side."""
    staging_columns: tuple[str, ...] = ("task",)
    """The columns of the staging table before those of the rows; the tasks fill them in."""

    staging = ""
    """The staging table that exists, as far as known: it stays from batch to batch."""
    last_was_small = False
    """Whether the last batch was small, so the next one probably is."""
    _abandoned = 0
    """How many staging tables a suspended task has kept from being emptied; the next start drops them."""

    @abstractmethod
    def staging_statement(self, staging: str, columns: Sequence[str]) -> str:
        """The statement that creates the staging table if it does not exist."""

    @abstractmethod
    def staged_type(self, field: Field) -> str:
        """The type of a column of the staging table."""

    @abstractmethod
    def loading(self, staging: str, names: Sequence[str]) -> Callable[..., Any]:
        """The function for `mapInArrow` that loads a partition into these columns of the staging table."""

    @abstractmethod
    def rejected(self, state: str, says: str) -> Exception:
        """Unavailable or Rejected for the code and the message of an error."""

    @abstractmethod
    def clear_staging(self, session: Session, staged: LoadedRows) -> None:
        """Remove the rows from the staging table, in the transaction that applies them."""

    def abandon_staging(self) -> None:
        """Use another staging table from the next batch on."""
        self._abandoned += 1

    def stage(self, rows: DataFrame, place: tuple[str, str], name: str) -> LoadedRows:
        from pyspark import cloudpickle

        # The executors may not have Headwater.
        for module in (server_task, self.task_module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        name = f"{name}_{self._abandoned}" if self._abandoned else name
        staging = self.qualified((place[0], name))
        columns = [f"c{number} {self.staged_type(each)}" for number, each in enumerate(self.target.fields)]
        names = [*self.staging_columns, *(f"c{number}" for number in range(len(columns)))]
        if self.target.options.delete_when is not None:
            columns.append("deleted boolean")
            names.append("deleted")
        if self.staging != staging:
            with self.connect() as session:
                session.run(self.staging_statement(staging, columns))
            self.staging = staging
        results = self._load(rows, self.loading(staging, names))
        for result in results:
            if result.state is not None:
                raise self.rejected(result.state, result.says)
            if result.column is not None:
                raise self.refused(self.target.fields[result.column].name, result.says)
        tasks, count = [each.task for each in results], sum(each.rows for each in results)
        self.last_was_small = count <= FEW_ROWS and sum(each.bytes for each in results) <= FEW_BYTES
        return LoadedRows(self, (place[0], name), tasks, count)

    def _load(self, rows: DataFrame, load: Callable[..., Any]) -> list[Row]:
        """Load the rows: on the driver if there are few, or else on the executors. Both compute them once."""
        from pyspark.sql import Row

        if not self.last_was_small:
            return rows.mapInArrow(load, server_task.RESULT).collect()
        rows.persist()
        try:
            few = _few(rows)
            if few is None:
                return rows.mapInArrow(load, server_task.RESULT).collect()
            return [Row(**result) for batch in load(few.to_batches()) for result in batch.to_pylist()]
        finally:
            rows.unpersist()

    def refused(self, column: str, value: str) -> Rejected:
        """The error of a value that the database cannot store, with the condition of the rows that it can."""
        if value == server_task.NUL and self._is_nested(column):
            condition = f"NOT contains(to_json({column}), '\\\\u0000')"
        else:
            condition = {
                server_task.NUL: f"NOT contains({column}, char(0))",
                server_task.NOT_UTF8: f"is_valid_utf8({column})",
                server_task.NOT_FINITE: f"abs({column}) < double('Infinity')",
                server_task.NOT_A_YEAR: f"year({column}) BETWEEN 1 AND 9999",
            }[value]
        params = {"column": column, "value": value, "database": self.title, "condition": condition}
        return Rejected(errors.DATABASE_VALUE_REJECTED, **params)

    def _is_nested(self, column: str) -> bool:
        return any(field.name == column and field.is_nested for field in self.target.fields)


def _few(rows: DataFrame) -> pa.Table | None:
    """The rows, if there are few and none has a long value."""
    columns = {field.name: field.dataType.typeName() for field in rows.schema.fields}
    texts = [name for name, type_ in columns.items() if type_ in ("string", "binary")]
    is_long = (
        " OR ".join(f"coalesce(octet_length({name}) > {LONG_VALUE}, false)" for name in texts) or "false"
    )
    cut = (f"if({is_long}, null, {name}) AS {name}" if name in texts else name for name in columns)
    found = rows.limit(FEW_ROWS + 1).selectExpr(*cut, f"{is_long} AS is_long").toArrow()
    if found.num_rows > FEW_ROWS or True in found.column("is_long").to_pylist():
        return None
    return found.drop_columns(["is_long"])
