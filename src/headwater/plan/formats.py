"""What is known of Spark's own formats: a plain program names these, where a pipeline names connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.connectors import all_connectors
from headwater.spec import Delivery, SinkSide

FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_ALL = ("append", "update", "complete")

_CONNECTORS = {
    **dict.fromkeys(FILES, "files"),
    "com.databricks.spark.csv": "files",
    "console": "console",
    "foreach": "foreach",
    "foreachbatch": "foreach_batch",
    "kafka": "kafka",
    "memory": "memory",
    "noop": "noop",
    "rate": "rate",
    "rate-micro-batch": "rate_per_batch",
    "socket": "socket",
    "textsocket": "socket",
}
"""Spark's formats by the connector that reads or writes in the same way."""


@dataclass(frozen=True)
class SourceFormat:
    """A format as a source."""

    connector: str
    """The connector of this name, or the format's own name where there is none."""
    known: bool = True
    replayable: bool = True
    continuous: bool = False
    """Whether it can feed a continuous query; of a format that is not known nothing is denied."""
    real_time: bool = False
    made_while_running: bool = False
    idle_options: tuple[str, ...] = ()
    """Options that do nothing in a continuous query."""


@dataclass(frozen=True)
class SinkFormat:
    """A format as a sink; of one that is not known nothing is claimed."""

    connector: str
    modes: tuple[str, ...] = ()
    delivery: str = ""
    known: bool = True
    continuous: bool = False
    real_time: bool = False


# Formats that Headwater has no connector for, and whose ways are known all the same.
_SOURCES = {
    "delta": SourceFormat("delta"),
    "iceberg": SourceFormat("iceberg"),
}
_SINKS = {
    "delta": SinkFormat("delta", ("append", "complete"), Delivery.IDEMPOTENT.name),
    "iceberg": SinkFormat("iceberg", ("append", "complete"), Delivery.IDEMPOTENT.name),
}


def source_format(name: str) -> SourceFormat:
    """What is known of a format as a source."""
    connector = _CONNECTORS.get(name.lower())
    side = all_connectors()[connector].source if connector else None
    if connector and side:
        return SourceFormat(
            connector,
            replayable=side.replayable,
            continuous=side.continuous is not None,
            real_time=side.real_time is not None,
            made_while_running=side.made_while_running,
            idle_options=side.continuous.without if side.continuous else (),
        )
    unknown = SourceFormat(name, known=False, continuous=True, real_time=True)
    return _SOURCES.get(name.lower(), unknown)


def sink_format(name: str) -> SinkFormat:
    """What is known of a format as a sink."""
    connector = _CONNECTORS.get(name.lower())
    side = all_connectors()[connector].sink if connector else None
    if connector and side:
        return _declared(connector, side)
    return _SINKS.get(name.lower(), SinkFormat(name, known=False, continuous=True, real_time=True))


def connector_format(connector: str) -> SinkFormat:
    """What a connector of Headwater says of itself as a sink; of one that is no sink nothing is known."""
    side = all_connectors()[connector].sink if connector in all_connectors() else None
    return (
        _declared(connector, side)
        if side
        else SinkFormat(connector, known=False, continuous=True, real_time=True)
    )


def _declared(connector: str, side: SinkSide) -> SinkFormat:
    return SinkFormat(
        connector,
        tuple(mode for mode in _ALL if mode in side.modes),
        side.delivery.name,
        continuous=side.continuous,
        real_time=side.real_time,
    )


def place_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The places that the options of a source or sink name: paths, topics, tables, addresses."""
    given = {key.lower(): value for key, value in options.items()}
    if "path" in given or "paths" in given:
        return (given.get("path") or given["paths"],)
    topics = [given[key] for key in ("subscribe", "subscribepattern", "assign", "topic") if key in given]
    if topics:
        return tuple(topics[0].split(",")) if "subscribe" in given else (topics[0],)
    if "host" in given and "port" in given:
        return (f"{given['host']}:{given['port']}",)
    return tuple(given[key] for key in ("dbtable", "table") if key in given)


def name_for(format: str, places: tuple[str, ...]) -> str:
    """A short name for what a plain program reads: the folder, the topic, or else the format."""
    if not places:
        return format
    parts = [part for part in places[0].rstrip("/").split("/") if part and "*" not in part]
    return parts[-1] if parts else format
