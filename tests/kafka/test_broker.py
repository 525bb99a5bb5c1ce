"""The broker that the tests and `headwater dev kafka` use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.dev import Broker
from headwater.dev.topics import add_partitions, delete_topic, partitions
from headwater.values.processes import process_start_time
from tests.messages import Message, consume, fresh_topic, offsets, produce


def test_messages_come_back_as_they_were_sent(broker: Broker) -> None:
    topic = fresh_topic(broker.servers, 2)
    sent = [
        Message(b"\x00\xff", b"k", [("h", b"1"), ("h", None)], partition=1, timestamp=1000),
        Message(None, b"gone", partition=0),
    ]
    assert produce(broker.servers, topic, sent) == [(1, 0), (0, 0)]
    produce(broker.servers, topic, [{"a": 1}, "text"], partition=0)
    found = consume(broker.servers, topic)
    assert [(each.partition, each.offset, each.key, each.value) for each in found] == [
        (0, 0, b"gone", None),
        (0, 1, None, b'{"a": 1}'),
        (0, 2, None, b"text"),
        (1, 0, b"k", b"\x00\xff"),
    ]
    assert (found[3].headers, found[3].timestamp) == ((("h", b"1"), ("h", None)), 1000)
    assert offsets(broker.servers, topic) == {0: (0, 3), 1: (0, 1)}


def test_topics_grow_and_go(broker: Broker, topic: str) -> None:
    add_partitions(broker.servers, topic, 3)
    assert partitions(broker.servers)[topic] == 3
    delete_topic(broker.servers, topic)
    assert topic not in partitions(broker.servers)


def test_after_a_kill_it_is_back_on_its_port_with_its_messages(broker: Broker, topic: str) -> None:
    servers, pid = broker.servers, broker.pid
    produce(servers, topic, ["before"])
    broker.kill()
    assert not broker.runs
    assert process_start_time(pid) is None
    broker.start()
    assert (broker.servers, broker.pid == pid) == (servers, False)
    produce(servers, topic, ["after"])
    assert [each.value for each in consume(servers, topic)] == [b"before", b"after"]


PASSWORD = {"sasl_username": "alice", "sasl_password": "canary-7f3a"}
PLAIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **PASSWORD}
CERTIFICATES = Path(__file__).parent / "certificates"
TLS = {"security_protocol": "SSL", "ssl_ca_location": str(CERTIFICATES / "ca.pem")}
CLIENT = {
    "ssl_certificate_location": str(CERTIFICATES / "client.pem"),
    "ssl_key_location": str(CERTIFICATES / "client.encrypted.key"),
    "ssl_key_password": "canary-key-91",
}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("SASLPLAIN", PLAIN),
    "scram 256": ("SASLSCRAM", {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}),
    "scram 512": ("SASLSCRAM", {**PLAIN, "sasl_mechanism": "SCRAM-SHA-512"}),
    "tls": ("TLS", TLS),
    "tls both ways": ("MTLS", {**TLS, **CLIENT}),
    "tls and password": ("SASLTLS", {**PLAIN, **TLS, "security_protocol": "SASL_SSL"}),
}


def test_every_way_in_takes_who_knows_it(broker: Broker, topic: str) -> None:
    for way, (listener, login) in WAYS.items():
        produce(broker.address(listener), topic, [way], **login)
    assert [each.value.decode() for each in consume(broker.servers, topic) if each.value] == list(WAYS)
