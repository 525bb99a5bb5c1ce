"""The settings of a single broker that is its own controller, on this machine only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
PLAIN = "PLAINTEXT"
_CONTROLLER = "CONTROLLER"
_ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": PLAIN,
    "controller.listener.names": _CONTROLLER,
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # After a kill it is let in again as soon as its former life counts as over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    # Sizes for a laptop.
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


@dataclass(frozen=True)
class Listener:
    """One more way in: its protocol (`SSL`, `SASL_PLAINTEXT`, `SASL_SSL`) and settings of this way only.

    `settings` have Kafka's names without the prefix, such as `ssl.keystore.location`,
    `sasl.enabled.mechanisms` or `plain.sasl.jaas.config`.
    """

    name: str
    protocol: str
    settings: Mapping[str, str] = field(default_factory=dict)


def server_properties(
    data: Path,
    ports: Mapping[str, int],
    controller_port: int,
    listeners: Sequence[Listener] = (),
    extra: Mapping[str, str] | None = None,
) -> str:
    """The text of `server.properties`; `ports` has one for the plain listener and for each other one."""
    ways = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    protocols = {PLAIN: PLAIN, _CONTROLLER: PLAIN, **{each.name: each.protocol for each in listeners}}
    settings = {
        **_ONE_NODE,
        "log.dirs": str(data),
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"{ways},{_CONTROLLER}://{HOST}:{controller_port}",
        "advertised.listeners": ways,
        "listener.security.protocol.map": ",".join(f"{name}:{way}" for name, way in protocols.items()),
        **{
            f"listener.name.{each.name.lower()}.{key}": value
            for each in listeners
            for key, value in each.settings.items()
        },
        **(extra or {}),
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    """As Java reads it, which takes such a file for Latin-1."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    units = escaped.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)
