"""Secrets that stand in a file."""

from __future__ import annotations

import pytest

from headwater.checks import Situation
from headwater.checks.declarations import is_clear_secret, secret_in_clear
from headwater.plan import Graph
from tests.unit.specs import spec_of


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "abc"),
        ("kafka.ssl.truststore.password", "abc"),
        ("ssl.keyPassword", "abc"),
        ("apiToken", "4f9d"),
        ("api_key", "4f9d"),
        ("client-secret", "4f9d"),
        ("spark.hadoop.fs.s3a.secret.key", "4f9d"),
        ("spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net", "4f9d"),
        ("kafka.sasl.jaas.config", "org.apache.Plain required;"),
        ("url", "postgresql://me:abc@host/shop"),
        ("url", "jdbc:postgresql://host/shop?user=me&password=abc"),
    ],
)
def test_a_secret_is_known_by_its_key_or_its_form(key: str, value: str) -> None:
    assert is_clear_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", ""),
        ("password.file", "/run/secrets/db"),
        ("spark.authenticate.secret", "false"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.amazonaws.Provider"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "https://login.example.com/token"),
        ("spark.kafka.clusters.a.sasl.token.mechanism", "SCRAM"),
        ("tokenizer", "simple"),
        ("primary_key", "id"),
        ("partition.key", "id"),
        ("path", "/data/me@home/in"),
        ("url", "https://example.com:8443/api"),
        ("mode", "passwords"),
    ],
)
def test_what_only_sounds_like_one(key: str, value: str) -> None:
    assert not is_clear_secret(key, value)


def test_secrets_are_told_at_their_lines_and_never_shown() -> None:
    spec = spec_of(
        """
        name: p
        spark:
          spark.hadoop.fs.s3a.secret.key: abracadabra
          spark.sql.shuffle.partitions: 2
        sources:
          rows:
            connector: rate
            options:
              token: abracadabra
              password: ${secret:WORD}
        sinks:
          out:
            reads: rows
            connector: files
            format: json
            path: s3a://me:abracadabra@bucket/out
            options: {secret: "abracadabra"}
        """
    )
    found = list(secret_in_clear.findings(Situation(spec, Graph.of(spec))))
    assert [
        (each.problem.code, each.problem.params["key"], each.problem.place and each.problem.place.line)
        for each in found
    ] == [
        ("HW-SECRET-IN-CLEAR", "token", 9),
        ("HW-SECRET-IN-CLEAR", "path", 16),
        ("HW-SECRET-IN-CLEAR", "secret", 17),
        ("HW-SECRET-IN-SETTINGS", "spark.hadoop.fs.s3a.secret.key", 3),
    ]
    assert {each.severity.value for each in found} == {"warning"}
    assert [each.sink for each in found] == ["", "out", "out", ""]
    assert "abracadabra" not in " ".join(str(each.problem) for each in found)
    assert "`${secret:NAME}`" in found[0].problem.remedy
