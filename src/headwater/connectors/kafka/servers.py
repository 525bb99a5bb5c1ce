"""How a Kafka cluster is reached: the keys that source and sink share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headwater.connectors.options import Password, hidden, revealed
from headwater.spec import ConnectorOptions
from headwater.spec.paths import ProjectPath
from headwater.values import Secret

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS = "kafka.sasl.jaas.config"
KEY = "kafka.ssl.keystore.key"
KEY_PASSWORD = "kafka.ssl.key.password"

# Kafka's own words for what `tls` and `sasl` say.
_SECURITY = ("kafka.security.protocol", "kafka.ssl.", "kafka.sasl.")


class _Keys(BaseModel):
    """Keys inside a key."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Tls(_Keys):
    """Encryption, with certificates in PEM files; the driver reads them, the executors need no copy."""

    ca: ProjectPath | None = Field(
        default=None,
        description="The certificates that sign the brokers'; without it those that Java trusts.",
    )
    certificate: ProjectPath | None = Field(
        default=None, description="This client's certificate, with those that sign it behind it."
    )
    key: ProjectPath | None = Field(
        default=None, description="The private key of the certificate, as PKCS#8 (`BEGIN PRIVATE KEY`)."
    )
    key_password: Password | None = Field(
        default=None, description="The password of the key, as `${secret:NAME}`."
    )
    check_host: bool = Field(
        default=True, description="Whether a broker's certificate must name the host that it was reached by."
    )

    @field_validator("ca", "certificate", "key")
    @classmethod
    def _readable(cls, path: str | None) -> str | None:
        if path is not None:
            if not Path(path).is_file():
                raise ValueError(f"there is no file {path}; write the path of a PEM file")
            _text(path)
        return path

    @model_validator(mode="after")
    def _fits(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together; write both, or neither")
        if self.key_password is not None and self.key is None:
            raise ValueError("`key_password` does nothing without `key`; write the key, or leave it out")
        return self

    def settings(self) -> dict[str, str]:
        """Kafka's settings. The texts of the files go along: an executor elsewhere has no such files."""
        settings: dict[str, str] = {}
        if self.ca:
            settings["kafka.ssl.truststore.type"] = "PEM"
            settings["kafka.ssl.truststore.certificates"] = _text(self.ca)
        if self.certificate and self.key:
            settings["kafka.ssl.keystore.type"] = "PEM"
            settings["kafka.ssl.keystore.certificate.chain"] = _text(self.certificate)
            settings[KEY] = _text(self.key)
            hidden(settings[KEY])
        if self.key_password:
            settings[KEY_PASSWORD] = revealed(self.key_password)
        if not self.check_host:
            settings["kafka.ssl.endpoint.identification.algorithm"] = ""
        return settings


class Sasl(_Keys):
    """A user and a password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        description="How the password is shown to be known."
    )
    user: str = Field(min_length=1, description="The user's name.")
    password: Password = Field(description="The password, as `${secret:NAME}`.")

    def settings(self) -> dict[str, str]:
        """Kafka's settings."""
        user, password = _quoted(self.user), _quoted(revealed(self.password))
        entry = f"{_MODULES[self.mechanism]} required username={user} password={password};"
        hidden(password[1:-1])
        hidden(entry)
        return {"kafka.sasl.mechanism": self.mechanism, JAAS: entry}


class Servers(ConnectorOptions):
    """Where the cluster is, and how to prove who we are."""

    also_called = {
        "bootstrap.servers": "servers",
        "broker": "servers",
        "brokers": "servers",
        "hosts": "servers",
        "sasl.jaas.config": "sasl",
        "sasl.mechanism": "sasl",
        "ssl": "tls",
        "ssl.truststore.location": "tls",
        "security.protocol": "tls",
    }

    servers: str = Field(
        min_length=1, description="The brokers to ask first, as `host:port`, separated by commas."
    )
    tls: Tls | None = Field(default=None, description="Talk to the brokers through TLS.")
    sasl: Sasl | None = Field(default=None, description="Log in with a user and a password.")

    @field_validator("servers")
    @classmethod
    def _addresses(cls, servers: str) -> str:
        for server in servers.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"`{server.strip()}` is no `host:port`; write such as localhost:9092")
        return ",".join(server.strip() for server in servers.split(","))

    @model_validator(mode="after")
    def _said_once(self) -> Servers:
        for option in self.options:
            if option.lower() == "kafka.bootstrap.servers":
                raise ValueError(f"`options` has `{option}`, which `servers` says; write the key alone")
            if option.lower().startswith(_SECURITY) and (self.tls or self.sasl):
                raise ValueError(
                    f"`options` has `{option}` beside `{'tls' if self.tls else 'sasl'}`: one would win over "
                    "the other in silence; write the keys `tls` and `sasl`, or all of it under `options`"
                )
        return self

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        yield from super().secrets()
        if self.sasl:
            yield ("sasl", "password"), self.sasl.password
        if self.tls and self.tls.key_password:
            yield ("tls", "key_password"), self.tls.key_password

    def hidden_options(self) -> frozenset[str]:
        own = {JAAS} if self.sasl else set()
        own |= {KEY, KEY_PASSWORD} if self.tls and self.tls.key else set()
        return super().hidden_options() | own

    def connection(self) -> dict[str, str]:
        """The options of Spark that lead to the cluster; what is secret in them is hidden in every text."""
        settings = {"kafka.bootstrap.servers": self.servers}
        if self.tls or self.sasl:
            protocol = ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
            settings["kafka.security.protocol"] = protocol
        settings |= self.tls.settings() if self.tls else {}
        return settings | (self.sasl.settings() if self.sasl else {})


def _quoted(text: str) -> str:
    """A text as a value of Java's login configuration, which knows C's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ValueError(f"{path} can't be read ({error.strerror}); let this user read it") from error


# Which names a topic can have.

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name(name: str) -> str:
    """A name as Kafka takes it; ValueError for another."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"`{name}` is no name of a topic; Kafka takes letters from a to z, digits, `.`, `_` and `-`, "
            "at most 249 of them"
        )
    return name
