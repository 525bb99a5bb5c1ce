"""TLS and SASL on a real broker, and secrets that turn up nowhere."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.api.explain import explain
from headwater.dev import Broker
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.kafka.conftest import CERTIFICATES, PASSWORD, USER
from tests.messages import consume, produce
from tests.pipelines import batches, rows_of, run_until_idle, run_while, wait_for, write
from tests.processes import headwater

KEY_PASSWORD = "canary-key-91"
PASSWORDS = {"KAFKA_PASSWORD": PASSWORD, "KEY_PASSWORD": KEY_PASSWORD}
# A line from the middle of the private key.
KEY_LINE = (CERTIFICATES / "client.pbes1.key").read_text().splitlines()[2]
CANARIES = (PASSWORD, KEY_PASSWORD, KEY_LINE)
CA = "tls: {ca: certificates/ca.pem}"
BOTH = (
    "tls: {ca: certificates/ca.pem, certificate: certificates/client.pem, "
    "key: certificates/client.pbes1.key, key_password: '${secret:KEY_PASSWORD}'}"
)


def sasl(mechanism: str) -> str:
    return f"sasl: {{mechanism: {mechanism}, user: {USER}, password: '${{secret:KAFKA_PASSWORD}}'}}"


WAYS = {
    "plain": ("SASLPLAIN", sasl("PLAIN")),
    "scram_256": ("SASLSCRAM", sasl("SCRAM-SHA-256")),
    "scram_512": ("SASLSCRAM", sasl("SCRAM-SHA-512")),
    "tls": ("TLS", CA),
    "tls_both": ("MTLS", BOTH),
    "sasl_tls": ("SASLTLS", f"{CA}, {sasl('PLAIN')}"),
}


def pipeline(folder: Path, broker: Broker, topic: str, ways: dict[str, tuple[str, str]]) -> Path:
    """One query that reads a topic through several ways in."""
    shutil.copytree(CERTIFICATES, folder / "certificates", dirs_exist_ok=True)
    lines = ["name: secured", "sources:"]
    for name, (listener, keys) in ways.items():
        reached = f"bootstrap_servers: '{broker.address(listener)}', topic: {topic}, schema: {{n: int}}"
        lines.append(f"  {name}: {{connector: kafka, {reached}, {keys}}}")
    union = " UNION ALL ".join(f"SELECT '{name}' AS way, n FROM {name}" for name in ways)
    sink = "{reads: every, connector: files, path: out, format: json}"
    return write(folder, "\n".join([*lines, f"tables:\n  every: {union}", f"sinks:\n  out: {sink}"]))


def told_in(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def held_in(folder: Path) -> dict[str, list[str]]:
    """Every file that holds a secret, the certificates apart."""
    found: dict[str, list[str]] = {}
    for file in folder.rglob("*"):
        if file.is_file() and "certificates" not in file.parts:
            told = told_in(file.read_bytes().decode("utf-8", "replace"))
            if told:
                found[str(file)] = told
    return found


def log_folder(factory: pytest.TempPathFactory) -> Path:
    """Where the JVM of all tests writes its log."""
    folder = factory.getbasetemp() / "jvm0"
    assert any(file.is_file() and file.stat().st_size for file in folder.rglob("*.log"))
    return folder


@pytest.mark.feature("B4.7")
def test_every_way_in_works_and_shows_no_secret(
    spark: SparkSession,
    tmp_path: Path,
    broker: Broker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for name, value in PASSWORDS.items():
        monkeypatch.setenv(name, value)
    produce(broker.servers, topic, [{"n": 1}, {"n": 2}])
    file = pipeline(tmp_path, broker, topic, WAYS)
    events: list[Event] = []
    plans: list[str] = []

    def look(run: Run) -> None:
        wait_for(lambda: sum(each.rows_in for each in batches(events, "out")) == 12, run)
        plans.append(run._supervisor.queries["out"].query.plan())

    run_while(file, look, events)
    rows = rows_of(spark, tmp_path / "out", schema="way string, n int")
    assert rows == Counter((way, n) for way in WAYS for n in (1, 2))
    explained = explain(file)
    texts = {
        "events": repr([event.to_json() for event in events]),
        "plan": plans[0],
        "explain": repr(explained) + repr(explained.to_json()),
    }
    assert "Kafka" in texts["plan"]
    assert {name: told_in(text) for name, text in texts.items()} == {name: [] for name in texts}
    assert held_in(tmp_path) == {}
    # Spark's own log, of this JVM and whatever ran in it before.
    assert held_in(log_folder(tmp_path_factory)) == {}


@pytest.mark.feature("B4.7", part="no secret in the run folder, the output or the list of processes")
def test_a_process_shows_no_secret(tmp_path: Path, broker: Broker, topic: str) -> None:
    produce(broker.servers, topic, [{"n": 1}, {"n": 2}])
    ways = {name: WAYS[name] for name in ("scram_512", "tls_both")}
    file = pipeline(tmp_path, broker, topic, ways)
    with headwater(tmp_path, "run", file, "--json", **PASSWORDS) as running:
        running.until(lambda: any(each["event"] == "query_progress" for each in running.events))
        listed = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                listed[process.name] = (process / "cmdline").read_text(errors="replace")
            except OSError:
                continue  # it ended meanwhile
        assert any("java" in command for command in listed.values())
        assert {pid: told_in(command) for pid, command in listed.items() if told_in(command)} == {}
        running.process.terminate()
        assert running.wait() == 0
    assert (tmp_path / ".headwater/logs/spark.log").exists()
    assert held_in(tmp_path) == {}


@pytest.mark.feature("B4.7", part="a sink, also one that fails")
def test_a_sink_shows_no_secret_also_when_it_fails(
    spark: SparkSession,
    tmp_path: Path,
    broker: Broker,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    incoming, outgoing = make_topic(), make_topic()
    shutil.copytree(CERTIFICATES, tmp_path / "certificates")
    listener, keys = WAYS["sasl_tls"]
    reached = f"connector: kafka, bootstrap_servers: '{broker.address(listener)}', {keys}"
    # Restarts of the failing sink would only make the test wait.
    text = f"""
name: secured
restart: never
sources:
  numbers: {{{reached}, topic: {incoming}, schema: {{n: int}}}}
sinks:
  out: {{reads: numbers, {reached}, topic: {outgoing}, value: json, options: {{kafka.max.block.ms: 2000}}}}
"""
    produce(broker.servers, incoming, [{"n": 1}])
    events: list[Event] = []
    assert run_until_idle(write(tmp_path, text), events).exit_code == 0
    assert [record.json for record in consume(broker.servers, outgoing)] == [{"n": 1}]
    produce(broker.servers, incoming, [{"n": 2}])
    failed = run_until_idle(write(tmp_path, text.replace(outgoing, "nowhere")), events)
    problem: Any = failed.queries["out"].problem
    assert (failed.exit_code, problem.code) == (1, "HW-KAFKA-SINK-TOPIC-NOT-FOUND")
    assert "kafka010" in (tmp_path / ".headwater/logs/failures.log").read_text()
    assert told_in(repr([event.to_json() for event in events]) + str(problem) + str(problem.detail)) == []
    assert held_in(tmp_path) == {}
    assert held_in(log_folder(tmp_path_factory)) == {}


@pytest.mark.feature("B4.7", part="who is not let in is told so before the start")
def test_who_is_not_let_in_is_told_before_the_start(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "not-the-canary")
    monkeypatch.setenv("KEY_PASSWORD", "not-the-canary")
    refused: dict[str, Any] = {}
    for name in ("plain", "scram_512", "tls_both"):
        file = pipeline(tmp_path / name, broker, topic, {name: WAYS[name]})
        refused[name] = [each for each in check(file).findings if each.is_error]
    newer = WAYS["tls_both"][1].replace("pbes1", "encrypted")
    file = pipeline(tmp_path / "newer", broker, topic, {"newer": ("MTLS", newer)})
    refused["newer"] = [each for each in check(file).findings if each.is_error]
    # A broker of which nobody knows who signs for it.
    file = pipeline(tmp_path / "trust", broker, topic, {"trust": ("TLS", "tls: {}")})
    refused["trust"] = [each for each in check(file).findings if each.is_error]
    assert {name: [each.code for each in found] for name, found in refused.items()} == {
        "plain": ["HW-KAFKA-AUTHENTICATION-FAILED"],
        "scram_512": ["HW-KAFKA-AUTHENTICATION-FAILED"],
        "tls_both": ["HW-KAFKA-SETTINGS-INVALID"],
        "newer": ["HW-KAFKA-KEY-ENCRYPTION-UNSUPPORTED"],
        "trust": ["HW-KAFKA-AUTHENTICATION-FAILED"],
    }
    assert not any("not-the-canary" in str(each.problem) for found in refused.values() for each in found)


def test_a_secret_that_is_not_set_is_named(
    tmp_path: Path, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    file = pipeline(tmp_path, broker, topic, {"plain": WAYS["plain"]})
    (found,) = check(file, offline=True).findings
    assert (found.code, found.problem.params["name"]) == ("HW-SECRET-NOT-SET", "KAFKA_PASSWORD")
    assert found.location.startswith(f"{file}:3:")
