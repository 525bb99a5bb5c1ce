"""Secrets in the options of plain programs."""

from __future__ import annotations

import pytest

from headwater.values.secret_names import looks_secret, masked, secrets_in

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";'


@pytest.mark.parametrize(
    "name",
    ["password", "dbPassword", "kafka.sasl.jaas.config", "kafka.ssl.key.password", "apiKey", "api_token",
     "fs.s3a.secret.key", "fs.azure.account.key.x", "clientSecret", "oauth.token", "basic.auth.user.info"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)
    assert masked(name, "value") == "***"


@pytest.mark.parametrize(
    "name",
    ["path", "subscribe", "kafka.bootstrap.servers", "maxFilesPerTrigger", "kafka.sasl.mechanism",
     "kafka.ssl.truststore.location", "tokenizer", "header"],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not looks_secret(name)
    assert masked(name, "value") == "value"


def test_a_secret_inside_a_value() -> None:
    assert masked("url", "jdbc:postgresql://u:geheim@db/shop") == "jdbc:postgresql://***@db/shop"
    assert (
        masked("url", "jdbc:x://db?user=u&password=geheim&ssl=true")
        == "jdbc:x://db?user=u&password=***&ssl=true"
    )


def test_what_must_not_be_shown() -> None:
    assert secrets_in("kafka.sasl.jaas.config", JAAS) == tuple(sorted((JAAS, "geheim")))
    assert secrets_in("url", "amqp://u:geheim@host") == ("u:geheim",)
    assert secrets_in("path", "/data/in") == ()
