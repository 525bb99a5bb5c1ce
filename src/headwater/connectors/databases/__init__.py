"""The database connectors."""

from headwater.connectors.databases.connector import DUCKDB_CONNECTOR, POSTGRES_CONNECTOR, SQLITE_CONNECTOR
from headwater.connectors.databases.options import DuckdbSink, PostgresSink, SqliteSink

__all__ = [
    "DUCKDB_CONNECTOR",
    "POSTGRES_CONNECTOR",
    "SQLITE_CONNECTOR",
    "DuckdbSink",
    "PostgresSink",
    "SqliteSink",
]
