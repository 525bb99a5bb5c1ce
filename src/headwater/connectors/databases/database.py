"""What all databases share: comparing a table with the rows, the ledger, and the SQL that applies a batch.

A database is one subclass of `Database`. It says how to connect, how to describe a table and which types it has,
and how rows of a batch get into its staging.

    headwater_ledger        one row per query and table, next to the table
      query_id, target      Spark's ID of the query, which belongs to its checkpoint, and the table
      pipeline, sink        for people
      batch_id              the newest batch in the table; -1 before the first
      epoch                 the number of the newest run that has claimed the table for this query
      written_at            when that batch was committed

One transaction applies a batch: it locks the ledger's row, compares it, changes the table, and updates the row.
So the row and the table always agree, also after a crash at any point, and the ledger shows the outcome of a COMMIT
whose answer was lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headwater.connectors.databases import errors
from headwater.connectors.databases.names import quoted, table_name
from headwater.connectors.databases.options import DatabaseSink
from headwater.errors import Place, Problem
from headwater.spec import Mode
from headwater.values import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEDGER = "headwater_ledger"


@dataclass(frozen=True)
class Field:
    """A column of the rows, with Spark's name of its type."""

    name: str
    type: str

    @property
    def is_nested(self) -> bool:
        return self.type.startswith(("array<", "map<", "struct<"))


@dataclass(frozen=True)
class Column:
    """A column of a table, with the database's name of its type."""

    name: str
    type: str
    required: bool = False
    """An INSERT must name it."""
    computed: bool = False
    """An INSERT cannot name it."""
    collation: str = ""
    """How the database compares its texts, where that matters."""


@dataclass(frozen=True)
class Unique:
    """The columns of a unique index over all rows."""

    columns: frozenset[str]
    nulls_equal: bool = False


@dataclass(frozen=True)
class Table:
    """A table as it exists."""

    columns: tuple[Column, ...]
    uniques: tuple[Unique, ...] = ()
    kind: str = "table"
    engine: str = ""
    """What stores it, where a database has a choice."""

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)


@dataclass(frozen=True)
class Target:
    """What one sink writes, and where."""

    sink: str
    pipeline: str
    mode: Mode
    fields: tuple[Field, ...]
    options: DatabaseSink
    place: Place | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self.options.key or ()

    def at(self, entry: Any, **params: object) -> Problem:
        """A problem of this sink."""
        return entry.at(self.place, sink=self.sink, **params)  # type: ignore[no-any-return]


class Session(Protocol):
    """A connection to a database."""

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement with `$1`, `$2`, … for the values; returns its rows."""

    def transaction(self) -> AbstractContextManager[object]:
        """Commits at its end, and rolls back on an error."""


class Unavailable(Exception):
    """The database could not process the request; a retry can succeed. The text says why."""


class Busy(Exception):
    """A run uses the database, and a check does not wait for it."""


class StagingLost(Unavailable):
    """The staging does not have the rows that were loaded into it, for example after a crash of the server."""


class Rejected(Exception):
    """The database does not accept the rows or a statement."""

    def __init__(self, entry: Any, **params: object) -> None:
        super().__init__(entry.code)
        self.entry = entry
        self.params = params


class Staged(Protocol):
    """The rows of one batch, before one transaction applies them."""

    rows: int

    def relation(self, session: Session) -> str:
        """A table expression with the columns c0, c1, … and `deleted`, inside the transaction."""

    def clear(self, session: Session) -> None:
        """Remove the rows, in the same transaction."""


class Database(ABC):
    """One table in one database, and its ledger."""

    title: str
    """Its name in messages."""
    quote = '"'
    """What surrounds a name in SQL."""
    longest_name: int | None = None
    """The most bytes of a name."""
    folds_case: bool = False
    """Names of columns that differ only in case are the same."""
    system_columns: frozenset[str] = frozenset()
    """Names that a column cannot have."""
    folds_tables: bool = False
    """Names of tables that differ only in case are the same."""
    alters_columns: bool = True
    """ALTER TABLE can change the type of a column, and whether it is required."""
    names_indexes: bool = False
    """CREATE INDEX needs a name."""
    finds_repeats: bool = False
    """An upsert reports several rows with one key itself."""
    only_reads = False
    """For a check, which writes nothing: it does not create a missing file."""

    def __init__(self, target: Target) -> None:
        self.target = target

    # What a database implements.

    @abstractmethod
    def connect(self) -> AbstractContextManager[Session]:
        """A connection; Unavailable if the database cannot be reached."""

    @abstractmethod
    def locate(self, session: Session) -> tuple[str, str]:
        """The schema and the name of the table, which may not exist yet."""

    @abstractmethod
    def describe(self, session: Session, table: tuple[str, str]) -> Table | None:
        """The table as it exists."""

    @abstractmethod
    def type_of(self, type_: str) -> str | None:
        """The type of a created column for a Spark type; None if there is none."""

    @abstractmethod
    def accepts(self, column: str, type_: str) -> bool:
        """Whether a column of this type takes every value of a Spark type unchanged."""

    @abstractmethod
    def stage(self, rows: DataFrame, place: tuple[str, str], name: str) -> Staged:
        """Load the rows, with the columns c0, c1, … and `deleted`, into a staging of this name next to the table."""

    @abstractmethod
    def trouble(self, error: Exception) -> Exception:
        """Unavailable or Rejected for an error of the driver; any other error itself."""

    def exclude(  # noqa: B027 - nothing to do where transactions exclude each other
        self, session: Session, name: str
    ) -> None:
        """Let other transactions with this name wait until the end of this one."""

    def drop_staging(  # noqa: B027 - nothing to do where a transaction has the staging
        self, session: Session, table: tuple[str, str], prefix: str, is_dead: Callable[[str], bool]
    ) -> None:
        """Drop the staging with this prefix whose run is dead, by its name."""

    def scan(self, session: Session, query: str) -> Generator[tuple[Any, ...]]:
        """The rows of a query, one after another; a driver that can does not load all of them."""
        yield from session.run(query)

    def readable(self, field: Field) -> str:
        """A column as SQL whose values the driver returns as Python values, nested ones as JSON."""
        return self.quoted(field.name)

    def value(self, source: str, field: Field, column: str) -> str:
        """A staged value as SQL, for a column of this type."""
        return source

    def unique_clause(self, columns: str) -> str:
        """The unique constraint of a created table."""
        return f"UNIQUE ({columns})"

    def column_type(self, field: Field) -> str | None:
        """The type of a created column."""
        return self.type_of(field.type)

    def definition(self, field: Field) -> str:
        """A column in CREATE TABLE and ALTER TABLE, after its name."""
        return self.column_type(field) or ""

    def more_differences(self, table: tuple[str, str], found: Table) -> Iterator[tuple[str, list[str]]]:
        """What else of a table prevents writing, and the statements that change it."""
        return iter(())

    time_type = "timestamp with time zone"
    """The type of a column for points in time."""
    table_options = ""
    """What follows the columns in CREATE TABLE."""

    locks_rows = ""
    """What makes a SELECT lock its rows."""

    # Names in SQL.

    def quoted(self, name: str) -> str:
        """An identifier in SQL."""
        return quoted(name, self.quote)

    def qualified(self, table: tuple[str, str]) -> str:
        """A table in SQL."""
        return ".".join(self.quoted(part) for part in table if part)

    def quoted_list(self, names: Sequence[str]) -> str:
        """Columns in SQL."""
        return ", ".join(self.quoted(name) for name in names)

    def as_declared(self, name: str) -> str:
        """The name of a column as the rows have it, where case makes no difference."""
        names = (field.name for field in self.target.fields if field.name.lower() == name.lower())
        return next(names, name)

    # Before the start, without a connection.

    def problems(self) -> Iterator[Problem]:
        """Why rows with these columns cannot be written to any table."""
        yield from self._name_problems()
        for field in self.target.fields:
            if self.type_of(field.type) is None:
                params = {"column": field.name, "type": field.type, "database": self.title}
                yield self.target.at(errors.DATABASE_TYPE_UNSUPPORTED, **params)
        yield from self._key_problems()

    def _name_problems(self) -> Iterator[Problem]:
        for what, name in zip(("schema", "table"), table_name(self.target.options.into), strict=True):
            # Without a schema, it is that of the connection.
            if name and (why := self._why_invalid(name)):
                yield self._invalid_name(what, name, why, "Set `into` to another name.")
        seen: dict[str, str] = {}
        for field in self.target.fields:
            folded = field.name.lower() if self.folds_case else field.name
            why = self._why_invalid(field.name)
            if folded in self.system_columns:
                why = "it is the name of a system column"
            if not why and folded in seen:
                why = f"it is the same as `{seen[folded]}`"
            if why:
                hint = f"Rename it. In SQL: `{field.name} AS short_name`."
                yield self._invalid_name("column", field.name, why, hint)
            seen[folded] = field.name

    def _invalid_name(self, what: str, name: str, why: str, hint: str) -> Problem:
        params = {"what": what, "name": name, "database": self.title, "why": why, "hint": hint}
        return self.target.at(errors.DATABASE_NAME_INVALID, **params)

    def _why_invalid(self, name: str) -> str:
        if "\0" in name:
            return "it contains a NUL character"
        if self.longest_name is not None and len(name.encode()) > self.longest_name:
            return f"it is longer than {self.longest_name} bytes"
        return "" if name else "it is empty"

    def _key_problems(self) -> Iterator[Problem]:
        target, options = self.target, self.target.options
        names = [field.name for field in target.fields]
        if target.mode is not Mode.UPDATE:
            for key in ("key", "delete_when"):
                if getattr(options, key) is not None:
                    yield target.at(errors.DATABASE_KEY_UNUSED, key=key, mode=target.mode.value)
        elif not target.key:
            yield target.at(errors.DATABASE_KEY_REQUIRED, example=names[0] if names else "id")
        else:
            for column in (each for each in target.key if each not in names):
                params = {
                    "column": column,
                    "hint": did_you_mean(column, names, "Select it."),
                    "columns": ", ".join(names),
                }
                yield target.at(errors.DATABASE_KEY_NOT_FOUND, **params)

    # The table.

    def compare(self, table: tuple[str, str], found: Table | None) -> Iterator[Problem]:
        """Why the rows cannot be written to this table."""
        target, shown = self.target, self.qualified(table)
        if found is None:
            if target.options.create == "never":
                yield target.at(
                    errors.DATABASE_TABLE_NOT_FOUND, table=shown, statement=f"{self.create_statement(table)};"
                )
            return
        differences, statements = [], []
        if found.kind != "table":
            differences.append(f"it is a {found.kind}")
        for field in target.fields:
            column, wanted = found.column(field.name), self.column_type(field)
            if column is None:
                if target.options.columns == "match":
                    differences.append(f"column `{field.name}` is missing")
                    statements.append(self._add_column(table, field))
            elif column.computed:
                differences.append(f"column `{field.name}` is generated by the database")
            elif not self.accepts(column.type, field.type):
                differences.append(f"column `{field.name}` is {column.type}, expected {wanted}")
                statements += self.change_type(table, field)
        names = {field.name for field in target.fields}
        for column in found.columns:
            if column.required and column.name not in names:
                differences.append(f"column `{column.name}` is required, and the rows do not have it")
                statements += self.drop_required(table, column)
        if target.key and not self._unique(found):
            differences.append(f"it has no unique index on the columns of `key` ({', '.join(target.key)})")
            statements.append(self._create_index(table))
        for difference, changes in self.more_differences(table, found):
            differences.append(difference)
            statements += changes
        if differences:
            fixes_all = len(statements) == len(differences)
            run = f"Run `{'; '.join(statements)}`. Or change" if fixes_all else "Change"
            hint = f"{run} the table of the pipeline, or write to another table with `into`."
            missing = [field for field in target.fields if found.column(field.name) is None]
            if missing and target.options.columns == "match":
                hint += " To add missing columns at the start, set `columns: add`."
            params = {"table": shown, "differences": "; ".join(differences), "hint": hint}
            yield target.at(errors.DATABASE_TABLE_MISMATCH, **params)

    def _unique(self, found: Table) -> Unique | None:
        key = frozenset(self.target.key)
        matching = [each for each in found.uniques if each.columns == key]
        return next((each for each in matching if each.nulls_equal), matching[0] if matching else None)

    def create_statement(self, table: tuple[str, str]) -> str:
        """CREATE TABLE for the rows."""
        columns = [f"{self.quoted(field.name)} {self.definition(field)}" for field in self.target.fields]
        if self.target.key:
            columns.append(self.unique_clause(self.quoted_list(self.target.key)))
        return f"CREATE TABLE {self.qualified(table)} ({', '.join(columns)}){self.table_options}"

    def _add_column(self, table: tuple[str, str], field: Field) -> str:
        column = f"{self.quoted(field.name)} {self.definition(field)}"
        return f"ALTER TABLE {self.qualified(table)} ADD COLUMN {column}"

    def change_type(self, table: tuple[str, str], field: Field) -> list[str]:
        """The statement that changes the type of a column, if there is one."""
        wanted = self.column_type(field)
        return self._alter_column(
            table, field.name, f"TYPE {wanted} USING {self.quoted(field.name)}::{wanted}"
        )

    def drop_required(self, table: tuple[str, str], column: Column) -> list[str]:
        """The statement after which a column accepts nulls, if there is one."""
        return self._alter_column(table, column.name, "DROP NOT NULL")

    def _alter_column(self, table: tuple[str, str], name: str, change: str) -> list[str]:
        alter = f"ALTER TABLE {self.qualified(table)} ALTER COLUMN {self.quoted(name)} {change}"
        return [alter] if self.alters_columns else []

    def _create_index(self, table: tuple[str, str]) -> str:
        name = f"{self.quoted(f'{table[1][:55]}_key')} " if self.names_indexes else ""
        return f"CREATE UNIQUE INDEX {name}ON {self.qualified(table)} ({self.quoted_list(self.target.key)})"

    def create(self, session: Session, table: tuple[str, str], found: Table | None) -> Table:
        """Create the table or its missing columns; returns it as it is then."""
        if found is None:
            session.run(self.create_statement(table))
        else:
            missing = [field for field in self.target.fields if found.column(field.name) is None]
            for field in missing:
                session.run(self._add_column(table, field))
            if not missing:
                return found
        created = self.describe(session, table)
        assert created is not None, "it was just created"
        return created

    # A batch.

    def merge(self, session: Session, table: tuple[str, str], found: Table, staged: Staged) -> None:
        """Apply the staged rows to the table."""
        source = staged.relation(session)
        with_nulls = self._check_staged(session, found, staged, source)
        shown, target = self.qualified(table), self.target
        if target.mode is Mode.COMPLETE:
            session.run(f"DELETE FROM {shown}")
        if target.options.delete_when is not None:
            # No index helps with `IS NOT DISTINCT FROM`.
            same = self.same_key(found, "IS NOT DISTINCT FROM" if with_nulls else "=")
            self.delete_rows(session, shown, source, same)
        self.put_rows(session, shown, found, source)

    def delete_rows(self, session: Session, table: str, source: str, same: str) -> None:
        """Delete the rows of the table `t` for which `same` holds with a deleted row `s` of the source."""
        deleted = f"SELECT 1 FROM {source} AS s WHERE s.deleted AND {same}"
        session.run(f"DELETE FROM {table} AS t WHERE EXISTS ({deleted})")

    def put_rows(self, session: Session, table: str, found: Table, source: str) -> None:
        """Insert the other rows, or upsert them."""
        session.run(f"{self.insert_from(table, found, source)} WHERE {self.kept}{self._on_conflict()}")

    def insert_from(self, table: str, found: Table, source: str) -> str:
        """An INSERT of all rows `s` of the source."""
        names = self.quoted_list([field.name for field in self.target.fields])
        values = ", ".join(self._value(number, found) for number in range(len(self.target.fields)))
        return f"INSERT INTO {table} ({names}) SELECT {values} FROM {source} AS s"

    @property
    def kept(self) -> str:
        """The condition of the rows `s` that are not deleted."""
        return "NOT s.deleted" if self.target.options.delete_when is not None else "true"

    def _value(self, number: int, found: Table) -> str:
        field = self.target.fields[number]
        column = found.column(field.name)
        assert column is not None, "the table was compared with the rows"
        return self.value(f"s.c{number}", field, column.type)

    def _number(self, name: str) -> int:
        return next(number for number, field in enumerate(self.target.fields) if field.name == name)

    def same_key(self, found: Table, equals: str) -> str:
        values = [self._value(self._number(name), found) for name in self.target.key]
        pairs = zip(self.target.key, values, strict=True)
        return " AND ".join(f"t.{self.quoted(name)} {equals} {value}" for name, value in pairs)

    def _on_conflict(self) -> str:
        target = self.target
        if target.mode is not Mode.UPDATE:
            return ""
        others = [self.quoted(field.name) for field in target.fields if field.name not in target.key]
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {sets}" if sets else "NOTHING"
        return f" ON CONFLICT ({self.quoted_list(target.key)}) DO {action}"

    def _check_staged(self, session: Session, found: Table, staged: Staged, source: str) -> bool:
        """Check that the staging has all rows, and each key once; returns whether a key has a null."""
        columns = [f"s.c{self._number(name)}" for name in self.target.key]
        nulls = " OR ".join(f"{column} IS NULL" for column in columns) or "false"
        ((rows, without_key),) = session.run(
            f"SELECT count(*), count(CASE WHEN {nulls} THEN 1 END) FROM {source} AS s"
        )
        if rows != staged.rows:
            raise StagingLost(f"the staging has {rows:,} of {staged.rows:,} rows")
        unique, key = self._unique(found), ", ".join(self.target.key)
        deletes = self.target.options.delete_when is not None
        if without_key and unique and not unique.nulls_equal:
            raise Rejected(errors.DATABASE_KEY_NULL, key=key)
        if columns and (deletes or not self.finds_repeats):
            groups = f"SELECT 1 FROM {source} AS s GROUP BY {', '.join(columns)} HAVING count(*) > 1 LIMIT 1"
            if session.run(groups):
                raise Rejected(errors.DATABASE_KEY_REPEATED, key=key)
        return bool(without_key)
