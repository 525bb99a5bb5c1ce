"""Tables of databases in a Python declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from headwater.connectors.connector import ConnectorCall, connector
from headwater.values import Duration, Secret


def postgres(
    *,
    url: str | Secret,
    into: str,
    key: str | Sequence[str] | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] | None = None,
    columns: Literal["match", "add"] | None = None,
    other_writers: Literal["fail", "allow"] | None = None,
    tls: Mapping[str, str | Secret] | None = None,
    statement_timeout: str | Duration | None = None,
) -> ConnectorCall:
    """Declare a sink that writes a table of PostgreSQL."""
    return connector("postgres", **locals())


def mysql(
    *,
    url: str | Secret,
    into: str,
    key: str | Sequence[str] | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] | None = None,
    columns: Literal["match", "add"] | None = None,
    other_writers: Literal["fail", "allow"] | None = None,
    tls: Mapping[str, str | Secret] | None = None,
    statement_timeout: str | Duration | None = None,
) -> ConnectorCall:
    """Declare a sink that writes a table of MySQL or MariaDB."""
    return connector("mysql", **locals())


def sqlite(
    *,
    path: str,
    into: str,
    key: str | Sequence[str] | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] | None = None,
    columns: Literal["match", "add"] | None = None,
    other_writers: Literal["fail", "allow"] | None = None,
) -> ConnectorCall:
    """Declare a sink that writes a table of SQLite."""
    return connector("sqlite", **locals())


def duckdb(
    *,
    path: str,
    into: str,
    key: str | Sequence[str] | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] | None = None,
    columns: Literal["match", "add"] | None = None,
    other_writers: Literal["fail", "allow"] | None = None,
) -> ConnectorCall:
    """Declare a sink that writes a table of DuckDB."""
    return connector("duckdb", **locals())
