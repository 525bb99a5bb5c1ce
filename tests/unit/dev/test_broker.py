from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.dev import Broker, Listener
from headwater.dev.broker import knows_itself, server_properties
from headwater.errors import SetupError
from headwater.jars import BROKER


def refusal(broker: Broker) -> tuple[str, dict[str, object]]:
    with pytest.raises(SetupError) as caught:
        broker.start()
    (problem,) = caught.value.problems
    return problem.code, dict(problem.params)


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's jars are not asked for."""
    monkeypatch.setattr(Broker, "_java", lambda self: ("java", ""))


@pytest.mark.usefixtures("jars")
def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        found = refusal(Broker(tmp_path / "b", port=port))
    assert found == ("HW-PORT-IN-USE", {"port": port, "host": "127.0.0.1"})
    assert not (tmp_path / "b").exists()


@pytest.mark.usefixtures("jars")
def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, params = refusal(Broker(tmp_path / "file" / "b"))
    assert (code, params) == (
        "HW-BROKER-DIR-UNWRITABLE",
        {"folder": str(tmp_path / "file" / "b"), "reason": "Not a directory"},
    )


def test_without_java_it_says_so_before_it_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.spark.java._from_package", lambda environ: None)
    code, _ = refusal(Broker(tmp_path / "b", environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}))
    assert code == "HW-JAVA-MISSING"
    assert list(tmp_path.iterdir()) == []


def test_every_jar_stands_by_exact_version_and_checksum() -> None:
    names = [artifact.coordinates(release) for artifact in BROKER for release in artifact.releases]
    assert len(names) == len(set(names)) == 46
    assert "org.apache.kafka:kafka_2.13:4.3.1" in names
    assert all(len(artifact.releases[0].sha256) == 64 for artifact in BROKER)


def metadata(*ports: int) -> bytes:
    """What a broker says that knows of brokers on these ports."""
    brokers = b"".join(
        struct.pack(">ih4sih", number, 4, b"host", port, -1) for number, port in enumerate(ports)
    )
    return struct.pack(">ii", 1, len(ports)) + brokers


@contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """A server that answers one request, or hangs up; its port stands for 0 in the answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4))
                connection.recv(size)
                if answer is not None:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(port)
        thread.join()


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert not knows_itself("127.0.0.1", port)


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request", metadata(), metadata(1, 2)])
def test_another_answer_is_not_one(answer: bytes | None) -> None:
    with server(answer) as port:
        assert not knows_itself("127.0.0.1", port)


def test_a_broker_that_lists_itself_serves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                answer = metadata(1, port)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert knows_itself("127.0.0.1", port)
        thread.join()


def read(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


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
