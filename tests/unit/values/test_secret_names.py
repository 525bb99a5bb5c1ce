"""Secrets in options: by the name, by the form of the value, and what only sounds like one."""

from __future__ import annotations

import pytest

from headwater.values.secrets import looks_secret, masked, secrets_in

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";'


@pytest.mark.parametrize(
    "name",
    ["password", "dbPassword", "kafka.sasl.jaas.config", "kafka.ssl.key.password", "apiKey", "api_token",
     "fs.s3a.secret.key", "fs.azure.account.key.x", "clientSecret", "oauth.token", "basic.auth.user.info",
     "fs.azure.account.oauth2.client.secret.x", "apikey", "AWS_SECRET_ACCESS_KEY", "http.auth.pass",
     "header.Authorization", "kafka.ssl.keystore.key", "spark.authenticate.secret"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name, "value")
    assert masked(name, "value") == "***"


@pytest.mark.parametrize(
    "name",
    ["path", "subscribe", "kafka.bootstrap.servers", "maxFilesPerTrigger", "kafka.sasl.mechanism",
     "kafka.ssl.truststore.location", "tokenizer", "header", "author", "maxTokens", "max_tokens", "compass",
     "spark.authenticate", "oauth.enabled", "password.file", "primary_key", "kafka.sasl.login.class",
     "fs.azure.account.oauth.provider.type", "credentials.provider", "token.endpoint.url"],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not looks_secret(name, "value")
    assert masked(name, "value") == "value"


def test_a_secret_inside_a_value() -> None:
    assert masked("url", "jdbc:postgresql://u:geheim@db/shop") == "jdbc:postgresql://***@db/shop"
    assert (
        masked("url", "jdbc:x://db?user=u&password=geheim&ssl=true")
        == "jdbc:x://db?user=u&password=***&ssl=true"
    )

    assert masked("url", "redis://:geheim@cache/0") == "redis://***@cache/0"
    assert masked("url", "x://u:ge@heim@db/a@b") == "x://***@db/a@b"
    assert masked("c", "Endpoint=sb://x/;SharedAccessKey=geheim") == "Endpoint=sb://x/;SharedAccessKey=***"


@pytest.mark.parametrize("value", ["true", "False", " none ", "null", ""])
def test_what_says_nothing_is_no_secret(value: str) -> None:
    assert masked("password", value) == value
    assert masked("url", f"jdbc:x://db?token={value}") == f"jdbc:x://db?token={value}"
    assert secrets_in("password", value) == ()


@pytest.mark.parametrize("value", ["123456", "-1", "0.5", "abc"])
def test_numbers_and_a_few_letters_are_masked_in_their_place_alone(value: str) -> None:
    assert masked("password", value) == "***"
    assert secrets_in("password", value) == ()
    assert secrets_in("url", f"jdbc:x://db?password={value}") == ()


def test_what_must_not_be_shown() -> None:
    assert secrets_in("spark.authenticate", "false") == ()
    assert secrets_in("kafka.sasl.jaas.config", JAAS) == tuple(sorted((JAAS, "geheim")))
    assert secrets_in("url", "amqp://u:geheim@host") == ("u:geheim",)
    assert secrets_in("path", "/data/in") == ()
