"""Reading bytes in Python: which schemas are known, and whom a failure is blamed on."""

from __future__ import annotations

import json
import socketserver
import threading
from datetime import time
from pathlib import Path

import pytest

from headwater.connectors.decoding import executors
from headwater.connectors.decoding.executors import (
    KNOWN,
    UNKNOWN,
    RegistryFailed,
    RegistryFolder,
    SchemaDecisions,
)
from headwater.connectors.decoding.options import ask_again
from headwater.run_directory import RunDirectory
from tests.encoded import avro, numbered
from tests.schema_registry import PASSWORD, USER, StandIn, schema_registry

ONE = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "long"}]}
RECORD = avro(ONE, {"id": 7})
GOOD, BAD = ('{"id": 7}', None, None), (None, "unknown_schema_id", "5")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a worker of its own."""
    kept: dict[object, object] = {}
    monkeypatch.setattr(executors, "_kept", lambda: kept)
    monkeypatch.setattr(executors, "_PAUSES", (0.0, 0.0))


def server(registry: StandIn) -> executors.RegistryServer:
    return executors.RegistryServer(registry.url, USER, PASSWORD)


def test_the_first_answer_counts_for_every_query(tmp_path: Path) -> None:
    folder = str(RunDirectory(tmp_path).source("birds").registry / "value")
    with schema_registry() as registry:
        query, quarantine = (
            executors.avro_by_number(server(registry), None, SchemaDecisions(folder)) for _ in range(2)
        )
        assert query(numbered(5, RECORD)) == BAD
        registry.add(5, ONE)
        assert quarantine(numbered(5, RECORD)) == query(numbered(5, RECORD)) == BAD
        assert registry.asked == ["/schemas/ids/5"]
        ask_again(RunDirectory(tmp_path).source("birds"))
        assert quarantine(numbered(5, RECORD)) == query(numbered(5, RECORD)) == GOOD


def test_two_answers_at_one_moment_are_one(tmp_path: Path) -> None:
    early, late = SchemaDecisions(str(tmp_path / "notes")), SchemaDecisions(str(tmp_path / "notes"))
    assert early.found(5) is None
    assert early.decide(5, UNKNOWN) == late.decide(5, KNOWN) == early.found(5) == UNKNOWN
    assert late.decide(6, KNOWN) == early.decide(6, UNKNOWN) == KNOWN
    assert sorted(path.name for path in (tmp_path / "notes").iterdir()) == ["5", "6"]


def test_a_schema_that_was_there_and_is_gone_is_no_fault_of_the_row(tmp_path: Path) -> None:
    decided = SchemaDecisions(str(tmp_path))
    decided.decide(5, KNOWN)
    with schema_registry() as registry, pytest.raises(RuntimeError, match="no longer exists"):
        executors.avro_by_number(server(registry), None, decided)(numbered(5, RECORD))


def test_without_a_folder_a_worker_asks_once() -> None:
    with schema_registry() as registry:
        read = executors.avro_by_number(server(registry), None, SchemaDecisions(None))
        assert [read(numbered(5, RECORD)) for _ in range(3)] == [BAD] * 3
        assert registry.asked == ["/schemas/ids/5"]
        registry.add(5, ONE)
        assert (
            executors.avro_by_number(server(registry), None, SchemaDecisions(None))(numbered(5, RECORD))
            == GOOD
        )


@pytest.mark.parametrize("code", [408, 429, 503])
def test_a_registry_that_is_busy_is_asked_again(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with schema_registry() as registry:
        registry.add(5, ONE)
        answer, busy = registry.answer, [code]
        monkeypatch.setattr(registry, "answer", lambda path: (busy.pop(), {}) if busy else answer(path))
        assert server(registry).schema(5) == registry.schemas[5]
        busy.append(403)
        with pytest.raises(RegistryFailed, match="403"):
            server(registry).schema(5)


def test_a_schema_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "5.avsc").write_text(json.dumps(ONE)[:20])
    folder = RegistryFolder(str(tmp_path))
    read = executors.avro_by_number(folder, None, SchemaDecisions(str(tmp_path / "notes")))
    with pytest.raises(RuntimeError, match="avsc is not valid JSON"):
        read(numbered(5, RECORD))
    (tmp_path / "5.avsc").write_text(json.dumps(ONE))
    assert read(numbered(5, RECORD)) == GOOD


def record(*types: object) -> dict[str, object]:
    fields = [{"name": name, "type": type_} for name, type_ in zip("abc", types, strict=False)]
    return {"type": "record", "name": "R", "fields": fields}


CHOICES = record(["null", "long", "string"], {"type": "enum", "name": "E", "symbols": ["x", "y"]}, "E")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("02040200", '{"a": 2, "b": "y", "c": "x"}'),
        ("02040100", None),
        ("02040201", None),
        ("02040400", None),
        ("0102620000", None),
        ("060000", None),
    ],
)
def test_no_number_that_is_none_of_a_union_or_an_enum_is_read(data: str, found: str | None) -> None:
    bad = (None, "malformed", "not a record of the schema")
    read = executors.avro(json.dumps(CHOICES))
    assert read(bytes.fromhex(data)) == ((found, None, None) if found else bad)


def test_a_record_is_brought_to_another_union_and_another_enum() -> None:
    wanted = record(["null", "double"], {"type": "enum", "name": "E", "symbols": ["y"], "default": "y"})
    with schema_registry() as registry:
        registry.add(5, CHOICES)
        read = executors.avro_by_number(server(registry), json.dumps(wanted), SchemaDecisions(None))
        assert read(numbered(5, bytes.fromhex("02040000"))) == ('{"a": 2.0, "b": "y"}', None, None)
        assert read(numbered(5, bytes.fromhex("01040000")))[1] == "malformed"


ENDLESS = "an array whose items take no bytes is not supported"
NOTHING = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "data", "says"),
    [
        (record(["null", "R"]), b"\x02" * 2000 + b"\0", "recursive type R is not supported"),
        (record({"type": "array", "items": record("long") | {"name": "S"}}, {"type": "map", "values": "R"}),
         b"\0\0", "recursive type R is not supported"),
        (record({"type": "array", "items": "null"}), b"\0", ENDLESS),
        (record(NOTHING, {"type": "array", "items": "N"}), b"\0", ENDLESS),
        (record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), b"\0",
         ENDLESS),
    ],
)  # fmt: skip
def test_a_schema_whose_bytes_could_end_the_process_reads_nothing(
    schema: dict[str, object], data: bytes, says: str
) -> None:
    with schema_registry() as registry:
        registry.add(5, schema)
        read = executors.avro_by_number(server(registry), None, SchemaDecisions(None))
        assert read(numbered(5, data)) == (None, "malformed", f"schema 5: {says}")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0-OpenSSH_9.6"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "IncompleteRead(1 bytes read, 49 more expected)"),
    ],
)
def test_a_server_that_speaks_another_way_is_no_registry(answer: bytes, reason: str) -> None:
    class Talker(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Talker) as talker:
        thread = threading.Thread(target=talker.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        registry = executors.RegistryServer(f"http://127.0.0.1:{talker.server_address[1]}")
        with pytest.raises(RegistryFailed) as failed:
            registry.ask()
        talker.shutdown()
        thread.join()
    assert str(failed.value) == reason


def test_an_address_that_is_none_is_no_registry() -> None:
    with pytest.raises(RegistryFailed, match="nonnumeric port: '80a1'"):
        executors.RegistryServer("http://localhost:80a1").ask()


def test_a_time_of_day_is_text_and_a_value_of_no_known_kind_no_fault_of_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = {"type": "long", "logicalType": "time-micros"}
    schema = {"type": "record", "name": "At", "fields": [{"name": "at", "type": kind}]}
    data, read = avro(schema, {"at": time(9, 30, 0, 5)}), executors.avro(json.dumps(schema))
    assert read(data) == ('{"at": "09:30:00.000005"}', None, None)
    monkeypatch.setattr(executors, "time_of_day", int)
    with pytest.raises(TypeError):
        read(data)
