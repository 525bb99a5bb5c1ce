from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headwater.dev import Broker
from headwater.dev.broker import reason_of
from headwater.errors import EnvironmentProblem
from headwater.jars import BROKER


def refusal(broker: Broker) -> tuple[str, dict[str, object]]:
    with pytest.raises(EnvironmentProblem) as caught:
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
    assert found == ("HW-PORT-TAKEN", {"port": port, "host": "127.0.0.1"})
    assert not (tmp_path / "b").exists()


@pytest.mark.usefixtures("jars")
def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, params = refusal(Broker(tmp_path / "file" / "b"))
    assert (code, params) == (
        "HW-BROKER-FOLDER",
        {"folder": str(tmp_path / "file" / "b"), "reason": "Not a directory"},
    )


def test_without_java_it_says_so_before_it_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.spark.java._from_package", lambda environ: None)
    code, _ = refusal(Broker(tmp_path / "b", environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}))
    assert code == "HW-JAVA-MISSING"
    assert list(tmp_path.iterdir()) == []


def test_the_reason_is_the_last_error_in_the_log() -> None:
    log = "x INFO a: up\nx ERROR b: bad thing.\n\tat some.Class\njava.lang.Error: Exception here\nx INFO shut"
    assert reason_of(log) == "java.lang.Error: Exception here"
    assert reason_of("x INFO a: up\n") == "x INFO a: up"
    assert reason_of("") == "it said nothing"


def test_every_jar_stands_by_exact_version_and_checksum() -> None:
    names = [artifact.coordinates(release) for artifact in BROKER for release in artifact.releases]
    assert len(names) == len(set(names)) == 46
    assert "org.apache.kafka:kafka_2.13:4.3.1" in names
    assert all(len(artifact.releases[0].sha256) == 64 for artifact in BROKER)
