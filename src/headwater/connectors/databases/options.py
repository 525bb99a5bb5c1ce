"""The keys of the database sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator

from headwater.connectors.databases.names import table_name
from headwater.connectors.options import Password, hidden, revealed
from headwater.spec import SinkOptions
from headwater.spec.paths import ProjectPath
from headwater.values import Duration, Secret
from headwater.values.secrets import masked

Key = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class DatabaseSink(SinkOptions):
    """A table of a database."""

    also_called = {
        "table": "into",
        "dbtable": "into",
        "primary_key": "key",
        "keys": "key",
        "schema": "columns",
    }
    takes_options = False

    into: str = Field(
        min_length=1,
        description="Table, as `table` or `schema.table`. Names are used as written; quote a name that contains "
        'a dot: `"a.b"`.',
    )
    key: Key | None = Field(
        default=None,
        description="With `mode: update`: the columns that identify a row. Rows are upserted by them.",
    )
    delete_when: str | None = Field(
        default=None,
        min_length=1,
        description="With `mode: update`: SQL condition over the columns of a row. If it is true, the row with this "
        "key is deleted.",
    )
    create: Literal["if_missing", "never"] = Field(
        default="if_missing", description="Whether a missing table is created from the columns of the rows."
    )
    columns: Literal["match", "add"] = Field(
        default="match",
        description="`add` adds columns that the table lacks, at the start. Other differences are always errors.",
    )
    other_writers: Literal["fail", "allow"] = Field(
        default="fail",
        description="`allow` writes to a table that another query, or this sink with a previous checkpoint, has "
        "written.",
    )

    @field_validator("into")
    @classmethod
    def _is_table(cls, into: str) -> str:
        table_name(into)
        return into

    @property
    def address(self) -> str:
        """Where the database is, without secrets."""
        raise NotImplementedError


class Tls(BaseModel):
    """TLS encryption, with certificates in PEM files. Only the driver reads the files."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    mode: Literal["require", "verify-ca", "verify-full"] = Field(
        default="verify-full",
        description="`verify-full` verifies the certificate and the host name, `verify-ca` only the certificate, "
        "`require` only encrypts.",
    )
    ca: ProjectPath | None = Field(
        default=None, description="PEM file with CA certificates. Default: those of the system."
    )
    certificate: ProjectPath | None = Field(
        default=None, description="PEM file with the client certificate. Default: none."
    )
    key: ProjectPath | None = Field(
        default=None, description="PEM file with the private key of the certificate."
    )
    key_password: Password | None = Field(
        default=None, description="Password of the private key, as `${secret:NAME}`."
    )

    @field_validator("ca", "certificate", "key")
    @classmethod
    def _readable(cls, path: str | None) -> str | None:
        if path is not None and not Path(path).is_file():
            raise ValueError(f"file {path} not found; set it to the path of a PEM file")
        return path


class PostgresSink(DatabaseSink):
    """Writes to a table of PostgreSQL, each batch exactly once."""

    also_called = {
        **DatabaseSink.also_called,
        "dsn": "url",
        "uri": "url",
        "jdbc_url": "url",
        "sslmode": "tls",
    }

    url: str | Secret = Field(
        description="Address as `postgresql://user:password@host:port/database`. Write the password or the whole "
        "address as `${secret:NAME}`."
    )
    tls: Tls | None = Field(
        default=None, description="TLS encryption. Default: that of the server and the address."
    )
    statement_timeout: Duration | None = Field(
        default=None, description="How long a statement can take in the database. Default: no limit."
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | Secret) -> str | Secret:
        if isinstance(url, str) and not url.startswith(("postgresql://", "postgres://")):
            raise ValueError("expected postgresql://user:password@host:port/database")
        return url

    @property
    def address(self) -> str:
        return masked("url", self.url.template if isinstance(self.url, Secret) else self.url)

    @property
    def plain_url(self) -> str:
        """The address with its password, which is redacted in all output from now on."""
        url = revealed(self.url) if isinstance(self.url, Secret) else self.url
        password = urlsplit(url).password if "://" in url else None
        if password:
            hidden(password)
            hidden(url)
        return url

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        yield from super().secrets()
        if isinstance(self.url, Secret):
            yield ("url",), self.url
        if self.tls and self.tls.key_password:
            yield ("tls", "key_password"), self.tls.key_password


class FileSink(DatabaseSink):
    """A table in a database file."""

    also_called = {**DatabaseSink.also_called, "file": "path", "database": "path", "url": "path"}

    path: ProjectPath = Field(
        description="File of the database, relative to the pipeline file; created if missing."
    )

    @property
    def address(self) -> str:
        return self.path


class SqliteSink(FileSink):
    """Writes to a table of SQLite, each batch exactly once."""


class DuckdbSink(FileSink):
    """Writes to a table of DuckDB, each batch exactly once."""
