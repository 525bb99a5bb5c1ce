"""The database connectors."""

from headwater.connectors.databases.connector import (
    DUCKDB_CONNECTOR,
    MYSQL_CONNECTOR,
    POSTGRES_CONNECTOR,
    SQLITE_CONNECTOR,
)
from headwater.connectors.databases.options import DuckdbSink, MysqlSink, PostgresSink, SqliteSink

__all__ = [
    "DUCKDB_CONNECTOR",
    "MYSQL_CONNECTOR",
    "POSTGRES_CONNECTOR",
    "SQLITE_CONNECTOR",
    "DuckdbSink",
    "MysqlSink",
    "PostgresSink",
    "SqliteSink",
]
