"""The keys of the Kafka source, and what becomes of them on the way to Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.connectors.kafka import KafkaSource
from headwater.connectors.kafka.source_options import Position, places
from headwater.values import secret

SASL = {"mechanism": "PLAIN", "user": "u", "password": secret("P")}
ONE: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "topic": "clicks"}


def read(root: Path = Path("/project"), **written: Any) -> KafkaSource:
    return KafkaSource.model_validate(written, context={"root": root})


def refusal(**written: Any) -> str:
    with pytest.raises(ValidationError) as error:
        read(**written)
    (only,) = error.value.errors()
    return str(only["msg"])


def test_a_source_starts_with_all_that_there_is() -> None:
    source = read(**ONE)
    assert (source.start, source.end, source.on_data_loss, source.on_topic_recreated) == (
        Position("earliest"),
        Position("latest"),
        "fail",
        "fail",
    )


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("latest", Position("latest")),
        (
            {"offsets": {"clicks": {"0": 23, 1: "latest"}}},
            Position("earliest", {"clicks": {0: 23, 1: "latest"}}),
        ),
        ({"offsets": {"clicks": {"0": 0}}, "default": "latest"}, Position("latest", {"clicks": {0: 0}})),
        ({"timestamp": "2026-01-31 12:00:00"}, Position("earliest", times=datetime(2026, 1, 31, 12))),
        (
            {"timestamp": "2026-01-31", "fallback": "latest"},
            Position("earliest", times=datetime(2026, 1, 31), fallback="latest"),
        ),
        (
            {"timestamp": {"a": "2026-01-31T00:00:00+00:00", "b": {"1": datetime(2026, 1, 1)}}},
            Position(
                "earliest", times={"a": datetime(2026, 1, 31, tzinfo=UTC), "b": {1: datetime(2026, 1, 1)}}
            ),
        ),
    ],
)
def test_a_start_is_a_word_offsets_or_times(written: Any, place: Any) -> None:
    assert read(**ONE, start=written).start == place


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"start": "earlist"}, "did you mean `earliest`?"),
        ({"start": 5}, "expected `earliest`, `latest`, offsets or a timestamp"),
        ({"start": {"offset": {}}}, "expected `earliest`, `latest`, offsets or a timestamp"),
        ({"start": {"offsets": {"clicks": 5}}}, "must map topics to offsets by partition"),
        ({"start": {"offsets": {"clicks": {"x": 5}}}}, "`x` is not a partition number"),
        (
            {"start": {"offsets": {"clicks": {"0": -5}}}},
            "`-5` is not a valid offset; use a non-negative integer",
        ),
        (
            {"start": {"offsets": {"clicks": {"0": 5}}, "fallback": "fail"}},
            "unknown key `fallback` in `start`",
        ),
        ({"start": {"timestamp": "yesterday"}}, "`yesterday` is not a timestamp"),
        ({"start": {"timestamp": "2026-01-01", "fallback": "earliest"}}, "expected `latest` or `fail`"),
        ({"start": {"timestamp": "2026-01-01", "default": "first"}}, "`start.default`, got `first`"),
        (
            {"start": {"time": "2026-01-01"}},
            "`start.time` was renamed to `start.timestamp`; write `timestamp`",
        ),
        (
            {"end": {"offsets": {"a": {"0": 1}}, "others": "latest"}},
            "`end.others` was renamed to `end.default`",
        ),
        ({"end": "earliest"}, "leaves no messages to read"),
        ({"end": {"timestamp": "2026-01-01", "fallback": "latest"}}, "`fallback` applies only to `start`"),
        ({"topic_pattern": "c.*"}, "exactly one of `topic`, `topic_pattern` and `partitions`"),
        ({"topic": None}, "exactly one of `topic`, `topic_pattern` and `partitions`"),
        ({"bootstrap_servers": "localhost"}, "expected `host:port`, got `localhost`"),
        ({"min_rows_per_batch": 9, "max_rows_per_batch": 3}, "`min_rows_per_batch` (9) is greater than"),
        ({"max_wait": "1 minute"}, "`max_wait` requires `min_rows_per_batch`"),
        ({"group_id": "g", "group_id_prefix": "p"}, "`group_id_prefix` has no effect with `group_id`"),
        ({"options": {"startingOffsets": "latest"}}, "set the key `start` instead"),
        ({"options": {"kafka.bootstrap.servers": "x:1"}}, "set `bootstrap_servers` instead"),
        ({"tls": {}, "options": {"Kafka.SSL.truststore.location": "x"}}, "conflicts with `tls`"),
        ({"tls": {}, "options": {"kafka.sasl.jaas.config": "x"}}, "conflicts with `tls`"),
        ({"sasl": SASL, "options": {"kafka.sasl.jaas.config": "x"}}, "conflicts with `sasl`"),
        ({"sasl": SASL, "options": {"kafka.security.protocol": "SSL"}}, "conflicts with `sasl`"),
        ({"topic": "a,b"}, "write several topics as a list"),
        ({"topic": ["a", "b c"]}, "`b c` is not a valid topic name"),
        ({"topic": ".."}, "`..` is not a valid topic name"),
        ({"topic": "a" * 250}, "is not a valid topic name"),
        ({"topic": None, "partitions": {"a/b": [0]}}, "`a/b` is not a valid topic name"),
        ({"topic": None, "partitions": {"a": []}}, "`partitions` is empty for topic `a`"),
        ({"sasl": {"mechanism": "PLAIN", "user": "u", "password": "open"}}, "write ${secret:NAME}"),
        ({"tls": {"certificate": "no.pem"}}, "not found; set it to the path of a PEM file"),
        ({"tls": {"key_password": secret("P")}}, "`key_password` requires `key`"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], says: str) -> None:
    assert says in refusal(**{**ONE, **keys})


def test_a_password_in_clear_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as error:
        read(**ONE, sasl={"mechanism": "PLAIN", "user": "u", "password": "hunter2"})
    assert "hunter2" not in str(error.value.errors(include_input=False))


def test_a_checkpoint_is_bound_to_topics_and_not_to_servers() -> None:
    assert places(read(**ONE)) == ("kafka:clicks",)
    assert places(read(bootstrap_servers="a:1", topic=["b", "a"])) == ("kafka:a", "kafka:b")
    assert places(read(bootstrap_servers="a:1", topic_pattern="a.*")) == ("kafka:/a.*/",)
    assert places(read(bootstrap_servers="a:1", partitions={"a": [1, 0]})) == ("kafka:a[0, 1]",)


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is hidden beside the password in P."""
    texts: list[str] = []
    monkeypatch.setenv("P", 'pa"ss\\word')
    monkeypatch.setattr("headwater.connectors.kafka.servers.hidden", texts.append)
    return texts


def test_a_password_is_quoted_as_java_wants_it(hidden: list[str]) -> None:
    source = read(**ONE, sasl={"mechanism": "SCRAM-SHA-512", "user": 'a"b', "password": secret("P")})
    entry = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a\\"b" password="pa\\"ss\\\\word";'
    )
    assert source.connection() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": entry,
    }
    assert hidden == ['pa\\"ss\\\\word', entry]
    assert source.hidden_options() == {"kafka.sasl.jaas.config"}
    assert [route for route, _ in source.secrets()] == [("sasl", "password")]


def test_a_certificate_that_only_another_user_may_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("-- ca --\n")

    def forbidden(path: Path, **_: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(ValidationError) as error:
        read(tmp_path, **ONE, tls={"ca": "ca.pem"})
    (only,) = error.value.errors()
    assert only["loc"][-2:] == ("tls", "ca")
    assert "ca.pem (Permission denied); fix its permissions" in only["msg"]


def test_certificates_go_along_as_texts(tmp_path: Path, hidden: list[str]) -> None:
    for name in ("ca", "client", "key"):
        (tmp_path / f"{name}.pem").write_text(f"-- {name} --\n")
    tls = {"ca": "ca.pem", "certificate": "client.pem", "key": "key.pem", "key_password": secret("P")}
    source = read(tmp_path, **ONE, tls=tls)
    assert source.connection() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-- ca --\n",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "-- client --\n",
        "kafka.ssl.keystore.key": "-- key --\n",
        "kafka.ssl.key.password": 'pa"ss\\word',
    }
    assert hidden == ["-- key --\n"]
    assert source.hidden_options() == {"kafka.ssl.keystore.key", "kafka.ssl.key.password"}
