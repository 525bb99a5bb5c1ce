"""The keys of the database sinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

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
        default=None,
        description="PEM file with CA certificates. `verify-ca` requires it. Default of `verify-full`: those of the "
        "system.",
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

    @model_validator(mode="after")
    def _has_ca(self) -> Self:
        # Without a host name, any holder of a certificate of a public CA could be the server; libpq rejects that too.
        if self.mode == "verify-ca" and self.ca is None:
            raise ValueError("`verify-ca` requires `ca`; set `ca` to a PEM file, or `mode` to `verify-full`")
        return self


_UNENCODED = re.compile(r"[@/?#\s]|%(?![0-9A-Fa-f]{2})")


def check_address(url: str, schemes: Sequence[str]) -> None:
    """ValueError if a client would find other parts in an address than its writer means.

    The client ends a password at the first `@` and takes the rest for the name of the host, which it shows in errors.
    """
    if not url.startswith(tuple(f"{each}://" for each in schemes)):
        raise ValueError(f"expected {schemes[0]}://user:password@host:port/database")
    if _UNENCODED.search(_login(url)):
        raise ValueError(
            "the user name, the password or a parameter contains a character that an address cannot contain; "
            "write `@` as %40, `/` as %2F, `?` as %3F, `#` as %23, `%` as %25 and a space as %20"
        )


def _login(url: str) -> str:
    return url.partition("://")[2].rpartition("@")[0]


def _passwords(url: str) -> Iterator[str]:
    """The passwords in an address, as they are written."""
    parameters = (each.partition("=") for each in url.partition("?")[2].split("&"))
    found = [_login(url).partition(":")[2], *(value for key, _, value in parameters if "password" in key)]
    yield from filter(None, found)


class ServerSink(DatabaseSink):
    """A table of a database on a server."""

    also_called = {
        **DatabaseSink.also_called,
        "dsn": "url",
        "uri": "url",
        "jdbc_url": "url",
        "sslmode": "tls",
        "ssl": "tls",
    }
    schemes: ClassVar[tuple[str, ...]]
    """How an address starts."""

    url: str | Secret
    tls: Tls | None = Field(
        default=None, description="TLS encryption. Default: that of the server and the address."
    )
    statement_timeout: Duration | None = Field(
        default=None, description="How long a statement can take in the database. Default: no limit."
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | Secret) -> str | Secret:
        # A secret is checked when it is revealed.
        if isinstance(url, str):
            cls.check_url(url)
        return url

    @classmethod
    def check_url(cls, url: str) -> None:
        """ValueError if it is not an address of this database."""
        check_address(url, cls.schemes)

    @property
    def address(self) -> str:
        return masked("url", self.url.template if isinstance(self.url, Secret) else self.url)

    def reveal_url(self) -> str:
        """The address with its password, which is redacted in all output from now on; ValueError if it is invalid."""
        url = self.url
        if isinstance(url, Secret):
            url = revealed(url, percent_encoded=len(url.parts) > 1)
            self.check_url(url)
        passwords = list(_passwords(url))
        for text in [*passwords, url] if passwords else []:
            hidden(text)
            hidden(unquote(text))
        return url

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        yield from super().secrets()
        if isinstance(self.url, Secret):
            yield ("url",), self.url
        if self.tls and self.tls.key_password:
            yield ("tls", "key_password"), self.tls.key_password


_URL = (
    "Address as `{scheme}://user:password@host:port/database`. Write the password or the whole address as "
    "`${{secret:NAME}}`. Headwater percent-encodes a secret that is a part of the address."
)


class PostgresSink(ServerSink):
    """Writes to a table of PostgreSQL, each batch exactly once."""

    schemes = ("postgresql", "postgres")

    url: str | Secret = Field(description=_URL.format(scheme="postgresql"))


class MysqlSink(ServerSink):
    """Writes to a table of MySQL or MariaDB, each batch exactly once."""

    schemes = ("mysql", "mariadb")

    url: str | Secret = Field(description=_URL.format(scheme="mysql"))

    @classmethod
    def check_url(cls, url: str) -> None:
        super().check_url(url)
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            raise ValueError(
                "expected an address without parameters; set `tls` and `statement_timeout` instead"
            )
        if not parts.username or not parts.hostname or not parts.path.strip("/"):
            raise ValueError("expected mysql://user:password@host:port/database, with a user and a database")


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
