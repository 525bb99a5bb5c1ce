"""The connection keys that Kafka sources and sinks share."""

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

# The Kafka settings that `tls` and `sasl` replace.
_SECURITY = ("kafka.security.protocol", "kafka.ssl.", "kafka.sasl.")


class _Keys(BaseModel):
    """A block of nested keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Tls(_Keys):
    """TLS encryption, with certificates in PEM files. Only the driver reads the files."""

    ca: ProjectPath | None = Field(
        default=None,
        description="PEM file with the CA certificates of the brokers. Default: the CAs that Java trusts.",
    )
    certificate: ProjectPath | None = Field(
        default=None,
        description="PEM file with the client certificate, followed by its certificate chain. Default: none.",
    )
    key: ProjectPath | None = Field(
        default=None,
        description="PEM file with the private key of the certificate, in PKCS#8 (`BEGIN PRIVATE KEY`).",
    )
    key_password: Password | None = Field(
        default=None, description="Password of the private key, as `${secret:NAME}`."
    )
    check_host: bool = Field(
        default=True, description="Verify that the certificate of a broker matches its host name."
    )

    @field_validator("ca", "certificate", "key")
    @classmethod
    def _readable(cls, path: str | None) -> str | None:
        if path is not None:
            if not Path(path).is_file():
                raise ValueError(f"file {path} not found; set it to the path of a PEM file")
            _text(path)
        return path

    @model_validator(mode="after")
    def _fits(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` require each other; set both, or neither")
        if self.key_password is not None and self.key is None:
            raise ValueError("`key_password` requires `key`; set `key`, or remove `key_password`")
        return self

    def settings(self) -> dict[str, str]:
        """The Kafka settings, including the content of the files: remote executors do not have them."""
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
    """SASL authentication with a user and a password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(description="SASL mechanism.")
    user: str = Field(min_length=1, description="User name.")
    password: Password = Field(description="Password, as `${secret:NAME}`.")

    def settings(self) -> dict[str, str]:
        """The Kafka settings."""
        user, password = _quoted(self.user), _quoted(revealed(self.password))
        entry = f"{_MODULES[self.mechanism]} required username={user} password={password};"
        hidden(password[1:-1])
        hidden(entry)
        return {"kafka.sasl.mechanism": self.mechanism, JAAS: entry}


class Servers(ConnectorOptions):
    """The address of the cluster, encryption and authentication."""

    also_called = {
        "bootstrap.servers": "bootstrap_servers",
        "broker": "bootstrap_servers",
        "brokers": "bootstrap_servers",
        "hosts": "bootstrap_servers",
        "sasl.jaas.config": "sasl",
        "sasl.mechanism": "sasl",
        "ssl": "tls",
        "ssl.truststore.location": "tls",
        "security.protocol": "tls",
    }

    bootstrap_servers: str = Field(
        min_length=1, description="Bootstrap brokers as `host:port`, separated by commas."
    )
    tls: Tls | None = Field(default=None, description="TLS encryption. Default: off.")
    sasl: Sasl | None = Field(default=None, description="SASL authentication. Default: off.")

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, servers: str) -> str:
        for server in servers.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(
                    f"expected `host:port`, got `{server.strip()}`; write for example localhost:9092"
                )
        return ",".join(server.strip() for server in servers.split(","))

    @model_validator(mode="after")
    def _said_once(self) -> Servers:
        for option in self.options:
            if option.lower() == "kafka.bootstrap.servers":
                raise ValueError(
                    f"`{option}` under `options` is not supported; set `bootstrap_servers` instead"
                )
            if option.lower().startswith(_SECURITY) and (self.tls or self.sasl):
                raise ValueError(
                    f"`{option}` under `options` conflicts with `{'tls' if self.tls else 'sasl'}`; use either "
                    "the keys `tls` and `sasl`, or only `options`"
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
        """The Spark options for the connection; secrets in them are redacted in all output."""
        settings = {"kafka.bootstrap.servers": self.bootstrap_servers}
        if self.tls or self.sasl:
            protocol = ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
            settings["kafka.security.protocol"] = protocol
        settings |= self.tls.settings() if self.tls else {}
        return settings | (self.sasl.settings() if self.sasl else {})


def _quoted(text: str) -> str:
    """A string as a value of Java's login configuration, which uses C escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ValueError(f"could not read {path} ({error.strerror}); fix its permissions") from error


# Valid topic names.

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name(name: str) -> str:
    """A valid topic name; ValueError for others."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"`{name}` is not a valid topic name; use letters from a to z, digits, `.`, `_` and `-`, at most 249 "
            "characters"
        )
    return name
