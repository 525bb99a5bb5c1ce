from __future__ import annotations

from pathlib import Path

from headwater.dev import Listener
from headwater.dev.broker import server_properties


def read(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_every_way_in_is_on_loopback_and_replication_is_one() -> None:
    settings = read(server_properties(Path("/d"), {"PLAINTEXT": 9092}, 9093))
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert settings["log.dirs"] == "/d"
    assert {value for key, value in settings.items() if key.endswith("replication.factor")} == {"1"}


def test_a_listener_brings_its_protocol_and_its_own_settings() -> None:
    tls = Listener("TLS", "SSL", {"ssl.keystore.type": "PEM"})
    settings = read(server_properties(Path("/d"), {"PLAINTEXT": 1, "TLS": 2}, 3, [tls]))
    assert settings["listeners"].split(",")[1] == "TLS://127.0.0.1:2"
    assert settings["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL"
    assert settings["listener.name.tls.ssl.keystore.type"] == "PEM"


def test_what_the_user_sets_wins_and_is_written_so_that_java_reads_it() -> None:
    text = server_properties(Path("/a b"), {"PLAINTEXT": 1}, 2, extra={"num.io.threads": "7", "x": "a\\b\nc"})
    assert "num.io.threads=7\n" in text
    assert "x=a\\\\b\\nc\n" in text
    assert "log.dirs=/a b\n" in text
    # Java takes the file for Latin-1, and writes what is beyond it in halves of four digits.
    far = server_properties(Path("/josé/🦉"), {"PLAINTEXT": 1}, 2)
    assert "log.dirs=/jos\\u00e9/\\ud83e\\udd89\n" in far
