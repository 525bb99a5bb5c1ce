"""What is known of Spark's own formats: a plain program names these, where a pipeline names connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.connectors import Connector, Sink, all_connectors
from headwater.spec import Delivery

FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_ALL = ("append", "update", "complete")


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


def _with_format(name: str) -> Connector | None:
    """The connector that reads or writes in the same way as one of Spark's formats."""
    known = all_connectors().values()
    return next((each for each in known if name.lower() in each.spark_formats), None)


def source_format(name: str) -> SourceFormat:
    """What is known of a format as a source."""
    connector = _with_format(name)
    side = connector.source if connector else None
    if connector and side:
        return SourceFormat(
            connector.name,
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
    connector = _with_format(name)
    if connector and connector.sink:
        return _declared(connector.name, connector.sink)
    return _SINKS.get(name.lower(), SinkFormat(name, known=False, continuous=True, real_time=True))


def connector_format(connector: str) -> SinkFormat:
    """What a connector of Headwater says of itself as a sink; of one that is no sink nothing is known."""
    side = all_connectors()[connector].sink if connector in all_connectors() else None
    return (
        _declared(connector, side)
        if side
        else SinkFormat(connector, known=False, continuous=True, real_time=True)
    )


def _declared(connector: str, side: Sink[Any]) -> SinkFormat:
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
